//! Calls of the model on the wire: the ledger, which has no place for a text.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// A call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallInfo {
    /// Its name.
    pub id: String,
    /// When it was kept.
    pub at: Instant,
    /// What the model is called.
    pub model: String,
    /// The memory that it was about.
    pub memory_ref: String,
    /// Whether its answer was taken.
    pub accepted: bool,
    /// `accepted`, or why not.
    pub why: String,
    /// The status that the model's server answered with, if that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took.
    pub duration_ms: u64,
    /// A keyed digest of what was asked.
    pub request_hash: String,
    /// A keyed digest of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_hash: Option<String>,
    /// The entry that holds the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// What each line of the rewrite rests on.
    pub evidence: Vec<ModelEvidence>,
    /// What brings back what was there before.
    pub undo: ModelUndo,
}

/// A sentence that carries a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelEvidence {
    /// The line, from 1.
    pub line: u64,
    /// The entry with the sentence.
    pub source: String,
    /// Where the sentence begins in its text, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// How a rewrite is undone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelUndo {
    /// The SHA-256 of the deterministic archive.
    pub archive: String,
    /// The entries whose place the text took.
    pub replaces: Vec<String>,
}

/// The ledger, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallList {
    /// The calls.
    pub model_calls: Vec<ModelCallInfo>,
    /// Set if there are more: pass it as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Which calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ModelCallsQuery {
    /// How many at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `nextAfter` of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
