//! Runs jobs: claims them one after the other under the lease of their pass, calls the pass, and
//! records the result. Every write depends on the lease and on the version of the record: what a
//! paused process still writes about a job that another one has claimed is refused.

use super::work::{
    HeldLease, JobContext, JobProgress, StopReason, WorkError, WorkReport, first_record_version,
};
use super::{JobFault, JobInfo, JobState, active_prefix};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Pass, PassKind, PassMode, PassReport, PassStatus};
use remem_core::event::{PassEnded, PassStarted};
use remem_core::{
    Batch, EventBody, MemoryRef, Precondition, RecordKind, Scope, TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value, json};

/// Jobs run by one activation, at most.
const JOBS_MAX: u32 = 100;
/// How often the end of a job is written before that is left to the next process that claims the
/// job.
const SAVE_TRIES: u32 = 6;
/// A job fails for good after this many attempts that ended with an error.
const FAILURES_MAX: u32 = 5;
/// Delay before the second attempt; it doubles with each further one.
const RETRY_DELAY_MS: i64 = 5_000;

/// Whether the pass has a job that has not ended.
pub(crate) async fn has_work(
    engine: &Engine,
    pass: &Pass,
    tenant: &TenantId,
) -> Result<bool, EngineError> {
    Ok(!engine
        .parts
        .store
        .records(tenant, RecordKind::Job, &active_prefix(pass.name), None, 1)
        .await?
        .is_empty())
}

/// Runs the jobs of a pass that are due, oldest first. Without a lease (in a dry run) it only
/// counts them.
pub(crate) async fn run_due_jobs(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    lease: Option<&HeldLease>,
) -> Result<PassReport, EngineError> {
    let mut report = PassReport::default();
    let Some(lease) = lease else {
        let waiting = engine.active_jobs(tenant, pass.name).await?.len() as u64;
        return Ok(PassReport {
            examined: waiting,
            ..report
        });
    };
    for n in 1.. {
        let now = engine.now_for(tenant).await?;
        let active = engine.active_jobs(tenant, pass.name).await?;
        let left = !active.is_empty();
        let due = active
            .into_iter()
            .find(|job| job.cancelling || job.not_before.is_none_or(|at| at <= now));
        let Some(job) = due.filter(|_| n <= JOBS_MAX && !engine.pass_log.is_stopping()) else {
            if left {
                engine.pass_log.mark_pending(pass.name, tenant);
            }
            report.more = left && n > JOBS_MAX;
            return Ok(report);
        };
        let work_report = run_job(engine, pass, tenant, lease, job)
            .await?
            .unwrap_or_default();
        report.examined += work_report.examined;
        report.changed += work_report.changed;
    }
    Ok(report)
}

/// Claims one job and runs it. Its outcome is stored in its record and returned; another error means
/// that the store failed.
pub(crate) async fn run_job(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    lease: &HeldLease,
    job: JobInfo,
) -> Result<Result<WorkReport, WorkError>, EngineError> {
    let Some(job) = claim_job(engine, tenant, lease, job).await? else {
        return Ok(Err(StopReason::Fenced.into()));
    };
    let begun = engine.now();
    let (job, result) = if job.cancelling {
        (job, Err(StopReason::Cancelled.into()))
    } else {
        run_work(engine, pass, tenant, lease, job).await
    };
    record_attempt(engine, tenant, pass, &result, begun);
    record_result(engine, tenant, lease, job, &result).await?;
    Ok(result)
}

/// Runs one job as `run_job` does, for a caller who waits for the result.
pub(super) async fn run_job_now(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    lease: &HeldLease,
    job: JobInfo,
) -> Result<WorkReport, WorkError> {
    let Some(job) = claim_job(engine, tenant, lease, job).await? else {
        return Err(StopReason::Fenced.into());
    };
    let begun = engine.now();
    let (job, result) = run_work(engine, pass, tenant, lease, job).await;
    record_attempt(engine, tenant, pass, &result, begun);
    // The waiting caller gets the error and may try again: so the job must not be retried.
    let failures = if result.is_err() {
        FAILURES_MAX
    } else {
        job.failures
    };
    record_result(engine, tenant, lease, JobInfo { failures, ..job }, &result).await?;
    result
}

/// Claims a job: records that this process works on it. `None` if the record was changed meanwhile,
/// so that it must be read again.
async fn claim_job(
    engine: &Engine,
    tenant: &TenantId,
    lease: &HeldLease,
    mut job: JobInfo,
) -> Result<Option<JobInfo>, EngineError> {
    let now = engine.now_for(tenant).await?;
    let precondition = if job.version == 0 {
        Precondition::Absent
    } else {
        Precondition::Version(job.version)
    };
    let is_first_attempt = job.started_at.is_none();
    (job.state, job.not_before, job.started_at) =
        (JobState::Running, None, job.started_at.or(Some(now)));
    job.attempts = job.attempts.saturating_add(1);
    let batch = Batch::new(tenant.clone(), now).fenced(Some(lease.fence.clone()));
    let mut batch = batch.set_stored(&job.to_stored(), precondition);
    if is_first_attempt {
        let memory_ref = job
            .memory_ref
            .as_ref()
            .map(|memory_ref| memory_ref.as_str().to_owned());
        batch = batch.emit(EventBody::PassStarted(PassStarted {
            job_id: job.id.clone(),
            pass: job.pass.to_owned(),
            memory_ref,
        }));
    }
    match engine.parts.store.commit(batch).await {
        Ok(committed) => {
            job.version = first_record_version(&committed.outcomes).unwrap_or(job.version + 1);
            Ok(Some(job))
        }
        Err(StoreError::Conflict) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Calls the pass for the job's subject, for its memory, or for all memories of the tenant one after
/// the other.
async fn run_work(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    lease: &HeldLease,
    mut job: JobInfo,
) -> (JobInfo, Result<WorkReport, WorkError>) {
    if let PassKind::Subject { work } = pass.kind {
        let progress = JobProgress::new(engine, tenant.clone(), job, Some(lease));
        let result = work(engine, &progress).await;
        return (progress.into_info(), result);
    }
    if let Some(memory_ref) = job.memory_ref.clone() {
        return run_one_memory(
            engine,
            pass,
            Scope::new(tenant.clone(), memory_ref).as_host(),
            lease,
            job,
        )
        .await;
    }
    loop {
        let memories = match engine
            .memories_after(tenant, job.resume_after.as_ref())
            .await
        {
            Ok(memories) => memories,
            Err(error) => return (job, Err(error.into())),
        };
        if memories.is_empty() {
            let report = report_so_far(&job);
            return (job, Ok(report));
        }
        for memory_ref in memories {
            let (done, result) = run_one_memory(
                engine,
                pass,
                Scope::new(tenant.clone(), memory_ref.clone()).as_host(),
                lease,
                job,
            )
            .await;
            job = done;
            let saved = match result {
                Ok(report) => {
                    record_memory_done(engine, tenant, lease, &mut job, memory_ref, report).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = saved {
                return (job, Err(error));
            }
        }
    }
}

/// Calls the pass for one memory.
async fn run_one_memory(
    engine: &Engine,
    pass: &'static Pass,
    scope: Scope,
    lease: &HeldLease,
    info: JobInfo,
) -> (JobInfo, Result<WorkReport, WorkError>) {
    let PassKind::Memory { work, .. } = pass.kind else {
        return (info, Err(EngineError::NotFound("pass").into()));
    };
    let job = JobContext::new(engine, scope, info, PassMode::Apply, Some(lease));
    let result = work(engine, &job).await;
    (job.into_info(), result)
}

/// The counts of the memories that are done already.
fn report_so_far(job: &JobInfo) -> WorkReport {
    WorkReport {
        examined: job.examined,
        changed: job.changed,
        detail: job.detail.clone(),
    }
}

/// Records that one more memory is done, so that a later attempt continues after it.
async fn record_memory_done(
    engine: &Engine,
    tenant: &TenantId,
    lease: &HeldLease,
    job: &mut JobInfo,
    memory_ref: MemoryRef,
    report: WorkReport,
) -> Result<(), WorkError> {
    let one_memory = WorkReport {
        detail: json!({"memories": 1})
            .as_object()
            .cloned()
            .unwrap_or_default(),
        ..WorkReport::default()
    };
    let sum = report_so_far(job).merge(one_memory).merge(report);
    (job.examined, job.changed, job.detail, job.resume_after) =
        (sum.examined, sum.changed, sum.detail, Some(memory_ref));
    save_job(engine, tenant, lease, job).await?;
    if job.cancelling {
        Err(StopReason::Cancelled.into())
    } else {
        Ok(())
    }
}

/// Writes the record of an active job, or moves it to the ended ones. A cancellation requested
/// meanwhile is taken over into `job`; if another process has claimed the job, fails with `Fenced`.
async fn save_job(
    engine: &Engine,
    tenant: &TenantId,
    lease: &HeldLease,
    job: &mut JobInfo,
) -> Result<(), WorkError> {
    let before = JobInfo {
        state: JobState::Running,
        ..job.clone()
    };
    let mut last_error = StoreError::Busy;
    for _ in 0..SAVE_TRIES {
        let now = engine.now_for(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).fenced(Some(lease.fence.clone()));
        let batch = if job.state.has_ended() {
            move_to_ended(
                batch,
                &JobInfo {
                    version: job.version,
                    ..before.clone()
                },
                job.clone(),
            )
        } else {
            batch.set_stored(&job.to_stored(), Precondition::Version(job.version))
        };
        match engine.parts.store.commit(batch).await {
            Ok(committed) => {
                job.version = first_record_version(&committed.outcomes).unwrap_or(job.version + 1);
                return Ok(());
            }
            Err(error @ (StoreError::Conflict | StoreError::Busy | StoreError::Unavailable(_))) => {
                last_error = error
            }
            Err(other) => return Err(other.into()),
        }
        // The commit may have succeeded although it returned an error: read the record.
        match engine.find_job(tenant, &job.id).await {
            Ok(Some(stored))
                if stored.state.has_ended()
                    && stored.state == job.state
                    && stored.attempts == job.attempts =>
            {
                return Ok(());
            }
            Ok(Some(stored)) if !stored.state.has_ended() && stored.attempts == job.attempts => {
                (job.version, job.cancelling) = (stored.version, stored.cancelling);
            }
            Ok(_) => return Err(StopReason::Fenced.into()),
            Err(_) => {}
        }
    }
    Err(last_error.into())
}

/// Moves a job's record to the ended ones, with an event if the job was ever started.
pub(super) fn move_to_ended(batch: Batch, active: &JobInfo, ended: JobInfo) -> Batch {
    let batch = batch.delete_record(
        RecordKind::Job,
        active.key(),
        Precondition::Version(active.version),
    );
    let batch = batch.set_stored(&ended.to_stored(), Precondition::Absent);
    if ended.started_at.is_none() {
        return batch;
    }
    batch.emit(EventBody::PassEnded(PassEnded {
        job_id: ended.id.clone(),
        pass: ended.pass.to_owned(),
        memory_ref: ended
            .memory_ref
            .as_ref()
            .map(|memory_ref| memory_ref.as_str().to_owned()),
        outcome: ended.state.as_str().to_owned(),
        examined: ended.examined,
        changed: ended.changed,
        duration_ms: ended.duration_ms().unwrap_or(0),
    }))
}

/// Records how an attempt ended: done, failed, cancelled, or queued again.
async fn record_result(
    engine: &Engine,
    tenant: &TenantId,
    lease: &HeldLease,
    mut job: JobInfo,
    result: &Result<WorkReport, WorkError>,
) -> Result<(), EngineError> {
    let now = engine.now_for(tenant).await?;
    match result {
        Err(WorkError::Stopped(StopReason::Fenced)) => return Ok(()),
        Ok(report) => {
            (job.state, job.error, job.done) = (JobState::Done, None, job.total);
            (job.examined, job.changed, job.detail) =
                (report.examined, report.changed, report.detail.clone());
        }
        Err(WorkError::Stopped(StopReason::Cancelled)) => job.state = JobState::Cancelled,
        Err(WorkError::Stopped(StopReason::Stopping)) => job.state = JobState::Queued,
        Err(WorkError::Refused { code, details }) => {
            job.error = Some(JobFault {
                code: (*code).to_owned(),
                details: details.clone(),
            });
            job.state = JobState::Failed;
        }
        Err(WorkError::Failed(error)) => queue_retry(&mut job, error, now),
    }
    if job.state.has_ended() {
        job.ended_at = Some(now);
        engine.notify_work(crate::passes::jobs::NAME, tenant);
    }
    match save_job(engine, tenant, lease, &mut job).await {
        Ok(()) | Err(WorkError::Stopped(_)) => Ok(()),
        Err(WorkError::Failed(error)) => Err(error),
        Err(WorkError::Refused { .. }) => Err(EngineError::NotFound("pass")),
    }
}

/// Queues a failed job for another attempt, or marks it as failed after [`FAILURES_MAX`] failures.
fn queue_retry(job: &mut JobInfo, error: &EngineError, now: Timestamp) {
    job.failures = job.failures.saturating_add(1);
    job.error = Some(JobFault {
        code: error.code().to_owned(),
        details: Map::<String, Value>::new(),
    });
    if job.failures >= FAILURES_MAX {
        job.state = JobState::Failed;
        return;
    }
    job.state = JobState::Queued;
    job.not_before = Some(now.plus_ms(RETRY_DELAY_MS << (job.failures - 1)));
}

/// Records the status, metrics and log line of an attempt.
fn record_attempt(
    engine: &Engine,
    tenant: &TenantId,
    pass: &'static Pass,
    result: &Result<WorkReport, WorkError>,
    begun: Timestamp,
) {
    let ran_at = engine.now();
    let report = result.as_ref().ok();
    let shown = report.map(|report| PassReport {
        examined: report.examined,
        changed: report.changed,
        more: false,
    });
    engine.pass_log.record(
        tenant,
        PassStatus {
            name: pass.name,
            ran_at,
            report: shown,
        },
    );
    let outcome = match result {
        Ok(_) => "ok",
        Err(WorkError::Stopped(_)) => "stopped",
        Err(_) => "failed",
    };
    crate::registry::record_metrics(
        pass.name,
        outcome,
        report.map_or(0, |report| report.changed),
        ran_at.0 - begun.0,
    );
    if let Err(WorkError::Failed(error)) = result {
        tracing::warn!(pass = pass.name, tenant = %tenant, %error, "work over a memory failed");
    }
}
