//! The operations whose growth is measured: one row each, in the order in which they run.

use super::check::GrowthBound;
use super::grown::{GrownHost, SLOT, WORKFLOW};
use crate::client::{Client, Request, memory};
use crate::corpus::MEMORY;
use crate::host::KEY;
use crate::reads::QueryWords;
use crate::runs;
use anyhow::{Context, bail};
use serde_json::json;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The entries of a page of a list or of events.
const PAGE: usize = 100;
/// The token budget of a recall.
const RECALL_TOKENS: usize = 800;
/// The entries of a subject that is forgotten.
const SUBJECT_ENTRIES: usize = 3;
/// The first pass over a large memory takes this long at most.
const JOB_WAIT_MAX: Duration = Duration::from_secs(1_800);

type PreparationFn = fn(&mut GrownHost, Range<usize>) -> anyhow::Result<()>;
type OperationFn = fn(&mut GrownHost, usize) -> anyhow::Result<()>;

/// An operation to measure.
pub struct Operation {
    pub name: &'static str,
    pub bound: GrowthBound,
    /// True if it leaves work to passes, which is measured with it.
    pub writes: bool,
    /// How often it is done for one measurement.
    pub count: usize,
    /// A preparation for these numbers, which is not measured.
    pub prepare: Option<PreparationFn>,
    /// Does it for the n-th time.
    pub run: OperationFn,
}

const fn read(
    name: &'static str,
    bound: GrowthBound,
    count: usize,
    prepare: Option<PreparationFn>,
    run: OperationFn,
) -> Operation {
    Operation {
        name,
        bound,
        writes: false,
        count,
        prepare,
        run,
    }
}

const fn write(
    name: &'static str,
    bound: GrowthBound,
    count: usize,
    prepare: Option<PreparationFn>,
    run: OperationFn,
) -> Operation {
    Operation {
        name,
        bound,
        writes: true,
        count,
        prepare,
        run,
    }
}

use GrowthBound::{Constant, Search, Unbounded};

/// All operations. Each round of deletes deletes what the puts of that round have made, and
/// searches come first, so that all of them read the memory as it was filled.
#[rustfmt::skip]
pub static OPERATIONS: [Operation; 20] = [
    read("search, 2 rare words", Unbounded, 100, Some(warm_search), |host, n| {
        let words = QueryWords::Rare.content_words(&host.contents, n).join(" ");
        search(host, &words)
    }),
    read("search, a question", Search, 100, Some(warm_search), |host, n| {
        let words = question(host, n);
        search(host, &words)
    }),
    read("search, 3 common words", Unbounded, 50, Some(warm_search), |host, _| {
        search(host, "one time people")
    }),
    read("recall, 800 tokens", Search, 50, Some(|host, of| recall(host, of.start)), recall),
    read("get", Constant, 300, Some(warm_get), |host, n| {
        let id = host.some_id(n);
        host.get(&format!("entries/{id}")).map(drop)
    }),
    read("list, a page of 100", Constant, 100, None, list_page),
    read("history, 5 answers", Constant, 200, None, |host, _| {
        host.get(&format!("slots/{SLOT}")).map(drop)
    }),
    read("stats", Constant, 200, None, |host, _| host.get("stats").map(drop)),
    read("lineage", Unbounded, 200, None, |host, n| {
        let id = host.some_id(n);
        host.get(&format!("entries/{id}/lineage")).map(drop)
    }),
    read("memories of the tenant", Unbounded, 100, None, |host, _| {
        host.get_from("/v1/host/remembrancer/memory").map(drop)
    }),
    read("retention", Unbounded, 20, None, |host, _| {
        let path = format!("/v1/host/remembrancer/retention?memoryRef={MEMORY}");
        host.get_from(&path).map(drop)
    }),
    read("events, a page of 100", Unbounded, 100, None, |host, n| {
        let after = n * 7919 % host.entries;
        let path = format!("/v1/host/remembrancer/events?after={after}&limit={PAGE}");
        host.get_from(&path).map(drop)
    }),
    write("put", Constant, 100, None, put),
    write("delete", Constant, 100, None, delete),
    write("batch of 100", Unbounded, 1, None, put_batch),
    write("delete of those 100", Unbounded, 100, None, delete),
    write("run, write and read back", Constant, 20, None, |host, n| {
        let mut client = runs::run_client(host.address(), WORKFLOW)?;
        client(n).map(drop)
    }),
    write("forget a subject of 3 entries", Unbounded, 10, Some(put_subjects), |host, n| {
        let body = json!({"subject": format!("subject-{n}")});
        host.post_to("/v1/host/remembrancer/forget", &body).map(drop)
    }),
    write("pass consolidate, nothing new", Unbounded, 1, Some(|host, _| consolidate(host)),
        |host, _| consolidate(host)),
    // Five seconds, so that most timers of the runner have a turn.
    read("the runner without work, a second", Unbounded, 5, None, |_, _| {
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }),
];

fn question(host: &GrownHost, n: usize) -> String {
    let words = QueryWords::Question
        .content_words(&host.contents, n)
        .join(" ");
    format!("what did they do about the {words}?")
}

fn search(host: &mut GrownHost, query: &str) -> anyhow::Result<()> {
    host.post("search", &json!({"query": query})).map(drop)
}

/// The first search builds the index.
fn warm_search(host: &mut GrownHost, _: Range<usize>) -> anyhow::Result<()> {
    search(host, "people")
}

fn warm_get(host: &mut GrownHost, numbers: Range<usize>) -> anyhow::Result<()> {
    let id = host.some_id(numbers.end);
    host.get(&format!("entries/{id}")).map(drop)
}

fn recall(host: &mut GrownHost, n: usize) -> anyhow::Result<()> {
    let query = question(host, n);
    let body = json!({"query": query, "tokenBudget": RECALL_TOKENS, "abstain": false});
    host.post("recall", &body).map(drop)
}

/// Reads the page after the one that was read last, or the first again.
fn list_page(host: &mut GrownHost, _: usize) -> anyhow::Result<()> {
    let cursor = host.cursor.take();
    let cursor = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
    let page = host.get(&format!("entries?limit={PAGE}{cursor}"))?;
    host.cursor = page["nextCursor"].as_str().map(str::to_owned);
    Ok(())
}

fn put(host: &mut GrownHost, n: usize) -> anyhow::Result<()> {
    let content = host.contents.at(20_000_000 + n);
    let entry = host.post("entries", &json!({"content": content}))?;
    let id = entry["id"].as_str().context("an entry has an id")?;
    host.written.push(id.to_owned());
    Ok(())
}

fn put_batch(host: &mut GrownHost, n: usize) -> anyhow::Result<()> {
    let texts = (0..PAGE).map(|row| host.contents.at(30_000_000 + n * PAGE + row));
    let entries: Vec<_> = texts.map(|content| json!({"content": content})).collect();
    let answer = host.post("entries:batch", &json!({"entries": entries}))?;
    let entries = answer["entries"]
        .as_array()
        .context("a batch has entries")?;
    let ids = entries.iter().filter_map(|entry| entry["id"].as_str());
    host.written.extend(ids.map(str::to_owned));
    Ok(())
}

/// Deletes an entry that a put has made.
fn delete(host: &mut GrownHost, _: usize) -> anyhow::Result<()> {
    let id = host.written.pop().context("there were as many puts")?;
    let path = memory(MEMORY, &format!("entries/{id}"));
    host.client.send(&Request::delete(KEY, &path))?;
    Ok(())
}

fn put_subjects(host: &mut GrownHost, numbers: Range<usize>) -> anyhow::Result<()> {
    for n in numbers {
        let entry = |row: usize| {
            let content = host.contents.at(40_000_000 + n * SUBJECT_ENTRIES + row);
            json!({"content": content, "subjects": [format!("subject-{n}")]})
        };
        let entries: Vec<_> = (0..SUBJECT_ENTRIES).map(entry).collect();
        host.post("entries:batch", &json!({"entries": entries}))?;
    }
    Ok(())
}

/// Runs the pass over the memory and waits for the end of its job.
fn consolidate(host: &mut GrownHost) -> anyhow::Result<()> {
    let begun = Instant::now();
    let path = "/v1/host/remembrancer/passes/consolidate/run";
    let job = host.post_to(path, &json!({"memoryRef": MEMORY}))?;
    let id = job["id"].as_str().context("a job has an id")?;
    let path = format!("/v1/host/remembrancer/jobs/{id}");
    // A connection of its own, because the first run over a large memory takes minutes.
    let mut client = Client::connect(host.address())?;
    while begun.elapsed() < JOB_WAIT_MAX {
        let job: serde_json::Value =
            serde_json::from_slice(client.send(&Request::get(KEY, &path))?)?;
        match job["state"].as_str() {
            Some("done") => return Ok(()),
            Some("failed" | "cancelled") => bail!("the pass failed: {job}"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("the pass did not end")
}
