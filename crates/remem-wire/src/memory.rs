//! Requests and answers about one memory: lists, searches, batches, counts.

use crate::entry::{ImportEntry, MemoryEntry, Metadata, PutEntry};
use crate::recall::{ScoreParts, SpokenTime};
use crate::time::Instant;
use crate::workshop::{EntryFacets, TierName, TypologyName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Query of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// How many: absent means 100, 0 means the host's cap (1000), n means n up to the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only entries that carry this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Revision token of a write that must be visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// What to add beside the entries: `metadata`, `facets`, or both separated by a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
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
    /// Tokens (o200k_base) that the entries may have together: whole entries from the first one on,
    /// as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Within a budget: `recency` (the default) or `relevance`, which needs a `query` and a host
    /// that finds by meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Within a budget: what entries are to be relevant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Query of a read of one entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Revision token of a write that must be visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// As for a list. With it the answer is `{entry, metadata?, facets?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}

/// Query of a put.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PutQuery {
    /// As for a list. With it the answer to a single put is `{entry, metadata?, facets?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}

/// Query of a read that takes nothing but a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadQuery {
    /// Revision token of a write that must be visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

/// A page of entries, newest first; within a budget as many as fit, and no page after it.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct EntryList {
    /// The entries.
    pub entries: Vec<MemoryEntry>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Metadata by entry id, where asked for and present.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub metadata: BTreeMap<String, Metadata>,
    /// What the entries have beside their texts, by entry id, where asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facets: BTreeMap<String, EntryFacets>,
    /// Within a budget: the tokens of the entries together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_total: Option<u64>,
    /// Within a budget: what counted the tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_counter: Option<String>,
    /// Within a budget: entries that are larger than the whole of it, and were left out for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Vec<String>>,
}

/// Several entries for one transaction: all are stored or none is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutMany {
    /// The entries.
    pub entries: Vec<PutEntry>,
}

/// Answer to a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PutManyAnswer {
    /// The entries as stored, in the order of the request.
    pub entries: Vec<MemoryEntry>,
    /// Token for reading them anywhere.
    pub revision: String,
    /// Metadata by entry id, where asked for and present.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub metadata: BTreeMap<String, Metadata>,
    /// What the entries have beside their texts, by entry id, where asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facets: BTreeMap<String, EntryFacets>,
}

/// Several entries that keep their identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The entries.
    pub entries: Vec<ImportEntry>,
}

/// Answer to an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportAnswer {
    /// Entries stored.
    pub imported: u64,
    /// Entries whose id is or was ever taken: left as they are.
    pub skipped: u64,
    /// Token for reading them anywhere.
    pub revision: String,
}

/// What to search for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// What to look for.
    pub query: String,
    /// How many hits: absent means 10, 0 means the host's cap (100), n means n up to the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `hybrid` (by words and meaning, the default; by words alone where no model answers),
    /// `lexical` or its OpenWOP name `filter`, or `semantic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
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
    /// `facets` adds what the entries have beside their texts; metadata is there in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
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
    /// What becomes of a time in the query: `prefer` moves ties, `filter` (the default) looks at
    /// entries of that time alone unless none of them answers, `ignore` does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Whether each hit tells what its score is made of.
    #[serde(default, skip_serializing_if = "is_false")]
    pub explain: bool,
    /// Entries to show before and after each hit, 10 at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<u32>,
    /// Hits of one source at the most: the `source` in the metadata, else the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_source: Option<u32>,
    /// Answer no hits rather than what is probably irrelevant.
    #[serde(default, skip_serializing_if = "is_false")]
    pub abstain: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One hit.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The entry.
    pub entry: MemoryEntry,
    /// Relative to the best hit of the same answer, which has 1.
    pub score: f64,
    /// The entry's metadata, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// What the entry has beside its text, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<EntryFacets>,
    /// What the score is made of, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ScoreParts>,
    /// What was written right before it, the nearest first, where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<MemoryEntry>,
    /// What was written right after it, the nearest first, where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<MemoryEntry>,
}

/// Answer to a search, best first.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SearchAnswer {
    /// The hits.
    pub hits: Vec<SearchHit>,
    /// How probable it is that something relevant is among them.
    pub probability: f64,
    /// Whether that is enough to go by.
    pub relevant: bool,
    /// By what was found: `hybrid`, `lexical` or `semantic`.
    pub mode: String,
    /// The time that the query speaks of, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SpokenTime>,
}

/// Counts of one memory.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// Live entries.
    pub entries: u64,
    /// Bytes of their text.
    pub content_bytes: u64,
    /// Live entries that will expire.
    pub expiring: u64,
    /// The oldest one's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Instant>,
    /// The newest one's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Instant>,
}

/// The metadata of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EntryMetadata {
    /// The JSON object stored beside the text; empty if there is none.
    #[schema(value_type = Object)]
    pub metadata: Metadata,
}

/// Query of the list of memories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemoriesQuery {
    /// As for a list of entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only memories whose name sorts after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Revision token of a write that must be visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

/// One memory in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemorySummary {
    /// Its name.
    pub memory_ref: String,
    /// Live entries.
    pub entries: u64,
}

/// The tenant's memories by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryList {
    /// The memories.
    pub memories: Vec<MemorySummary>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}
