//! Payloads of events about passes: ids, counts and fixed words of this host.

use serde::{Deserialize, Serialize};

/// The payload of `memory.retired` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryRetired {
    pub memory_ref: String,
    /// The entry that is no longer part of the memory.
    pub memory_id: String,
    /// `merged`, `superseded`, `compacted` or `invalidated`.
    pub reason: String,
    /// The entry that replaces it; a statement that was only taken back has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The payload of `subject.forgotten` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubjectForgotten {
    /// The report of the erasure.
    pub report_id: String,
    /// The first four bytes of the subject's keyed digest: enough to tell two subjects apart, but
    /// not to identify one.
    pub subject: String,
    /// The number of erased entries.
    pub erased: u64,
    /// The number of merged entries that became entries of their own again.
    pub revived: u64,
    /// The number of erased archives.
    pub archives: u64,
}

/// The payload of `memory.compacted` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compacted {
    pub memory_ref: String,
    /// The entry that replaces the sources.
    pub output_id: String,
    /// The ids of all sources, unless they are too many to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ids: Option<Vec<String>>,
    /// The number of sources.
    pub source_count: u64,
    /// The cause of the compaction, in the protocol's words.
    pub trigger: String,
    /// The size of the new entry's text.
    pub byte_size: u64,
    /// Present if the work was done within a token budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distillation: Option<Distillation>,
}

/// The part of `memory.compacted` that reports a token budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Distillation {
    /// The number of tokens that could be used.
    pub token_budget: u64,
    /// The number of tokens that were read and written.
    pub tokens_used: u64,
    /// True if the index file was rewritten.
    pub index_updated: bool,
}

/// The payload of `agent.memory.consolidated` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consolidated {
    pub memory_ref: String,
    /// The number of entries before the pass.
    pub input_count: u64,
    /// The number of entries after the pass.
    pub output_count: u64,
    /// The entries that were merged or superseded, unless they are too many to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_ids: Option<Vec<String>>,
    /// The cause of the pass: `host-managed`, `scheduled` or `on-demand`.
    pub trigger: String,
}

/// The payload of `pass.started` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassStarted {
    pub job_id: String,
    /// The name of the job's pass.
    pub pass: String,
    /// The memory; absent if the job covers all memories of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// The payload of `pass.progress` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassProgress {
    pub job_id: String,
    /// The name of the job's pass.
    pub pass: String,
    /// The memory; absent if the job covers all memories of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// The phase of the pass, as a fixed word of this host.
    pub phase: String,
    /// The number of items that are done.
    pub done: u64,
    /// The number of items that there are.
    pub total: u64,
}

/// The payload of `pass.ended` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassEnded {
    pub job_id: String,
    /// The name of the job's pass.
    pub pass: String,
    /// The memory; absent if the job covers all memories of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// `done`, `failed` or `cancelled`.
    pub outcome: String,
    /// The number of items that were examined.
    pub examined: u64,
    /// The number of items that were changed.
    pub changed: u64,
    pub duration_ms: u64,
}
