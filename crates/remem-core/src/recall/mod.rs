//! recall: the pure part of retrieval. Stores find candidates; here they become ranked hits
//! (`rank`), with the probability that the best one answers at all (`confidence`); times in a query
//! become a range (`when`, `point`); and the entries to show become one text within a budget
//! (`compile`), in which no entry can pass for another (`fence`). It does not search, store or
//! count tokens: candidates, the instant and the counter are given.
//!
//! Decisions are computed in whole numbers, parts per million. Floats from a store are rounded
//! once, so that two stores agree.

pub mod compile;
pub mod confidence;
pub mod fence;
mod point;
pub mod rank;
pub mod when;

pub use compile::{BlockHit, ContextBlock, compile_context, fit_budget};
pub use confidence::{Calibration, RelevanceVerdict, Signals, confidence, relevance_verdict};
pub use rank::{
    Neighbour, RankCandidate, RankRequest, Ranked, ScorePartsPpm, Weights, rank_candidates,
};
pub use when::QueryTime;

/// One, in parts per million.
pub const PPM: i64 = 1_000_000;

/// A float in parts per million, rounded once. NaN and negative values become 0, and values above
/// `most` are cut to it.
pub(crate) fn to_ppm(value: f64, most: f64) -> i64 {
    let value = if value > 0.0 { value.min(most) } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "cut to what fits the line before"
    )]
    let parts = (value * 1e6).round() as i64;
    parts
}

/// The share of `part` in `whole`, in parts per million; 0 if the whole is 0.
pub(crate) fn share_ppm(part: i64, whole: i64) -> i64 {
    if whole > 0 {
        part.min(whole) * PPM / whole
    } else {
        0
    }
}
