//! The comparisons that an evaluation adds on request: misspelt words, uses of times, and the
//! effect of each part of the ranking.

use crate::dataset::Look;
use crate::misspell;
use crate::recall::Evaluation;
use crate::report::Section;
use crate::stand::{Stand, Way};
use crate::tables::{self, Named};
use remem_engine::search::{Mode, TimeUse};

/// The variants of entry texts that leave one thing out.
const WITHOUT: [(&str, Look); 3] = [
    (
        "without who",
        Look {
            speaker: false,
            ..Look::WHOLE
        },
    ),
    (
        "without what was shared",
        Look {
            caption: false,
            ..Look::WHOLE
        },
    ),
    (
        "without when",
        Look {
            date: false,
            ..Look::WHOLE
        },
    ),
];

impl Evaluation<'_> {
    /// Every mode, with each question unchanged, with a misspelt word, and without that word.
    pub async fn misspelt(&self, stand: &Stand) -> anyhow::Result<Section> {
        let questions = &self.dataset.questions;
        let texts = [
            ("as asked", questions.clone()),
            ("misspelt", misspell::misspelt(questions)),
            ("without it", misspell::without(questions)),
        ];
        let mut answers = Vec::new();
        for &mode in &self.modes {
            for (name, questions) in &texts {
                answers.push((
                    format!("{}, {name}", mode.as_str()),
                    self.ask_these(stand, questions, self.way(mode)).await?,
                ));
            }
        }
        let ways: Vec<Named<'_>> = answers
            .iter()
            .map(|(name, asked)| (name.clone(), asked.as_slice()))
            .collect();
        let note = "A slip in the longest word of each question, and the same questions without that word.";
        Ok(tables::overall("Slips", note, &ways, self.recall.k))
    }

    /// The last mode, with each use of times.
    pub async fn times(&self, stand: &Stand) -> anyhow::Result<Section> {
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
                    Way {
                        time,
                        ..self.way(mode)
                    },
                )
                .await?,
            ));
        }
        let ways: Vec<Named<'_>> = answers
            .iter()
            .map(|(name, asked)| (name.clone(), asked.as_slice()))
            .collect();
        Ok(tables::times(&ways, self.recall.k))
    }

    /// The spoken text alone, then with speaker, caption and date; each by every mode, without and
    /// with the influence of neighbouring entries.
    pub async fn ablation(&self, whole: &Stand) -> anyhow::Result<Section> {
        let plain = self
            .stand(&self.dataset, Look::PLAIN, self.by_meaning())
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
                            Way {
                                context,
                                ..self.way(mode)
                            },
                        )
                        .await?;
                    answers.push((format!("{look}: {}, {beside}", mode.as_str()), asked));
                }
            }
        }
        for (name, look) in WITHOUT {
            let stand = self.stand(&self.dataset, look, false).await?.0;
            answers.push((
                format!("{name}: lexical, with neighbours"),
                self.ask(
                    &stand,
                    Way {
                        context: true,
                        ..self.way(Mode::Lexical)
                    },
                )
                .await?,
            ));
        }
        let ways: Vec<Named<'_>> = answers
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
