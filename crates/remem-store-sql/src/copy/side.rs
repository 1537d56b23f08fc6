//! The interface between the copy and a store: it is read at one instant, takes rows, and stores
//! the host's secret. Both stores implement it, so one driver serves every direction.

use super::digest::{ClockRow, CopiedEntry};
use super::error::CopyError;
use super::table::{CopiedRow, CopiedTable};
use crate::rows::Value;
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, StoreError, Upkeep};

/// The key of all keyed digests of a host.
pub(crate) type HostSecret = [u8; 32];

/// One tenant as one commit left it, however long the reading takes. Pages are bounded; an empty
/// one is the end. A reader that is dropped closes its connection, which is safe; `release` returns
/// it to the pool.
#[async_trait]
pub(crate) trait TenantReader: Send + Sync {
    async fn clock(&self) -> Result<ClockRow, StoreError>;
    /// The number and hash of the newest stored event, independent of the clock.
    async fn last_event(&self) -> Result<Option<(i64, Vec<u8>)>, StoreError>;
    async fn event_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError>;
    /// Whether a run has an open snapshot.
    async fn has_open_runs(&self) -> Result<bool, StoreError>;
    async fn entry_count(&self) -> Result<u64, StoreError>;
    /// The page of rows after this position, or the first one.
    async fn page(
        &self,
        table: &'static CopiedTable,
        after: Option<Vec<Value<'static>>>,
    ) -> Result<Vec<CopiedRow>, StoreError>;
    /// The page of entries after this memory and row.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<CopiedEntry>, StoreError>;
    async fn release(self: Box<Self>) -> Result<(), StoreError>;
}

/// A store that holds a host. Each `put` is one transaction; existing rows stay as they are, unless
/// the method says otherwise.
#[async_trait]
pub(crate) trait CopySide: Send + Sync {
    fn store(&self) -> &dyn Upkeep;
    fn directory(&self) -> &dyn Directory;
    /// A text that is the same for two names of one store.
    async fn identity(&self) -> Result<String, CopyError>;
    async fn secret(&self) -> Result<Option<HostSecret>, CopyError>;
    /// Stores the secret if there is none, and returns the stored one.
    async fn store_secret(&self, secret: &HostSecret) -> Result<HostSecret, CopyError>;
    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn TenantReader>, StoreError>;
    /// Stores rows of a table. Rows that refer to entries come once all of those are copied.
    async fn put_page(
        &self,
        tenant: &TenantId,
        table: &'static CopiedTable,
        page: Vec<CopiedRow>,
    ) -> Result<(), StoreError>;
    /// Deletes all rows of a table: where rows change or disappear, or are in the way of others, a
    /// copy that is resumed writes them again.
    async fn clear(&self, tenant: &TenantId, table: &'static CopiedTable)
    -> Result<(), StoreError>;
    /// Stores entries with the rows derived from them (tags, search index, counters). An existing
    /// entry that was removed at the source since is updated or erased. A new or updated entry has
    /// no slot yet.
    async fn put_entries(
        &self,
        tenant: &TenantId,
        page: Vec<CopiedEntry>,
    ) -> Result<(), StoreError>;
    /// Deletes idempotency records older than `before`, which the source has deleted since an
    /// earlier copy.
    async fn delete_idempotency_rows(
        &self,
        tenant: &TenantId,
        before: i64,
    ) -> Result<(), StoreError>;
    /// Completes the tenant: sets its clock, and when passes are due.
    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError>;
}
