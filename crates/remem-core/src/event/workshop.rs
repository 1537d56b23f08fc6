//! Payloads of events about sessions, actions and rules: names and counts.

use serde::{Deserialize, Serialize};

/// The payload of `memory.linked`. The action and its reference are the caller's own words and are
/// stored with the link only. Events of earlier versions have the field `action`, which is skipped
/// when they are read: their bytes are part of the hash chain and cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryLinked {
    pub memory_ref: String,
    pub memory_id: String,
}

/// The payload of `rule.changed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleRef {
    pub world: String,
    pub rule_id: String,
    /// True if the rule was deleted.
    pub removed: bool,
}

/// The payload of `session.opened` and `session.closing` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionRef {
    pub memory_ref: String,
    pub session_id: String,
}

/// The payload of `session.closed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionClosed {
    pub memory_ref: String,
    pub session_id: String,
    /// Patterns and claims that were promoted, so that they outlast the session.
    pub promoted: u64,
    /// Entries that ended with the session.
    pub ended: u64,
    /// Entries that stay because an action rests on them.
    pub kept: u64,
}
