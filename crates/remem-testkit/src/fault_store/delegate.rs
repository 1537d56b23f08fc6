//! The calls of the fault store: each is counted and may fail, then it goes to the store behind.

use super::{CallFault, FaultStore, injected, unpoisoned};
use async_trait::async_trait;
use remem_core::{Batch, Fence};
use remem_store::{
    CommitResult, EntryQuery, EntrySelection, FoundEntry, MemoryEntries, Store, StoreError,
    StoreWrapper,
};
use std::sync::atomic::Ordering;

/// Calls that tests and readers repeat while they wait: those are not counted, or the number of a
/// call would depend on time.
const UNCOUNTED: [&str; 4] = ["head", "watch_commits", "verify", "count_rows_without_hash"];

#[async_trait]
impl StoreWrapper for FaultStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before(&self, method: &'static str) -> Result<(), StoreError> {
        if UNCOUNTED.contains(&method) {
            return Ok(());
        }
        self.read()
    }

    /// Counts the texts that consolidation reads.
    fn found(&self, query: &EntryQuery, found: &[FoundEntry]) {
        let EntrySelection::OfMemory(
            _,
            MemoryEntries::WithoutSignature { .. } | MemoryEntries::AtRows(_),
        ) = query.selection
        else {
            return;
        };
        self.texts_read
            .fetch_add(found.len() as u64, Ordering::SeqCst);
    }

    fn grant(&self, pass: &'static str) -> Option<Fence> {
        let granted = self.ignore_leases.load(Ordering::SeqCst);
        granted.then_some(Fence { pass, number: 1 })
    }

    async fn forward_commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
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
            CallFault::None => self.inner.commit(batch).await,
            CallFault::Before => Err(injected()),
            CallFault::After => {
                self.inner.commit(batch).await?;
                Err(injected())
            }
        }
    }
}
