//! Scores, worked out by hand and within their bounds.

use proptest::prelude::*;
use remem_eval::metrics::{Scores, mean, percentile, score};

fn ids(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn scores_match_hand_computed_values() {
    // Found: the second and the sixth position; c is missing.
    let found = ["x", "a", "y", "z", "w", "b", "v"];
    let scores = score(&found, &ids("a b c"), 10);
    assert!(
        near(scores.recall_few, 1.0 / 3.0) && near(scores.recall, 2.0 / 3.0),
        "{scores:?}"
    );
    assert_eq!((scores.all, scores.any, scores.mrr), (0.0, 1.0, 0.5));
    // 1/log2(3) + 1/log2(7), of 1/log2(2) + 1/log2(3) + 1/log2(4).
    let gained = 0.630_929_753_571_457_4 + 0.356_207_187_108_022_2;
    let best = 2.130_929_753_571_457_4;
    assert!(near(scores.ndcg, gained / best), "{scores:?}");
    let all = score(&["b", "a"], &ids("a b"), 10);
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
fn results_after_rank_k_do_not_count() {
    let scores = score(&["x", "y", "a"], &ids("a"), 2);
    assert_eq!(scores, Scores::default());
    assert_eq!(score(&["x", "y", "a"], &ids("a"), 3).recall, 1.0);
    // With room for two, two of three are the best there can be.
    assert!(near(score(&["a", "b"], &ids("a b c"), 2).ndcg, 1.0));
}

#[test]
fn means_and_percentiles_match_hand_computed_values() {
    let one = score(&["a"], &ids("a"), 5);
    let other = score(&["x"], &ids("a"), 5);
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
    fn scores_are_between_zero_and_one_and_consistent(found in prop::collection::vec("[a-f]", 0..12), evidence in prop::collection::btree_set("[a-f]", 1..4), k in 1..12_usize) {
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let evidence: Vec<String> = evidence.into_iter().collect();
        let Scores { recall_few, recall, all, any, ndcg, mrr } = score(&found, &evidence, k);
        for share in [recall_few, recall, all, any, ndcg, mrr] {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&share));
        }
        prop_assert!(all <= recall && recall <= any && recall_few <= recall && mrr <= any);
        prop_assert!(score(&found, &evidence, k + 1).recall >= recall);
    }
}
