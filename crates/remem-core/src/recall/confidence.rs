//! confidence: the probability that the best hit answers the query at all, from signals that do not
//! depend on the other hits. It does not change an order. A list always has a best hit; only
//! absolute signals show whether it is good.

use super::rank::{RankCandidate, RankRequest, Ranked};
use super::{PPM, share_ppm, to_ppm};

/// The probability from which on a best hit counts as relevant. Low: a paraphrase that is not shown
/// is worse than one line too many.
pub const RELEVANCE_THRESHOLD_PPM: i64 = 100_000;
/// The index of the hit that the best one is compared with.
const TENTH_INDEX: usize = 9;
/// The distance between the entries of [`LOGISTIC`], in thousandths of a logit.
const LOGISTIC_STEP: i64 = 250;
/// The logistic function at 0, 0.25, 0.5, … 8, in parts per million; the negative half follows by
/// symmetry.
#[rustfmt::skip]
const LOGISTIC: [i64; 33] = [
    500_000, 562_177, 622_459, 679_179, 731_059, 777_300, 817_574, 851_953, 880_797, 904_651, 924_142, 939_913, 952_574, 962_673,
    970_688, 977_023, 982_014, 985_936, 989_013, 991_423, 993_307, 994_780, 995_930, 996_827, 997_527, 998_073, 998_499, 998_830,
    999_089, 999_290, 999_447, 999_569, 999_665,
];

/// The signals of a list of hits, in parts per million. An evaluation records these together with
/// whether the best hit was right, and fits a [`Calibration`] to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Signals {
    /// The best BM25 score, spelling corrections included, as a share of the greatest that the
    /// query could reach.
    pub lexical: i64,
    /// The greatest cosine; `None` if there are no vectors.
    pub cosine: Option<i64>,
    /// The distance of the best score from the tenth, as a share of the best; 0 if there is no
    /// tenth: in a short list no hit is far ahead.
    pub margin: i64,
    /// The number of hits on a logarithmic scale, a tenth for each doubling: the best of many hits
    /// is good by chance.
    pub size: i64,
    /// The number of hits.
    pub hits: usize,
}

impl Signals {
    /// The signals of a ranking and the candidates it was made from.
    #[must_use]
    pub fn of(
        candidates: &[RankCandidate<'_>],
        ranked: &[Ranked<'_>],
        request: &RankRequest,
    ) -> Signals {
        const LEXICAL_MAX: f64 = 1e6;
        let lexical = candidates
            .iter()
            .map(|one| to_ppm(one.lexical + one.typo, LEXICAL_MAX))
            .max()
            .unwrap_or(0);
        let best = ranked.first().map_or(0, |hit| hit.score);
        let tenth = ranked.get(TENTH_INDEX).map_or(best, |hit| hit.score);
        Signals {
            lexical: share_ppm(lexical, to_ppm(request.lexical_best_possible, LEXICAL_MAX)),
            cosine: candidates
                .iter()
                .filter_map(|one| one.cosine)
                .map(|cosine| to_ppm(cosine, 1.0))
                .max(),
            margin: share_ppm(best - tenth, best),
            size: (i64::from((ranked.len() + 1).ilog2()) * PPM / 10).min(PPM),
            hits: ranked.len(),
        }
    }
}

/// The weights of the signals: thousandths of a logit for a full signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalWeights {
    /// The constant term of the model.
    pub bias: i64,
    /// The weight of [`Signals::lexical`].
    pub lexical: i64,
    /// The weight of [`Signals::cosine`].
    pub cosine: i64,
    /// The weight of [`Signals::margin`].
    pub margin: i64,
    /// The weight of [`Signals::size`].
    pub size: i64,
}

/// The constants of the logistic model, one row for memories with vectors and one for those
/// without. The default was fitted to questions put to the right memory and to a wrong one, large
/// and small (`docs/evaluation.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The weights for memories with vectors.
    pub with_vectors: SignalWeights,
    /// The weights for memories without vectors.
    pub without_vectors: SignalWeights,
    /// The probability from which on a best hit counts as relevant.
    pub threshold_ppm: i64,
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration {
            with_vectors: SignalWeights {
                bias: -6_186,
                lexical: 3_826,
                cosine: 15_230,
                margin: 3_026,
                size: -5_459,
            },
            without_vectors: SignalWeights {
                bias: -4_385,
                lexical: 13_237,
                cosine: 0,
                margin: 3_396,
                size: -1_116,
            },
            threshold_ppm: RELEVANCE_THRESHOLD_PPM,
        }
    }
}

/// The estimate whether the best hit is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelevanceVerdict {
    /// The probability that the best hit is relevant, in parts per million.
    pub probability_ppm: i64,
    /// Whether the probability reaches the threshold.
    pub is_relevant: bool,
}

/// The probability that the best hit is relevant, in parts per million; 0 if there is no hit.
#[must_use]
pub fn confidence(signals: &Signals, calibration: &Calibration) -> i64 {
    if signals.hits == 0 {
        return 0;
    }
    let row = if signals.cosine.is_some() {
        &calibration.with_vectors
    } else {
        &calibration.without_vectors
    };
    let term = |weight: i64, signal: i64| weight.clamp(-PPM, PPM) * signal.clamp(0, PPM) / PPM;
    let evidence =
        term(row.lexical, signals.lexical) + term(row.cosine, signals.cosine.unwrap_or(0));
    logistic(
        row.bias.clamp(-PPM, PPM)
            + evidence
            + term(row.margin, signals.margin)
            + term(row.size, signals.size),
    )
}

/// The probability, with its comparison to the threshold.
#[must_use]
pub fn relevance_verdict(signals: &Signals, calibration: &Calibration) -> RelevanceVerdict {
    let probability_ppm = confidence(signals, calibration);
    RelevanceVerdict {
        probability_ppm,
        is_relevant: signals.hits > 0 && probability_ppm >= calibration.threshold_ppm,
    }
}

/// The logistic function of thousandths of a logit, interpolated linearly between the values of the
/// table.
fn logistic(logit: i64) -> i64 {
    let magnitude = logit.unsigned_abs();
    let index = usize::try_from(magnitude / LOGISTIC_STEP.unsigned_abs()).unwrap_or(usize::MAX);
    let at = |index: usize| {
        LOGISTIC
            .get(index)
            .or(LOGISTIC.last())
            .copied()
            .unwrap_or(PPM)
    };
    let low = at(index);
    let high = at(index.saturating_add(1));
    let upper = low + (high - low) * (logit.abs() % LOGISTIC_STEP) / LOGISTIC_STEP;
    if logit < 0 { PPM - upper } else { upper }
}

#[cfg(test)]
#[path = "confidence_tests.rs"]
mod tests;
