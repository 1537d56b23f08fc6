//! The retrieval part of the memory API: search, recall (one block of text for a model), lists
//! within a budget of tokens, and the progress of embeddings.

use super::entries::filter;
use super::{EngineDoor, Include, fail, invalid, revision};
use async_trait::async_trait;
use remem_core::distill::TOKENIZER;
use remem_engine::context::RecallRequest as EngineRecall;
use remem_engine::recall::ListRequest;
use remem_engine::search::{
    Hit, Mode, ScoreParts as EngineParts, SearchRequest as EngineSearch, TimeUse,
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
pub trait RecallDoor: Send + Sync {
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
impl RecallDoor for EngineDoor {
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
            .map_err(fail)?;
        let spoken = |(when, applied): (remem_core::recall::When, bool)| SpokenTime {
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
                    budget,
                    standing,
                },
            )
            .await
            .map_err(fail)?;
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
        let status = self.engine.embeddings(&self.caller).await.map_err(fail)?;
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
    let session_and_interaction = (request.session.as_deref(), request.interaction.as_deref());
    Ok(EngineSearch {
        mode: parse_mode(request.mode.as_deref())?,
        time: parse_time_use(request.time.as_deref())?,
        limit: request.limit,
        filter: Filter {
            tags: request.tags,
            created_from: request.created_from.map(|t| t.0),
            created_to: request.created_to.map(|t| t.0),
            ..filter(request.tier, request.typology, session_and_interaction)?
        },
        at_least: revision(request.at_least.as_deref())?,
        as_of: request.as_of.map(|t| t.0),
        neighbours: request.neighbours.unwrap_or_default(),
        per_source: request.per_source,
        abstain: request.abstain,
        query: request.query,
        // A lexical search returns only entries that hold the words of the query, so neighbours of
        // good hits get no bonus.
        no_context: matches!(request.mode.as_deref(), Some("lexical" | "filter")),
    })
}

fn parse_mode(name: Option<&str>) -> Result<Mode, Failure> {
    match name {
        None | Some("hybrid") => Ok(Mode::Hybrid),
        Some("lexical" | "filter") => Ok(Mode::Lexical),
        Some("semantic") => Ok(Mode::Semantic),
        Some(_) => Err(invalid(
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
        Some(_) => Err(invalid("time", "must be filter, prefer or ignore")),
    }
}

fn search_hit(hit: Hit, include: Include, explain: bool) -> SearchHit {
    let EntryBeside {
        entry,
        metadata,
        facets,
    } = include.beside(hit.entry);
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
pub(super) struct Budget {
    tokens: u64,
    query: Option<String>,
}

/// Reads the budget of a list from its query; `None` for a list that is paged instead.
pub(super) fn budget(query: &ListQuery) -> Result<Option<Budget>, Failure> {
    let relevance = match query.rank.as_deref() {
        None | Some("recency") => false,
        Some("relevance") => true,
        Some(_) => return Err(invalid("rank", "must be recency or relevance")),
    };
    let Some(tokens) = query.token_budget else {
        let needs_budget = if query.rank.is_some() {
            Some("rank")
        } else {
            query.query.is_some().then_some("query")
        };
        return needs_budget.map_or(Ok(None), |field| {
            Err(invalid(field, "requires tokenBudget"))
        });
    };
    if query.cursor.is_some() {
        return Err(invalid(
            "cursor",
            "does not go with a tokenBudget, which has one page",
        ));
    }
    match (relevance, &query.query) {
        (true, None) => Err(invalid("query", "is required for rank relevance")),
        (false, Some(_)) => Err(invalid("query", "needs rank relevance")),
        (_, query) => Ok(Some(Budget {
            tokens,
            query: query.clone(),
        })),
    }
}

impl EngineDoor {
    /// Lists whole entries that fit the budget together, and the ids of those that exceed it alone.
    pub(super) async fn list_within(
        &self,
        memory_ref: &str,
        list: ListRequest,
        budget: Budget,
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
            .budgeted(&self.caller, memory_ref, list, (search, budget.tokens))
            .await
            .map_err(fail)?;
        Ok(EntryList {
            token_total: Some(found.tokens),
            token_counter: Some(TOKENIZER.to_owned()),
            omitted: Some(
                found
                    .over
                    .into_iter()
                    .map(|id| id.as_str().to_owned())
                    .collect(),
            ),
            ..include.list(found.entries)
        })
    }
}
