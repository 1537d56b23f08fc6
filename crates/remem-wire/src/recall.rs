//! Recall on the wire: what a hit's score is made of, the time that a query speaks of, the block
//! for a model, and how far vectors have been made. Searches themselves are in `memory`.

use crate::time::Instant;
use crate::workshop::{TierName, TypologyName};
use serde::{Deserialize, Serialize};

/// What a score is made of, in the unit of the score. They sum to it.
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
    /// Words in common.
    pub lexical: f64,
    /// Likeness in meaning.
    pub meaning: f64,
    /// Words that were probably meant.
    pub typo: f64,
    /// What stands beside it.
    pub context: f64,
    /// Age, or distance from the time that was asked for.
    pub recency: f64,
    /// How long it lasts.
    pub tier: f64,
    /// How many say so.
    pub corroboration: f64,
    /// How many actions rest on it.
    pub usage: f64,
}

/// The time that a query speaks of.
#[derive(
    Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SpokenTime {
    /// From this instant on.
    pub from: Instant,
    /// Up to this instant, without it.
    pub until: Instant,
    /// Whether only entries of that time were looked at.
    pub applied: bool,
}

/// What a model is to know before it answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecallRequest {
    /// The question.
    pub query: String,
    /// Tokens (o200k_base) that the block may have: 800 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Whether procedures and answers that hold open the block: true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<bool>,
    /// How many hits at the most, as for a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Whether hits are left out that are probably irrelevant: true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abstain: Option<bool>,
    /// As for a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// As for a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// As for a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_source: Option<u32>,
    /// Only entries that carry all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Only entries written at or after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Instant>,
    /// Only entries written before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_to: Option<Instant>,
    /// Revision token of a write that must be visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// What was true at this instant (RFC 3339), rather than now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Instant>,
    /// Only of this tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// Only of this chat thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A block for a model.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RecallAnswer {
    /// The block. What nobody vouches for is marked line by line.
    pub text: String,
    /// Its tokens (o200k_base), never more than the budget.
    pub tokens: u64,
    /// Tokens that it may have.
    pub token_budget: u64,
    /// The entries in it, in order.
    pub ids: Vec<String>,
    /// The entries that had no place.
    pub omitted: Vec<String>,
    /// So many bytes at its beginning do not depend on the question.
    pub prefix_bytes: u64,
    /// How probable it is that the question is answered by it.
    pub probability: f64,
    /// Whether that is enough to go by.
    pub relevant: bool,
    /// By what was found: `hybrid`, `lexical` or `semantic`.
    pub mode: String,
}

/// How far vectors have been made for a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingStatus {
    /// The model that makes new vectors; null if there is none.
    pub current: Option<EmbeddingModel>,
    /// The model whose vectors answer searches; null if there is none.
    pub serving: Option<String>,
    /// Texts that could have a vector.
    pub texts: u64,
    /// How many have one, by model.
    pub vectors: Vec<EmbeddingCount>,
    /// What a comparison of the current model with the one before it showed; null if there was
    /// none.
    pub comparison: Option<EmbeddingComparison>,
}

/// A model that makes vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingModel {
    /// What it is called.
    pub name: String,
    /// Components of a vector.
    pub dimensions: u64,
}

/// Vectors of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingCount {
    /// What the model is called; its number, if this host does not know it any more.
    pub model: String,
    /// Entries that have a vector of it.
    pub entries: u64,
}

/// How alike two models answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EmbeddingComparison {
    /// How many of the old one's hits the new one finds, 0 to 1.
    pub overlap: f64,
    /// How often the old one's first hit is among the new one's, 0 to 1.
    pub agreement: f64,
    /// Questions that both were asked.
    pub questions: u64,
    /// Whether the new one may serve.
    pub passed: bool,
}
