//! propose: drafts what was done again and again, and rejects what nobody decided about in time.
//! What it drafts is under review: nothing of it has an effect.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use remem_core::{Fence, TenantId};

/// The name in `PASSES`, and of the record with its progress.
pub(crate) const NAME: &str = "propose";

/// A gate whose time is over, or runs and traces that were not looked at.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    if !engine.parts.review.is_open() {
        return Ok(false);
    }
    let now = engine.now_for(tenant).await?;
    Ok(engine.has_gates_due(tenant, now).await? || engine.has_traces(tenant, now).await?)
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    if !engine.parts.review.is_open() {
        return Ok(PassReport::default());
    }
    let now = engine.now_for(tenant).await?;
    let over = if mode == Mode::DryRun {
        PassReport::default()
    } else {
        engine.expire_gates(tenant, now, fence.clone()).await?
    };
    let drafted = engine.propose(tenant, mode, fence).await?;
    Ok(PassReport {
        examined: over.examined + drafted.examined,
        changed: over.changed + drafted.changed,
        more: over.more || drafted.more,
    })
}
