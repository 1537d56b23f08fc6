//! The part of the memory API for passes, their jobs and their schedules.

use super::{LocalApi, engine_failure, invalid_field};
use async_trait::async_trait;
use remem_core::{MemoryRef, Permission};
use remem_engine::jobs::{JobInfo, JobQuery, JobState, PassOverview, WorkReport};
use remem_engine::registry::{self, PassKind, PassMode, PassReport};
use remem_engine::schedules::{NewSchedule, Schedule};
use remem_wire::pass::{
    JobDoc, JobError, JobList, JobsQuery, PassAnswer, PassInfo, PassList, PassOption, PassRan,
    PassRun, ScheduleDoc, ScheduleList, SchedulePut, ScheduleQuery,
};
use remem_wire::time::Instant;
use remem_wire::{Failure, Problem};

/// Passes, jobs and schedules, on behalf of one caller.
#[async_trait]
pub trait PassApi: Send + Sync {
    /// Returns every pass with its last run, its jobs and when it is due next.
    async fn passes(&self) -> Result<PassList, Failure>;
    /// Runs a pass. One over a tenant runs once, while the caller waits; one over memories is
    /// started as a job.
    async fn run_pass(
        &self,
        name: &str,
        run: PassRun,
        key: Option<&str>,
    ) -> Result<PassRan, Failure>;
    /// Returns a page of jobs, newest first.
    async fn jobs(&self, query: JobsQuery) -> Result<JobList, Failure>;
    /// Returns one job and its progress.
    async fn job(&self, id: &str) -> Result<JobDoc, Failure>;
    /// Cancels a job: at once if it is queued, with its next page if it is running.
    async fn cancel_job(&self, id: &str) -> Result<JobDoc, Failure>;
    /// Returns the tenant's schedules of all passes.
    async fn schedules(&self) -> Result<ScheduleList, Failure>;
    /// Returns the schedule of a pass over one memory, or over all of the tenant's.
    async fn schedule(&self, pass: &str, query: ScheduleQuery) -> Result<ScheduleDoc, Failure>;
    /// Creates or replaces the schedule of a pass.
    async fn put_schedule(
        &self,
        pass: &str,
        query: ScheduleQuery,
        put: SchedulePut,
    ) -> Result<ScheduleDoc, Failure>;
    /// Removes the schedule of a pass.
    async fn remove_schedule(&self, pass: &str, query: ScheduleQuery) -> Result<(), Failure>;
}

#[async_trait]
impl PassApi for LocalApi {
    async fn passes(&self) -> Result<PassList, Failure> {
        let overview = self
            .engine
            .pass_overview(&self.caller)
            .await
            .map_err(engine_failure)?;
        Ok(PassList {
            passes: overview.into_iter().map(pass_info).collect(),
        })
    }

    async fn run_pass(
        &self,
        name: &str,
        run: PassRun,
        key: Option<&str>,
    ) -> Result<PassRan, Failure> {
        self.caller
            .require(Permission::MemoryAdmin)
            .map_err(engine_failure)?;
        let pass = registry::find(name).ok_or(Problem::NotFound("pass"))?;
        match pass.kind {
            PassKind::Memory { .. } => return self.run_as_job(name, run, key).await,
            PassKind::Subject { .. } => {
                return Err(invalid_field(
                    "name",
                    "is a pass that only a forget starts: POST /v1/host/remembrancer/forget",
                ));
            }
            PassKind::Tenant { .. } => {}
        }
        if run.memory_ref.is_some() || !run.options.is_empty() {
            return Err(invalid_field(
                "memoryRef",
                "and options are only for passes over memories",
            ));
        }
        let mode = match (run.dry_run, run.compact) {
            (true, false) => PassMode::DryRun,
            (false, true) => PassMode::Compact,
            (false, false) => PassMode::Apply,
            (true, true) => return Err(invalid_field("compact", "cannot be tried in a dry run")),
        };
        self.engine
            .run_pass(pass, self.caller.tenant(), mode)
            .await
            .map(|report| PassRan::Done(pass_answer(report)))
            .map_err(engine_failure)
    }

    async fn jobs(&self, query: JobsQuery) -> Result<JobList, Failure> {
        let JobsQuery {
            pass,
            state,
            after,
            limit,
        } = query;
        let unknown = || {
            invalid_field(
                "state",
                "must be queued, running, done, failed or cancelled",
            )
        };
        let state = state
            .map(|state| JobState::parse(&state).ok_or_else(unknown))
            .transpose()?;
        let is_job_id = |id: &String| {
            id.starts_with("job_")
                && id.len() <= 64
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if after.as_ref().is_some_and(|after| !is_job_id(after)) {
            return Err(invalid_field(
                "after",
                "must be the nextAfter of an earlier page",
            ));
        }
        let (jobs, more) = self
            .engine
            .list_jobs(
                &self.caller,
                &JobQuery {
                    pass,
                    state,
                    after,
                    limit,
                },
            )
            .await
            .map_err(engine_failure)?;
        let next_after = jobs.last().filter(|_| more).map(|last| last.id.clone());
        Ok(JobList {
            jobs: jobs.into_iter().map(job_doc).collect(),
            next_after,
        })
    }

    async fn job(&self, id: &str) -> Result<JobDoc, Failure> {
        self.engine
            .get_job(&self.caller, id)
            .await
            .map(job_doc)
            .map_err(engine_failure)
    }

    async fn cancel_job(&self, id: &str) -> Result<JobDoc, Failure> {
        self.engine
            .cancel_job(&self.caller, id)
            .await
            .map(job_doc)
            .map_err(engine_failure)
    }

    async fn schedules(&self) -> Result<ScheduleList, Failure> {
        let schedules = self
            .engine
            .list_schedules(&self.caller)
            .await
            .map_err(engine_failure)?;
        Ok(ScheduleList {
            schedules: schedules.into_iter().map(schedule_doc).collect(),
        })
    }

    async fn schedule(&self, pass: &str, query: ScheduleQuery) -> Result<ScheduleDoc, Failure> {
        self.engine
            .get_schedule(&self.caller, pass, query.memory_ref.as_deref())
            .await
            .map(schedule_doc)
            .map_err(engine_failure)
    }

    async fn put_schedule(
        &self,
        pass: &str,
        query: ScheduleQuery,
        put: SchedulePut,
    ) -> Result<ScheduleDoc, Failure> {
        let SchedulePut {
            every,
            cron,
            zone,
            options,
            enabled,
        } = put;
        let new = NewSchedule {
            every,
            cron,
            zone,
            options,
            enabled: enabled.unwrap_or(true),
        };
        self.engine
            .put_schedule(&self.caller, pass, query.memory_ref.as_deref(), new)
            .await
            .map(schedule_doc)
            .map_err(engine_failure)
    }

    async fn remove_schedule(&self, pass: &str, query: ScheduleQuery) -> Result<(), Failure> {
        self.engine
            .remove_schedule(&self.caller, pass, query.memory_ref.as_deref())
            .await
            .map_err(engine_failure)
    }
}

impl LocalApi {
    async fn run_as_job(
        &self,
        name: &str,
        run: PassRun,
        key: Option<&str>,
    ) -> Result<PassRan, Failure> {
        let PassRun {
            dry_run,
            compact,
            memory_ref,
            options,
        } = run;
        if compact {
            return Err(invalid_field("compact", "is only for the pass purge"));
        }
        if dry_run {
            let report = self
                .engine
                .dry_run(&self.caller, name, memory_ref.as_deref(), options)
                .await
                .map_err(engine_failure)?;
            let WorkReport {
                examined,
                changed,
                detail,
            } = report;
            return Ok(PassRan::Done(PassAnswer {
                examined,
                changed,
                more: false,
                detail,
            }));
        }
        let started = self
            .engine
            .start_job(&self.caller, name, memory_ref.as_deref(), options, key)
            .await
            .map_err(engine_failure)?;
        Ok(PassRan::Started(Box::new(job_doc(started.job))))
    }
}

fn pass_answer(report: PassReport) -> PassAnswer {
    PassAnswer {
        examined: report.examined,
        changed: report.changed,
        more: report.more,
        ..PassAnswer::default()
    }
}

fn pass_info(overview: PassOverview) -> PassInfo {
    let PassOverview {
        pass,
        last_activation: here,
        last_job: ended,
        running_job: running,
        queued_jobs: queued,
        next_due,
    } = overview;
    let option = |spec: &remem_engine::jobs::options::OptionSpec| PassOption {
        name: spec.name.to_owned(),
        r#type: spec.kind.as_str().to_owned(),
        description: spec.doc.to_owned(),
    };
    let done = ended.as_ref().filter(|job| job.state == JobState::Done);
    let report = done.map(|job| PassReport {
        examined: job.examined,
        changed: job.changed,
        more: false,
    });
    PassInfo {
        name: pass.name.to_owned(),
        description: pass.doc.to_owned(),
        over: pass.kind.as_str().to_owned(),
        period_ms: pass.period_ms,
        options: pass.kind.options().iter().map(option).collect(),
        last_run_at: ended
            .as_ref()
            .map_or_else(
                || here.as_ref().map(|status| status.ran_at),
                |job| job.ended_at,
            )
            .map(Instant),
        last_report: report
            .or_else(|| {
                here.filter(|_| ended.is_none())
                    .and_then(|status| status.report)
            })
            .map(pass_answer),
        last_job: ended.map(job_doc),
        running: running.map(job_doc),
        queued,
        next_due: next_due.map(Instant),
    }
}

fn memory_name(memory_ref: Option<MemoryRef>) -> Option<String> {
    memory_ref.map(|memory_ref| memory_ref.as_str().to_owned())
}

pub(super) fn job_doc(job: JobInfo) -> JobDoc {
    let duration_ms = job.duration_ms();
    JobDoc {
        id: job.id,
        pass: job.pass.to_owned(),
        memory_ref: memory_name(job.memory_ref),
        options: job.options,
        trigger: job.trigger.as_str().to_owned(),
        state: job.state.as_str().to_owned(),
        cancelling: job.cancelling,
        phase: job.phase,
        done: job.done,
        total: job.total,
        examined: job.examined,
        changed: job.changed,
        detail: job.detail,
        error: job.error.map(|error| JobError {
            code: error.code,
            details: error.details,
        }),
        requested_at: Instant(job.requested_at),
        started_at: job.started_at.map(Instant),
        ended_at: job.ended_at.map(Instant),
        duration_ms,
        attempts: job.attempts,
    }
}

fn schedule_doc(schedule: Schedule) -> ScheduleDoc {
    ScheduleDoc {
        pass: schedule.pass.to_owned(),
        memory_ref: memory_name(schedule.memory_ref),
        every: schedule.every,
        cron: schedule.cron,
        zone: schedule.zone,
        options: schedule.options,
        enabled: schedule.enabled,
        next_due: schedule.next_due.map(Instant),
        last_due: schedule.last_due.map(Instant),
        last_job_id: schedule.last_job_id,
    }
}
