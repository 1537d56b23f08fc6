//! Carries jobs on: takes them up one after the other under the lease of their pass, has the work
//! done, and writes down how it ended. Every write depends on the lease and on the record being as
//! it was: what a paused process still wants to say about a job that another one took up is
//! refused.

use super::work::{Held, Job, Stop, WorkError, WorkReport, version_of};
use super::{JobFault, JobInfo, JobState, active_prefix};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, Over, Pass, PassReport, PassStatus};
use remem_core::event::{PassEnded, PassStarted};
use remem_core::{
    Batch, EventBody, MemoryRef, Precondition, RecordKind, Scope, TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value, json};

/// Jobs of one activation.
const JOBS_MAX: u32 = 100;
/// How often the end of a job is written before it is left to whoever takes it up next.
const TRIES: u32 = 6;
/// After so many attempts that ended with an error, a job has failed.
const FAILURES_MAX: u32 = 5;
/// How long after the first such attempt the next is made; each later wait is twice as long.
const RETRY_MS: i64 = 5_000;

/// A job that has not ended.
pub(crate) async fn worth(
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

/// One activation: the jobs that are due, oldest first.
pub(crate) async fn run(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    held: Option<&Held>,
) -> Result<PassReport, EngineError> {
    let mut report = PassReport::default();
    let Some(held) = held else {
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
        let Some(job) = due.filter(|_| n <= JOBS_MAX && !engine.passes.is_stopping()) else {
            if left {
                engine.passes.again(pass.name, tenant);
            }
            report.more = left && n > JOBS_MAX;
            return Ok(report);
        };
        let carried = carry(engine, pass, tenant, held, job).await?;
        report.examined += carried.examined;
        report.changed += carried.changed;
    }
    Ok(report)
}

/// Takes one job up and does it. What comes of it is in its record; an error is one of the store.
async fn carry(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    held: &Held,
    job: JobInfo,
) -> Result<WorkReport, EngineError> {
    let Some(job) = take_up(engine, tenant, held, job).await? else {
        return Ok(WorkReport::default());
    };
    let begun = engine.now();
    let (job, result) = if job.cancelling {
        (job, Err(Stop::Cancelled.into()))
    } else {
        perform(engine, pass, tenant, held, job).await
    };
    let report = result.as_ref().map(WorkReport::clone).unwrap_or_default();
    measure(engine, tenant, pass, &result, begun);
    conclude(engine, tenant, held, job, &result).await?;
    Ok(report)
}

/// As `carry`, for somebody who waits for the answer.
pub(super) async fn work_now(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    held: &Held,
    job: JobInfo,
) -> Result<WorkReport, WorkError> {
    let Some(job) = take_up(engine, tenant, held, job).await? else {
        return Err(Stop::Fenced.into());
    };
    let begun = engine.now();
    let (job, result) = perform(engine, pass, tenant, held, job).await;
    measure(engine, tenant, pass, &result, begun);
    // Who waits is told of the error and may try again: nobody else should.
    let failures = if result.is_err() {
        FAILURES_MAX
    } else {
        job.failures
    };
    conclude(engine, tenant, held, JobInfo { failures, ..job }, &result).await?;
    result
}

/// Writes down that this process is at it. `None`: somebody changed the record meanwhile, so it is
/// looked at again.
async fn take_up(
    engine: &Engine,
    tenant: &TenantId,
    held: &Held,
    mut job: JobInfo,
) -> Result<Option<JobInfo>, EngineError> {
    let now = engine.now_for(tenant).await?;
    let precondition = if job.version == 0 {
        Precondition::Absent
    } else {
        Precondition::Version(job.version)
    };
    let first = job.started_at.is_none();
    (job.state, job.not_before, job.started_at) =
        (JobState::Running, None, job.started_at.or(Some(now)));
    job.attempts = job.attempts.saturating_add(1);
    let batch = Batch::new(tenant.clone(), now).fenced(Some(held.fence.clone()));
    let mut batch = batch.set(RecordKind::Job, job.key(), precondition, job.body());
    if first {
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
            job.version = version_of(&committed.outcomes).unwrap_or(job.version + 1);
            Ok(Some(job))
        }
        Err(StoreError::Conflict) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// The work itself, over one memory or one after the other.
async fn perform(
    engine: &Engine,
    pass: &'static Pass,
    tenant: &TenantId,
    held: &Held,
    mut job: JobInfo,
) -> (JobInfo, Result<WorkReport, WorkError>) {
    if let Some(memory_ref) = job.memory_ref.clone() {
        return one(
            engine,
            pass,
            Scope::new(tenant.clone(), memory_ref).as_host(),
            held,
            job,
        )
        .await;
    }
    loop {
        let memories = match engine.memories_after(tenant, job.after.as_ref()).await {
            Ok(memories) => memories,
            Err(error) => return (job, Err(error.into())),
        };
        if memories.is_empty() {
            let report = so_far(&job);
            return (job, Ok(report));
        }
        for memory_ref in memories {
            let (done, result) = one(
                engine,
                pass,
                Scope::new(tenant.clone(), memory_ref.clone()).as_host(),
                held,
                job,
            )
            .await;
            job = done;
            let kept = match result {
                Ok(report) => keep(engine, tenant, held, &mut job, memory_ref, report).await,
                Err(error) => Err(error),
            };
            if let Err(error) = kept {
                return (job, Err(error));
            }
        }
    }
}

async fn one(
    engine: &Engine,
    pass: &'static Pass,
    scope: Scope,
    held: &Held,
    info: JobInfo,
) -> (JobInfo, Result<WorkReport, WorkError>) {
    let Over::Memory { work, .. } = pass.over else {
        return (info, Err(EngineError::NotFound("pass").into()));
    };
    let job = Job::new(engine, scope, info, Mode::Apply, Some(held));
    let result = work(engine, &job).await;
    (job.into_info(), result)
}

fn so_far(job: &JobInfo) -> WorkReport {
    WorkReport {
        examined: job.examined,
        changed: job.changed,
        detail: job.detail.clone(),
    }
}

/// One memory more is done: written down, so that whoever takes the job up goes on after it.
async fn keep(
    engine: &Engine,
    tenant: &TenantId,
    held: &Held,
    job: &mut JobInfo,
    memory_ref: MemoryRef,
    report: WorkReport,
) -> Result<(), WorkError> {
    let counted = WorkReport {
        detail: json!({"memories": 1})
            .as_object()
            .cloned()
            .unwrap_or_default(),
        ..WorkReport::default()
    };
    let sum = so_far(job).and(counted).and(report);
    (job.examined, job.changed, job.detail, job.after) =
        (sum.examined, sum.changed, sum.detail, Some(memory_ref));
    save(engine, tenant, held, job).await?;
    if job.cancelling {
        Err(Stop::Cancelled.into())
    } else {
        Ok(())
    }
}

/// Writes an active job's record as it is now. A caller who cancels meanwhile is heard; who took
/// the job up is left alone.
async fn save(
    engine: &Engine,
    tenant: &TenantId,
    held: &Held,
    job: &mut JobInfo,
) -> Result<(), WorkError> {
    let before = JobInfo {
        state: JobState::Running,
        ..job.clone()
    };
    let mut failed = StoreError::Busy;
    for _ in 0..TRIES {
        let now = engine.now_for(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).fenced(Some(held.fence.clone()));
        let batch = if job.state.has_ended() {
            ended(
                batch,
                &JobInfo {
                    version: job.version,
                    ..before.clone()
                },
                job.clone(),
            )
        } else {
            batch.set(
                RecordKind::Job,
                job.key(),
                Precondition::Version(job.version),
                job.body(),
            )
        };
        match engine.parts.store.commit(batch).await {
            Ok(committed) => {
                job.version = version_of(&committed.outcomes).unwrap_or(job.version + 1);
                return Ok(());
            }
            Err(error @ (StoreError::Conflict | StoreError::Busy | StoreError::Unavailable(_))) => {
                failed = error
            }
            Err(other) => return Err(other.into()),
        }
        // It may have been written although the answer says otherwise.
        match engine.find_job(tenant, &job.id).await {
            Ok(Some(found))
                if found.state.has_ended()
                    && found.state == job.state
                    && found.attempts == job.attempts =>
            {
                return Ok(());
            }
            Ok(Some(found)) if !found.state.has_ended() && found.attempts == job.attempts => {
                (job.version, job.cancelling) = (found.version, found.cancelling);
            }
            Ok(_) => return Err(Stop::Fenced.into()),
            Err(_) => {}
        }
    }
    Err(failed.into())
}

/// Moves a job to those that have ended, and tells of it if it had begun.
pub(super) fn ended(batch: Batch, active: &JobInfo, ended: JobInfo) -> Batch {
    let batch = batch.unset(
        RecordKind::Job,
        active.key(),
        Precondition::Version(active.version),
    );
    let batch = batch.set(
        RecordKind::Job,
        ended.key(),
        Precondition::Absent,
        ended.body(),
    );
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

/// Writes down how an attempt ended.
async fn conclude(
    engine: &Engine,
    tenant: &TenantId,
    held: &Held,
    mut job: JobInfo,
    result: &Result<WorkReport, WorkError>,
) -> Result<(), EngineError> {
    let now = engine.now_for(tenant).await?;
    match result {
        Err(WorkError::Stopped(Stop::Fenced)) => return Ok(()),
        Ok(report) => {
            (job.state, job.error, job.done) = (JobState::Done, None, job.total);
            (job.examined, job.changed, job.detail) =
                (report.examined, report.changed, report.detail.clone());
        }
        Err(WorkError::Stopped(Stop::Cancelled)) => job.state = JobState::Cancelled,
        Err(WorkError::Stopped(Stop::Stopping)) => job.state = JobState::Queued,
        Err(WorkError::Refused { code, details }) => {
            job.error = Some(JobFault {
                code: (*code).to_owned(),
                details: details.clone(),
            });
            job.state = JobState::Failed;
        }
        Err(WorkError::Failed(error)) => retry(&mut job, error, now),
    }
    if job.state.has_ended() {
        job.ended_at = Some(now);
        engine.has_work(crate::passes::jobs::NAME, tenant);
    }
    match save(engine, tenant, held, &mut job).await {
        Ok(()) | Err(WorkError::Stopped(_)) => Ok(()),
        Err(WorkError::Failed(error)) => Err(error),
        Err(WorkError::Refused { .. }) => Err(EngineError::NotFound("pass")),
    }
}

/// What failed may go well later, a few times.
fn retry(job: &mut JobInfo, error: &EngineError, now: Timestamp) {
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
    job.not_before = Some(now.plus_ms(RETRY_MS << (job.failures - 1)));
}

fn measure(
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
    engine.passes.record(
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
    crate::registry::measure(
        pass.name,
        outcome,
        report.map_or(0, |report| report.changed),
        ran_at.0 - begun.0,
    );
    if let Err(WorkError::Failed(error)) = result {
        tracing::warn!(pass = pass.name, tenant = %tenant, %error, "work over a memory failed");
    }
}
