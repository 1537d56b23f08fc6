//! What the work of a pass over one memory is given: which memory, with which options, how to tell
//! of its progress, and how it learns that it has to stop.

use super::{JobInfo, Trigger};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{LEASE_MS, Mode};
use remem_core::event::PassProgress;
use remem_core::{
    Batch, EventBody, Fence, MemoryRef, Precondition, RecordKind, Rejection, Scope, TenantId,
    Timestamp,
};
use remem_store::{Outcome, ReadAt, StoreError};
use serde_json::{Map, Value};
use std::pin::Pin;
use tokio::sync::Mutex;

/// What work answers with.
pub type WorkFuture<'a> = Pin<Box<dyn Future<Output = Result<WorkReport, WorkError>> + Send + 'a>>;

/// What the work over one memory did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkReport {
    /// Things looked at.
    pub examined: u64,
    /// Things changed (in a dry run: that would be).
    pub changed: u64,
    /// Counts and ids that say more; no content.
    pub detail: Map<String, Value>,
}

impl WorkReport {
    /// Both together: what is a number in both is added up, else the later value stays.
    #[must_use]
    pub fn and(mut self, other: WorkReport) -> WorkReport {
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

/// Why work has to stop now. What it has committed stays; what it has not is not to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A caller wants it to.
    Cancelled,
    /// Somebody else has taken the job up: this process slept through its time.
    Fenced,
    /// The process is about to end; the job goes on elsewhere, or here after the next start.
    Stopping,
}

/// Why work did not come to its end.
#[derive(Debug)]
pub enum WorkError {
    /// It was told to stop.
    Stopped(Stop),
    /// It cannot be done, however often it is tried.
    Refused {
        /// For programs, stable.
        code: &'static str,
        /// Facts without content.
        details: Map<String, Value>,
    },
    /// Something failed that may go well the next time.
    Failed(EngineError),
}

impl From<Stop> for WorkError {
    fn from(stop: Stop) -> WorkError {
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

/// A record of progress is written, and an event emitted, at most so often.
const WRITE_EVERY_MS: i64 = 1_000;
/// The lease is prolonged when so much of it is used up.
const PROLONG_AFTER_MS: i64 = LEASE_MS.cast_signed() / 3;

/// The lease that a job is done under.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub fence: Fence,
    pub holder: String,
}

/// One activation of a pass over one memory.
pub struct Job<'a> {
    engine: &'a Engine,
    scope: Scope,
    id: String,
    options: Map<String, Value>,
    trigger: Trigger,
    mode: Mode,
    lease: Option<&'a Held>,
    /// What a run sees, if the work is a part of one.
    seen: Option<ReadAt>,
    kept: Mutex<Kept>,
}

/// What changes while work goes on.
pub(crate) struct Kept {
    pub info: JobInfo,
    claimed_at: Timestamp,
    written_at: Timestamp,
    told: Option<(String, u64)>,
}

impl<'a> Job<'a> {
    /// Of a job that was taken up; without a lease, work that leaves no trace.
    pub(crate) fn new(
        engine: &'a Engine,
        scope: Scope,
        info: JobInfo,
        mode: Mode,
        lease: Option<&'a Held>,
    ) -> Job<'a> {
        let now = engine.now();
        let id = info.id.clone();
        let options = info.options.clone();
        let trigger = info.trigger;
        // The lease may have been taken a while ago, over another memory: prolonged with the first
        // progress.
        let kept = Kept {
            info,
            claimed_at: Timestamp(0),
            written_at: now,
            told: None,
        };
        Job {
            engine,
            scope,
            id,
            options,
            trigger,
            mode,
            lease,
            seen: None,
            kept: Mutex::new(kept),
        }
    }

    /// Work that is a part of a run: it reads what the run sees, and the run tells of it.
    pub(crate) fn of_run(engine: &'a Engine, scope: Scope, info: JobInfo, seen: ReadAt) -> Job<'a> {
        Job {
            seen: Some(seen),
            ..Job::new(engine, scope, info, Mode::Apply, None)
        }
    }

    /// What a run sees, if the work is a part of one.
    pub(crate) fn seen(&self) -> Option<&ReadAt> {
        self.seen.as_ref()
    }

    /// Whose memory it is.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.scope.tenant
    }

    /// Which memory it is.
    #[must_use]
    pub fn memory_ref(&self) -> &MemoryRef {
        &self.scope.memory_ref
    }

    /// Both.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The name of the job; empty in a dry run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the caller set; names and values are those of the pass's row.
    #[must_use]
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// A number that the caller set.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.options.get(name).and_then(Value::as_u64)
    }

    /// A word that the caller set.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str)
    }

    /// Whether the caller set a flag.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.options
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    /// Who asked.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Whether to do it or only to say what would be done.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// To be given to every batch that the work commits.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.lease.map(|lease| lease.fence.clone())
    }

    /// Tells how far the work has come and whether to go on. To be called with every page of
    /// entries, and before a commit that follows a long computation: it also keeps the lease.
    pub async fn progress(
        &self,
        phase: &'static str,
        done: u64,
        total: u64,
    ) -> Result<(), WorkError> {
        if self.engine.passes.is_stopping() {
            return Err(Stop::Stopping.into());
        }
        let Some(lease) = self.lease else {
            return Ok(());
        };
        let mut kept = self.kept.lock().await;
        self.look(&mut kept).await?;
        let now = self.engine.now();
        if now.0 - kept.claimed_at.0 >= PROLONG_AFTER_MS {
            let claimed = self
                .engine
                .parts
                .store
                .claim(
                    self.tenant(),
                    lease.fence.pass,
                    &lease.holder,
                    now,
                    LEASE_MS,
                )
                .await?;
            if claimed.as_ref() != Some(&lease.fence) {
                return Err(Stop::Fenced.into());
            }
            kept.claimed_at = now;
        }
        let info = &mut kept.info;
        (info.done, info.total) = (done, total);
        if info.phase != phase {
            info.phase = phase.to_owned();
        }
        if now.0 - kept.written_at.0 < WRITE_EVERY_MS {
            return Ok(());
        }
        kept.written_at = now;
        let event = self.event(&mut kept);
        self.write(&mut kept, event).await
    }

    /// What others did to the record meanwhile: a caller may want the job to stop, another node may
    /// have taken it up.
    async fn look(&self, kept: &mut Kept) -> Result<(), WorkError> {
        let record = self
            .engine
            .parts
            .store
            .record(self.tenant(), RecordKind::Job, &kept.info.key())
            .await?;
        let Some(found) = record.as_ref().and_then(JobInfo::read) else {
            return Err(Stop::Fenced.into());
        };
        if found.attempts != kept.info.attempts {
            return Err(Stop::Fenced.into());
        }
        (kept.info.version, kept.info.cancelling) = (found.version, found.cancelling);
        if found.cancelling {
            Err(Stop::Cancelled.into())
        } else {
            Ok(())
        }
    }

    /// An event where a tenth more is done, or another phase has begun.
    fn event(&self, kept: &mut Kept) -> Option<EventBody> {
        let JobInfo {
            phase,
            done,
            total,
            pass,
            ..
        } = &kept.info;
        let tenth = if *total == 0 {
            0
        } else {
            done.saturating_mul(10) / total
        };
        if kept.told.as_ref() == Some(&(phase.clone(), tenth)) {
            return None;
        }
        let job_id = self.id.clone();
        let pass = (*pass).to_owned();
        let memory_ref = kept
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
        kept.told = Some((phase.clone(), tenth));
        Some(body)
    }

    async fn write(&self, kept: &mut Kept, event: Option<EventBody>) -> Result<(), WorkError> {
        let now = self.engine.now_for(self.tenant()).await?;
        let info = &kept.info;
        let batch = Batch::new(self.tenant().clone(), now).fenced(self.fence());
        let mut batch = batch.set(
            RecordKind::Job,
            info.key(),
            Precondition::Version(info.version),
            info.body(),
        );
        if let Some(event) = event {
            batch = batch.emit(event);
        }
        match self.engine.parts.store.commit(batch).await {
            Ok(committed) => {
                kept.info.version =
                    version_of(&committed.outcomes).unwrap_or(kept.info.version + 1);
                Ok(())
            }
            // Somebody cancelled it, or took it up. The next look tells which; if neither, only a
            // line of progress is lost.
            Err(StoreError::Conflict) => self.look(kept).await,
            Err(other) => Err(other.into()),
        }
    }

    /// The job as it stands when the work is over.
    pub(crate) fn into_info(self) -> JobInfo {
        self.kept.into_inner().info
    }
}

/// The version of the first record that a commit wrote.
pub(crate) fn version_of(outcomes: &[Outcome]) -> Option<u64> {
    outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Recorded { version, .. } => Some(*version),
        _ => None,
    })
}
