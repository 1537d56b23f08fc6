//! What events of sessions, actions and rules carry: names and counts.

use serde::{Deserialize, Serialize};

/// Payload of `memory.linked`. What was done, and its name there, are the caller's own words and
/// stay with the link. Events from before that was so have the field `action`, which is passed over
/// when they are read: their bytes are chained and cannot be written anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Linked {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
    pub memory_id: String,
}

/// Payload of `rule.changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleRef {
    /// The world.
    pub world: String,
    /// The rule.
    pub rule_id: String,
    /// It is a rule no more.
    pub removed: bool,
}

/// Payload of `session.opened` and `session.closing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionRef {
    /// The memory.
    pub memory_ref: String,
    /// The session.
    pub session_id: String,
}

/// Payload of `session.closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionClosed {
    /// The memory.
    pub memory_ref: String,
    /// The session.
    pub session_id: String,
    /// Patterns and claims that outlast it.
    pub promoted: u64,
    /// Entries that ended with it.
    pub ended: u64,
    /// Entries that an action rests on, and that stay.
    pub kept: u64,
}
