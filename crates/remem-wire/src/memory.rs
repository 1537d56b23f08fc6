//! Requests and answers about one memory: lists, searches, batches, counts.

use crate::entry::{ImportEntry, MemoryEntry, Metadata, PutEntry};
use crate::recall::{ScoreParts, SpokenTime};
use crate::time::Instant;
use crate::workshop::{EntryFacets, TierName, TypologyName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Query parameters of the list of entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Number of entries: 100 if absent, the host's maximum (1,000 by default) if 0 or larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only entries that carry this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Cursor of the page: the `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Revision token of a write that the answer must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// Additions to the entries: `metadata`, `facets`, or both separated by a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
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
    /// Maximum number of `o200k_base` tokens of all entries together, up to 1,000,000. Whole
    /// entries are returned, from the first one on, as many as fit.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub token_budget: Option<u64>,
    /// Order within a budget: `recency` (the default) or `relevance`, which needs a `query` and a
    /// host that searches by meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Query that entries are ranked for, with a budget and `rank=relevance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Query parameters of a read of one entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Revision token of a write that the answer must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
    /// Additions to the entry: `metadata`, `facets`, or both separated by a comma. With it the
    /// answer is `{entry, metadata?, facets?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}

/// Query parameters of a put.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PutQuery {
    /// Additions to the answer: `metadata`, `facets`, or both separated by a comma. With it the
    /// answer to a single put is `{entry, metadata?, facets?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}

/// Query parameters of a read that takes a revision only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadQuery {
    /// Revision token of a write that the answer must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

/// A page of entries, newest first. With a token budget it holds as many as fit, and has no next
/// page.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct EntryList {
    /// Entries on this page, newest first.
    pub entries: Vec<MemoryEntry>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Metadata by entry id, if it was asked for; entries without metadata are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub metadata: BTreeMap<String, Metadata>,
    /// Facets by entry id, if they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facets: BTreeMap<String, EntryFacets>,
    /// Number of tokens of all entries together; only with a token budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_total: Option<u64>,
    /// Name of the tokenizer that counted; only with a token budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_counter: Option<String>,
    /// Ids of entries left out because each is larger than the whole token budget; only with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Vec<String>>,
}

/// Request to store several entries in one transaction: all are stored, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutMany {
    /// Entries to store, at most 1,000 by default.
    pub entries: Vec<PutEntry>,
}

/// Answer to a batch of puts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PutManyAnswer {
    /// Stored entries, in the order of the request.
    pub entries: Vec<MemoryEntry>,
    /// Revision token of the write, to be passed as `atLeast` to reads on any node.
    pub revision: String,
    /// Metadata by entry id, if it was asked for; entries without metadata are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub metadata: BTreeMap<String, Metadata>,
    /// Facets by entry id, if they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facets: BTreeMap<String, EntryFacets>,
}

/// Request to import entries with their ids and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// Entries to import, at most 1,000 by default.
    pub entries: Vec<ImportEntry>,
}

/// Answer to an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportAnswer {
    /// Number of entries stored.
    pub imported: u64,
    /// Number of entries skipped, because their id is or was in use.
    pub skipped: u64,
    /// Revision token of the write, to be passed as `atLeast` to reads on any node.
    pub revision: String,
}

/// Request to search a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// Text of the query, at most 4,096 characters.
    pub query: String,
    /// Number of hits: 10 if absent, the host's maximum (100 by default) if 0 or larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Kind of search: `hybrid` (by words and meaning; the default, by words alone where no model
    /// answers), `lexical` (in OpenWOP `filter`) or `semantic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
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
    /// Additions to the hits: `facets`. Metadata is always included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
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
    /// Treatment of a time in the query: `filter` (the default) searches entries of that time alone
    /// unless others answer much better, `prefer` breaks ties in its favour, `ignore` does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// True to return the parts of each hit's score; false if absent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub explain: bool,
    /// Number of entries to return before and after each hit, at most 10; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<u32>,
    /// Maximum number of hits of one source, which is the `source` in the metadata, otherwise the
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_source: Option<u32>,
    /// True to return no hits if they are probably irrelevant; false if absent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub abstain: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A hit of a search.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// Entry that was found.
    pub entry: MemoryEntry,
    /// Score relative to the best hit of the answer, which has 1.
    pub score: f64,
    /// Metadata of the entry; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Facets of the entry, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<EntryFacets>,
    /// Parts of the score, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ScoreParts>,
    /// Entries written right before the hit, nearest first, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<MemoryEntry>,
    /// Entries written right after the hit, nearest first, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<MemoryEntry>,
}

/// Answer to a search.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SearchAnswer {
    /// Hits of the search, best first.
    pub hits: Vec<SearchHit>,
    /// Probability that the hits contain a relevant entry, from 0 to 1.
    pub probability: f64,
    /// True if the probability is high enough to rely on the hits.
    pub relevant: bool,
    /// Kind of search that was used: `hybrid`, `lexical` or `semantic`.
    pub mode: String,
    /// Time that the query mentions; absent if it mentions none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SpokenTime>,
}

/// Counts of one memory.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// Number of live entries.
    pub entries: u64,
    /// Size of their texts in bytes.
    pub content_bytes: u64,
    /// Number of live entries with an expiry time.
    pub expiring: u64,
    /// Number of live entries that name a subject; 0 from a host of version 0.1.0.
    #[serde(default)]
    pub with_subject: u64,
    /// Time of the oldest live entry (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Instant>,
    /// Time of the newest live entry (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Instant>,
}

/// The metadata of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EntryMetadata {
    /// JSON object stored with the entry; empty if there is none.
    #[schema(value_type = Object)]
    pub metadata: Metadata,
}

/// Query parameters of the list of memories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemoriesQuery {
    /// Number of memories per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only memories whose name sorts after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Revision token of a write that the answer must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

/// Summary of one memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemorySummary {
    /// Name of the memory.
    pub memory_ref: String,
    /// Number of live entries.
    pub entries: u64,
}

/// A page of the tenant's memories, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryList {
    /// Memories on this page, ordered by name.
    pub memories: Vec<MemorySummary>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}
