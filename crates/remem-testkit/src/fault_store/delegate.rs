//! Forwards every call of the `Store` to the store behind, unless the call is one that fails.

use super::{Fault, FaultStore, injected, unpoisoned};
use async_trait::async_trait;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision,
    RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, Answer, Around, Committed, Faded, Filter, Found, Head, Lineage, Linked, Page,
    Probe, ReadAt, RetentionCount, RowCursor, Rule, ScopeStats, ScopeSummary, Signed, Snapshot,
    Stale, Store, StoreError, StoreFeatures, Tie, Trace, VectorCounts, Work,
};
use std::sync::atomic::Ordering;
use tokio::sync::watch;

#[async_trait]
impl Store for FaultStore {
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        self.read()?;
        self.inner.get(scope, id, at).await
    }
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read()?;
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
        self.read()?;
        self.inner.search(scope, probe, filter, depth, at).await
    }
    async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError> {
        self.read()?;
        self.inner.around(scope, ids, reach, at).await
    }
    async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read()?;
        self.inner.unembedded(tenant, model, after, limit).await
    }
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        self.read()?;
        self.inner.vector_counts(tenant).await
    }
    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.read()?;
        self.inner.discard_vectors(tenant, keep, limit).await
    }
    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<ScopeStats, StoreError> {
        self.read()?;
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
        self.read()?;
        self.inner.scopes(tenant, actor, after, limit, at).await
    }
    async fn slot(&self, scope: &Scope, slot: &str, limit: u32) -> Result<Vec<Answer>, StoreError> {
        self.read()?;
        self.inner.slot(scope, slot, limit).await
    }
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<Rule>, StoreError> {
        self.read()?;
        self.inner.rules(tenant, world, after, limit).await
    }
    async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        self.read()?;
        self.inner.shadowed(tenant, world, text).await
    }
    async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError> {
        self.read()?;
        self.inner.links(scope, id).await
    }
    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, Rule)>, StoreError> {
        self.read()?;
        self.inner.all_rules(tenant, after, limit).await
    }
    async fn linked(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Linked>, StoreError> {
        self.read()?;
        self.inner.linked(tenant, after, limit).await
    }
    async fn retention(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        self.read()?;
        self.inner.retention(tenant, actor, memory_ref).await
    }
    async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<Faded>, StoreError> {
        self.read()?;
        self.inner.faded(tenant, before, after, limit).await
    }
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.read()?;
        self.inner.events(tenant, after, limit).await
    }
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.read()?;
        self.inner.run_events(tenant, run, from, limit).await
    }
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        self.read()?;
        self.inner.snapshots(tenant).await
    }
    async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read()?;
        self.inner.ended(tenant, limit).await
    }
    async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Stale, StoreError> {
        self.read()?;
        self.inner.stale(tenant, scan, after, limit).await
    }
    async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read()?;
        let found = self.inner.unsigned(scope, after, limit).await?;
        self.texts_read
            .fetch_add(found.len() as u64, Ordering::SeqCst);
        Ok(found)
    }
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Signed>, StoreError> {
        self.read()?;
        self.inner.signatures(scope, after, limit).await
    }
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read()?;
        let found = self.inner.entries_at(scope, rows).await?;
        self.texts_read
            .fetch_add(found.len() as u64, Ordering::SeqCst);
        Ok(found)
    }
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError> {
        self.read()?;
        self.inner.lineage(scope, id).await
    }
    async fn trace(&self, tenant: &TenantId, subject: &Subject) -> Result<Trace, StoreError> {
        self.read()?;
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
        self.read()?;
        self.inner.expired(tenant, at, limit).await
    }
    async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &Tie,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read()?;
        self.inner.tied(tenant, kind, tie, limit).await
    }
    async fn due(&self, work: Work, at: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        self.read()?;
        self.inner.due(work, at).await
    }
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError> {
        self.read()?;
        self.inner.scrub(tenant, keys_before, compact).await
    }
    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.inner.verify(tenant).await
    }
    async fn unhashed(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.inner.unhashed(tenant).await
    }
    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        self.read()?;
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
        self.read()?;
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
        self.read()?;
        if self.ignore_leases.load(Ordering::SeqCst) {
            return Ok(Some(Fence { pass, number: 1 }));
        }
        self.inner.claim(tenant, pass, holder, now, for_ms).await
    }
    async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        self.read()?;
        self.inner.release(tenant, fence).await
    }
    fn wake(&self) -> watch::Receiver<u64> {
        self.inner.wake()
    }
    fn damaged_tenants(&self) -> Vec<TenantId> {
        self.inner.damaged_tenants()
    }
    fn features(&self) -> StoreFeatures {
        self.inner.features()
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let batch = if self.ignore_leases.load(Ordering::SeqCst) {
            batch.fenced(None)
        } else {
            batch
        };
        let hook = unpoisoned(&self.before_commit).clone();
        if let Some(hook) = hook {
            hook(batch.clone()).await;
        }
        match self.count() {
            Fault::None => self.inner.commit(batch).await,
            Fault::Before => Err(injected()),
            Fault::After => {
                self.inner.commit(batch).await?;
                Err(injected())
            }
        }
    }
}
