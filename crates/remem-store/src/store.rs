//! The `Store` trait: the storage of all tenants' memories.

use crate::damage::DamageReport;
use crate::lineage::{Lineage, StoredSignature, SubjectTrace, TracePosition};
use crate::read::{
    CandidateSet, Filter, MemoryStats, MemorySummary, Neighbours, Page, Probe, ReadAt,
    RecordLookup, VectorCounts,
};
use crate::workshop::{
    ActionLink, EndedStatement, EntryActions, RetentionCount, SlotAnswer, WorldRule,
};
use async_trait::async_trait;
use remem_core::ledger::CommitResult;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Rejection,
    Revision, RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, Typology, WorldId,
};
use tokio::sync::watch;

/// Stores the memories of many tenants, isolated from each other and safe across crashes.
///
/// Contracts that hold for every method: a scope or tenant that does not exist reads as empty,
/// never as an error; no read returns an entry that is expired, erased or another tenant's; after
/// `commit` has returned, every later read on any handle sees its effect; and a memory of one user
/// is visible to that user and the host only (`Scope::actor`). Methods that take a tenant and no
/// actor serve the host.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the entry with that id, if it is live.
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError>;

    /// Returns those of the named entries that are live, each once, in any order.
    async fn named_entries(
        &self,
        tenant: &TenantId,
        names: &[(MemoryRef, EntryId)],
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Lists live entries, newest first: by `(created_at, id)`, both descending, a total and stable
    /// order.
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Returns live entries that stand until further notice: procedures, or (of any other kind)
    /// answers to a slot. The most trusted come first, and of equally trusted ones the newest; at
    /// most `limit`.
    async fn standing_entries(
        &self,
        scope: &Scope,
        typology: Typology,
        filter: &Filter,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError>;

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

    /// Returns entries that have a text and no vector of that model, with their positions, in the
    /// store's own order.
    async fn entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// Returns those of the named entries that have a text and no vector of that model, each once,
    /// in any order.
    async fn named_entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        names: &[(MemoryRef, EntryId)],
    ) -> Result<Vec<Entry>, StoreError>;

    /// Counts a tenant's texts and vectors.
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError>;

    /// Deletes vectors of models other than `keep`, at most `limit`, and returns how many. A vector
    /// can be computed again, so this is not a change of memory and makes no commit.
    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError>;

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

    /// Returns every entry of a memory that answers a slot or did, and still has its text, ordered
    /// by the start of its validity window, then by time and name. If there are more than `limit`,
    /// the newest ones.
    async fn slot_history(
        &self,
        scope: &Scope,
        slot: &str,
        limit: u32,
    ) -> Result<Vec<SlotAnswer>, StoreError>;

    /// Lists the rules of a world in the order of their names, after `after`.
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<WorldRule>, StoreError>;

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

    /// Lists the rules of all worlds, in the order of world and name, after `after`.
    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError>;

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

    /// Returns statements that ceased to be true before `before`, still have their text, and have
    /// no action resting on them. Those that ended first come first, after the position `after`.
    async fn ended_statements(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<EndedStatement>, StoreError>;

    /// Returns events of the tenant's log after `after`, in order, without gaps.
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError>;

    /// Returns events of one run's own log from position `from` on, in order, without gaps.
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError>;

    /// Returns the snapshots that runs hold, oldest first.
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the newest revision, event and instant of the tenant.
    async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError>;

    /// Returns the record with that name. Records under review are never returned, here and below.
    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError>;

    /// Returns records whose name begins with `prefix` and comes after `after`, in the byte order
    /// of their names.
    async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Returns records by due time, topic or source entry.
    async fn records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Notifies the receiver of the tenant's next commit. Only a hint: commits of other processes
    /// may be reported late or not at all.
    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError>;

    /// Returns entries that are expired at `at` and still have their text.
    async fn expired_entries(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError>;

    /// Returns entries that were removed while a run could still read them, and that no open
    /// snapshot needs any more, so that their text can be erased.
    async fn erasable_entries(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError>;

    /// Returns entries whose text was admitted under other redaction rules than `scan` identifies,
    /// in the store's own order after `after`.
    async fn entries_to_rescan(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<RescanPage, StoreError>;

    /// Returns entries of a memory that consolidation may examine (live, persistent, without an
    /// end) and that have no signature, with their positions, in the store's own order.
    async fn entries_without_signature(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// Returns the signatures of such entries, in the store's own order.
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError>;

    /// Returns such entries at the given positions, in the store's own order.
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// Returns the direct sources and derivatives of an entry. `None` if there is no such entry,
    /// not even one without text.
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError>;

    /// Returns a page of the entries that carry a subject: up to `limit` of the entries that it was
    /// given to, and up to `limit` of everything made from those, and so on.
    async fn trace_subject(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError>;

    /// Returns the tenants that may have work of this kind. May return too many, but must include
    /// every tenant with such work that this process ever touched or that other nodes can touch.
    async fn tenants_with_work(
        &self,
        work: DueWork,
        at: Timestamp,
    ) -> Result<Vec<TenantId>, StoreError>;

    /// Removes erased text physically (from journals and free space, too) and deletes idempotency
    /// records from before `keys_before`. With `compact`, also returns free space to the file
    /// system.
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError>;

    /// Checks the tenant's data against its own hashes: page structure, event chain, entry texts,
    /// and every row of every table. Returns the number of checked events and texts; an error says
    /// which rows are damaged.
    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Counts the tenant's rows that have no hash yet. They were written before rows had one, so
    /// `verify` cannot check them.
    async fn count_rows_without_hash(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Acquires the lease on a pass of a tenant for `for_ms`, or extends it for the same holder.
    /// `None` if another holder has it.
    ///
    /// `now` is the caller's clock; a store that has a clock of its own, shared by all nodes, uses
    /// that. A lease only saves work: `Batch::fenced` is what makes two holders harmless.
    async fn acquire_lease(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError>;

    /// Releases a lease if it is still held.
    async fn release_lease(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError>;

    /// Notifies the receiver when a pass may have work sooner than its period says, on whichever
    /// node the work arose. Only a hint.
    fn watch_work(&self) -> watch::Receiver<u64>;

    /// Tenants of which this process has seen that their stored data is damaged, or cannot be
    /// opened. A restart or a check that finds nothing takes them off the list.
    fn damaged_tenants(&self) -> Vec<TenantId> {
        Vec::new()
    }

    /// What this store can do.
    fn features(&self) -> StoreFeatures;

    /// Applies a batch: all of it or nothing, durable when this returns `Ok`, together with its
    /// events.
    ///
    /// The only write. An `Unavailable` error does not mean "not written": repeat it with the same
    /// idempotency key.
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError>;
}

/// Reads records under review. It is separate from `Store`, so that code with a `Store` alone
/// cannot read them. They are written like any other record, by `Store::commit`.
#[async_trait]
pub trait Review: Send + Sync {
    /// Returns the record under review with that name.
    async fn review_record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError>;

    /// Returns records under review whose name begins with `prefix` and comes after `after`, in the
    /// byte order of their names.
    async fn review_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Returns records under review that are due, earliest first.
    async fn due_review_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;
}

/// A kind of work for which a store can list the tenants that have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueWork {
    /// Work that `expired_entries`, `erasable_entries` or `scrub` reports or does.
    Purge,
    /// Records that are due, those under review included.
    Records,
}

/// The optional features of a store; one input of the capability model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFeatures {
    /// True if data survives a restart of the process.
    pub durable: bool,
    /// True if it stores vectors and can search by them.
    pub vectors: bool,
    /// True if other nodes may work on it at the same time.
    pub shared: bool,
}

/// A snapshot that a run holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub run: RunId,
    /// The newest revision that the run sees.
    pub revision: Revision,
    /// The instant at which the snapshot was taken.
    pub at: Timestamp,
}

/// A position in the store's own order of entries: opaque, and valid for one store only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowCursor(pub i64, pub i64);

/// A page of entries that must be redacted again.
#[derive(Clone, Debug, Default)]
pub struct RescanPage {
    pub entries: Vec<Entry>,
    /// The position for the next page; `None` at the end.
    pub next: Option<RowCursor>,
}

/// The newest revision, event and instant of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantHead {
    /// The newest commit of the tenant.
    pub revision: Revision,
    /// The newest event of the tenant.
    pub seq: Seq,
    /// The latest instant of any commit.
    pub at: Timestamp,
}

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The request itself is invalid (for example an idempotency key with another body).
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Another commit came first: an expectation of the batch does not hold, a record has another
    /// version, the entry that a record is tied to has ended, a lease was taken over, or a slot was
    /// filled meanwhile.
    #[error("an entry changed since it was read")]
    Conflict,
    /// Too many writes are waiting; the caller should try again soon.
    #[error("too many writes are waiting")]
    Busy,
    /// The storage has no space left; reads still work.
    #[error("the storage is full")]
    Full,
    /// The storage cannot be used now. A commit may or may not have been applied.
    #[error("the storage is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Stored data contradicts its own hashes or structure.
    #[error("stored data is damaged: {0}")]
    Damaged(&'static str),
    /// A check found rows that differ from what was written.
    #[error("stored data is damaged: {0}")]
    DamagedRows(DamageReport),
}
