//! The calls of the fault store: each is counted and may fail, then it goes to the store behind.

use super::{CallFault, FaultStore, injected, unpoisoned};
use async_trait::async_trait;
use remem_core::{Batch, Fence, Revision};
use remem_store::{
    CommitResult, EntryQuery, EntrySelection, FoundEntry, MemoryEntries, Store, StoreError,
    StoreWrapper, TenantEntries,
};
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// Calls that tests and readers repeat while they wait: those are not counted, or the number of a
/// call would depend on time.
const UNCOUNTED: [&str; 4] = ["head", "watch_commits", "verify", "count_rows_without_hash"];

#[async_trait]
impl StoreWrapper for FaultStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before(&self, method: &'static str) -> Result<(), StoreError> {
        if !UNCOUNTED.contains(&method) {
            self.read()?;
        }
        self.tally(method, 0);
        Ok(())
    }

    /// Counts the entries that a query found, and the texts that consolidation reads.
    fn found(&self, query: &EntryQuery, found: &[FoundEntry]) {
        self.tally(name_of(&query.selection), found.len());
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

    fn watched(&self, watch: watch::Receiver<Revision>) -> watch::Receiver<Revision> {
        let one_less = |left: u64| left.checked_sub(1);
        let left = &self.closed_watches;
        let closed = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if closed.is_err() {
            return watch;
        }
        watch::channel(*watch.borrow()).1
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

/// The name of the call that makes such a query.
fn name_of(selection: &EntrySelection) -> &'static str {
    match selection {
        EntrySelection::OfMemory(_, entries) => match entries {
            MemoryEntries::Named { .. } => "get",
            MemoryEntries::Live { .. } => "list",
            MemoryEntries::Standing { .. } => "standing_entries",
            MemoryEntries::OfSlot(_) => "slot_history",
            MemoryEntries::WithoutSignature { .. } => "entries_without_signature",
            MemoryEntries::AtRows(_) => "entries_at",
        },
        EntrySelection::OfTenant(_, entries) => match entries {
            TenantEntries::Named { .. } => "named_entries",
            TenantEntries::NamedWithoutVector { .. } => "named_entries_without_vector",
            TenantEntries::WithoutVector { .. } => "entries_without_vector",
            TenantEntries::ToRescan { .. } => "entries_to_rescan",
            TenantEntries::Expired(_) => "expired_entries",
            TenantEntries::Erasable => "erasable_entries",
            TenantEntries::EndedStatements { .. } => "ended_statements",
        },
    }
}
