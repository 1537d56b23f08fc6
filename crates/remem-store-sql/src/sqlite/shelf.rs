//! The search indexes that are in memory, of all tenants: within a bound, the least recently used
//! one goes when another is needed.

use super::index::{Index, Memory};
use remem_core::{ModelId, TenantId};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes of all indexes together. One that is larger by itself is kept while nothing else is
/// needed.
const BYTES_MAX: usize = 1 << 30;

/// The indexes.
#[derive(Default)]
pub(super) struct Shelf {
    indexes: Mutex<HashMap<(TenantId, i64), Arc<Kept>>>,
    clock: AtomicU64,
}

#[derive(Default)]
struct Kept {
    index: RwLock<Index>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

impl Shelf {
    /// Asks the index of a memory, brought up to what the reader knows.
    pub fn ask<T>(
        &self,
        db: &Connection,
        memory: Memory<'_>,
        model: Option<ModelId>,
        question: impl FnOnce(&Index) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let kept = self.kept(memory);
        {
            let index = kept.index.read().unwrap_or_else(PoisonError::into_inner);
            if !index.is_behind(db, memory, model)? {
                return question(&index);
            }
        }
        let mut index = kept.index.write().unwrap_or_else(PoisonError::into_inner);
        let caught_up = index.catch_up(db, memory, model);
        if caught_up.is_err() {
            // Half of what was to be read: begin anew the next time.
            *index = Index::default();
        }
        caught_up?;
        kept.bytes.store(index.bytes(), Ordering::Relaxed);
        drop(index);
        self.make_room(memory);
        question(&kept.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets go of the vectors of other models than these.
    pub fn discard(&self, tenant: &TenantId, keep: &[ModelId]) {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let own: Vec<Arc<Kept>> = indexes
            .iter()
            .filter(|((owner, _), _)| owner == tenant)
            .map(|(_, kept)| kept.clone())
            .collect();
        drop(indexes);
        for kept in own {
            kept.index
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .discard(keep);
        }
    }

    fn kept(&self, memory: Memory<'_>) -> Arc<Kept> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = indexes
            .entry((memory.tenant.clone(), memory.scope))
            .or_default();
        kept.used.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        kept.clone()
    }

    fn make_room(&self, memory: Memory<'_>) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = indexes
            .values()
            .map(|kept| kept.bytes.load(Ordering::Relaxed))
            .sum();
        while bytes > BYTES_MAX {
            let others = indexes
                .iter()
                .filter(|((tenant, scope), _)| (tenant, *scope) != (memory.tenant, memory.scope));
            let Some(key) = others
                .min_by_key(|(_, kept)| kept.used.load(Ordering::Relaxed))
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            bytes -= indexes
                .remove(&key)
                .map_or(0, |kept| kept.bytes.load(Ordering::Relaxed));
        }
        metrics::gauge!("remem_search_index_bytes").set(bytes as f64);
    }
}
