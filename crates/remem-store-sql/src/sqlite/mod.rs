//! The embedded store: SQLite in WAL mode, one file per tenant, one more for the directory of
//! tenants and keys.
//!
//! This file owns the set of open tenants; it may not hold a statement (see `read`, `search`,
//! `apply`, `entry`, `maintain`).

mod apply;
mod around;
pub(crate) mod beside;
mod connection;
mod directory;
mod entry;
mod group;
mod identity;
mod index;
mod lease;
mod lineage;
mod maintain;
mod read;
mod record;
mod row_hash;
mod rows;
mod search;
mod shelf;
mod snapshot;
mod tenant;
mod vector;
mod verify;
mod workshop;

use crate::stored::refuse_inert;
pub(crate) use connection::failed;
pub use directory::SqliteDirectory;

use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, Entry, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision,
    RuleId, RunId, Scope, Seq, Subject, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, Answer, Around, Committed, Faded, Filter, Found, Head, Lineage, Linked, Page,
    Probe, ReadAt, RetentionCount, Review, RowCursor, Rule, ScopeStats, ScopeSummary, Signed,
    Snapshot, Stale, Store, StoreError, StoreFeatures, Tie, Trace, VectorCounts, Work,
};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenant::{Due, TenantFile, tenant_path};
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
    open: Mutex<HashMap<TenantId, Slot>>,
    /// The upkeep state of every tenant that was ever open in this process; it stays when the file
    /// is closed.
    due: Mutex<HashMap<TenantId, Arc<Due>>>,
    /// Counts the uses of open tenants, so that the least recently used one is known.
    clock: AtomicU64,
    /// Held while a tenant is opened.
    opening: tokio::sync::Mutex<()>,
    /// Increased when a pass has new work; see `Store::wake`.
    wake: Arc<watch::Sender<u64>>,
    shelf: Arc<shelf::Shelf>,
}

/// A tenant whose file is open, and the count of `use_clock` at its last use.
struct Slot {
    file: Arc<TenantFile>,
    used: u64,
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
            due: Mutex::default(),
            clock: AtomicU64::new(0),
            opening: tokio::sync::Mutex::default(),
            wake: Arc::default(),
            shelf: Arc::default(),
        })
    }

    /// The SQLite version in use, for `remem doctor`.
    #[must_use]
    pub fn version() -> &'static str {
        rusqlite::version()
    }

    /// The tenant's file, opened first if it is not open.
    async fn tenant(&self, id: &TenantId) -> Result<Arc<TenantFile>, StoreError> {
        if let Some(file) = self.find(id) {
            return Ok(file);
        }
        // One tenant is opened at a time: many callers of a new tenant would each make its tables,
        // and all but one would wait for a lock.
        let _opening = self.opening.lock().await;
        if let Some(file) = self.find(id) {
            return Ok(file);
        }
        let due = self
            .due
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
            blocking(move || TenantFile::open(&location, connections, name, due, wake)).await;
        let unusable = matches!(
            opened,
            Err(StoreError::Damaged(_) | StoreError::Unavailable(_))
        );
        sabotage!(
            "nobody-is-told-of-a-damaged-file",
            known.unopened.store(unusable, Ordering::Relaxed)
        );
        Ok(self.insert(id, Arc::new(opened?)))
    }

    /// The tenant's file if it is open; counts as a use.
    fn find(&self, id: &TenantId) -> Option<Arc<TenantFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = open.get_mut(id)?;
        tenant.used = self.clock.fetch_add(1, Ordering::Relaxed);
        Some(tenant.file.clone())
    }

    /// Adds a file to the open ones. If there are too many, closes the least recently used one that
    /// no caller is using. In process memory none is closed, since its data would be lost.
    fn insert(&self, id: &TenantId, file: Arc<TenantFile>) -> Arc<TenantFile> {
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN_TENANTS_MAX && matches!(self.location, Location::Folder(_)) {
            let idle = open
                .iter()
                .filter(|(_, tenant)| Arc::strong_count(&tenant.file) == 1)
                .min_by_key(|(_, tenant)| tenant.used);
            if let Some(id) = idle.map(|(id, _)| id.clone()) {
                open.remove(&id);
            }
        }
        open.entry(id.clone())
            .or_insert(Slot { file, used })
            .file
            .clone()
    }

    /// For the copy of a whole host: a separate reader that sees one commit until it is dropped.
    /// `None`: the tenant has no file yet.
    pub(crate) async fn snapshot(
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
        self.tenant(tenant).await?; // brings the schema up to date
        blocking(move || {
            let db = connection::reader_of_all(&path)?;
            db.execute_batch("BEGIN").map_err(failed)?;
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
        let file = self.tenant(tenant).await?;
        file.write(move |db| {
            db.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
            let done = identity::acting(&Actor::Host, || work(db))
                .and_then(|()| db.execute_batch("COMMIT").map_err(failed));
            if done.is_err() {
                // The first error is the one to report.
                let _ = db.execute_batch("ROLLBACK");
            }
            done
        })
        .await
    }

    /// Runs a query on a reader, as the host.
    async fn read<T, F>(&self, tenant: &TenantId, query: F) -> Result<T, StoreError>
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
        self.tenant(tenant)
            .await?
            .read(move |db| identity::acting(&actor, || query(db)))
            .await
    }
}

/// Runs blocking work on a thread of its own, off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
}

#[async_trait]
impl Store for SqliteStore {
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        let s = scope.clone();
        let id = id.clone();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            read::get(db, &s, &id, &at)
        })
        .await
    }

    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let s = scope.clone();
        let filter = filter.clone();
        let page = page.clone();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            read::list(db, &s, &filter, &page, &at)
        })
        .await
    }

    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<Found, StoreError> {
        let s = scope.clone();
        let probe = probe.clone();
        let filter = filter.clone();
        let at = at.clone();
        let cache = self.shelf.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            search::search(db, &cache, &s, (&probe, &filter), depth, &at)
        })
        .await
    }

    async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError> {
        let s = scope.clone();
        let ids = ids.to_vec();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            around::around(db, &s, &ids, reach, &at)
        })
        .await
    }

    async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| {
            vector::unembedded(db, &t, model, after, limit)
        })
        .await
    }

    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| vector::counts(db, &t)).await
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
            .tenant(tenant)
            .await?
            .write(move |db| vector::discard(db, &t, &kept, limit))
            .await?;
        self.shelf.discard(tenant, keep);
        Ok(gone)
    }

    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<ScopeStats, StoreError> {
        let s = scope.clone();
        let at = at.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            read::stats(db, &s, &at)
        })
        .await
    }

    async fn scopes(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<ScopeSummary>, StoreError> {
        let t = tenant.clone();
        let after = after.cloned();
        let at = at.clone();
        self.read_as(tenant, actor, move |db| {
            read::scopes(db, &t, after.as_ref(), limit, &at)
        })
        .await
    }

    async fn slot(&self, scope: &Scope, slot: &str, limit: u32) -> Result<Vec<Answer>, StoreError> {
        let s = scope.clone();
        let slot = slot.to_owned();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            workshop::slot(db, &s, &slot, limit)
        })
        .await
    }

    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<Rule>, StoreError> {
        let t = tenant.clone();
        let world = world.clone();
        let after = after.cloned();
        self.read(tenant, move |db| {
            workshop::rules(db, &t, &world, after.as_ref(), limit)
        })
        .await
    }

    async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        let t = tenant.clone();
        let world = world.clone();
        let text = text.to_owned();
        self.read(tenant, move |db| workshop::shadowed(db, &t, &world, &text))
            .await
    }

    async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError> {
        let s = scope.clone();
        let id = id.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            workshop::links(db, &s, &id)
        })
        .await
    }

    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, Rule)>, StoreError> {
        let t = tenant.clone();
        let after = after.cloned();
        self.read(tenant, move |db| {
            beside::all_rules(db, &t, after.as_ref(), limit)
        })
        .await
    }

    async fn linked(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Linked>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| beside::linked(db, &t, after, limit))
            .await
    }

    async fn retention(
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

    async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        at: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<Faded>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| workshop::faded(db, &t, before, at, limit))
            .await
    }

    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| read::events(db, &t, after, limit))
            .await
    }

    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let t = tenant.clone();
        let run = run.clone();
        self.read(tenant, move |db| {
            read::run_events(db, &t, &run, from, limit)
        })
        .await
    }

    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| snapshot::list(db, &t)).await
    }

    async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| snapshot::ended(db, &t, limit))
            .await
    }

    async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Stale, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| {
            maintain::stale(db, &t, scan, after, limit)
        })
        .await
    }

    async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let s = scope.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            lineage::unsigned(db, &s, after, limit)
        })
        .await
    }

    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<Signed>, StoreError> {
        let s = scope.clone();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            lineage::signatures(db, &s, after, limit)
        })
        .await
    }

    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let s = scope.clone();
        let rows = rows.to_vec();
        self.read_as(&scope.tenant, &scope.actor, move |db| {
            lineage::entries_at(db, &s, &rows)
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

    async fn trace(&self, tenant: &TenantId, subject: &Subject) -> Result<Trace, StoreError> {
        let t = tenant.clone();
        let subject = *subject;
        self.read(tenant, move |db| lineage::trace(db, &t, &subject))
            .await
    }

    async fn head(&self, tenant: &TenantId) -> Result<Head, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| read::head(db, &t)).await
    }

    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        let t = tenant.clone();
        let key = key.to_owned();
        refuse_inert(kind)?;
        self.read(tenant, move |db| record::get(db, &t, kind, &key))
            .await
    }

    async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &Tie,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        let tie = tie.clone();
        refuse_inert(kind)?;
        self.read(tenant, move |db| record::tied(db, &t, kind, &tie, limit))
            .await
    }

    async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        refuse_inert(kind)?;
        self.read(tenant, move |db| {
            record::list(db, &t, kind, &prefix, after.as_deref(), limit)
        })
        .await
    }

    async fn watch(&self, tenant: &TenantId) -> Result<watch::Receiver<Revision>, StoreError> {
        Ok(self.tenant(tenant).await?.watch())
    }

    async fn expired(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let t = tenant.clone();
        self.read(tenant, move |db| maintain::expired(db, &t, at, limit))
            .await
    }

    async fn due(&self, work: Work, at: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        let upkeep = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(upkeep
            .iter()
            .filter(|(_, upkeep)| upkeep.is_due(work, at))
            .map(|(id, _)| id.clone())
            .collect())
    }

    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError> {
        self.tenant(tenant).await?.scrub(keys_before, compact).await
    }

    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.tenant(tenant).await?.verify().await
    }

    async fn unhashed(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.read(tenant, row_hash::unhashed).await
    }

    async fn claim(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        let t = tenant.clone();
        let holder = holder.to_owned();
        self.tenant(tenant)
            .await?
            .write(move |db| lease::claim(db, &t, pass, &holder, now, for_ms))
            .await
    }

    async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        let t = tenant.clone();
        let fence = fence.clone();
        self.tenant(tenant)
            .await?
            .write(move |db| lease::release(db, &t, &fence))
            .await
    }

    fn wake(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    fn damaged_tenants(&self) -> Vec<TenantId> {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
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

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.tenant(batch.tenant()).await?.commit(batch).await
    }
}

/// Records under review are read on the writer's connection: SQLite refuses them to readers.
#[async_trait]
impl Review for SqliteStore {
    async fn inert(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        let t = tenant.clone();
        let key = key.to_owned();
        self.tenant(tenant)
            .await?
            .write(move |db| record::get(db, &t, kind, &key))
            .await
    }

    async fn inert_list(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        self.tenant(tenant)
            .await?
            .write(move |db| record::list(db, &t, kind, &prefix, after.as_deref(), limit))
            .await
    }

    async fn inert_due(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let t = tenant.clone();
        self.tenant(tenant)
            .await?
            .write(move |db| record::due(db, &t, kind, until, None, limit))
            .await
    }
}
