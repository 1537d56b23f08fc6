//! The context compiler: what a model should know before it answers, as one text within a budget of
//! tokens that are counted, not guessed. What stands (procedures, facts that hold) comes first and
//! stays the same bytes while the entries do, so that a provider can cache it; what was found for
//! the question comes after it.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::recall::{ListRequest, as_of};
use crate::search::{Mode, SearchRequest, Searched};
use crate::tokens::O200k;
use remem_core::recall::{Block, Shown, compile, fit};
use remem_core::sabotage;
use remem_core::{Entry, EntryId, Permission, Rejection, Scope, Trust, Typology};
use remem_store::{Filter, Page, ReadAt};
use std::cmp::Reverse;

/// Entries that a list within a budget is picked from.
const LISTED_MAX: u32 = 200;
/// Tokens of a block at the most.
pub const BUDGET_MAX: u64 = 1_000_000;
/// Standing entries of each kind that are looked at.
const STANDING_MAX: u32 = 64;

/// What a recall asks for.
#[derive(Clone, Debug, Default)]
pub struct RecallRequest {
    /// What to look for, and how; `abstain` leaves out what is probably irrelevant.
    pub search: SearchRequest,
    /// Tokens that the block may have.
    pub budget: u64,
    /// Whether procedures and standing facts open it.
    pub standing: bool,
}

/// A block for a model.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The text, and what it is made of.
    pub block: Block,
    /// How probable it is that the question is answered by it.
    pub probability: f64,
    /// Whether that is enough to go by.
    pub relevant: bool,
    /// By what was found.
    pub mode: Mode,
}

/// Entries within a budget: a prefix of a ranked list.
#[derive(Clone, Debug, Default)]
pub struct Budgeted {
    /// The entries, in the order asked for.
    pub entries: Vec<Entry>,
    /// Their tokens together.
    pub tokens: u64,
    /// Entries that are larger than the whole budget, and were left out for that.
    pub over: Vec<EntryId>,
}

impl Engine {
    /// The block for a question.
    pub async fn recall(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: RecallRequest,
    ) -> Result<Recalled, EngineError> {
        let budget = within(request.budget)?;
        self.check_filter(&request.search.filter)?;
        let at = as_of(
            self.read_at(caller, request.search.at_least).await?,
            request.search.as_of,
        );
        let standing = if request.standing {
            self.standing(caller, memory_ref, &request.search.filter, &at)
                .await?
        } else {
            Vec::new()
        };
        let searched = self.search(caller, memory_ref, request.search).await?;
        let Searched {
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
            let shown: Vec<Shown<'_>> = hits
                .iter()
                .map(|hit| Shown {
                    entry: &hit.entry,
                    probability_ppm: None,
                })
                .collect();
            compile(&standing, &shown, &O200k::count, budget)
        };
        let block = self.parts.cpu.run(caller.tenant(), bytes, work).await?;
        Ok(Recalled {
            block,
            probability,
            relevant,
            mode,
        })
    }

    /// Procedures and statements that hold until further notice: the newest of each, which
    /// `compile` puts in an order of their own.
    async fn standing(
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
                typology: Some(typology),
                ..filter.clone()
            };
            let found = self.most_trusted(&scope, &filter, at).await?;
            // Of statements, those that answer a question for good: a slot is what another answer
            // would take the place of.
            standing.extend(
                found.into_iter().filter(|entry| {
                    typology == Typology::Procedural || entry.facets.slot.is_some()
                }),
            );
        }
        sabotage!(
            "what-stands-is-shown-without-a-second-look",
            self.show(caller, standing, at).await,
            Ok(standing)
        )
    }

    /// Entries that somebody vouches for: the most trusted ones, and of those the newest. However
    /// many of less trust were written since, they push none of them out.
    async fn most_trusted(
        &self,
        scope: &Scope,
        filter: &Filter,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, EngineError> {
        let page = Page {
            limit: STANDING_MAX,
            after: None,
        };
        let list = async |least| {
            let filter = Filter {
                trust_at_least: Some(least),
                ..filter.clone()
            };
            self.parts.store.list(scope, &filter, &page, at).await
        };
        let mut found = list(Trust::Model).await?;
        if found.len() < STANDING_MAX as usize {
            return Ok(found);
        }
        for least in [Trust::Tool, Trust::Action, Trust::Operator] {
            found.extend(list(least).await?);
        }
        found
            .sort_by_key(|entry| Reverse((entry.facets.trust, entry.created_at, entry.id.clone())));
        found.dedup_by(|a, b| a.id == b.id);
        found.truncate(STANDING_MAX as usize);
        Ok(found)
    }

    /// The newest entries, or those that answer a query best, within a budget. Whole entries only.
    pub async fn budgeted(
        &self,
        caller: &Caller,
        memory_ref: &str,
        list: ListRequest,
        (query, budget): (Option<SearchRequest>, u64),
    ) -> Result<Budgeted, EngineError> {
        let budget = within(budget)?;
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
                // A list by relevance says nothing of how it came about: no other order may pass
                // for the one that was asked for.
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
        let count = |text: &str| Ok::<_, EngineError>(O200k::count(text));
        let costs = self
            .parts
            .cpu
            .each(caller.tenant(), texts, |text| text.len(), count)
            .await?;
        let chosen = fit(&costs, budget);
        let tokens = chosen.iter().map(|at| costs[*at] as u64).sum();
        let over = entries
            .iter()
            .zip(&costs)
            .filter(|(_, cost)| **cost > budget)
            .map(|(entry, _)| entry.id.clone())
            .collect();
        let mut kept = chosen.into_iter().peekable();
        let entries = entries
            .into_iter()
            .enumerate()
            .filter(|(at, _)| kept.next_if_eq(at).is_some())
            .map(|(_, entry)| entry)
            .collect();
        Ok(Budgeted {
            entries,
            tokens,
            over,
        })
    }
}

fn within(budget: u64) -> Result<usize, EngineError> {
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
