//! The comparisons that an evaluation adds on request: misspelt words, uses of times, and the
//! effect of each part of the ranking.

use crate::dataset::TextParts;
use crate::eval_host::{EvalHost, SearchSettings};
use crate::misspell;
use crate::recall::Evaluation;
use crate::report::Section;
use crate::tables::{self, NamedResults};
use remem_engine::search::{SearchMode, TimeUse};

/// The variants of entry texts that leave one thing out.
const ABLATIONS: [(&str, TextParts); 3] = [
    (
        "without who",
        TextParts {
            speaker: false,
            ..TextParts::ALL
        },
    ),
    (
        "without what was shared",
        TextParts {
            caption: false,
            ..TextParts::ALL
        },
    ),
    (
        "without when",
        TextParts {
            date: false,
            ..TextParts::ALL
        },
    ),
];

impl Evaluation<'_> {
    /// Every mode, with each question unchanged, with a misspelt word, and without that word.
    pub async fn misspelling_section(&self, stand: &EvalHost) -> anyhow::Result<Section> {
        let questions = &self.dataset.questions;
        let texts = [
            ("as asked", questions.clone()),
            ("misspelt", misspell::with_misspelling(questions)),
            ("without it", misspell::without_longest_word(questions)),
        ];
        let mut answers = Vec::new();
        for &mode in &self.modes {
            for (name, questions) in &texts {
                answers.push((
                    format!("{}, {name}", mode.as_str()),
                    self.ask_questions(stand, questions, self.search_settings(mode))
                        .await?,
                ));
            }
        }
        let ways: Vec<NamedResults<'_>> = answers
            .iter()
            .map(|(name, asked)| (name.clone(), asked.as_slice()))
            .collect();
        let note = "A slip in the longest word of each question, and the same questions without that word.";
        Ok(tables::overall("Slips", note, &ways, self.recall.k))
    }

    /// The last mode, with each use of times.
    pub async fn times_section(&self, stand: &EvalHost) -> anyhow::Result<Section> {
        let mode = self.modes.last().copied().unwrap_or_default();
        let mut answers = Vec::new();
        for (name, time) in [
            ("prefer", TimeUse::Prefer),
            ("filter", TimeUse::Filter),
            ("ignore", TimeUse::Ignore),
        ] {
            answers.push((
                format!("{}, {name}", mode.as_str()),
                self.ask(
                    stand,
                    SearchSettings {
                        time,
                        ..self.search_settings(mode)
                    },
                )
                .await?,
            ));
        }
        let ways: Vec<NamedResults<'_>> = answers
            .iter()
            .map(|(name, asked)| (name.clone(), asked.as_slice()))
            .collect();
        Ok(tables::times(&ways, self.recall.k))
    }

    /// The spoken text alone, then with speaker, caption and date; each by every mode, without and
    /// with the influence of neighbouring entries.
    pub async fn ablation_section(&self, whole: &EvalHost) -> anyhow::Result<Section> {
        let plain = self
            .build_host(&self.dataset, TextParts::SPEECH_ONLY, self.needs_vectors())
            .await?
            .0;
        let mut answers = Vec::new();
        for (stand, look) in [
            (&plain, "what was said"),
            (whole, "with who, what and when"),
        ] {
            for &mode in &self.modes {
                for (context, beside) in [(false, "alone"), (true, "with neighbours")] {
                    let asked = self
                        .ask(
                            stand,
                            SearchSettings {
                                context,
                                ..self.search_settings(mode)
                            },
                        )
                        .await?;
                    answers.push((format!("{look}: {}, {beside}", mode.as_str()), asked));
                }
            }
        }
        for (name, look) in ABLATIONS {
            let stand = self.build_host(&self.dataset, look, false).await?.0;
            answers.push((
                format!("{name}: lexical, with neighbours"),
                self.ask(
                    &stand,
                    SearchSettings {
                        context: true,
                        ..self.search_settings(SearchMode::Lexical)
                    },
                )
                .await?,
            ));
        }
        let ways: Vec<NamedResults<'_>> = answers
            .iter()
            .map(|(name, asked)| (name.clone(), asked.as_slice()))
            .collect();
        let note = "What stands in the text of an entry, by what it is found, and whether its neighbours count.";
        Ok(tables::overall(
            "What brings what",
            note,
            &ways,
            self.recall.k,
        ))
    }
}
