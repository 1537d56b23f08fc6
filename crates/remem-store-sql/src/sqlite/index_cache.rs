//! A cache of the search indexes of all memories, in process memory: within a bound of bytes, the
//! least recently used index is dropped when another is needed.
//!
//! A search reads a few missing rows into its index by itself. If many are missing, it gives its
//! reader back, and a build reads them on a connection of its own, without a lock that a search
//! waits for while it has a reader: gets and lists of the tenant go on. There is at most one build
//! for a memory; other searches of it wait for its end, until their deadline.

use super::connection::store_error;
use super::index::{MemoryIndex, MemoryKey, Missing};
use super::tenant::TenantFile;
use remem_core::{ModelId, TenantId, sabotage};
use remem_store::{StoreError, deadline};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout_at;

/// Bytes of all indexes together. An index that is larger than this by itself is kept as long as no
/// other is used.
const BYTES_MAX: usize = 1 << 30;

/// The cached indexes, by tenant and scope.
#[derive(Default)]
pub(super) struct IndexCache {
    indexes: Mutex<HashMap<(TenantId, i64), Arc<CachedIndex>>>,
    clock: AtomicU64,
    /// Called when a build begins.
    #[cfg(test)]
    pub build_hook: Mutex<Option<Box<dyn Fn() + Send>>>,
}

/// A cached index, with the time of its last use (a count of `clock`) and its size.
#[derive(Default)]
pub(super) struct CachedIndex {
    /// Empty while a build works on it.
    index: RwLock<MemoryIndex>,
    /// Held by a build.
    build_lock: Arc<tokio::sync::Mutex<()>>,
    last_used: AtomicU64,
    bytes: AtomicUsize,
}

impl CachedIndex {
    fn read(&self) -> RwLockReadGuard<'_, MemoryIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_build(&self) -> bool {
        self.build_lock.try_lock().is_err()
    }
}

/// An index that needs a build before it can answer a search.
pub(super) struct OutdatedIndex {
    pub cached: Arc<CachedIndex>,
    pub tenant: TenantId,
    pub scope: i64,
    pub model: Option<ModelId>,
}

impl IndexCache {
    /// Calls `query` with a memory's index, brought up to date with the snapshot that the reader
    /// sees. `None`: too much is missing, so the index needs a build.
    pub fn with_index<T>(
        &self,
        cached: &CachedIndex,
        db: &Connection,
        memory: MemoryKey<'_>,
        model: Option<ModelId>,
        query: impl FnOnce(&MemoryIndex) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        loop {
            {
                let index = cached.read();
                let missing = index.missing(db, memory, model)?;
                if missing == Missing::Much {
                    sabotage!("a-search-answers-from-a-part-of-a-memory", return Ok(None));
                }
                if missing != Missing::Little {
                    return query(&index).map(Some);
                }
            }
            let mut index = cached.write();
            // A build may have taken the index between the two locks.
            if index.missing(db, memory, model)? == Missing::Little {
                catch_up(&mut index, db, memory, model)?;
                cached.bytes.store(index.bytes(), Ordering::Relaxed);
                drop(index);
                self.evict(memory);
            }
        }
    }

    /// Builds an index, or waits for the build that another search began; `Busy` at the deadline of
    /// the request. A build goes on when its caller has gone.
    pub async fn build(
        self: &Arc<IndexCache>,
        file: &TenantFile,
        outdated: OutdatedIndex,
    ) -> Result<(), StoreError> {
        let lock = outdated.cached.build_lock.clone();
        let Ok(held) = lock.clone().try_lock_owned() else {
            return before_deadline(async { drop(lock.lock().await) }).await;
        };
        let cache = self.clone();
        let build = file.read_apart(move |db| {
            let _held = held;
            cache.build_now(db, &outdated).map_err(store_error)
        });
        before_deadline(build).await?
    }

    /// Takes the index out of the cache, so that no lock is held while it is read, and puts it back
    /// when it includes all that the connection sees. After an error it stays empty.
    fn build_now(&self, db: &Connection, outdated: &OutdatedIndex) -> rusqlite::Result<()> {
        let cached = &outdated.cached;
        let memory = MemoryKey {
            tenant: &outdated.tenant,
            scope: outdated.scope,
        };
        // Before the connection's first statement, which fixes what it sees.
        let mut index = std::mem::take(&mut *cached.write());
        #[cfg(test)]
        if let Some(hook) = &*self
            .build_hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            hook();
        }
        index.catch_up(db, memory, outdated.model)?;
        cached.bytes.store(index.bytes(), Ordering::Relaxed);
        index.replace(&mut cached.write(), outdated.model);
        self.evict(memory);
        Ok(())
    }

    /// Drops the vectors of all models but these from the tenant's indexes.
    pub fn discard_vectors(&self, tenant: &TenantId, keep: &[ModelId]) {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let own: Vec<Arc<CachedIndex>> = indexes
            .iter()
            .filter(|((owner, _), _)| owner == tenant)
            .map(|(_, cached)| cached.clone())
            .collect();
        drop(indexes);
        for cached in own {
            cached.write().discard_vectors(keep);
        }
    }

    /// The cached index of a memory, which may be empty; counts as a use.
    pub fn cached_index(&self, memory: MemoryKey<'_>) -> Arc<CachedIndex> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = indexes
            .entry((memory.tenant.clone(), memory.scope))
            .or_default();
        cached.last_used.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        cached.clone()
    }

    /// Drops the least recently used indexes until the rest fits, except the one of `memory` and
    /// those in a build.
    fn evict(&self, memory: MemoryKey<'_>) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = indexes
            .values()
            .map(|cached| cached.bytes.load(Ordering::Relaxed))
            .sum();
        while bytes > BYTES_MAX {
            let others = indexes.iter().filter(|((tenant, scope), cached)| {
                (tenant, *scope) != (memory.tenant, memory.scope) && !cached.is_in_build()
            });
            let Some(key) = others
                .min_by_key(|(_, cached)| cached.last_used.load(Ordering::Relaxed))
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            bytes -= indexes
                .remove(&key)
                .map_or(0, |cached| cached.bytes.load(Ordering::Relaxed));
        }
        metrics::gauge!("remem_search_index_bytes").set(bytes as f64);
    }
}

/// Brings an index up to date. After an error it is empty: it was updated only in part.
fn catch_up(
    index: &mut MemoryIndex,
    db: &Connection,
    memory: MemoryKey<'_>,
    model: Option<ModelId>,
) -> rusqlite::Result<()> {
    let caught_up = index.catch_up(db, memory, model);
    if caught_up.is_err() {
        *index = MemoryIndex::default();
    }
    caught_up
}

/// Runs `work` until the deadline of the request, if it has one.
async fn before_deadline<T>(work: impl Future<Output = T>) -> Result<T, StoreError> {
    match deadline::current() {
        Some(deadline) => timeout_at(deadline, work)
            .await
            .map_err(|_| StoreError::Busy),
        None => Ok(work.await),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Location, SqliteStore};
    use remem_core::Batch;
    use remem_store::{
        EntryCalls, EntryReads, Filter, Ledger, Page, Probe, ReadAt, StoreError, deadline,
    };
    use remem_testkit::conformance::{NOON, admit, draft, id, put, scope};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use tokio::time::{Instant, timeout};

    /// More entries than a search reads into an index by itself.
    const ENTRIES: usize = 2_500;
    const NOW: ReadAt = ReadAt::Now(NOON);

    /// A store of one reader and a cold index, over a memory `large` and a memory `small`.
    async fn cold_store(folder: &Path) -> Arc<SqliteStore> {
        let location = Location::Folder(folder.to_owned());
        let store = SqliteStore::open(location.clone(), 1).unwrap();
        let large = scope("t", "large");
        for start in (0..ENTRIES).step_by(500) {
            let batch =
                (start..start + 500).fold(Batch::new(large.tenant.clone(), NOON), |batch, n| {
                    let text = draft(&format!("falcon number{n}"));
                    batch.put(id(&format!("e{n}")), admit(&large, text, NOON))
                });
            store.commit(batch).await.unwrap();
        }
        put(&store, &scope("t", "small"), "s", draft("falcon"), NOON).await;
        drop(store);
        Arc::new(SqliteStore::open(location, 1).unwrap())
    }

    async fn found(store: &SqliteStore, memory_ref: &str) -> Result<usize, StoreError> {
        let probe = Probe {
            terms: vec!["falcon".to_owned()],
            vector: None,
        };
        let depth = ENTRIES as u32 * 2;
        let memory = scope("t", memory_ref);
        let filter = Filter::default();
        let found = store.search(&memory, &probe, &filter, depth, &NOW).await?;
        Ok(found.candidates.len())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "searches beside the reads are tasks of their own"
    )]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_continue_while_an_index_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let store = cold_store(folder.path()).await;
        let (release, held) = mpsc::channel::<()>();
        let builds = Arc::new(AtomicUsize::new(0));
        let begun = builds.clone();
        *store.index_cache.build_hook.lock().unwrap() = Some(Box::new(move || {
            begun.fetch_add(1, Ordering::SeqCst);
            let _ = held.recv();
        }));
        let searches: Vec<_> = (0..4)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { found(&store, "large").await.unwrap() })
            })
            .collect();
        remem_testkit::wait_until("a build begins", async || builds.load(Ordering::SeqCst) > 0)
            .await;
        let others = async {
            let large = scope("t", "large");
            let entry = store.get(&large, &id("e7"), &NOW).await.unwrap();
            let page = Page {
                limit: 20,
                after: None,
            };
            let listed = store.list(&large, &Filter::default(), &page, &NOW).await;
            let small = found(&store, "small").await.unwrap();
            (entry.is_some(), listed.unwrap().len(), small)
        };
        let read = timeout(remem_testkit::deadline(), others).await;
        assert_eq!(read.expect("reads wait for no build"), (true, 20, 1));
        // A request waits for the build until its deadline.
        let late = deadline::within(Instant::now(), found(&store, "large")).await;
        assert!(matches!(late, Err(StoreError::Busy)), "{late:?}");
        assert!(searches.iter().all(|search| !search.is_finished()));
        drop(release);
        for search in searches {
            assert_eq!(
                search.await.unwrap(),
                ENTRIES,
                "a search sees all of a memory"
            );
        }
        assert_eq!(builds.load(Ordering::SeqCst), 1);
    }
}
