//! What the copy asks of a place: to be read at one instant, to take rows, to keep the host's
//! secret. Both stores answer the same questions, so one driver serves every direction.

use super::error::CopyError;
use super::rows::{
    ActionRow, ClockRow, EntryRow, EventRow, LinkRow, RecordRow, RepeatRow, ReplacedRow, RuleRow,
    ScopeRow, SlotRow, SubjectRow,
};
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, Store, StoreError};

/// The key of all keyed digests.
pub(crate) type Secret = [u8; 32];

/// One tenant as one commit left it, however long the reading takes. Pages are bounded; an empty
/// one is the end. One that is dropped takes its connection with it, which is safe; `end` gives it
/// back.
#[async_trait]
pub(crate) trait Snapshot: Send + Sync {
    async fn clock(&self) -> Result<ClockRow, StoreError>;
    /// Sequence and hash of the newest event that is there, whatever the clock says.
    async fn last_event(&self) -> Result<Option<(i64, Vec<u8>)>, StoreError>;
    async fn event_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError>;
    /// Whether a run reads a snapshot here.
    async fn has_open_runs(&self) -> Result<bool, StoreError>;
    async fn entry_count(&self) -> Result<u64, StoreError>;
    async fn events(&self, after: i64) -> Result<Vec<EventRow>, StoreError>;
    async fn scopes(&self, after: i64) -> Result<Vec<ScopeRow>, StoreError>;
    /// After the entry of this memory and row.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<EntryRow>, StoreError>;
    /// After the record of this operation and key.
    async fn repeats(&self, after: &(String, Vec<u8>)) -> Result<Vec<RepeatRow>, StoreError>;
    /// After the record of this kind and name.
    async fn records(&self, after: &(String, String)) -> Result<Vec<RecordRow>, StoreError>;
    /// After the entry of this memory and row.
    async fn replaced(&self, after: (i64, i64)) -> Result<Vec<ReplacedRow>, StoreError>;
    /// After the link between these memories and rows.
    async fn links(&self, after: [i64; 4]) -> Result<Vec<LinkRow>, StoreError>;
    /// After this subject of this memory and row.
    async fn subjects(&self, after: &(Vec<u8>, i64, i64)) -> Result<Vec<SubjectRow>, StoreError>;
    /// After the entry of this memory and row.
    async fn slots(&self, after: (i64, i64)) -> Result<Vec<SlotRow>, StoreError>;
    /// After this action on this reference, of this memory and row.
    async fn actions(
        &self,
        after: &(i64, i64, String, String),
    ) -> Result<Vec<ActionRow>, StoreError>;
    /// After the rule of this world and name.
    async fn rules(&self, after: &(String, String)) -> Result<Vec<RuleRow>, StoreError>;
    async fn end(self: Box<Self>) -> Result<(), StoreError>;
}

/// A place that holds a host. Each `put` is one transaction; rows that are there stay as they are.
#[async_trait]
pub(crate) trait Side: Send + Sync {
    fn store(&self) -> &dyn Store;
    fn directory(&self) -> &dyn Directory;
    /// Tells two names of one place.
    async fn identity(&self) -> Result<String, CopyError>;
    async fn secret(&self) -> Result<Option<Secret>, CopyError>;
    /// Keeps the secret if there is none, and answers the one that is there then.
    async fn keep_secret(&self, secret: &Secret) -> Result<Secret, CopyError>;
    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn Snapshot>, StoreError>;
    async fn put_events(&self, tenant: &TenantId, page: Vec<EventRow>) -> Result<(), StoreError>;
    async fn put_scopes(&self, tenant: &TenantId, page: Vec<ScopeRow>) -> Result<(), StoreError>;
    /// Entries with what follows from them (tags, search index, counters). One that is there and
    /// was removed at the source since is erased here, too. One that is new or was changed has no
    /// slot yet.
    async fn put_entries(&self, tenant: &TenantId, page: Vec<EntryRow>) -> Result<(), StoreError>;
    async fn put_repeats(&self, tenant: &TenantId, page: Vec<RepeatRow>) -> Result<(), StoreError>;
    /// Drops records that the source has forgotten since an earlier copy.
    async fn drop_repeats(&self, tenant: &TenantId, before: i64) -> Result<(), StoreError>;
    /// Takes all records away: they change, so a copy that goes on begins with them anew.
    async fn drop_records(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_records(&self, tenant: &TenantId, page: Vec<RecordRow>) -> Result<(), StoreError>;
    /// Entries that stand for others, once all entries are there.
    async fn put_replaced(
        &self,
        tenant: &TenantId,
        page: Vec<ReplacedRow>,
    ) -> Result<(), StoreError>;
    /// What was made from what, likewise. Links only come, so those that are there may stay.
    async fn put_links(&self, tenant: &TenantId, page: Vec<LinkRow>) -> Result<(), StoreError>;
    /// Takes all subjects away: forgetting drops some, so a copy that goes on begins with them
    /// anew.
    async fn drop_subjects(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_subjects(
        &self,
        tenant: &TenantId,
        page: Vec<SubjectRow>,
    ) -> Result<(), StoreError>;
    /// Which questions entries answer, once all of their windows are what they are at the source.
    async fn put_slots(&self, tenant: &TenantId, page: Vec<SlotRow>) -> Result<(), StoreError>;
    /// Actions that rest on entries. They only come.
    async fn put_actions(&self, tenant: &TenantId, page: Vec<ActionRow>) -> Result<(), StoreError>;
    /// Takes all rules away, so that entries which are older than one of them can come.
    async fn drop_rules(&self, tenant: &TenantId) -> Result<(), StoreError>;
    async fn put_rules(&self, tenant: &TenantId, page: Vec<RuleRow>) -> Result<(), StoreError>;
    /// The tenant is complete: sets its clock, and when passes are due.
    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError>;
}
