//! The searches by which the probability is judged: every question of the memory that it was made
//! for, and of another that knows nothing of it. May not ask.

use crate::abstain::Told;
use crate::ask::Asked;
use crate::dataset::{Dataset, Memory, Question};
use crate::fit::Sample;
use remem_core::recall::Signals;

/// What the probability told of an answer, and whether it came true.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// The memory that the question was made for.
    pub memory: usize,
    /// How probable the host took it that the answer is relevant.
    pub probability: f64,
    /// What that is from.
    pub signals: Signals,
    /// Evidence is among the first ten hits.
    pub relevant: bool,
}

impl Judged {
    /// Of answers; `memory` tells which memory the question at a place was made for.
    pub fn all(asked: &[Asked], memory: impl Fn(usize) -> usize) -> Vec<Judged> {
        let of = |one: &Asked| Judged {
            memory: memory(one.question),
            probability: one.probability,
            signals: one.signals,
            relevant: one.holds,
        };
        asked.iter().map(of).collect()
    }

    /// As the figures take it.
    pub fn told(&self) -> Told {
        (self.probability, self.relevant)
    }

    /// As a fit takes it.
    pub fn sample(&self) -> Sample {
        Sample::new(self.memory, &self.signals, self.relevant)
    }
}

/// Questions asked of the memory at `other` of their own, which holds nothing that answers them.
pub fn elsewhere(questions: &[Question], other: impl Fn(usize) -> usize) -> Vec<Question> {
    let away = |question: &Question| Question {
        memory: other(question.memory),
        evidence: Vec::new(),
        sessions: Vec::new(),
        answerable: false,
        ..question.clone()
    };
    questions.iter().map(away).collect()
}

/// A dataset with every session a memory of its own: memories of a few entries are asked as well as
/// large ones.
pub struct Apart {
    /// The sessions. A question is asked of the first that holds evidence of it.
    pub dataset: Dataset,
    begins: Vec<usize>,
}

impl Apart {
    /// Takes it apart.
    pub fn new(whole: &Dataset) -> Apart {
        let mut dataset = Dataset::default();
        let mut begins = Vec::new();
        for memory in &whole.memories {
            begins.push(dataset.memories.len());
            let sessions = memory.entries.chunk_by(|a, b| a.session == b.session);
            dataset.memories.extend(sessions.map(|turns| Memory {
                entries: turns.to_vec(),
            }));
        }
        let mut apart = Apart { dataset, begins };
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
                apart.dataset.questions.push(Question {
                    memory,
                    ..question.clone()
                });
            }
        }
        apart
    }

    /// The memory that a session is of.
    pub fn whole(&self, session: usize) -> usize {
        self.begins
            .partition_point(|begin| *begin <= session)
            .saturating_sub(1)
    }

    /// A session of the next memory.
    pub fn other(&self, session: usize) -> usize {
        let own = self.whole(session);
        let next = self.sessions((own + 1) % self.begins.len());
        next.start + (session - self.begins[own]) % next.len().max(1)
    }

    fn sessions(&self, memory: usize) -> std::ops::Range<usize> {
        self.begins[memory]
            ..self
                .begins
                .get(memory + 1)
                .copied()
                .unwrap_or(self.dataset.memories.len())
    }
}
