//! archives: erases archives whose time is over. Their names stay, and with them what was made of
//! what; the topics go from the index and from its earlier versions, since nobody could tell later
//! whom they were about.

use crate::archive::{self, Distilled, Index};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use remem_core::sabotage;
use remem_core::{Batch, Fence, TenantId};

/// Archives of one transaction.
const BATCH: usize = 100;

async fn over(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<(Vec<Distilled>, Vec<Distilled>), EngineError> {
    let before = engine
        .now_for(tenant)
        .await?
        .plus_ms(-engine.parts.policy.archive_retention_ms)
        .0;
    let all = engine.distillations(tenant).await?;
    Ok(all
        .into_iter()
        .filter(|one| !one.erased)
        .partition(|one| one.at < before))
}

/// Whether an archive's time is over.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!over(engine, tenant).await?.0.is_empty())
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let (over, rest) = over(engine, tenant).await?;
    let (page, later) = over.split_at(over.len().min(BATCH));
    let report = PassReport {
        examined: (over.len() + rest.len()) as u64,
        changed: page.len() as u64,
        more: !later.is_empty(),
    };
    if page.is_empty() || mode == Mode::DryRun {
        return Ok(report);
    }
    let policy = engine.policy_for(tenant).await?;
    let rules = engine.rules(tenant).await?;
    let now = engine.now_for(tenant).await?;
    let admission = rules.admission(&policy, now);
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = page
        .iter()
        .fold(batch, |batch, one| archive::erase(batch, &admission, one));
    let left: Vec<Distilled> = later.iter().chain(&rest).cloned().collect();
    let batch = if page.iter().any(Distilled::is_indexed) {
        engine
            .write_index(
                tenant,
                batch,
                &admission,
                &left,
                sabotage!(
                    "an-archive-outlives-its-time-in-the-index",
                    Index::Forgetting,
                    Index::Adding { markdown: false }
                ),
            )
            .await?
    } else {
        batch
    };
    engine.parts.store.commit(batch).await?;
    Ok(report)
}
