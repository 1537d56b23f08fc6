//! compile: renders memory for a model as one text within a budget of tokens. First the standing
//! entries, in an order that does not depend on the query, so that their bytes stay the same and
//! can be cached; then the hits, best first. It does not rank, and never cuts an entry: an entry is
//! included whole or not at all.
//!
//! The first characters of a line show its kind, and no text of an entry can appear there: `- [`
//! begins an entry, two spaces and a mark are untrusted text, four spaces are further lines of a
//! text, `---` separates the two sections.

use super::confidence::RELEVANCE_THRESHOLD_PPM;
use super::fence;
use crate::entry::{Entry, Typology};
use crate::ids::{EntryId, Timestamp};
use crate::sabotage;
use crate::trust::Trust;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The line between standing entries and hits.
const SECTION_RULE: &str = "---\n";
/// The indentation of further lines of a text. Longer than that of a fence, which therefore cannot
/// be imitated.
const INDENT: &str = "    ";
/// The indentation of the lines of a fenced, untrusted text.
const FENCE_INDENT: &str = "  ";

/// A hit to include in the text for a model.
#[derive(Clone, Copy, Debug)]
pub struct BlockHit<'a> {
    pub entry: &'a Entry,
    /// The probability that it answers the query, if known; an improbable hit is labelled "unsure".
    pub probability_ppm: Option<i64>,
}

/// The text for a model. Its `Debug` output has sizes only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ContextBlock {
    /// The text; every line, also the last one, ends in a line break.
    pub text: String,
    /// The number of tokens of the whole text.
    pub tokens: usize,
    /// The entries in it, in order.
    pub ids: Vec<EntryId>,
    /// The length in bytes of the beginning that does not depend on the hits.
    pub prefix_bytes: usize,
    /// The entries that did not fit, in the order in which they were given.
    pub omitted: Vec<EntryId>,
}

impl std::fmt::Debug for ContextBlock {
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
struct RenderedEntry<'a> {
    id: &'a EntryId,
    text: String,
}

/// Renders standing entries and hits within `budget` tokens as `count` counts them. Standing
/// entries are ordered: procedures before facts, more trusted before less trusted, then the oldest
/// first; untrusted ones are left out. They get at most half of the budget; hits get the rest. Of
/// each section, the entries are as many as fit from the first one on (see [`fit`]).
#[must_use]
pub fn compile_context(
    standing: &[&Entry],
    hits: &[BlockHit<'_>],
    count: &dyn Fn(&str) -> usize,
    budget: usize,
) -> ContextBlock {
    let mut sorted: Vec<&Entry> = standing.to_vec();
    // An untrusted entry may be a hit, but is never a standing entry.
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
    let pieces: Vec<RenderedEntry<'_>> = sorted
        .iter()
        .map(|entry| render_entry(entry, None))
        .collect();
    let mut block = ContextBlock::default();
    append_fitting(&mut block, &pieces, "", count, budget / 2);
    block.prefix_bytes = block.text.len();

    let mut shown_ids: BTreeSet<&EntryId> = sorted
        .iter()
        .map(|entry| &entry.id)
        .filter(|id| block.ids.contains(id))
        .collect();
    let fresh = hits.iter().filter(|hit| shown_ids.insert(&hit.entry.id));
    let pieces: Vec<RenderedEntry<'_>> = fresh
        .map(|hit| render_entry(hit.entry, hit.probability_ppm))
        .collect();
    let rule = if block.text.is_empty() {
        ""
    } else {
        SECTION_RULE
    };
    append_fitting(&mut block, &pieces, rule, count, budget);

    let mut listed: BTreeSet<&EntryId> = block.ids.iter().collect();
    let given = sorted
        .iter()
        .map(|entry| &entry.id)
        .chain(hits.iter().map(|hit| &hit.entry.id));
    let omitted: Vec<EntryId> = given.filter(|id| listed.insert(id)).cloned().collect();
    block.omitted = omitted;
    block
}

/// Appends the pieces that fit, after `rule`. The pieces are chosen by their own token counts; then
/// the whole text is counted, since a text may count more than its parts, and the last pieces are
/// dropped until it is within the budget.
fn append_fitting(
    block: &mut ContextBlock,
    pieces: &[RenderedEntry<'_>],
    rule: &str,
    count: &dyn Fn(&str) -> usize,
    budget: usize,
) {
    let counted = |text: &str| if text.is_empty() { 0 } else { count(text) };
    let left = budget.saturating_sub(block.tokens + counted(rule));
    let costs: Vec<usize> = pieces.iter().map(|piece| counted(&piece.text)).collect();
    let mut chosen = fit_budget(&costs, left);
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

/// The indices of a ranked list that are returned within a budget: as many as fit from the first
/// one on. An item that is larger than the whole budget is left out and does not end the list.
/// Nothing after the first item that no longer fits is returned, however small.
#[must_use]
pub fn fit_budget(costs: &[usize], budget: usize) -> Vec<usize> {
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

/// Renders one entry with its id, labels and text.
fn render_entry<'a>(entry: &'a Entry, probability_ppm: Option<i64>) -> RenderedEntry<'a> {
    let head = format!(
        "- [{}] ({})",
        escaped_id(&entry.id),
        labels(entry, probability_ppm)
    );
    let text = if sabotage!(
        "untrusted-text-is-compiled-like-any-other",
        fence::is_untrusted(entry),
        false
    ) {
        let fenced = fence::fence_untrusted(&entry.content);
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
                    fence::is_line_break(c),
                    c == '\n'
                )
            })
            .collect();
        format!("{head} {}\n", lines.join(&format!("\n{INDENT}")))
    };
    RenderedEntry {
        id: &entry.id,
        text,
    }
}

/// The labels of an entry: its kind, its validity window, its trust, and "unsure" if it is
/// improbable.
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
            .filter(|probability| *probability < RELEVANCE_THRESHOLD_PPM)
            .map(|_| "unsure".to_owned()),
    );
    labels.join(", ")
}

/// The day of an instant in UTC.
fn day(at: Timestamp) -> String {
    at.rfc3339().chars().take_while(|c| *c != 'T').collect()
}

/// An id escaped so that it ends neither its brackets nor its line: callers choose ids, and some
/// contain brackets.
fn escaped_id(id: &EntryId) -> String {
    let safe =
        |c: char| !c.is_whitespace() && !fence::is_line_break(c) && !['[', ']', '\\'].contains(&c);
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
