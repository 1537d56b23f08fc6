//! The traits `RecordReads` and `Review`: the records beside the entries, and those under review.

use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::{EntryId, MemoryRef, Record, RecordKind, TenantId, Timestamp};

/// Reads records, except those under review.
#[async_trait]
pub trait RecordReads: Send + Sync {
    /// Returns records of a kind by name, due time, topic or source entry, at most `limit`.
    async fn records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;
}

/// Reads records under review. It is separate from `Store`, so that code with a `Store` alone
/// cannot read them. They are written like any other record, by `Ledger::commit`.
#[async_trait]
pub trait Review: Send + Sync {
    /// Returns records under review by name or due time, at most `limit`. They have neither a topic
    /// nor a source.
    async fn review_records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError>;
}

/// A lookup of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordLookup {
    /// The record with this name.
    Name(String),
    /// Records in the byte order of their names.
    Names {
        /// The beginning of the names.
        prefix: String,
        /// The end of the previous page.
        after: Option<String>,
    },
    /// Records that are due at `until` or before, in the order of `(due, key)`.
    Due {
        /// The latest due time that counts.
        until: Timestamp,
        /// The end of the previous page.
        after: Option<(Timestamp, String)>,
    },
    /// Records that wait for a topic, in the order of their names.
    Topic {
        /// The topic, as an exact text.
        topic: String,
        /// The end of the previous page.
        after: Option<String>,
    },
    /// Records that were made from this entry, in the order of their names.
    Source(MemoryRef, EntryId),
    /// Records that were made from any of these entries, in the order of their names.
    Sources(Vec<(MemoryRef, EntryId)>),
}

impl RecordLookup {
    /// Records whose names begin with `prefix` and come after `after`.
    #[must_use]
    pub fn names(prefix: &str, after: Option<&str>) -> RecordLookup {
        RecordLookup::Names {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
        }
    }
}
