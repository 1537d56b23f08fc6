//! How much the probability is worth that a search gives for its own answer. Pure.

/// A probability, and whether it came true.
pub type Told = (f64, bool);

/// A tenth of all probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tenth {
    /// Its place, 0 to 9.
    pub place: usize,
    /// Questions whose probability is in it.
    pub count: usize,
    /// Their probability on average.
    pub told: f64,
    /// For how many of them it came true.
    pub came: f64,
}

/// How probable it is that one that came true was given more than one that did not; a tie is half.
/// `None` if all came out alike.
pub fn auc(told: &[Told]) -> Option<f64> {
    let mut sorted = told.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let mut won = 0.0;
    for tied in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let yes = tied.iter().filter(|one| one.1).count() as f64;
        let no = tied.len() as f64 - yes;
        won += yes * (below + no / 2.0);
        below += no;
    }
    let yes = told.len() as f64 - below;
    (yes > 0.0 && below > 0.0).then(|| won / (yes * below))
}

/// The mean square of what is between a probability and what came; 0 is best, and saying a half
/// always gives a quarter.
pub fn brier(told: &[Told]) -> Option<f64> {
    let sum: f64 = told
        .iter()
        .map(|(p, came)| (p - f64::from(*came)).powi(2))
        .sum();
    (!told.is_empty()).then(|| sum / told.len() as f64)
}

/// What came of each tenth of the probabilities; those that nobody was told are left out.
pub fn tenths(told: &[Told]) -> Vec<Tenth> {
    let tenth = |place: usize| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "cut to 0 to 9 in the same line"
        )]
        let of = |p: f64| (p * 10.0).floor().clamp(0.0, 9.0) as usize;
        let those: Vec<&Told> = told.iter().filter(|(p, _)| of(*p) == place).collect();
        let count = those.len();
        let mean = |sum: f64| sum / count as f64;
        let given = those.iter().map(|one| one.0).sum();
        let came = those.iter().filter(|one| one.1).count() as f64;
        (count > 0).then(|| Tenth {
            place,
            count,
            told: mean(given),
            came: mean(came),
        })
    };
    (0..10).filter_map(tenth).collect()
}
