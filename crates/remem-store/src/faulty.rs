//! A store that fails on purpose, from a seed: before a commit (nothing happened) or after it (it
//! did happen, but the answer was lost). The second kind is why every write needs an idempotency
//! key.

use crate::kin::{Lineage, Signed, Trace};
use crate::read::{
    Around, Filter, Found, Page, Probe, ReadAt, ScopeStats, ScopeSummary, Tie, VectorCounts,
};
use crate::store::{
    Committed, Head, Review, RowCursor, Snapshot, Stale, Store, StoreError, StoreFeatures, Work,
};
use crate::workshop::{ActionLink, Answer, RetentionCount, Rule};
use async_trait::async_trait;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision,
    RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, WorldId,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Wraps a store and makes a share of its calls fail.
pub struct FaultyStore<S> {
    inner: S,
    faults_in_256: u8,
    state: Mutex<u64>,
    fired: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
#[error("injected fault")]
struct Injected;

enum Fault {
    None,
    Before,
    After,
}

impl<S> FaultyStore<S> {
    /// Fails about `faults_in_256` of 256 calls, in an order that `seed` determines.
    pub fn new(inner: S, seed: u64, faults_in_256: u8) -> FaultyStore<S> {
        FaultyStore {
            inner,
            faults_in_256,
            state: Mutex::new(seed ^ 0x9E37_79B9_7F4A_7C15),
            fired: AtomicU64::new(0),
        }
    }

    /// How many calls failed so far: a test that injects nothing proves nothing.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    /// The store inside, for looking at what really happened.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn next(&self) -> Fault {
        let mut state = self
            .state
            .lock()
            .expect("no code panics while it holds the lock");
        // splitmix64
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        if (z & 0xFF) as u8 >= self.faults_in_256 {
            return Fault::None;
        }
        self.fired.fetch_add(1, Ordering::Relaxed);
        if z & 0x100 == 0 {
            Fault::Before
        } else {
            Fault::After
        }
    }

    fn read_fault(&self) -> Result<(), StoreError> {
        match self.next() {
            Fault::None => Ok(()),
            Fault::Before | Fault::After => Err(unavailable()),
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable(Box::new(Injected))
}

#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        self.read_fault()?;
        self.inner.get(scope, id, at).await
    }
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read_fault()?;
        self.inner.list(scope, filter, page, at).await
    }
    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<Found, StoreError> {
        self.read_fault()?;
        self.inner.search(scope, probe, filter, depth, at).await
    }

    async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError> {
        self.read_fault()?;
        self.inner.around(scope, ids, reach, at).await
    }

    async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read_fault()?;
        self.inner.unembedded(tenant, model, after, limit).await
    }

    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        self.read_fault()?;
        self.inner.vector_counts(tenant).await
    }

    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.read_fault()?;
        self.inner.discard_vectors(tenant, keep, limit).await
    }

    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<ScopeStats, StoreError> {
        self.read_fault()?;
        self.inner.stats(scope, at).await
    }
    async fn scopes(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<ScopeSummary>, StoreError> {
        self.read_fault()?;
        self.inner.scopes(tenant, actor, after, limit, at).await
    }
    async fn slot(&self, scope: &Scope, slot: &str, limit: u32) -> Result<Vec<Answer>, StoreError> {
        self.read_fault()?;
        self.inner.slot(scope, slot, limit).await
    }
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<Rule>, StoreError> {
        self.read_fault()?;
        self.inner.rules(tenant, world, after, limit).await
    }
    async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        self.read_fault()?;
        self.inner.shadowed(tenant, world, text).await
    }
    async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError> {
        self.read_fault()?;
        self.inner.links(scope, id).await
    }
    async fn retention(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        self.read_fault()?;
        self.inner.retention(tenant, actor, memory_ref).await
    }
    async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read_fault()?;
        self.inner.faded(tenant, before, limit).await
    }
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.read_fault()?;
        self.inner.events(tenant, after, limit).await
    }
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.read_fault()?;
        self.inner.run_events(tenant, run, from, limit).await
    }
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        self.read_fault()?;
        self.inner.snapshots(tenant).await
    }
    async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read_fault()?;
        self.inner.ended(tenant, limit).await
    }
    async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Stale, StoreError> {
        self.read_fault()?;
        self.inner.stale(tenant, scan, after, limit).await
    }
    async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read_fault()?;
        self.inner.unsigned(scope, after, limit).await
    }
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Signed>, StoreError> {
        self.read_fault()?;
        self.inner.signatures(scope, after, limit).await
    }
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read_fault()?;
        self.inner.entries_at(scope, rows).await
    }
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError> {
        self.read_fault()?;
        self.inner.lineage(scope, id).await
    }
    async fn trace(&self, tenant: &TenantId, subject: &Subject) -> Result<Trace, StoreError> {
        self.read_fault()?;
        self.inner.trace(tenant, subject).await
    }
    async fn head(&self, tenant: &TenantId) -> Result<Head, StoreError> {
        self.inner.head(tenant).await
    }
    async fn watch(&self, tenant: &TenantId) -> Result<watch::Receiver<Revision>, StoreError> {
        self.inner.watch(tenant).await
    }
    async fn expired(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read_fault()?;
        self.inner.expired(tenant, at, limit).await
    }
    async fn due(&self, work: Work, at: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        self.read_fault()?;
        self.inner.due(work, at).await
    }
    async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &Tie,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_fault()?;
        self.inner.tied(tenant, kind, tie, limit).await
    }
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError> {
        self.read_fault()?;
        self.inner.scrub(tenant, keys_before, compact).await
    }
    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.inner.verify(tenant).await
    }
    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        self.read_fault()?;
        self.inner.record(tenant, kind, key).await
    }
    async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_fault()?;
        self.inner.records(tenant, kind, prefix, after, limit).await
    }
    async fn claim(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        self.read_fault()?;
        self.inner.claim(tenant, pass, holder, now, for_ms).await
    }
    async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        self.read_fault()?;
        self.inner.release(tenant, fence).await
    }
    fn wake(&self) -> watch::Receiver<u64> {
        self.inner.wake()
    }
    fn features(&self) -> StoreFeatures {
        self.inner.features()
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        match self.next() {
            Fault::None => self.inner.commit(batch).await,
            Fault::Before => Err(unavailable()),
            Fault::After => {
                self.inner.commit(batch).await?;
                Err(unavailable())
            }
        }
    }
}

#[async_trait]
impl<S: Review> Review for FaultyStore<S> {
    async fn inert(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        self.read_fault()?;
        self.inner.inert(tenant, kind, key).await
    }
    async fn inert_list(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_fault()?;
        self.inner
            .inert_list(tenant, kind, prefix, after, limit)
            .await
    }
    async fn inert_due(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_fault()?;
        self.inner.inert_due(tenant, kind, until, limit).await
    }
}
