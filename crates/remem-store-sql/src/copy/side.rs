//! The interface between the copy and a store: it is read at one instant, takes rows, and stores
//! the host's secret. Both stores implement it, so one driver serves every direction.

use super::error::CopyError;
use super::rows::{
    ActionRow, ClockRow, CopiedEntry, EventRow, IdempotencyRow, LinkRow, RecordRow, ReplacedRow,
    RuleRow, ScopeRow, SlotRow, SubjectRow,
};
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, Store, StoreError};

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
    async fn events(&self, after: i64) -> Result<Vec<EventRow>, StoreError>;
    async fn scopes(&self, after: i64) -> Result<Vec<ScopeRow>, StoreError>;
    /// The page of entries after this memory and row.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<CopiedEntry>, StoreError>;
    /// The page of idempotency records after this operation and key.
    async fn idempotency_rows(
        &self,
        after: &(String, Vec<u8>),
    ) -> Result<Vec<IdempotencyRow>, StoreError>;
    /// The page of records after this kind and key.
    async fn records(&self, after: &(String, String)) -> Result<Vec<RecordRow>, StoreError>;
    /// The page of replaced entries after this memory and row.
    async fn replaced(&self, after: (i64, i64)) -> Result<Vec<ReplacedRow>, StoreError>;
    /// The page of links after the one between these memories and rows.
    async fn links(&self, after: [i64; 4]) -> Result<Vec<LinkRow>, StoreError>;
    /// The page of subjects after this subject, memory and row.
    async fn subjects(&self, after: &(Vec<u8>, i64, i64)) -> Result<Vec<SubjectRow>, StoreError>;
    /// The page of slots after this memory and row.
    async fn slots(&self, after: (i64, i64)) -> Result<Vec<SlotRow>, StoreError>;
    /// The page of actions after this memory, row, action and reference.
    async fn actions(
        &self,
        after: &(i64, i64, String, String),
    ) -> Result<Vec<ActionRow>, StoreError>;
    /// The page of rules after this world and id.
    async fn rules(&self, after: &(String, String)) -> Result<Vec<RuleRow>, StoreError>;
    async fn release(self: Box<Self>) -> Result<(), StoreError>;
}

/// A store that holds a host. Each `put` is one transaction; existing rows stay as they are, unless
/// the method says otherwise.
#[async_trait]
pub(crate) trait CopySide: Send + Sync {
    fn store(&self) -> &dyn Store;
    fn directory(&self) -> &dyn Directory;
    /// A text that is the same for two names of one store.
    async fn identity(&self) -> Result<String, CopyError>;
    async fn secret(&self) -> Result<Option<HostSecret>, CopyError>;
    /// Stores the secret if there is none, and returns the stored one.
    async fn store_secret(&self, secret: &HostSecret) -> Result<HostSecret, CopyError>;
    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn TenantReader>, StoreError>;
    async fn put_events(&self, tenant: &TenantId, page: Vec<EventRow>) -> Result<(), StoreError>;
    async fn put_scopes(&self, tenant: &TenantId, page: Vec<ScopeRow>) -> Result<(), StoreError>;
    /// Stores entries with the rows derived from them (tags, search index, counters). An existing
    /// entry that was removed at the source since is updated or erased. A new or updated entry has
    /// no slot yet.
    async fn put_entries(
        &self,
        tenant: &TenantId,
        page: Vec<CopiedEntry>,
    ) -> Result<(), StoreError>;
    async fn put_idempotency_rows(
        &self,
        tenant: &TenantId,
        page: Vec<IdempotencyRow>,
    ) -> Result<(), StoreError>;
    /// Deletes idempotency records older than `before`, which the source has deleted since an
    /// earlier copy.
    async fn delete_idempotency_rows(
        &self,
        tenant: &TenantId,
        before: i64,
    ) -> Result<(), StoreError>;
    /// Deletes all records: they change, so a copy that is resumed writes them again.
    async fn delete_records(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_records(&self, tenant: &TenantId, page: Vec<RecordRow>) -> Result<(), StoreError>;
    /// Stores which entries replace others, once all entries are copied.
    async fn put_replaced(
        &self,
        tenant: &TenantId,
        page: Vec<ReplacedRow>,
    ) -> Result<(), StoreError>;
    /// Stores which entries were made from which, once all entries are copied. Links are never
    /// removed, so existing ones may stay.
    async fn put_links(&self, tenant: &TenantId, page: Vec<LinkRow>) -> Result<(), StoreError>;
    /// Deletes all subjects: forgetting removes some, so a copy that is resumed writes them again.
    async fn delete_subjects(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_subjects(
        &self,
        tenant: &TenantId,
        page: Vec<SubjectRow>,
    ) -> Result<(), StoreError>;
    /// Stores the slots of entries, once all of their windows are the same as at the source.
    async fn put_slots(&self, tenant: &TenantId, page: Vec<SlotRow>) -> Result<(), StoreError>;
    /// Stores the actions that rest on entries. Actions are never removed.
    async fn put_actions(&self, tenant: &TenantId, page: Vec<ActionRow>) -> Result<(), StoreError>;
    /// Deletes all rules, so that entries older than a rule that they restate can be copied.
    async fn delete_rules(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_rules(&self, tenant: &TenantId, page: Vec<RuleRow>) -> Result<(), StoreError>;
    /// Completes the tenant: sets its clock, and when passes are due.
    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError>;
}
