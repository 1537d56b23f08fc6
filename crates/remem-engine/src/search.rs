//! Search: words and meaning, ranked by `core/recall`, with a probability that anything relevant is
//! there at all. Nothing leaves without a second look at what it holds.

use crate::caller::Caller;
use crate::cpu;
use crate::embedders::{Question, embed_one};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::recall::{as_of, within_bytes};
use remem_core::recall::{
    self, Calibration, Candidate, Neighbour, Parts, RankRequest, Signals, Weights, When,
};
use remem_core::sabotage;
use remem_core::{
    Embedding, Entry, EntryId, ModelId, Permission, Query, Rejection, Revision, Scope, TenantId,
    Timestamp,
};
use remem_store::{Around, Filter, Found, Probe, ReadAt};

/// Candidates of each kind that are ranked, at least.
const DEPTH: u32 = 150;
/// Neighbours of a hit that a caller may have, on either side.
const NEIGHBOURS_MAX: u32 = 10;

/// By what a search finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By both, if this host has a model; by words otherwise.
    #[default]
    Hybrid,
    /// By words alone.
    Lexical,
    /// By meaning alone.
    Semantic,
}

impl Mode {
    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Hybrid => "hybrid",
            Mode::Lexical => "lexical",
            Mode::Semantic => "semantic",
        }
    }
}

/// What becomes of a time that the query speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUse {
    /// Only entries of that time count; should they answer far less well than others, all do.
    #[default]
    Filter,
    /// Entries of that time come first where all else is alike.
    Prefer,
    /// Nothing.
    Ignore,
}

/// What a search asks for.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// What to look for, as typed.
    pub query: String,
    /// Hits wanted; see `Policy::search_limit`.
    pub limit: Option<u32>,
    /// Conditions.
    pub filter: Filter,
    /// Read at least this revision.
    pub at_least: Option<Revision>,
    /// What was true at this instant, rather than now.
    pub as_of: Option<Timestamp>,
    /// By what to find.
    pub mode: Mode,
    /// What becomes of a time in the query.
    pub time: TimeUse,
    /// Entries to show before and after each hit.
    pub neighbours: u32,
    /// Hits of one source at the most; if absent, a source that nobody vouches for gets two of ten.
    pub per_source: Option<u32>,
    /// Answer nothing rather than what is probably irrelevant.
    pub abstain: bool,
    /// What stands beside a candidate counts for nothing: for those who want entries that hold
    /// their words, and for evaluations.
    pub no_context: bool,
}

/// The answer to a search.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How probable it is that something relevant is among them.
    pub probability: f64,
    /// Whether that is enough to go by.
    pub relevant: bool,
    /// By what was found: words alone, where no model answers.
    pub mode: Mode,
    /// The time that the query speaks of, and whether only entries of that time were looked at.
    pub when: Option<(When, bool)>,
    /// What the probability is from; for evaluations.
    pub signals: Signals,
}

/// One hit of a search.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The entry.
    pub entry: Entry,
    /// How well it answers, relative to the best hit of the same answer, which has 1.
    pub score: f64,
    /// What the score is made of, in the same unit.
    pub parts: ScoreParts,
    /// What was written right before it, the nearest first.
    pub before: Vec<Entry>,
    /// What was written right after it, the nearest first.
    pub after: Vec<Entry>,
}

/// What a score is made of. They sum to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// How much rests on it.
    pub usage: f64,
}

impl ScoreParts {
    fn of(parts: &Parts, best: f64) -> ScoreParts {
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

/// A search on its way.
struct Searching<'a> {
    engine: &'a Engine,
    scope: Scope,
    request: &'a SearchRequest,
    terms: Vec<String>,
    vector: Option<(ModelId, Embedding)>,
    when: Option<When>,
    at: ReadAt,
    limit: usize,
}

/// A list of hits before anybody has looked at them again.
struct Ranking {
    hits: Vec<(Entry, i64, Parts)>,
    signals: Signals,
}

impl Engine {
    /// Entries that answer the query, best first.
    pub async fn search(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<Searched, EngineError> {
        caller.require(Permission::MemoryRead)?;
        check(&request)?;
        self.check_filter(&request.filter)?;
        let query = Query::parse(&request.query, &self.parts.policy)?;
        let at = as_of(self.read_at(caller, request.at_least).await?, request.as_of);
        let scope = caller.scope(memory_ref);
        let vector = self
            .direction(caller.tenant(), scope.as_ref(), &request)
            .await?;
        let mode = match request.mode {
            Mode::Hybrid if vector.is_none() => Mode::Lexical,
            mode => mode,
        };
        let terms = if mode == Mode::Semantic {
            Vec::new()
        } else {
            query.terms().to_vec()
        };
        let time = (request.time != TimeUse::Ignore).then_some(&request.query);
        let when = time.and_then(|query| recall::when::read_utc(query, at.instant()));
        // What is unknown is answered as if it were empty, in every word of it.
        let Some(scope) = scope else {
            return Ok(sabotage!(
                "an-unknown-memory-is-answered-otherwise-than-an-empty-one",
                Searched {
                    mode,
                    when: when.map(|when| (when, false)),
                    ..Searched::default()
                },
                Searched {
                    mode,

                    ..Searched::default()
                }
            ));
        };
        let limit = self.parts.policy.search_limit(request.limit) as usize;
        let searching = Searching {
            engine: self,
            scope,
            request: &request,
            terms,
            vector,
            when,
            at,
            limit,
        };
        let mut searched = searching.answer(caller).await?;
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
            .direction(&scope.tenant, Some(&scope), &request)
            .await?;
        let limit = self.parts.policy.search_limit(Some(0)) as usize;
        let searching = Searching {
            engine: self,
            scope,
            request: &request,
            terms,
            vector,
            when: None,
            at,
            limit,
        };
        let ranking = searching.rank(&request.filter).await?;
        let best = ranking.hits.into_iter().map(|(entry, ..)| entry.id);
        Ok(best.collect())
    }

    /// The query as a direction, if it is to be found by one. The embedder may be somebody else's:
    /// it is sent what the rules leave.
    async fn direction(
        &self,
        tenant: &TenantId,
        scope: Option<&Scope>,
        request: &SearchRequest,
    ) -> Result<Option<(ModelId, Embedding)>, EngineError> {
        if request.mode == Mode::Lexical || !self.parts.store.features().vectors {
            return if request.mode == Mode::Semantic {
                Err(EngineError::NoEmbedder)
            } else {
                Ok(None)
            };
        }
        let Some(embedder) = self.serving(tenant).await? else {
            return if request.mode == Mode::Semantic {
                Err(EngineError::NoEmbedder)
            } else {
                Ok(None)
            };
        };
        let rules = self.rules(tenant).await?;
        let shapes = self.policy_for(tenant).await?.shapes;
        let text = sabotage!(
            "a-query-is-sent-as-it-was-typed",
            self.parts
                .cpu
                .run(tenant, cpu::of_text(&request.query), || rules
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
                    self.parts.embedders.asked(
                        &scope.tenant,
                        Question {
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
                if request.mode == Mode::Semantic {
                    Err(EngineError::NoEmbedder)
                } else {
                    Ok(None)
                }
            }
        }
    }
}

impl Searching<'_> {
    async fn answer(&self, caller: &Caller) -> Result<Searched, EngineError> {
        let calibration = Calibration::default();
        let narrow = self
            .when
            .as_ref()
            .filter(|_| self.request.time == TimeUse::Filter)
            .map(|when| within(&self.request.filter, when));
        let mut ranking = self.rank(&self.request.filter).await?;
        let mut filtered = false;
        if let Some(filter) = &narrow {
            let found = self.rank(filter).await?;
            filtered = holds_up(&found.signals, &ranking.signals);
            if filtered {
                ranking = found;
            }
        }
        let verdict = recall::verdict(&ranking.signals, &calibration);
        if self.request.abstain && !verdict.relevant {
            ranking.hits.clear();
        }
        Ok(Searched {
            hits: self.show(caller, ranking.hits).await?,
            probability: verdict.probability_ppm as f64 / recall::WHOLE as f64,
            relevant: verdict.relevant,
            mode: self.request.mode,
            when: self.when.clone().map(|when| (when, filtered)),
            signals: ranking.signals,
        })
    }

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
            .search(&self.scope, &probe, filter, depth, &self.at)
            .await?;
        let around = if self.request.no_context {
            Vec::new()
        } else {
            self.around_the_best(&found).await?
        };
        let candidates: Vec<Candidate<'_>> = found
            .candidates
            .iter()
            .map(|one| Candidate {
                entry: &one.entry,
                lexical: one.lexical,
                cosine: one.cosine,
                typo: one.typo,
                support: one.support,
                uses: one.uses,
            })
            .collect();
        let sides = around.iter().flat_map(|one| {
            one.before
                .iter()
                .chain(&one.after)
                .map(move |entry| Neighbour { of: &one.id, entry })
        });
        let neighbours: Vec<Neighbour<'_>> = sides
            .filter(|side| {
                sabotage!(
                    "what-stands-beside-a-hit-passes-the-filter",
                    lets_through(filter, side.entry),
                    true
                )
            })
            .collect();
        let request = RankRequest {
            now: self.at.instant(),
            weights: Weights::default(),
            per_source: self.request.per_source,
            per_untrusted_source: Some(untrusted_share(self.limit)),
            when: self.when.as_ref().map(When::range),
            lexical_best: found.lexical_best,
        };
        let ranked = recall::rank(&candidates, &neighbours, &request);
        let signals = Signals::of(&candidates, &ranked, &request);
        let hits = ranked
            .iter()
            .take(self.limit)
            .map(|hit| (hit.entry.clone(), hit.score, hit.parts))
            .collect();
        Ok(Ranking { hits, signals })
    }

    /// What stands beside the best by words and the best by meaning.
    async fn around_the_best(&self, found: &Found) -> Result<Vec<Around>, EngineError> {
        let words = |one: &remem_store::Candidate| one.lexical + one.typo;
        let lexical = found.candidates.iter().map(words);
        let cosine = found.candidates.iter().filter_map(|one| one.cosine);
        let most = (
            lexical.fold(f64::MIN_POSITIVE, f64::max),
            cosine.fold(f64::MIN_POSITIVE, f64::max),
        );
        let fused = |one: &remem_store::Candidate| {
            words(one) / most.0 + one.cosine.unwrap_or(0.0).max(0.0) / most.1
        };
        let mut best: Vec<(f64, &EntryId)> = found
            .candidates
            .iter()
            .map(|one| (fused(one), &one.entry.id))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(a.1)));
        let ids: Vec<EntryId> = best
            .into_iter()
            .take(recall::rank::LIFTING)
            .map(|(_, id)| id.clone())
            .collect();
        Ok(self
            .engine
            .parts
            .store
            .around(&self.scope, &ids, 1, &self.at)
            .await?)
    }

    async fn show(
        &self,
        caller: &Caller,
        hits: Vec<(Entry, i64, Parts)>,
    ) -> Result<Vec<Hit>, EngineError> {
        let reach = self.request.neighbours;
        let ids: Vec<EntryId> = hits.iter().map(|(entry, ..)| entry.id.clone()).collect();
        let store = &self.engine.parts.store;
        let mut around = if reach == 0 {
            Vec::new()
        } else {
            store.around(&self.scope, &ids, reach, &self.at).await?
        };
        let best = hits
            .first()
            .map_or(1.0, |(_, score, _)| (*score).max(1) as f64);
        let policy = self.engine.policy_of(caller);
        let rules = self.engine.rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, self.at.instant());
        let look = |entry: Entry| {
            sabotage!(
                "hits-are-shown-without-a-second-look",
                admission.review(entry),
                {
                    let _ = &admission;
                    entry
                }
            )
        };
        let mut found = Vec::with_capacity(hits.len());
        for (entry, score, parts) in hits {
            let sides = around
                .iter()
                .position(|one| one.id == entry.id)
                .map(|at| around.swap_remove(at));
            let (before, after) = sides.map(|one| (one.before, one.after)).unwrap_or_default();
            found.push(Hit {
                entry,
                score: score as f64 / best,
                parts: ScoreParts::of(&parts, best),
                before,
                after,
            });
        }
        let bytes = |hit: &Hit| {
            let all = hit.before.iter().chain(&hit.after).chain([&hit.entry]);
            all.map(|entry| cpu::to_review(&admission, entry)).sum()
        };
        let show = |hit: Hit| {
            Ok::<_, EngineError>(Hit {
                entry: look(hit.entry),
                before: hit.before.into_iter().map(look).collect(),
                after: hit.after.into_iter().map(look).collect(),
                ..hit
            })
        };
        let whole = |hit: &Hit| {
            let all = hit.before.iter().chain(&hit.after).chain([&hit.entry]);
            all.map(cpu::of_entry).sum()
        };
        let bytes_max = self.engine.parts.policy.page_bytes_max;
        found.truncate(within_bytes(&found, whole, bytes_max));
        let cpu = self.engine.cpu();
        cpu.each(caller.tenant(), found, bytes, show).await
    }
}

/// So many of `limit` hits may be of one source that nobody vouches for: two of ten.
fn untrusted_share(limit: usize) -> u32 {
    u32::try_from(limit / 5).unwrap_or(u32::MAX).max(1)
}

fn check(request: &SearchRequest) -> Result<(), Rejection> {
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

/// Whether what was found of a time answers about as well as what was found of all times.
/// Probabilities do not tell: the words of the time are seldom in the texts, so that both are low.
fn holds_up(narrow: &Signals, wide: &Signals) -> bool {
    let strength = |signals: &Signals| signals.lexical + signals.cosine.unwrap_or(0);
    narrow.hits > 0 && 2 * strength(narrow) >= strength(wide)
}

/// The filter, and that time.
fn within(filter: &Filter, when: &When) -> Filter {
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

/// Whether an entry that was found beside another is one that was asked for: what a store says of
/// those that it finds.
fn lets_through(filter: &Filter, entry: &Entry) -> bool {
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
