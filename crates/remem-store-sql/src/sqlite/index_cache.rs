//! A cache of the search indexes of all memories, in process memory: within a bound of bytes, the
//! least recently used index is dropped when another is needed.

use super::index::{MemoryIndex, MemoryKey};
use remem_core::{ModelId, TenantId};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes of all indexes together. An index that is larger than this by itself is kept as long as no
/// other is used.
const BYTES_MAX: usize = 1 << 30;

/// The cached indexes, by tenant and scope.
#[derive(Default)]
pub(super) struct IndexCache {
    indexes: Mutex<HashMap<(TenantId, i64), Arc<CachedIndex>>>,
    clock: AtomicU64,
}

#[derive(Default)]
/// A cached index, with the time of its last use (a count of `clock`) and its size.
struct CachedIndex {
    index: RwLock<MemoryIndex>,
    last_used: AtomicU64,
    bytes: AtomicUsize,
}

impl IndexCache {
    /// Calls `query` with the index of a memory, brought up to date with the snapshot that the
    /// reader sees.
    pub fn with_index<T>(
        &self,
        db: &Connection,
        memory: MemoryKey<'_>,
        model: Option<ModelId>,
        query: impl FnOnce(&MemoryIndex) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let cached = self.cached_index(memory);
        {
            let index = cached.index.read().unwrap_or_else(PoisonError::into_inner);
            if !index.is_behind(db, memory, model)? {
                return query(&index);
            }
        }
        let mut index = cached.index.write().unwrap_or_else(PoisonError::into_inner);
        let caught_up = index.catch_up(db, memory, model);
        if caught_up.is_err() {
            // The index was updated only in part: start again the next time.
            *index = MemoryIndex::default();
        }
        caught_up?;
        cached.bytes.store(index.bytes(), Ordering::Relaxed);
        drop(index);
        self.evict(memory);
        query(&cached.index.read().unwrap_or_else(PoisonError::into_inner))
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
            cached
                .index
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .discard_vectors(keep);
        }
    }

    /// The cached index of a memory, which may be empty; counts as a use.
    fn cached_index(&self, memory: MemoryKey<'_>) -> Arc<CachedIndex> {
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

    /// Drops the least recently used indexes until the rest fits, except the one of `memory`.
    fn evict(&self, memory: MemoryKey<'_>) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = indexes
            .values()
            .map(|cached| cached.bytes.load(Ordering::Relaxed))
            .sum();
        while bytes > BYTES_MAX {
            let others = indexes
                .iter()
                .filter(|((tenant, scope), _)| (tenant, *scope) != (memory.tenant, memory.scope));
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
