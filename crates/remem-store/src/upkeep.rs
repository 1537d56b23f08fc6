//! The traits `Upkeep`, `Leases` and `Vectors`: what the host does behind the operations of
//! callers.

use crate::error::StoreError;
use crate::read::VectorCounts;
use async_trait::async_trait;
use remem_core::{Fence, ModelId, TenantId, Timestamp};
use tokio::sync::watch;

/// Finds tenants with work, removes what was erased, checks what is stored, and says what the store
/// can do.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Returns the tenants that may have work of this kind. May return too many, but must include
    /// every tenant with such work that this process ever touched or that other nodes can touch.
    async fn tenants_with_work(
        &self,
        work: DueWork,
        at: Timestamp,
    ) -> Result<Vec<TenantId>, StoreError>;

    /// Removes erased text physically (from journals and free space, too) and deletes idempotency
    /// records from before `keys_before`. With `compact`, also returns free space to the file
    /// system.
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        compact: bool,
    ) -> Result<(), StoreError>;

    /// Checks the tenant's data against its own hashes: page structure, event chain, entry texts,
    /// and every row of every table. Returns the number of checked events and texts; an error says
    /// which rows are damaged.
    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Counts the tenant's rows that have no hash yet. They were written before rows had one, so
    /// `verify` cannot check them.
    async fn count_rows_without_hash(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Notifies the receiver when a pass may have work sooner than its period says, on whichever
    /// node the work arose. Only a hint.
    fn watch_work(&self) -> watch::Receiver<u64>;

    /// Tenants of which this process has seen that their stored data is damaged, or cannot be
    /// opened. A restart or a check that finds nothing takes them off the list.
    fn damaged_tenants(&self) -> Vec<TenantId> {
        Vec::new()
    }

    /// What this store can do.
    fn features(&self) -> StoreFeatures;
}

/// Gives the right to run a pass to one node at a time.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Acquires the lease on a pass of a tenant for `for_ms`, or extends it for the same holder.
    /// `None` if another holder has it.
    ///
    /// `now` is the caller's clock; a store that has a clock of its own, shared by all nodes, uses
    /// that. A lease only saves work: `Batch::fenced` is what makes two holders harmless.
    async fn acquire_lease(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError>;

    /// Releases a lease if it is still held.
    async fn release_lease(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError>;
}

/// Counts vectors, and deletes those of earlier models.
#[async_trait]
pub trait Vectors: Send + Sync {
    /// Counts a tenant's texts and vectors.
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError>;

    /// Deletes vectors of models other than `keep`, at most `limit`, and returns how many. A vector
    /// can be computed again, so this is not a change of memory and makes no commit.
    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError>;
}

/// A kind of work for which a store can list the tenants that have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueWork {
    /// Work that a purge finds (expired and erasable entries) or that `scrub` does.
    Purge,
    /// Records that are due, those under review included.
    Records,
}

/// The optional features of a store; one input of the capability model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFeatures {
    /// True if data survives a restart of the process.
    pub durable: bool,
    /// True if it stores vectors and can search by them.
    pub vectors: bool,
    /// True if other nodes may work on it at the same time.
    pub shared: bool,
}
