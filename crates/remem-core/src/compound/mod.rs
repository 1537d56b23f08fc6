//! Compounding: extracts from a session of work the patterns that outlast it. Reads its episodes
//! and returns what the operator stated, the steps that were repeated, and the corrections that
//! were made. Pure and deterministic: the same episodes give the same patterns in any order. It
//! writes no sentences except a fixed one around names of tools, and may not store, archive or
//! promote anything.
//!
//! * `segment`: splits episodes into stretches of work.
//! * `stated`: rules that the operator stated for the future.
//! * `routine`: tools that are used one after the other.
//! * `correction`: objections of the operator to what was done.

mod correction;
mod routine;
mod segment;
mod stated;

use crate::ids::Timestamp;
use crate::sabotage;
use crate::trust::{Evidence, Trust};
use segment::{Segment, segments};
use std::collections::{BTreeMap, BTreeSet};

/// The least weight of a returned pattern.
const WEIGHT_MIN: u32 = 3;
/// The most patterns returned for a session.
const SESSION_PATTERNS_MAX: usize = 20;
/// The most patterns returned for one thread.
const THREAD_PATTERNS_MAX: usize = 5;

/// The author of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    /// The principal for whom the work is done.
    Operator,
    /// The agent that does the work.
    Agent,
    /// A tool that the agent uses.
    Tool,
    /// The speaker was not recorded.
    Unknown,
}

impl Speaker {
    /// The name by which evidence identifies a speaker without a tool.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Speaker::Operator => "operator",
            Speaker::Agent => "agent",
            Speaker::Tool => "tool",
            Speaker::Unknown => "unknown",
        }
    }
}

/// One event of a session.
#[derive(Clone)]
pub struct Episode<'a, I> {
    /// The row of the entry.
    pub id: I,
    /// The instant at which it was recorded.
    pub at: Timestamp,
    /// The conversation it is part of.
    pub thread: &'a str,
    pub speaker: Speaker,
    /// The tool that was called, or that answers.
    pub tool: Option<&'a str>,
    pub text: &'a str,
    /// The trust of the entry.
    pub trust: Trust,
}

impl<I> Episode<'_, I> {
    fn is_untrusted(&self) -> bool {
        self.trust == Trust::Untrusted
    }

    /// The evidence that this episode contributes to a pattern.
    fn evidence(&self) -> Evidence {
        Evidence::of(
            self.trust,
            self.thread,
            self.tool.unwrap_or(self.speaker.as_str()),
        )
    }
}

// The text stays out of logs.
impl<I: std::fmt::Debug> std::fmt::Debug for Episode<'_, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Episode({:?}, {}, {} bytes)",
            self.id,
            self.speaker.as_str(),
            self.text.len()
        )
    }
}

/// The kinds of patterns, by how they were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternKind {
    /// The operator stated the rule.
    Stated,
    /// The same steps were repeated.
    Routine,
    /// The operator corrected it more than once.
    Correction,
}

impl PatternKind {
    /// The stable name, which is part of stored slots and tags.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PatternKind::Stated => "stated",
            PatternKind::Routine => "routine",
            PatternKind::Correction => "correction",
        }
    }
}

/// A procedure extracted from the episodes of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern<I> {
    pub kind: PatternKind,
    /// The slot that it answers; no two patterns of a session have the same.
    pub slot: String,
    /// The text of the procedure. Except for a routine, a verbatim part of a source.
    pub text: String,
    /// The amount of support: a constant of the kind, or for a routine the number of threads.
    pub weight: u32,
    /// The instant of its newest source.
    pub at: Timestamp,
    /// The episodes it was found in, in order.
    pub sources: Vec<I>,
    /// The threads of the sources.
    pub threads: BTreeSet<String>,
    /// The union of the sources' evidence.
    pub evidence: Evidence,
    /// The lowest trust of any source.
    pub trust: Trust,
}

impl<I: Clone> Pattern<I> {
    /// The pattern of some episodes, which are given in order.
    fn of(
        kind: PatternKind,
        slot: String,
        text: String,
        weight: u32,
        sources: &[&Episode<'_, I>],
    ) -> Pattern<I> {
        Pattern {
            kind,
            slot,
            text,
            weight,
            at: sources
                .iter()
                .map(|source| source.at)
                .max()
                .unwrap_or_default(),
            sources: sources.iter().map(|source| source.id.clone()).collect(),
            threads: sources
                .iter()
                .map(|source| source.thread.to_owned())
                .collect(),
            evidence: sources.iter().fold(Evidence::default(), |all, source| {
                all.union(&source.evidence())
            }),
            trust: sources
                .iter()
                .map(|source| source.trust)
                .fold(Trust::Operator, Trust::weaker),
        }
    }
}

// Text and slot stay out of logs.
impl<I> std::fmt::Debug for Pattern<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Pattern({}, weight {}, {} sources)",
            self.kind.as_str(),
            self.weight,
            self.sources.len()
        )
    }
}

/// The patterns of a session that ends, the heaviest first.
#[must_use]
pub fn session_patterns<I: Clone + Ord>(episodes: &[Episode<'_, I>]) -> Vec<Pattern<I>> {
    let ordered = in_time_order(episodes);
    let segments = segments(&ordered);
    let candidates = [
        stated::patterns(&ordered),
        routine::patterns(&segments),
        correction::patterns(&segments),
    ]
    .concat();
    heaviest_per_slot(candidates, SESSION_PATTERNS_MAX)
}

/// The patterns of one conversation that ends. Routines are left out, because they need several
/// threads.
#[must_use]
pub fn thread_patterns<I: Clone + Ord>(episodes: &[Episode<'_, I>]) -> Vec<Pattern<I>> {
    let ordered = in_time_order(episodes);
    let candidates = [
        stated::patterns(&ordered),
        correction::patterns(&segments(&ordered)),
    ]
    .concat();
    heaviest_per_slot(candidates, THREAD_PATTERNS_MAX)
}

/// Episodes in the order of their instants, each id once.
fn in_time_order<'e, 'a, I: Clone + Ord>(
    episodes: &'e [Episode<'a, I>],
) -> Vec<&'e Episode<'a, I>> {
    let mut ordered: Vec<&Episode<'a, I>> = episodes.iter().collect();
    sabotage!(
        "patterns-depend-on-the-order-of-reading",
        ordered
            .sort_by(|a, b| (a.at, &a.id, a.thread, a.text).cmp(&(b.at, &b.id, b.thread, b.text)))
    );
    let mut known_ids = BTreeSet::new();
    ordered.retain(|episode| known_ids.insert(&episode.id));
    ordered
}

/// The heaviest patterns, at most `most`. Of the patterns of one slot only the heaviest stays, of
/// equals the newest.
fn heaviest_per_slot<I: Clone + Ord>(found: Vec<Pattern<I>>, most: usize) -> Vec<Pattern<I>> {
    let mut slots: BTreeMap<String, Pattern<I>> = BTreeMap::new();
    let rank = |pattern: &Pattern<I>| {
        (
            pattern.weight,
            pattern.at,
            pattern.sources.last().cloned(),
            pattern.kind,
        )
    };
    for pattern in found.into_iter().filter(|pattern| {
        sabotage!(
            "untrusted-routines-are-kept",
            pattern.weight >= WEIGHT_MIN && !pattern.evidence.is_untrusted(),
            pattern.weight >= WEIGHT_MIN
        )
    }) {
        if slots
            .get(&pattern.slot)
            .is_none_or(|known| rank(known) < rank(&pattern))
        {
            slots.insert(pattern.slot.clone(), pattern);
        }
    }
    let mut patterns: Vec<Pattern<I>> = slots.into_values().collect();
    patterns.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.slot.cmp(&b.slot)));
    patterns.truncate(most);
    patterns
}

/// The slot of a pattern that belongs to no shared slot: a name made from the parts by which two
/// such patterns are the same.
fn unshared_slot(kind: PatternKind, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    format!("{}|{}", kind.as_str(), &hasher.finalize().to_hex()[..16])
}

/// The normal form of a sentence: two sentences with the same words in the same order have the same
/// one.
fn normal_form(text: &str) -> String {
    let words = text
        .split(|c: char| c.is_whitespace() || ",.;:!?\"“”()".contains(c))
        .filter(|word| !word.is_empty());
    words
        .map(|word| word.to_lowercase().replace('’', "'"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
