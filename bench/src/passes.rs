//! `passes`: consolidation, distillation, compaction and forget over the embedded store on disk, in
//! this process: everything but HTTP. Times are wall clock; memory is that of the process beyond
//! its memory before the pass.

use crate::consolidate;
use crate::corpus::Contents;
use crate::facts::{process_bytes, reset_peak_memory};
use crate::table::{Table, mib, number};
use crate::{Setup, facts};
use anyhow::{Context, anyhow, ensure};
use remem_core::{Draft, MemoryRef, Permission, Policy, TenantId};
use remem_engine::jobs::{Trigger, WorkReport};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{RandomIds, SystemClock};
use remem_engine::{Caller, Engine, EngineParts, HostKey};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of entries of one transaction while the store is filled.
const FILL: usize = 1_000;
/// The number of entries about the subject that is forgotten.
const ABOUT: usize = 100;

struct PassBench {
    engine: Engine,
    caller: Caller,
}

/// The result and the cost of one pass.
struct MeasuredPass {
    report: WorkReport,
    time: Duration,
    memory: u64,
}

pub fn run(setup: &Setup, sizes: &[usize]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let heads = ["Entries", "→ out", "first pass", "µs an entry", "memory", "second pass", "1 % new", "forget 100 of them"];
        let mut table = Table::new(&heads);
        for &size in sizes {
            table.row(measure_consolidation(setup, size).await?);
        }
        table.print("## Passes: consolidation of texts of about 200 bytes on the embedded store, and one subject forgotten among them");
        measure_digests(setup).await
    })
}

impl PassBench {
    async fn new(setup: &Setup) -> anyhow::Result<PassBench> {
        let location = Location::Folder(setup.new_folder("passes")?);
        let store = Arc::new(SqliteStore::open(location.clone(), 4)?);
        let directory = Arc::new(SqliteDirectory::open(&location)?);
        let parts = EngineParts::new(
            store,
            directory,
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            HostKey::new([7; 32]),
        );
        let engine = Engine::new(EngineParts {
            policy: Policy::default(),
            ..parts
        });
        let tenant = TenantId::parse("bench").context("a tenant's name")?;
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key("bench", request).await.map_err(to_anyhow)?;
        let caller = engine
            .authenticate("bench")
            .await
            .map_err(|denied| anyhow!("{denied}"))?;
        Ok(PassBench { engine, caller })
    }

    async fn fill(&self, memory_ref: &str, drafts: Vec<Draft>) -> anyhow::Result<()> {
        let mut drafts = drafts.into_iter().peekable();
        while drafts.peek().is_some() {
            let page: Vec<Draft> = drafts.by_ref().take(FILL).collect();
            self.engine
                .put(&self.caller, memory_ref, page, None)
                .await
                .map_err(to_anyhow)?;
        }
        Ok(())
    }

    async fn pass(
        &self,
        name: &str,
        memory_ref: &str,
        options: Value,
    ) -> anyhow::Result<MeasuredPass> {
        let memory_ref = MemoryRef::parse(memory_ref).context("a memory's name")?;
        let options: Map<String, Value> = options.as_object().cloned().unwrap_or_default();
        let before = process_bytes(std::process::id(), "VmRSS")?;
        reset_peak_memory()?;
        let begun = Instant::now();
        let work = self.engine.run_job_and_wait(
            self.caller.tenant(),
            name,
            Some(&memory_ref),
            options,
            Trigger::OnDemand,
        );
        let report = work.await.map_err(|error| anyhow!("{name}: {error:?}"))?;
        let time = begun.elapsed();
        let memory = process_bytes(std::process::id(), "VmHWM")?.saturating_sub(before);
        Ok(MeasuredPass {
            report,
            time,
            memory,
        })
    }
}

fn to_anyhow(error: remem_engine::EngineError) -> anyhow::Error {
    anyhow!("{error}")
}

fn text(content: String) -> Draft {
    Draft {
        content,
        ..Draft::default()
    }
}

async fn measure_consolidation(setup: &Setup, size: usize) -> anyhow::Result<Vec<String>> {
    let bench = PassBench::new(setup).await?;
    let texts = consolidate::texts(&Contents::new(), size + size / 100);
    let mut first: Vec<String> = texts[..size].to_vec();
    let later: Vec<String> = texts[size..].to_vec();
    drop(texts);
    let subject = bench
        .engine
        .subject_digests(&bench.caller, &["somebody".to_owned()])
        .map_err(to_anyhow)?;
    let every = (size / ABOUT).max(1);
    let mut drafts = Vec::with_capacity(size);
    for (n, content) in first.drain(..).enumerate() {
        let subjects = if n % every == 0 {
            subject.clone()
        } else {
            Vec::new()
        };
        drafts.push(Draft {
            subjects,
            ..text(content)
        });
    }
    drop(first);
    bench.fill("m", drafts).await?;
    eprintln!(
        "{size} entries stored; load {}",
        facts::load_average().unwrap_or_default()
    );
    let one = bench.pass("consolidate", "m", json!({})).await?;
    let two = bench.pass("consolidate", "m", json!({})).await?;
    ensure!(two.report.changed == 0, "a second pass changed something");
    bench
        .fill("m", later.into_iter().map(text).collect())
        .await?;
    let new = bench.pass("consolidate", "m", json!({})).await?;
    let begun = Instant::now();
    let forgotten = bench
        .engine
        .forget(&bench.caller, "somebody", false)
        .await
        .map_err(to_anyhow)?;
    let forget = begun.elapsed();
    ensure!(
        !forgotten.report.report.erased.is_empty(),
        "nothing was forgotten"
    );
    let each = one.time.as_secs_f64() * 1e6 / size as f64;
    Ok(vec![
        number(size as f64),
        number(size as f64 - one.report.changed as f64),
        seconds(one.time),
        format!("{each:.1}"),
        mib(one.memory),
        seconds(two.time),
        seconds(new.time),
        format!(
            "{} ({} erased)",
            seconds(forget),
            forgotten.report.report.erased.len()
        ),
    ])
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

async fn measure_digests(setup: &Setup) -> anyhow::Result<()> {
    let contents = Contents::new();
    let mut table = Table::new(&["Pass", "entries", "time", "what came of it", "memory"]);
    let bench = PassBench::new(setup).await?;
    bench
        .fill("d", (0..5_000).map(|n| text(contents.at(n))).collect())
        .await?;
    let warm = bench
        .pass("distill", "d", json!({"tokenBudget": 60_000}))
        .await?;
    let number_of = |taken: &MeasuredPass, name: &str| {
        taken
            .report
            .detail
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let what = format!(
        "{} of {} tokens used",
        number(number_of(&warm, "tokensUsed") as f64),
        number(60_000.0)
    );
    table.row([
        "distill, for the first time".to_owned(),
        number(5_000.0),
        seconds(warm.time),
        what,
        mib(warm.memory),
    ]);
    let next = bench
        .pass("distill", "d", json!({"tokenBudget": 50_000}))
        .await?;
    let what = format!(
        "{} of {} tokens used",
        number(number_of(&next, "tokensUsed") as f64),
        number(50_000.0)
    );
    table.row([
        "distill, another budget".to_owned(),
        number(5_000.0),
        seconds(next.time),
        what,
        mib(next.memory),
    ]);
    let again = bench
        .pass("distill", "d", json!({"tokenBudget": 50_000}))
        .await?;
    table.row([
        "distill, the same again".to_owned(),
        number(5_000.0),
        seconds(again.time),
        "nothing".to_owned(),
        mib(again.memory),
    ]);
    bench
        .fill("c", (0..10_000).map(|n| text(contents.at(n))).collect())
        .await?;
    let compact = bench
        .pass("compact", "c", json!({"include": "all"}))
        .await?;
    let outputs = compact
        .report
        .detail
        .get("outputs")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    table.row([
        "compact".to_owned(),
        number(10_000.0),
        seconds(compact.time),
        format!("{outputs} entries"),
        mib(compact.memory),
    ]);
    table.print(
        "## Passes: distillation and compaction on the embedded store, texts of about 200 bytes",
    );
    Ok(())
}
