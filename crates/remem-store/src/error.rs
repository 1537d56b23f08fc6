//! The reasons why a store operation fails.

use crate::damage::DamageReport;
use remem_core::Rejection;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The request itself is invalid (for example an idempotency key with another body).
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Another commit came first: an expectation of the batch does not hold, a record has another
    /// version, the entry that a record is tied to has ended, a lease was taken over, or a slot was
    /// filled meanwhile.
    #[error("an entry changed since it was read")]
    Conflict,
    /// Too many writes are waiting; the caller should try again soon.
    #[error("too many writes are waiting")]
    Busy,
    /// The storage has no space left; reads still work.
    #[error("the storage is full")]
    Full,
    /// The storage cannot be used now. A commit may or may not have been applied.
    #[error("the storage is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Stored data contradicts its own hashes or structure.
    #[error("stored data is damaged: {0}")]
    Damaged(&'static str),
    /// A check found rows that differ from what was written.
    #[error("stored data is damaged: {0}")]
    DamagedRows(DamageReport),
}
