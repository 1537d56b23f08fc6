//! recall: the pure part of finding again. Stores find candidates; here they become hits in an
//! order (`rank`), with how sure it is that the best one answers at all (`confidence`); times in a
//! query become a range (`when`, `point`); and what is to be shown becomes one text within a budget
//! (`compile`), in which no entry can pass for another (`fence`). May not search, store or count
//! tokens: candidates, the instant and the counter are given.
//!
//! Decisions are whole numbers, parts per million. Floats that a store hands in are rounded once,
//! so that two stores agree.

pub mod compile;
pub mod confidence;
pub mod fence;
mod point;
pub mod rank;
pub mod when;

pub use compile::{Block, Shown, compile, fit};
pub use confidence::{Calibration, Signals, Verdict, confidence, verdict};
pub use rank::{Candidate, Neighbour, Parts, RankRequest, Ranked, Weights, rank};
pub use when::When;

/// A whole, in parts per million.
pub const WHOLE: i64 = 1_000_000;

/// A float in parts per million, rounded once; what is no number or negative is nothing, and what
/// no search can reach is cut.
pub(crate) fn ppm(value: f64, most: f64) -> i64 {
    let value = if value > 0.0 { value.min(most) } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "cut to what fits the line before"
    )]
    let parts = (value * 1e6).round() as i64;
    parts
}

/// How much `part` is of `whole`, in parts per million; nothing of nothing.
pub(crate) fn share(part: i64, whole: i64) -> i64 {
    if whole > 0 {
        part.min(whole) * WHOLE / whole
    } else {
        0
    }
}
