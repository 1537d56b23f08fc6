//! Forwards every call of the `Store` to the store behind, unless the call is one that fails.

use super::{CallFault, FaultStore, injected, unpoisoned};
use async_trait::async_trait;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision,
    RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, Typology, WorldId,
};
use remem_store::{
    ActionLink, CandidateSet, CommitResult, DueWork, EndedStatement, EntryActions, Filter, Lineage,
    MemoryStats, MemorySummary, Neighbours, Page, Probe, ReadAt, RecordLookup, RescanPage,
    RetentionCount, RowCursor, SlotAnswer, Snapshot, Store, StoreError, StoreFeatures,
    StoredSignature, SubjectTrace, TenantHead, TracePosition, VectorCounts, WorldRule,
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
        let found = self.inner.get(scope, id, at).await?;
        self.tally("get", usize::from(found.is_some()));
        Ok(found)
    }
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read()?;
        let found = self.inner.list(scope, filter, page, at).await?;
        self.tally("list", found.len());
        Ok(found)
    }
    async fn standing_entries(
        &self,
        scope: &Scope,
        typology: Typology,
        filter: &Filter,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read()?;
        let inner = &self.inner;
        let found = inner
            .standing_entries(scope, typology, filter, limit, at)
            .await?;
        self.tally("standing_entries", found.len());
        Ok(found)
    }
    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<CandidateSet, StoreError> {
        self.read()?;
        self.inner.search(scope, probe, filter, depth, at).await
    }
    async fn neighbours(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Neighbours>, StoreError> {
        self.read()?;
        self.inner.neighbours(scope, ids, reach, at).await
    }
    async fn entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read()?;
        let found = self
            .inner
            .entries_without_vector(tenant, model, after, limit)
            .await?;
        self.tally("entries_without_vector", found.len());
        Ok(found)
    }
    async fn named_entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        names: &[(MemoryRef, EntryId)],
    ) -> Result<Vec<Entry>, StoreError> {
        self.read()?;
        let found = self
            .inner
            .named_entries_without_vector(tenant, model, names)
            .await?;
        self.tally("named_entries_without_vector", found.len());
        Ok(found)
    }
    async fn named_entries(
        &self,
        tenant: &TenantId,
        names: &[(MemoryRef, EntryId)],
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read()?;
        let found = self.inner.named_entries(tenant, names, at).await?;
        self.tally("named_entries", found.len());
        Ok(found)
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
        self.tally("discard_vectors", 0);
        self.inner.discard_vectors(tenant, keep, limit).await
    }
    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<MemoryStats, StoreError> {
        self.read()?;
        self.inner.stats(scope, at).await
    }
    async fn memories(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<MemorySummary>, StoreError> {
        self.read()?;
        self.inner.memories(tenant, actor, after, limit, at).await
    }
    async fn slot_history(
        &self,
        scope: &Scope,
        slot: &str,
        limit: u32,
    ) -> Result<Vec<SlotAnswer>, StoreError> {
        self.read()?;
        self.inner.slot_history(scope, slot, limit).await
    }
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<WorldRule>, StoreError> {
        self.read()?;
        self.inner.rules(tenant, world, after, limit).await
    }
    async fn restated_rule(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        self.read()?;
        self.inner.restated_rule(tenant, world, text).await
    }
    async fn actions_of_entry(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Vec<ActionLink>, StoreError> {
        self.read()?;
        self.inner.actions_of_entry(scope, id).await
    }
    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        self.read()?;
        self.inner.all_rules(tenant, after, limit).await
    }
    async fn entries_with_actions(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError> {
        self.read()?;
        self.inner.entries_with_actions(tenant, after, limit).await
    }
    async fn retention_counts(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        self.read()?;
        self.inner.retention_counts(tenant, actor, memory_ref).await
    }
    async fn ended_statements(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<EndedStatement>, StoreError> {
        self.read()?;
        self.inner
            .ended_statements(tenant, before, after, limit)
            .await
    }
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.read()?;
        self.tally("events", 0);
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
    async fn erasable_entries(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read()?;
        self.inner.erasable_entries(tenant, limit).await
    }
    async fn entries_to_rescan(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<RescanPage, StoreError> {
        self.read()?;
        self.inner
            .entries_to_rescan(tenant, scan, after, limit)
            .await
    }
    async fn entries_without_signature(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        self.read()?;
        let found = self
            .inner
            .entries_without_signature(scope, after, limit)
            .await?;
        self.texts_read
            .fetch_add(found.len() as u64, Ordering::SeqCst);
        Ok(found)
    }
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError> {
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
    async fn trace_subject(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError> {
        self.read()?;
        self.inner
            .trace_subject(tenant, subject, after, limit)
            .await
    }
    async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError> {
        self.tally("head", 0);
        self.inner.head(tenant).await
    }
    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError> {
        let watch = self.inner.watch_commits(tenant).await?;
        let closed = self
            .closed_watches
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        if closed {
            return Ok(watch::channel(*watch.borrow()).1);
        }
        Ok(watch)
    }
    async fn expired_entries(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        self.read()?;
        self.inner.expired_entries(tenant, at, limit).await
    }
    async fn records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.read()?;
        self.inner.records_by(tenant, kind, tie, limit).await
    }
    async fn tenants_with_work(
        &self,
        work: DueWork,
        at: Timestamp,
    ) -> Result<Vec<TenantId>, StoreError> {
        self.read()?;
        self.inner.tenants_with_work(work, at).await
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
    async fn count_rows_without_hash(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.inner.count_rows_without_hash(tenant).await
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
    async fn acquire_lease(
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
        self.inner
            .acquire_lease(tenant, pass, holder, now, for_ms)
            .await
    }
    async fn release_lease(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        self.read()?;
        self.inner.release_lease(tenant, fence).await
    }
    fn watch_work(&self) -> watch::Receiver<u64> {
        self.inner.watch_work()
    }
    fn damaged_tenants(&self) -> Vec<TenantId> {
        self.inner.damaged_tenants()
    }
    fn features(&self) -> StoreFeatures {
        self.inner.features()
    }
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        let batch = if self.ignore_leases.load(Ordering::SeqCst) {
            batch.fenced(None)
        } else {
            batch
        };
        let hook = unpoisoned(&self.before_commit).clone();
        if let Some(hook) = hook {
            hook(batch.clone()).await;
        }
        self.tally("commit", 0);
        match self.count() {
            CallFault::None => self.inner.commit(batch).await,
            CallFault::Before => Err(injected()),
            CallFault::After => {
                self.inner.commit(batch).await?;
                Err(injected())
            }
        }
    }
}
