//! The trait `StoreWrapper`: a store in front of another one. It names each method of the store's
//! traits once, so a wrapper states only what it changes.

use crate::entry::{EntryQuery, EntryReads, FoundEntry, RowCursor};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::lineage::{Lineage, LineageReads, StoredSignature, SubjectTrace, TracePosition};
use crate::log::{EventRange, LogReads, Snapshot, TenantHead};
use crate::read::{
    CandidateSet, Filter, MemoryStats, MemorySummary, Neighbours, Probe, ReadAt, VectorCounts,
};
use crate::record::{RecordLookup, RecordReads};
use crate::store::Store;
use crate::upkeep::{DueWork, Leases, StoreFeatures, Upkeep, Vectors};
use crate::workshop::{
    ActionLink, EntryActions, RetentionCount, RuleRange, WorkshopReads, WorldRule,
};
use async_trait::async_trait;
use remem_core::ledger::CommitResult;
use remem_core::{
    Actor, Batch, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision, RuleId,
    Scope, Subject, TenantId, Timestamp, WorldId,
};
use tokio::sync::watch;

/// A store that passes its calls on to another one.
#[async_trait]
pub trait StoreWrapper: Send + Sync {
    /// The store behind this one.
    fn inner(&self) -> &dyn Store;

    /// Runs before each call except `commit`, with the name of the method. An error is the answer
    /// of the call.
    fn before(&self, _method: &'static str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Sees what a query of entries found.
    fn found(&self, _query: &EntryQuery, _found: &[FoundEntry]) {}

    /// Hands a watch of commits to its caller.
    fn watched(&self, watch: watch::Receiver<Revision>) -> watch::Receiver<Revision> {
        watch
    }

    /// Answers a call of `commit`.
    async fn forward_commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        self.inner().commit(batch).await
    }

    /// Grants a lease without asking the store behind.
    fn grant(&self, _pass: &'static str) -> Option<Fence> {
        None
    }
}

/// Implements a trait of the store for every wrapper: each method calls `before`, then the store
/// behind. Methods that do more follow after `and`.
macro_rules! forward {
    ($name:ident {
        $($method:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*
    } $(and { $($more:tt)* })?) => {
        #[async_trait]
        impl<W: StoreWrapper> $name for W {
            $(async fn $method(&self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                self.before(stringify!($method))?;
                self.inner().$method($($arg),*).await
            })*
            $($($more)*)?
        }
    };
}

forward! { Ledger {} and {
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        self.forward_commit(batch).await
    }
} }

forward! { EntryReads {
    search(scope: &Scope, probe: &Probe, filter: &Filter, depth: u32, at: &ReadAt) -> CandidateSet;
    neighbours(scope: &Scope, ids: &[EntryId], reach: u32, at: &ReadAt) -> Vec<Neighbours>;
    stats(scope: &Scope, at: &ReadAt) -> MemoryStats;
    memories(
        tenant: &TenantId, actor: &Actor, after: Option<&MemoryRef>, limit: u32, at: &ReadAt
    ) -> Vec<MemorySummary>;
} and {
    async fn entries(&self, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError> {
        self.before("entries")?;
        let found = self.inner().entries(query).await?;
        self.found(query, &found);
        Ok(found)
    }
} }

forward! { RecordReads {
    records_by(
        tenant: &TenantId, kind: RecordKind, lookup: &RecordLookup, limit: u32
    ) -> Vec<Record>;
} }

forward! { LogReads {
    events_in(tenant: &TenantId, range: &EventRange, limit: u32) -> Vec<Event>;
    snapshots(tenant: &TenantId) -> Vec<Snapshot>;
    head(tenant: &TenantId) -> TenantHead;
} and {
    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError> {
        self.before("watch_commits")?;
        Ok(self.watched(self.inner().watch_commits(tenant).await?))
    }
} }

forward! { LineageReads {
    signatures(scope: &Scope, after: Option<RowCursor>, limit: u32) -> Vec<StoredSignature>;
    lineage(scope: &Scope, id: &EntryId) -> Option<Lineage>;
    trace_subject(
        tenant: &TenantId, subject: &Subject, after: TracePosition, limit: u32
    ) -> SubjectTrace;
} }

forward! { Vectors {
    vector_counts(tenant: &TenantId) -> VectorCounts;
    discard_vectors(tenant: &TenantId, keep: &[ModelId], limit: u32) -> u64;
} }

forward! { WorkshopReads {
    rules_in(tenant: &TenantId, range: &RuleRange, limit: u32) -> Vec<(WorldId, WorldRule)>;
    restated_rule(tenant: &TenantId, world: &WorldId, text: &str) -> Option<RuleId>;
    actions_of_entry(scope: &Scope, id: &EntryId) -> Vec<ActionLink>;
    entries_with_actions(
        tenant: &TenantId, after: Option<RowCursor>, limit: u32
    ) -> Vec<EntryActions>;
    retention_counts(
        tenant: &TenantId, actor: &Actor, memory_ref: Option<&MemoryRef>
    ) -> Vec<RetentionCount>;
} }

forward! { Leases {
    release_lease(tenant: &TenantId, fence: &Fence) -> ();
} and {
    async fn acquire_lease(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        self.before("acquire_lease")?;
        if let Some(fence) = self.grant(pass) {
            return Ok(Some(fence));
        }
        self.inner().acquire_lease(tenant, pass, holder, now, for_ms).await
    }
} }

forward! { Upkeep {
    tenants_with_work(work: DueWork, at: Timestamp) -> Vec<TenantId>;
    scrub(tenant: &TenantId, keys_before: Timestamp, compact: bool) -> ();
    verify(tenant: &TenantId) -> u64;
    count_rows_without_hash(tenant: &TenantId) -> u64;
} and {
    fn watch_work(&self) -> watch::Receiver<u64> {
        self.inner().watch_work()
    }

    fn damaged_tenants(&self) -> Vec<TenantId> {
        self.inner().damaged_tenants()
    }

    fn features(&self) -> StoreFeatures {
        self.inner().features()
    }
} }
