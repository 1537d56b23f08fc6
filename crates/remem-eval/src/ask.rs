//! Asks all questions of a dataset in one way, and scores the hits of each.

use crate::cli::Unit;
use crate::dataset::Question;
use crate::metrics::{Scores, judge};
use crate::progress::bar;
use crate::stand::{Stand, Way};
use remem_core::recall::Signals;

/// A search counts as relevant if evidence is among this many first hits.
pub const TOP: usize = 10;

/// The result of one question.
pub struct Asked {
    /// The index of the question in the dataset.
    pub question: usize,
    /// The scores of the hits; `None` if there is nothing to find.
    pub scores: Option<Scores>,
    /// True if evidence is among the first ten hits.
    pub holds: bool,
    /// The probability of that, as the host gave it.
    pub probability: f64,
    /// The signals that the probability was computed from.
    pub signals: Signals,
    /// True if a time was recognised in the question.
    pub timed: bool,
    /// The duration of the search in microseconds.
    pub micros: u64,
}

/// Asks one question after the other, so that the measured time is that of the search alone.
/// Questions that are answerable but have no evidence of this unit are left out.
pub async fn all(
    stand: &Stand,
    questions: &[Question],
    unit: Unit,
    way: Way,
    k: u32,
) -> anyhow::Result<Vec<Asked>> {
    let bar = bar(way.mode.as_str(), questions.len() as u64);
    let mut results = Vec::with_capacity(questions.len());
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
        results.push(Asked {
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
    Ok(results)
}
