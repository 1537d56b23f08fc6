//! The columns of `scope` (a memory), `lineage`, `entry_subject`, `signature` and `snapshot`.

use super::columns::{Column, Value, bytes, number, text};
use remem_core::ledger::{MemoryTotals, RowKey, SignatureRow, SnapshotRow};
use remem_core::{MemoryRef, RunId};

/// A row of `scope`.
pub(crate) struct ScopeRow {
    pub memory_ref: MemoryRef,
    pub scope: i64,
    pub next_row: i64,
    /// The entries with a text that the group adds to the memory, and their words.
    pub documents: i64,
    pub words: i64,
    /// The totals of the entries that the group adds to the memory.
    pub totals: MemoryTotals,
}

pub(crate) const SCOPE_KEY: [Column<ScopeRow>; 1] =
    [number("scope_id", |s| Value::number(s.scope))];
pub(crate) const SCOPE: [Column<ScopeRow>; 2] = [
    text("memory_ref", |s| Value::text(s.memory_ref.as_str())),
    text("owner", |s| Value::opt_text(s.memory_ref.owner())),
];
/// The counters of a memory, which only PostgreSQL has.
pub(crate) const SCOPE_COUNTERS: [Column<ScopeRow>; 3] = [
    number("next_row", |s| Value::number(s.next_row)),
    number("documents", |s| Value::number(s.documents)),
    number("words", |s| Value::number(s.words)),
];

/// The totals of a memory.
pub(crate) const SCOPE_TOTALS: [Column<ScopeRow>; 4] = [
    number("entries", |s| Value::number(s.totals.entries)),
    number("content_bytes", |s| Value::number(s.totals.content_bytes)),
    number("expiring", |s| Value::number(s.totals.expiring)),
    number("with_subject", |s| Value::number(s.totals.with_subject)),
];

/// A row of `lineage`: a row, and one that its text was made from.
pub(crate) type LineageRow = (RowKey, RowKey);

pub(crate) const LINEAGE: [Column<LineageRow>; 4] = [
    number("scope_id", |l| Value::number(l.0.scope)),
    number("row_id", |l| Value::number(l.0.row)),
    number("source_scope", |l| Value::number(l.1.scope)),
    number("source_row", |l| Value::number(l.1.row)),
];

/// A row of `entry_subject`.
pub(crate) type SubjectRow = (RowKey, [u8; 32]);

pub(crate) const SUBJECT: [Column<SubjectRow>; 3] = [
    bytes("subject", |s| Value::bytes(&s.1)),
    number("scope_id", |s| Value::number(s.0.scope)),
    number("row_id", |s| Value::number(s.0.row)),
];

/// The row of an entry, by which what belongs to it is deleted.
pub(crate) const ROW: [Column<RowKey>; 2] = [
    number("scope_id", |key| Value::number(key.scope)),
    number("row_id", |key| Value::number(key.row)),
];

/// A row of `signature`.
pub(crate) type StoredSignature = (RowKey, SignatureRow);

pub(crate) const SIGNATURE: [Column<StoredSignature>; 4] = [
    number("scope_id", |s| Value::number(s.0.scope)),
    number("row_id", |s| Value::number(s.0.row)),
    number("pass", |s| Value::number(s.1.pass.cast_signed())),
    bytes("signature", |s| Value::bytes(&s.1.signature)),
];

/// A row of `snapshot`.
pub(crate) type HeldSnapshot = (RunId, SnapshotRow);

pub(crate) const SNAPSHOT: [Column<HeldSnapshot>; 3] = [
    text("run_id", |s| Value::text(s.0.as_str())),
    number("revision", |s| Value::number(s.1.revision.0.cast_signed())),
    number("at", |s| Value::number(s.1.at.0)),
];
