//! The trait `Ledger`: the only write to memory.

use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::Batch;
use remem_core::ledger::CommitResult;

/// Applies batches to the memories of a tenant.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Applies a batch: all of it or nothing, durable when this returns `Ok`, together with its
    /// events.
    ///
    /// The only write. An `Unavailable` error does not mean "not written": repeat it with the same
    /// idempotency key.
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError>;
}
