//! purge: ends expired entries, then physically removes what was erased.
//!
//! Expired entries are invisible from their millisecond on, whether or not this pass ran; the pass
//! makes that final (a clock that jumps back cannot bring them back) and removes the text. Deleted
//! text is covered too: the deletion erased it, and the scrub at the end of an activation cuts off
//! the journal that may still hold older page images.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use remem_core::{Batch, Fence, TenantId};
use remem_store::ChangeOutcome;

/// Transactions of one activation, at most.
const BATCHES_MAX: u32 = 40;

/// Does one activation for a tenant.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let now = engine.now_for(tenant).await?;
    let mut report = PassReport::default();
    for n in 0..BATCHES_MAX {
        let expired = store
            .expired_entries(tenant, now, policy.purge_batch_max)
            .await?;
        report.examined += expired.len() as u64;
        if mode == PassMode::DryRun {
            let more = expired.len() as u32 == policy.purge_batch_max;
            return Ok(PassReport {
                changed: report.examined,
                more,
                ..report
            });
        }
        if expired.is_empty() {
            break;
        }
        let empty = Batch::new(tenant.clone(), now).fenced(fence.clone());
        let batch = expired.into_iter().fold(empty, |batch, (memory_ref, id)| {
            batch.expire(memory_ref, id)
        });
        let committed = store.commit(batch).await?;
        report.changed += committed
            .outcomes
            .iter()
            .filter(|o| matches!(o, ChangeOutcome::Removed | ChangeOutcome::TextHeld))
            .count() as u64;
        report.more = n + 1 == BATCHES_MAX;
    }
    report = erase_released(engine, tenant, fence, report).await?;
    let keys_before = now.plus_ms(-policy.idempotency_retention_ms);
    store
        .scrub(tenant, keys_before, mode == PassMode::Compact)
        .await?;
    Ok(report)
}

/// Erases entries that were deleted while a run could still read them.
async fn erase_released(
    engine: &Engine,
    tenant: &TenantId,
    fence: Option<Fence>,
    mut report: PassReport,
) -> Result<PassReport, EngineError> {
    let store = &engine.parts.store;
    let limit = engine.parts.policy.purge_batch_max;
    for _ in 0..BATCHES_MAX {
        let ended = store.erasable_entries(tenant, limit).await?;
        report.examined += ended.len() as u64;
        if ended.is_empty() {
            return Ok(report);
        }
        let empty = Batch::new(tenant.clone(), engine.now_for(tenant).await?).fenced(fence.clone());
        let batch = ended
            .into_iter()
            .fold(empty, |batch, (memory_ref, id)| batch.erase(memory_ref, id));
        let committed = store.commit(batch).await?;
        report.changed += committed
            .outcomes
            .iter()
            .filter(|o| **o == ChangeOutcome::Removed)
            .count() as u64;
    }
    Ok(PassReport {
        more: true,
        ..report
    })
}
