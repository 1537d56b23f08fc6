//! The weight of a word in a search: BM25, with the same figures in both stores. `k1` and `b` are
//! lower than usual, because memories are short: a word said twice is not twice as telling, and a
//! long entry is not diluted but detailed (`docs/recall.md` has the figures).
//!
//! Contributions are rounded to millionths before they are added, so that a sum does not depend on
//! the order of rows.

/// Saturation of repetitions: the lower, the sooner further repetitions stop to count.
pub(crate) const K1: f64 = 0.9;
/// Normalisation by length: how far the length of an entry lowers its score.
pub(crate) const B: f64 = 0.4;
/// Contributions are rounded to this many parts of one.
pub(crate) const PARTS_PER_ONE: f64 = 1e6;

/// The inverse document frequency of a word: `holding` of `documents` entries contain it.
pub(crate) fn idf(documents: u64, holding: u64) -> f64 {
    let documents = documents.max(holding) as f64;
    let holding = holding as f64;
    (1.0 + (documents - holding + 0.5) / (holding + 0.5)).ln()
}

/// The score that a word adds to an entry, in parts.
pub(crate) fn contribution(weight: f64, times: f64, words: f64, mean_words: f64) -> f64 {
    (PARTS_PER_ONE * weight * times * (K1 + 1.0)
        / (times + K1 * (1.0 - B + B * words / mean_words)))
        .round_ties_even()
}

/// A contribution multiplied by a factor below one, rounded to whole parts.
pub(crate) fn scaled(parts: f64, by: f64) -> f64 {
    (parts * by).round_ties_even()
}

/// An upper bound of the score of any entry for words of these weights, in ones.
pub(crate) fn score_bound(weights: impl Iterator<Item = f64>) -> f64 {
    weights
        .map(|weight| (PARTS_PER_ONE * weight * (K1 + 1.0)).round_ties_even())
        .sum::<f64>()
        / PARTS_PER_ONE
}
