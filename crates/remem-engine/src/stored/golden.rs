//! Records of each kind as release 0.1.0 wrote them (`tests/golden`), taken from the kept databases
//! of that release: read and written again they are the same bytes. A line is the name, the due
//! time, the topic and the body of a record, and a fourth text where the body is one of an earlier
//! release, which lacks fields: then that is what is written.

use super::file::StoredFile;
use super::firing::StoredFiring;
use super::progress::{
    ConsolidateProgress, EmbedProgress, InferProgress, StoredRescan, SynthesisProgress,
};
use super::run::StoredRead;
use crate::archive::{DistillationRecord, StoredArchive};
use crate::automations::AutomationRecord;
use crate::commitments::CommitmentRules;
use crate::forget::SignedReport;
use crate::heartbeats::Heartbeat;
use crate::jobs::JobInfo;
use crate::model::StoredModelCall;
use crate::proposals::{
    StoredGate, StoredInstallation, StoredProposal, StoredRevision, StoredTrace,
};
use crate::schedules::Schedule;
use crate::sessions::SessionInfo;
use crate::vault::SecretFacts;
use crate::webhook::{DeadLetter, WebhookRecord};
use remem_core::proposal::PromptTemplate;
use remem_core::{
    Admission, Agent, Commitment, Policy, Record, RecordBody, RecordKind, RecordLinks, Redactor,
    RunState, ShapePolicy, StoredRecord, Timestamp, Workflow,
};
use serde_json::{Map, Value};

/// One line of a golden file.
struct Golden {
    record: Record,
    /// The bytes that a writer of today makes of it.
    written: String,
}

fn golden(kind: RecordKind) -> Vec<Golden> {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/tests/golden/{}.tsv", kind.as_str());
    let text = std::fs::read_to_string(&path).expect("each kind has a golden file");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [key, due, topic, body, written @ ..] = fields.as_slice() else {
            panic!("{path}: a line has at least four fields");
        };
        let links = RecordLinks {
            due: due.parse().ok().map(Timestamp),
            topic: (*topic != "-").then(|| (*topic).to_owned()),
            source: None,
        };
        let record = Record {
            kind,
            key: (*key).to_owned(),
            version: 1,
            at: Timestamp(1_795_072_815_000),
            body: serde_json::from_str(body).expect("a body is JSON"),
            links,
        };
        let written = written.first().unwrap_or(body).to_string();
        Golden { record, written }
    };
    text.lines().map(line).collect()
}

/// An admission that changes nothing.
fn without_rules<T>(work: impl FnOnce(&Admission<'_>) -> T) -> T {
    let policy = Policy {
        shapes: ShapePolicy::Off,
        ..Policy::default()
    };
    work(&Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 0,
        now: Timestamp(0),
    })
}

/// Reads a record as a type and writes it again.
fn again<T: StoredRecord>(record: &Record) -> Option<Map<String, Value>> {
    let stored = T::read(record)?;
    assert_eq!(stored.key(), record.key);
    Some(stored.to_map())
}

/// The same for a record with ciphertext.
fn again_sealed<T: StoredRecord>(
    record: &Record,
    sealed: [&'static str; 2],
) -> Option<Map<String, Value>> {
    let stored = T::read(record)?;
    assert_eq!(stored.key(), record.key);
    let body = without_rules(|admission| admission.redact_stored(&stored));
    let body = sealed.into_iter().try_fold(body, |body, field| {
        Some(body.with_sealed(field, &record.sealed(field)?))
    })?;
    Some(body.map().clone())
}

/// Reads a record as the host does and writes it again.
fn rewritten(record: &Record) -> Option<Map<String, Value>> {
    match record.kind {
        RecordKind::Run => RunState::from_map(record.body.clone()).map(|state| state.to_map()),
        RecordKind::RunRead => again::<StoredRead>(record),
        RecordKind::File | RecordKind::FileVersion => again::<StoredFile>(record),
        RecordKind::Workflow => {
            let workflow = Workflow::parse(record.body.clone()).ok()?;
            Some(workflow.document)
        }
        RecordKind::Agent => {
            let agent = Agent::from_stored(record.key.clone(), record.body.clone());
            Some(agent.body().clone())
        }
        RecordKind::Secret => again_sealed::<SecretFacts>(record, ["value", "former"]),
        RecordKind::Webhook => again_sealed::<WebhookRecord>(record, ["url", "secret"]),
        RecordKind::DeadLetter => again::<DeadLetter>(record),
        RecordKind::Progress => progress_again(record),
        RecordKind::Job => {
            let stored = JobInfo::from_record(record)?.to_stored();
            assert_eq!(stored.key(), record.key);
            Some(stored.to_map())
        }
        RecordKind::Schedule => {
            let stored = Schedule::from_record(record)?.to_stored();
            assert_eq!(stored.key(), record.key);
            Some(stored.to_map())
        }
        RecordKind::Archive => again::<StoredArchive>(record),
        RecordKind::Distillation => again::<DistillationRecord>(record),
        RecordKind::Erasure => SignedReport::from_map(&record.body).map(|report| report.to_map()),
        RecordKind::ModelCall => again::<StoredModelCall>(record),
        RecordKind::Commitment => {
            Commitment::from_map(record.body.clone()).map(|commitment| commitment.to_map())
        }
        RecordKind::Firing => {
            let links = StoredFiring::read(record)?.ties();
            assert_eq!(links, record.links);
            again::<StoredFiring>(record)
        }
        RecordKind::CommitmentRules => again::<CommitmentRules>(record),
        RecordKind::Heartbeat => again::<Heartbeat>(record),
        RecordKind::Automation => {
            let stored = AutomationRecord::from_record(record)?;
            Some(without_rules(|admission| {
                stored.body(admission).map().clone()
            }))
        }
        RecordKind::Prompt => {
            PromptTemplate::from_map(&record.body, &Policy::default()).ok()?;
            Some(record.body.clone())
        }
        RecordKind::InstalledArtifact => again::<StoredInstallation>(record),
        RecordKind::ToolTrace => again::<StoredTrace>(record),
        RecordKind::Proposal => again::<StoredProposal>(record),
        RecordKind::ProposalRevision => again::<StoredRevision>(record),
        RecordKind::Gate => {
            assert_eq!(StoredGate::read(record)?.ties(), record.links);
            again::<StoredGate>(record)
        }
        RecordKind::Session => again::<SessionInfo>(record),
    }
}

/// The passes keep different records of their progress, under their names.
fn progress_again(record: &Record) -> Option<Map<String, Value>> {
    match record.key.split('/').next()? {
        "consolidate" => again::<ConsolidateProgress>(record),
        "embed" => again::<EmbedProgress>(record),
        "infer" => again::<InferProgress>(record),
        "propose" => again::<SynthesisProgress>(record),
        "rescan" => again::<StoredRescan>(record),
        _ => None,
    }
}

#[test]
fn records_of_0_1_0_are_written_again_as_they_were() {
    let mut lines = 0;
    for kind in RecordKind::ALL {
        for Golden { record, written } in golden(kind) {
            let key = &record.key;
            let body = rewritten(&record);
            let body = body.unwrap_or_else(|| panic!("{}: {key} is not read", kind.as_str()));
            let text = serde_json::to_string(&body).expect("a body is JSON");
            assert_eq!(text, written, "{}: {key}", kind.as_str());
            lines += 1;
        }
    }
    assert!(lines > 50, "{lines} lines");
}

#[test]
fn a_record_whose_body_cannot_be_read_is_skipped() {
    let broken = |kind: RecordKind, field: &str| {
        let mut record = golden(kind).swap_remove(0).record;
        assert!(record.body.remove(field).is_some(), "{field}");
        record
    };
    assert!(JobInfo::from_record(&broken(RecordKind::Job, "state")).is_none());
    assert!(Schedule::from_record(&broken(RecordKind::Schedule, "zone")).is_none());
    assert!(WebhookRecord::read(&broken(RecordKind::Webhook, "url")).is_none());
    assert!(DistillationRecord::read(&broken(RecordKind::Distillation, "sha256")).is_none());
    assert!(SignedReport::from_map(&broken(RecordKind::Erasure, "erased").body).is_none());
    assert!(SessionInfo::from_record(broken(RecordKind::Session, "openedAt")).is_err());
    assert!(StoredGate::read(&broken(RecordKind::Gate, "votes")).is_none());
    let firing = broken(RecordKind::Firing, "firedAt");
    assert_eq!(
        StoredFiring::read(&firing).map(|note| note.fired_at),
        Some(Timestamp(0))
    );
}

#[test]
fn a_text_that_needs_no_redaction_is_stored_as_it_is() {
    let record = golden(RecordKind::Job).swap_remove(0).record;
    let mut job = JobInfo::from_record(&record).expect("it is read");
    // Looks like a secret to a strict detector, but is the id of a job.
    job.id = "job_AKIAIOSFODNN7EXAMPLE".to_owned();
    let body = RecordBody::unchanged(&job.to_stored());
    assert_eq!(body.map()["id"], "job_AKIAIOSFODNN7EXAMPLE");
}
