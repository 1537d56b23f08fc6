//! rank: from candidates to hits. Words and meaning are fused, entries beside a good candidate are
//! lifted, and what is recent, lasting, said by many or relied on moves ties. Every step is whole
//! numbers, and a score is exactly the sum of its parts. May not look for candidates or judge
//! whether an entry may be read: all that is given belongs to one memory and may be shown.
//!
//! words = lexical + typo; fused = (1 - meaning) * words / best words + meaning * cosine / best
//! cosine; without vectors, words alone.

use super::fence;
use super::{WHOLE, ppm, share};
use crate::entry::{Entry, Tier, Typology};
use crate::ids::{EntryId, Timestamp};
use crate::sabotage;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// So many of the best candidates lift what stands beside them: whoever gives neighbours looks for
/// theirs.
pub const LIFTING: usize = 32;
/// Entries that were written further apart do not belong together.
const APART_MS_MAX: i64 = 30 * 60_000;
/// Recency, tier, corroboration and usage together: never more of what an entry has otherwise than
/// this.
const MOVERS_MAX: i64 = 60_000;
/// No sum of words reaches this; what is above is cut, so that products fit.
const LEXICAL_MAX: f64 = 1e6;
const HOUR_MS: i64 = 3_600_000;
/// Doublings of support, and of uses, that count.
const DOUBLINGS_MAX: i64 = 5;
/// After so many hours less than a millionth is left.
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

/// An entry that a store found, with what speaks for it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// BM25 of its words; 0 if none of the query's is there.
    pub lexical: f64,
    /// How near its meaning is; `None` if that was not measured.
    pub cosine: Option<f64>,
    /// BM25 of the words that it holds and that were probably meant by words the memory does not
    /// know, each by its likeness.
    pub typo: f64,
    /// How many entries say it, itself included.
    pub support: u64,
    /// How many actions rest on it.
    pub uses: u64,
}

/// An entry that was written right before or after a candidate. A pair counts in both directions,
/// however it is given.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// The candidate.
    pub of: &'a EntryId,
    /// What stands beside it.
    pub entry: &'a Entry,
}

/// How much each part counts, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Of meaning against words.
    pub meaning: i64,
    /// What an entry gets of the best candidate beside it.
    pub context: i64,
    /// What recency adds at most, of the score without movers. This and the next three count for
    /// six percent together.
    pub recency: i64,
    /// What the tier adds at most.
    pub tier: i64,
    /// What corroboration adds at most.
    pub corroboration: i64,
    /// What usage adds at most.
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
    /// The weights as they are used: none outside of a whole, and the movers within their bound.
    fn bounded(&self) -> Weights {
        let within = |weight: i64| weight.clamp(0, WHOLE);
        let movers = within(self.recency)
            + within(self.tier)
            + within(self.corroboration)
            + within(self.usage);
        let mover = |weight: i64| {
            if movers > MOVERS_MAX {
                within(weight) * MOVERS_MAX / movers
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

/// What is asked of a ranking.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RankRequest {
    /// The instant that ages are counted from.
    pub now: Timestamp,
    /// How much each part counts.
    pub weights: Weights,
    /// At most so many hits of one source: the `source` in the metadata, else the session. What has
    /// neither is not counted.
    pub per_source: Option<u32>,
    /// At most so many hits of one source that nobody vouches for; those without a source are of
    /// one. Counts where `per_source` is not given.
    pub per_untrusted_source: Option<u32>,
    /// The range that the query speaks of: nearness to it takes the place of recency.
    pub when: Option<Range<Timestamp>>,
    /// The greatest BM25 that the query could reach; only [`super::Signals`] looks at it.
    pub lexical_best: f64,
}

/// What a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parts {
    /// Words.
    pub lexical: i64,
    /// Meaning.
    pub meaning: i64,
    /// Words that were probably meant.
    pub typo: i64,
    /// What stands beside it.
    pub context: i64,
    /// Age, or distance from the range that was asked for.
    pub recency: i64,
    /// How long it lasts.
    pub tier: i64,
    /// How many say so.
    pub corroboration: i64,
    /// How much rests on it.
    pub usage: i64,
}

impl Parts {
    /// The score.
    #[must_use]
    pub fn sum(&self) -> i64 {
        self.base() + self.recency + self.tier + self.corroboration + self.usage
    }

    fn fused(&self) -> i64 {
        self.lexical + self.typo + self.meaning
    }

    fn base(&self) -> i64 {
        self.fused() + self.context
    }
}

/// A hit, with its score and what that is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// In parts per million of a candidate that is best by words and by meaning; bonuses come on
    /// top.
    pub score: i64,
    /// They sum to the score.
    pub parts: Parts,
}

/// What is known of an entry: its signals, rounded, if it was found itself.
#[derive(Clone, Copy)]
struct Seen<'a> {
    entry: &'a Entry,
    found: bool,
    lexical: i64,
    cosine: Option<i64>,
    typo: i64,
    support: u64,
    uses: u64,
}

type All<'a> = BTreeMap<&'a EntryId, (Seen<'a>, Parts)>;

/// The hits, best first: by score, then the latest, then the greatest id. The order of what is
/// given leaves no trace.
#[must_use]
pub fn rank<'a>(
    candidates: &[Candidate<'a>],
    neighbours: &[Neighbour<'a>],
    request: &RankRequest,
) -> Vec<Ranked<'a>> {
    let weights = request.weights.bounded();
    let mut all = gather(candidates, neighbours);
    fuse(&mut all, &weights);
    lift(&mut all, neighbours, &weights);
    let mut hits: Vec<Ranked<'a>> = Vec::new();
    for (seen, parts) in all.values_mut() {
        // What stands beside a candidate and gets nothing from it was found by nothing.
        if seen.found || parts.context > 0 {
            move_ties(seen, parts, request, &weights);
            hits.push(Ranked {
                entry: seen.entry,
                score: parts.sum(),
                parts: *parts,
            });
        }
    }
    hits.sort_by(|a, b| order(a.score, a.entry).cmp(&order(b.score, b.entry)));
    match (request.per_source, request.per_untrusted_source) {
        (Some(most), _) => capped(&hits, most, |entry| source(entry).map(Some)),
        (None, Some(most)) => capped(&hits, most, |entry| {
            sabotage!(
                "an-untrusted-source-fills-an-answer",
                fence::is_untrusted(entry).then(|| source(entry)),
                None
            )
        }),
        (None, None) => hits,
    }
}

fn order(score: i64, entry: &Entry) -> impl Ord {
    (
        Reverse(score),
        Reverse(entry.created_at),
        Reverse(&entry.id),
    )
}

/// Every entry once. One that is given twice has the best of both.
fn gather<'a>(candidates: &[Candidate<'a>], neighbours: &[Neighbour<'a>]) -> All<'a> {
    let mut all: All<'a> = BTreeMap::new();
    for neighbour in neighbours {
        let seen = Seen {
            entry: neighbour.entry,
            found: false,
            lexical: 0,
            cosine: None,
            typo: 0,
            support: 1,
            uses: 0,
        };
        all.insert(&neighbour.entry.id, (seen, Parts::default()));
    }
    for one in candidates {
        let new = Seen {
            entry: one.entry,
            found: true,
            lexical: 0,
            cosine: None,
            typo: 0,
            support: 1,
            uses: 0,
        };
        let (seen, _) = all.entry(&one.entry.id).or_insert((new, Parts::default()));
        seen.found = true;
        seen.lexical = seen.lexical.max(ppm(one.lexical, LEXICAL_MAX));
        seen.cosine = seen.cosine.max(one.cosine.map(|cosine| ppm(cosine, 1.0)));
        seen.typo = seen.typo.max(ppm(one.typo, LEXICAL_MAX));
        seen.support = seen.support.max(one.support);
        seen.uses = seen.uses.max(one.uses);
    }
    all
}

/// Words, meant words and meaning.
fn fuse(all: &mut All<'_>, weights: &Weights) {
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
        parts.lexical = (WHOLE - meaning) * share(seen.lexical, words_most) / WHOLE;
        parts.meaning = meaning * share(seen.cosine.unwrap_or(0), cosine_most.unwrap_or(0)) / WHOLE;
        parts.typo = (WHOLE - meaning) * share(seen.typo, words_most) / WHOLE;
    }
}

/// What stands beside one of the best candidates gets a part of what that one has; of two, from the
/// better.
fn lift(all: &mut All<'_>, neighbours: &[Neighbour<'_>], weights: &Weights) {
    let mut best: Vec<(i64, &Entry)> = all
        .values()
        .filter(|(seen, _)| seen.found)
        .map(|(seen, parts)| (parts.fused(), seen.entry))
        .collect();
    best.sort_by(|a, b| order(a.0, a.1).cmp(&order(b.0, b.1)));
    // One more than lift: see `gives`.
    let places: BTreeMap<&EntryId, (usize, i64)> = best
        .iter()
        .take(LIFTING + 1)
        .enumerate()
        .map(|(place, (fused, entry))| (&entry.id, (place, *fused)))
        .collect();
    let mut lifts: Vec<(&EntryId, i64)> = Vec::new();
    for neighbour in neighbours {
        let (Some((a, _)), Some((b, _))) = (all.get(neighbour.of), all.get(&neighbour.entry.id))
        else {
            continue;
        };
        if belong_together(a.entry, b.entry) {
            lifts.push((&a.entry.id, gives(&places, &b.entry.id, &a.entry.id)));
            lifts.push((&b.entry.id, gives(&places, &a.entry.id, &b.entry.id)));
        }
    }
    for (id, fused) in lifts {
        if let Some((_, parts)) = all.get_mut(id) {
            parts.context = parts.context.max(weights.context * fused / WHOLE);
        }
    }
}

/// What `from` has to give to `to`: all it has, if it is among the best of all others. The one that
/// is lifted is not counted, or it would lose its lift by overtaking the last one of the best.
fn gives(places: &BTreeMap<&EntryId, (usize, i64)>, from: &EntryId, to: &EntryId) -> i64 {
    let Some((place, fused)) = places.get(from) else {
        return 0;
    };
    let ahead = places.get(to).is_some_and(|(other, _)| other < place);
    if place - usize::from(ahead) < LIFTING {
        *fused
    } else {
        0
    }
}

/// Whether two entries are of one conversation: the same session and thread, and not long between
/// them.
fn belong_together(a: &Entry, b: &Entry) -> bool {
    let near = a.created_at.0.abs_diff(b.created_at.0) <= APART_MS_MAX.unsigned_abs();
    let same = sabotage!(
        "an-entry-is-lifted-by-another-session-s",
        a.facets.session == b.facets.session && a.facets.interaction == b.facets.interaction,
        a.facets.interaction == b.facets.interaction
    );
    near && same && a.id != b.id
}

/// Recency, tier, corroboration and usage, as parts of what the entry has otherwise: they move ties
/// and make nothing of nothing.
fn move_ties(seen: &Seen<'_>, parts: &mut Parts, request: &RankRequest, weights: &Weights) {
    let base = parts.base();
    let part = |weight: i64, signal: i64| base * (weight * signal / WHOLE) / WHOLE;
    parts.recency = part(weights.recency, recency(seen.entry, request));
    parts.tier = part(weights.tier, lasting(seen.entry.tier));
    parts.corroboration = part(weights.corroboration, doublings(seen.support));
    parts.usage = part(
        weights.usage,
        doublings(sabotage!(
            "what-is-acted-upon-counts-for-nothing",
            seen.uses.saturating_add(1),
            1
        )),
    );
}

/// How near in time. Facts and procedures do not age; but if the query speaks of a time, that
/// counts for all.
fn recency(entry: &Entry, request: &RankRequest) -> i64 {
    let Some(when) = &request.when else {
        return match entry.typology {
            Typology::Episodic => decayed(request.now.0.saturating_sub(entry.created_at.0)),
            Typology::Semantic | Typology::Procedural => WHOLE,
        };
    };
    let away = |at: Timestamp| {
        when.start
            .0
            .saturating_sub(at.0)
            .max(at.0.saturating_sub(when.end.0).saturating_add(1))
            .max(0)
    };
    let told = entry.facets.valid_at.map(away);
    decayed(told.map_or(away(entry.created_at), |told| {
        told.min(away(entry.created_at))
    }))
}

fn decayed(ms: i64) -> i64 {
    usize::try_from(ms.max(0) / HOUR_MS)
        .ok()
        .and_then(|hour| DECAY.get(hour))
        .copied()
        .unwrap_or(0)
}

fn lasting(tier: Tier) -> i64 {
    match tier {
        Tier::Persistent => WHOLE,
        Tier::Session => WHOLE / 2,
        Tier::Interaction => 0,
    }
}

/// Every doubling counts the same, up to a bound.
fn doublings(count: u64) -> i64 {
    i64::from(count.max(1).ilog2()).min(DOUBLINGS_MAX) * WHOLE / DOUBLINGS_MAX
}

/// What an entry comes from. A name in the metadata and the name of a session are never the same
/// source.
fn source(entry: &Entry) -> Option<(bool, &str)> {
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

/// What hits are counted by; `None` for those of no named source.
type Source<'a> = Option<(bool, &'a str)>;

/// The hits without those that come after `most` of their source, where `counted` names one.
fn capped<'a>(
    hits: &[Ranked<'a>],
    most: u32,
    counted: impl Fn(&'a Entry) -> Option<Source<'a>>,
) -> Vec<Ranked<'a>> {
    let mut counts: BTreeMap<Source<'a>, u32> = BTreeMap::new();
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
