//! jobs: makes jobs of schedules that are due, and forgets jobs that ended long ago or are too
//! many. Doing them is not its part: each pass over memories carries its own.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{ENDED, ended_key, id_at};
use crate::registry::{Mode, PassReport};
use remem_core::{Batch, Fence, Precondition, RecordKind, TenantId};

/// The name in `PASSES`, for `Engine::has_work`.
pub(crate) const NAME: &str = "jobs";
/// Jobs that one activation forgets.
const FORGET_MAX: u32 = 500;

/// A schedule that is due, or jobs that can be forgotten.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    if engine.look_at_schedules(tenant).await? {
        return Ok(true);
    }
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let too_old = store
        .records(
            tenant,
            RecordKind::Job,
            ENDED,
            Some(&too_old(engine, tenant).await?),
            1,
        )
        .await?;
    let limit = u32::try_from(policy.jobs_ended_max)
        .unwrap_or(u32::MAX)
        .saturating_add(1);
    Ok(!too_old.is_empty()
        || store
            .records(tenant, RecordKind::Job, ENDED, None, limit)
            .await?
            .len()
            == limit as usize)
}

/// The place among ended jobs after which they are too old.
async fn too_old(engine: &Engine, tenant: &TenantId) -> Result<String, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(ended_key(&id_at(
        now.plus_ms(-engine.parts.policy.job_retention_ms),
    )))
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let ticked = engine.tick(tenant, mode).await?;
    let forgotten = forget(engine, tenant, mode, fence).await?;
    Ok(PassReport {
        examined: ticked.examined + forgotten.examined,
        changed: ticked.changed + forgotten.changed,
        more: ticked.more || forgotten.more,
    })
}

/// Names of jobs sort by the time they were asked for at: what is too old, and what is too many,
/// stands at the end.
async fn forget(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let now = engine.now_for(tenant).await?;
    let too_old = too_old(engine, tenant).await?;
    let mut records = store
        .records(tenant, RecordKind::Job, ENDED, Some(&too_old), FORGET_MAX)
        .await?;
    let mut more = records.len() == FORGET_MAX as usize;
    if records.is_empty() {
        let kept = u32::try_from(policy.jobs_ended_max).unwrap_or(u32::MAX);
        let mut all = store
            .records(
                tenant,
                RecordKind::Job,
                ENDED,
                None,
                kept.saturating_add(FORGET_MAX),
            )
            .await?;
        more = all.len() == (kept.saturating_add(FORGET_MAX)) as usize;
        records = all.split_off(all.len().min(kept as usize));
    }
    let changed = records.len() as u64;
    if mode != Mode::DryRun && !records.is_empty() {
        let empty = Batch::new(tenant.clone(), now).fenced(fence);
        let drop =
            |batch: Batch, key: String| batch.unset(RecordKind::Job, key, Precondition::None);
        store
            .commit(
                records
                    .into_iter()
                    .map(|record| record.key)
                    .fold(empty, drop),
            )
            .await?;
    }
    if more && mode != Mode::DryRun {
        engine.passes.again(NAME, tenant);
    }
    Ok(PassReport {
        examined: changed,
        changed,
        more,
    })
}
