//! How good a list of hits is, and how long things took. Pure.

/// What is counted beside the hits that were asked for.
pub const FEW: usize = 5;

/// The figures of one question, or the means of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// How much of the evidence is among the first five.
    pub recall_few: f64,
    /// How much of it is among the first k.
    pub recall: f64,
    /// Whether all of it is among the first k.
    pub all: f64,
    /// Whether any of it is among the first k.
    pub any: f64,
    /// How far in front it is, of what could be.
    pub ndcg: f64,
    /// One by the place of the first of it.
    pub mrr: f64,
}

/// The figures of a list of hits. Hits after the k-th count for nothing, and a hit that is there
/// twice counts once.
pub fn judge(found: &[&str], evidence: &[String], k: usize) -> Scores {
    let mut first_of: Vec<usize> = Vec::new();
    for id in evidence {
        first_of.extend(found.iter().take(k).position(|hit| hit == id));
    }
    first_of.sort_unstable();
    let within = |most: usize| first_of.iter().filter(|place| **place < most).count() as f64;
    let wanted = evidence.len().max(1) as f64;
    let there = within(k);
    let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let best: f64 = (0..evidence.len().min(k)).map(gain).sum();
    Scores {
        recall_few: within(FEW.min(k)) / wanted,
        recall: there / wanted,
        all: f64::from(!evidence.is_empty() && first_of.len() == evidence.len()),
        any: f64::from(there > 0.0),
        ndcg: if best > 0.0 {
            first_of.iter().map(|place| gain(*place)).sum::<f64>() / best
        } else {
            0.0
        },
        mrr: first_of
            .first()
            .map_or(0.0, |place| 1.0 / (*place as f64 + 1.0)),
    }
}

/// The means; `None` of nothing.
pub fn mean<'a>(scores: impl Iterator<Item = &'a Scores>) -> Option<(Scores, usize)> {
    let mut sum = Scores::default();
    let mut count = 0_usize;
    for one in scores {
        sum.recall_few += one.recall_few;
        sum.recall += one.recall;
        sum.all += one.all;
        sum.any += one.any;
        sum.ndcg += one.ndcg;
        sum.mrr += one.mrr;
        count += 1;
    }
    let of = |sum: f64| sum / count as f64;
    let means = Scores {
        recall_few: of(sum.recall_few),
        recall: of(sum.recall),
        all: of(sum.all),
        any: of(sum.any),
        ndcg: of(sum.ndcg),
        mrr: of(sum.mrr),
    };
    (count > 0).then_some((means, count))
}

/// The least value that so many hundredths of all are not above; 0 of nothing.
pub fn percentile(values: &[u64], hundredths: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn figures_worked_out_by_hand() {
        // Found: second and sixth place; c is missing.
        let found = ["x", "a", "y", "z", "w", "b", "v"];
        let scores = judge(&found, &ids("a b c"), 10);
        assert!(
            near(scores.recall_few, 1.0 / 3.0) && near(scores.recall, 2.0 / 3.0),
            "{scores:?}"
        );
        assert_eq!((scores.all, scores.any, scores.mrr), (0.0, 1.0, 0.5));
        // 1/log2(3) + 1/log2(7), of 1/log2(2) + 1/log2(3) + 1/log2(4).
        let gained = 0.630_929_753_571_457_4 + 0.356_207_187_108_022_2;
        let best = 2.130_929_753_571_457_4;
        assert!(near(scores.ndcg, gained / best), "{scores:?}");
        let all = judge(&["b", "a"], &ids("a b"), 10);
        assert_eq!(
            all,
            Scores {
                recall_few: 1.0,
                recall: 1.0,
                all: 1.0,
                any: 1.0,
                ndcg: 1.0,
                mrr: 1.0
            }
        );
    }

    #[test]
    fn what_comes_after_the_kth_does_not_count() {
        let scores = judge(&["x", "y", "a"], &ids("a"), 2);
        assert_eq!(scores, Scores::default());
        assert_eq!(judge(&["x", "y", "a"], &ids("a"), 3).recall, 1.0);
        // With room for two, two of three are the best there can be.
        assert!(near(judge(&["a", "b"], &ids("a b c"), 2).ndcg, 1.0));
    }

    #[test]
    fn means_and_percentiles() {
        let one = judge(&["a"], &ids("a"), 5);
        let other = judge(&["x"], &ids("a"), 5);
        let (means, count) = mean([one, other].iter()).unwrap();
        assert_eq!((means.recall, means.mrr, count), (0.5, 0.5, 2));
        assert!(mean([].iter()).is_none());
        let values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(
            [50, 95, 99, 100].map(|p| percentile(&values, p)),
            [100, 190, 198, 200]
        );
        assert_eq!((percentile(&[7], 50), percentile(&[], 50)), (7, 0));
    }

    proptest! {
        #[test]
        fn figures_are_shares(found in prop::collection::vec("[a-f]", 0..12), evidence in prop::collection::btree_set("[a-f]", 1..4), k in 1..12_usize) {
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            let evidence: Vec<String> = evidence.into_iter().collect();
            let Scores { recall_few, recall, all, any, ndcg, mrr } = judge(&found, &evidence, k);
            for share in [recall_few, recall, all, any, ndcg, mrr] {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&share));
            }
            prop_assert!(all <= recall && recall <= any && recall_few <= recall && mrr <= any);
            prop_assert!(judge(&found, &evidence, k + 1).recall >= recall);
        }
    }
}
