//! rank: orders candidates as hits. Word and vector scores are fused, the neighbours of good
//! candidates get a bonus, and small bonuses for recency, tier, corroboration and usage decide
//! ties. Every step is computed in whole numbers, and a score is exactly the sum of its parts. It
//! does not search for candidates or check read permission: all entries given belong to one memory
//! and may be shown.
//!
//! words = lexical + typo; fused = (1 - meaning) * words / best words + meaning * cosine / best
//! cosine; without vectors, words alone.

use super::fence;
use super::{PPM, share_ppm, to_ppm};
use crate::entry::{Entry, Tier, Typology};
use crate::ids::{EntryId, Timestamp};
use crate::sabotage;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// The number of best candidates whose neighbours get a bonus; the caller looks up neighbours for
/// these.
pub const LIFTING_CANDIDATES_MAX: usize = 32;
/// The longest time between two neighbours of one conversation.
const NEIGHBOUR_DISTANCE_MS_MAX: i64 = 30 * 60_000;
/// The most that recency, tier, corroboration and usage together may add, as a share of the rest of
/// the score.
const BONUSES_MAX: i64 = 60_000;
/// The upper bound of BM25 scores. No real score reaches it; a greater value is cut, so that
/// products fit.
const LEXICAL_MAX: f64 = 1e6;
const HOUR_MS: i64 = 3_600_000;
/// The number of doublings of support, or of uses, that give the full bonus.
const DOUBLINGS_MAX: i64 = 5;
/// The length of the decay table: after this many hours less than a millionth is left.
const HOURS: usize = 2_757;
/// 0.995 to the power of hours, in parts per million.
static DECAY: [i64; HOURS] = decay();

const fn decay() -> [i64; HOURS] {
    let mut table = [0; HOURS];
    let mut left: i64 = 1_000_000_000_000_000;
    let mut hour = 0;
    while hour < HOURS {
        table[hour] = left / 1_000_000_000;
        left = left / 1_000 * 995;
        hour += 1;
    }
    table
}

/// An entry that a store found, with its signals.
#[derive(Clone, Copy, Debug)]
pub struct RankCandidate<'a> {
    pub entry: &'a Entry,
    /// The BM25 score of its words; 0 if it contains no word of the query.
    pub lexical: f64,
    /// The cosine of its vector and the query's; `None` if it was not computed.
    pub cosine: Option<f64>,
    /// The BM25 score of its words that are probable corrections of misspelled query words, each
    /// weighted by its similarity.
    pub typo: f64,
    /// The number of entries that state the same, itself included.
    pub support: u64,
    /// The number of actions that are linked to it.
    pub uses: u64,
}

/// An entry that was written right before or after a candidate. A pair counts in both directions,
/// however it is given.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// The id of the candidate.
    pub candidate_id: &'a EntryId,
    /// The entry that was written right before or after it.
    pub entry: &'a Entry,
}

/// The weights of the parts of a score, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weight of vectors against words.
    pub meaning: i64,
    /// The share of the best neighbouring candidate's score that an entry gets.
    pub context: i64,
    /// The most that recency adds, as a share of the score without bonuses. This and the next three
    /// are limited to six percent together.
    pub recency: i64,
    /// The most that the tier adds.
    pub tier: i64,
    /// The most that corroboration adds.
    pub corroboration: i64,
    /// The most that usage adds.
    pub usage: i64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            meaning: 450_000,
            context: 400_000,
            recency: 15_000,
            tier: 15_000,
            corroboration: 15_000,
            usage: 15_000,
        }
    }
}

impl Weights {
    /// The weights with each between zero and one, and the bonuses within their common bound.
    fn bounded(&self) -> Weights {
        let within = |weight: i64| weight.clamp(0, PPM);
        let movers = within(self.recency)
            + within(self.tier)
            + within(self.corroboration)
            + within(self.usage);
        let mover = |weight: i64| {
            if movers > BONUSES_MAX {
                within(weight) * BONUSES_MAX / movers
            } else {
                within(weight)
            }
        };
        Weights {
            meaning: within(self.meaning),
            context: within(self.context),
            recency: mover(self.recency),
            tier: mover(self.tier),
            corroboration: mover(self.corroboration),
            usage: mover(self.usage),
        }
    }
}

/// The parameters of a ranking.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RankRequest {
    /// The instant that ages are counted from.
    pub now: Timestamp,
    /// The weights of the parts of a score.
    pub weights: Weights,
    /// The most hits of one source: the `source` in the metadata, else the session. Entries with
    /// neither are not limited.
    pub per_source: Option<u32>,
    /// The most hits of one untrusted source; untrusted entries without a source count as one
    /// source. Used if `per_source` is not given.
    pub per_untrusted_source: Option<u32>,
    /// The time range that the query names: nearness to it replaces recency.
    pub time_range: Option<Range<Timestamp>>,
    /// The greatest BM25 score that the query could reach; used only by [`super::Signals`].
    pub lexical_best_possible: f64,
}

/// The parts of a score, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScorePartsPpm {
    /// The score of the query's words.
    pub lexical: i64,
    /// The score of the vectors.
    pub meaning: i64,
    /// The score of probable corrections of misspelled query words.
    pub typo: i64,
    /// The bonus from a good candidate beside it.
    pub context: i64,
    /// The bonus for a small age, or for nearness to the time range of the query.
    pub recency: i64,
    /// The bonus for a tier that lasts longer.
    pub tier: i64,
    /// The bonus for the number of entries that state the same.
    pub corroboration: i64,
    /// The bonus for the number of actions linked to it.
    pub usage: i64,
}

impl ScorePartsPpm {
    /// The score, which is the sum of all parts.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.base() + self.recency + self.tier + self.corroboration + self.usage
    }

    /// The fused score of words and vectors.
    fn fused(&self) -> i64 {
        self.lexical + self.typo + self.meaning
    }

    /// The score without the bonuses that decide ties.
    fn base(&self) -> i64 {
        self.fused() + self.context
    }
}

/// A hit, with its score and the parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked<'a> {
    pub entry: &'a Entry,
    /// The score, in parts per million of a candidate that is best by words and by vectors, before
    /// bonuses.
    pub score: i64,
    /// The parts of the score, which sum to it.
    pub parts: ScorePartsPpm,
}

/// The rounded signals of an entry; `is_candidate` if it was a candidate itself and not only a
/// neighbour.
#[derive(Clone, Copy)]
struct EntrySignals<'a> {
    entry: &'a Entry,
    is_candidate: bool,
    lexical: i64,
    cosine: Option<i64>,
    typo: i64,
    support: u64,
    uses: u64,
}

type SignalsById<'a> = BTreeMap<&'a EntryId, (EntrySignals<'a>, ScorePartsPpm)>;

/// Ranks candidates: by score, then the latest, then the greatest id. The order of the arguments
/// does not affect the result.
#[must_use]
pub fn rank_candidates<'a>(
    candidates: &[RankCandidate<'a>],
    neighbours: &[Neighbour<'a>],
    request: &RankRequest,
) -> Vec<Ranked<'a>> {
    let weights = request.weights.bounded();
    let mut all = collect_signals(candidates, neighbours);
    compute_fused_parts(&mut all, &weights);
    add_neighbour_bonuses(&mut all, neighbours, &weights);
    let mut hits: Vec<Ranked<'a>> = Vec::new();
    for (seen, parts) in all.values_mut() {
        // A neighbour that gets no bonus matched nothing, so it is not a hit.
        if seen.is_candidate || parts.context > 0 {
            add_tie_bonuses(seen, parts, request, &weights);
            hits.push(Ranked {
                entry: seen.entry,
                score: parts.sum(),
                parts: *parts,
            });
        }
    }
    hits.sort_by(|a, b| sort_key(a.score, a.entry).cmp(&sort_key(b.score, b.entry)));
    match (request.per_source, request.per_untrusted_source) {
        (Some(most), _) => cap_per_source(&hits, most, |entry| source_of(entry).map(Some)),
        (None, Some(most)) => cap_per_source(&hits, most, |entry| {
            sabotage!(
                "an-untrusted-source-fills-an-answer",
                fence::is_untrusted(entry).then(|| source_of(entry)),
                None
            )
        }),
        (None, None) => hits,
    }
}

/// The sort key of hits, which is total.
fn sort_key(score: i64, entry: &Entry) -> impl Ord {
    (
        Reverse(score),
        Reverse(entry.created_at),
        Reverse(&entry.id),
    )
}

/// Collects every entry once. One that is given twice keeps the best of its signals.
fn collect_signals<'a>(
    candidates: &[RankCandidate<'a>],
    neighbours: &[Neighbour<'a>],
) -> SignalsById<'a> {
    let mut all: SignalsById<'a> = BTreeMap::new();
    for neighbour in neighbours {
        let seen = EntrySignals {
            entry: neighbour.entry,
            is_candidate: false,
            lexical: 0,
            cosine: None,
            typo: 0,
            support: 1,
            uses: 0,
        };
        all.insert(&neighbour.entry.id, (seen, ScorePartsPpm::default()));
    }
    for one in candidates {
        let new = EntrySignals {
            entry: one.entry,
            is_candidate: true,
            lexical: 0,
            cosine: None,
            typo: 0,
            support: 1,
            uses: 0,
        };
        let (seen, _) = all
            .entry(&one.entry.id)
            .or_insert((new, ScorePartsPpm::default()));
        seen.is_candidate = true;
        seen.lexical = seen.lexical.max(to_ppm(one.lexical, LEXICAL_MAX));
        seen.cosine = seen
            .cosine
            .max(one.cosine.map(|cosine| to_ppm(cosine, 1.0)));
        seen.typo = seen.typo.max(to_ppm(one.typo, LEXICAL_MAX));
        seen.support = seen.support.max(one.support);
        seen.uses = seen.uses.max(one.uses);
    }
    all
}

/// Computes the parts for words, corrections and vectors.
fn compute_fused_parts(all: &mut SignalsById<'_>, weights: &Weights) {
    let words_most = all
        .values()
        .map(|(seen, _)| seen.lexical + seen.typo)
        .max()
        .unwrap_or(0);
    let cosine_most = all.values().filter_map(|(seen, _)| seen.cosine).max();
    let meaning = if cosine_most.is_some() {
        weights.meaning
    } else {
        0
    };
    for (seen, parts) in all.values_mut() {
        parts.lexical = (PPM - meaning) * share_ppm(seen.lexical, words_most) / PPM;
        parts.meaning =
            meaning * share_ppm(seen.cosine.unwrap_or(0), cosine_most.unwrap_or(0)) / PPM;
        parts.typo = (PPM - meaning) * share_ppm(seen.typo, words_most) / PPM;
    }
}

/// Gives the neighbours of the best candidates a share of those candidates' scores; an entry with
/// several such neighbours gets it from the best one.
fn add_neighbour_bonuses(
    all: &mut SignalsById<'_>,
    neighbours: &[Neighbour<'_>],
    weights: &Weights,
) {
    let mut best: Vec<(i64, &Entry)> = all
        .values()
        .filter(|(seen, _)| seen.is_candidate)
        .map(|(seen, parts)| (parts.fused(), seen.entry))
        .collect();
    best.sort_by(|a, b| sort_key(a.0, a.1).cmp(&sort_key(b.0, b.1)));
    // One more than give a bonus, because `neighbour_bonus` does not count the receiver.
    let places: BTreeMap<&EntryId, (usize, i64)> = best
        .iter()
        .take(LIFTING_CANDIDATES_MAX + 1)
        .enumerate()
        .map(|(place, (fused, entry))| (&entry.id, (place, *fused)))
        .collect();
    let mut lifts: Vec<(&EntryId, i64)> = Vec::new();
    for neighbour in neighbours {
        let (Some((a, _)), Some((b, _))) = (
            all.get(neighbour.candidate_id),
            all.get(&neighbour.entry.id),
        ) else {
            continue;
        };
        if are_neighbours(a.entry, b.entry) {
            lifts.push((
                &a.entry.id,
                neighbour_bonus(&places, &b.entry.id, &a.entry.id),
            ));
            lifts.push((
                &b.entry.id,
                neighbour_bonus(&places, &a.entry.id, &b.entry.id),
            ));
        }
    }
    for (id, fused) in lifts {
        if let Some((_, parts)) = all.get_mut(id) {
            parts.context = parts.context.max(weights.context * fused / PPM);
        }
    }
}

/// The score of `from` that `to` gets a share of: all of it, if `from` is among the best of all
/// others. The receiver itself is not counted, or it would lose its bonus by overtaking the last of
/// the best.
fn neighbour_bonus(places: &BTreeMap<&EntryId, (usize, i64)>, from: &EntryId, to: &EntryId) -> i64 {
    let Some((place, fused)) = places.get(from) else {
        return 0;
    };
    let ahead = places.get(to).is_some_and(|(other, _)| other < place);
    if place - usize::from(ahead) < LIFTING_CANDIDATES_MAX {
        *fused
    } else {
        0
    }
}

/// Whether two entries are of one conversation: the same session and thread, and not far apart in
/// time.
fn are_neighbours(a: &Entry, b: &Entry) -> bool {
    let near = a.created_at.0.abs_diff(b.created_at.0) <= NEIGHBOUR_DISTANCE_MS_MAX.unsigned_abs();
    let same = sabotage!(
        "an-entry-is-lifted-by-another-session-s",
        a.facets.session == b.facets.session && a.facets.interaction == b.facets.interaction,
        a.facets.interaction == b.facets.interaction
    );
    near && same && a.id != b.id
}

/// Adds the bonuses for recency, tier, corroboration and usage, as shares of the rest of the score:
/// they decide ties, and give nothing to an entry without a score.
fn add_tie_bonuses(
    seen: &EntrySignals<'_>,
    parts: &mut ScorePartsPpm,
    request: &RankRequest,
    weights: &Weights,
) {
    let base = parts.base();
    let part = |weight: i64, signal: i64| base * (weight * signal / PPM) / PPM;
    parts.recency = part(weights.recency, recency_signal(seen.entry, request));
    parts.tier = part(weights.tier, tier_signal(seen.entry.tier));
    parts.corroboration = part(weights.corroboration, doubling_signal(seen.support));
    parts.usage = part(
        weights.usage,
        doubling_signal(sabotage!(
            "what-is-acted-upon-counts-for-nothing",
            seen.uses.saturating_add(1),
            1
        )),
    );
}

/// The recency signal. Facts and procedures do not age; but if the query names a time range,
/// nearness to it counts for all entries.
fn recency_signal(entry: &Entry, request: &RankRequest) -> i64 {
    let Some(when) = &request.time_range else {
        return match entry.typology {
            Typology::Episodic => decay_after(request.now.0.saturating_sub(entry.created_at.0)),
            Typology::Semantic | Typology::Procedural => PPM,
        };
    };
    let away = |at: Timestamp| {
        when.start
            .0
            .saturating_sub(at.0)
            .max(at.0.saturating_sub(when.end.0).saturating_add(1))
            .max(0)
    };
    let from_validity = entry.facets.valid_at.map(away);
    decay_after(
        from_validity.map_or(away(entry.created_at), |from_validity| {
            from_validity.min(away(entry.created_at))
        }),
    )
}

/// The decay after a time, in parts per million.
fn decay_after(ms: i64) -> i64 {
    usize::try_from(ms.max(0) / HOUR_MS)
        .ok()
        .and_then(|hour| DECAY.get(hour))
        .copied()
        .unwrap_or(0)
}

/// The signal of a tier: the longer it lasts, the greater.
fn tier_signal(tier: Tier) -> i64 {
    match tier {
        Tier::Persistent => PPM,
        Tier::Session => PPM / 2,
        Tier::Interaction => 0,
    }
}

/// The signal of a count: every doubling adds the same, up to a bound.
fn doubling_signal(count: u64) -> i64 {
    i64::from(count.max(1).ilog2()).min(DOUBLINGS_MAX) * PPM / DOUBLINGS_MAX
}

/// The source of an entry. A name in the metadata and the name of a session are never the same
/// source.
fn source_of(entry: &Entry) -> Option<(bool, &str)> {
    let named = entry
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.get("source"))
        .and_then(serde_json::Value::as_str);
    named.map(|name| (true, name)).or_else(|| {
        entry
            .facets
            .session
            .as_ref()
            .map(|session| (false, session.as_str()))
    })
}

/// The source by which hits are limited; `None` for those of no named source.
type HitSource<'a> = Option<(bool, &'a str)>;

/// The hits without those that come after `most` of their source. Hits for which `counted` returns
/// `None` are not limited.
fn cap_per_source<'a>(
    hits: &[Ranked<'a>],
    most: u32,
    counted: impl Fn(&'a Entry) -> Option<HitSource<'a>>,
) -> Vec<Ranked<'a>> {
    let mut counts: BTreeMap<HitSource<'a>, u32> = BTreeMap::new();
    let mut keeps = |hit: &&Ranked<'a>| {
        let Some(source) = counted(hit.entry) else {
            return true;
        };
        let count = counts.entry(source).or_default();
        *count += 1;
        sabotage!("a-source-takes-all-places", *count <= most, true)
    };
    hits.iter().filter(|hit| keeps(hit)).copied().collect()
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
