//! The trait `EntryReads`, and the query by which entries are read. A query selects the entries of
//! one memory, as its actor sees them, or entries of a whole tenant, for passes of the host.

use crate::error::StoreError;
use crate::read::{
    CandidateSet, Filter, ListPosition, MemoryStats, MemorySummary, Neighbours, Probe, ReadAt,
};
use async_trait::async_trait;
use remem_core::ledger::EntryState;
use remem_core::{Actor, Entry, EntryId, MemoryRef, ModelId, Scope, TenantId, Timestamp, Typology};

/// Reads entries and memories.
#[async_trait]
pub trait EntryReads: Send + Sync {
    /// Returns the entries that a query selects, at most `limit`, in the order that the selection
    /// names.
    async fn entries(&self, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError>;

    /// Searches live entries: the `depth` best matches by words, and as many by vector.
    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<CandidateSet, StoreError>;

    /// Returns the live entries next to the given entries of the same memory, up to `reach` on
    /// either side. One result for each given entry that is live.
    async fn neighbours(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Neighbours>, StoreError>;

    /// Returns the totals of one memory.
    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<MemoryStats, StoreError>;

    /// Lists the tenant's memories that the actor may see, in the order of their names, after
    /// `after`.
    async fn memories(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<MemorySummary>, StoreError>;
}

/// A read of entries: which ones, and how many at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryQuery {
    pub selection: EntrySelection,
    /// The most entries that are returned.
    pub limit: u32,
}

impl EntryQuery {
    /// A query of one memory.
    #[must_use]
    pub fn of_memory(scope: &Scope, entries: MemoryEntries, limit: u32) -> EntryQuery {
        let selection = EntrySelection::OfMemory(scope.clone(), entries);
        EntryQuery { selection, limit }
    }

    /// A query of a whole tenant.
    #[must_use]
    pub fn of_tenant(tenant: &TenantId, entries: TenantEntries, limit: u32) -> EntryQuery {
        let selection = EntrySelection::OfTenant(tenant.clone(), entries);
        EntryQuery { selection, limit }
    }
}

/// The place of the entries that a query selects, and which of them it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntrySelection {
    /// Entries of one memory, if the actor of the scope may see it.
    OfMemory(Scope, MemoryEntries),
    /// Entries of all memories of a tenant, for the host.
    OfTenant(TenantId, TenantEntries),
}

/// A selection of entries of one memory. They come with their texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryEntries {
    /// The entry with this id, if it is live.
    Named { id: EntryId, at: ReadAt },
    /// Live entries, newest first: by `(created_at, id)`, both descending, a total and stable
    /// order.
    Live {
        filter: Filter,
        after: Option<ListPosition>,
        at: ReadAt,
    },
    /// Live entries that stand until further notice: procedures, or (of any other kind) answers to
    /// a slot. The most trusted come first, and of equally trusted ones the newest.
    Standing {
        typology: Typology,
        filter: Filter,
        at: ReadAt,
    },
    /// The entries that answer a slot or did, and still have their texts, ordered by the start of
    /// the validity window, then by time and name. If there are too many, the newest ones.
    OfSlot(String),
    /// The entries that consolidation may examine (live, persistent, without an end) and that have
    /// no signature, in the store's own order.
    WithoutSignature { after: Option<RowCursor> },
    /// Those of these positions that consolidation may examine, in the store's own order.
    AtRows(Vec<RowCursor>),
}

/// A selection of entries of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantEntries {
    /// Those of the named entries that are live, each once, in any order. The limit must not be
    /// less than the number of names.
    Named {
        names: Vec<(MemoryRef, EntryId)>,
        at: ReadAt,
    },
    /// Those of the named entries that have a text and no vector of that model, likewise.
    NamedWithoutVector {
        names: Vec<(MemoryRef, EntryId)>,
        model: ModelId,
    },
    /// Entries that have a text and no vector of that model, in the store's own order.
    WithoutVector {
        model: ModelId,
        after: Option<RowCursor>,
    },
    /// Entries whose text was admitted under other redaction rules than `scan` identifies, in the
    /// store's own order.
    ToRescan { scan: u64, after: Option<RowCursor> },
    /// The names of entries that are expired at this instant and still have their text, the
    /// earliest first.
    Expired(Timestamp),
    /// The names of entries that were removed while a run could still read them, and that no open
    /// snapshot needs any more, so that their text can be erased.
    Erasable,
    /// The names of statements that ceased to be true before `before`, still have their text, and
    /// have no action resting on them. Those that ended first come first, after the position
    /// `after`.
    EndedStatements {
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
    },
}

impl TenantEntries {
    /// Whether the entries come with their texts, rather than with their names only.
    #[must_use]
    pub fn has_texts(&self) -> bool {
        matches!(
            self,
            TenantEntries::Named { .. }
                | TenantEntries::NamedWithoutVector { .. }
                | TenantEntries::WithoutVector { .. }
                | TenantEntries::ToRescan { .. }
        )
    }
}

/// An entry that a query found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    /// The position in the store's own order.
    pub row: RowCursor,
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// The instant at which it ceases to be true.
    pub invalid_at: Option<Timestamp>,
    /// The entry itself; `None` where the selection is one of names.
    pub whole: Option<WholeEntry>,
}

/// An entry with what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeEntry {
    pub entry: Entry,
    /// The present state of the entry.
    pub state: EntryState,
    /// The instant at which it was removed, if it was.
    pub ended_at: Option<Timestamp>,
    /// The entry that replaced it, if it was read as the answer of a slot.
    pub replaced_by: Option<EntryId>,
}

/// A position in the store's own order of entries: opaque, and valid for one store only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowCursor(pub i64, pub i64);
