//! Measures the probability: every question is asked of its own memory and of a wrong one, where a
//! memory is a whole one or a single session.

use crate::ask::Asked;
use crate::judged::{self, Apart, Judged};
use crate::recall::Evaluation;
use crate::report::Section;
use crate::stand::{Stand, Way};
use crate::tables::{self, Situation};
use remem_engine::search::Mode;

impl Evaluation<'_> {
    /// The tables about the probability, from the answers of each mode and those of wrong memories.
    pub async fn probability(
        &self,
        stand: &Stand,
        answers: &[(Mode, Vec<Asked>)],
    ) -> anyhow::Result<Vec<Section>> {
        let apart = Apart::new(&self.dataset);
        let sessions = if self.dataset.has_sessions() {
            let made = self.stand(&apart.dataset, self.look, self.by_meaning());
            Some(made.await?.0)
        } else {
            None
        };
        let mut situations = Vec::new();
        let mut pooled = [
            ("without vectors", Vec::new()),
            ("with vectors", Vec::new()),
        ];
        for (mode, own) in answers {
            let way = self.way(*mode);
            let mut judged = vec![("whole", self.judge_memories(stand, own, way).await?)];
            if let Some(sessions) = &sessions {
                let small = self.judge_sessions(sessions, &apart, way).await?;
                judged.push(("sessions", small));
            }
            for (memories, judged) in judged {
                // The semantic mode shows how questions do that share no word with their answer, so
                // it is pooled with the hybrid mode: one row of constants has to fit both.
                let pool = &mut pooled[usize::from(*mode != Mode::Lexical)].1;
                pool.extend(&judged);
                situations.push(Situation {
                    way: mode.as_str(),
                    memories,
                    judged,
                });
            }
        }
        let mut pooled = Vec::from(pooled);
        pooled.retain(|(_, judged)| !judged.is_empty());
        let mut sections = vec![tables::wrong_memory(&situations)];
        for (name, judged) in &pooled {
            sections.push(tables::calibration(name, judged));
        }
        if self.recall.fit {
            sections.push(tables::fitted(&pooled));
        }
        Ok(sections)
    }

    /// The answers of the right memories, `own`, and those of the next memory to each question.
    async fn judge_memories(
        &self,
        stand: &Stand,
        own: &[Asked],
        way: Way,
    ) -> anyhow::Result<Vec<Judged>> {
        let questions = &self.dataset.questions;
        let count = self.dataset.memories.len();
        let elsewhere = judged::elsewhere(questions, |memory| (memory + 1) % count);
        let away = self.ask_these(stand, &elsewhere, way).await?;
        let of = |question: usize| questions[question].memory;
        Ok([Judged::all(own, of), Judged::all(&away, of)].concat())
    }

    /// The same, with every session as a memory of its own.
    async fn judge_sessions(
        &self,
        sessions: &Stand,
        apart: &Apart,
        way: Way,
    ) -> anyhow::Result<Vec<Judged>> {
        let questions = &apart.dataset.questions;
        let own = self.ask_these(sessions, questions, way).await?;
        let elsewhere = judged::elsewhere(questions, |session| apart.other(session));
        let away = self.ask_these(sessions, &elsewhere, way).await?;
        let of = |question: usize| apart.whole(questions[question].memory);
        Ok([Judged::all(&own, of), Judged::all(&away, of)].concat())
    }
}
