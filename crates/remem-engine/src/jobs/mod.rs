//! Jobs: requests that a pass works on one memory, or on all memories of a tenant, or erases a
//! subject, and their outcomes. This file has the type of a job; `record` has its record, `manage`
//! has the operations of callers, `work` what a pass is given to do a job with, `execute` runs the
//! jobs.
//!
//! A job is one record. Until it has ended, its key begins with `active/<pass>/` and jobs sort
//! oldest first, so that open jobs are found without reading the ended ones. Then it moves to
//! `ended/`, newest first.

pub(crate) mod execute;
pub(crate) mod manage;
pub mod options;
mod record;
mod status;
pub mod work;

pub use manage::{JobQuery, StartedJob};
use remem_core::sabotage;
pub use status::PassOverview;
pub use work::{JobContext, JobProgress, StopReason, WorkError, WorkFuture, WorkReport};

use crate::caller::Caller;
use remem_core::{MemoryRef, PrincipalId, Subject, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The cause of a job, in the protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A caller requested the job.
    OnDemand,
    /// A schedule came due.
    Scheduled,
    /// The host started it by itself.
    HostManaged,
}

impl Trigger {
    /// Every trigger, for parsing and documentation.
    pub const ALL: [Trigger; 3] = [Trigger::OnDemand, Trigger::Scheduled, Trigger::HostManaged];

    /// The stable name in records and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::OnDemand => "on-demand",
            Trigger::Scheduled => "scheduled",
            Trigger::HostManaged => "host-managed",
        }
    }
}

/// The state of a job, from queued to one of three ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waiting for an activation of its pass.
    Queued,
    /// In progress, or it was when the process that ran it ended.
    Running,
    /// Ended without an error.
    Done,
    /// Ended after an error that cannot be retried, or after too many attempts.
    Failed,
    /// Stopped by a caller.
    Cancelled,
}

impl JobState {
    /// Every state, for parsing and documentation.
    pub const ALL: [JobState; 5] = [
        JobState::Queued,
        JobState::Running,
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// The stable name in records and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Parses the stable name of a state.
    #[must_use]
    pub fn parse(text: &str) -> Option<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Whether the job is finished: done, failed or cancelled.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// Why a job failed: a stable code, and details without content.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFault {
    /// Stable error code for programs.
    pub code: String,
    /// Facts that help to find the cause.
    pub details: Map<String, Value>,
}

/// What a job that forgets a subject erases, for whom, and under which name it reports that.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ErasureTarget {
    pub subject: Subject,
    /// The id that the report will have.
    pub report_id: String,
    /// The principal that asked for it.
    pub principal: PrincipalId,
}

/// A job as its record stores it and the API shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfo {
    /// The id of the job; ids of later jobs sort after those of earlier ones.
    pub id: String,
    /// The name of the pass that does the job.
    pub pass: &'static str,
    /// The memory to work on; all memories of the tenant if absent.
    pub memory_ref: Option<MemoryRef>,
    /// Options of the pass, already validated.
    pub options: Map<String, Value>,
    /// The cause of the job.
    pub trigger: Trigger,
    /// The current state of the job.
    pub state: JobState,
    /// The current step, in a word of the pass.
    pub phase: String,
    /// Number of items done in this phase, of `total`.
    pub done: u64,
    /// Number of items in this phase.
    pub total: u64,
    /// Number of things that were examined.
    pub examined: u64,
    /// Number of things that were changed.
    pub changed: u64,
    /// Further counts and ids that the pass reports.
    pub detail: Map<String, Value>,
    /// The error of the last failed attempt.
    pub error: Option<JobFault>,
    /// When the job was requested.
    pub requested_at: Timestamp,
    /// When the first attempt began.
    pub started_at: Option<Timestamp>,
    /// When the job reached its final state.
    pub ended_at: Option<Timestamp>,
    /// Number of attempts, including the current one.
    pub attempts: u32,
    /// Number of attempts that ended with an error worth retrying.
    pub failures: u32,
    /// Whether a caller has requested cancellation of the running job.
    pub cancelling: bool,
    /// The earliest instant of the next attempt, after a failure.
    pub not_before: Option<Timestamp>,
    /// Of a job that forgets a subject: what it erases.
    pub(crate) erasure: Option<ErasureTarget>,
    /// Of a job over all memories: the last memory that is done.
    pub(crate) resume_after: Option<MemoryRef>,
    /// The version of the job's record.
    pub(crate) version: u64,
}

/// Key prefix of the jobs of a pass that have not ended.
pub(crate) fn active_prefix(pass: &str) -> String {
    format!("active/{pass}/")
}

/// Key prefix of all jobs that have ended.
pub(crate) const ENDED_PREFIX: &str = "ended/";

/// Makes a new job id. It begins with the time, so that ids sort by it and old jobs are found by id
/// alone.
pub(crate) fn new_job_id(now: Timestamp, holder: &str) -> String {
    let tail: Vec<char> = holder
        .chars()
        .rev()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    format!(
        "{}{}",
        id_lower_bound(now),
        tail.into_iter().rev().collect::<String>()
    )
}

/// The smallest prefix of ids made at an instant: ids of that instant or later sort after it.
pub(crate) fn id_lower_bound(at: Timestamp) -> String {
    format!("job_{:012x}", at.0.max(0))
}

/// The key of an ended job: the bytes of the id are complemented, so that later jobs sort before
/// earlier ones.
pub(crate) fn ended_key(id: &str) -> String {
    let turned: String = id
        .bytes()
        .map(|byte| format!("{:02x}", 255 - byte))
        .collect();
    format!("{ENDED_PREFIX}{turned}")
}

impl JobInfo {
    /// A queued job that has not been attempted.
    pub(crate) fn new(pass: &'static str, trigger: Trigger, now: Timestamp, id: String) -> JobInfo {
        JobInfo {
            id,
            pass,
            memory_ref: None,
            options: Map::new(),
            trigger,
            state: JobState::Queued,
            phase: String::new(),
            done: 0,
            total: 0,
            examined: 0,
            changed: 0,
            detail: Map::new(),
            error: None,
            requested_at: now,
            started_at: None,
            ended_at: None,
            attempts: 0,
            failures: 0,
            cancelling: false,
            not_before: None,
            erasure: None,
            resume_after: None,
            version: 0,
        }
    }

    /// Whether the caller may know that this job exists.
    pub(crate) fn is_visible_to(&self, caller: &Caller) -> bool {
        sabotage!(
            "anybody-sees-jobs",
            self.memory_ref
                .as_ref()
                .is_none_or(|memory_ref| caller.may_see(memory_ref)),
            true
        )
    }

    /// How long the job took, once it has ended.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        let started = self.started_at?;
        let ended = self.ended_at?;
        u64::try_from(ended.0 - started.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_sort_by_time_and_ended_jobs_newest_first() {
        let ids = [
            new_job_id(Timestamp(5), "holder_000001"),
            new_job_id(Timestamp(5), "holder_000002"),
            new_job_id(Timestamp(1 << 40), "x"),
        ];
        assert!(
            ids.is_sorted()
                && ids[0] > id_lower_bound(Timestamp(5))
                && ids[0] < id_lower_bound(Timestamp(6)),
            "{ids:?}"
        );
        assert!(ids.map(|id| ended_key(&id)).is_sorted_by(|a, b| a > b));
    }
}
