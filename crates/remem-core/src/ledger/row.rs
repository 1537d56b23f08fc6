//! The rows of a tenant as the ledger sees them: entries, memories, records, links, rules,
//! snapshots and the clock. Plain data; the rules are in the files of the changes.

use super::EntryState;
use crate::embedding::Embedding;
use crate::entry::{Tier, Typology};
use crate::ids::{EntryId, MemoryRef, Revision, RunId, Seq, Timestamp};
use crate::record::RecordKind;
use crate::trust::Trust;
use std::sync::Arc;

/// The name of an entry: its memory and its id.
pub type EntryName = (MemoryRef, EntryId);

/// The key of an entry's row: its memory's number and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    pub scope: i64,
    pub row: i64,
}

/// The revision, event number, time and event chain of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantClock {
    /// The revision of the newest commit.
    pub revision: Revision,
    /// The number of the newest event.
    pub seq: Seq,
    /// The largest instant of any commit.
    pub at: Timestamp,
    /// The hash of the newest event.
    pub chain: [u8; 32],
    /// The number of the newest memory. A user who sees only some memories cannot count them.
    pub memories: i64,
}

impl Default for TenantClock {
    fn default() -> TenantClock {
        TenantClock {
            revision: Revision(0),
            seq: Seq(0),
            at: Timestamp(0),
            chain: [0; 32],
            memories: 0,
        }
    }
}

/// A memory, by its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    pub scope: i64,
    /// The number that its next entry gets, if each memory counts its own rows.
    pub next_row: i64,
}

/// The text of an entry, which an erasure takes away as a whole.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryText {
    pub content: String,
    pub tags: Vec<String>,
    /// A JSON object, as it is stored.
    pub metadata: Option<String>,
}

/// The text is a caller's, so only its length is shown.
impl std::fmt::Debug for EntryText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EntryText({} bytes)", self.content.len())
    }
}

/// An entry, removed and erased ones included.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryRow {
    pub id: EntryId,
    pub tier: Tier,
    pub typology: Typology,
    /// `None` if it is erased, or was not loaded because no batch needs it.
    pub text: Option<Arc<EntryText>>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// The principal that wrote it.
    pub written_by: Option<String>,
    pub written_by_run: Option<String>,
    /// The fingerprint of the redaction rules that its text was admitted under.
    pub redaction_fingerprint: u64,
    /// The revision from which on it is visible, and the one at which it was removed.
    pub visible_from: Revision,
    pub visible_to: Option<Revision>,
    pub state: EntryState,
    /// The run that removed it: that run no longer sees it, though its snapshot is older.
    pub removed_by_run: Option<String>,
    pub erased_at: Option<Timestamp>,
    /// The user that the memory belongs to.
    pub owner: Option<String>,
    /// The row of the same memory that replaces it.
    pub replaced_by: Option<i64>,
    /// The number of entries that say the same, itself included.
    pub support: u64,
    pub session: Option<String>,
    pub interaction: Option<String>,
    pub world: Option<String>,
    pub slot: Option<String>,
    pub valid_at: Option<Timestamp>,
    pub invalid_at: Option<Timestamp>,
    /// The instant at which it was removed.
    pub ended_at: Option<Timestamp>,
    pub trust: Trust,
    pub evidence: String,
}

impl EntryRow {
    /// Returns true if it is part of its memory, expired or not.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.visible_to.is_none()
    }

    /// Returns true if it is part of its memory at this instant.
    #[must_use]
    pub fn is_live(&self, at: Timestamp) -> bool {
        self.is_current() && self.expires_at.is_none_or(|end| end > at)
    }

    /// Returns true if its text is gone.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.erased_at.is_some()
    }
}

/// The key of a record: its kind and its name.
pub type RecordKey = (RecordKind, String);

/// A record, without the body that is stored.
#[derive(Clone, PartialEq)]
pub struct RecordRow {
    pub version: u64,
    pub due: Option<Timestamp>,
    pub topic: Option<String>,
    /// The entry that it was made from.
    pub source: Option<RowKey>,
    /// The body, as it is to be stored, and the instant of the write. `None` if the group does not
    /// write it.
    pub written: Option<(Arc<str>, Timestamp)>,
}

/// The body is a caller's, so it is not shown.
impl std::fmt::Debug for RecordRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordRow")
            .field("version", &self.version)
            .field("due", &self.due)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The key of a link: the entry, and the action and reference that it was loaded or made with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkKey {
    pub row: RowKey,
    pub action: String,
    pub reference: String,
}

/// The words are a caller's, so they are not shown.
impl std::fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkKey({:?})", self.row)
    }
}

/// An action that rests on an entry, as it is called now.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkRow {
    /// Empty once the entry's text is erased.
    pub action: String,
    pub reference: String,
    /// The instant at which the link was made, and the principal that made it. `None` if it was
    /// stored before.
    pub made: Option<(Timestamp, Option<String>)>,
}

/// The words are a caller's, so they are not shown.
impl std::fmt::Debug for LinkRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkRow").finish_non_exhaustive()
    }
}

/// A rule of a world.
#[derive(Clone, PartialEq, Eq)]
pub struct RuleRow {
    pub body: String,
    /// The instant of the last write; `None` if it was stored before.
    pub written_at: Option<Timestamp>,
}

/// The text is a caller's, so only its length is shown.
impl std::fmt::Debug for RuleRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RuleRow({} bytes)", self.body.len())
    }
}

/// A signature that consolidation computed from a text, with the number of the pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRow {
    pub pass: u64,
    pub signature: Vec<u8>,
}

/// The vector of an entry's text, with the kind of the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRow {
    pub tier: Tier,
    pub typology: Typology,
    pub vector: Embedding,
}

/// A snapshot that a run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The newest revision that the run sees.
    pub revision: Revision,
    pub at: Timestamp,
}

/// The key of a stored result: the operation, and the digest of the idempotency key.
pub type ResultKey = (String, [u8; 32]);

/// The result of a batch under its idempotency key, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// Keyed digest of the request.
    pub body: [u8; 32],
    pub at: Timestamp,
    pub revision: Revision,
    /// `None` if what is stored cannot be read.
    pub outcomes: Option<Vec<super::ChangeOutcome>>,
}

/// An event to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub seq: Seq,
    pub revision: Revision,
    pub at: Timestamp,
    /// The run, the position in its log, and the instant that the event repeats.
    pub run: Option<(RunId, u64, Option<Timestamp>)>,
    pub kind: &'static str,
    /// The payload as JSON.
    pub payload: String,
    /// The hash of the chain up to and with this event.
    pub hash: [u8; 32],
}
