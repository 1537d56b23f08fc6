//! consolidate: reconciles a memory with itself. Near-duplicates are merged into the newest
//! wording, facts that were answered anew are superseded, and what several entries say gains
//! support.
//!
//! Every text is read once in its life: what the plan needs of it is stored as a signature. A pass
//! then reads signatures (96 bytes an entry) and only those texts that may be merged. Nothing is
//! deleted and no text is written: a merged entry keeps its own text behind the one that stands for
//! it.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{Job, WorkError, WorkReport};
use crate::registry::Mode;
use remem_core::consolidate::{Decision, Handle, Item, Planner, Signature, order_key};
use remem_core::event::Consolidated;
use remem_core::sabotage;
use remem_core::{
    Batch, Entry, EntryId, EventBody, Precondition, Reason, Record, RecordKind, Typology,
};
use remem_store::{Outcome, ReadAt, RowCursor};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Texts read, signed or compared at once.
const PAGE: u32 = 500;
/// Signatures read at once.
const SIGNATURES: u32 = 5_000;
/// Decisions of one transaction.
const DECISIONS: usize = 250;
/// Names in the event at the most.
const NAMES_MAX: usize = 100;

/// What the last pass over the memory left for the next.
struct Before {
    record: Option<Record>,
    /// The last pass that came to its end: what it signed is compared already.
    completed: u64,
    /// A later one began and did not end.
    open: bool,
}

/// The planner knows an entry by one number, a store by two; the first one is the same for all
/// entries of a memory.
struct Plan {
    planner: Planner,
    home: i64,
}

impl Plan {
    fn add(&mut self, row: RowCursor, handle: Handle) {
        self.home = row.0;
        self.planner.add(handle);
    }
}

fn cursors(home: i64, rows: &[u64]) -> Vec<RowCursor> {
    rows.iter()
        .map(|row| RowCursor(home, row.cast_signed()))
        .collect()
}

/// What was done.
#[derive(Default)]
struct Done {
    merged: u64,
    superseded: u64,
    names: Vec<EntryId>,
}

/// One activation over one memory.
pub async fn work(engine: &Engine, job: &Job<'_>) -> Result<WorkReport, WorkError> {
    let at = ReadAt::Now(engine.now_for(job.tenant()).await?);
    let mut before = look_back(engine, job).await?;
    let input = engine.parts.store.stats(job.scope(), &at).await?.entries;
    let mut planner = Plan {
        planner: Planner::with_capacity(usize::try_from(input).unwrap_or(0)),
        home: 0,
    };
    let fresh = sign(engine, job, &mut before, &mut planner, input).await?;
    let done = if sabotage!(
        "a-consolidation-that-died-is-not-gone-on-with",
        fresh || before.open,
        fresh
    ) {
        load(engine, job, &before, &mut planner, input).await?;
        reconcile(engine, job, planner).await?
    } else {
        Done::default()
    };
    if job.mode() == Mode::Apply {
        conclude(engine, job, &before, input, &done).await?;
    }
    let changed = done.merged + done.superseded;
    let output = input.saturating_sub(done.merged + done.superseded);
    let detail = json!({"inputCount": input, "outputCount": output, "merged": done.merged, "superseded": done.superseded});
    Ok(WorkReport {
        examined: input,
        changed,
        detail: detail.as_object().cloned().unwrap_or_default(),
    })
}

fn key(job: &Job<'_>) -> String {
    format!(
        "consolidate/{}",
        blake3::hash(job.memory_ref().as_str().as_bytes()).to_hex()
    )
}

async fn look_back(engine: &Engine, job: &Job<'_>) -> Result<Before, EngineError> {
    let record = engine
        .parts
        .store
        .record(job.tenant(), RecordKind::Progress, &key(job))
        .await?;
    let field = |name: &str| record.as_ref().and_then(|record| record.body.get(name));
    let completed = field("pass").and_then(Value::as_u64).unwrap_or(0);
    let open = field("open").and_then(Value::as_bool).unwrap_or(false);
    Ok(Before {
        record,
        completed,
        open,
    })
}

/// Notes the state of passes over this memory. Somebody else's note means that somebody else is at
/// it.
async fn note(
    engine: &Engine,
    job: &Job<'_>,
    batch: Batch,
    before: &Before,
    pass: u64,
    open: bool,
) -> Result<Batch, EngineError> {
    let policy = engine.policy_for(job.tenant()).await?;
    let rules = engine.rules(job.tenant()).await?;
    let mut body = Map::new();
    body.insert("pass".to_owned(), json!(pass));
    body.insert("open".to_owned(), json!(open));
    let body = rules.admission(&policy, engine.now()).record(body);
    let precondition = before
        .record
        .as_ref()
        .map_or(Precondition::Absent, |record| {
            Precondition::Version(record.version)
        });
    Ok(batch.set(RecordKind::Progress, key(job), precondition, body))
}

/// Notes that a pass is under way: should it not come to its end, the next one compares what this
/// one signed.
async fn begin(engine: &Engine, job: &Job<'_>, before: &Before) -> Result<Before, WorkError> {
    let batch =
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?).fenced(job.fence());
    engine
        .parts
        .store
        .commit(note(engine, job, batch, before, before.completed, true).await?)
        .await?;
    Ok(look_back(engine, job).await?)
}

/// Computes and stores what is missing; in a dry run it goes to the planner instead. Answers
/// whether there was any.
async fn sign(
    engine: &Engine,
    job: &Job<'_>,
    before: &mut Before,
    planner: &mut Plan,
    total: u64,
) -> Result<bool, WorkError> {
    let mut after = None;
    let mut signed = 0u64;
    loop {
        job.progress("signing", signed, total).await?;
        let page = engine
            .parts
            .store
            .unsigned(job.scope(), after, PAGE)
            .await?;
        let Some((last, _)) = page.last() else {
            return Ok(signed > 0);
        };
        after = Some(*last);
        signed += page.len() as u64;
        let page = signatures(page).await?;
        if job.mode() != Mode::Apply {
            page.iter().for_each(|(row, entry, signature)| {
                planner.add(*row, handle(*row, entry, *signature, true))
            });
            continue;
        }
        if !before.open {
            *before = begin(engine, job, before).await?;
        }
        let mut batch = Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?)
            .fenced(job.fence());
        for (_, entry, signature) in &page {
            batch = batch.sign(
                job.memory_ref().clone(),
                entry.id.clone(),
                before.completed + 1,
                signature.to_bytes().to_vec(),
            );
        }
        engine.parts.store.commit(batch).await?;
    }
}

/// A page's signatures, off the async threads.
async fn signatures(
    page: Vec<(RowCursor, Entry)>,
) -> Result<Vec<(RowCursor, Entry, Signature)>, WorkError> {
    let work = move || {
        let signed = page.into_iter().map(|(row, entry)| {
            let signature = Signature::of(&item(&entry));
            (row, entry, signature)
        });
        signed.collect::<Vec<_>>()
    };
    Ok(tokio::task::spawn_blocking(work)
        .await
        .expect("computing a signature does not panic"))
}

fn item(entry: &Entry) -> Item {
    let metadata = entry
        .metadata
        .as_ref()
        .map(|map| Value::Object(map.clone()).to_string());
    Item {
        text: entry.content.clone(),
        tags: entry.tags.clone(),
        metadata,
    }
}

fn handle(row: RowCursor, entry: &Entry, signature: Signature, fresh: bool) -> Handle {
    let created_at = entry.created_at;
    let order = order_key(entry.id.as_str());
    Handle {
        row: row.1.cast_unsigned(),
        created_at,
        order,
        class: class(entry.typology),
        trust: entry.facets.trust,
        fresh,
        signature,
    }
}

/// A fact and a procedure are never the same thing.
fn class(typology: Typology) -> u32 {
    match typology {
        Typology::Episodic => 1,
        Typology::Semantic => 2,
        Typology::Procedural => 3,
    }
}

/// Tells the planner of every signature that is stored.
async fn load(
    engine: &Engine,
    job: &Job<'_>,
    before: &Before,
    planner: &mut Plan,
    total: u64,
) -> Result<(), WorkError> {
    let mut after = None;
    let mut read = 0u64;
    let mut strange = Vec::new();
    loop {
        job.progress("reading", read, total).await?;
        let page = engine
            .parts
            .store
            .signatures(job.scope(), after, SIGNATURES)
            .await?;
        let Some(last) = page.last() else { break };
        after = Some(last.row);
        read += page.len() as u64;
        for signed in page {
            let Some(signature) = Signature::from_bytes(&signed.signature) else {
                strange.push(signed.row);
                continue;
            };
            let order = order_key(signed.id.as_str());
            let fresh = signed.pass > before.completed;
            let row = signed.row.1.cast_unsigned();
            planner.add(
                signed.row,
                Handle {
                    row,
                    created_at: signed.created_at,
                    order,
                    class: class(signed.typology),
                    trust: signed.trust,
                    fresh,
                    signature,
                },
            );
        }
    }
    // Signed by another version: computed anew.
    for rows in strange.chunks(PAGE as usize) {
        let page = signatures(engine.parts.store.entries_at(job.scope(), rows).await?).await?;
        let mut batch = Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?)
            .fenced(job.fence());
        for (row, entry, signature) in &page {
            planner.add(*row, handle(*row, entry, *signature, true));
            batch = batch.sign(
                job.memory_ref().clone(),
                entry.id.clone(),
                before.completed + 1,
                signature.to_bytes().to_vec(),
            );
        }
        if job.mode() == Mode::Apply {
            engine.parts.store.commit(batch).await?;
        }
    }
    Ok(())
}

/// Reads the texts that matter, newest first, and carries the decisions out as they come.
async fn reconcile(engine: &Engine, job: &Job<'_>, planner: Plan) -> Result<Done, WorkError> {
    let home = planner.home;
    let planner = planner.planner;
    let mut cover = tokio::task::spawn_blocking(move || planner.seal())
        .await
        .expect("planning does not panic");
    let total = cover.texts() as u64;
    let mut seen = 0u64;
    let mut done = Done::default();
    let mut decisions = cover.take_decisions();
    loop {
        job.progress("comparing", seen, total).await?;
        let rows = cover.wanted(PAGE as usize);
        let last = rows.is_empty();
        let found = if last {
            Vec::new()
        } else {
            engine
                .parts
                .store
                .entries_at(job.scope(), &cursors(home, &rows))
                .await?
        };
        seen += rows.len() as u64;
        let work = move || {
            let mut items: HashMap<u64, Item> = found
                .iter()
                .map(|(row, entry)| (row.1.cast_unsigned(), item(entry)))
                .collect();
            rows.into_iter()
                .for_each(|row| cover.offer(row, items.remove(&row)));
            let decided = cover.take_decisions();
            (cover, decided)
        };
        let (back, decided) = tokio::task::spawn_blocking(work)
            .await
            .expect("comparing does not panic");
        cover = back;
        decisions.extend(decided);
        while decisions.len() >= DECISIONS || (last && !decisions.is_empty()) {
            let rest = decisions.split_off(decisions.len().min(DECISIONS));
            apply(
                engine,
                job,
                home,
                std::mem::replace(&mut decisions, rest),
                &mut done,
            )
            .await?;
            job.progress("comparing", seen, total).await?;
        }
        if last {
            return Ok(done);
        }
    }
}

/// One transaction. An entry that is gone by now makes its decision void.
async fn apply(
    engine: &Engine,
    job: &Job<'_>,
    home: i64,
    decisions: Vec<Decision>,
    done: &mut Done,
) -> Result<(), WorkError> {
    let mut rows: Vec<u64> = decisions
        .iter()
        .flat_map(|decision| {
            let (gone, kept, _) = parts(decision);
            [gone, kept]
        })
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let found = engine
        .parts
        .store
        .entries_at(job.scope(), &cursors(home, &rows))
        .await?;
    let ids: HashMap<u64, EntryId> = found
        .into_iter()
        .map(|(row, entry)| (row.1.cast_unsigned(), entry.id))
        .collect();
    let mut batch = sabotage!(
        "consolidation-is-not-fenced",
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?).fenced(job.fence()),
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?)
    );
    let mut retired = Vec::new();
    for decision in &decisions {
        let (gone, kept, reason) = parts(decision);
        if let (Some(gone), Some(kept)) = (ids.get(&gone), ids.get(&kept)) {
            batch = batch.retire(job.memory_ref().clone(), gone.clone(), reason, kept.clone());
            retired.push((gone.clone(), reason));
        }
    }
    let outcomes = match job.mode() {
        Mode::Apply => engine.parts.store.commit(batch).await?.outcomes,
        _ => vec![Outcome::Removed; retired.len()],
    };
    for ((id, reason), _) in retired
        .into_iter()
        .zip(outcomes)
        .filter(|(_, outcome)| *outcome == Outcome::Removed)
    {
        done.merged += u64::from(reason == Reason::Merged);
        done.superseded += u64::from(reason == Reason::Superseded);
        if done.names.len() <= NAMES_MAX {
            done.names.push(id);
        }
    }
    Ok(())
}

fn parts(decision: &Decision) -> (u64, u64, Reason) {
    match decision {
        Decision::Merge { member, leader } => (*member, *leader, Reason::Merged),
        Decision::Supersede { old, by } => (*old, *by, Reason::Superseded),
    }
}

/// The pass counts from here on, and says so; also if there was nothing to do.
async fn conclude(
    engine: &Engine,
    job: &Job<'_>,
    before: &Before,
    input: u64,
    done: &Done,
) -> Result<(), WorkError> {
    let batch =
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?).fenced(job.fence());
    let batch = note(engine, job, batch, before, before.completed + 1, false).await?;
    let names = (done.names.len() <= NAMES_MAX)
        .then(|| done.names.iter().map(|id| id.as_str().to_owned()).collect());
    let event = Consolidated {
        memory_ref: job.memory_ref().as_str().to_owned(),
        input_count: input,
        output_count: input.saturating_sub(done.merged + done.superseded),
        merged_ids: names,
        trigger: job.trigger().as_str().to_owned(),
    };
    engine
        .parts
        .store
        .commit(batch.emit(EventBody::Consolidated(event)))
        .await?;
    Ok(())
}
