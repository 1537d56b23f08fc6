//! The columns of `record` and `review`.

use super::columns::{Column, Value, number, text};
use remem_core::ledger::{RecordKey, RecordRow};

/// A record with its key.
pub(crate) struct NamedRecord {
    pub key: RecordKey,
    pub row: RecordRow,
}

pub(crate) const KEY: [Column<NamedRecord>; 2] = [
    text("kind", |r| Value::text(r.key.0.as_str())),
    text("key", |r| Value::text(&r.key.1)),
];

/// The columns of a record that is written.
pub(crate) const WRITTEN: [Column<NamedRecord>; 4] = [
    number("version", version),
    number("at", |r| {
        Value::Number(r.row.written.as_ref().map(|(_, at)| at.0))
    }),
    text("body", |r| {
        Value::opt_text(r.row.written.as_ref().map(|(body, _)| &**body))
    }),
    number("due", due),
];

/// The columns that follow the entry which a record was made from.
pub(crate) const TIES: [Column<NamedRecord>; 3] = [
    text("topic", |r| Value::opt_text(r.row.topic.as_deref())),
    number("source_scope", |r| {
        Value::Number(r.row.source.map(|source| source.scope))
    }),
    number("source_row", |r| {
        Value::Number(r.row.source.map(|source| source.row))
    }),
];

/// The columns that change although a record is not written.
pub(crate) const FOLLOWING: [Column<NamedRecord>; 2] =
    [number("version", version), number("due", due)];

fn version(record: &NamedRecord) -> Value<'_> {
    Value::number(record.row.version.cast_signed())
}

fn due(record: &NamedRecord) -> Value<'_> {
    Value::Number(record.row.due.map(|at| at.0))
}
