//! Wire types of recall: the parts of a score, the period that a query mentions, the block for a
//! model, and the state of the vectors. Searches themselves are in `memory`.

use crate::time::Instant;
use crate::workshop::{TierName, TypologyName};
use serde::{Deserialize, Serialize};

/// Parts of a score, in the unit of the score, to which they add up.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    schemars::JsonSchema,
)]
pub struct ScoreParts {
    /// Contribution of the words that query and entry have in common.
    pub lexical: f64,
    /// Contribution of the similarity in meaning.
    pub meaning: f64,
    /// Contribution of words that match after correction of a typing error.
    pub typo: f64,
    /// Contribution of the entries written right before or after.
    pub context: f64,
    /// Contribution of the age or, if the query mentions a time, of the distance from it.
    pub recency: f64,
    /// Contribution of the tier: longer-lived entries rank higher.
    pub tier: f64,
    /// Contribution of the number of entries that state the same.
    pub corroboration: f64,
    /// Contribution of the number of actions linked to the entry.
    pub usage: f64,
}

/// Period of time that a query mentions.
#[derive(
    Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SpokenTime {
    /// Start of the period, inclusive (RFC 3339).
    pub from: Instant,
    /// End of the period, exclusive (RFC 3339).
    pub until: Instant,
    /// True if only entries of the period were searched.
    pub applied: bool,
}

/// Request for a block of text that a model reads before it answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecallRequest {
    /// Question to answer, at most 4,096 characters.
    pub query: String,
    /// Maximum number of `o200k_base` tokens of the block; 800 if absent.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub token_budget: Option<u64>,
    /// True to begin the block with procedures and with current answers of slots; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<bool>,
    /// Maximum number of hits: 10 if absent, the host's maximum (100 by default) if 0 or larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// True to leave out hits that are probably irrelevant; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstain: Option<bool>,
    /// Kind of search: `hybrid` (by words and meaning; the default, by words alone where no model
    /// answers), `lexical` (in OpenWOP `filter`) or `semantic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Treatment of a time in the query: `filter` (the default) searches entries of that time alone
    /// unless others answer much better, `prefer` breaks ties in its favour, `ignore` does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Maximum number of hits of one source, which is the `source` in the metadata, otherwise the
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_source: Option<u32>,
    /// Only entries that carry all of these tags: at most 16, of 256 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Only entries written at or after this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Instant>,
    /// Only entries written before this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_to: Option<Instant>,
    /// Revision token of a write that the answer must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// Time at which the returned entries must be true (RFC 3339); now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Instant>,
    /// Only entries of this tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// Only entries of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// Only entries of this chat thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// Only entries of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Block of text that a model reads before it answers.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RecallAnswer {
    /// Text of the block. Lines of untrusted entries are marked one by one.
    pub text: String,
    /// Number of `o200k_base` tokens of the text, never above the budget.
    pub tokens: u64,
    /// Maximum number of tokens that the text may have.
    pub token_budget: u64,
    /// Ids of the entries in the block, in order.
    pub ids: Vec<String>,
    /// Ids of the entries that did not fit into the budget.
    pub omitted: Vec<String>,
    /// Number of bytes at the start of the text that do not depend on the query, so that they can
    /// be cached.
    pub prefix_bytes: u64,
    /// Probability that the block answers the query, from 0 to 1.
    pub probability: f64,
    /// True if the probability is high enough to rely on the block.
    pub relevant: bool,
    /// Kind of search that was used: `hybrid`, `lexical` or `semantic`.
    pub mode: String,
}

/// State of the vectors for search by meaning in a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingStatus {
    /// Model that makes new vectors; null if there is none.
    pub current: Option<EmbeddingModel>,
    /// Name of the model whose vectors answer searches; null if there is none.
    pub serving: Option<String>,
    /// Number of texts that can have a vector.
    pub texts: u64,
    /// Number of vectors by model.
    pub vectors: Vec<EmbeddingCount>,
    /// Comparison of the current model with the one before it; null if there was none.
    pub comparison: Option<EmbeddingComparison>,
}

/// A model that makes vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingModel {
    /// Name of the model.
    pub name: String,
    /// Number of components of a vector.
    pub dimensions: u64,
}

/// Number of vectors that one model has made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingCount {
    /// Name of the model, or its number if the host no longer knows the model.
    pub model: String,
    /// Number of entries with a vector of the model.
    pub entries: u64,
}

/// Comparison of two models by their answers to the same queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingComparison {
    /// Mean share of the old model's hits that the new model finds too, from 0 to 1.
    pub overlap: f64,
    /// Share of queries whose first hit of the old model is among the hits of the new one, from 0
    /// to 1.
    pub agreement: f64,
    /// Number of queries that both models answered.
    pub questions: u64,
    /// True if the new model may answer searches.
    pub passed: bool,
}
