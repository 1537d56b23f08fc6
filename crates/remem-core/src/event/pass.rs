//! What events of passes carry: ids, counts and words of this host.

use serde::{Deserialize, Serialize};

/// Payload of `memory.retired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retired {
    /// The memory.
    pub memory_ref: String,
    /// The entry that is no longer part of it.
    pub memory_id: String,
    /// `merged`, `superseded`, `compacted` or `invalidated`.
    pub reason: String,
    /// The entry that stands in its place; a statement that was only taken back has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Payload of `subject.forgotten`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubjectForgotten {
    /// The report about it.
    pub report_id: String,
    /// The first four bytes of the subject's keyed digest: enough to tell two apart, not to find
    /// out who it is.
    pub subject: String,
    /// Entries erased.
    pub erased: u64,
    /// Merged entries that stand by themselves again.
    pub revived: u64,
    /// Archives erased.
    pub archives: u64,
}

/// Payload of `memory.compacted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compacted {
    /// The memory.
    pub memory_ref: String,
    /// The entry that they became.
    pub output_id: String,
    /// All of them, unless they are too many to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ids: Option<Vec<String>>,
    /// How many they are.
    pub source_count: u64,
    /// Who asked for it, in the protocol's words.
    pub trigger: String,
    /// Bytes of the new entry's text.
    pub byte_size: u64,
    /// Set when it was done within a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distillation: Option<Distillation>,
}

/// The part of `memory.compacted` that tells of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Distillation {
    /// Tokens that could be used.
    pub token_budget: u64,
    /// Tokens that were: read and written.
    pub tokens_used: u64,
    /// Whether the index file was written anew.
    pub index_updated: bool,
}

/// Payload of `agent.memory.consolidated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consolidated {
    /// The memory.
    pub memory_ref: String,
    /// Entries before.
    pub input_count: u64,
    /// Entries after.
    pub output_count: u64,
    /// Those that were merged or superseded, unless they are too many to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_ids: Option<Vec<String>>,
    /// Who asked for it: `host-managed`, `scheduled` or `on-demand`.
    pub trigger: String,
}

/// Payload of `pass.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassStarted {
    /// The job.
    pub job_id: String,
    /// Its pass.
    pub pass: String,
    /// The memory; absent for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// Payload of `pass.progress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassProgress {
    /// The job.
    pub job_id: String,
    /// Its pass.
    pub pass: String,
    /// The memory; all of the tenant's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// What it is doing, in a word of this host.
    pub phase: String,
    /// Things done.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

/// Payload of `pass.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassEnded {
    /// The job.
    pub job_id: String,
    /// Its pass.
    pub pass: String,
    /// The memory; all of the tenant's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// `done`, `failed` or `cancelled`.
    pub outcome: String,
    /// Things looked at.
    pub examined: u64,
    /// Things changed.
    pub changed: u64,
    /// How long it took.
    pub duration_ms: u64,
}
