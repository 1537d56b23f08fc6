//! Jobs: work that a pass is asked to do, or has done, over one memory or all of a tenant. This
//! file has what a job is and how it is kept; `manage` has what callers do with jobs, `work` what
//! the work itself is given, `carry` does them.
//!
//! A job is one record. As long as it has not ended its key begins with `active/<pass>/`, oldest
//! first, so that what is to be done is found without reading what was; then it moves to `ended/`,
//! newest first.

pub(crate) mod carry;
pub(crate) mod manage;
pub mod options;
mod status;
pub mod work;

pub use manage::{JobQuery, Started};
use remem_core::sabotage;
pub use status::PassOverview;
pub use work::{Job, Stop, WorkError, WorkFuture, WorkReport};

use crate::caller::Caller;
use crate::registry;
use remem_core::{
    Admission, MemoryRef, Policy, Record, RecordBody, Redactor, ShapePolicy, Timestamp,
};
use serde_json::{Map, Value, json};

/// Who asked for the work, in the protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A caller.
    OnDemand,
    /// A schedule.
    Scheduled,
    /// The host itself.
    HostManaged,
}

impl Trigger {
    /// Every trigger.
    pub const ALL: [Trigger; 3] = [Trigger::OnDemand, Trigger::Scheduled, Trigger::HostManaged];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::OnDemand => "on-demand",
            Trigger::Scheduled => "scheduled",
            Trigger::HostManaged => "host-managed",
        }
    }
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits for its turn.
    Queued,
    /// Somebody is at it, or was when the process ended.
    Running,
    /// It ended well.
    Done,
    /// It was given up.
    Failed,
    /// A caller stopped it.
    Cancelled,
}

impl JobState {
    /// Every state.
    pub const ALL: [JobState; 5] = [
        JobState::Queued,
        JobState::Running,
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// The stable name.
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

    /// The state of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Whether nothing more happens to it.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// Why a job failed: a stable code, and facts without content.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFault {
    /// For programs.
    pub code: String,
    /// What helps to mend it.
    pub details: Map<String, Value>,
}

/// A job as it is kept and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfo {
    /// Its name; later ones sort after earlier ones.
    pub id: String,
    /// The pass.
    pub pass: &'static str,
    /// The memory; all of the tenant's if absent.
    pub memory_ref: Option<MemoryRef>,
    /// What the caller set, valid for the pass.
    pub options: Map<String, Value>,
    /// Who asked.
    pub trigger: Trigger,
    /// How far it has come.
    pub state: JobState,
    /// What it is doing, in a word of the pass.
    pub phase: String,
    /// Things done in this phase …
    pub done: u64,
    /// … of so many.
    pub total: u64,
    /// Things looked at.
    pub examined: u64,
    /// Things changed.
    pub changed: u64,
    /// Counts and ids that the pass reports beside.
    pub detail: Map<String, Value>,
    /// Why it failed, or the latest attempt did.
    pub error: Option<JobFault>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it was first taken up.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How often it was taken up.
    pub attempts: u32,
    /// How many of these ended with an error that may pass.
    pub failures: u32,
    /// A caller wants it to stop.
    pub cancelling: bool,
    /// Not to be taken up again before.
    pub not_before: Option<Timestamp>,
    /// Of a job over all memories: the last one that is done.
    pub(crate) after: Option<MemoryRef>,
    /// The version of its record.
    pub(crate) version: u64,
}

/// Where the jobs of a pass are that have not ended.
pub(crate) fn active_prefix(pass: &str) -> String {
    format!("active/{pass}/")
}

/// Where all jobs are that have ended.
pub(crate) const ENDED: &str = "ended/";

/// A fresh name: the time first, so that names sort by it and old ones are found by name alone.
pub(crate) fn fresh_id(now: Timestamp, holder: &str) -> String {
    let tail: Vec<char> = holder
        .chars()
        .rev()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    format!(
        "{}{}",
        id_at(now),
        tail.into_iter().rev().collect::<String>()
    )
}

/// What comes before every name of that instant or later.
pub(crate) fn id_at(at: Timestamp) -> String {
    format!("job_{:012x}", at.0.max(0))
}

/// The names turned round: later ones sort before earlier ones.
pub(crate) fn ended_key(id: &str) -> String {
    let turned: String = id
        .bytes()
        .map(|byte| format!("{:02x}", 255 - byte))
        .collect();
    format!("{ENDED}{turned}")
}

impl JobInfo {
    /// One that nobody has begun with.
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
            after: None,
            version: 0,
        }
    }

    /// Whether the caller may know of it.
    pub(crate) fn is_shown_to(&self, caller: &Caller) -> bool {
        sabotage!(
            "anybody-sees-jobs",
            self.memory_ref
                .as_ref()
                .is_none_or(|memory_ref| caller.may_see(memory_ref)),
            true
        )
    }

    /// How long it took so far, or in all.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        let started = self.started_at?;
        let ended = self.ended_at?;
        u64::try_from(ended.0 - started.0).ok()
    }

    pub(crate) fn key(&self) -> String {
        if self.state.has_ended() {
            ended_key(&self.id)
        } else {
            format!("{}{}", active_prefix(self.pass), self.id)
        }
    }

    /// Reads a record; `None` if it is none that this version knows what to do with.
    pub(crate) fn read(record: &Record) -> Option<JobInfo> {
        let body = &record.body;
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let number = |name: &str| body.get(name).and_then(Value::as_u64).unwrap_or(0);
        let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
        let time = |name: &str| body.get(name).and_then(Value::as_i64).map(Timestamp);
        let map = |name: &str| {
            body.get(name)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        let error = body.get("error").and_then(Value::as_object);
        Some(JobInfo {
            id: text("id")?.to_owned(),
            pass: registry::find(text("pass")?)?.name,
            memory_ref: text("memoryRef").and_then(MemoryRef::parse),
            options: map("options"),
            trigger: Trigger::ALL
                .into_iter()
                .find(|trigger| Some(trigger.as_str()) == text("trigger"))?,
            state: JobState::parse(text("state")?)?,
            phase: text("phase").unwrap_or_default().to_owned(),
            done: number("done"),
            total: number("total"),
            examined: number("examined"),
            changed: number("changed"),
            detail: map("detail"),
            error: error.and_then(|error| {
                let details = error
                    .get("details")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default();
                Some(JobFault {
                    code: error.get("code")?.as_str()?.to_owned(),
                    details,
                })
            }),
            requested_at: time("requestedAt")?,
            started_at: time("startedAt"),
            ended_at: time("endedAt"),
            attempts: small("attempts"),
            failures: small("failures"),
            cancelling: body
                .get("cancelling")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            not_before: time("notBefore"),
            after: text("after").and_then(MemoryRef::parse),
            version: record.version,
        })
    }

    /// Names, numbers and words of the host's own, and a memory's name that was held against the
    /// rules when the job was made: kept as they are, since some look like a secret to whoever
    /// looks hard.
    pub(crate) fn body(&self) -> RecordBody {
        let body = json!({
            "id": self.id,
            "pass": self.pass,
            "memoryRef": self.memory_ref.as_ref().map(MemoryRef::as_str),
            "options": self.options,
            "trigger": self.trigger.as_str(),
            "state": self.state.as_str(),
            "phase": self.phase,
            "done": self.done,
            "total": self.total,
            "examined": self.examined,
            "changed": self.changed,
            "detail": self.detail,
            "error": self.error.as_ref().map(|error| json!({"code": error.code, "details": error.details})),
            "requestedAt": self.requested_at.0,
            "startedAt": self.started_at.map(|at| at.0),
            "endedAt": self.ended_at.map(|at| at.0),
            "attempts": self.attempts,
            "failures": self.failures,
            "cancelling": self.cancelling,
            "notBefore": self.not_before.map(|at| at.0),
            "after": self.after.as_ref().map(MemoryRef::as_str),
        });
        own_words(body)
    }
}

/// A record of the host's own words, as it is.
pub(crate) fn own_words(body: Value) -> RecordBody {
    let policy = Policy {
        shapes: ShapePolicy::Off,
        ..Policy::default()
    };
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        scan: 0,
        now: Timestamp(0),
    };
    admission.record(body.as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::RecordKind;
    use remem_core::Ties;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let mut job = JobInfo::new(
            "compact",
            Trigger::Scheduled,
            Timestamp(1_700_000_000_000),
            "job_1".to_owned(),
        );
        job.memory_ref = MemoryRef::parse("a/b");
        job.options = json!({"include": "all"}).as_object().cloned().unwrap();
        job.error = Some(JobFault {
            code: "c".to_owned(),
            details: Map::new(),
        });
        (job.started_at, job.not_before, job.after) = (
            Some(Timestamp(1)),
            Some(Timestamp(2)),
            MemoryRef::parse("m"),
        );
        (job.attempts, job.failures, job.cancelling, job.version) = (3, 2, true, 7);
        for state in JobState::ALL {
            job.state = state;
            let body = job.body().map().clone();
            let record = Record {
                kind: RecordKind::Job,
                key: job.key(),
                version: 7,
                at: Timestamp(0),
                body,
                ties: Ties::default(),
            };
            assert_eq!(JobInfo::read(&record), Some(job.clone()));
        }
    }

    #[test]
    fn later_jobs_come_first_among_those_that_ended() {
        let ids = [
            fresh_id(Timestamp(5), "holder_000001"),
            fresh_id(Timestamp(5), "holder_000002"),
            fresh_id(Timestamp(1 << 40), "x"),
        ];
        assert!(
            ids.is_sorted() && ids[0] > id_at(Timestamp(5)) && ids[0] < id_at(Timestamp(6)),
            "{ids:?}"
        );
        assert!(ids.map(|id| ended_key(&id)).is_sorted_by(|a, b| a > b));
    }
}
