//! The requests to a running server: one row for each operation that is compared. The corpus is in
//! the memory `bench` before; every text and every query is derived from its number.

use super::fixed_load;
use super::{Group, Scale};
use crate::client::{Client, Request, memory};
use crate::consolidate;
use crate::corpus::{Contents, MEMORY};
use crate::host::{KEY, ServerProcess};
use crate::reads::{QueryWords, ReadOperation};
use crate::runs;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const WORKFLOW: &str = "conformance-agent-memory-redaction";
/// The number of entries of one batch.
const BATCH: usize = 100;
/// The token budget of a recall.
const RECALL_TOKENS: usize = 800;
/// The tokens of a digest for each entry that it is made from: enough to represent them, and less
/// than all of them have.
const DIGEST_TOKENS_AN_ENTRY: usize = 12;
/// The first number of requests that only warm up; far from those that are measured.
const WARM_UP: usize = 50_000_000;
const JOB_WAIT_MAX: Duration = Duration::from_secs(120);

/// The server that a workload uses, and the texts for it.
pub struct WorkloadTarget<'a> {
    pub host: &'a ServerProcess,
    pub contents: &'a Contents,
    pub scale: Scale,
}

/// The result of a workload.
pub struct WorkloadResult {
    /// The number of operations that the processor time is divided by.
    pub operations: usize,
    /// The latency of each request in nanoseconds.
    pub nanos: Vec<u64>,
}

type Preparation = fn(&WorkloadTarget) -> anyhow::Result<()>;
type WorkloadFn = fn(&WorkloadTarget) -> anyhow::Result<WorkloadResult>;

/// An operation to compare.
pub struct Workload {
    pub name: &'static str,
    pub group: Group,
    /// True if it leaves work to passes, which is measured with it.
    pub writes: bool,
    /// A preparation that is not measured.
    pub prepare: Option<Preparation>,
    pub work: WorkloadFn,
}

const fn read(
    name: &'static str,
    group: Group,
    prepare: Option<Preparation>,
    work: WorkloadFn,
) -> Workload {
    Workload {
        name,
        group,
        writes: false,
        prepare,
        work,
    }
}

const fn write(
    name: &'static str,
    group: Group,
    prepare: Option<Preparation>,
    work: WorkloadFn,
) -> Workload {
    Workload {
        name,
        group,
        writes: true,
        prepare,
        work,
    }
}

/// All workloads, in the order in which a round runs them. The first search comes before all
/// others, because a server builds its search index when it is first asked.
#[rustfmt::skip]
pub const WORKLOADS: [Workload; 14] = [
    read("search, the first after a start", Group::Searches, None,
        |t| reads(t, ReadOperation::Search(QueryWords::Rare), 1)),
    read("get", Group::Gets, Some(|t| warm_up(t, ReadOperation::Get, 250)),
        |t| reads(t, ReadOperation::Get, 2_500)),
    read("list, limit 100", Group::Lists, Some(|t| warm_up(t, ReadOperation::List(100), 50)),
        |t| reads(t, ReadOperation::List(100), 600)),
    read("search, 2 rare words", Group::Searches,
        Some(|t| warm_up(t, ReadOperation::Search(QueryWords::Rare), 60)),
        |t| reads(t, ReadOperation::Search(QueryWords::Rare), 600)),
    read("search, a question", Group::Searches,
        Some(|t| warm_up(t, ReadOperation::Search(QueryWords::Question), 40)),
        |t| reads(t, ReadOperation::Search(QueryWords::Question), 400)),
    read("search, 3 common words", Group::Searches,
        Some(|t| warm_up(t, ReadOperation::Search(QueryWords::Common), 20)),
        |t| reads(t, ReadOperation::Search(QueryWords::Common), 200)),
    read("recall, 800 tokens", Group::Recall, Some(|t| recalls(t, WARM_UP, 20).map(|_| ())),
        |t| recalls(t, 0, t.scale.scaled(300))),
    write("put, 1 client", Group::Puts, Some(|t| puts(t, WARM_UP, 1, 50).map(|_| ())),
        |t| puts(t, 1_000_000, 1, 600)),
    write("put, 8 clients", Group::Puts, None, |t| puts(t, 2_000_000, 8, 1_600)),
    write("put, batches of 100, an entry", Group::Puts, None, |t| batches(t, 3_000_000, 15)),
    write("run, write and read back, 4 clients", Group::Runs,
        Some(|t| whole_runs(t, 20).map(|_| ())),
        |t| whole_runs(t, 300)),
    write("pass consolidate", Group::Passes, Some(fill_with_duplicates),
        |t| pass(t, "consolidate", DUPLICATES, json!({}))),
    write("pass consolidate, nothing new", Group::Passes, None,
        |t| pass(t, "consolidate", DUPLICATES, json!({}))),
    // A recall before it loads the tables by which tokens are counted.
    write("pass distill", Group::Passes, Some(|t| recalls(t, WARM_UP, 1).map(|_| ())),
        distill),
];

/// The memory that passes work over; some of its entries say the same.
const DUPLICATES: &str = "duplicates";

fn reads(
    target: &WorkloadTarget,
    read: ReadOperation,
    count: usize,
) -> anyhow::Result<WorkloadResult> {
    send(target, 1, target.scale.scaled(count), |n| {
        read.request(target.contents, target.scale.corpus(), n)
    })
}

fn warm_up(target: &WorkloadTarget, read: ReadOperation, count: usize) -> anyhow::Result<()> {
    send(target, 1, target.scale.scaled(count), |n| {
        read.request(target.contents, target.scale.corpus(), WARM_UP + n)
    })
    .map(|_| ())
}

fn recalls(target: &WorkloadTarget, first: usize, count: usize) -> anyhow::Result<WorkloadResult> {
    send(target, 1, count, |n| {
        let words = QueryWords::Question
            .content_words(target.contents, first + n)
            .join(" ");
        let query = format!("what did they do about the {words}?");
        let body = json!({"query": query, "tokenBudget": RECALL_TOKENS, "abstain": false});
        Request::post(KEY, &memory(MEMORY, "recall"), &body.to_string())
    })
}

fn puts(
    target: &WorkloadTarget,
    first: usize,
    clients: usize,
    count: usize,
) -> anyhow::Result<WorkloadResult> {
    send(target, clients, target.scale.scaled(count), |n| {
        let body = json!({"content": target.contents.at(first + n)}).to_string();
        Request::post(KEY, &memory("puts", "entries"), &body)
    })
}

fn batches(target: &WorkloadTarget, first: usize, count: usize) -> anyhow::Result<WorkloadResult> {
    let work = send(target, 1, target.scale.scaled(count), |n| {
        let texts = (0..BATCH).map(|row| target.contents.at(first + n * BATCH + row));
        batch("batches", texts)
    })?;
    Ok(WorkloadResult {
        operations: work.operations * BATCH,
        ..work
    })
}

/// A request that puts many entries.
pub fn batch(name: &str, texts: impl Iterator<Item = String>) -> Request {
    let entries: Vec<Value> = texts.map(|content| json!({"content": content})).collect();
    let body = json!({"entries": entries}).to_string();
    Request::post(KEY, &memory(name, "entries:batch"), &body)
}

/// The number of entries of the memory that passes work over.
fn duplicates(scale: Scale) -> usize {
    scale.scaled(20) * BATCH
}

fn fill_with_duplicates(target: &WorkloadTarget) -> anyhow::Result<()> {
    let texts = consolidate::texts(target.contents, duplicates(target.scale));
    let mut client = Client::connect(target.host.address())?;
    for page in texts.chunks(BATCH) {
        client.send(&batch(DUPLICATES, page.iter().cloned()))?;
    }
    Ok(())
}

fn whole_runs(target: &WorkloadTarget, count: usize) -> anyhow::Result<WorkloadResult> {
    let count = target.scale.scaled(count);
    let address = target.host.address();
    let nanos = fixed_load::work(4, count, || runs::run_client(address, WORKFLOW))?;
    Ok(WorkloadResult {
        operations: count,
        nanos,
    })
}

/// Sends requests from several clients at once.
pub fn send(
    target: &WorkloadTarget,
    clients: usize,
    count: usize,
    request: impl Fn(usize) -> Request + Sync,
) -> anyhow::Result<WorkloadResult> {
    let nanos = fixed_load::requests(target.host.address(), clients, count, request)?;
    Ok(WorkloadResult {
        operations: count,
        nanos,
    })
}

fn distill(target: &WorkloadTarget) -> anyhow::Result<WorkloadResult> {
    let budget = duplicates(target.scale) * DIGEST_TOKENS_AN_ENTRY;
    pass(
        target,
        "distill",
        DUPLICATES,
        json!({"tokenBudget": budget}),
    )
}

/// Runs a pass over a memory and waits for the end of its job.
fn pass(
    target: &WorkloadTarget,
    name: &str,
    memory_ref: &str,
    options: Value,
) -> anyhow::Result<WorkloadResult> {
    let begun = Instant::now();
    let mut client = Client::connect(target.host.address())?;
    let path = format!("/v1/host/remembrancer/passes/{name}/run");
    let body = json!({"memoryRef": memory_ref, "options": options}).to_string();
    let job: Value = serde_json::from_slice(client.send(&Request::post(KEY, &path, &body))?)?;
    let id = job["id"].as_str().context("a job has an id")?.to_owned();
    let ask = Request::get(KEY, &format!("/v1/host/remembrancer/jobs/{id}"));
    while begun.elapsed() < JOB_WAIT_MAX {
        let job: Value = serde_json::from_slice(client.send(&ask)?)?;
        match job["state"].as_str() {
            Some("done") => {
                return Ok(WorkloadResult {
                    operations: 1,
                    nanos: vec![begun.elapsed().as_nanos() as u64],
                });
            }
            Some("failed" | "cancelled") => bail!("the pass {name} failed: {job}"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("the pass {name} did not end")
}
