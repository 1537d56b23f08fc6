//! Operations on jobs: start, get, list, cancel, dry runs, and jobs that the caller waits for.

use super::work::{HeldLease, JobContext, WorkError, WorkReport};
use super::{
    ENDED_PREFIX, JobInfo, JobState, Trigger, active_prefix, ended_key, execute, new_job_id,
    options,
};
use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use crate::registry::{self, PASSES, Pass, PassKind, PassMode};
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, MemoryRef, Permission, Precondition, PrincipalId, RecordKind, Rejection, Scope,
    TenantId,
};
use remem_store::{ChangeOutcome, ReadAt, StoreError};
use serde_json::{Map, Value};

/// How often a conflicting commit is retried: the process that runs the job writes the same record.
const COMMIT_TRIES: u32 = 16;
/// Records read with one query.
const PAGE_SIZE: u32 = 100;

/// The result of starting a job.
#[derive(Clone, Debug)]
pub struct StartedJob {
    /// The new job, or a queued one that is equivalent.
    pub job: JobInfo,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// The filter of a list of jobs.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// Only jobs of this pass.
    pub pass: Option<String>,
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Only jobs that were requested before the job with this id.
    pub after: Option<String>,
    /// Number of jobs wanted; see `Policy::list_limit`.
    pub limit: Option<u32>,
}

/// Finds a pass by its name; fails unless it works on memories.
pub(crate) fn find_memory_pass(name: &str) -> Result<&'static Pass, EngineError> {
    registry::find(name)
        .filter(|pass| matches!(pass.kind, PassKind::Memory { .. }))
        .ok_or(EngineError::NotFound("pass"))
}

impl Engine {
    /// Queues a job for a memory, or for all memories of the tenant. If an equivalent job is queued
    /// already, returns that one instead of a second one.
    pub async fn start_job(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        options: Map<String, Value>,
        key: Option<&str>,
    ) -> Result<StartedJob, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let pass = find_memory_pass(pass)?;
        let memory_ref = resolve_memory_ref(caller, memory_ref)?;
        let wanted = self
            .new_job(tenant, pass, memory_ref, options, Trigger::OnDemand)
            .await?;
        self.enqueue_job(tenant, caller.principal(), wanted, key)
            .await
    }

    /// Queues this job of a principal, unless an equivalent one is queued already.
    pub(crate) async fn enqueue_job(
        &self,
        tenant: &TenantId,
        principal: &PrincipalId,
        wanted: JobInfo,
        key: Option<&str>,
    ) -> Result<StartedJob, EngineError> {
        let idempotency = self.idempotency("start-job", key, &job_digest(&wanted))?;
        for _ in 0..COMMIT_TRIES {
            let equal = self.find_equivalent_job(tenant, &wanted).await?;
            let (job, precondition) = match equal {
                Some(job) if idempotency.is_none() => {
                    return Ok(StartedJob {
                        job,
                        replayed: false,
                    });
                }
                // Write the existing job unchanged, so that the idempotency key is stored with it.
                Some(job) => (job.clone(), Precondition::Version(job.version)),
                None => (wanted.clone(), Precondition::Absent),
            };
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now)
                .with_principal(principal.clone())
                .idempotent(idempotency.clone());
            match self
                .parts
                .store
                .commit(batch.set_stored(&job.to_stored(), precondition))
                .await
            {
                Ok(committed) => {
                    let id = committed.outcomes.iter().find_map(|outcome| match outcome {
                        ChangeOutcome::Recorded { key, .. } => key.rsplit('/').next(),
                        _ => None,
                    });
                    let job = self
                        .find_job(tenant, id.unwrap_or(&job.id))
                        .await?
                        .ok_or(EngineError::NotFound("job"))?;
                    self.notify_work(wanted.pass, tenant);
                    return Ok(StartedJob {
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

    /// Builds a job after checking that the memory's name holds no secret and that the pass has
    /// these options.
    pub(crate) async fn new_job(
        &self,
        tenant: &TenantId,
        pass: &'static Pass,
        memory_ref: Option<MemoryRef>,
        job_options: Map<String, Value>,
        trigger: Trigger,
    ) -> Result<JobInfo, EngineError> {
        let PassKind::Memory { options: specs, .. } = pass.kind else {
            return Err(EngineError::NotFound("pass"));
        };
        let job_options = options::validate(specs, job_options)?;
        if let Some(memory_ref) = &memory_ref {
            check_name(
                self.redaction_rules(tenant).await?.redactor(),
                "memoryRef",
                memory_ref.as_str(),
            )?;
        }
        let now = self.now_for(tenant).await?;
        let id = new_job_id(now, &self.parts.ids.unique_name());
        Ok(JobInfo {
            memory_ref,
            options: job_options,
            ..JobInfo::new(pass.name, trigger, now, id)
        })
    }

    /// Finds a queued job with the same memory and options. Fails if there is none and the tenant
    /// has too many active jobs already.
    pub(crate) async fn find_equivalent_job(
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
        self.check_active_jobs(&active)?;
        Ok(None)
    }

    /// Fails if one more job would be too many beside these active ones.
    pub(crate) fn check_active_jobs(&self, active: &[JobInfo]) -> Result<(), Rejection> {
        let limit = self.parts.policy.jobs_active_max as u64;
        let actual = active.len() as u64 + 1;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "jobs",
                unit: "items",
                limit,
                actual,
            });
        }
        Ok(())
    }

    /// Returns the jobs of a pass that have not ended, oldest first.
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
        Ok(records.iter().filter_map(JobInfo::from_record).collect())
    }

    /// Finds a job by its id, whether it has ended or not.
    pub(crate) async fn find_job(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<JobInfo>, EngineError> {
        if id.len() > 64 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Ok(None);
        }
        // Active keys are tried before the ended one, because a job moves in that direction
        // meanwhile.
        let active = job_passes().map(|pass| format!("{}{id}", active_prefix(pass.name)));
        for key in active.chain([ended_key(id)]) {
            let record = self
                .parts
                .store
                .record(tenant, RecordKind::Job, &key)
                .await?;
            if let Some(job) = record.as_ref().and_then(JobInfo::from_record) {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Returns one job that the caller may see.
    pub async fn get_job(&self, caller: &Caller, id: &str) -> Result<JobInfo, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        self.find_job(caller.tenant(), id)
            .await?
            .filter(|job| job.is_visible_to(caller))
            .ok_or(EngineError::NotFound("job"))
    }

    /// Returns the tenant's jobs, newest first, and whether there are more.
    pub async fn list_jobs(
        &self,
        caller: &Caller,
        query: &JobQuery,
    ) -> Result<(Vec<JobInfo>, bool), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let limit = self.parts.policy.list_limit(query.limit) as usize;
        let wanted = |job: &JobInfo| {
            job.is_visible_to(caller)
                && query.pass.as_deref().is_none_or(|pass| pass == job.pass)
                && query.state.is_none_or(|state| state == job.state)
                && query
                    .after
                    .as_deref()
                    .is_none_or(|after| job.id.as_str() < after)
        };
        let mut found = Vec::new();
        for pass in job_passes() {
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
                .records(
                    tenant,
                    RecordKind::Job,
                    ENDED_PREFIX,
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            after = page.last().map(|last| last.key.clone());
            let before = found.len();
            found.extend(page.iter().filter_map(JobInfo::from_record).filter(wanted));
            ended += found.len() - before;
            if page.len() < PAGE_SIZE as usize {
                break;
            }
        }
        found.sort_by(|a, b| b.id.cmp(&a.id));
        // A job that ended between the two reads is in the list twice.
        found.dedup_by(|a, b| a.id == b.id);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    /// Cancels a job: at once if it is queued, with its next report of progress if it is running.
    pub async fn cancel_job(&self, caller: &Caller, id: &str) -> Result<JobInfo, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        for _ in 0..COMMIT_TRIES {
            let job = self.get_job(caller, id).await?;
            match job.state {
                JobState::Cancelled => return Ok(job),
                JobState::Done | JobState::Failed => {
                    return Err(EngineError::JobEnded { state: job.state });
                }
                JobState::Running if job.cancelling => return Ok(job),
                JobState::Queued | JobState::Running => {}
            }
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
            let batch = if job.state == JobState::Queued {
                execute::move_to_ended(
                    batch,
                    &job,
                    JobInfo {
                        state: JobState::Cancelled,
                        ended_at: Some(now),
                        ..job.clone()
                    },
                )
            } else {
                let cancelling = JobInfo {
                    cancelling: true,
                    ..job.clone()
                };
                batch.set_stored(&cancelling.to_stored(), Precondition::Version(job.version))
            };
            match self.parts.store.commit(batch).await {
                Ok(_) => {
                    self.notify_work(job.pass, tenant);
                    return self.get_job(caller, id).await;
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Reports what a pass would do to a memory, or to all memories of the tenant, without writing
    /// anything.
    pub async fn dry_run(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        options: Map<String, Value>,
    ) -> Result<WorkReport, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let pass = find_memory_pass(pass)?;
        let PassKind::Memory { work, .. } = pass.kind else {
            return Err(EngineError::NotFound("pass"));
        };
        let job = self
            .new_job(
                tenant,
                pass,
                resolve_memory_ref(caller, memory_ref)?,
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
                let job_context = JobContext::new(
                    self,
                    Scope::new(tenant.clone(), memory_ref).as_host(),
                    job.clone(),
                    PassMode::DryRun,
                    None,
                );
                report = report.merge(work(self, &job_context).await.map_err(into_engine_error)?);
            }
            if job.memory_ref.is_some() {
                return Ok(report);
            }
            after = Some(last);
        }
    }

    /// Returns one page of names of the tenant's shared memories, in order. Memories of one user
    /// are only worked on when that user starts a job.
    pub(crate) async fn memories_after(
        &self,
        tenant: &TenantId,
        after: Option<&MemoryRef>,
    ) -> Result<Vec<MemoryRef>, EngineError> {
        let at = ReadAt::Now(self.now_for(tenant).await?);
        Ok(self
            .parts
            .store
            .memories(
                tenant,
                &sabotage!("all-memories-are-everybody-s", Actor::NoUser, Actor::Host),
                after,
                PAGE_SIZE,
                &at,
            )
            .await?
            .into_iter()
            .map(|scope| scope.memory_ref)
            .collect())
    }

    /// Runs a pass and waits for its result, after any other activation of it. The job's record
    /// stays; after a crash the job is claimed again like any other.
    pub async fn run_job_and_wait(
        &self,
        tenant: &TenantId,
        pass: &str,
        memory_ref: Option<&MemoryRef>,
        options: Map<String, Value>,
        trigger: Trigger,
    ) -> Result<WorkReport, WorkError> {
        let pass = find_memory_pass(pass)?;
        let job = self
            .new_job(tenant, pass, memory_ref.cloned(), options, trigger)
            .await?;
        self.carry_out(tenant, pass, job).await
    }

    /// Runs a job in this process and waits for its end.
    pub(crate) async fn carry_out(
        &self,
        tenant: &TenantId,
        pass: &'static Pass,
        job: JobInfo,
    ) -> Result<WorkReport, WorkError> {
        let held = self.wait_for_lease(pass, tenant).await?;
        let result = execute::run_job_now(self, pass, tenant, &held, job).await;
        self.release_lease(tenant, &held.fence).await;
        result
    }

    /// Takes the lease of a pass, waiting for its current holder.
    async fn wait_for_lease(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<HeldLease, EngineError> {
        for _ in 0..registry::CLAIM_TRIES {
            if let Some(lease) = self.claim_lease(pass, tenant).await? {
                return Ok(lease);
            }
            tokio::time::sleep(registry::CLAIM_RETRY_DELAY).await;
        }
        Err(EngineError::Store(StoreError::Busy))
    }
}

/// The passes that do jobs.
pub(crate) fn job_passes() -> impl Iterator<Item = &'static Pass> {
    PASSES.iter().filter(|pass| pass.kind.does_jobs())
}

/// Resolves an optional memory's name. A malformed name is refused: a job for a memory that cannot
/// exist would never be of use.
pub(crate) fn resolve_memory_ref(
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

/// The error that a waiting caller gets for failed work.
pub(crate) fn into_engine_error(error: WorkError) -> EngineError {
    match error {
        WorkError::Refused { code, details } => EngineError::WorkRefused { code, details },
        WorkError::Failed(error) => error,
        WorkError::Stopped(_) => EngineError::Store(StoreError::Busy),
    }
}

/// Digest of a request for a job, for its idempotency key.
fn job_digest(job: &JobInfo) -> RequestDigest {
    let mut digest = RequestDigest::default();
    let pass = job.pass.as_bytes();
    let memory_ref = job
        .memory_ref
        .as_ref()
        .map_or("", |memory_ref| memory_ref.as_str())
        .as_bytes();
    // The digest of a request about one user's memory must begin with the memory's name.
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
    // Serialisation of a map is deterministic: its keys are sorted.
    digest.part(Value::Object(job.options.clone()).to_string().as_bytes());
    digest
}
