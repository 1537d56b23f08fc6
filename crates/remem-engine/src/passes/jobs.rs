//! jobs: creates jobs for schedules that are due, and deletes jobs that ended long ago or are too
//! many. It does not run jobs: each pass over memories runs its own.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{ENDED_PREFIX, ended_key, id_lower_bound};
use crate::registry::{PassMode, PassReport};
use remem_core::{Batch, Fence, Precondition, RecordKind, TenantId};

/// The name in `PASSES`, for `Engine::notify_work`.
pub(crate) const NAME: &str = "jobs";
/// Jobs deleted by one activation, at most.
const DELETE_MAX: u32 = 500;

/// Whether a schedule is due, or old jobs can be deleted.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    if engine.has_due_schedule(tenant).await? {
        return Ok(true);
    }
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let too_old = store
        .records(
            tenant,
            RecordKind::Job,
            ENDED_PREFIX,
            Some(&retention_key(engine, tenant).await?),
            1,
        )
        .await?;
    let limit = u32::try_from(policy.jobs_ended_max)
        .unwrap_or(u32::MAX)
        .saturating_add(1);
    Ok(!too_old.is_empty()
        || store
            .records(tenant, RecordKind::Job, ENDED_PREFIX, None, limit)
            .await?
            .len()
            == limit as usize)
}

/// The key among ended jobs after which they are older than the retention.
async fn retention_key(engine: &Engine, tenant: &TenantId) -> Result<String, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(ended_key(&id_lower_bound(
        now.plus_ms(-engine.parts.policy.job_retention_ms),
    )))
}

/// Creates due jobs and deletes old ones.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let created = engine.start_due_schedules(tenant, mode).await?;
    let deleted = delete_old_jobs(engine, tenant, mode, fence).await?;
    Ok(PassReport {
        examined: created.examined + deleted.examined,
        changed: created.changed + deleted.changed,
        more: created.more || deleted.more,
    })
}

/// Deletes ended jobs that are too old, or else those beyond the allowed number. Keys of ended jobs
/// sort the newest first, so both are at the end.
async fn delete_old_jobs(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let now = engine.now_for(tenant).await?;
    let too_old = retention_key(engine, tenant).await?;
    let mut records = store
        .records(
            tenant,
            RecordKind::Job,
            ENDED_PREFIX,
            Some(&too_old),
            DELETE_MAX,
        )
        .await?;
    let mut more = records.len() == DELETE_MAX as usize;
    if records.is_empty() {
        let retained = u32::try_from(policy.jobs_ended_max).unwrap_or(u32::MAX);
        let mut all = store
            .records(
                tenant,
                RecordKind::Job,
                ENDED_PREFIX,
                None,
                retained.saturating_add(DELETE_MAX),
            )
            .await?;
        more = all.len() == (retained.saturating_add(DELETE_MAX)) as usize;
        records = all.split_off(all.len().min(retained as usize));
    }
    let changed = records.len() as u64;
    if mode != PassMode::DryRun && !records.is_empty() {
        let empty = Batch::new(tenant.clone(), now).fenced(fence);
        let drop = |batch: Batch, key: String| {
            batch.delete_record(RecordKind::Job, key, Precondition::None)
        };
        store
            .commit(
                records
                    .into_iter()
                    .map(|record| record.key)
                    .fold(empty, drop),
            )
            .await?;
    }
    if more && mode != PassMode::DryRun {
        engine.pass_log.mark_pending(NAME, tenant);
    }
    Ok(PassReport {
        examined: changed,
        changed,
        more,
    })
}
