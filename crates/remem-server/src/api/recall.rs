//! The retrieval part of the memory API: search, recall (one block of text for a model), lists
//! within a budget of tokens, and the progress of embeddings.

use super::entries::workshop_filter;
use super::{Include, LocalApi, engine_failure, invalid_field, parse_revision};
use async_trait::async_trait;
use remem_core::distill::TOKENIZER;
use remem_engine::context::RecallRequest as EngineRecall;
use remem_engine::read::ListRequest;
use remem_engine::search::{
    ScoreParts as EngineParts, ScoredHit, SearchMode, SearchRequest as EngineSearch, TimeUse,
};
use remem_store::Filter;
use remem_wire::entry::EntryBeside;
use remem_wire::memory::{EntryList, ListQuery, SearchAnswer, SearchHit, SearchRequest};
use remem_wire::recall::{
    EmbeddingComparison, EmbeddingCount, EmbeddingModel, EmbeddingStatus, RecallAnswer,
    RecallRequest, ScoreParts, SpokenTime,
};
use remem_wire::time::Instant;
use remem_wire::{Failure, MemoryEntry};

/// Token budget of a recall whose request names none.
const DEFAULT_TOKEN_BUDGET: u64 = 800;

/// Search, recall and the state of embeddings, on behalf of one caller.
#[async_trait]
pub trait RecallApi: Send + Sync {
    /// Returns the entries that answer a query, best first.
    async fn search(
        &self,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<SearchAnswer, Failure>;
    /// Returns one text within a budget of tokens: what a model should know before it answers the
    /// question.
    async fn recall(
        &self,
        memory_ref: &str,
        request: RecallRequest,
    ) -> Result<RecallAnswer, Failure>;
    /// Returns how many entries have embeddings, of which models, and which model serves searches.
    async fn embeddings(&self) -> Result<EmbeddingStatus, Failure>;
}

#[async_trait]
impl RecallApi for LocalApi {
    async fn search(
        &self,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<SearchAnswer, Failure> {
        let include = Include {
            metadata: true,
            ..Include::parse(request.include.as_deref())?
        };
        let explain = request.explain;
        let found = self
            .engine
            .search(&self.caller, memory_ref, engine_search(request)?)
            .await
            .map_err(engine_failure)?;
        let spoken = |(when, applied): (remem_core::recall::QueryTime, bool)| SpokenTime {
            from: Instant(when.from),
            until: Instant(when.until),
            applied,
        };
        Ok(SearchAnswer {
            hits: found
                .hits
                .into_iter()
                .map(|hit| search_hit(hit, include, explain))
                .collect(),
            probability: found.probability,
            relevant: found.relevant,
            mode: found.mode.as_str().to_owned(),
            when: found.when.map(spoken),
        })
    }

    async fn recall(
        &self,
        memory_ref: &str,
        request: RecallRequest,
    ) -> Result<RecallAnswer, Failure> {
        let budget = request.token_budget.unwrap_or(DEFAULT_TOKEN_BUDGET);
        let standing = request.standing.unwrap_or(true);
        let search = engine_search(SearchRequest {
            query: request.query,
            limit: request.limit,
            mode: request.mode,
            time: request.time,
            per_source: request.per_source,
            abstain: request.abstain.unwrap_or(true),
            tags: request.tags,
            created_from: request.created_from,
            created_to: request.created_to,
            at_least: request.at_least,
            as_of: request.as_of,
            tier: request.tier,
            typology: request.typology,
            interaction: request.interaction,
            session: request.session,
            ..SearchRequest::default()
        })?;
        let recalled = self
            .engine
            .recall(
                &self.caller,
                memory_ref,
                EngineRecall {
                    search,
                    token_budget: budget,
                    standing,
                },
            )
            .await
            .map_err(engine_failure)?;
        let block = recalled.block;
        let names = |ids: Vec<remem_core::EntryId>| {
            ids.into_iter().map(|id| id.as_str().to_owned()).collect()
        };
        Ok(RecallAnswer {
            tokens: block.tokens as u64,
            token_budget: budget,
            prefix_bytes: block.prefix_bytes as u64,
            text: block.text,
            ids: names(block.ids),
            omitted: names(block.omitted),
            probability: recalled.probability,
            relevant: recalled.relevant,
            mode: recalled.mode.as_str().to_owned(),
        })
    }

    async fn embeddings(&self) -> Result<EmbeddingStatus, Failure> {
        let status = self
            .engine
            .embedding_status(&self.caller)
            .await
            .map_err(engine_failure)?;
        let share = |thousandths: u64| thousandths as f64 / 1_000.0;
        Ok(EmbeddingStatus {
            current: status.current.map(|(name, dimensions)| EmbeddingModel {
                name,
                dimensions: dimensions as u64,
            }),
            serving: status.serving,
            texts: status.texts,
            vectors: status
                .vectors
                .into_iter()
                .map(|(model, entries)| EmbeddingCount { model, entries })
                .collect(),
            comparison: status.comparison.map(|comparison| EmbeddingComparison {
                overlap: share(comparison.overlap),
                agreement: share(comparison.agreement),
                questions: comparison.questions,
                passed: comparison.passed,
            }),
        })
    }
}

fn engine_search(request: SearchRequest) -> Result<EngineSearch, Failure> {
    let session = request.session.as_deref();
    let interaction = request.interaction.as_deref();
    Ok(EngineSearch {
        mode: parse_mode(request.mode.as_deref())?,
        time: parse_time_use(request.time.as_deref())?,
        limit: request.limit,
        filter: Filter {
            tags: request.tags,
            created_from: request.created_from.map(|t| t.0),
            created_to: request.created_to.map(|t| t.0),
            ..workshop_filter(request.tier, request.typology, session, interaction)?
        },
        at_least: parse_revision(request.at_least.as_deref())?,
        as_of: request.as_of.map(|t| t.0),
        neighbours: request.neighbours.unwrap_or_default(),
        per_source: request.per_source,
        abstain: request.abstain,
        query: request.query,
        // A lexical search returns only entries that hold the words of the query, so neighbours of
        // good hits get no bonus.
        ignore_neighbours: matches!(request.mode.as_deref(), Some("lexical" | "filter")),
    })
}

fn parse_mode(name: Option<&str>) -> Result<SearchMode, Failure> {
    match name {
        None | Some("hybrid") => Ok(SearchMode::Hybrid),
        Some("lexical" | "filter") => Ok(SearchMode::Lexical),
        Some("semantic") => Ok(SearchMode::Semantic),
        Some(_) => Err(invalid_field(
            "mode",
            "must be hybrid, lexical (or filter) or semantic",
        )),
    }
}

fn parse_time_use(name: Option<&str>) -> Result<TimeUse, Failure> {
    match name {
        Some("prefer") => Ok(TimeUse::Prefer),
        None | Some("filter") => Ok(TimeUse::Filter),
        Some("ignore") => Ok(TimeUse::Ignore),
        Some(_) => Err(invalid_field("time", "must be filter, prefer or ignore")),
    }
}

fn search_hit(hit: ScoredHit, include: Include, explain: bool) -> SearchHit {
    let EntryBeside {
        entry,
        metadata,
        facets,
    } = include.render(hit.entry);
    let neighbours =
        |entries: Vec<remem_core::Entry>| entries.iter().map(MemoryEntry::from).collect();
    let parts = explain.then(|| score_parts(hit.parts));
    SearchHit {
        entry,
        score: hit.score,
        metadata,
        facets,
        parts,
        before: neighbours(hit.before),
        after: neighbours(hit.after),
    }
}

fn score_parts(parts: EngineParts) -> ScoreParts {
    let EngineParts {
        lexical,
        meaning,
        typo,
        context,
        recency,
        tier,
        corroboration,
        usage,
    } = parts;
    ScoreParts {
        lexical,
        meaning,
        typo,
        context,
        recency,
        tier,
        corroboration,
        usage,
    }
}

/// The budget of a list: the number of tokens, and the query that its entries are ranked for. With
/// no query the newest entries are listed.
pub(super) struct ListBudget {
    tokens: u64,
    query: Option<String>,
}

/// Reads the budget of a list from its query; `None` for a list that is paged instead.
pub(super) fn list_budget(query: &ListQuery) -> Result<Option<ListBudget>, Failure> {
    let relevance = match query.rank.as_deref() {
        None | Some("recency") => false,
        Some("relevance") => true,
        Some(_) => return Err(invalid_field("rank", "must be recency or relevance")),
    };
    let Some(tokens) = query.token_budget else {
        let needs_budget = if query.rank.is_some() {
            Some("rank")
        } else {
            query.query.is_some().then_some("query")
        };
        return needs_budget.map_or(Ok(None), |field| {
            Err(invalid_field(field, "requires tokenBudget"))
        });
    };
    if query.cursor.is_some() {
        return Err(invalid_field(
            "cursor",
            "does not go with a tokenBudget, which has one page",
        ));
    }
    match (relevance, &query.query) {
        (true, None) => Err(invalid_field("query", "is required for rank relevance")),
        (false, Some(_)) => Err(invalid_field("query", "needs rank relevance")),
        (_, query) => Ok(Some(ListBudget {
            tokens,
            query: query.clone(),
        })),
    }
}

impl LocalApi {
    /// Lists whole entries that fit the budget together, and the ids of those that exceed it alone.
    pub(super) async fn list_within_budget(
        &self,
        memory_ref: &str,
        list: ListRequest,
        budget: ListBudget,
        include: Include,
    ) -> Result<EntryList, Failure> {
        // In every list a limit of 0 asks for the host's maximum. Within a budget that maximum is
        // another one, which the engine applies to a request without a limit.
        let list = ListRequest {
            limit: list.limit.filter(|limit| *limit > 0),
            ..list
        };
        let search = budget.query.map(|query| EngineSearch {
            query,
            filter: list.filter.clone(),
            at_least: list.at_least,
            as_of: list.as_of,
            ..EngineSearch::default()
        });
        let found = self
            .engine
            .list_within_budget(&self.caller, memory_ref, list, search, budget.tokens)
            .await
            .map_err(engine_failure)?;
        Ok(EntryList {
            token_total: Some(found.tokens),
            token_counter: Some(TOKENIZER.to_owned()),
            omitted: Some(
                found
                    .oversized
                    .into_iter()
                    .map(|id| id.as_str().to_owned())
                    .collect(),
            ),
            ..include.render_list(found.entries)
        })
    }
}
