//! Wire types of the ledger of model calls, which has no field for a text.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// A call of the language model, as the ledger records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallInfo {
    /// Unique id of the call.
    pub id: String,
    /// Time the call was recorded (RFC 3339).
    pub at: Instant,
    /// Name of the model.
    pub model: String,
    /// Name of the memory that the call was made for.
    pub memory_ref: String,
    /// True if the model's answer was accepted.
    pub accepted: bool,
    /// Outcome of the call: `accepted`, or the reason that the answer was not used.
    pub why: String,
    /// HTTP status of the model's server, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Duration of the call in milliseconds.
    pub duration_ms: u64,
    /// Keyed digest of the request.
    pub request_hash: String,
    /// Keyed digest of the answer; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_hash: Option<String>,
    /// Id of the entry that holds the resulting text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// Evidence for each line of the rewrite.
    pub evidence: Vec<ModelEvidence>,
    /// References that restore the state before the call.
    pub undo: ModelUndo,
}

/// Sentence of an entry that supports a line of a rewrite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelEvidence {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Id of the entry with the sentence.
    pub source: String,
    /// Start of the sentence in the entry's text, in bytes.
    pub start: u64,
    /// End of the sentence in the entry's text, in bytes.
    pub end: u64,
}

/// References that are needed to undo a rewrite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelUndo {
    /// SHA-256 of the deterministic archive, in hex.
    pub archive: String,
    /// Ids of the entries that the text replaced.
    pub replaces: Vec<String>,
}

/// A page of the ledger of model calls, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCallList {
    /// Model calls on this page, oldest first.
    pub model_calls: Vec<ModelCallInfo>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Query parameters of the ledger of model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ModelCallsQuery {
    /// Number of calls per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only calls after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
