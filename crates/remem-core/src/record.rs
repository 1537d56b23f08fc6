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

/// A record's content, redacted: made by `Admission::record` alone. Sealed fields are added to it afterwards.
#[derive(Clone, PartialEq)]
pub struct RecordBody(pub(crate) Map<String, Value>);

impl RecordBody {
    /// The same content with a sealed field. Ciphertext is not looked at: it says nothing, and must come back as it was.
    #[must_use]
    pub fn with_sealed(mut self, field: &'static str, sealed: &Sealed) -> RecordBody {
        self.0.insert(field.to_owned(), Value::String(sealed.0.clone()));
        self
    }

    /// The content.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }
}

/// Ciphertext as text: two letters of `a` to `p` a byte. Without digits, capitals and signs it has no shape that a
/// redactor knows, so it survives even where a whole record is looked at again.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(String);

impl Sealed {
    /// Writes ciphertext down. Only ever give it what an authenticated cipher made.
    #[must_use]
    pub fn from_ciphertext(bytes: &[u8]) -> Sealed {
        Sealed(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|half| char::from(b'a' + half)).collect())
    }

    /// Reads a stored field; `None` if it is nothing that `from_ciphertext` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Sealed> {
        let written = text.len().is_multiple_of(2) && text.bytes().all(|b| (b'a'..=b'p').contains(&b));
        written.then(|| Sealed(text.to_owned()))
    }

    /// The ciphertext.
    #[must_use]
    pub fn ciphertext(&self) -> Vec<u8> {
        self.0.as_bytes().chunks_exact(2).map(|pair| (pair[0] - b'a') << 4 | (pair[1] - b'a')).collect()
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len() / 2)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redactor, ShapePolicy};

    #[test]
    fn sealed_bytes_come_back_and_have_no_shape() {
        let mut state = 7u64;
        for length in [0, 1, 28, 92, 300] {
            for _ in 0..50 {
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                };
                let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
                let sealed = Sealed::from_ciphertext(&bytes);
                assert_eq!(sealed.ciphertext(), bytes);
                assert_eq!(Sealed::parse(&sealed.0), Some(sealed.clone()));
                assert_eq!(Redactor::empty().clean(&sealed.0, ShapePolicy::Redact).text.as_str(), sealed.0);
            }
        }
        for bad in ["a", "aq", "aA", "0a", "a-"] {
            assert_eq!(Sealed::parse(bad), None, "{bad}");
        }
    }
}
