//! Wire types of erasure reports, of the lineage of entries and of archives.

use crate::pass::JobDoc;
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Request to forget a subject in all memories of the tenant.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetRequest {
    /// Subject as it was given with the entries; case, width and spacing are ignored.
    pub subject: String,
    /// True to report what would be erased without erasing it; false if absent.
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

/// Answer to a forget: the erasure report, and whether the forget changed anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForgetAnswer {
    /// True if entries were erased or, in a dry run, would be.
    pub changed: bool,
    /// True if a dry run stopped at its limit: more would be erased than it lists. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Erasure report: `{id, tenant, at, subject, counts, erased, revived, archives, backups,
    /// kept}`, with `pages` if it names too much for one answer, and with `signature` if it was
    /// stored.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub report: Map<String, Value>,
}

/// Answer to a forget: the report, or the job that goes on with it.
#[derive(Clone, Debug, PartialEq)]
pub enum ForgetAnswered {
    /// Answer of a forget that has ended.
    Done(ForgetAnswer),
    /// Job that goes on; its `detail.reportId` names the report once it is done.
    Started(Box<JobDoc>),
}

/// Query parameters of the list of erasure reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ErasuresQuery {
    /// Number of reports per page: 100 if absent, the host's maximum (1,000) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only reports after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Summary of one erasure report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureInfo {
    /// Unique id of the report.
    pub id: String,
    /// Time of the erasure (RFC 3339).
    pub at: String,
    /// First four bytes of the subject's digest, in hex.
    pub subject: String,
    /// Counts of the erasure.
    pub counts: ErasureCounts,
}

/// Counts of one erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureCounts {
    /// Number of entries erased.
    pub erased: u64,
    /// Number of merged entries that are live again, because the entry they were merged into was
    /// erased.
    pub revived: u64,
    /// Number of archives erased.
    pub archives: u64,
    /// Number of open commitments that were removed with their entries; absent in reports older
    /// than commitments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitments: Option<u64>,
}

/// A page of the tenant's erasure reports, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureList {
    /// Summaries of the reports, oldest first.
    pub erasures: Vec<ErasureInfo>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    /// Ed25519 public key that the host's reports are verified with, in base64.
    pub public_key: String,
}

/// Lineage of an entry: its sources and derivatives, one step each way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryLineage {
    /// Id of the entry.
    pub id: String,
    /// Name of the entry's memory.
    pub memory_ref: String,
    /// State of the entry: `live`, `deleted`, `expired`, `forgotten`, or the reason that another
    /// entry replaced it.
    pub state: String,
    /// Number of entries that state the same, this one included.
    pub support: u64,
    /// Id of the entry that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// Entries that this one was made from, or that were merged into it.
    pub sources: Vec<Relative>,
    /// Entries that were made from this one.
    pub derivatives: Vec<Relative>,
}

/// An entry related to another by one step of lineage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relative {
    /// Name of the related entry's memory.
    pub memory_ref: String,
    /// Id of the related entry.
    pub id: String,
    /// State of the related entry: `live`, `deleted`, `expired`, `forgotten`, or the reason that
    /// another entry replaced it.
    pub state: String,
}

/// The archives of a memory, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ArchiveList {
    /// Archives of the memory, oldest first.
    pub archives: Vec<ArchiveInfo>,
}

/// Description of an archive, which holds the sources of a distillation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveInfo {
    /// SHA-256 of the archive's bytes in hex, which is also its name.
    pub sha256: String,
    /// Id of the entry that holds the distilled text.
    pub entry_id: String,
    /// Time the archive was created (RFC 3339).
    pub created_at: Instant,
    /// Number of entries that were distilled.
    pub source_count: u64,
    /// Time of the oldest of these entries (RFC 3339).
    pub from: Instant,
    /// Time of the newest of these entries (RFC 3339).
    pub to: Instant,
    /// Maximum number of `o200k_base` tokens that the distillation could read and write.
    pub token_budget: u64,
    /// Number of `o200k_base` tokens that it read and wrote.
    pub tokens_used: u64,
    /// Most frequent topics of the distilled entries.
    pub topics: Vec<String>,
    /// True if the archive's bytes were erased.
    pub erased: bool,
}

/// Answer to the undo of a model's rewrite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Undone {
    /// Id of the new entry, which holds the text that the model had rewritten.
    pub entry_id: String,
}
