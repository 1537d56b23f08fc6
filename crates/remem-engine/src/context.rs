//! The context compiler: the text that a model gets before it answers, within a budget of tokens
//! that are counted, not guessed. Standing entries (procedures, and facts that hold until further
//! notice) come first and are the same bytes while the entries are unchanged, so that a provider
//! can cache them. The hits for the question come after them.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::read::{ListRequest, snapshot_as_of};
use crate::search::{SearchMode, SearchRequest, SearchResult};
use crate::tokens::O200k;
use remem_core::recall::{BlockHit, ContextBlock, compile_context, fit_budget};
use remem_core::sabotage;
use remem_core::{Entry, EntryId, Permission, Rejection, Trust, Typology};
use remem_store::{Filter, ReadAt};

/// Entries that a list within a budget is picked from, unless the caller sets a limit.
const LISTED_MAX: u32 = 200;
/// Largest budget that a caller may request.
pub const BUDGET_MAX: u64 = 1_000_000;
/// Standing entries of each kind that are considered.
const STANDING_MAX: u32 = 64;

/// The parameters of a recall.
#[derive(Clone, Debug, Default)]
pub struct RecallRequest {
    /// The question and how to search; `abstain` leaves out what is probably irrelevant.
    pub search: SearchRequest,
    /// Largest number of tokens of the text.
    pub token_budget: u64,
    /// Whether the text starts with procedures and standing facts.
    pub standing: bool,
}

/// The result of a recall: a text for a model.
#[derive(Clone, Debug, Default)]
pub struct RecallResult {
    /// The text, and the entries that it was made of.
    pub block: ContextBlock,
    /// The probability that at least one hit is relevant to the question.
    pub probability: f64,
    /// Whether the probability is above the calibrated threshold.
    pub relevant: bool,
    /// The index that was used for the hits.
    pub mode: SearchMode,
}

/// A prefix of a ranked list of entries that fits into a budget of tokens.
#[derive(Clone, Debug, Default)]
pub struct BudgetedEntries {
    /// The entries, in the order of the list.
    pub entries: Vec<Entry>,
    /// The tokens of all returned entries together.
    pub tokens: u64,
    /// Ids of entries that were left out because each is larger than the whole budget.
    pub oversized: Vec<EntryId>,
}

impl Engine {
    /// Compiles the text for a question from standing entries and search hits.
    pub async fn recall(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: RecallRequest,
    ) -> Result<RecallResult, EngineError> {
        let budget = check_budget(request.token_budget)?;
        self.check_filter(&request.search.filter)?;
        let at = snapshot_as_of(
            self.read_at(caller, request.search.at_least).await?,
            request.search.as_of,
        );
        let standing = if request.standing {
            self.standing_entries(caller, memory_ref, &request.search.filter, &at)
                .await?
        } else {
            Vec::new()
        };
        let searched = self.search(caller, memory_ref, request.search).await?;
        let SearchResult {
            hits,
            probability,
            relevant,
            mode,
            ..
        } = searched;
        let bytes = standing
            .iter()
            .map(|entry| entry.content.len())
            .sum::<usize>();
        let bytes = bytes
            + hits
                .iter()
                .map(|hit| hit.entry.content.len())
                .sum::<usize>();
        let work = || {
            let standing: Vec<&Entry> = standing.iter().collect();
            let shown: Vec<BlockHit<'_>> = hits
                .iter()
                .map(|hit| BlockHit {
                    entry: &hit.entry,
                    probability_ppm: None,
                })
                .collect();
            compile_context(&standing, &shown, &O200k::count, budget)
        };
        let block = self.parts.cpu.run(caller.tenant(), bytes, work).await?;
        Ok(RecallResult {
            block,
            probability,
            relevant,
            mode,
        })
    }

    /// Returns the procedures and the statements that hold until further notice: of each the most
    /// trusted, and of equally trusted ones the newest. Newer entries of less trust push none of
    /// them out, however many there are; entries with less trust than a model's are never returned.
    /// `compile_context` orders them.
    async fn standing_entries(
        &self,
        caller: &Caller,
        memory_ref: &str,
        filter: &Filter,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(Vec::new());
        };
        let mut standing = Vec::new();
        for typology in [Typology::Procedural, Typology::Semantic] {
            if filter.typology.is_some_and(|wanted| wanted != typology) {
                continue;
            }
            let filter = Filter {
                trust_at_least: filter.trust_at_least.max(Some(Trust::Model)),
                ..filter.clone()
            };
            let store = &self.parts.store;
            let found = store
                .standing_entries(&scope, typology, &filter, STANDING_MAX, at)
                .await?;
            standing.extend(found);
        }
        sabotage!(
            "what-stands-is-shown-without-a-second-look",
            self.review_entries(caller, standing, at).await,
            Ok(standing)
        )
    }

    /// Returns the newest entries, or those that match a query best, within a budget of tokens.
    /// Entries are never cut.
    pub async fn list_within_budget(
        &self,
        caller: &Caller,
        memory_ref: &str,
        list: ListRequest,
        query: Option<SearchRequest>,
        budget: u64,
    ) -> Result<BudgetedEntries, EngineError> {
        let budget = check_budget(budget)?;
        let limit = list.limit;
        let entries = match query {
            Some(search) => {
                let wanted = search.mode;
                let found = self
                    .search(
                        caller,
                        memory_ref,
                        SearchRequest {
                            limit: search.limit.or(Some(0)),
                            ..search
                        },
                    )
                    .await?;
                // The result does not say which index was used. So fail rather than return the
                // order of another mode as that of the requested one.
                if sabotage!(
                    "another-order-passes-for-relevance",
                    found.mode != wanted,
                    false
                ) {
                    return Err(EngineError::NoEmbedder);
                }
                found.hits.into_iter().map(|hit| hit.entry).collect()
            }
            None => {
                self.list(
                    caller,
                    memory_ref,
                    ListRequest {
                        limit: Some(limit.unwrap_or(LISTED_MAX)),
                        ..list
                    },
                )
                .await?
                .entries
            }
        };
        let entries: Vec<Entry> = entries
            .into_iter()
            .take(limit.unwrap_or(LISTED_MAX).max(1) as usize)
            .collect();
        let texts: Vec<&str> = entries.iter().map(|entry| &*entry.content).collect();
        let tokens_of = |text: &str| Ok::<_, EngineError>(O200k::count(text));
        let costs = self
            .parts
            .cpu
            .each(caller.tenant(), texts, |text| text.len(), tokens_of)
            .await?;
        let chosen = fit_budget(&costs, budget);
        let tokens = chosen.iter().map(|at| costs[*at] as u64).sum();
        let over = entries
            .iter()
            .zip(&costs)
            .filter(|(_, cost)| **cost > budget)
            .map(|(entry, _)| entry.id.clone())
            .collect();
        let mut chosen_indices = chosen.into_iter().peekable();
        let entries = entries
            .into_iter()
            .enumerate()
            .filter(|(at, _)| chosen_indices.next_if_eq(at).is_some())
            .map(|(_, entry)| entry)
            .collect();
        Ok(BudgetedEntries {
            entries,
            tokens,
            oversized: over,
        })
    }
}

/// Refuses a budget of zero and one above [`BUDGET_MAX`].
fn check_budget(budget: u64) -> Result<usize, EngineError> {
    if sabotage!("a-budget-of-nothing", budget == 0, false) {
        return Err(Rejection::Invalid {
            field: "tokenBudget",
            rule: "must be at least 1",
        }
        .into());
    }
    if budget > BUDGET_MAX {
        return Err(Rejection::TooLarge {
            field: "tokenBudget",
            unit: "tokens",
            limit: BUDGET_MAX,
            actual: budget,
        }
        .into());
    }
    Ok(usize::try_from(budget).unwrap_or(usize::MAX))
}
