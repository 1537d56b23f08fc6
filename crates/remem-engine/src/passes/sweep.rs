//! sweep: the nightly look at what is kept. Statements that ceased to be true long ago lose their
//! text, unless an action rests on them; entries that hang on a session that is not there are
//! counted, and there should be none.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use remem_core::{Actor, Batch, Fence, TenantId, Timestamp};
use remem_store::{Outcome, RetentionState};

/// The name in `PASSES`.
pub(crate) const NAME: &str = "sweep";
/// Transactions of one activation.
const BATCHES_MAX: u32 = 40;
/// Statements of one transaction.
const PAGE: u32 = 500;

/// Something that faded. (What is counted besides is for whoever asks.)
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(!engine
        .parts
        .store
        .faded(tenant, oldest(engine, now), 1)
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
    for n in 0..BATCHES_MAX {
        let faded = engine
            .parts
            .store
            .faded(tenant, oldest(engine, now), PAGE)
            .await?;
        let found = faded.len() as u64;
        report.examined += found;
        let mut batch = Batch::new(tenant.clone(), now).fenced(fence.clone());
        for (memory_ref, id) in faded {
            let before = now.plus_ms(-engine.parts.profiles.of(&memory_ref).strip_after_ms);
            batch = batch.strip(memory_ref, id, before);
        }
        if mode == Mode::DryRun || found == 0 {
            report.changed += found;
            break;
        }
        let committed = engine.parts.store.commit(batch).await?;
        let stripped = committed
            .outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Removed)
            .count() as u64;
        report.changed += stripped;
        report.more = n + 1 == BATCHES_MAX;
        if stripped == 0 {
            break; // those that are left keep their text for longer
        }
    }
    count_orphans(engine, tenant).await?;
    Ok(report)
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
