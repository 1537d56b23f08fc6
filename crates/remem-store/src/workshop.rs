//! The trait `WorkshopReads`: rules, actions and retention of workshop memories.

use crate::entry::RowCursor;
use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::{
    ActionText, Actor, EntryId, MemoryRef, PrincipalId, RuleId, Scope, TenantId, Tier, Timestamp,
    Typology, WorldId,
};

/// Reads rules, the actions that rest on entries, and how many entries are kept and why.
#[async_trait]
pub trait WorkshopReads: Send + Sync {
    /// Lists rules in the order of world and name, at most `limit`.
    async fn rules_in(
        &self,
        tenant: &TenantId,
        range: &RuleRange,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError>;

    /// Returns a rule that the text restates, if there is one: `commit` would refuse an entry with
    /// this text.
    async fn restated_rule(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError>;

    /// Returns the actions that rest on an entry, oldest first; the entry may be removed.
    async fn actions_of_entry(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Vec<ActionLink>, StoreError>;

    /// Returns the entries of all users that actions rest on, removed ones included, in the store's
    /// own order after `after`.
    async fn entries_with_actions(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError>;

    /// Counts the entries of the tenant, or of one memory, by retention state, as far as the actor
    /// may see them.
    async fn retention_counts(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError>;
}

/// A part of the rules of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRange {
    /// The rules of one world after this one.
    OfWorld(WorldId, Option<RuleId>),
    /// The rules of all worlds after this one.
    All(Option<(WorldId, RuleId)>),
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
