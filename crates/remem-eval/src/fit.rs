//! Fits the constants of the probability to the results of searches: logistic regression by plain
//! gradient descent, always from the same start, so that the same dataset gives the same constants.
//! Pure.

use crate::calibration::Prediction;
use remem_core::recall::Signals;
use remem_core::recall::confidence::SignalWeights;
use remem_core::sabotage;

/// The number of signals of the probability: words, meaning, margin and size.
pub const SIGNALS: usize = 4;
const STEPS: usize = 3_000;
const RATE: f64 = 0.5;
/// The strength of L2 regularisation, so that the weight of a signal which separates the samples
/// cleanly does not grow without bound.
const REGULARISATION: f64 = 1e-3;
/// The most folds of the cross-validation; a dataset with fewer memories has one fold for each.
const FOLDS_MAX: usize = 10;

/// The signals of a search, and whether its hits are relevant.
#[derive(Clone, Copy, Debug)]
pub struct FitSample {
    /// The index of the memory that the question was made for.
    pub memory: usize,
    /// The signals, each from 0 to 1.
    pub signals: [f64; SIGNALS],
    /// The outcome that the probability predicts.
    pub relevant: bool,
}

/// The parameters of a logistic regression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogisticModel {
    /// The weight without any signal.
    pub bias: f64,
    /// The weights of the signals.
    pub weights: [f64; SIGNALS],
}

impl FitSample {
    /// Converts the signals of a search.
    pub fn new(memory: usize, signals: &Signals, relevant: bool) -> FitSample {
        let of = |ppm: i64| ppm as f64 / 1e6;
        let signals = [
            signals.lexical,
            signals.cosine.unwrap_or(0),
            signals.margin,
            signals.size,
        ]
        .map(of);
        FitSample {
            memory,
            signals,
            relevant,
        }
    }
}

impl LogisticModel {
    /// The predicted probability of relevance.
    pub fn probability(&self, signals: &[f64; SIGNALS]) -> f64 {
        let weighted_sum: f64 = self
            .weights
            .iter()
            .zip(signals)
            .map(|(weight, signal)| weight * signal)
            .sum();
        1.0 / (1.0 + (-(self.bias + weighted_sum)).exp())
    }

    /// The constants in the form of `remem-core`: in thousandths.
    pub fn row(&self) -> SignalWeights {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "cut to what fits in the same line"
        )]
        let of = |weight: f64| (weight * 1e3).round().clamp(-1e6, 1e6) as i64;
        let [lexical, cosine, margin, size] = self.weights.map(of);
        SignalWeights {
            bias: of(self.bias),
            lexical,
            cosine,
            margin,
            size,
        }
    }
}

/// Fits the constants to samples. Signals are normalised first; otherwise the weights of signals
/// with a small range would be learned last.
pub fn fit(samples: &[FitSample]) -> LogisticModel {
    if samples.is_empty() {
        return LogisticModel::default();
    }
    let count = samples.len() as f64;
    let mut means = [0.0; SIGNALS];
    let mut spreads = [0.0; SIGNALS];
    for place in 0..SIGNALS {
        means[place] = samples.iter().map(|one| one.signals[place]).sum::<f64>() / count;
        spreads[place] = (samples
            .iter()
            .map(|one| (one.signals[place] - means[place]).powi(2))
            .sum::<f64>()
            / count)
            .sqrt();
    }
    let scaled = |signals: &[f64; SIGNALS]| {
        std::array::from_fn(|place| {
            if spreads[place] > 1e-9 {
                (signals[place] - means[place]) / spreads[place]
            } else {
                0.0
            }
        })
    };
    let rows: Vec<([f64; SIGNALS], f64)> = samples
        .iter()
        .map(|one| (scaled(&one.signals), f64::from(one.relevant)))
        .collect();
    let mut fitted = LogisticModel::default();
    for _ in 0..STEPS {
        let mut bias = 0.0;
        let mut slopes = [0.0; SIGNALS];
        for (signals, relevant) in &rows {
            let off = fitted.probability(signals) - relevant;
            bias += off;
            slopes
                .iter_mut()
                .zip(signals)
                .for_each(|(slope, signal)| *slope += off * signal);
        }
        fitted.bias -= RATE * bias / count;
        fitted
            .weights
            .iter_mut()
            .zip(slopes)
            .for_each(|(weight, slope)| {
                *weight -= RATE * (slope / count + REGULARISATION * *weight)
            });
    }
    for place in 0..SIGNALS {
        fitted.weights[place] = if spreads[place] > 1e-9 {
            fitted.weights[place] / spreads[place]
        } else {
            0.0
        };
        fitted.bias -= fitted.weights[place] * means[place];
    }
    fitted
}

/// Cross-validation: the predictions for each memory, by constants that were fitted to the others.
pub fn cross_validate(samples: &[FitSample]) -> Vec<Prediction> {
    let memories = samples.iter().map(|one| one.memory + 1).max().unwrap_or(0);
    let part = |one: &FitSample| {
        if memories > FOLDS_MAX {
            one.memory % FOLDS_MAX
        } else {
            one.memory
        }
    };
    let mut predictions = Vec::with_capacity(samples.len());
    for fold in 0..memories.min(FOLDS_MAX) {
        let (held, others): (Vec<FitSample>, Vec<FitSample>) =
            samples.iter().partition(|one| part(one) == fold);
        let fitted = fit(sabotage!(
            "constants-are-tested-on-what-they-were-fitted-to",
            &others,
            if others.is_empty() { &others } else { &held }
        ));
        predictions.extend(
            held.iter()
                .map(|one| (fitted.probability(&one.signals), one.relevant)),
        );
    }
    predictions
}
