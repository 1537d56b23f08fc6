//! The searches that measure the probability: every question asked of the memory that it was made
//! for, and of another one that holds no answer. May not ask.

use crate::ask::QuestionResult;
use crate::calibration::Prediction;
use crate::dataset::{Dataset, DatasetMemory, EvalQuestion};
use crate::fit::FitSample;
use remem_core::recall::Signals;

/// The probability that the host gave for an answer, and whether the answer is relevant.
#[derive(Clone, Copy, Debug)]
pub struct JudgedAnswer {
    /// The memory that the question was made for.
    pub memory: usize,
    /// The probability that the answer is relevant, as the host gave it.
    pub probability: f64,
    /// The signals that the probability was computed from.
    pub signals: Signals,
    /// True if evidence is among the first ten hits.
    pub relevant: bool,
}

impl JudgedAnswer {
    /// Converts results; `memory` gives the memory that the question with an index was made for.
    pub fn from_results(
        asked: &[QuestionResult],
        memory: impl Fn(usize) -> usize,
    ) -> Vec<JudgedAnswer> {
        let of = |one: &QuestionResult| JudgedAnswer {
            memory: memory(one.question),
            probability: one.probability,
            signals: one.signals,
            relevant: one.is_relevant,
        };
        asked.iter().map(of).collect()
    }

    /// The prediction, for the measures of `calibration`.
    pub fn prediction(&self) -> Prediction {
        (self.probability, self.relevant)
    }

    /// The sample for a fit.
    pub fn sample(&self) -> FitSample {
        FitSample::new(self.memory, &self.signals, self.relevant)
    }
}

/// The questions, each directed at the memory `other` of its own one, which holds no answer.
pub fn directed_at_other_memory(
    questions: &[EvalQuestion],
    other: impl Fn(usize) -> usize,
) -> Vec<EvalQuestion> {
    let away = |question: &EvalQuestion| EvalQuestion {
        memory: other(question.memory),
        evidence: Vec::new(),
        sessions: Vec::new(),
        answerable: false,
        ..question.clone()
    };
    questions.iter().map(away).collect()
}

/// A dataset in which every session is a memory of its own, so that small memories are measured as
/// well as large ones.
pub struct SplitDataset {
    /// The sessions as memories. A question belongs to the first session that holds evidence of it.
    pub dataset: Dataset,
    first_sessions: Vec<usize>,
}

impl SplitDataset {
    /// Splits a dataset into its sessions.
    pub fn new(whole: &Dataset) -> SplitDataset {
        let mut dataset = Dataset::default();
        let mut first_sessions = Vec::new();
        for memory in &whole.memories {
            first_sessions.push(dataset.memories.len());
            let sessions = memory.entries.chunk_by(|a, b| a.session == b.session);
            dataset.memories.extend(sessions.map(|turns| DatasetMemory {
                entries: turns.to_vec(),
            }));
        }
        let mut apart = SplitDataset {
            dataset,
            first_sessions,
        };
        for question in whole
            .questions
            .iter()
            .filter(|question| question.answerable)
        {
            let holds = |place: &usize| {
                apart.dataset.memories[*place]
                    .entries
                    .iter()
                    .any(|item| question.evidence.contains(&item.id))
            };
            if let Some(memory) = apart.sessions(question.memory).find(holds) {
                apart.dataset.questions.push(EvalQuestion {
                    memory,
                    ..question.clone()
                });
            }
        }
        apart
    }

    /// The original memory that a session belongs to.
    pub fn original_memory(&self, session: usize) -> usize {
        self.first_sessions
            .partition_point(|begin| *begin <= session)
            .saturating_sub(1)
    }

    /// A session of the next original memory.
    pub fn session_of_next_memory(&self, session: usize) -> usize {
        let own = self.original_memory(session);
        let next = self.sessions((own + 1) % self.first_sessions.len());
        next.start + (session - self.first_sessions[own]) % next.len().max(1)
    }

    fn sessions(&self, memory: usize) -> std::ops::Range<usize> {
        self.first_sessions[memory]
            ..self
                .first_sessions
                .get(memory + 1)
                .copied()
                .unwrap_or(self.dataset.memories.len())
    }
}
