//! The trait `LineageReads`: consolidation signatures, sources and derivatives of entries, and all
//! entries that carry a subject.

use crate::entry::RowCursor;
use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::ledger::EntryState;
use remem_core::{EntryId, MemoryRef, Scope, Subject, TenantId, Timestamp, Trust, Typology};

/// Reads which entries were made from which, and what consolidation noted about them.
#[async_trait]
pub trait LineageReads: Send + Sync {
    /// Returns the signatures of entries that consolidation may examine, in the store's own order.
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError>;

    /// Returns the direct sources and derivatives of an entry. `None` if there is no such entry,
    /// not even one without text.
    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError>;

    /// Returns a page of the entries that carry a subject: up to `limit` of the entries that it was
    /// given to, and up to `limit` of everything made from those, and so on.
    async fn trace_subject(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError>;
}

/// A stored signature of an entry, with the fields by which consolidation orders entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSignature {
    /// The position of the entry in the store's own order.
    pub row: RowCursor,
    pub id: EntryId,
    pub created_at: Timestamp,
    pub typology: Typology,
    /// The trust of the entry's best source.
    pub trust: Trust,
    /// The number of the pass that computed it.
    pub pass: u64,
    /// The signature, byte for byte as it was stored.
    pub signature: Vec<u8>,
}

/// The sources of an entry, and the entries that were made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The present state of the entry.
    pub state: EntryState,
    /// The entry that replaces it, if one does.
    pub replaced_by: Option<EntryId>,
    /// The number of entries that say the same, itself included.
    pub support: u64,
    /// The entries that it was made from, or that were merged into it.
    pub sources: Vec<RelatedEntry>,
    /// The entries that were made from it.
    pub derivatives: Vec<RelatedEntry>,
}

/// A direct source or derivative of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedEntry {
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// The present state of the entry.
    pub state: EntryState,
}

/// One page of the entries that carry a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectTrace {
    /// Entries that were made, directly or not, from the next entries that the subject was given
    /// to; then those entries themselves, unless the page is full: then more that was made from
    /// them follows.
    pub entries: Vec<TracedEntry>,
    /// Entries to restore: they were merged into an entry of the list above, do not carry the
    /// subject themselves, and still have their text. The last id is that of the entry which
    /// replaces them.
    pub merged_survivors: Vec<(MemoryRef, EntryId, EntryId)>,
    /// The position of the next page; `None` if this is the last one.
    pub next: Option<TracePosition>,
}

/// A position among the entries that carry a subject, in the store's own order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracePosition {
    /// The last entry that the subject was given to and that is done with everything made from it.
    pub given: Option<RowCursor>,
    /// The last entry that was returned of those made from the entries after `given`.
    pub derived: Option<RowCursor>,
}

/// An entry that carries a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedEntry {
    pub memory_ref: MemoryRef,
    pub id: EntryId,
    /// True if the subject was given to the entry itself, false if to something that it was made
    /// from.
    pub direct: bool,
    /// True if its text is erased already.
    pub erased: bool,
    /// An unkeyed digest of its text, if it has one.
    pub content_hash: Option<[u8; 16]>,
}
