//! archives: erases archives whose retention has ended. Their records stay, and with them what was
//! made from which sources. Their topics are removed from the index and from its earlier versions,
//! since later nothing would show whom they were about.

use crate::archive::{self, DistillationRecord, IndexUpdate};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use remem_core::sabotage;
use remem_core::{Batch, Fence, TenantId};

/// Archives erased in one transaction.
const BATCH_SIZE: usize = 100;

/// The archives whose retention has ended, and the others.
async fn split_by_retention(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<(Vec<DistillationRecord>, Vec<DistillationRecord>), EngineError> {
    let before = engine
        .now_for(tenant)
        .await?
        .plus_ms(-engine.parts.policy.archive_retention_ms)
        .0;
    let all = engine.distillations(tenant, None).await?;
    Ok(all
        .into_iter()
        .filter(|archive| !archive.erased)
        .partition(|archive| archive.at < before))
}

/// Whether the retention of an archive has ended.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!split_by_retention(engine, tenant).await?.0.is_empty())
}

/// Erases the archives whose retention has ended.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let (ended, rest) = split_by_retention(engine, tenant).await?;
    let (page, later) = ended.split_at(ended.len().min(BATCH_SIZE));
    let report = PassReport {
        examined: (ended.len() + rest.len()) as u64,
        changed: page.len() as u64,
        more: !later.is_empty(),
    };
    if page.is_empty() || mode == PassMode::DryRun {
        return Ok(report);
    }
    let policy = engine.policy_for(tenant).await?;
    let rules = engine.redaction_rules(tenant).await?;
    let now = engine.now_for(tenant).await?;
    let admission = rules.admission(&policy, now);
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = page.iter().fold(batch, |batch, record| {
        archive::add_erasure(batch, &admission, record)
    });
    let left: Vec<DistillationRecord> = later.iter().chain(&rest).cloned().collect();
    let batch = if page.iter().any(DistillationRecord::is_indexed) {
        engine
            .write_index(
                tenant,
                batch,
                &admission,
                &left,
                sabotage!(
                    "an-archive-outlives-its-time-in-the-index",
                    IndexUpdate::ReplaceHistory,
                    IndexUpdate::Add { markdown: false }
                ),
            )
            .await?
    } else {
        batch
    };
    engine.parts.store.commit(batch).await?;
    Ok(report)
}
