//! The data of workshop memories as a store returns it: slots, rules, actions and retention.

use crate::store::RowCursor;
use remem_core::ledger::EntryState;
use remem_core::{
    ActionText, Entry, EntryId, MemoryRef, PrincipalId, RuleId, Tier, Timestamp, Typology,
};

/// An entry that answers a slot, or did.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotAnswer {
    pub entry: Entry,
    /// The present state of the entry.
    pub state: EntryState,
    /// The instant at which it was removed, if it was.
    pub ended_at: Option<Timestamp>,
    /// The entry that replaced it.
    pub replaced_by: Option<EntryId>,
}

/// A rule of a world.
#[derive(Clone, PartialEq, Eq)]
pub struct WorldRule {
    pub id: RuleId,
    /// The text of the rule.
    pub body: String,
    /// The instant at which it was last written.
    pub at: Timestamp,
}

impl std::fmt::Debug for WorldRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An action that rests on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionLink {
    /// The action in the caller's words.
    pub action: String,
    /// The caller's own name for the action.
    pub reference: String,
    /// The instant at which the link was made.
    pub at: Timestamp,
    /// The principal that made the link.
    pub by: Option<PrincipalId>,
}

/// An entry with the actions that rest on it, as the rescan for newly registered secrets reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryActions {
    /// The position in the store's own order.
    pub row: RowCursor,
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// True if its text is erased.
    pub is_erased: bool,
    /// The texts of the actions.
    pub actions: Vec<ActionText>,
}

/// The retention state of an entry: why its text is still there, or that it is not. Derived on each
/// request, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetentionState {
    /// It is part of its memory.
    Active,
    /// An action rests on it, which protects its text.
    Referenced,
    /// It was removed, and its text is still there.
    Tombstoned,
    /// It depends on a session that does not exist. There should be none.
    Orphaned,
    /// Its text is erased; its name and times stay.
    Skeleton,
}

impl RetentionState {
    /// All states, in the order of their declaration.
    pub const ALL: [RetentionState; 5] = [
        RetentionState::Active,
        RetentionState::Referenced,
        RetentionState::Tombstoned,
        RetentionState::Orphaned,
        RetentionState::Skeleton,
    ];

    /// The stable name, as it is sent.
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

    /// The state with this name, if there is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<RetentionState> {
        RetentionState::ALL
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// The number of entries of one tier and typology in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetentionCount {
    pub tier: Tier,
    pub typology: Typology,
    pub state: RetentionState,
    /// The number of entries that match.
    pub entries: u64,
}

/// A statement that ceased to be true and still has its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedStatement {
    /// The instant at which it ceased to be true, and …
    pub ended_at: Timestamp,
    /// … its position among those of the same instant; together they are the cursor of a page.
    pub row: RowCursor,
    pub memory_ref: MemoryRef,
    pub id: EntryId,
}
