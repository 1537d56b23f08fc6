//! Forgetting and where entries come from, on the wire: reports, lineage, archives.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Whom or what to forget.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetRequest {
    /// As it was given with the entries. Case, width and spacing do not matter.
    pub subject: String,
    /// Only say what would be erased.
    #[serde(default)]
    pub dry_run: bool,
}

impl std::fmt::Debug for ForgetRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForgetRequest")
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

/// Answer to a forget: the report, and whether there was anything to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForgetAnswer {
    /// Whether anything was (or, in a dry run, would be) erased.
    pub changed: bool,
    /// `{id, tenant, at, subject, counts, erased, revived, archives, backups, kept}`; `signature`
    /// unless nothing was done.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub report: Map<String, Value>,
}

/// Query of the list of reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ErasuresQuery {
    /// As for a list of entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// One report in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureInfo {
    /// Its name.
    pub id: String,
    /// When it was done.
    pub at: String,
    /// The first four bytes of the subject's digest.
    pub subject: String,
    /// How much.
    pub counts: ErasureCounts,
}

/// How much a forget did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureCounts {
    /// Entries erased.
    pub erased: u64,
    /// Entries that stand by themselves again.
    pub revived: u64,
    /// Archives erased.
    pub archives: u64,
    /// Commitments that went with the entries before they had ended; absent in reports from before
    /// there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitments: Option<u64>,
}

/// Reports of the tenant, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureList {
    /// The reports.
    pub erasures: Vec<ErasureInfo>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    /// The Ed25519 key that reports of this host are checked with, base64.
    pub public_key: String,
}

/// What an entry was made from and what was made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryLineage {
    /// The entry.
    pub id: String,
    /// Its memory.
    pub memory_ref: String,
    /// `live`, `deleted`, `expired`, `forgotten`, or why another one stands for it.
    pub state: String,
    /// How many entries say what it says, itself included.
    pub support: u64,
    /// The entry that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// What it was made from, or what was merged into it.
    pub sources: Vec<Relative>,
    /// What was made from it.
    pub derivatives: Vec<Relative>,
}

/// An entry at the other end of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// Its memory.
    pub memory_ref: String,
    /// The entry.
    pub id: String,
    /// As above.
    pub state: String,
}

/// The archives of a memory, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ArchiveList {
    /// The archives.
    pub archives: Vec<ArchiveInfo>,
}

/// What a distillation left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveInfo {
    /// The digest of its bytes, which is its name.
    pub sha256: String,
    /// The entry that holds the digest text.
    pub entry_id: String,
    /// When it was made.
    pub created_at: Instant,
    /// How many entries it was made from.
    pub source_count: u64,
    /// The oldest of them.
    pub from: Instant,
    /// The newest of them.
    pub to: Instant,
    /// Tokens that it might take.
    pub token_budget: u64,
    /// Tokens read and written.
    pub tokens_used: u64,
    /// What it is mostly about.
    pub topics: Vec<String>,
    /// Whether its bytes are gone.
    pub erased: bool,
}

/// Answer to an undo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Undone {
    /// The entry with the text that the model had rewritten.
    pub entry_id: String,
}
