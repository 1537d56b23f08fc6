//! Asks all questions of a dataset in one way, and scores the hits of each.

use crate::cli::EntryUnit;
use crate::dataset::EvalQuestion;
use crate::eval_host::{EvalHost, SearchSettings};
use crate::metrics::{Scores, score};
use crate::progress::bar;
use remem_core::recall::Signals;

/// A search counts as relevant if evidence is among this many first hits.
pub const TOP_HITS: usize = 10;

/// The result of one question.
pub struct QuestionResult {
    /// The index of the question in the dataset.
    pub question: usize,
    /// The scores of the hits; `None` if there is nothing to find.
    pub scores: Option<Scores>,
    /// True if evidence is among the first ten hits.
    pub is_relevant: bool,
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
pub async fn ask_all(
    stand: &EvalHost,
    questions: &[EvalQuestion],
    unit: EntryUnit,
    way: SearchSettings,
    k: u32,
) -> anyhow::Result<Vec<QuestionResult>> {
    let bar = bar(way.mode.as_str(), questions.len() as u64);
    let mut results = Vec::with_capacity(questions.len());
    for (place, question) in questions.iter().enumerate() {
        bar.inc(1);
        let evidence = question.evidence(unit);
        if question.answerable && evidence.is_empty() {
            continue;
        }
        let answer = stand
            .ask(question.memory, &question.text, way, k.max(TOP_HITS as u32))
            .await?;
        let found: Vec<&str> = answer.hits.iter().map(String::as_str).collect();
        results.push(QuestionResult {
            question: place,
            scores: (!evidence.is_empty()).then(|| score(&found, evidence, k as usize)),
            is_relevant: found
                .iter()
                .take(TOP_HITS)
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
