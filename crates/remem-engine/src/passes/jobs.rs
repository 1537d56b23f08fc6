//! jobs: creates jobs for schedules that are due, and deletes jobs that ended long ago or are too
//! many. It does not run jobs: each pass over memories runs its own.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{ENDED, ended_key, id_at};
use crate::registry::{Mode, PassReport};
use remem_core::{Batch, Fence, Precondition, RecordKind, TenantId};

/// The name in `PASSES`, for `Engine::notify_work`.
pub(crate) const NAME: &str = "jobs";
/// Jobs deleted by one activation, at most.
const FORGET_MAX: u32 = 500;

/// Whether a schedule is due, or old jobs can be deleted.
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

/// The key among ended jobs after which they are older than the retention.
async fn too_old(engine: &Engine, tenant: &TenantId) -> Result<String, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(ended_key(&id_at(
        now.plus_ms(-engine.parts.policy.job_retention_ms),
    )))
}

/// Creates due jobs and deletes old ones.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let created = engine.tick(tenant, mode).await?;
    let deleted = forget(engine, tenant, mode, fence).await?;
    Ok(PassReport {
        examined: created.examined + deleted.examined,
        changed: created.changed + deleted.changed,
        more: created.more || deleted.more,
    })
}

/// Deletes ended jobs that are too old, or else those beyond the allowed number. Keys of ended jobs
/// sort the newest first, so both are at the end.
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
        let retained = u32::try_from(policy.jobs_ended_max).unwrap_or(u32::MAX);
        let mut all = store
            .records(
                tenant,
                RecordKind::Job,
                ENDED,
                None,
                retained.saturating_add(FORGET_MAX),
            )
            .await?;
        more = all.len() == (retained.saturating_add(FORGET_MAX)) as usize;
        records = all.split_off(all.len().min(retained as usize));
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
