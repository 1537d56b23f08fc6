//! What a pass is given to do a job with: the memory and its options, or the subject to forget; how
//! to report progress; and the signal to stop.

use super::{ErasureTarget, JobInfo, Trigger};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{LEASE_MS, PassMode};
use remem_core::event::PassProgress;
use remem_core::{
    Batch, EventBody, Fence, MemoryRef, Precondition, RecordKind, Rejection, Scope, TenantId,
    Timestamp,
};
use remem_store::{ChangeOutcome, ReadAt, StoreError};
use serde_json::{Map, Value};
use std::pin::Pin;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The future of a job's work.
pub type WorkFuture<'a> = Pin<Box<dyn Future<Output = Result<WorkReport, WorkError>> + Send + 'a>>;

/// Counts of a pass over one memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkReport {
    /// Number of things that were examined.
    pub examined: u64,
    /// Number of things that were changed (in a dry run: that would be).
    pub changed: u64,
    /// Further counts and ids; no content.
    pub detail: Map<String, Value>,
}

impl WorkReport {
    /// Adds another report: numbers that both have are added up, other values are replaced by the
    /// later ones.
    #[must_use]
    pub fn merge(mut self, other: WorkReport) -> WorkReport {
        for (name, value) in other.detail {
            let sum = self
                .detail
                .get(&name)
                .and_then(Value::as_u64)
                .zip(value.as_u64())
                .map(|(a, b)| Value::from(a.saturating_add(b)));
            self.detail.insert(name, sum.unwrap_or(value));
        }
        WorkReport {
            examined: self.examined + other.examined,
            changed: self.changed + other.changed,
            detail: self.detail,
        }
    }
}

/// Why work has to stop now. What is committed stays, and nothing more may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A caller cancelled the job.
    Cancelled,
    /// Another process has claimed the job, because this one was paused for longer than its lease.
    Fenced,
    /// The process is about to exit, or its time for the job is over; the job continues elsewhere,
    /// or here later.
    Stopping,
}

/// Why work did not complete.
#[derive(Debug)]
pub enum WorkError {
    /// It was interrupted, for this reason.
    Stopped(StopReason),
    /// It cannot succeed, however often it is tried.
    Refused {
        /// Stable error code for programs.
        code: &'static str,
        /// Facts about the cause, without content.
        details: Map<String, Value>,
    },
    /// An error that may not happen the next time.
    Failed(EngineError),
}

impl From<StopReason> for WorkError {
    fn from(stop: StopReason) -> WorkError {
        WorkError::Stopped(stop)
    }
}

impl From<EngineError> for WorkError {
    fn from(error: EngineError) -> WorkError {
        WorkError::Failed(error)
    }
}

impl From<StoreError> for WorkError {
    fn from(error: StoreError) -> WorkError {
        WorkError::Failed(error.into())
    }
}

impl From<Rejection> for WorkError {
    fn from(rejection: Rejection) -> WorkError {
        WorkError::Failed(rejection.into())
    }
}

/// How often the record of progress is written, and an event emitted, at most.
const PROGRESS_INTERVAL_MS: i64 = 1_000;
/// The lease is renewed when this much of it has passed.
const RENEW_LEASE_AFTER_MS: i64 = LEASE_MS.cast_signed() / 3;

/// A lease held by this process. A job is done under the lease of its pass.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub fence: Fence,
    pub holder: String,
    /// When the holder wants to give it back, so that another process goes on with the work.
    pub until: Option<Instant>,
}

/// One activation of a pass over one memory: its inputs, and its connection to the job's record.
pub struct JobContext<'a> {
    scope: Scope,
    options: Map<String, Value>,
    trigger: Trigger,
    mode: PassMode,
    /// The snapshot that a run reads at, if the work is part of a run.
    snapshot: Option<ReadAt>,
    progress: JobProgress<'a>,
}

/// The connection of work to its job's record and lease: it reports progress and says when to stop.
pub struct JobProgress<'a> {
    engine: &'a Engine,
    tenant: TenantId,
    id: String,
    erasure: Option<ErasureTarget>,
    lease: Option<&'a HeldLease>,
    state: Mutex<WorkState>,
}

/// The part of a job's context that changes while the work is in progress.
pub(crate) struct WorkState {
    pub info: JobInfo,
    claimed_at: Timestamp,
    recorded_at: Timestamp,
    /// The phase and the tenth of the work that the last event reported.
    reported: Option<(String, u64)>,
}

impl<'a> JobContext<'a> {
    /// The context of a claimed job. Without a lease, the work must leave no trace.
    pub(crate) fn new(
        engine: &'a Engine,
        scope: Scope,
        info: JobInfo,
        mode: PassMode,
        lease: Option<&'a HeldLease>,
    ) -> JobContext<'a> {
        JobContext {
            options: info.options.clone(),
            trigger: info.trigger,
            mode,
            snapshot: None,
            progress: JobProgress::new(engine, scope.tenant.clone(), info, lease),
            scope,
        }
    }

    /// The context of work that is part of a run: it reads at the run's snapshot, and the run
    /// reports its progress.
    pub(crate) fn for_run(
        engine: &'a Engine,
        scope: Scope,
        info: JobInfo,
        seen: ReadAt,
    ) -> JobContext<'a> {
        JobContext {
            snapshot: Some(seen),
            ..JobContext::new(engine, scope, info, PassMode::Apply, None)
        }
    }

    /// The snapshot that a run reads at, if the work is part of a run.
    pub(crate) fn snapshot(&self) -> Option<&ReadAt> {
        self.snapshot.as_ref()
    }

    /// The tenant that the memory belongs to.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.scope.tenant
    }

    /// The memory to work on.
    #[must_use]
    pub fn memory_ref(&self) -> &MemoryRef {
        &self.scope.memory_ref
    }

    /// The tenant and the memory, as a scope of the host.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The id of the job; empty in a dry run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.progress.id
    }

    /// The options that the caller set, validated against the row of the pass.
    #[must_use]
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// The value of an integer option, if the caller set it.
    #[must_use]
    pub fn integer_option(&self, name: &str) -> Option<u64> {
        self.options.get(name).and_then(Value::as_u64)
    }

    /// The value of an option that takes a word, if the caller set it.
    #[must_use]
    pub fn word_option(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str)
    }

    /// Whether the caller set a flag to true.
    #[must_use]
    pub fn flag_option(&self, name: &str) -> bool {
        self.options
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    /// The cause of the job.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Whether to commit changes or only to report them.
    #[must_use]
    pub fn mode(&self) -> PassMode {
        self.mode
    }

    /// The fence of the lease: must be given to every batch that the work commits.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.progress.fence()
    }

    /// Reports progress as [`JobProgress::report_progress`] does.
    pub async fn report_progress(
        &self,
        phase: &'static str,
        done: u64,
        total: u64,
    ) -> Result<(), WorkError> {
        self.progress.report_progress(phase, done, total).await
    }

    /// The job's state at the end of the work.
    pub(crate) fn into_info(self) -> JobInfo {
        self.progress.into_info()
    }
}

impl<'a> JobProgress<'a> {
    /// The connection to a claimed job.
    pub(crate) fn new(
        engine: &'a Engine,
        tenant: TenantId,
        info: JobInfo,
        lease: Option<&'a HeldLease>,
    ) -> JobProgress<'a> {
        // The lease may have been taken a while ago, for another memory: claim it again with the
        // first report of progress.
        JobProgress {
            engine,
            tenant,
            id: info.id.clone(),
            erasure: info.erasure.clone(),
            lease,
            state: Mutex::new(WorkState {
                info,
                claimed_at: Timestamp(0),
                recorded_at: engine.now(),
                reported: None,
            }),
        }
    }

    /// The tenant that the job belongs to.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// What the job erases, if it is one that forgets a subject.
    pub(crate) fn erasure(&self) -> Option<&ErasureTarget> {
        self.erasure.as_ref()
    }

    /// The fence of the lease: must be given to every batch that the work commits.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.lease.map(|lease| lease.fence.clone())
    }

    /// Reports progress, and fails if the work must stop. To be called with every page of entries,
    /// and before a commit that follows a long computation: it also renews the lease.
    pub async fn report_progress(
        &self,
        phase: &'static str,
        done: u64,
        total: u64,
    ) -> Result<(), WorkError> {
        if self.engine.pass_log.is_stopping() {
            return Err(StopReason::Stopping.into());
        }
        let Some(lease) = self.lease else {
            return Ok(());
        };
        if lease.until.is_some_and(|until| Instant::now() >= until) {
            return Err(StopReason::Stopping.into());
        }
        let mut state = self.state.lock().await;
        self.check_record(&mut state).await?;
        let now = self.engine.now();
        if now.0 - state.claimed_at.0 >= RENEW_LEASE_AFTER_MS {
            let claimed = self
                .engine
                .parts
                .store
                .acquire_lease(
                    self.tenant(),
                    lease.fence.pass,
                    &lease.holder,
                    now,
                    LEASE_MS,
                )
                .await?;
            if claimed.as_ref() != Some(&lease.fence) {
                return Err(StopReason::Fenced.into());
            }
            state.claimed_at = now;
        }
        let info = &mut state.info;
        (info.done, info.total) = (done, total);
        if info.phase != phase {
            info.phase = phase.to_owned();
        }
        if now.0 - state.recorded_at.0 < PROGRESS_INTERVAL_MS {
            return Ok(());
        }
        state.recorded_at = now;
        let event = self.progress_event(&mut state);
        self.write_record(&mut state, event).await
    }

    /// Reads the job's record, which others may have changed: fails if a caller has cancelled the
    /// job or another node has claimed it.
    async fn check_record(&self, state: &mut WorkState) -> Result<(), WorkError> {
        let record = self
            .engine
            .parts
            .store
            .record(self.tenant(), RecordKind::Job, &state.info.key())
            .await?;
        let Some(stored) = record.as_ref().and_then(JobInfo::from_record) else {
            return Err(StopReason::Fenced.into());
        };
        if stored.attempts != state.info.attempts {
            return Err(StopReason::Fenced.into());
        }
        (state.info.version, state.info.cancelling) = (stored.version, stored.cancelling);
        if stored.cancelling {
            Err(StopReason::Cancelled.into())
        } else {
            Ok(())
        }
    }

    /// The event to emit, if another tenth of the work is done or another phase has begun since the
    /// last event.
    fn progress_event(&self, state: &mut WorkState) -> Option<EventBody> {
        let JobInfo {
            phase,
            done,
            total,
            pass,
            ..
        } = &state.info;
        let tenth = if *total == 0 {
            0
        } else {
            done.saturating_mul(10) / total
        };
        if state.reported.as_ref() == Some(&(phase.clone(), tenth)) {
            return None;
        }
        let job_id = self.id.clone();
        let pass = (*pass).to_owned();
        let memory_ref = state
            .info
            .memory_ref
            .as_ref()
            .map(|memory_ref| memory_ref.as_str().to_owned());
        let body = EventBody::PassProgress(PassProgress {
            job_id,
            pass,
            memory_ref,
            phase: phase.clone(),
            done: *done,
            total: *total,
        });
        state.reported = Some((phase.clone(), tenth));
        Some(body)
    }

    /// Writes the job's record, with an event if there is one.
    async fn write_record(
        &self,
        state: &mut WorkState,
        event: Option<EventBody>,
    ) -> Result<(), WorkError> {
        let now = self.engine.now_for(self.tenant()).await?;
        let info = &state.info;
        let batch = Batch::new(self.tenant().clone(), now).fenced(self.fence());
        let mut batch = batch.set_stored(&info.to_stored(), Precondition::Version(info.version));
        if let Some(event) = event {
            batch = batch.emit(event);
        }
        match self.engine.parts.store.commit(batch).await {
            Ok(committed) => {
                state.info.version =
                    first_record_version(&committed.outcomes).unwrap_or(state.info.version + 1);
                Ok(())
            }
            // A caller cancelled the job, or another node claimed it. `check_record` finds out
            // which; if neither, only one report of progress is lost.
            Err(StoreError::Conflict) => self.check_record(state).await,
            Err(other) => Err(other.into()),
        }
    }

    /// The job's state at the end of the work.
    pub(crate) fn into_info(self) -> JobInfo {
        self.state.into_inner().info
    }
}

/// The version of the first record that a commit wrote.
pub(crate) fn first_record_version(outcomes: &[ChangeOutcome]) -> Option<u64> {
    outcomes.iter().find_map(|outcome| match outcome {
        ChangeOutcome::Recorded { version, .. } => Some(*version),
        _ => None,
    })
}
