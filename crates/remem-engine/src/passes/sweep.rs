//! sweep: the nightly clean-up. It erases the text of statements whose validity ended long ago,
//! unless an action refers to them, and counts entries that belong to a session that does not
//! exist, of which there should be none.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use remem_core::sabotage;
use remem_core::{Actor, Batch, Fence, MemoryRef, TenantId, Timestamp};
use remem_store::{ChangeOutcome, EndedStatement, RetentionState};

/// The name in `PASSES`.
pub(crate) const NAME: &str = "sweep";
/// Transactions of one activation, at most.
const BATCHES_MAX: u32 = 40;
/// Statements read with one query, and erased in one transaction at most.
const PAGE_SIZE: u32 = 500;

/// Whether there are statements whose text is to be erased. (Orphaned entries are counted when the
/// pass runs for another reason.)
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(!engine
        .parts
        .store
        .ended_statements(tenant, latest_cutoff(engine, now), None, 1)
        .await?
        .is_empty())
}

/// The latest cutoff of all profiles, by the shortest retention. Each memory's own cutoff is
/// applied below.
fn latest_cutoff(engine: &Engine, now: Timestamp) -> Timestamp {
    let shortest = engine
        .parts
        .profiles
        .all()
        .map(|(_, profile)| profile.history_retention_ms)
        .min()
        .unwrap_or(i64::MAX);
    now.plus_ms(-shortest)
}

/// Erases texts whose retention has ended, and counts orphaned entries.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let now = engine.now_for(tenant).await?;
    let mut report = PassReport::default();
    let mut after = None;
    let mut batches = 0;
    while !report.more {
        let page = engine
            .parts
            .store
            .ended_statements(tenant, latest_cutoff(engine, now), after, PAGE_SIZE)
            .await?;
        let Some(last) = page.last() else { break };
        // The statements of a memory with a longer retention stay; continue after them, so that
        // they do not hide later ones.
        after = sabotage!(
            "a-long-retention-hides-a-short-one",
            Some((last.ended_at, last.row)),
            Some((Timestamp(i64::MAX), last.row))
        );
        report.examined += page.len() as u64;
        let ended: Vec<(EndedStatement, Timestamp)> = page
            .into_iter()
            .map(|faded| {
                let cutoff = strip_cutoff(engine, &faded.memory_ref, now);
                (faded, cutoff)
            })
            .filter(|(faded, cutoff)| faded.ended_at < *cutoff)
            .collect();
        if mode == PassMode::DryRun {
            report.changed += ended.len() as u64;
        } else if !ended.is_empty() {
            report.changed += erase_texts(engine, tenant, ended, now, fence.clone()).await?;
            batches += 1;
        }
        report.more = batches == BATCHES_MAX || engine.pass_log.is_stopping();
    }
    count_orphans(engine, tenant).await?;
    Ok(report)
}

/// The cutoff of a memory: texts of statements that ceased to be true before it are erased.
fn strip_cutoff(engine: &Engine, memory_ref: &MemoryRef, now: Timestamp) -> Timestamp {
    now.plus_ms(
        -engine
            .parts
            .profiles
            .for_memory(memory_ref)
            .history_retention_ms,
    )
}

/// Erases these texts in one transaction, and returns how many were erased.
async fn erase_texts(
    engine: &Engine,
    tenant: &TenantId,
    ended: Vec<(EndedStatement, Timestamp)>,
    now: Timestamp,
    fence: Option<Fence>,
) -> Result<u64, EngineError> {
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = ended.into_iter().fold(batch, |batch, (faded, cutoff)| {
        batch.erase_history(faded.memory_ref, faded.id, cutoff)
    });
    let outcomes = engine.parts.store.commit(batch).await?.outcomes;
    let removed = |outcome: &&ChangeOutcome| **outcome == ChangeOutcome::Removed;
    Ok(outcomes.iter().filter(removed).count() as u64)
}

/// Sets the metric of entries whose session does not exist, and logs a warning if there are any.
async fn count_orphans(engine: &Engine, tenant: &TenantId) -> Result<(), EngineError> {
    let counts = engine
        .parts
        .store
        .retention_counts(tenant, &Actor::Host, None)
        .await?;
    let orphans: u64 = counts
        .iter()
        .filter(|count| count.state == RetentionState::Orphaned)
        .map(|count| count.entries)
        .sum();
    metrics::gauge!("remem_orphaned_entries").set(orphans as f64);
    if orphans > 0 {
        tracing::warn!(
            tenant = tenant.as_str(),
            orphans,
            "entries hang on sessions that are not there"
        );
    }
    Ok(())
}
