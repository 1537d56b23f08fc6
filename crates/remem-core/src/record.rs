//! The record: a named, versioned JSON object of a tenant beside its memory. Runs, workspace files,
//! secrets, agents and webhooks are records; their meaning is decided where they are read and
//! written, not here. `typed` turns the body of a record into a struct and back. This file also
//! owns the form of ciphertext in a record; it may not make or open any.

mod typed;

pub use typed::{CleanText, HostFacts, HostText, NeedsNoRedaction, StoredRecord, or_default};

use crate::ids::{EntryId, MemoryRef, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind of a record. Names of one kind are unique within a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The state of a run.
    Run,
    /// The results of a run's reads, in order: `<run>/<number>`.
    RunRead,
    /// The newest version of a workspace file.
    File,
    /// A version of a workspace file: `<path>@<number>`.
    FileVersion,
    /// A workflow definition that the tenant installed.
    Workflow,
    /// An agent that the tenant installed.
    Agent,
    /// A secret of the vault, encrypted: `<scope>/<owner>/<name>`.
    Secret,
    /// A webhook with its subscription.
    Webhook,
    /// An event that could not be delivered to a webhook: `<webhook>/<number>`.
    DeadLetter,
    /// The progress of a pass from one activation to the next. Only the pass reads it, so writing
    /// it makes no revision.
    Progress,
    /// A job: work over a memory that a pass is asked to do, or has done. No entry changes by it,
    /// so writing it makes no revision.
    Job,
    /// The times at which a pass works over a memory.
    Schedule,
    /// The texts that a distillation keeps of its sources, for good: `<memory>/<digest of its
    /// bytes>`.
    Archive,
    /// The inputs of a distillation and the places of its results: `<memory>/<digest of its
    /// sources>-<budget>`.
    Distillation,
    /// The signed report of an erasure.
    Erasure,
    /// A call of the model: digests, its result, and how to undo that.
    ModelCall,
    /// A reminder for an agent.
    Commitment,
    /// The note that a commitment, an automation or a heartbeat fired: `<id>/<instant>`. The node
    /// that writes it first has fired it.
    Firing,
    /// The settings for recognising promises in a memory, and for delivering them.
    CommitmentRules,
    /// A predicate that is evaluated at intervals.
    Heartbeat,
    /// A workflow or an agent that is started at given times.
    Automation,
    /// An installed prompt template.
    Prompt,
    /// The artifact that was installed from a proposal, byte for byte: `<kind>/<name>`.
    InstalledArtifact,
    /// The tools that an agent called, one after the other.
    ToolTrace,
    /// A proposal. Under review, so nothing that runs may read it.
    Proposal,
    /// A revision of a proposal: `<proposal>/<number>`. Under review, too.
    ProposalRevision,
    /// The decisions on a revision of a proposal. Under review, too.
    Gate,
    /// A session of a memory: `open/…`, `closing/…` or `closed/…`. Its topic is its name while
    /// entries depend on it.
    Session,
}

impl RecordKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [RecordKind; 28] = [
        RecordKind::Run,
        RecordKind::RunRead,
        RecordKind::File,
        RecordKind::FileVersion,
        RecordKind::Workflow,
        RecordKind::Agent,
        RecordKind::Secret,
        RecordKind::Webhook,
        RecordKind::DeadLetter,
        RecordKind::Progress,
        RecordKind::Job,
        RecordKind::Schedule,
        RecordKind::Archive,
        RecordKind::Distillation,
        RecordKind::Erasure,
        RecordKind::ModelCall,
        RecordKind::Commitment,
        RecordKind::Firing,
        RecordKind::CommitmentRules,
        RecordKind::Heartbeat,
        RecordKind::Automation,
        RecordKind::Prompt,
        RecordKind::InstalledArtifact,
        RecordKind::ToolTrace,
        RecordKind::Proposal,
        RecordKind::ProposalRevision,
        RecordKind::Gate,
        RecordKind::Session,
    ];

    /// Returns true if writing one makes a new revision of the tenant's memory.
    #[must_use]
    pub fn makes_revision(self) -> bool {
        !matches!(self, RecordKind::Progress | RecordKind::Job)
    }

    /// Returns true if records of this kind can be due.
    #[must_use]
    pub fn can_be_due(self) -> bool {
        matches!(
            self,
            RecordKind::Commitment
                | RecordKind::Heartbeat
                | RecordKind::Automation
                | RecordKind::Firing
                | RecordKind::Gate
                | RecordKind::Session
        )
    }

    /// Returns true if it is under review, so that nothing that runs may read it. A store keeps
    /// such records apart, and returns them through `Review` only.
    #[must_use]
    pub fn is_under_review(self) -> bool {
        matches!(
            self,
            RecordKind::Proposal | RecordKind::ProposalRevision | RecordKind::Gate
        )
    }

    /// The stable name, as stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RecordKind::Run => "run",
            RecordKind::RunRead => "run-read",
            RecordKind::File => "file",
            RecordKind::FileVersion => "file-version",
            RecordKind::Workflow => "workflow",
            RecordKind::Agent => "agent",
            RecordKind::Secret => "secret",
            RecordKind::Webhook => "webhook",
            RecordKind::DeadLetter => "dead-letter",
            RecordKind::Progress => "progress",
            RecordKind::Job => "job",
            RecordKind::Schedule => "schedule",
            RecordKind::Archive => "archive",
            RecordKind::Distillation => "distillation",
            RecordKind::Erasure => "erasure",
            RecordKind::ModelCall => "model-call",
            RecordKind::Commitment => "commitment",
            RecordKind::Firing => "fire",
            RecordKind::CommitmentRules => "commitment-rules",
            RecordKind::Heartbeat => "heartbeat",
            RecordKind::Automation => "automation",
            RecordKind::Prompt => "prompt",
            RecordKind::InstalledArtifact => "installed",
            RecordKind::ToolTrace => "tool-trace",
            RecordKind::Proposal => "proposal",
            RecordKind::ProposalRevision => "proposal-revision",
            RecordKind::Gate => "gate",
            RecordKind::Session => "session",
        }
    }
}

/// A stored record with its version.
#[derive(Clone, PartialEq)]
pub struct Record {
    pub kind: RecordKind,
    /// The name, unique within its kind.
    pub key: String,
    /// The number of times that it was written, from 1.
    pub version: u64,
    pub at: Timestamp,
    /// The content as a JSON object.
    pub body: Map<String, Value>,
    /// The keys that find it beside its name, and the entry that it depends on.
    pub links: RecordLinks,
}

/// The keys that find a record beside its name, and the entry that it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordLinks {
    /// The instant at which an action on it is due.
    pub due: Option<Timestamp>,
    /// The topic that it waits for.
    pub topic: Option<String>,
    /// The entry that it was made from. The record follows that entry: when the entry is deleted,
    /// expires or is forgotten, the record is deleted in the same commit; when another entry
    /// replaces it by a merge or a summary, the record is tied to that one; when the entry is
    /// superseded, the record stays, but is no longer due and waits for no topic.
    pub source: Option<(MemoryRef, EntryId)>,
}

impl RecordLinks {
    /// Ties with a due time and nothing else.
    #[must_use]
    pub fn due_at(at: Timestamp) -> RecordLinks {
        RecordLinks {
            due: Some(at),
            ..RecordLinks::default()
        }
    }

    /// Returns true if it can be found by a due time or a topic.
    #[must_use]
    pub fn has_due_or_topic(&self) -> bool {
        self.due.is_some() || self.topic.is_some()
    }
}

/// The state that a record must be in for a change to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Any state; the record need not exist.
    None,
    /// The record must not exist.
    Absent,
    /// The record must have this version.
    Version(u64),
}

/// The content of a record as it may be stored. There are two ways to make one:
/// `Admission::redact_record` redacts every text of it; `RecordBody::unchanged` takes a type whose
/// texts need no redaction. Encrypted fields are added afterwards.
#[derive(Clone, PartialEq)]
pub struct RecordBody(pub(crate) Map<String, Value>);

impl RecordBody {
    /// The content as a JSON object.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// About as many bytes as the content takes in memory.
    #[must_use]
    pub fn approximate_bytes(&self) -> usize {
        fn of(value: &Value) -> usize {
            16 + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(of).sum(),
                Value::Object(fields) => of_fields(fields),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
        }
        fn of_fields(fields: &Map<String, Value>) -> usize {
            let field = |(name, value): (&String, &Value)| name.len() + of(value);
            fields.iter().map(field).sum()
        }
        of_fields(&self.0)
    }

    /// Adds ciphertext without redacting it. Each byte is stored as a number of its own: too short
    /// to be taken for a secret. A later redaction of the record can therefore not damage the
    /// ciphertext, which could then never be opened.
    #[must_use]
    pub fn with_sealed(mut self, field: &'static str, sealed: &Sealed) -> RecordBody {
        self.0
            .insert(field.to_owned(), Value::from(sealed.0.clone()));
        self
    }
}

/// Ciphertext that only the holder of a key can open, with everything that is needed beside the
/// key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Wraps bytes that the caller guarantees to be ciphertext.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Sealed {
        Sealed(bytes)
    }

    /// The ciphertext, byte for byte.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Record {
    /// Reads the ciphertext that `RecordBody::with_sealed` added.
    #[must_use]
    pub fn sealed(&self, field: &str) -> Option<Sealed> {
        let bytes = self
            .body
            .get(field)?
            .as_array()?
            .iter()
            .map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
        bytes.collect::<Option<Vec<u8>>>().map(Sealed)
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

// The content of a record can be as private as a memory, so it is not printed.
impl std::fmt::Debug for RecordBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordBody({} fields)", self.0.len())
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("kind", &self.kind)
            .field("key", &self.key)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The longest name of a record, in bytes. Every store can index names of this length.
pub const RECORD_KEY_BYTES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::SecretValue;
    use crate::{Admission, Policy, Redactor};

    #[test]
    fn ciphertext_is_unchanged_by_redaction() {
        let policy = Policy::default();
        let values = ["12345678", "00000000", "[1,2,3,4]", "255,255,255"];
        let redactor = Redactor::new(values.map(|value| SecretValue::new("hostile", value)));
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 1,
            now: Timestamp(0),
        };
        for bytes in [
            vec![],
            (0..=255).collect(),
            vec![255; 300],
            vec![12, 34, 56, 78],
            b"sk-ant-api03-0123456789 12345678".to_vec(),
        ] {
            let body = admission
                .redact_record(Map::new())
                .with_sealed("value", &Sealed::new(bytes.clone()));
            let again = admission.redact_record(body.map().clone());
            assert_eq!(again, body);
            let record = Record {
                kind: RecordKind::Secret,
                key: String::new(),
                version: 1,
                at: Timestamp(0),
                body: again.0,
                links: RecordLinks::default(),
            };
            assert_eq!(record.sealed("value").unwrap().bytes(), bytes);
            assert_eq!(record.sealed("other"), None);
        }
        assert_eq!(format!("{:?}", Sealed::new(vec![7; 3])), "Sealed(3 bytes)");
    }
}
