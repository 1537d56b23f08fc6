//! Measures the probability: every question is asked of its own memory and of a wrong one, where a
//! memory is a whole one or a single session.

use crate::ask::QuestionResult;
use crate::eval_host::{EvalHost, SearchSettings};
use crate::judged_answers::{self, JudgedAnswer, SplitDataset};
use crate::recall::Evaluation;
use crate::report::Section;
use crate::tables::{self, JudgedGroup};
use remem_engine::search::SearchMode;

impl Evaluation<'_> {
    /// The tables about the probability, from the answers of each mode and those of wrong memories.
    pub async fn probability(
        &self,
        stand: &EvalHost,
        answers: &[(SearchMode, Vec<QuestionResult>)],
    ) -> anyhow::Result<Vec<Section>> {
        let apart = SplitDataset::new(&self.dataset);
        let sessions = if self.dataset.has_sessions() {
            let made = self.build_host(&apart.dataset, self.text_parts, self.needs_vectors());
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
            let way = self.search_settings(*mode);
            let mut judged = vec![("whole", self.judge_memories(stand, own, way).await?)];
            if let Some(sessions) = &sessions {
                let small = self.judge_sessions(sessions, &apart, way).await?;
                judged.push(("sessions", small));
            }
            for (memories, judged) in judged {
                // The semantic mode shows how questions do that share no word with their answer, so
                // it is pooled with the hybrid mode: one row of constants has to fit both.
                let pool = &mut pooled[usize::from(*mode != SearchMode::Lexical)].1;
                pool.extend(&judged);
                situations.push(JudgedGroup {
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
        stand: &EvalHost,
        own: &[QuestionResult],
        way: SearchSettings,
    ) -> anyhow::Result<Vec<JudgedAnswer>> {
        let questions = &self.dataset.questions;
        let count = self.dataset.memories.len();
        let elsewhere =
            judged_answers::directed_at_other_memory(questions, |memory| (memory + 1) % count);
        let away = self.ask_questions(stand, &elsewhere, way).await?;
        let of = |question: usize| questions[question].memory;
        Ok([
            JudgedAnswer::from_results(own, of),
            JudgedAnswer::from_results(&away, of),
        ]
        .concat())
    }

    /// The same, with every session as a memory of its own.
    async fn judge_sessions(
        &self,
        sessions: &EvalHost,
        apart: &SplitDataset,
        way: SearchSettings,
    ) -> anyhow::Result<Vec<JudgedAnswer>> {
        let questions = &apart.dataset.questions;
        let own = self.ask_questions(sessions, questions, way).await?;
        let elsewhere = judged_answers::directed_at_other_memory(questions, |session| {
            apart.session_of_next_memory(session)
        });
        let away = self.ask_questions(sessions, &elsewhere, way).await?;
        let of = |question: usize| apart.original_memory(questions[question].memory);
        Ok([
            JudgedAnswer::from_results(&own, of),
            JudgedAnswer::from_results(&away, of),
        ]
        .concat())
    }
}
