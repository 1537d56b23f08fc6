//! A store between the engine and the real one that a test can meddle with: it counts what is read,
//! stops working at any one call (as if the process died there), and lets a test act right before a
//! commit.

use async_trait::async_trait;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision,
    RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, Answer, Around, Committed, Filter, Found, Head, Lineage, Page, Probe, ReadAt,
    RetentionCount, RowCursor, Rule, ScopeStats, ScopeSummary, Signed, Snapshot, Stale, Store,
    StoreError, StoreFeatures, Tie, Trace, VectorCounts, Work,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

type Hook = Arc<dyn Fn(Batch) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

pub struct Meddler {
    pub inner: Arc<dyn Store>,
    /// Entries whose text a consolidation was given.
    pub texts: AtomicU64,
    calls: AtomicU64,
    dies_at: AtomicU64,
    late: AtomicBool,
    lawless: AtomicBool,
    hook: Mutex<Option<Hook>>,
}

fn dead() -> StoreError {
    StoreError::Unavailable("the process is dead".into())
}

impl Meddler {
    pub fn over(inner: Arc<dyn Store>) -> Meddler {
        let texts = AtomicU64::new(0);
        let calls = AtomicU64::new(0);
        let late = AtomicBool::new(false);
        let lawless = AtomicBool::new(false);
        Meddler {
            inner,
            texts,
            calls,
            dies_at: AtomicU64::new(u64::MAX - 1),
            late,
            lawless,
            hook: Mutex::default(),
        }
    }

    /// From now on everybody has every lease, and nobody is fenced off: what is safe must be so
    /// without them.
    pub fn ignore_leases(&self) {
        self.lawless.store(true, Ordering::SeqCst);
    }

    /// Nothing works from the call of this number on; `late`: if that is a commit, it is still
    /// done, but nobody hears of it.
    pub fn die_at(&self, call: u64, late: bool) {
        self.calls.store(0, Ordering::SeqCst);
        self.late.store(late, Ordering::SeqCst);
        self.dies_at.store(call, Ordering::SeqCst);
    }

    /// Works again, like the next process.
    pub fn revive(&self) {
        self.die_at(u64::MAX - 1, false);
    }

    pub fn has_died(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.dies_at.load(Ordering::SeqCst)
    }

    /// What happens right before every commit from now on.
    pub fn before_commits(
        &self,
        hook: impl Fn(Batch) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    pub fn leave_commits_alone(&self) {
        *self.hook.lock().unwrap() = None;
    }

    fn step(&self) -> Result<(), StoreError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call >= self.dies_at.load(Ordering::SeqCst) {
            Err(dead())
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Store for Meddler {
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        self.step()?;
        self.inner.get(scope, id, at).await
    }
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.step()?;
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
        self.step()?;
        self.inner.search(scope, probe, filter, depth, at).await
    }
    async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError> {
        self.step()?;
        self.inner.around(scope, ids, reach, at).await
    }
    async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.step()?;
        self.inner.unembedded(tenant, model, after, limit).await
    }
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        self.step()?;
        self.inner.vector_counts(tenant).await
    }
    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.step()?;
        self.inner.discard_vectors(tenant, keep, limit).await
    }
    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<ScopeStats, StoreError> {
        self.step()?;
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
        self.step()?;
        self.inner.scopes(tenant, actor, after, limit, at).await
    }
    async fn slot(&self, scope: &Scope, slot: &str, limit: u32) -> Result<Vec<Answer>, StoreError> {
        self.step()?;
        self.inner.slot(scope, slot, limit).await
    }
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<Rule>, StoreError> {
        self.step()?;
        self.inner.rules(tenant, world, after, limit).await
    }
    async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        self.step()?;
        self.inner.shadowed(tenant, world, text).await
    }
    async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError> {
        self.step()?;
        self.inner.links(scope, id).await
    }
    async fn retention(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        self.step()?;
        self.inner.retention(tenant, actor, memory_ref).await
    }
    async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.step()?;
        self.inner.faded(tenant, before, limit).await
    }
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.step()?;
        self.inner.events(tenant, after, limit).await
    }
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.step()?;
        self.inner.run_events(tenant, run, from, limit).await
    }
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        self.step()?;
        self.inner.snapshots(tenant).await
    }
    async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.step()?;
        self.inner.ended(tenant, limit).await
    }
    async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Stale, StoreError> {
        self.step()?;
        self.inner.stale(tenant, scan, after, limit).await
    }
    async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.step()?;
        let found = self.inner.unsigned(scope, after, limit).await?;
        self.texts.fetch_add(found.len() as u64, Ordering::SeqCst);
        Ok(found)
    }
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Signed>, StoreError> {
        self.step()?;
        self.inner.signatures(scope, after, limit).await
    }
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.step()?;
        let found = self.inner.entries_at(scope, rows).await?;
        self.texts.fetch_add(found.len() as u64, Ordering::SeqCst);
        Ok(found)
    }
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError> {
        self.step()?;
        self.inner.lineage(scope, id).await
    }
    async fn trace(&self, tenant: &TenantId, subject: &Subject) -> Result<Trace, StoreError> {
        self.step()?;
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
        self.step()?;
        self.inner.expired(tenant, at, limit).await
    }
    async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &Tie,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.step()?;
        self.inner.tied(tenant, kind, tie, limit).await
    }
    async fn due(&self, work: Work, at: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        self.step()?;
        self.inner.due(work, at).await
    }
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError> {
        self.step()?;
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
        self.step()?;
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
        self.step()?;
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
        self.step()?;
        if self.lawless.load(Ordering::SeqCst) {
            return Ok(Some(Fence { pass, number: 1 }));
        }
        self.inner.claim(tenant, pass, holder, now, for_ms).await
    }
    async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        self.step()?;
        self.inner.release(tenant, fence).await
    }
    fn wake(&self) -> watch::Receiver<u64> {
        self.inner.wake()
    }
    fn features(&self) -> StoreFeatures {
        self.inner.features()
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let batch = if self.lawless.load(Ordering::SeqCst) {
            batch.fenced(None)
        } else {
            batch
        };
        let hook = self.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(batch.clone()).await;
        }
        if self.step().is_ok() {
            return self.inner.commit(batch).await;
        }
        // The process goes away right before this commit, or right after it.
        if self.calls.load(Ordering::SeqCst) == self.dies_at.load(Ordering::SeqCst) + 1
            && self.late.load(Ordering::SeqCst)
        {
            self.inner.commit(batch).await?;
        }
        Err(dead())
    }
}
