//! What a store tells of entries that stand for others: signatures, lineage, and what carries a
//! subject.

use crate::store::RowCursor;
use remem_core::{EntryId, MemoryRef, Reason, Timestamp, Trust, Typology};

/// A signature, with what consolidation orders entries by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The entry's place.
    pub row: RowCursor,
    /// Its name.
    pub id: EntryId,
    /// Its time.
    pub created_at: Timestamp,
    /// Its kind.
    pub typology: Typology,
    /// How far it is believed.
    pub trust: Trust,
    /// The pass that computed it.
    pub pass: u64,
    /// As it was given.
    pub signature: Vec<u8>,
}

/// Where an entry comes from and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// What has become of it.
    pub state: EntryState,
    /// The entry that stands for it.
    pub replaced_by: Option<EntryId>,
    /// How many entries say what it says, itself included.
    pub support: u64,
    /// What it was made from, or what was merged into it.
    pub sources: Vec<Relative>,
    /// What was made from it.
    pub derivatives: Vec<Relative>,
}

/// An entry at the other end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Its memory.
    pub memory_ref: MemoryRef,
    /// Its name.
    pub id: EntryId,
    /// What has become of it.
    pub state: EntryState,
}

/// What has become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It is part of its memory.
    Live,
    /// Somebody deleted it.
    Deleted,
    /// Its time ran out.
    Expired,
    /// What it was about was forgotten.
    Forgotten,
    /// Another one stands for it.
    Retired(Reason),
    /// It is no longer true.
    Invalidated,
    /// Its session or chat thread is over.
    Ended,
    /// It was taken away, and its text is kept because an action rests on it.
    Held,
}

impl EntryState {
    /// From the reason as stored; `None` for a reason that this version does not know.
    #[must_use]
    pub fn from_stored(reason: Option<&str>) -> Option<EntryState> {
        match reason {
            None => Some(EntryState::Live),
            Some("deleted") => Some(EntryState::Deleted),
            Some("expired") => Some(EntryState::Expired),
            Some("forgotten") => Some(EntryState::Forgotten),
            Some("invalidated") => Some(EntryState::Invalidated),
            Some("closed") => Some(EntryState::Ended),
            Some("held") => Some(EntryState::Held),
            Some(other) => Reason::ALL
                .into_iter()
                .find(|reason| reason.as_str() == other)
                .map(EntryState::Retired),
        }
    }

    /// The stable name.
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
            EntryState::Held => "held",
        }
    }
}

/// What carries a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The entries about it and everything made from them, sources first within each memory.
    pub entries: Vec<Traced>,
    /// Entries that were merged into one of those, are not among them, and still have their text:
    /// with the one that stands for them.
    pub innocent: Vec<(MemoryRef, EntryId, EntryId)>,
}

/// An entry that carries a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its memory.
    pub memory_ref: MemoryRef,
    /// Its name.
    pub id: EntryId,
    /// Whether the subject was given to it, rather than to something that it was made from.
    pub direct: bool,
    /// Whether its text is gone already.
    pub erased: bool,
    /// Unkeyed digest of its text, if there is any.
    pub content_hash: Option<[u8; 16]>,
}
