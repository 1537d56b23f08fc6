//! What callers do with jobs: start, look, list, cancel; and have work done while they wait.

use super::work::{Held, Job, WorkError, WorkReport};
use super::{
    ENDED, JobInfo, JobState, Trigger, active_prefix, carry, ended_key, fresh_id, options,
};
use crate::caller::Caller;
use crate::engine::{Digest, Engine};
use crate::error::EngineError;
use crate::registry::{self, Mode, Over, PASSES, Pass};
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, MemoryRef, Permission, Precondition, RecordKind, Rejection, Scope, TenantId,
};
use remem_store::{Outcome, ReadAt, StoreError};
use serde_json::{Map, Value};

/// Whoever carries the job on may write its record at the same time.
const TRIES: u32 = 16;
/// Records read at once.
const PAGE: u32 = 100;

/// The answer to a start.
#[derive(Clone, Debug)]
pub struct Started {
    /// The job: a new one, or one that waits already and does the same.
    pub job: JobInfo,
    /// It repeats an earlier answer.
    pub replayed: bool,
}

/// Which jobs a list shows.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// Of this pass.
    pub pass: Option<String>,
    /// In this state.
    pub state: Option<JobState>,
    /// Asked for before this one.
    pub after: Option<String>,
    /// How many; see `Policy::list_limit`.
    pub limit: Option<u32>,
}

/// The pass of that name, if it works over memories.
pub(crate) fn memory_pass(name: &str) -> Result<&'static Pass, EngineError> {
    registry::find(name)
        .filter(|pass| matches!(pass.over, Over::Memory { .. }))
        .ok_or(EngineError::NotFound("pass"))
}

impl Engine {
    /// Has a pass work over a memory, or over all of the tenant's, as soon as it can. One that
    /// waits already and does the same is answered with instead of a second one.
    pub async fn start_job(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        options: Map<String, Value>,
        key: Option<&str>,
    ) -> Result<Started, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let memory_ref = named(caller, memory_ref)?;
        self.ask_for(caller, memory_pass(pass)?, memory_ref, options, key)
            .await
    }

    /// The same for a memory that need not be the caller's.
    pub(crate) async fn ask_for(
        &self,
        caller: &Caller,
        pass: &'static Pass,
        memory_ref: Option<MemoryRef>,
        options: Map<String, Value>,
        key: Option<&str>,
    ) -> Result<Started, EngineError> {
        let tenant = caller.tenant();
        let wanted = self
            .new_job(tenant, pass, memory_ref, options, Trigger::OnDemand)
            .await?;
        let idempotency = self.idempotency("start-job", key, &digest(&wanted))?;
        for _ in 0..TRIES {
            let equal = self.equal_job(tenant, &wanted).await?;
            let (job, precondition) = match equal {
                Some(job) if idempotency.is_none() => {
                    return Ok(Started {
                        job,
                        replayed: false,
                    });
                }
                // Written as it is, so that the key is remembered with it.
                Some(job) => (job.clone(), Precondition::Version(job.version)),
                None => (wanted.clone(), Precondition::Absent),
            };
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now)
                .by(caller.principal().clone())
                .idempotent(idempotency.clone());
            match self
                .parts
                .store
                .commit(batch.set(RecordKind::Job, job.key(), precondition, job.body()))
                .await
            {
                Ok(committed) => {
                    let id = committed.outcomes.iter().find_map(|outcome| match outcome {
                        Outcome::Recorded { key, .. } => key.rsplit('/').next(),
                        _ => None,
                    });
                    let job = self
                        .find_job(tenant, id.unwrap_or(&job.id))
                        .await?
                        .ok_or(EngineError::NotFound("job"))?;
                    self.has_work(pass.name, tenant);
                    return Ok(Started {
                        job,
                        replayed: committed.replayed,
                    });
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// A job that could be kept: its memory's name holds no secret, and its options are the pass's.
    pub(crate) async fn new_job(
        &self,
        tenant: &TenantId,
        pass: &'static Pass,
        memory_ref: Option<MemoryRef>,
        given: Map<String, Value>,
        trigger: Trigger,
    ) -> Result<JobInfo, EngineError> {
        let Over::Memory { options: specs, .. } = pass.over else {
            return Err(EngineError::NotFound("pass"));
        };
        let given = options::check(specs, given)?;
        if let Some(memory_ref) = &memory_ref {
            check_name(
                self.rules(tenant).await?.redactor(),
                "memoryRef",
                memory_ref.as_str(),
            )?;
        }
        let now = self.now_for(tenant).await?;
        let id = fresh_id(now, &self.parts.ids.holder());
        Ok(JobInfo {
            memory_ref,
            options: given,
            ..JobInfo::new(pass.name, trigger, now, id)
        })
    }

    /// A job that waits and does the same; refuses where too many wait.
    pub(crate) async fn equal_job(
        &self,
        tenant: &TenantId,
        wanted: &JobInfo,
    ) -> Result<Option<JobInfo>, EngineError> {
        let active = self.active_jobs(tenant, wanted.pass).await?;
        let same = |job: &&JobInfo| {
            job.state == JobState::Queued
                && !job.cancelling
                && job.memory_ref == wanted.memory_ref
                && job.options == wanted.options
        };
        if let Some(equal) = active.iter().find(same) {
            return Ok(Some(equal.clone()));
        }
        let limit = self.parts.policy.jobs_active_max;
        if active.len() >= limit {
            let limit = limit as u64;
            let actual = active.len() as u64 + 1;
            return Err(Rejection::TooLarge {
                field: "jobs",
                unit: "items",
                limit,
                actual,
            }
            .into());
        }
        Ok(None)
    }

    /// The jobs of a pass that have not ended, oldest first.
    pub(crate) async fn active_jobs(
        &self,
        tenant: &TenantId,
        pass: &str,
    ) -> Result<Vec<JobInfo>, EngineError> {
        let limit = u32::try_from(self.parts.policy.jobs_active_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(tenant, RecordKind::Job, &active_prefix(pass), None, limit)
            .await?;
        Ok(records.iter().filter_map(JobInfo::read).collect())
    }

    pub(crate) async fn find_job(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<JobInfo>, EngineError> {
        if id.len() > 64 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Ok(None);
        }
        // Those that have not ended come first, and once more at the end: it may move from one
        // place to the other meanwhile.
        let active = memory_passes().map(|pass| format!("{}{id}", active_prefix(pass.name)));
        for key in active.chain([ended_key(id)]) {
            let record = self
                .parts
                .store
                .record(tenant, RecordKind::Job, &key)
                .await?;
            if let Some(job) = record.as_ref().and_then(JobInfo::read) {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// One job.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<JobInfo, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        self.find_job(caller.tenant(), id)
            .await?
            .filter(|job| job.is_shown_to(caller))
            .ok_or(EngineError::NotFound("job"))
    }

    /// The tenant's jobs, newest first, and whether there are more.
    pub async fn jobs(
        &self,
        caller: &Caller,
        query: &JobQuery,
    ) -> Result<(Vec<JobInfo>, bool), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let limit = self.parts.policy.list_limit(query.limit) as usize;
        let wanted = |job: &JobInfo| {
            job.is_shown_to(caller)
                && query.pass.as_deref().is_none_or(|pass| pass == job.pass)
                && query.state.is_none_or(|state| state == job.state)
                && query
                    .after
                    .as_deref()
                    .is_none_or(|after| job.id.as_str() < after)
        };
        let mut found = Vec::new();
        for pass in memory_passes() {
            found.extend(
                self.active_jobs(tenant, pass.name)
                    .await?
                    .into_iter()
                    .filter(wanted),
            );
        }
        let mut after = query.after.as_deref().map(ended_key);
        let mut ended = 0;
        while ended <= limit {
            let page = self
                .parts
                .store
                .records(tenant, RecordKind::Job, ENDED, after.as_deref(), PAGE)
                .await?;
            after = page.last().map(|last| last.key.clone());
            let before = found.len();
            found.extend(page.iter().filter_map(JobInfo::read).filter(wanted));
            ended += found.len() - before;
            if page.len() < PAGE as usize {
                break;
            }
        }
        found.sort_by(|a, b| b.id.cmp(&a.id));
        // One that ended between the two looks is there twice.
        found.dedup_by(|a, b| a.id == b.id);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    /// Stops a job: at once if it waits, with its next page if it is under way.
    pub async fn cancel_job(&self, caller: &Caller, id: &str) -> Result<JobInfo, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        for _ in 0..TRIES {
            let job = self.job(caller, id).await?;
            match job.state {
                JobState::Cancelled => return Ok(job),
                JobState::Done | JobState::Failed => {
                    return Err(EngineError::JobEnded { state: job.state });
                }
                JobState::Running if job.cancelling => return Ok(job),
                JobState::Queued | JobState::Running => {}
            }
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
            let batch = if job.state == JobState::Queued {
                carry::ended(
                    batch,
                    &job,
                    JobInfo {
                        state: JobState::Cancelled,
                        ended_at: Some(now),
                        ..job.clone()
                    },
                )
            } else {
                let asked = JobInfo {
                    cancelling: true,
                    ..job.clone()
                };
                batch.set(
                    RecordKind::Job,
                    job.key(),
                    Precondition::Version(job.version),
                    asked.body(),
                )
            };
            match self.parts.store.commit(batch).await {
                Ok(_) => {
                    self.has_work(job.pass, tenant);
                    return self.job(caller, id).await;
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Says what a pass would do to a memory, or to all of the tenant's. Leaves no trace.
    pub async fn dry_run(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        options: Map<String, Value>,
    ) -> Result<WorkReport, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let pass = memory_pass(pass)?;
        let Over::Memory { work, .. } = pass.over else {
            return Err(EngineError::NotFound("pass"));
        };
        let job = self
            .new_job(
                tenant,
                pass,
                named(caller, memory_ref)?,
                options,
                Trigger::OnDemand,
            )
            .await?;
        let job = JobInfo {
            id: String::new(),
            ..job
        };
        let mut report = WorkReport::default();
        let mut after = None;
        loop {
            let memories = match &job.memory_ref {
                Some(memory_ref) => vec![memory_ref.clone()],
                None => self.memories_after(tenant, after.as_ref()).await?,
            };
            let Some(last) = memories.last().cloned() else {
                return Ok(report);
            };
            for memory_ref in memories {
                let one = Job::new(
                    self,
                    Scope::new(tenant.clone(), memory_ref).as_host(),
                    job.clone(),
                    Mode::DryRun,
                    None,
                );
                report = report.and(work(self, &one).await.map_err(refusal)?);
            }
            if job.memory_ref.is_some() {
                return Ok(report);
            }
            after = Some(last);
        }
    }

    /// Names of the memories that are the tenant's, in order. Those of one user are worked on when
    /// that user says so.
    pub(crate) async fn memories_after(
        &self,
        tenant: &TenantId,
        after: Option<&MemoryRef>,
    ) -> Result<Vec<MemoryRef>, EngineError> {
        let at = ReadAt::Now(self.now_for(tenant).await?);
        Ok(self
            .parts
            .store
            .scopes(
                tenant,
                &sabotage!("all-memories-are-everybody-s", Actor::Nobody, Actor::Host),
                after,
                PAGE,
                &at,
            )
            .await?
            .into_iter()
            .map(|scope| scope.memory_ref)
            .collect())
    }

    /// Has a pass work while the caller waits, after any other activation of it that is under way.
    /// Leaves a job behind that tells of it; after a crash that job is taken up like any other.
    pub async fn work_now(
        &self,
        tenant: &TenantId,
        pass: &str,
        memory_ref: Option<&MemoryRef>,
        options: Map<String, Value>,
        trigger: Trigger,
    ) -> Result<WorkReport, WorkError> {
        let pass = memory_pass(pass)?;
        let job = self
            .new_job(tenant, pass, memory_ref.cloned(), options, trigger)
            .await?;
        self.carry_out(tenant, pass, job).await
    }

    /// Does a job here and waits for its end.
    pub(crate) async fn carry_out(
        &self,
        tenant: &TenantId,
        pass: &'static Pass,
        job: JobInfo,
    ) -> Result<WorkReport, WorkError> {
        let held = self.wait_for_lease(pass, tenant).await?;
        let result = carry::work_now(self, pass, tenant, &held, job).await;
        self.release(tenant, &held.fence).await;
        result
    }

    async fn wait_for_lease(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<Held, EngineError> {
        for _ in 0..registry::CLAIM_TRIES {
            if let Some(held) = self.claim(pass, tenant).await? {
                return Ok(held);
            }
            tokio::time::sleep(registry::CLAIM_AGAIN).await;
        }
        Err(EngineError::Store(StoreError::Busy))
    }
}

pub(crate) fn memory_passes() -> impl Iterator<Item = &'static Pass> {
    PASSES
        .iter()
        .filter(|pass| matches!(pass.over, Over::Memory { .. }))
}

/// A malformed name is refused: what waits for ever for a memory that cannot be helps nobody.
pub(crate) fn named(
    caller: &Caller,
    memory_ref: Option<&str>,
) -> Result<Option<MemoryRef>, Rejection> {
    memory_ref
        .map(|text| {
            caller
                .memory_ref(text)
                .ok_or(Rejection::MalformedName { field: "memoryRef" })
        })
        .transpose()
}

/// What a caller who waits is told.
pub(crate) fn refusal(error: WorkError) -> EngineError {
    match error {
        WorkError::Refused { code, details } => EngineError::WorkRefused { code, details },
        WorkError::Failed(error) => error,
        WorkError::Stopped(_) => EngineError::Store(StoreError::Busy),
    }
}

fn digest(job: &JobInfo) -> Digest {
    let mut digest = Digest::default();
    let pass = job.pass.as_bytes();
    let memory_ref = job
        .memory_ref
        .as_ref()
        .map_or("", |memory_ref| memory_ref.as_str())
        .as_bytes();
    // What is one user's begins with its name.
    let is_own = job
        .memory_ref
        .as_ref()
        .is_some_and(|memory_ref| memory_ref.owner().is_some());
    for part in if is_own {
        [memory_ref, pass]
    } else {
        [pass, memory_ref]
    } {
        digest.part(part);
    }
    // The names of a map are in order.
    digest.part(Value::Object(job.options.clone()).to_string().as_bytes());
    digest
}
