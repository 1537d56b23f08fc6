//! What a store tells of slots, rules, actions and retention.

use crate::kin::EntryState;
use crate::store::RowCursor;
use remem_core::{
    ActionText, Entry, EntryId, MemoryRef, PrincipalId, RuleId, Tier, Timestamp, Typology,
};

/// An entry that answers a question, or did.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The entry.
    pub entry: Entry,
    /// What has become of it.
    pub state: EntryState,
    /// When it was taken away.
    pub ended_at: Option<Timestamp>,
    /// The entry that stands in its place.
    pub replaced_by: Option<EntryId>,
}

/// A rule of a world.
#[derive(Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub id: RuleId,
    /// What it says.
    pub body: String,
    /// When it was last written.
    pub at: Timestamp,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An action that rests on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionLink {
    /// What was done.
    pub action: String,
    /// Its name where it was done.
    pub reference: String,
    /// When it was noted.
    pub at: Timestamp,
    /// By whom.
    pub by: Option<PrincipalId>,
}

/// An entry with the actions that rest on it, as the pass that looks for late secrets reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its place in the store's own order.
    pub row: RowCursor,
    /// Its memory.
    pub memory_ref: MemoryRef,
    /// Its name.
    pub id: EntryId,
    /// Its text is gone.
    pub is_erased: bool,
    /// What the actions are called.
    pub actions: Vec<ActionText>,
}

/// What holds an entry. Derived whenever it is asked for, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetentionState {
    /// It is part of its memory.
    Active,
    /// An action rests on it.
    Referenced,
    /// It was taken away, and its text is still there.
    Tombstoned,
    /// It hangs on a session that is not there. There should be none.
    Orphaned,
    /// Its text is gone; its name and times stay.
    Skeleton,
}

impl RetentionState {
    /// Every state.
    pub const ALL: [RetentionState; 5] = [
        RetentionState::Active,
        RetentionState::Referenced,
        RetentionState::Tombstoned,
        RetentionState::Orphaned,
        RetentionState::Skeleton,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RetentionState::Active => "active",
            RetentionState::Referenced => "referenced",
            RetentionState::Tombstoned => "tombstoned",
            RetentionState::Orphaned => "orphaned",
            RetentionState::Skeleton => "skeleton",
        }
    }

    /// From its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<RetentionState> {
        RetentionState::ALL
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// How many entries of a cell are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetentionCount {
    /// Their tier.
    pub tier: Tier,
    /// Their kind.
    pub typology: Typology,
    /// What holds them.
    pub state: RetentionState,
    /// How many.
    pub entries: u64,
}

/// A statement that ceased to be true and still has its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faded {
    /// When it ceased to be true, and …
    pub ended_at: Timestamp,
    /// … its place among those of one instant: where a page goes on.
    pub row: RowCursor,
    /// Its memory.
    pub memory_ref: MemoryRef,
    /// Its name.
    pub id: EntryId,
}
