//! The `Store` trait: where a tenant's memory is kept.

use crate::kin::{Lineage, Signed, Trace};
use crate::read::{
    Around, Filter, Found, Page, Probe, ReadAt, ScopeStats, ScopeSummary, Tie, VectorCounts,
};
use crate::soundness::Damages;
use crate::workshop::{ActionLink, Answer, Faded, Linked, RetentionCount, Rule};
use async_trait::async_trait;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Rejection,
    Revision, RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, WorldId,
};
use tokio::sync::watch;

/// Keeps the memory of many tenants apart from each other and through crashes.
///
/// Contracts that hold for every method: a scope or tenant that does not exist reads as empty,
/// never as an error; no read returns an entry that is expired, erased or another tenant's; after
/// `commit` has answered, every later read on any handle sees its effect; and nobody sees a memory
/// of one user but that user and the host (`Scope::actor`). Methods that take a tenant and no actor
/// serve the host.
#[async_trait]
pub trait Store: Send + Sync {
    /// The entry of that name, if it is live.
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError>;

    /// Live entries, newest first: by `(created_at, id)`, both descending, a total and stable
    /// order.
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Live entries that answer a probe: `depth` of those that answer its words best, and as many
    /// by direction.
    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<Found, StoreError>;

    /// The live entries that stand around others of the same memory, `reach` on either side. One
    /// answer for each that is live.
    async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError>;

    /// Entries that have a text and no vector of that model, in the store's own order, with their
    /// places in it.
    async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// How far vectors have been made for a tenant.
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError>;

    /// Lets go of vectors of other models than these, `limit` at the most. Answers how many. What
    /// can be made again is no memory: this is no commit.
    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError>;

    /// Counts of one memory.
    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<ScopeStats, StoreError>;

    /// The tenant's memories that the actor may see, in the order of their names, after `after`.
    async fn scopes(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<ScopeSummary>, StoreError>;

    /// Every entry of a memory that answers a question or did, and still has its text: by the start
    /// of its window, then by time and name. The newest `limit` of them.
    async fn slot(&self, scope: &Scope, slot: &str, limit: u32) -> Result<Vec<Answer>, StoreError>;

    /// The rules of a world, by name, after `after`.
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<Rule>, StoreError>;

    /// A rule that the text restates, if it restates one: what `commit` would refuse it for.
    async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError>;

    /// The actions that rest on an entry, be it gone or not, oldest first.
    async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError>;

    /// The rules of all worlds, by world and name, after `after`.
    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, Rule)>, StoreError>;

    /// Entries that actions rest on, whosever they are, gone or not, in the store's own order after
    /// `after`.
    async fn linked(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Linked>, StoreError>;

    /// What holds the tenant's entries, or those of one memory, as far as the actor may see them.
    async fn retention(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError>;

    /// Statements that ceased to be true before `before`, whose text is still there, and that no
    /// action rests on: those that ended first come first, after the place that `after` names.
    async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<Faded>, StoreError>;

    /// Events of the tenant's log after `after`, in order, without gaps.
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError>;

    /// Events of one run's own log from position `from` on, in order, without gaps.
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError>;

    /// The snapshots that runs hold, oldest first.
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError>;

    /// Where the tenant's clocks stand.
    async fn head(&self, tenant: &TenantId) -> Result<Head, StoreError>;

    /// The record of that name. Nothing inert is ever answered, here and below.
    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError>;

    /// Records whose name begins with `prefix` and comes after `after`, in the byte order of their
    /// names.
    async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Records that are found by something else than their names.
    async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &Tie,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Wakes whoever waits for the tenant's next commit. Only a hint: commits of other processes
    /// may ring late or not.
    async fn watch(&self, tenant: &TenantId) -> Result<watch::Receiver<Revision>, StoreError>;

    /// Entries whose time has run out at `at` and whose text is still there.
    async fn expired(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError>;

    /// Entries that were taken away while a run could still read them, and that no open snapshot
    /// needs any more.
    async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError>;

    /// Entries whose text was admitted under other rules than `scan` names, in the store's own
    /// order after `after`.
    async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Stale, StoreError>;

    /// Entries of a memory that consolidation may look at and of which there is no signature: live,
    /// persistent, without an end. In the store's own order, with their places in it.
    async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// Signatures of such entries, in the store's own order.
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Signed>, StoreError>;

    /// Those of such entries that are at these places, in the store's own order.
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError>;

    /// What an entry was made from and what was made from it, in both cases as far as one step
    /// goes. `None`: no such entry, not even a skeleton.
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError>;

    /// What carries a subject: the entries about it, whatever was made from them, and so on.
    async fn trace(&self, tenant: &TenantId, subject: &Subject) -> Result<Trace, StoreError>;

    /// Tenants that this kind of work may find something to do at. May name too many, never too few
    /// of those that this process has ever touched or that other nodes can touch.
    async fn due(&self, work: Work, at: Timestamp) -> Result<Vec<TenantId>, StoreError>;

    /// Makes erased text physically gone (journals and free space included) and drops idempotency
    /// records from before `keys_before`. With `compact`, also gives free space back.
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError>;

    /// Checks the tenant's data against its own hashes: page structure, event chain, entry texts,
    /// and every row of every table. Answers how many events and texts were checked; an error says
    /// which rows are damaged.
    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// How many of the tenant's rows have no hash yet: they were written before rows had one, and
    /// `verify` cannot tell whether they are what was written.
    async fn unhashed(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Takes the lease on a pass of a tenant for `for_ms`, or prolongs it for the same holder.
    /// `None`: another one has it.
    ///
    /// `now` is the caller's clock; a store that has one of its own, shared by all nodes, goes by
    /// that. A lease only saves work: what makes two holders harmless is `Batch::fenced`.
    async fn claim(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError>;

    /// Gives a lease back, if it is still held.
    async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError>;

    /// Rings when a pass may have work sooner than its period says, on whichever node that came up.
    /// Only a hint.
    fn wake(&self) -> watch::Receiver<u64>;

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
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;
}

/// What is under review: kept apart from everything else, so that whoever holds a `Store` alone
/// cannot read it. Written like any other record, by `Store::commit`.
#[async_trait]
pub trait Review: Send + Sync {
    /// The inert record of that name.
    async fn inert(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError>;

    /// Inert records whose name begins with `prefix` and comes after `after`, in the byte order of
    /// their names.
    async fn inert_list(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;

    /// Inert records that are due, the earliest first.
    async fn inert_due(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;
}

/// Work of which a store knows at which tenants it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `expired`, `ended` or `scrub`.
    Purge,
    /// Records that are due, inert ones included.
    Records,
}

/// What a store can do; one input of the capability model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFeatures {
    /// Data survives the process.
    pub durable: bool,
    /// Keeps vectors and finds by them.
    pub vectors: bool,
    /// Other nodes may work on it at the same time.
    pub shared: bool,
}

/// What a run may still read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The run.
    pub run: RunId,
    /// The newest commit it sees.
    pub revision: Revision,
    /// When it was taken.
    pub at: Timestamp,
}

/// A place in the store's own order of entries: opaque, and good for one store only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowCursor(pub i64, pub i64);

/// An answer of `stale`.
#[derive(Clone, Debug, Default)]
pub struct Stale {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where to go on; `None` at the end.
    pub next: Option<RowCursor>,
}

/// Where a tenant's clocks stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The newest commit.
    pub revision: Revision,
    /// The newest event.
    pub seq: Seq,
    /// The largest instant any commit was made at.
    pub at: Timestamp,
}

/// The answer to a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision that this batch became, or the newest one if it changed nothing.
    pub revision: Revision,
    /// The instant of the commit: the batch's own, or later where the tenant's clock was ahead of
    /// it.
    pub at: Timestamp,
    /// One outcome a change, in order.
    pub outcomes: Vec<Outcome>,
    /// The batch was applied before, under the same idempotency key; the outcomes are those of the
    /// first time.
    pub replayed: bool,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The entry was stored, under this name, at this time.
    Stored {
        /// The name (on a replay: the one given the first time).
        id: EntryId,
        /// Its time.
        created_at: Timestamp,
    },
    /// The record was written; this is its version.
    Recorded {
        /// Its name (on a replay: the one of the first time).
        key: String,
        /// From 1.
        version: u64,
    },
    /// The event was appended, the snapshot held or let go.
    Done,
    /// The entry or record was taken away.
    Removed,
    /// The entry was taken away, and its text is kept, since an action rests on it.
    Held,
    /// Nothing to do: no such live entry, or the imported id is taken.
    Nothing,
}

/// Why a store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The request itself cannot be (an idempotency key with another body).
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Somebody else was first: an expectation of the batch does not hold, a record is not as it
    /// was, what it is tied to has ended, a lease was taken over, or a slot was filled meanwhile.
    #[error("an entry changed since it was read")]
    Conflict,
    /// Too many writes are waiting; try again soon.
    #[error("too many writes are waiting")]
    Busy,
    /// The storage has no room left; reads go on.
    #[error("the storage is full")]
    Full,
    /// The storage cannot be used now. For a commit: it may or may not have been applied.
    #[error("the storage is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Stored data contradicts its own hashes or structure.
    #[error("stored data is damaged: {0}")]
    Damaged(&'static str),
    /// A check found rows that are not what was written.
    #[error("stored data is damaged: {0}")]
    DamagedRows(Damages),
}
