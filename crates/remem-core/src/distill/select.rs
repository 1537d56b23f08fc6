//! Owns the selection of units: greedy coverage of concepts, the greatest gain for the cost first.
//!
//! The gain of a concept shrinks with each unit that has it, so the total gain is submodular: the
//! better of the greedy choice and the best single unit reaches at least (1 − 1/e)/2 of the optimum
//! (Lin and Bilmes 2011).

use super::concepts::UnitConcept;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The gain of the first, second, … unit with a concept, in sixteenths of its weight; every further
/// one gains as much as the last. A second occurrence counts much, because the same word rarely
/// states the same thing twice.
const REPEAT_SHARES: [u64; 4] = [16, 12, 2, 1];

/// A unit that may be selected.
pub(super) struct UnitCandidate {
    /// The number of tokens that keeping it costs.
    pub token_cost: u64,
    /// The number of bytes that it takes in the text.
    pub bytes: usize,
    /// The estimate how memorable it is, from [`super::cues`].
    pub memorability: u64,
    /// The concepts that it covers.
    pub concepts: Vec<UnitConcept>,
}

/// The indices of the selected units, in the order in which they were picked.
pub(super) fn pick_units(
    candidates: &[UnitCandidate],
    weights: &[u64],
    budget: u64,
    bytes_max: usize,
) -> Vec<usize> {
    let fresh = vec![0; weights.len()];
    let fits = |candidate: &UnitCandidate| {
        candidate.token_cost <= budget && candidate.bytes <= bytes_max.saturating_add(1)
    };
    let alone = |at: usize| gain(&candidates[at], weights, &fresh);
    let single = (0..candidates.len())
        .filter(|&at| fits(&candidates[at]))
        .max_by(|&a, &b| alone(a).cmp(&alone(b)).then(b.cmp(&a)));
    let Some(single) = single else {
        return Vec::new();
    };
    let (picked, value) = pick_greedily(candidates, weights, budget, bytes_max);
    // If no unit has any concept, the oldest one is selected.
    if picked.is_empty() || alone(single) > value {
        vec![single]
    } else {
        picked
    }
}

/// A unit with its gain when it was last computed. Gains only shrink, so this is an upper bound.
struct GainBound {
    gain: u64,
    charge: u64,
    at: usize,
}

impl Ord for GainBound {
    /// Compares gain per cost, exactly; the earlier unit is the greater one, so that no two are
    /// equal.
    fn cmp(&self, other: &GainBound) -> Ordering {
        let ours = u128::from(self.gain) * u128::from(other.charge);
        let theirs = u128::from(other.gain) * u128::from(self.charge);
        ours.cmp(&theirs).then_with(|| other.at.cmp(&self.at))
    }
}

impl PartialOrd for GainBound {
    fn partial_cmp(&self, other: &GainBound) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for GainBound {
    fn eq(&self, other: &GainBound) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for GainBound {}

/// Picks units by gain per cost while they fit; returns them with their total gain.
fn pick_greedily(
    candidates: &[UnitCandidate],
    weights: &[u64],
    budget: u64,
    bytes_max: usize,
) -> (Vec<usize>, u64) {
    let mut covered = vec![0; weights.len()];
    let offer = |at: usize, covered: &[usize]| GainBound {
        gain: gain(&candidates[at], weights, covered),
        charge: candidates[at].token_cost,
        at,
    };
    let mut offers: BinaryHeap<GainBound> = (0..candidates.len())
        .map(|at| offer(at, &covered))
        .collect();
    let mut picked = Vec::new();
    let mut value = 0u64;
    // The last line has no line break, so one byte more is available.
    let mut tokens_left = budget;
    let mut bytes_left = bytes_max.saturating_add(1);
    while let Some(best) = offers.pop() {
        let candidate = &candidates[best.at];
        if candidate.token_cost > tokens_left || candidate.bytes > bytes_left {
            continue;
        }
        let now = offer(best.at, &covered);
        if now.gain == 0 {
            continue;
        }
        if offers.peek().is_some_and(|next| *next > now) {
            offers.push(now);
            continue;
        }
        tokens_left -= candidate.token_cost;
        bytes_left -= candidate.bytes;
        value = value.saturating_add(now.gain);
        candidate
            .concepts
            .iter()
            .for_each(|held| covered[held.concept] += 1);
        picked.push(best.at);
    }
    (picked, value)
}

/// The gain of a unit over the concepts that are already covered.
fn gain(candidate: &UnitCandidate, weights: &[u64], covered: &[usize]) -> u64 {
    let share = |times: usize| REPEAT_SHARES[times.min(REPEAT_SHARES.len() - 1)];
    let sum: u64 = candidate
        .concepts
        .iter()
        .map(|held| weights[held.concept] * held.sixteenths * share(covered[held.concept]))
        .sum();
    sum.saturating_mul(candidate.memorability)
}

#[cfg(test)]
mod tests {
    use super::super::cues::FACTOR_ONE;
    use super::*;

    fn candidate(charge: u64, concepts: &[usize]) -> UnitCandidate {
        let held = concepts
            .iter()
            .map(|&concept| UnitConcept {
                concept,
                sixteenths: 16,
            })
            .collect();
        UnitCandidate {
            token_cost: charge,
            bytes: 10,
            memorability: FACTOR_ONE,
            concepts: held,
        }
    }

    #[test]
    fn units_are_picked_by_gain_per_cost_then_position() {
        let candidates = [
            candidate(10, &[0]),
            candidate(10, &[0]),
            candidate(10, &[1]),
            candidate(40, &[2]),
        ];
        assert_eq!(pick_units(&candidates, &[100; 3], 20, 1_000), [0, 2]);
        assert_eq!(pick_units(&candidates, &[100; 3], 30, 1_000), [0, 2, 1]);
    }

    #[test]
    fn one_valuable_unit_beats_many_cheap_ones() {
        let candidates = [candidate(1, &[0]), candidate(100, &[1])];
        // The first unit has the greater gain for its cost and leaves no room for the second, whose
        // gain is greater.
        assert_eq!(pick_units(&candidates, &[10, 500], 100, 1_000), [1]);
    }

    #[test]
    fn selection_respects_the_token_and_the_byte_limit() {
        let candidates: Vec<UnitCandidate> = (0..10).map(|at| candidate(5, &[at])).collect();
        assert_eq!(pick_units(&candidates, &[7; 10], 24, 1_000).len(), 4);
        // Three lines of nine bytes with two line breaks are 29.
        assert_eq!(pick_units(&candidates, &[7; 10], 1_000, 29).len(), 3);
        assert_eq!(pick_units(&candidates, &[7; 10], 1_000, 28).len(), 2);
        assert_eq!(
            pick_units(&candidates, &[7; 10], 4, 1_000),
            [] as [usize; 0]
        );
    }

    #[test]
    fn units_without_concepts_are_picked_only_if_all_lack_them() {
        assert_eq!(
            pick_units(&[candidate(5, &[]), candidate(5, &[0])], &[7], 100, 1_000),
            [1]
        );
        assert_eq!(
            pick_units(&[candidate(5, &[]), candidate(5, &[])], &[], 100, 1_000),
            [0]
        );
    }
}
