//! The embedded store: SQLite in WAL mode, one file per tenant, one more for the directory of
//! tenants and keys.
//!
//! This file owns the set of open tenants; it may not hold a statement (see `entries`,
//! `read`, `search`, `maintain`).

mod around;
mod caller_texts;
mod connection;
pub(crate) mod copy;
mod directory;
mod directory_cache;
mod entries;
mod group;
mod identity;
mod index;
mod index_cache;
mod lease;
mod lineage;
pub(crate) mod load;
mod maintain;
#[cfg(test)]
mod query_plans;
mod read;
mod record;
mod row_hash;
mod rows;
pub(crate) mod save;
mod search;
mod snapshot;
#[cfg(test)]
mod statement_log;
pub(crate) mod stats;
mod tenant;
mod vector;
mod verify;
mod workshop;

use crate::stored::refuse_inert;
pub(crate) use connection::store_error;
pub use directory::SqliteDirectory;

use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision, RuleId,
    Scope, Subject, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, CandidateSet, CommitResult, DueWork, EntryActions, EntryQuery, EntryReads,
    EntrySelection, EventRange, Filter, FoundEntry, Leases, Ledger, Lineage, LineageReads,
    LogReads, MemoryStats, MemorySummary, Neighbours, Probe, ReadAt, RecordLookup, RecordReads,
    RetentionCount, Review, RowCursor, RuleRange, Snapshot, StoreError, StoreFeatures,
    StoredSignature, SubjectTrace, TenantHead, TracePosition, Upkeep, VectorCounts, Vectors,
    WorkshopReads, WorldRule,
};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenant::{TenantFile, tenant_path};
use tokio::sync::watch;

/// Tenants kept open at once; the least recently used one is closed when another is needed.
const OPEN_TENANTS_MAX: usize = 256;

/// The place of the data: a folder or process memory.
#[derive(Clone, Debug)]
pub enum Location {
    /// A folder; the data survives the process.
    Folder(PathBuf),
    /// Process memory; the data is gone with the process. For tests and for hosts that must not
    /// keep anything.
    Memory,
}

/// The embedded store: one SQLite file for each tenant.
pub struct SqliteStore {
    location: Location,
    connections: usize,
    open: Mutex<HashMap<TenantId, OpenTenant>>,
    /// The upkeep state of every tenant that was ever open in this process; it stays when the file
    /// is closed.
    upkeep: Mutex<HashMap<TenantId, Arc<tenant::Upkeep>>>,
    /// Counts the uses of open tenants, so that the least recently used one is known.
    use_clock: AtomicU64,
    /// Held while a tenant is opened.
    opening_lock: tokio::sync::Mutex<()>,
    /// Increased when a pass has new work; see `Upkeep::watch_work`.
    wake: Arc<watch::Sender<u64>>,
    index_cache: Arc<index_cache::IndexCache>,
}

/// A tenant whose file is open, and the count of `use_clock` at its last use.
struct OpenTenant {
    file: Arc<TenantFile>,
    last_used: u64,
}

impl SqliteStore {
    /// Opens the store with `connections` readers per tenant. Refuses an SQLite version that is too
    /// old to be trusted.
    pub fn open(location: Location, connections: usize) -> Result<SqliteStore, StoreError> {
        connection::check_version()?;
        if let Location::Folder(folder) = &location {
            std::fs::create_dir_all(folder.join("tenants"))
                .map_err(|e| StoreError::Unavailable(Box::new(e)))?;
        }
        Ok(SqliteStore {
            location,
            connections: connections.max(1),
            open: Mutex::default(),
            upkeep: Mutex::default(),
            use_clock: AtomicU64::new(0),
            opening_lock: tokio::sync::Mutex::default(),
            wake: Arc::default(),
            index_cache: Arc::default(),
        })
    }

    /// The SQLite version in use, for `remem doctor`.
    #[must_use]
    pub fn version() -> &'static str {
        rusqlite::version()
    }

    /// The tenant's file, opened first if it is not open.
    async fn tenant_file(&self, id: &TenantId) -> Result<Arc<TenantFile>, StoreError> {
        if let Some(file) = self.open_file(id) {
            return Ok(file);
        }
        // One tenant is opened at a time: many callers of a new tenant would each make its tables,
        // and all except one would wait for a lock.
        let _opening = self.opening_lock.lock().await;
        if let Some(file) = self.open_file(id) {
            return Ok(file);
        }
        let due = self
            .upkeep
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(id.clone())
            .or_default()
            .clone();
        let location = self.location.clone();
        let connections = self.connections;
        let name = id.clone();
        let wake = self.wake.clone();
        let known = due.clone();
        let opened =
            run_blocking(move || TenantFile::open(&location, connections, name, due, wake)).await;
        let unusable = matches!(
            opened,
            Err(StoreError::Damaged(_) | StoreError::Unavailable(_))
        );
        sabotage!(
            "nobody-is-told-of-a-damaged-file",
            known.unopened.store(unusable, Ordering::Relaxed)
        );
        Ok(self.add_open_file(id, Arc::new(opened?)))
    }

    /// The tenant's file if it is open; counts as a use.
    fn open_file(&self, id: &TenantId) -> Option<Arc<TenantFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = open.get_mut(id)?;
        tenant.last_used = self.use_clock.fetch_add(1, Ordering::Relaxed);
        Some(tenant.file.clone())
    }

    /// Adds a file to the open ones. If there are too many, closes the least recently used one that
    /// no caller is using. In process memory none is closed, since its data would be lost.
    fn add_open_file(&self, id: &TenantId, file: Arc<TenantFile>) -> Arc<TenantFile> {
        let used = self.use_clock.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN_TENANTS_MAX && matches!(self.location, Location::Folder(_)) {
            let idle = open
                .iter()
                .filter(|(_, tenant)| Arc::strong_count(&tenant.file) == 1)
                .min_by_key(|(_, tenant)| tenant.last_used);
            if let Some(id) = idle.map(|(id, _)| id.clone()) {
                open.remove(&id);
            }
        }
        open.entry(id.clone())
            .or_insert(OpenTenant {
                file,
                last_used: used,
            })
            .file
            .clone()
    }

    /// For the copy of a whole host: a separate reader that sees one commit until it is dropped.
    /// `None`: the tenant has no file yet.
    pub(crate) async fn snapshot_reader(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<Connection>, StoreError> {
        let Location::Folder(folder) = &self.location else {
            return Ok(None);
        };
        let path = tenant_path(folder, tenant);
        if !path.exists() {
            return Ok(None);
        }
        self.tenant_file(tenant).await?; // brings the schema up to date
        run_blocking(move || {
            let db = connection::unrestricted_reader(&path)?;
            db.execute_batch("BEGIN").map_err(store_error)?;
            Ok(Some(db))
        })
        .await
    }

    /// For the copy of a whole host: runs `work` in one transaction on the tenant's writer, as the
    /// host.
    pub(crate) async fn transact<F>(&self, tenant: &TenantId, work: F) -> Result<(), StoreError>
    where
        F: FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    {
        let file = self.tenant_file(tenant).await?;
        file.write(move |db| {
            db.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
            let done = identity::as_actor(&Actor::Host, || work(db))
                .and_then(|()| db.execute_batch("COMMIT").map_err(store_error));
            if done.is_err() {
                // The first error is the one to report.
                let _ = db.execute_batch("ROLLBACK");
            }
            done
        })
        .await
    }

    /// Runs a query on a reader, as the host.
    async fn read_as_host<T, F>(&self, tenant: &TenantId, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.read_as(tenant, &Actor::Host, query).await
    }

    /// Runs a query on a reader, as `actor`.
    async fn read_as<T, F>(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        query: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let actor = actor.clone();
        self.tenant_file(tenant)
            .await?
            .read(move |db| identity::as_actor(&actor, || query(db)))
            .await
    }
}

/// Runs blocking work on a thread of its own, off the async threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
}

#[async_trait]
impl Ledger for SqliteStore {
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        self.tenant_file(batch.tenant()).await?.commit(batch).await
    }
}

#[async_trait]
impl EntryReads for SqliteStore {
    async fn entries(&self, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError> {
        let (tenant, actor) = match &query.selection {
            EntrySelection::OfMemory(scope, _) => (&scope.tenant, &scope.actor),
            EntrySelection::OfTenant(tenant, _) => (tenant, &Actor::Host),
        };
        let wanted = query.clone();
        self.read_as(tenant, actor, move |db| entries::entries(db, &wanted))
            .await
    }

    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<CandidateSet, StoreError> {
        let file = self.tenant_file(&scope.tenant).await?;
        search::search(&file, &self.index_cache, scope, (probe, filter), depth, at).await
    }

    async fn neighbours(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Neighbours>, StoreError> {
        let s = scope.clone();
        let ids = ids.to_vec();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            around::around(db, &s, &ids, reach, &at)
        })
        .await
    }

    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<MemoryStats, StoreError> {
        let s = scope.clone();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            stats::stats(db, &s, &at)
        })
        .await
    }

    async fn memories(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<MemorySummary>, StoreError> {
        let t = tenant.clone();
        let after = after.cloned();
        let at = at.clone();
        self.read_as(tenant, actor, move |db| {
            stats::scopes(db, &t, after.as_ref(), limit, &at)
        })
        .await
    }
}

#[async_trait]
impl RecordReads for SqliteStore {
    async fn records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        let lookup = lookup.clone();
        refuse_inert(kind)?;
        self.read_as_host(tenant, move |db| {
            record::records(db, &t, kind, &lookup, limit)
        })
        .await
    }
}

#[async_trait]
impl LogReads for SqliteStore {
    async fn events_in(
        &self,
        tenant: &TenantId,
        range: &EventRange,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let t = tenant.clone();
        let range = range.clone();
        self.read_as_host(tenant, move |db| read::events(db, &t, &range, limit))
            .await
    }

    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        let t = tenant.clone();
        self.read_as_host(tenant, move |db| snapshot::list(db, &t))
            .await
    }

    async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError> {
        let t = tenant.clone();
        self.read_as_host(tenant, move |db| read::head(db, &t))
            .await
    }

    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError> {
        Ok(self.tenant_file(tenant).await?.watch())
    }
}

#[async_trait]
impl LineageReads for SqliteStore {
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError> {
        let s = scope.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            lineage::signatures(db, &s, after, limit)
        })
        .await
    }

    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError> {
        let s = scope.clone();
        let id = id.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            lineage::lineage(db, &s, &id)
        })
        .await
    }

    async fn trace_subject(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError> {
        let t = tenant.clone();
        let subject = *subject;
        self.read_as_host(tenant, move |db| {
            lineage::trace(db, &t, &subject, after, limit)
        })
        .await
    }
}

#[async_trait]
impl Vectors for SqliteStore {
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        let t = tenant.clone();
        self.read_as_host(tenant, move |db| vector::counts(db, &t))
            .await
    }

    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        let t = tenant.clone();
        let kept = keep.to_vec();
        let gone = self
            .tenant_file(tenant)
            .await?
            .write(move |db| vector::discard_vectors(db, &t, &kept, limit))
            .await?;
        self.index_cache.discard_vectors(tenant, keep);
        Ok(gone)
    }
}

#[async_trait]
impl WorkshopReads for SqliteStore {
    async fn rules_in(
        &self,
        tenant: &TenantId,
        range: &RuleRange,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        let t = tenant.clone();
        let range = range.clone();
        self.read_as_host(tenant, move |db| workshop::rules(db, &t, &range, limit))
            .await
    }

    async fn restated_rule(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        let t = tenant.clone();
        let world = world.clone();
        let text = text.to_owned();
        self.read_as_host(tenant, move |db| workshop::shadowed(db, &t, &world, &text))
            .await
    }

    async fn actions_of_entry(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Vec<ActionLink>, StoreError> {
        let s = scope.clone();
        let id = id.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            workshop::links(db, &s, &id)
        })
        .await
    }

    async fn entries_with_actions(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError> {
        let t = tenant.clone();
        self.read_as_host(tenant, move |db| caller_texts::linked(db, &t, after, limit))
            .await
    }

    async fn retention_counts(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        let t = tenant.clone();
        let memory_ref = memory_ref.cloned();
        self.read_as(tenant, actor, move |db| {
            workshop::retention(db, &t, memory_ref.as_ref())
        })
        .await
    }
}

#[async_trait]
impl Leases for SqliteStore {
    async fn acquire_lease(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        let t = tenant.clone();
        let holder = holder.to_owned();
        self.tenant_file(tenant)
            .await?
            .write(move |db| lease::claim(db, &t, pass, &holder, now, for_ms))
            .await
    }

    async fn release_lease(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        let t = tenant.clone();
        let fence = fence.clone();
        self.tenant_file(tenant)
            .await?
            .write(move |db| lease::release(db, &t, &fence))
            .await
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn tenants_with_work(
        &self,
        work: DueWork,
        at: Timestamp,
    ) -> Result<Vec<TenantId>, StoreError> {
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(upkeep
            .iter()
            .filter(|(_, upkeep)| upkeep.has_work(work, at))
            .map(|(id, _)| id.clone())
            .collect())
    }

    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError> {
        self.tenant_file(tenant)
            .await?
            .scrub(keys_before, compact)
            .await
    }

    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.tenant_file(tenant).await?.verify().await
    }

    async fn count_rows_without_hash(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.read_as_host(tenant, row_hash::unhashed).await
    }

    fn watch_work(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    fn damaged_tenants(&self) -> Vec<TenantId> {
        let due = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        due.iter()
            .filter(|(_, due)| due.is_damaged())
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures {
            durable: matches!(self.location, Location::Folder(_)),
            vectors: true,
            shared: false,
        }
    }
}

/// Records under review are read on the writer's connection: SQLite refuses them to readers.
#[async_trait]
impl Review for SqliteStore {
    async fn review_records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        let lookup = lookup.clone();
        self.tenant_file(tenant)
            .await?
            .write(move |db| record::records(db, &t, kind, &lookup, limit))
            .await
    }
}
