//! The statistics of a comparison: quantiles of a few values, the spread of the ratios of all
//! rounds, and the verdict that follows from them.

use serde::{Deserialize, Serialize};

/// A median ratio that is no further than this from 1 counts as the same.
pub const TOLERANCE: f64 = 0.03;

/// The value that the share `at` (0 to 1) of the values stays below, interpolated between the two
/// nearest ones. No values give 0.
pub fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let rank = at.clamp(0.0, 1.0) * last as f64;
    let below = sorted[rank.floor() as usize];
    let above = sorted[rank.ceil() as usize];
    below + (above - below) * rank.fract()
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The spread of some values, as their quartiles and ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub min: f64,
    pub q1: f64,
    pub median: f64,
    pub q3: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: &[f64]) -> Spread {
        Spread {
            min: quantile(values, 0.0),
            q1: quantile(values, 0.25),
            median: median(values),
            q3: quantile(values, 0.75),
            max: quantile(values, 1.0),
        }
    }

    /// The distance of the quartiles of ratios from 1, the larger one of the two.
    pub fn distance(&self) -> f64 {
        f64::max((self.q1 - 1.0).abs(), (self.q3 - 1.0).abs())
    }
}

/// The ratios of each round; both sides have one value for each round.
pub fn ratios(base: &[f64], with: &[f64]) -> Vec<f64> {
    base.iter()
        .zip(with)
        .map(|(base, with)| with / base)
        .collect()
}

/// The conclusion of a comparison about one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Same,
    /// The other program uses less.
    Less,
    /// The other program uses more.
    More,
}

impl Verdict {
    /// Classifies a median ratio. `noise` is the spread of the base against itself, if it is known.
    pub fn of(ratio: f64, noise: Option<&Spread>) -> Verdict {
        let tolerance = f64::max(TOLERANCE, noise.map_or(0.0, Spread::distance));
        // A ratio such as 1.03 is not exact in binary.
        let slack = 1e-9;
        if (ratio - 1.0).abs() <= tolerance + slack {
            Verdict::Same
        } else if ratio < 1.0 {
            Verdict::Less
        } else {
            Verdict::More
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values = [10.0, 20.0, 30.0, 40.0, 50.0];
        assert_eq!(quantile(&values, 0.25), 20.0);
        assert_eq!(quantile(&values, 0.9), 46.0);
        assert_eq!(quantile(&values, 0.0), 10.0);
        assert_eq!(quantile(&values, 1.0), 50.0);
    }

    #[test]
    fn a_spread_has_minimum_maximum_and_quartiles() {
        let spread = Spread::of(&[1.2, 0.8, 1.0, 0.9, 1.1]);
        assert_eq!(
            [spread.min, spread.q1, spread.median, spread.q3, spread.max],
            [0.8, 0.9, 1.0, 1.1, 1.2]
        );
        assert!((spread.distance() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_spread_distance_is_from_1_to_its_farther_quartile() {
        let spread = Spread::of(&[0.99, 1.0, 1.0, 1.2, 1.2]);
        assert!((spread.distance() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn ratios_compare_values_of_the_same_round() {
        assert_eq!(ratios(&[2.0, 4.0], &[3.0, 2.0]), [1.5, 0.5]);
    }

    #[test]
    fn a_change_of_up_to_three_percent_counts_as_same() {
        assert_eq!(Verdict::of(1.0, None), Verdict::Same);
        assert_eq!(Verdict::of(1.03, None), Verdict::Same);
        assert_eq!(Verdict::of(0.97, None), Verdict::Same);
        assert_eq!(Verdict::of(1.031, None), Verdict::More);
        assert_eq!(Verdict::of(0.969, None), Verdict::Less);
    }

    #[test]
    fn noise_widens_the_tolerance_and_never_narrows_it() {
        let wide = Spread::of(&[0.9, 0.92, 1.0, 1.04, 1.1]);
        assert_eq!(Verdict::of(1.07, Some(&wide)), Verdict::Same);
        assert_eq!(Verdict::of(1.09, Some(&wide)), Verdict::More);
        assert_eq!(Verdict::of(0.91, Some(&wide)), Verdict::Less);
        let narrow = Spread::of(&[0.999, 1.0, 1.001]);
        assert_eq!(Verdict::of(1.02, Some(&narrow)), Verdict::Same);
    }
}
