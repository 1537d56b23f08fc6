//! archives: erases archives whose retention has ended. Their records stay, and with them what was
//! made from which sources. Their topics are removed from the index and from its earlier versions,
//! since later nothing would tell whom they were about.

use crate::archive::{self, Distilled, Index};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use remem_core::sabotage;
use remem_core::{Batch, Fence, TenantId};

/// Archives erased in one transaction.
const BATCH: usize = 100;

/// The archives whose retention has ended, and the others.
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
        .filter(|archive| !archive.erased)
        .partition(|archive| archive.at < before))
}

/// Whether the retention of an archive has ended.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!over(engine, tenant).await?.0.is_empty())
}

/// Erases the archives whose retention has ended.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let (ended, rest) = over(engine, tenant).await?;
    let (page, later) = ended.split_at(ended.len().min(BATCH));
    let report = PassReport {
        examined: (ended.len() + rest.len()) as u64,
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
    let batch = page.iter().fold(batch, |batch, record| {
        archive::erase(batch, &admission, record)
    });
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
