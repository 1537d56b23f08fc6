//! Strategies to choose what to keep of a conversation: the host's own, and those that it is
//! compared with. The cost is the same in all: a turn costs its tokens twice and a line break.

use crate::locomo::{Conversation, content_words};
use crate::text::SeededRandom;
use remem_core::distill::{DigestLimits, plan_digest};
use remem_engine::tokens::O200k;
use std::collections::{BTreeMap, BTreeSet};

/// A strategy: returns the ids of the kept turns of a conversation within a budget.
pub type SelectionStrategy = fn(&Conversation, u64) -> BTreeSet<&str>;

pub const STRATEGIES: [(&str, SelectionStrategy); 5] = [
    ("random", random),
    ("lead (oldest first)", lead),
    ("longest first", longest),
    ("greedy idf", idf),
    ("remem-distill-1", host_strategy),
];

fn charges(conversation: &Conversation) -> Vec<u64> {
    conversation
        .turns
        .iter()
        .map(|turn| 2 * O200k::count(&turn.text) as u64 + 1)
        .collect()
}

/// Takes turns in an order while they fit.
fn take(
    conversation: &Conversation,
    order: impl IntoIterator<Item = usize>,
    mut budget: u64,
) -> BTreeSet<&str> {
    let charges = charges(conversation);
    let mut kept = BTreeSet::new();
    for at in order {
        if charges[at] <= budget {
            budget -= charges[at];
            kept.insert(conversation.turns[at].id.as_str());
        }
    }
    kept
}

fn random(conversation: &Conversation, budget: u64) -> BTreeSet<&str> {
    let mut random = SeededRandom::new(7);
    let mut order: Vec<usize> = (0..conversation.turns.len()).collect();
    (1..order.len())
        .rev()
        .for_each(|at| order.swap(at, random.below(at + 1)));
    take(conversation, order, budget)
}

fn lead(conversation: &Conversation, budget: u64) -> BTreeSet<&str> {
    take(conversation, 0..conversation.turns.len(), budget)
}

fn longest(conversation: &Conversation, budget: u64) -> BTreeSet<&str> {
    let charges = charges(conversation);
    let mut order: Vec<usize> = (0..conversation.turns.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(charges[at]));
    take(conversation, order, budget)
}

/// Greedy coverage of words weighted by rarity, the most weight for the cost first: the strongest
/// of the published strategies.
fn idf(conversation: &Conversation, mut budget: u64) -> BTreeSet<&str> {
    let words: Vec<BTreeSet<String>> = conversation
        .turns
        .iter()
        .map(|turn| content_words(&turn.text))
        .collect();
    let charges = charges(conversation);
    let mut turns_with: BTreeMap<&str, f64> = BTreeMap::new();
    words
        .iter()
        .flatten()
        .for_each(|word| *turns_with.entry(word).or_default() += 1.0);
    let weight = |word: &str| ((words.len() as f64 + turns_with[word]) / turns_with[word]).log2();
    let mut covered = BTreeSet::new();
    let mut kept = BTreeSet::new();
    let mut left: Vec<usize> = (0..words.len()).collect();
    loop {
        left.retain(|&at| charges[at] <= budget);
        let ratio = |at: usize| {
            let gain: f64 = words[at]
                .iter()
                .filter(|word| !covered.contains(word.as_str()))
                .map(|word| weight(word))
                .sum();
            gain / charges[at] as f64
        };
        let rated = left.iter().map(|&at| (ratio(at), at));
        let Some((_, best)) = rated.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else {
            return kept;
        };
        budget -= charges[best];
        covered.extend(words[best].iter().map(String::as_str));
        kept.insert(conversation.turns[best].id.as_str());
        left.retain(|&at| at != best);
    }
}

/// The turns that the host's own plan keeps whole.
fn host_strategy(conversation: &Conversation, budget: u64) -> BTreeSet<&str> {
    let limits = DigestLimits {
        output_bytes_max: usize::MAX,
        ..DigestLimits::default()
    };
    let Ok(digest) = plan_digest(&conversation.turns, budget, &limits, &O200k::count) else {
        return BTreeSet::new();
    };
    let whole = |id: &str, text: &str| {
        digest
            .units
            .iter()
            .any(|unit| unit.source == id && unit.text == text.trim())
    };
    conversation
        .turns
        .iter()
        .filter(|turn| whole(&turn.id, &turn.text))
        .map(|turn| turn.id.as_str())
        .collect()
}
