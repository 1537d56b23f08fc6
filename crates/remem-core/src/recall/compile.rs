//! compile: what a model is to know, as one text within a budget of tokens. First what always
//! holds, in an order that does not depend on what was asked, so that its bytes stay the same and
//! can be cached; then the hits, best first. May not rank, and never cuts an entry: it is there
//! whole or not at all.
//!
//! Which kind a line is, its first characters say, and no text of an entry comes to stand there: `-
//! [` begins an entry, two spaces and a mark are text that nobody vouches for, four spaces are
//! further lines of a text, `---` parts the two sections.

use super::confidence::THRESHOLD;
use super::fence;
use crate::entry::{Entry, Typology};
use crate::ids::{EntryId, Timestamp};
use crate::sabotage;
use crate::trust::Trust;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Between what always holds and the hits.
const RULE: &str = "---\n";
/// Before further lines of a text. Longer than that of a fence, which therefore cannot be imitated.
const INDENT: &str = "    ";
const FENCE_INDENT: &str = "  ";

/// A hit to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// How probable it is that it answers, if that is known; what is improbable is labelled so.
    pub probability_ppm: Option<i64>,
}

/// The text for a model. Its `Debug` tells sizes only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Block {
    /// The text; every line of it ends.
    pub text: String,
    /// What the whole text counts.
    pub tokens: usize,
    /// The entries in it, in order.
    pub ids: Vec<EntryId>,
    /// So many bytes at the beginning do not depend on the hits.
    pub prefix_bytes: usize,
    /// The entries that had no place, in the order they were given.
    pub omitted: Vec<EntryId>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Block({} entries, {} tokens, {} omitted)",
            self.ids.len(),
            self.tokens,
            self.omitted.len()
        )
    }
}

/// One entry as text.
struct Piece<'a> {
    id: &'a EntryId,
    text: String,
}

/// The text of standing entries and hits, within `budget` tokens as `count` counts them. Procedures
/// stand before facts, what is believed more before what is believed less, and then the oldest
/// first; what nobody vouches for does not stand. Standing entries get at most half of the budget; hits get what they leave. Of each, the entries are as many as
/// fit from the first one on (see [`fit`]).
#[must_use]
pub fn compile(
    standing: &[&Entry],
    hits: &[Shown<'_>],
    count: &dyn Fn(&str) -> usize,
    budget: usize,
) -> Block {
    let mut sorted: Vec<&Entry> = standing.to_vec();
    // What nobody vouches for may be found; it never stands.
    sabotage!(
        "untrusted-text-stands",
        sorted.retain(|entry| !fence::is_untrusted(entry))
    );
    sorted.sort_by_key(|entry| {
        let trust = sabotage!(
            "age-comes-before-trust",
            Reverse(entry.facets.trust),
            Reverse(Trust::Model)
        );
        (Reverse(entry.typology), trust, entry.created_at, &entry.id)
    });
    sorted.dedup_by_key(|entry| &entry.id);
    let pieces: Vec<Piece<'_>> = sorted.iter().map(|entry| piece(entry, None)).collect();
    let mut block = Block::default();
    add(&mut block, &pieces, "", count, budget / 2);
    block.prefix_bytes = block.text.len();

    let mut there: BTreeSet<&EntryId> = sorted
        .iter()
        .map(|entry| &entry.id)
        .filter(|id| block.ids.contains(id))
        .collect();
    let fresh = hits.iter().filter(|hit| there.insert(&hit.entry.id));
    let pieces: Vec<Piece<'_>> = fresh
        .map(|hit| piece(hit.entry, hit.probability_ppm))
        .collect();
    let rule = if block.text.is_empty() { "" } else { RULE };
    add(&mut block, &pieces, rule, count, budget);

    let mut told: BTreeSet<&EntryId> = block.ids.iter().collect();
    let given = sorted
        .iter()
        .map(|entry| &entry.id)
        .chain(hits.iter().map(|hit| &hit.entry.id));
    let omitted: Vec<EntryId> = given.filter(|id| told.insert(id)).cloned().collect();
    block.omitted = omitted;
    block
}

/// Adds the pieces that fit, after `rule`. The pieces are chosen by what each of them counts; then
/// the whole text is counted, since a text may count more than its parts, and the last ones go
/// until it is within the budget.
fn add(
    block: &mut Block,
    pieces: &[Piece<'_>],
    rule: &str,
    count: &dyn Fn(&str) -> usize,
    budget: usize,
) {
    let counted = |text: &str| if text.is_empty() { 0 } else { count(text) };
    let left = budget.saturating_sub(block.tokens + counted(rule));
    let costs: Vec<usize> = pieces.iter().map(|piece| counted(&piece.text)).collect();
    let mut chosen = fit(&costs, left);
    while !chosen.is_empty() {
        let lines = chosen
            .iter()
            .filter_map(|at| pieces.get(*at))
            .map(|piece| piece.text.as_str());
        let text: String = [block.text.as_str(), rule]
            .into_iter()
            .chain(lines)
            .collect();
        let tokens = counted(&text);
        if sabotage!("a-block-is-over-its-budget", tokens <= budget, true) {
            (block.text, block.tokens) = (text, tokens);
            block.ids.extend(
                chosen
                    .iter()
                    .filter_map(|at| pieces.get(*at))
                    .map(|piece| piece.id.clone()),
            );
            return;
        }
        chosen.pop();
    }
}

/// Which of a ranked list are returned within a budget: as many as fit from the first one on, where
/// one that is larger than the whole budget is left out and does not end the list. Nothing after
/// the first that no longer fits is returned, however small.
#[must_use]
pub fn fit(costs: &[usize], budget: usize) -> Vec<usize> {
    let mut left = budget;
    let mut chosen = Vec::new();
    for (at, cost) in costs
        .iter()
        .enumerate()
        .filter(|(_, cost)| **cost <= budget)
    {
        let Some(rest) = left.checked_sub(*cost) else {
            break;
        };
        left = rest;
        chosen.push(at);
    }
    chosen
}

fn piece<'a>(entry: &'a Entry, probability_ppm: Option<i64>) -> Piece<'a> {
    let head = format!(
        "- [{}] ({})",
        plain(&entry.id),
        labels(entry, probability_ppm)
    );
    let text = if sabotage!(
        "untrusted-text-is-compiled-like-any-other",
        fence::is_untrusted(entry),
        false
    ) {
        let fenced = fence::fenced(&entry.content);
        let lines = fenced
            .split('\n')
            .map(|line| format!("\n{FENCE_INDENT}{line}"));
        format!("{head}{}\n", lines.collect::<String>())
    } else {
        let lines: Vec<&str> = entry
            .content
            .split(|c| {
                sabotage!(
                    "a-text-begins-a-line-of-a-block",
                    fence::ends_line(c),
                    c == '\n'
                )
            })
            .collect();
        format!("{head} {}\n", lines.join(&format!("\n{INDENT}")))
    };
    Piece {
        id: &entry.id,
        text,
    }
}

/// The kind, since when and until when, who said it, and whether it may be beside the point.
fn labels(entry: &Entry, probability_ppm: Option<i64>) -> String {
    let (kind, begins) = match entry.typology {
        Typology::Episodic => ("event", "on"),
        Typology::Semantic => ("fact", "since"),
        Typology::Procedural => ("procedure", "since"),
    };
    let mut labels = vec![
        kind.to_owned(),
        format!(
            "{begins} {}",
            day(entry.facets.valid_at.unwrap_or(entry.created_at))
        ),
    ];
    labels.extend(
        entry
            .facets
            .invalid_at
            .map(|end| format!("until {}", day(end))),
    );
    let trust = if sabotage!(
        "untrusted-text-is-compiled-like-any-other",
        fence::is_untrusted(entry),
        false
    ) {
        Trust::Untrusted
    } else {
        entry.facets.trust
    };
    labels.push(trust.as_str().to_owned());
    labels.extend(
        probability_ppm
            .filter(|probability| *probability < THRESHOLD)
            .map(|_| "unsure".to_owned()),
    );
    labels.join(", ")
}

/// The day of an instant in UTC.
fn day(at: Timestamp) -> String {
    at.rfc3339().chars().take_while(|c| *c != 'T').collect()
}

/// An id that neither ends its brackets nor its line: ids are names of callers' own, and some hold
/// brackets.
fn plain(id: &EntryId) -> String {
    let safe =
        |c: char| !c.is_whitespace() && !fence::ends_line(c) && !['[', ']', '\\'].contains(&c);
    id.as_str()
        .chars()
        .map(|c| {
            if sabotage!("an-id-ends-its-brackets", safe(c), true) {
                c.to_string()
            } else {
                c.escape_unicode().to_string()
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
