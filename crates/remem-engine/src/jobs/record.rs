//! A job as its record stores it. It is stored without redaction: it holds only ids, numbers and
//! words of the host, and a memory's name that was checked for secrets when the job was made. Some
//! ids look like secrets to a strict detector.

use super::{ErasureTarget, JobFault, JobInfo, JobState, Trigger, active_prefix, ended_key};
use crate::registry;
use remem_core::record::or_default;
use remem_core::{
    HostFacts, HostText, MemoryRef, NeedsNoRedaction, PrincipalId, Record, RecordKind,
    StoredRecord, Subject, Timestamp, needs_no_redaction,
};
use serde::{Deserialize, Serialize};

/// The body of a job's record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredJob {
    id: HostText,
    pass: HostText,
    #[serde(default, deserialize_with = "or_default")]
    memory_ref: Option<MemoryRef>,
    #[serde(default, deserialize_with = "or_default")]
    options: HostFacts,
    trigger: Trigger,
    state: JobState,
    #[serde(default, deserialize_with = "or_default")]
    phase: HostText,
    #[serde(default, deserialize_with = "or_default")]
    done: u64,
    #[serde(default, deserialize_with = "or_default")]
    total: u64,
    #[serde(default, deserialize_with = "or_default")]
    examined: u64,
    #[serde(default, deserialize_with = "or_default")]
    changed: u64,
    #[serde(default, deserialize_with = "or_default")]
    detail: HostFacts,
    #[serde(default, deserialize_with = "or_default")]
    error: Option<StoredFault>,
    requested_at: Timestamp,
    #[serde(default, deserialize_with = "or_default")]
    started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    ended_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    attempts: u32,
    #[serde(default, deserialize_with = "or_default")]
    failures: u32,
    #[serde(default, deserialize_with = "or_default")]
    cancelling: bool,
    #[serde(default, deserialize_with = "or_default")]
    not_before: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    after: Option<MemoryRef>,
    /// Of a job that forgets a subject: what it erases.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    erasure: Option<StoredErasure>,
}

/// What a job erases, as its record stores it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredErasure {
    /// The digest of the subject in hexadecimal.
    subject: HostText,
    report_id: HostText,
    principal: PrincipalId,
}

impl StoredErasure {
    fn of(target: &ErasureTarget) -> StoredErasure {
        let subject = blake3::Hash::from_bytes(*target.subject.bytes()).to_hex();
        StoredErasure {
            subject: HostText::new(subject.as_str()),
            report_id: HostText::new(&target.report_id),
            principal: target.principal.clone(),
        }
    }

    fn into_target(self) -> Option<ErasureTarget> {
        let subject = blake3::Hash::from_hex(self.subject.as_str()).ok()?;
        Some(ErasureTarget {
            subject: Subject::from_bytes(*subject.as_bytes()),
            report_id: self.report_id.into_string(),
            principal: self.principal,
        })
    }
}

/// The error of a job, as its record stores it.
#[derive(Serialize, Deserialize)]
struct StoredFault {
    code: HostText,
    #[serde(default, deserialize_with = "or_default")]
    details: HostFacts,
}

impl NeedsNoRedaction for Trigger {}
impl NeedsNoRedaction for JobState {}
needs_no_redaction!(StoredFault { code, details });
needs_no_redaction!(StoredErasure {
    subject,
    report_id,
    principal,
});
needs_no_redaction!(StoredJob {
    id,
    pass,
    memory_ref,
    options,
    trigger,
    state,
    phase,
    done,
    total,
    examined,
    changed,
    detail,
    error,
    requested_at,
    started_at,
    ended_at,
    attempts,
    failures,
    cancelling,
    not_before,
    after,
    erasure,
});

impl StoredRecord for StoredJob {
    const KIND: RecordKind = RecordKind::Job;

    fn key(&self) -> String {
        job_key(self.state, self.pass.as_str(), self.id.as_str())
    }
}

/// The key of a job's record, which depends on whether it has ended.
fn job_key(state: JobState, pass: &str, id: &str) -> String {
    if state.has_ended() {
        ended_key(id)
    } else {
        format!("{}{id}", active_prefix(pass))
    }
}

impl JobInfo {
    /// The key of the job's record.
    pub(crate) fn key(&self) -> String {
        job_key(self.state, self.pass, &self.id)
    }

    /// Reads a job from its record; `None` if this version does not know the pass, the trigger or
    /// the state.
    pub(crate) fn from_record(record: &Record) -> Option<JobInfo> {
        let stored = StoredJob::read(record)?;
        let error = stored.error.map(|error| JobFault {
            code: error.code.into_string(),
            details: error.details.into_map(),
        });
        Some(JobInfo {
            id: stored.id.into_string(),
            pass: registry::find(stored.pass.as_str())?.name,
            memory_ref: stored.memory_ref,
            options: stored.options.into_map(),
            trigger: stored.trigger,
            state: stored.state,
            phase: stored.phase.into_string(),
            done: stored.done,
            total: stored.total,
            examined: stored.examined,
            changed: stored.changed,
            detail: stored.detail.into_map(),
            error,
            requested_at: stored.requested_at,
            started_at: stored.started_at,
            ended_at: stored.ended_at,
            attempts: stored.attempts,
            failures: stored.failures,
            cancelling: stored.cancelling,
            not_before: stored.not_before,
            erasure: stored.erasure.and_then(StoredErasure::into_target),
            resume_after: stored.after,
            version: record.version,
        })
    }

    /// The job as it is stored.
    pub(crate) fn to_stored(&self) -> StoredJob {
        let error = self.error.as_ref().map(|error| StoredFault {
            code: HostText::new(&error.code),
            details: HostFacts::new(error.details.clone()),
        });
        StoredJob {
            id: HostText::new(&self.id),
            pass: HostText::from(self.pass),
            memory_ref: self.memory_ref.clone(),
            options: HostFacts::new(self.options.clone()),
            trigger: self.trigger,
            state: self.state,
            phase: HostText::new(&self.phase),
            done: self.done,
            total: self.total,
            examined: self.examined,
            changed: self.changed,
            detail: HostFacts::new(self.detail.clone()),
            error,
            requested_at: self.requested_at,
            started_at: self.started_at,
            ended_at: self.ended_at,
            attempts: self.attempts,
            failures: self.failures,
            cancelling: self.cancelling,
            not_before: self.not_before,
            after: self.resume_after.clone(),
            erasure: self.erasure.as_ref().map(StoredErasure::of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::RecordLinks;
    use serde_json::{Map, json};

    #[test]
    fn job_record_round_trips() {
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
        (job.started_at, job.not_before, job.resume_after) = (
            Some(Timestamp(1)),
            Some(Timestamp(2)),
            MemoryRef::parse("m"),
        );
        (job.attempts, job.failures, job.cancelling, job.version) = (3, 2, true, 7);
        job.erasure = Some(ErasureTarget {
            subject: Subject::from_bytes([9; 32]),
            report_id: "era_1".to_owned(),
            principal: PrincipalId::parse("ada").unwrap(),
        });
        for state in JobState::ALL {
            job.state = state;
            let body = job.to_stored().to_map();
            let record = Record {
                kind: RecordKind::Job,
                key: job.key(),
                version: 7,
                at: Timestamp(0),
                body,
                links: RecordLinks::default(),
            };
            assert_eq!(JobInfo::from_record(&record), Some(job.clone()));
        }
    }
}
