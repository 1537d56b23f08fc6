//! The columns of `action_link` and `rule`.

use super::columns::{Column, Value, number, text};
use remem_core::ledger::{LinkRow, RowKey, RuleRow};
use remem_core::{RuleId, WorldId};

/// A row of `action_link`: as it is stored, and as it is called from now on.
pub(crate) struct NamedLink {
    pub row: RowKey,
    /// The action and reference that are stored; those of a new link.
    pub stored: (String, String),
    pub link: LinkRow,
}

pub(crate) const LINK_KEY: [Column<NamedLink>; 4] = [
    number("scope_id", |l| Value::number(l.row.scope)),
    number("row_id", |l| Value::number(l.row.row)),
    text("action", |l| Value::text(&l.stored.0)),
    text("reference", |l| Value::text(&l.stored.1)),
];
pub(crate) const LINK_MADE: [Column<NamedLink>; 2] = [
    number("linked_at", |l| {
        Value::Number(l.link.made.as_ref().map(|(at, _)| at.0))
    }),
    text("linked_by", |l| {
        Value::opt_text(l.link.made.as_ref().and_then(|(_, by)| by.as_deref()))
    }),
];
/// The new names of a link, and the columns that they are written into.
pub(crate) const LINK_RENAMED: [(Column<NamedLink>, &str); 2] = [
    (
        text("new_action", |l| Value::text(&l.link.action)),
        "action",
    ),
    (
        text("new_reference", |l| Value::text(&l.link.reference)),
        "reference",
    ),
];

/// A rule with its key.
pub(crate) struct NamedRule {
    pub key: (WorldId, RuleId),
    pub rule: RuleRow,
}

pub(crate) const RULE_KEY: [Column<NamedRule>; 2] = [
    text("world", |r| Value::text(r.key.0.as_str())),
    text("id", |r| Value::text(r.key.1.as_str())),
];
pub(crate) const RULE: [Column<NamedRule>; 2] = [
    text("body", |r| Value::text(&r.rule.body)),
    number("at", |r| Value::Number(r.rule.written_at.map(|at| at.0))),
];
