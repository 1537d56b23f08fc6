//! The fit recovers a known law, and no memory is predicted by a fit to itself.

use remem_eval::calibration::{auc, brier};
use remem_eval::fit::{FitSample, LogisticModel, cross_validate, fit};

/// Samples of a known law: of every hundred with one signal, as many are relevant as it says.
fn lawful() -> Vec<FitSample> {
    let mut samples = Vec::new();
    for step in 0..20_usize {
        let signal = step as f64 / 19.0;
        let chance = 1.0 / (1.0 + (-(4.0 * signal - 2.0)).exp());
        for one in 0..100_usize {
            samples.push(FitSample {
                memory: one % 4,
                signals: [signal, 0.0, 0.3, 0.5],
                relevant: (one as f64) < chance * 100.0,
            });
        }
    }
    samples
}

#[test]
fn the_fit_recovers_a_known_model() {
    let fitted = fit(&lawful());
    assert!((fitted.bias + 2.0).abs() < 0.1, "{fitted:?}");
    assert!((fitted.weights[0] - 4.0).abs() < 0.15, "{fitted:?}");
    assert_eq!(
        fitted.weights[1..],
        [0.0; 3],
        "what never changes tells nothing"
    );
    let row = fitted.row();
    assert_eq!((row.cosine, row.margin), (0, 0));
    assert!((row.lexical - 4_000).abs() < 150, "{row:?}");
    assert_eq!(fit(&lawful()), fitted);
    assert_eq!(fit(&[]), LogisticModel::default());
}

#[test]
fn cross_validation_predicts_a_memory_from_the_others() {
    // In each memory alone the signal means the opposite of what it means in the other.
    let sample = |memory, signal, relevant| FitSample {
        memory,
        signals: [signal, 0.0, 0.0, 0.0],
        relevant,
    };
    let samples: Vec<FitSample> = (0..40)
        .map(|n| sample(n % 2, f64::from(u8::from(n < 20)), (n < 20) == (n % 2 == 0)))
        .collect();
    assert!(
        auc(&cross_validate(&samples)).unwrap() < 0.1,
        "a fit to the memory itself would do better"
    );
    let law = cross_validate(&lawful());
    assert_eq!(law.len(), lawful().len());
    assert!(brier(&law).unwrap() < 0.25);
}
