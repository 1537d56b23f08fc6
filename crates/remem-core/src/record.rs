//! The record: a named, versioned JSON object of a tenant beside its memory. Runs, workspace files, secrets, agents and
//! webhooks are records; what they mean is decided where they are read and written, not here.

use crate::ids::Timestamp;
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
    /// What a pass has to remember from one activation to the next.
    Progress,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [RecordKind; 10] = [
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
    ];

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

/// A record's content, redacted: made by `Admission::record` alone.
#[derive(Clone, PartialEq)]
pub struct RecordBody(pub(crate) Map<String, Value>);

impl RecordBody {
    /// The content.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
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
        f.debug_struct("Record").field("kind", &self.kind).field("key", &self.key).field("version", &self.version).finish_non_exhaustive()
    }
}

/// The longest name of a record, in bytes: what every store can index.
pub const RECORD_KEY_BYTES_MAX: usize = 1_024;
