//! Search by words and by meaning, ranked by `remem_core::recall`, with the probability that any
//! hit is relevant. Every hit is redacted again by today's rules before it is returned.

use crate::caller::Caller;
use crate::cpu;
use crate::embedders::{RecentQuery, embed_one};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::read::{count_within_bytes, snapshot_as_of};
use remem_core::recall::{
    self, Calibration, Neighbour, QueryTime, RankCandidate, RankRequest, ScorePartsPpm, Signals,
    Weights,
};
use remem_core::sabotage;
use remem_core::{
    Embedding, Entry, EntryId, ModelId, Permission, Query, Rejection, Revision, Scope, TenantId,
    Timestamp,
};
use remem_store::{CandidateSet, Filter, Neighbours, Probe, ReadAt};

/// Candidates of each kind (by words, by meaning) that are ranked, at least.
const DEPTH: u32 = 150;
/// Neighbours on either side of a hit that a caller may request.
pub const NEIGHBOURS_MAX: u32 = 10;

/// Which index a search uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// Words and vectors, if this host has an embedding model; words only otherwise.
    #[default]
    Hybrid,
    /// Words only, ranked by BM25.
    Lexical,
    /// Vectors only; an error on a host without an embedding model.
    Semantic,
}

impl SearchMode {
    /// The name of this mode in requests and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SearchMode::Hybrid => "hybrid",
            SearchMode::Lexical => "lexical",
            SearchMode::Semantic => "semantic",
        }
    }
}

/// How a search uses a date or period that the query mentions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUse {
    /// Only entries of that period are returned, unless they match far less well than entries of
    /// all times.
    #[default]
    Filter,
    /// Entries of that period come first among otherwise equal ones.
    Prefer,
    /// The period is ignored.
    Ignore,
}

/// The parameters of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// The query text, as typed.
    pub query: String,
    /// Number of hits wanted; see `Policy::search_limit`.
    pub limit: Option<u32>,
    /// Conditions that every hit must meet.
    pub filter: Filter,
    /// Wait until the node has this revision before reading.
    pub at_least: Option<Revision>,
    /// Search the entries that were valid at this instant, rather than now.
    pub as_of: Option<Timestamp>,
    /// Which index to use.
    pub mode: SearchMode,
    /// How to use a period that the query mentions.
    pub time: TimeUse,
    /// Number of entries to return before and after each hit.
    pub neighbours: u32,
    /// Hits from one source at most. Without it, a source of untrusted entries gets two hits of
    /// ten.
    pub per_source: Option<u32>,
    /// Return no hits when the probability that any is relevant is below the threshold.
    pub abstain: bool,
    /// Ignore neighbouring entries in the ranking: for callers who want entries that contain their
    /// words, and for evaluations.
    pub ignore_neighbours: bool,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The hits, best first.
    pub hits: Vec<ScoredHit>,
    /// The probability that at least one hit is relevant.
    pub probability: f64,
    /// Whether the probability is above the calibrated threshold.
    pub relevant: bool,
    /// The index that was used: words only, where no model answered.
    pub mode: SearchMode,
    /// The period that the query mentions, and whether only entries of that period were searched.
    pub when: Option<(QueryTime, bool)>,
    /// The measurements that the probability was computed from; for evaluations.
    pub signals: Signals,
}

/// One entry of a search result.
#[derive(Clone, Debug)]
pub struct ScoredHit {
    /// The matching entry, redacted.
    pub entry: Entry,
    /// How well the entry matches, relative to the best hit of the same result, which has 1.
    pub score: f64,
    /// How each factor contributes to the score, in the same unit.
    pub parts: ScoreParts,
    /// Entries written right before this one, the nearest first.
    pub before: Vec<Entry>,
    /// Entries written right after this one, the nearest first.
    pub after: Vec<Entry>,
}

/// The contributions that sum to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreParts {
    /// Words of the query that the entry contains.
    pub lexical: f64,
    /// Similarity of the entry's vector to that of the query.
    pub meaning: f64,
    /// Words that match after correcting a spelling mistake in the query.
    pub typo: f64,
    /// Relevance of the entries written right before and after.
    pub context: f64,
    /// Age of the entry, or its distance from the period that the query mentions.
    pub recency: f64,
    /// How long the tier of the entry lasts.
    pub tier: f64,
    /// Number of entries that state the same.
    pub corroboration: f64,
    /// Number of actions that refer to the entry.
    pub usage: f64,
}

impl ScoreParts {
    /// Scales the integer parts so that the best hit's score is 1.
    fn relative_to(parts: &ScorePartsPpm, best: f64) -> ScoreParts {
        let of = |part: i64| part as f64 / best;
        ScoreParts {
            lexical: of(parts.lexical),
            meaning: of(parts.meaning),
            typo: of(parts.typo),
            context: of(parts.context),
            recency: of(parts.recency),
            tier: of(parts.tier),
            corroboration: of(parts.corroboration),
            usage: of(parts.usage),
        }
    }
}

/// A search in progress: its parsed request and the snapshot that it reads.
struct SearchExecution<'a> {
    engine: &'a Engine,
    scope: Scope,
    request: &'a SearchRequest,
    terms: Vec<String>,
    vector: Option<(ModelId, Embedding)>,
    when: Option<QueryTime>,
    snapshot: ReadAt,
    limit: usize,
}

/// Ranked hits before they are redacted again.
struct Ranking {
    hits: Vec<(Entry, i64, ScorePartsPpm)>,
    signals: Signals,
}

impl Engine {
    /// Searches a memory for the entries that best match a query, best first.
    pub async fn search(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<SearchResult, EngineError> {
        caller.require(Permission::MemoryRead)?;
        check_numbers(&request)?;
        self.check_filter(&request.filter)?;
        let query = Query::parse(&request.query, &self.parts.policy)?;
        let at = snapshot_as_of(self.read_at(caller, request.at_least).await?, request.as_of);
        let scope = caller.scope(memory_ref);
        let vector = self
            .query_vector(caller.tenant(), scope.as_ref(), &request)
            .await?;
        let mode = match request.mode {
            SearchMode::Hybrid if vector.is_none() => SearchMode::Lexical,
            mode => mode,
        };
        let terms = if mode == SearchMode::Semantic {
            Vec::new()
        } else {
            query.terms().to_vec()
        };
        let time = (request.time != TimeUse::Ignore).then_some(&request.query);
        let when = time.and_then(|query| recall::when::read_query_time_utc(query, at.instant()));
        // An unknown memory is answered exactly as an empty one, so that names cannot be guessed.
        let Some(scope) = scope else {
            return Ok(sabotage!(
                "an-unknown-memory-is-answered-otherwise-than-an-empty-one",
                SearchResult {
                    mode,
                    when: when.map(|when| (when, false)),
                    ..SearchResult::default()
                },
                SearchResult {
                    mode,

                    ..SearchResult::default()
                }
            ));
        };
        let limit = self.parts.policy.search_limit(request.limit) as usize;
        let execution = SearchExecution {
            engine: self,
            scope,
            request: &request,
            terms,
            vector,
            when,
            snapshot: at,
            limit,
        };
        let mut searched = execution.execute(caller).await?;
        searched.mode = mode;
        Ok(searched)
    }

    /// Names of the entries that a run may read and that answer the query, best first, as the run
    /// sees them.
    pub(crate) async fn search_at(
        &self,
        scope: Scope,
        query: &str,
        at: ReadAt,
    ) -> Result<Vec<EntryId>, EngineError> {
        let terms = Query::parse(query, &self.parts.policy)?.terms().to_vec();
        let request = SearchRequest {
            query: query.to_owned(),
            time: TimeUse::Ignore,
            ..SearchRequest::default()
        };
        let vector = self
            .query_vector(&scope.tenant, Some(&scope), &request)
            .await?;
        let limit = self.parts.policy.search_limit(Some(0)) as usize;
        let searching = SearchExecution {
            engine: self,
            scope,
            request: &request,
            terms,
            vector,
            when: None,
            snapshot: at,
            limit,
        };
        let ranking = searching.rank(&request.filter).await?;
        let best = ranking.hits.into_iter().map(|(entry, ..)| entry.id);
        Ok(best.collect())
    }

    /// The vector of the query, if the mode needs one. The model may be a remote service: the query
    /// is redacted before it is sent.
    async fn query_vector(
        &self,
        tenant: &TenantId,
        scope: Option<&Scope>,
        request: &SearchRequest,
    ) -> Result<Option<(ModelId, Embedding)>, EngineError> {
        if request.mode == SearchMode::Lexical || !self.parts.store.features().vectors {
            return if request.mode == SearchMode::Semantic {
                Err(EngineError::NoEmbedder)
            } else {
                Ok(None)
            };
        }
        let Some(embedder) = self.serving_model(tenant).await? else {
            return if request.mode == SearchMode::Semantic {
                Err(EngineError::NoEmbedder)
            } else {
                Ok(None)
            };
        };
        let rules = self.redaction_rules(tenant).await?;
        let shapes = self.policy_for(tenant).await?.shapes;
        let text = sabotage!(
            "a-query-is-sent-as-it-was-typed",
            self.parts
                .cpu
                .run(tenant, cpu::text_bytes(&request.query), || rules
                    .redactor()
                    .clean_derived(&request.query, shapes))
                .await?
                .text
                .into_string(),
            request.query.clone()
        );
        match embed_one(&*embedder, &text).await {
            Ok(vector) => {
                if let Some(scope) = scope {
                    self.parts.embedders.remember_query(
                        &scope.tenant,
                        RecentQuery {
                            memory_ref: scope.memory_ref.clone(),
                            text,
                        },
                    );
                }
                Ok(Some((embedder.id(), vector)))
            }
            Err(error) => {
                metrics::counter!("remem_embedder_errors", "class" => error.as_str()).increment(1);
                tracing::warn!(class = error.as_str(), "no vector for a query");
                if request.mode == SearchMode::Semantic {
                    Err(EngineError::NoEmbedder)
                } else {
                    Ok(None)
                }
            }
        }
    }
}

impl SearchExecution<'_> {
    /// Ranks the entries, decides about the period and about abstaining, and redacts the hits.
    async fn execute(&self, caller: &Caller) -> Result<SearchResult, EngineError> {
        let calibration = Calibration::default();
        let narrow_filter = self
            .when
            .as_ref()
            .filter(|_| self.request.time == TimeUse::Filter)
            .map(|when| within_period(&self.request.filter, when));
        let mut ranking = self.rank(&self.request.filter).await?;
        let mut filtered = false;
        if let Some(filter) = &narrow_filter {
            let narrow_ranking = self.rank(filter).await?;
            filtered = matches_half_as_well(&narrow_ranking.signals, &ranking.signals);
            if filtered {
                ranking = narrow_ranking;
            }
        }
        let verdict = recall::relevance_verdict(&ranking.signals, &calibration);
        if self.request.abstain && !verdict.is_relevant {
            ranking.hits.clear();
        }
        Ok(SearchResult {
            hits: self.review_hits(caller, ranking.hits).await?,
            probability: verdict.probability_ppm as f64 / recall::PPM as f64,
            relevant: verdict.is_relevant,
            mode: self.request.mode,
            when: self.when.clone().map(|when| (when, filtered)),
            signals: ranking.signals,
        })
    }

    /// Fetches candidates that pass `filter`, and their neighbours, and ranks them.
    async fn rank(&self, filter: &Filter) -> Result<Ranking, EngineError> {
        let depth = DEPTH.max(self.limit as u32 * 3);
        let probe = Probe {
            terms: self.terms.clone(),
            vector: self.vector.clone(),
        };
        let found = self
            .engine
            .parts
            .store
            .search(&self.scope, &probe, filter, depth, &self.snapshot)
            .await?;
        let around = if self.request.ignore_neighbours {
            Vec::new()
        } else {
            self.neighbours_of_best(&found).await?
        };
        let candidates: Vec<RankCandidate<'_>> = found
            .candidates
            .iter()
            .map(|candidate| RankCandidate {
                entry: &candidate.entry,
                lexical: candidate.lexical,
                cosine: candidate.cosine,
                typo: candidate.correction_score,
                support: candidate.support,
                uses: candidate.uses,
            })
            .collect();
        let neighbours = around.iter().flat_map(|group| {
            group
                .before
                .iter()
                .chain(&group.after)
                .map(move |entry| Neighbour {
                    candidate_id: &group.id,
                    entry,
                })
        });
        let neighbours: Vec<Neighbour<'_>> = neighbours
            .filter(|neighbour| {
                sabotage!(
                    "what-stands-beside-a-hit-passes-the-filter",
                    filter_matches(filter, neighbour.entry),
                    true
                )
            })
            .collect();
        let request = RankRequest {
            now: self.snapshot.instant(),
            weights: Weights::default(),
            per_source: self.request.per_source,
            per_untrusted_source: Some(untrusted_source_max(self.limit)),
            time_range: self.when.as_ref().map(QueryTime::range),
            lexical_best_possible: found.lexical_max,
        };
        let ranked = recall::rank_candidates(&candidates, &neighbours, &request);
        let signals = Signals::of(&candidates, &ranked, &request);
        let hits = ranked
            .iter()
            .take(self.limit)
            .map(|hit| (hit.entry.clone(), hit.score, hit.parts))
            .collect();
        Ok(Ranking { hits, signals })
    }

    /// The neighbours of the candidates that match best, by words and vectors together.
    async fn neighbours_of_best(
        &self,
        found: &CandidateSet,
    ) -> Result<Vec<Neighbours>, EngineError> {
        let words = |candidate: &remem_store::SearchCandidate| {
            candidate.lexical + candidate.correction_score
        };
        let lexical = found.candidates.iter().map(words);
        let cosine = found
            .candidates
            .iter()
            .filter_map(|candidate| candidate.cosine);
        let most = (
            lexical.fold(f64::MIN_POSITIVE, f64::max),
            cosine.fold(f64::MIN_POSITIVE, f64::max),
        );
        let fused = |candidate: &remem_store::SearchCandidate| {
            words(candidate) / most.0 + candidate.cosine.unwrap_or(0.0).max(0.0) / most.1
        };
        let mut best: Vec<(f64, &EntryId)> = found
            .candidates
            .iter()
            .map(|candidate| (fused(candidate), &candidate.entry.id))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(a.1)));
        let ids: Vec<EntryId> = best
            .into_iter()
            .take(recall::rank::LIFTING_CANDIDATES_MAX)
            .map(|(_, id)| id.clone())
            .collect();
        Ok(self
            .engine
            .parts
            .store
            .neighbours(&self.scope, &ids, 1, &self.snapshot)
            .await?)
    }

    /// Redacts the hits that fit into a page, and adds the neighbours that the request asks for.
    async fn review_hits(
        &self,
        caller: &Caller,
        hits: Vec<(Entry, i64, ScorePartsPpm)>,
    ) -> Result<Vec<ScoredHit>, EngineError> {
        let reach = self.request.neighbours;
        let ids: Vec<EntryId> = hits.iter().map(|(entry, ..)| entry.id.clone()).collect();
        let store = &self.engine.parts.store;
        let mut around = if reach == 0 {
            Vec::new()
        } else {
            store
                .neighbours(&self.scope, &ids, reach, &self.snapshot)
                .await?
        };
        let best = hits
            .first()
            .map_or(1.0, |(_, score, _)| (*score).max(1) as f64);
        let policy = self.engine.policy_of(caller);
        let rules = self.engine.redaction_rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, self.snapshot.instant());
        let review = |entry: Entry| {
            sabotage!(
                "hits-are-shown-without-a-second-look",
                admission.redact_for_reader(entry),
                {
                    let _ = &admission;
                    entry
                }
            )
        };
        let mut hits_with_neighbours = Vec::with_capacity(hits.len());
        for (entry, score, parts) in hits {
            let group = around
                .iter()
                .position(|group| group.id == entry.id)
                .map(|at| around.swap_remove(at));
            let (before, after) = group
                .map(|group| (group.before, group.after))
                .unwrap_or_default();
            hits_with_neighbours.push(ScoredHit {
                entry,
                score: score as f64 / best,
                parts: ScoreParts::relative_to(&parts, best),
                before,
                after,
            });
        }
        let bytes = |hit: &ScoredHit| {
            let all = hit.before.iter().chain(&hit.after).chain([&hit.entry]);
            all.map(|entry| cpu::review_bytes(&admission, entry)).sum()
        };
        let review_hit = |hit: ScoredHit| {
            Ok::<_, EngineError>(ScoredHit {
                entry: review(hit.entry),
                before: hit.before.into_iter().map(review).collect(),
                after: hit.after.into_iter().map(review).collect(),
                ..hit
            })
        };
        let bytes_of_hit = |hit: &ScoredHit| {
            let all = hit.before.iter().chain(&hit.after).chain([&hit.entry]);
            all.map(cpu::entry_bytes).sum()
        };
        let bytes_max = self.engine.parts.policy.page_bytes_max;
        hits_with_neighbours.truncate(count_within_bytes(
            &hits_with_neighbours,
            bytes_of_hit,
            bytes_max,
        ));
        let cpu = self.engine.cpu();
        cpu.each(caller.tenant(), hits_with_neighbours, bytes, review_hit)
            .await
    }
}

/// How many of `limit` hits may come from one source of untrusted entries: two of ten.
fn untrusted_source_max(limit: usize) -> u32 {
    u32::try_from(limit / 5).unwrap_or(u32::MAX).max(1)
}

/// Refuses numbers of neighbours or of hits per source that are out of range.
fn check_numbers(request: &SearchRequest) -> Result<(), Rejection> {
    if request.neighbours > NEIGHBOURS_MAX {
        return Err(Rejection::Invalid {
            field: "neighbours",
            rule: "must be at most 10",
        });
    }
    if request.per_source == Some(0) {
        return Err(Rejection::Invalid {
            field: "perSource",
            rule: "must be at least 1",
        });
    }
    Ok(())
}

/// Whether the best hits of a period match at least half as well as those of all times. Scores are
/// compared, not probabilities: the words that name the period are seldom in the texts, so that
/// both probabilities are low.
fn matches_half_as_well(narrow: &Signals, wide: &Signals) -> bool {
    let strength = |signals: &Signals| signals.lexical + signals.cosine.unwrap_or(0);
    narrow.hits > 0 && 2 * strength(narrow) >= strength(wide)
}

/// Narrows a filter to entries created in a period.
fn within_period(filter: &Filter, when: &QueryTime) -> Filter {
    Filter {
        created_from: Some(
            filter
                .created_from
                .map_or(when.from, |from| from.max(when.from)),
        ),
        created_to: Some(
            filter
                .created_to
                .map_or(when.until, |to| to.min(when.until)),
        ),
        ..filter.clone()
    }
}

/// Whether a neighbour passes the filter of the search. The store applies the same conditions to
/// hits, but not to neighbours.
fn filter_matches(filter: &Filter, entry: &Entry) -> bool {
    filter.tags.iter().all(|tag| entry.tags.contains(tag))
        && filter
            .trust_at_least
            .is_none_or(|least| entry.facets.trust >= least)
        && filter
            .created_from
            .is_none_or(|from| entry.created_at >= from)
        && filter.created_to.is_none_or(|to| entry.created_at < to)
        && filter.tier.is_none_or(|tier| entry.tier == tier)
        && filter
            .typology
            .is_none_or(|typology| entry.typology == typology)
        && filter
            .session
            .as_ref()
            .is_none_or(|session| entry.facets.session.as_ref() == Some(session))
        && filter
            .interaction
            .as_ref()
            .is_none_or(|interaction| entry.facets.interaction.as_ref() == Some(interaction))
}
