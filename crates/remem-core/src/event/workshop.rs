//! What events of sessions, actions and rules carry: names and counts.

use serde::{Deserialize, Serialize};

/// Payload of `memory.linked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Linked {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
    pub memory_id: String,
    /// What was done on the strength of it. Its reference stays with the link: it is the caller's
    /// own word.
    pub action: String,
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
