//! The columns of `event` and `idempotency`.

use super::columns::{Column, Value, bytes, number, text};
use crate::stored::outcomes_to_stored;
use remem_core::ledger::{NewEvent, ResultKey, StoredResult};

pub(crate) const EVENT: [Column<NewEvent>; 9] = [
    number("seq", |e| Value::number(e.seq.0.cast_signed())),
    number("revision", |e| Value::number(e.revision.0.cast_signed())),
    number("at", |e| Value::number(e.at.0)),
    text("run_id", |e| {
        Value::opt_text(e.run.as_ref().map(|run| run.0.as_str()))
    }),
    number("run_seq", |e| {
        Value::Number(e.run.as_ref().map(|run| run.1.cast_signed()))
    }),
    number("recorded_at", |e| {
        Value::Number(e.run.as_ref().and_then(|run| run.2).map(|at| at.0))
    }),
    text("kind", |e| Value::text(e.kind)),
    text("payload", |e| Value::text(&e.payload)),
    bytes("hash", |e| Value::bytes(&e.hash)),
];

/// A stored result with its key.
pub(crate) type NamedResult = (ResultKey, StoredResult);

pub(crate) const RESULT: [Column<NamedResult>; 6] = [
    text("operation", |r| Value::text(&r.0.0)),
    bytes("key", |r| Value::bytes(&r.0.1)),
    bytes("body", |r| Value::bytes(&r.1.body)),
    number("at", |r| Value::number(r.1.at.0)),
    number("revision", |r| Value::number(r.1.revision.0.cast_signed())),
    text("outcomes", |r| {
        Value::owned_text(outcomes_to_stored(
            r.1.outcomes.as_deref().unwrap_or_default(),
        ))
    }),
];
