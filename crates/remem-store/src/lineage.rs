//! The lineage of entries as a store reports it: consolidation signatures, sources and derivatives,
//! and all entries that carry a subject.

use crate::store::RowCursor;
use remem_core::{EntryId, MemoryRef, RetireReason, Timestamp, Trust, Typology};

/// A stored signature of an entry, with the fields by which consolidation orders entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSignature {
    /// The position of the entry in the store's own order.
    pub row: RowCursor,
    pub id: EntryId,
    pub created_at: Timestamp,
    pub typology: Typology,
    /// The trust of the entry's best source.
    pub trust: Trust,
    /// The number of the pass that computed it.
    pub pass: u64,
    /// The signature, byte for byte as it was stored.
    pub signature: Vec<u8>,
}

/// The sources of an entry, and the entries that were made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The present state of the entry.
    pub state: EntryState,
    /// The entry that replaces it, if one does.
    pub replaced_by: Option<EntryId>,
    /// The number of entries that say the same, itself included.
    pub support: u64,
    /// The entries that it was made from, or that were merged into it.
    pub sources: Vec<RelatedEntry>,
    /// The entries that were made from it.
    pub derivatives: Vec<RelatedEntry>,
}

/// A direct source or derivative of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedEntry {
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// The present state of the entry.
    pub state: EntryState,
}

/// The present state of an entry: live, or the reason why it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It is part of its memory.
    Live,
    /// A caller deleted it.
    Deleted,
    /// It expired at its own instant.
    Expired,
    /// A subject that it is about was forgotten.
    Forgotten,
    /// Another entry replaces it, for this reason.
    Retired(RetireReason),
    /// Its statement is no longer true.
    Invalidated,
    /// Its session or chat thread is over.
    Ended,
    /// It was removed, and its text is kept because an action rests on it.
    TextHeld,
}

impl EntryState {
    /// Reads the stored reason; `None` for a reason that this version does not know.
    #[must_use]
    pub fn from_stored(reason: Option<&str>) -> Option<EntryState> {
        match reason {
            None => Some(EntryState::Live),
            Some("deleted") => Some(EntryState::Deleted),
            Some("expired") => Some(EntryState::Expired),
            Some("forgotten") => Some(EntryState::Forgotten),
            Some("invalidated") => Some(EntryState::Invalidated),
            Some("closed") => Some(EntryState::Ended),
            Some("held") => Some(EntryState::TextHeld),
            Some(other) => RetireReason::ALL
                .into_iter()
                .find(|reason| reason.as_str() == other)
                .map(EntryState::Retired),
        }
    }

    /// The stable name, as it is sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntryState::Live => "live",
            EntryState::Deleted => "deleted",
            EntryState::Expired => "expired",
            EntryState::Forgotten => "forgotten",
            EntryState::Retired(reason) => reason.as_str(),
            EntryState::Invalidated => "invalidated",
            EntryState::Ended => "ended",
            EntryState::TextHeld => "held",
        }
    }
}

/// All entries that carry a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectTrace {
    /// The entries about the subject and everything made from them, sources first within each
    /// memory.
    pub entries: Vec<TracedEntry>,
    /// Entries to restore: they were merged into an entry of the list above, do not carry the
    /// subject themselves, and still have their text. The last id is that of the entry which
    /// replaces them.
    pub merged_survivors: Vec<(MemoryRef, EntryId, EntryId)>,
}

/// An entry that carries a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedEntry {
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// True if the subject was given to the entry itself, false if to something that it was made
    /// from.
    pub direct: bool,
    /// True if its text is erased already.
    pub erased: bool,
    /// An unkeyed digest of its text, if it has one.
    pub content_hash: Option<[u8; 16]>,
}
