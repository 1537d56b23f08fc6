//! propose: drafts proposals from what was done repeatedly, and rejects proposals that were not
//! decided in time. What it drafts has no effect before it is approved.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use remem_core::{Fence, TenantId};

/// The name in `PASSES`, and the key of the progress record.
pub(crate) const NAME: &str = "propose";

/// Whether a proposal's deadline has passed, or there are runs and traces that were not examined.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    if !engine.parts.proposal_store.is_available() {
        return Ok(false);
    }
    let now = engine.now_for(tenant).await?;
    Ok(engine.has_overdue_gates(tenant, now).await? || engine.has_new_traces(tenant, now).await?)
}

/// Rejects overdue proposals and drafts new ones.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    if !engine.parts.proposal_store.is_available() {
        return Ok(PassReport::default());
    }
    let now = engine.now_for(tenant).await?;
    let expired = if mode == PassMode::DryRun {
        PassReport::default()
    } else {
        engine.expire_gates(tenant, now, fence.clone()).await?
    };
    let drafted = engine.synthesise_proposals(tenant, mode, fence).await?;
    Ok(PassReport {
        examined: expired.examined + drafted.examined,
        changed: expired.changed + drafted.changed,
        more: expired.more || drafted.more,
    })
}
