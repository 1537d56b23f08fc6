//! Asks all questions of a dataset one way, and keeps what came of each.

use crate::cli::Unit;
use crate::dataset::Question;
use crate::metrics::{Scores, judge};
use crate::progress::bar;
use crate::stand::{Stand, Way};
use remem_core::recall::Signals;

/// A search is taken for relevant if so many hits hold evidence.
pub const TOP: usize = 10;

/// What came of a question.
pub struct Asked {
    /// Its place in the dataset.
    pub question: usize,
    /// How good the hits were; `None` if there is nothing to find.
    pub scores: Option<Scores>,
    /// Evidence is among the first ten.
    pub holds: bool,
    /// How probable the host took that to be.
    pub probability: f64,
    /// What that is from.
    pub signals: Signals,
    /// The question speaks of a time.
    pub timed: bool,
    /// How long the search took.
    pub micros: u64,
}

/// Asks one after the other, so that nothing but the search itself takes time. What should be
/// answerable and names no evidence of this unit is left out.
pub async fn all(
    stand: &Stand,
    questions: &[Question],
    unit: Unit,
    way: Way,
    k: u32,
) -> anyhow::Result<Vec<Asked>> {
    let bar = bar(way.mode.as_str(), questions.len() as u64);
    let mut asked = Vec::with_capacity(questions.len());
    for (place, question) in questions.iter().enumerate() {
        bar.inc(1);
        let evidence = question.evidence(unit);
        if question.answerable && evidence.is_empty() {
            continue;
        }
        let answer = stand
            .ask(question.memory, &question.text, way, k.max(TOP as u32))
            .await?;
        let found: Vec<&str> = answer.found.iter().map(String::as_str).collect();
        asked.push(Asked {
            question: place,
            scores: (!evidence.is_empty()).then(|| judge(&found, evidence, k as usize)),
            holds: found
                .iter()
                .take(TOP)
                .any(|hit| evidence.iter().any(|id| id == hit)),
            probability: answer.probability,
            signals: answer.signals,
            timed: answer.timed,
            micros: answer.micros,
        });
    }
    bar.finish_and_clear();
    Ok(asked)
}
