//! The record: a named, versioned JSON object of a tenant beside its memory. Runs, workspace files,
//! secrets, agents and webhooks are records; what they mean is decided where they are read and
//! written, not here. It also owns the form in which ciphertext lies in a record; it may not make
//! or open any.

use crate::ids::{EntryId, MemoryRef, Timestamp};
use serde_json::{Map, Value};

/// What a record is about. Names inside one kind are unique in a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// A run.
    Run,
    /// What a run read, in order: `<run>/<number>`.
    RunRead,
    /// The newest version of a workspace file.
    File,
    /// A version of a workspace file: `<path>@<number>`.
    FileVersion,
    /// A workflow definition that the tenant installed.
    Workflow,
    /// An agent that the tenant installed.
    Agent,
    /// A secret of the vault, sealed: `<scope>/<owner>/<name>`.
    Secret,
    /// A webhook.
    Webhook,
    /// An event that could not be delivered to a webhook: `<webhook>/<number>`.
    DeadLetter,
    /// What a pass has to remember from one activation to the next. Nobody else reads it, so
    /// writing it is no revision.
    Progress,
    /// Work that a pass is asked to do, or has done, over a memory. Nobody's memory changes by it,
    /// so it is no revision.
    Job,
    /// When a pass is to work over a memory by itself.
    Schedule,
    /// What a distillation kept of its sources, for good: `<memory>/<digest of its bytes>`.
    Archive,
    /// What a distillation was made of and where its results are: `<memory>/<digest of its
    /// sources>-<budget>`.
    Distillation,
    /// What a forget erased, signed.
    Erasure,
    /// A call of the model: digests, what came of it, and how to undo it.
    ModelCall,
    /// Something that an agent is to be reminded of.
    Commitment,
    /// That a commitment, an automation or a heartbeat fired: `<what>/<instant>`. Whoever writes it
    /// first has fired it.
    Fire,
    /// How promises are read out of a memory, and what becomes of them.
    CommitmentRules,
    /// A predicate that is looked at every so often.
    Heartbeat,
    /// A workflow or an agent that is run by itself at given times.
    Automation,
    /// A template of a prompt.
    Prompt,
    /// What was installed from a proposal, byte for byte: `<kind>/<name>`.
    Installed,
    /// Which tools an agent called one after the other.
    ToolTrace,
    /// A proposal. Inert.
    Proposal,
    /// A revision of a proposal: `<proposal>/<number>`. Inert.
    ProposalRevision,
    /// Who has decided what about a revision. Inert.
    Gate,
    /// A session of a memory: `open/…`, `closing/…` or `closed/…`. Its topic is its name while
    /// entries hang on it.
    Session,
}

impl RecordKind {
    /// Every kind.
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
        RecordKind::Fire,
        RecordKind::CommitmentRules,
        RecordKind::Heartbeat,
        RecordKind::Automation,
        RecordKind::Prompt,
        RecordKind::Installed,
        RecordKind::ToolTrace,
        RecordKind::Proposal,
        RecordKind::ProposalRevision,
        RecordKind::Gate,
        RecordKind::Session,
    ];

    /// Whether writing one is a new revision of the tenant's memory.
    #[must_use]
    pub fn is_revision(self) -> bool {
        !matches!(self, RecordKind::Progress | RecordKind::Job)
    }

    /// Whether one can be due.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(
            self,
            RecordKind::Commitment
                | RecordKind::Heartbeat
                | RecordKind::Automation
                | RecordKind::Fire
                | RecordKind::Gate
                | RecordKind::Session
        )
    }

    /// Whether it is something under review, which nothing that runs may read: a store keeps it
    /// apart, and answers for it through `Review` alone.
    #[must_use]
    pub fn is_inert(self) -> bool {
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
            RecordKind::Fire => "fire",
            RecordKind::CommitmentRules => "commitment-rules",
            RecordKind::Heartbeat => "heartbeat",
            RecordKind::Automation => "automation",
            RecordKind::Prompt => "prompt",
            RecordKind::Installed => "installed",
            RecordKind::ToolTrace => "tool-trace",
            RecordKind::Proposal => "proposal",
            RecordKind::ProposalRevision => "proposal-revision",
            RecordKind::Gate => "gate",
            RecordKind::Session => "session",
        }
    }
}

/// A stored record.
#[derive(Clone, PartialEq)]
pub struct Record {
    /// What it is about.
    pub kind: RecordKind,
    /// Its name.
    pub key: String,
    /// How often it was written, from 1.
    pub version: u64,
    /// When it was last written.
    pub at: Timestamp,
    /// What it holds.
    pub body: Map<String, Value>,
    /// What finds it beside its name, and what it depends on.
    pub ties: Ties,
}

/// What finds a record beside its name, and what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// When something is to be done about it.
    pub due: Option<Timestamp>,
    /// What it waits for.
    pub topic: Option<String>,
    /// The entry that it was made from. It goes where that goes: when the entry is deleted, expires
    /// or is forgotten, the record is gone in the same commit; when another one comes to stand for
    /// the entry because both say the same or one is the gist of the other, the record is tied to
    /// that one; when the entry is superseded, the record stays, but is due no more and waits for
    /// nothing.
    pub source: Option<(MemoryRef, EntryId)>,
}

impl Ties {
    /// Due at an instant, and nothing else.
    #[must_use]
    pub fn due(at: Timestamp) -> Ties {
        Ties {
            due: Some(at),
            ..Ties::default()
        }
    }

    /// Whether it would be found by anything but its name and source.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.due.is_some() || self.topic.is_some()
    }
}

/// What a record must be like for a change to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Anything, or not there.
    None,
    /// Not there.
    Absent,
    /// At this version.
    Version(u64),
}

/// A record's content, redacted: made by `Admission::record` alone. Sealed fields are added to it
/// afterwards.
#[derive(Clone, PartialEq)]
pub struct RecordBody(pub(crate) Map<String, Value>);

impl RecordBody {
    /// The content.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Adds ciphertext as it is. Each byte is a number of its own: too short to be mistaken for a
    /// secret, so that nothing that redacts the record again can garble what nobody could then
    /// open.
    #[must_use]
    pub fn with_sealed(mut self, field: &'static str, sealed: &Sealed) -> RecordBody {
        self.0
            .insert(field.to_owned(), Value::from(sealed.0.clone()));
        self
    }
}

/// What only the holder of a key can open: ciphertext, with everything that is needed beside the
/// key.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Of these bytes. Whoever calls this vouches that they are ciphertext.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Sealed {
        Sealed(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Record {
    /// The ciphertext that `RecordBody::with_sealed` put there.
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

// What a record holds can be as private as a memory.
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

/// The longest name of a record, in bytes: what every store can index.
pub const RECORD_KEY_BYTES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::SecretValue;
    use crate::{Admission, Policy, Redactor};

    #[test]
    fn ciphertext_survives_every_redaction() {
        let policy = Policy::default();
        let values = ["12345678", "00000000", "[1,2,3,4]", "255,255,255"];
        let redactor = Redactor::new(values.map(|value| SecretValue::new("hostile", value)));
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            scan: 1,
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
                .record(Map::new())
                .with_sealed("value", &Sealed::new(bytes.clone()));
            let again = admission.record(body.map().clone());
            assert_eq!(again, body);
            let record = Record {
                kind: RecordKind::Secret,
                key: String::new(),
                version: 1,
                at: Timestamp(0),
                body: again.0,
                ties: Ties::default(),
            };
            assert_eq!(record.sealed("value").unwrap().bytes(), bytes);
            assert_eq!(record.sealed("other"), None);
        }
        assert_eq!(format!("{:?}", Sealed::new(vec![7; 3])), "Sealed(3 bytes)");
    }
}
