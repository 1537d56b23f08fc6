//! sweep: the nightly look at what is kept. Statements that ceased to be true long ago lose their
//! text, unless an action rests on them; entries that hang on a session that is not there are
//! counted, and there should be none.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use remem_core::sabotage;
use remem_core::{Actor, Batch, Fence, MemoryRef, TenantId, Timestamp};
use remem_store::{Faded, Outcome, RetentionState};

/// The name in `PASSES`.
pub(crate) const NAME: &str = "sweep";
/// Transactions of one activation.
const BATCHES_MAX: u32 = 40;
/// Statements that are read at once, and at the most of one transaction.
const PAGE: u32 = 500;

/// Something that faded. (What is counted besides is for whoever asks.)
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(!engine
        .parts
        .store
        .faded(tenant, oldest(engine, now), None, 1)
        .await?
        .is_empty())
}

/// The shortest time that any profile keeps a text; each memory's own is looked at below.
fn oldest(engine: &Engine, now: Timestamp) -> Timestamp {
    let shortest = engine
        .parts
        .profiles
        .all()
        .map(|(_, profile)| profile.strip_after_ms)
        .min()
        .unwrap_or(i64::MAX);
    now.plus_ms(-shortest)
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
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
            .faded(tenant, oldest(engine, now), after, PAGE)
            .await?;
        let Some(last) = page.last() else { break };
        // Those of a memory that keeps its texts for longer stay, and hide nothing behind them.
        after = sabotage!(
            "a-long-retention-hides-a-short-one",
            Some((last.ended_at, last.row)),
            Some((Timestamp(i64::MAX), last.row))
        );
        report.examined += page.len() as u64;
        let over: Vec<(Faded, Timestamp)> = page
            .into_iter()
            .map(|one| {
                let before = kept_since(engine, &one.memory_ref, now);
                (one, before)
            })
            .filter(|(one, before)| one.ended_at < *before)
            .collect();
        if mode == Mode::DryRun {
            report.changed += over.len() as u64;
        } else if !over.is_empty() {
            report.changed += strip(engine, tenant, over, now, fence.clone()).await?;
            batches += 1;
        }
        report.more = batches == BATCHES_MAX || engine.passes.is_stopping();
    }
    count_orphans(engine, tenant).await?;
    Ok(report)
}

/// Texts of statements of this memory that ceased to be true before this instant go.
fn kept_since(engine: &Engine, memory_ref: &MemoryRef, now: Timestamp) -> Timestamp {
    now.plus_ms(-engine.parts.profiles.of(memory_ref).strip_after_ms)
}

/// Takes these texts in one transaction; answers how many went.
async fn strip(
    engine: &Engine,
    tenant: &TenantId,
    over: Vec<(Faded, Timestamp)>,
    now: Timestamp,
    fence: Option<Fence>,
) -> Result<u64, EngineError> {
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = over.into_iter().fold(batch, |batch, (one, before)| {
        batch.strip(one.memory_ref, one.id, before)
    });
    let outcomes = engine.parts.store.commit(batch).await?.outcomes;
    let removed = |outcome: &&Outcome| **outcome == Outcome::Removed;
    Ok(outcomes.iter().filter(removed).count() as u64)
}

async fn count_orphans(engine: &Engine, tenant: &TenantId) -> Result<(), EngineError> {
    let counts = engine
        .parts
        .store
        .retention(tenant, &Actor::Host, None)
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
