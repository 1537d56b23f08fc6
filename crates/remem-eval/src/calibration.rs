//! Measures of how good the probability is that a search gives for its own answer. Pure.

/// A predicted probability, and whether the event happened.
pub type Prediction = (f64, bool);

/// A tenth of the range of probabilities, with the predictions in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationBin {
    /// The number of the tenth, 0 to 9.
    pub place: usize,
    /// The number of predictions in this tenth.
    pub count: usize,
    /// The mean of the predicted probabilities.
    pub predicted: f64,
    /// The share of predictions whose event happened.
    pub observed: f64,
}

/// The area under the ROC curve: the probability that a prediction whose event happened is higher
/// than one whose event did not; a tie counts as half. `None` if all events happened, or none did.
pub fn auc(predictions: &[Prediction]) -> Option<f64> {
    let mut sorted = predictions.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let mut won = 0.0;
    for tied in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let yes = tied.iter().filter(|one| one.1).count() as f64;
        let no = tied.len() as f64 - yes;
        won += yes * (below + no / 2.0);
        below += no;
    }
    let yes = predictions.len() as f64 - below;
    (yes > 0.0 && below > 0.0).then(|| won / (yes * below))
}

/// The Brier score: the mean squared difference between probability and outcome. 0 is best, and
/// predicting one half always gives a quarter.
pub fn brier(predictions: &[Prediction]) -> Option<f64> {
    let sum: f64 = predictions
        .iter()
        .map(|(p, came)| (p - f64::from(*came)).powi(2))
        .sum();
    (!predictions.is_empty()).then(|| sum / predictions.len() as f64)
}

/// The statistics of each tenth of the probabilities; tenths without a prediction are left out.
pub fn calibration_bins(predictions: &[Prediction]) -> Vec<CalibrationBin> {
    let tenth = |place: usize| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "cut to 0 to 9 in the same line"
        )]
        let of = |p: f64| (p * 10.0).floor().clamp(0.0, 9.0) as usize;
        let those: Vec<&Prediction> = predictions
            .iter()
            .filter(|(p, _)| of(*p) == place)
            .collect();
        let count = those.len();
        let mean = |sum: f64| sum / count as f64;
        let given = those.iter().map(|one| one.0).sum();
        let came = those.iter().filter(|one| one.1).count() as f64;
        (count > 0).then(|| CalibrationBin {
            place,
            count,
            predicted: mean(given),
            observed: mean(came),
        })
    };
    (0..10).filter_map(tenth).collect()
}
