//! consolidate: merges near-duplicate entries of a memory into the newest wording, supersedes facts
//! that have a newer answer, and counts how many entries support a statement.
//!
//! Every text is read once in its life, to compute a signature of what the planner needs. Later
//! passes read signatures (96 bytes an entry) and only those texts that may be merged. Nothing is
//! deleted and no text is written: a merged entry keeps its own text behind the entry that
//! represents it.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{JobContext, WorkError, WorkReport};
use crate::registry::PassMode;
use crate::stored::progress::ConsolidateProgress;
use remem_core::consolidate::{Decision, MergeItem, PlanEntry, Planner, Signature, order_key};
use remem_core::event::Consolidated;
use remem_core::sabotage;
use remem_core::{
    Batch, Entry, EntryId, EventBody, HostText, Precondition, Record, RecordKind, RetireReason,
    StoredRecord, Typology,
};
use remem_store::{ChangeOutcome, ReadAt, RowCursor};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Entries read, signed or compared at once.
const PAGE_SIZE: u32 = 500;
/// Signatures read with one query.
const SIGNATURES_PAGE_SIZE: u32 = 5_000;
/// Decisions committed in one transaction.
const DECISIONS_PER_BATCH: usize = 250;
/// Ids listed in the event, at most; with more merged entries the event lists none.
const EVENT_IDS_MAX: usize = 100;

/// The progress record that the previous pass over the memory left.
struct PreviousPass {
    record: Option<Record>,
    /// Number of the last completed pass: entries signed in it or earlier have been compared.
    completed: u64,
    /// Whether a later pass began and did not complete.
    open: bool,
}

/// A planner, and the scope row of its entries. The planner identifies an entry by one number, the
/// store by two; the first of the two is the same for all entries of a memory.
struct ScopedPlanner {
    planner: Planner,
    scope_row: i64,
}

impl ScopedPlanner {
    fn add(&mut self, row: RowCursor, handle: PlanEntry) {
        self.scope_row = row.0;
        self.planner.add(handle);
    }
}

/// The store's cursors for rows that the planner names.
fn row_cursors(home: i64, rows: &[u64]) -> Vec<RowCursor> {
    rows.iter()
        .map(|row| RowCursor(home, row.cast_signed()))
        .collect()
}

/// Counts and ids of the entries that a pass retired.
#[derive(Default)]
struct RetiredEntries {
    merged: u64,
    superseded: u64,
    ids: Vec<EntryId>,
}

/// Consolidates one memory for a job.
pub async fn work(engine: &Engine, job: &JobContext<'_>) -> Result<WorkReport, WorkError> {
    let at = ReadAt::Now(engine.now_for(job.tenant()).await?);
    let mut before = read_progress(engine, job).await?;
    let input = engine.parts.store.stats(job.scope(), &at).await?.entries;
    let mut planner = ScopedPlanner {
        planner: Planner::with_capacity(usize::try_from(input).unwrap_or(0)),
        scope_row: 0,
    };
    let fresh = sign_entries(engine, job, &mut before, &mut planner, input).await?;
    let done = if sabotage!(
        "a-consolidation-that-died-is-not-gone-on-with",
        fresh || before.open,
        fresh
    ) {
        load_signatures(engine, job, &before, &mut planner, input).await?;
        reconcile(engine, job, planner).await?
    } else {
        RetiredEntries::default()
    };
    if job.mode() == PassMode::Apply {
        record_completion(engine, job, &before, input, &done).await?;
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

/// Key of the memory's progress record.
fn progress_key(job: &JobContext<'_>) -> String {
    format!(
        "consolidate/{}",
        blake3::hash(job.memory_ref().as_str().as_bytes()).to_hex()
    )
}

/// Reads the memory's progress record.
async fn read_progress(engine: &Engine, job: &JobContext<'_>) -> Result<PreviousPass, EngineError> {
    let record = engine
        .parts
        .store
        .record(job.tenant(), RecordKind::Progress, &progress_key(job))
        .await?;
    let progress = record.as_ref().and_then(ConsolidateProgress::read);
    let progress = progress.unwrap_or_default();
    Ok(PreviousPass {
        record,
        completed: progress.pass,
        open: progress.open,
    })
}

/// Adds the progress of passes over this memory to a batch. If another process changed the record,
/// the commit conflicts.
async fn set_progress(
    engine: &Engine,
    job: &JobContext<'_>,
    batch: Batch,
    before: &PreviousPass,
    pass: u64,
    open: bool,
) -> Result<Batch, EngineError> {
    let policy = engine.policy_for(job.tenant()).await?;
    let rules = engine.redaction_rules(job.tenant()).await?;
    let key = HostText::new(progress_key(job));
    let progress = ConsolidateProgress { key, pass, open };
    let precondition = before
        .record
        .as_ref()
        .map_or(Precondition::Absent, |record| {
            Precondition::Version(record.version)
        });
    let admission = rules.admission(&policy, engine.now());
    Ok(batch.set_redacted(&progress, precondition, &admission))
}

/// Records that a pass has begun. If it does not complete, the next one compares the entries that
/// this one signed.
async fn mark_open(
    engine: &Engine,
    job: &JobContext<'_>,
    before: &PreviousPass,
) -> Result<PreviousPass, WorkError> {
    let batch =
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?).fenced(job.fence());
    engine
        .parts
        .store
        .commit(set_progress(engine, job, batch, before, before.completed, true).await?)
        .await?;
    Ok(read_progress(engine, job).await?)
}

/// Computes and stores missing signatures; in a dry run hands them to the planner instead. Returns
/// whether any were missing.
async fn sign_entries(
    engine: &Engine,
    job: &JobContext<'_>,
    before: &mut PreviousPass,
    planner: &mut ScopedPlanner,
    total: u64,
) -> Result<bool, WorkError> {
    let mut after = None;
    let mut signed = 0u64;
    loop {
        job.report_progress("signing", signed, total).await?;
        let page = engine
            .parts
            .store
            .entries_without_signature(job.scope(), after, PAGE_SIZE)
            .await?;
        let Some((last, _)) = page.last() else {
            return Ok(signed > 0);
        };
        after = Some(*last);
        signed += page.len() as u64;
        let page = compute_signatures(page).await?;
        if job.mode() != PassMode::Apply {
            page.iter().for_each(|(row, entry, signature)| {
                planner.add(*row, planner_handle(*row, entry, *signature, true))
            });
            continue;
        }
        if !before.open {
            *before = mark_open(engine, job, before).await?;
        }
        let mut batch = Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?)
            .fenced(job.fence());
        for (_, entry, signature) in &page {
            batch = batch.store_signature(
                job.memory_ref().clone(),
                entry.id.clone(),
                before.completed + 1,
                signature.to_bytes().to_vec(),
            );
        }
        engine.parts.store.commit(batch).await?;
    }
}

/// Computes the signatures of a page, on a blocking thread.
async fn compute_signatures(
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

/// The parts of an entry that a signature and a comparison use.
fn item(entry: &Entry) -> MergeItem {
    let metadata = entry
        .metadata
        .as_ref()
        .map(|map| Value::Object(map.clone()).to_string());
    MergeItem {
        text: entry.content.clone(),
        tags: entry.tags.clone(),
        metadata,
    }
}

/// The planner's view of an entry.
fn planner_handle(row: RowCursor, entry: &Entry, signature: Signature, fresh: bool) -> PlanEntry {
    let created_at = entry.created_at;
    let order = order_key(entry.id.as_str());
    PlanEntry {
        row: row.1.cast_unsigned(),
        created_at,
        order,
        class: class(entry.typology),
        trust: entry.facets.trust,
        fresh,
        signature,
    }
}

/// The class of an entry: only entries of the same class are merged, since a fact and a procedure
/// are never the same thing.
fn class(typology: Typology) -> u32 {
    match typology {
        Typology::Episodic => 1,
        Typology::Semantic => 2,
        Typology::Procedural => 3,
    }
}

/// Hands every stored signature to the planner.
async fn load_signatures(
    engine: &Engine,
    job: &JobContext<'_>,
    before: &PreviousPass,
    planner: &mut ScopedPlanner,
    total: u64,
) -> Result<(), WorkError> {
    let mut after = None;
    let mut read = 0u64;
    let mut unreadable = Vec::new();
    loop {
        job.report_progress("reading", read, total).await?;
        let page = engine
            .parts
            .store
            .signatures(job.scope(), after, SIGNATURES_PAGE_SIZE)
            .await?;
        let Some(last) = page.last() else { break };
        after = Some(last.row);
        read += page.len() as u64;
        for signed in page {
            let Some(signature) = Signature::from_bytes(&signed.signature) else {
                unreadable.push(signed.row);
                continue;
            };
            let order = order_key(signed.id.as_str());
            let fresh = signed.pass > before.completed;
            let row = signed.row.1.cast_unsigned();
            planner.add(
                signed.row,
                PlanEntry {
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
    // Signatures in the format of another version are computed again.
    for rows in unreadable.chunks(PAGE_SIZE as usize) {
        let page =
            compute_signatures(engine.parts.store.entries_at(job.scope(), rows).await?).await?;
        let mut batch = Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?)
            .fenced(job.fence());
        for (row, entry, signature) in &page {
            planner.add(*row, planner_handle(*row, entry, *signature, true));
            batch = batch.store_signature(
                job.memory_ref().clone(),
                entry.id.clone(),
                before.completed + 1,
                signature.to_bytes().to_vec(),
            );
        }
        if job.mode() == PassMode::Apply {
            engine.parts.store.commit(batch).await?;
        }
    }
    Ok(())
}

/// Reads the texts that the planner asks for, newest first, and applies its decisions as they come.
async fn reconcile(
    engine: &Engine,
    job: &JobContext<'_>,
    planner: ScopedPlanner,
) -> Result<RetiredEntries, WorkError> {
    let scope_row = planner.scope_row;
    let planner = planner.planner;
    let mut cover = tokio::task::spawn_blocking(move || planner.into_merge_phase())
        .await
        .expect("planning does not panic");
    let total = cover.text_count() as u64;
    let mut compared = 0u64;
    let mut done = RetiredEntries::default();
    let mut decisions = cover.take_decisions();
    loop {
        job.report_progress("comparing", compared, total).await?;
        let rows = cover.next_rows(PAGE_SIZE as usize);
        let last = rows.is_empty();
        let found = if last {
            Vec::new()
        } else {
            engine
                .parts
                .store
                .entries_at(job.scope(), &row_cursors(scope_row, &rows))
                .await?
        };
        compared += rows.len() as u64;
        let work = move || {
            let mut items: HashMap<u64, MergeItem> = found
                .iter()
                .map(|(row, entry)| (row.1.cast_unsigned(), item(entry)))
                .collect();
            rows.into_iter()
                .for_each(|row| cover.provide(row, items.remove(&row)));
            let decided = cover.take_decisions();
            (cover, decided)
        };
        let (returned_cover, decided) = tokio::task::spawn_blocking(work)
            .await
            .expect("comparing does not panic");
        cover = returned_cover;
        decisions.extend(decided);
        while decisions.len() >= DECISIONS_PER_BATCH || (last && !decisions.is_empty()) {
            let rest = decisions.split_off(decisions.len().min(DECISIONS_PER_BATCH));
            apply_decisions(
                engine,
                job,
                scope_row,
                std::mem::replace(&mut decisions, rest),
                &mut done,
            )
            .await?;
            job.report_progress("comparing", compared, total).await?;
        }
        if last {
            return Ok(done);
        }
    }
}

/// Applies decisions in one transaction. A decision about an entry that is gone by now is dropped.
async fn apply_decisions(
    engine: &Engine,
    job: &JobContext<'_>,
    scope_row: i64,
    decisions: Vec<Decision>,
    done: &mut RetiredEntries,
) -> Result<(), WorkError> {
    let mut rows: Vec<u64> = decisions
        .iter()
        .flat_map(|decision| {
            let (retired_row, kept_row, _) = retired_and_survivor(decision);
            [retired_row, kept_row]
        })
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let found = engine
        .parts
        .store
        .entries_at(job.scope(), &row_cursors(scope_row, &rows))
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
        let (retired_id, survivor_id, reason) = retired_and_survivor(decision);
        if let (Some(retired_id), Some(survivor_id)) = (ids.get(&retired_id), ids.get(&survivor_id))
        {
            batch = batch.retire(
                job.memory_ref().clone(),
                retired_id.clone(),
                reason,
                survivor_id.clone(),
            );
            retired.push((retired_id.clone(), reason));
        }
    }
    let outcomes = match job.mode() {
        PassMode::Apply => engine.parts.store.commit(batch).await?.outcomes,
        _ => vec![ChangeOutcome::Removed; retired.len()],
    };
    for ((id, reason), _) in retired
        .into_iter()
        .zip(outcomes)
        .filter(|(_, outcome)| *outcome == ChangeOutcome::Removed)
    {
        done.merged += u64::from(reason == RetireReason::Merged);
        done.superseded += u64::from(reason == RetireReason::Superseded);
        if done.ids.len() <= EVENT_IDS_MAX {
            done.ids.push(id);
        }
    }
    Ok(())
}

/// The row that a decision retires, the row that replaces it, and why.
fn retired_and_survivor(decision: &Decision) -> (u64, u64, RetireReason) {
    match decision {
        Decision::Merge { member, leader } => (*member, *leader, RetireReason::Merged),
        Decision::Supersede { old, by } => (*old, *by, RetireReason::Superseded),
    }
}

/// Records that the pass is complete, with its event, even if there was nothing to do.
async fn record_completion(
    engine: &Engine,
    job: &JobContext<'_>,
    before: &PreviousPass,
    input: u64,
    done: &RetiredEntries,
) -> Result<(), WorkError> {
    let batch =
        Batch::new(job.tenant().clone(), engine.now_for(job.tenant()).await?).fenced(job.fence());
    let batch = set_progress(engine, job, batch, before, before.completed + 1, false).await?;
    let names = (done.ids.len() <= EVENT_IDS_MAX)
        .then(|| done.ids.iter().map(|id| id.as_str().to_owned()).collect());
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
