//! Compounding: what a session of work is worth beyond itself. Reads its episodes and returns
//! patterns: what the operator stated, what was done again and again, and what had to be corrected.
//! Pure and deterministic: the same episodes give the same patterns in whatever order they come.
//! Writes no sentence of its own but a fixed one around names of tools, and may not store, archive
//! or promote anything.
//!
//! * `segment`: episodes into stretches of work.
//! * `stated`: sentences that hold from now on.
//! * `routine`: tools that are used one after the other.
//! * `correction`: what the operator put right.

mod correction;
mod routine;
mod segment;
mod stated;

use crate::ids::Timestamp;
use crate::sabotage;
use crate::trust::{Evidence, Trust};
use segment::{Segment, segments};
use std::collections::{BTreeMap, BTreeSet};

/// The weight a pattern needs.
const WEIGHT_MIN: u32 = 3;
/// The most patterns of a session, and of one thread.
const SESSION_PATTERNS_MAX: usize = 20;
const THREAD_PATTERNS_MAX: usize = 5;

/// Who speaks in an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    /// Whom the work is for.
    Operator,
    /// Who does it.
    Agent,
    /// What it is done with.
    Tool,
    /// Nobody said.
    Unknown,
}

impl Speaker {
    /// The stable name.
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
    /// Its row.
    pub id: I,
    /// When it was.
    pub at: Timestamp,
    /// The conversation it is part of.
    pub thread: &'a str,
    /// Who speaks.
    pub speaker: Speaker,
    /// The tool that was called, or that answers.
    pub tool: Option<&'a str>,
    /// What was said.
    pub text: &'a str,
    /// How far that is believed.
    pub trust: Trust,
}

impl<I> Episode<'_, I> {
    fn is_untrusted(&self) -> bool {
        self.trust == Trust::Untrusted
    }

    fn evidence(&self) -> Evidence {
        Evidence::of(
            self.trust,
            self.thread,
            self.tool.unwrap_or(self.speaker.as_str()),
        )
    }
}

// What was said stays out of logs.
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

/// How a pattern was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternKind {
    /// The operator said it.
    Stated,
    /// It was done again and again.
    Routine,
    /// The operator put it right more than once.
    Correction,
}

impl PatternKind {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PatternKind::Stated => "stated",
            PatternKind::Routine => "routine",
            PatternKind::Correction => "correction",
        }
    }
}

/// A procedure that a session showed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern<I> {
    /// How it was found.
    pub kind: PatternKind,
    /// The question it answers; no two patterns of a session answer the same.
    pub slot: String,
    /// What it says. Except for a routine, a verbatim part of a source.
    pub text: String,
    /// How much speaks for it.
    pub weight: u32,
    /// When it was last seen.
    pub at: Timestamp,
    /// The episodes it was found in, in order.
    pub sources: Vec<I>,
    /// The threads of those.
    pub threads: BTreeSet<String>,
    /// What it rests on.
    pub evidence: Evidence,
    /// The least that any source is believed.
    pub trust: Trust,
}

impl<I: Clone> Pattern<I> {
    /// A pattern of some episodes, which are given in order.
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
                .fold(Trust::Operator, Trust::meet),
        }
    }
}

// What it says, and what about, stays out of logs.
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

/// The patterns of a session that ends, those with most weight first.
#[must_use]
pub fn compound<I: Clone + Ord>(episodes: &[Episode<'_, I>]) -> Vec<Pattern<I>> {
    let ordered = ordered(episodes);
    let segments = segments(&ordered);
    let found = [
        stated::patterns(&ordered),
        routine::patterns(&segments),
        correction::patterns(&segments),
    ]
    .concat();
    kept(found, SESSION_PATTERNS_MAX)
}

/// The patterns of one conversation that ends: routines show over many only.
#[must_use]
pub fn compound_thread<I: Clone + Ord>(episodes: &[Episode<'_, I>]) -> Vec<Pattern<I>> {
    let ordered = ordered(episodes);
    let found = [
        stated::patterns(&ordered),
        correction::patterns(&segments(&ordered)),
    ]
    .concat();
    kept(found, THREAD_PATTERNS_MAX)
}

/// Episodes by their instants, each once.
fn ordered<'e, 'a, I: Clone + Ord>(episodes: &'e [Episode<'a, I>]) -> Vec<&'e Episode<'a, I>> {
    let mut ordered: Vec<&Episode<'a, I>> = episodes.iter().collect();
    sabotage!(
        "patterns-depend-on-the-order-of-reading",
        ordered
            .sort_by(|a, b| (a.at, &a.id, a.thread, a.text).cmp(&(b.at, &b.id, b.thread, b.text)))
    );
    let mut seen = BTreeSet::new();
    ordered.retain(|episode| seen.insert(&episode.id));
    ordered
}

/// Of the patterns of one slot the weightiest, then the newest; of all, the weightiest.
fn kept<I: Clone + Ord>(found: Vec<Pattern<I>>, most: usize) -> Vec<Pattern<I>> {
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

/// The slot of what fills none that others could fill: a name made from what makes it the same.
fn own_slot(kind: PatternKind, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    format!("{}|{}", kind.as_str(), &hasher.finalize().to_hex()[..16])
}

/// The words by which two sentences say the same.
fn normal(text: &str) -> String {
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
