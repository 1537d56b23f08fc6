//! The measures of the probability, compared with values worked out by hand.

use remem_eval::calibration::{auc, brier, calibration_bins};

#[test]
fn auc_and_brier_score_match_hand_computed_values() {
    let predictions = [(0.9, true), (0.8, false), (0.7, true), (0.1, false)];
    // Of four pairs three are in the right order.
    assert_eq!(auc(&predictions), Some(0.75));
    // 0.01 + 0.64 + 0.09 + 0.01, by four.
    assert!((brier(&predictions).unwrap() - 0.1875).abs() < 1e-12);
    assert_eq!(
        auc(&[(0.5, true), (0.5, false)]),
        Some(0.5),
        "a tie is half"
    );
    assert_eq!(
        (auc(&[(0.5, true)]), auc(&[]), brier(&[])),
        (None, None, None)
    );
    assert_eq!(auc(&[(0.2, true), (0.9, false)]), Some(0.0));
}

#[test]
fn predictions_are_counted_in_calibration_bins_of_a_tenth() {
    let found = calibration_bins(&[(0.0, false), (0.05, true), (0.1, true), (1.0, true)]);
    let places: Vec<(usize, usize, f64)> = found
        .iter()
        .map(|one| (one.place, one.count, one.observed))
        .collect();
    assert_eq!(places, [(0, 2, 0.5), (1, 1, 1.0), (9, 1, 1.0)]);
    assert!((found[0].predicted - 0.025).abs() < 1e-12);
}
