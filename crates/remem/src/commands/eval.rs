//! `remem eval recall`: reads a dataset, puts it into a host of its own, asks, and shows what came
//! of it. What is counted and how is in `eval/`.

use crate::cli::{Eval, EvalRecall, Global, TimeName, Unit, WayName};
use crate::config::{self, Config};
use crate::embedder;
use crate::eval::ask::{self, Asked};
use crate::eval::dataset::{Dataset, Look, Question};
use crate::eval::judged::{self, Apart, Judged};
use crate::eval::misspell;
use crate::eval::remember::Remembering;
use crate::eval::report::{self, Section};
use crate::eval::stand::{Costs, Stand, Way};
use crate::eval::tables::{self, Named, Situation};
use crate::output;
use anyhow::{Context, ensure};
use remem_engine::ports::Embedder;
use remem_engine::search::{Mode, TimeUse};
use std::path::Path;
use std::sync::Arc;

/// Runs an evaluation.
pub async fn run(global: &Global, eval: &Eval) -> anyhow::Result<()> {
    let Eval::Recall(recall) = eval;
    let config = config::load(global, None)?;
    let evaluation = Evaluation::new(&config, recall)?;
    let sections = evaluation.run().await?;
    if let Some(file) = &recall.report {
        write(file, &report::markdown(&sections))?;
    }
    if let Some(file) = &recall.report_json {
        write(file, &format!("{:#}\n", report::json(&sections)))?;
    }
    if global.json {
        return output::json(&report::json(&sections));
    }
    let questions = evaluation.dataset.questions.len();
    let skipped = evaluation.dataset.skipped;
    println!(
        "{} memories, {questions} questions; {skipped} without evidence were left out",
        evaluation.dataset.memories.len()
    );
    report::print(&sections);
    Ok(())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// What is asked for, with all that it needs.
struct Evaluation<'a> {
    config: &'a Config,
    recall: &'a EvalRecall,
    dataset: Dataset,
    embedder: Option<Arc<Remembering>>,
    modes: Vec<Mode>,
    look: Look,
}

impl<'a> Evaluation<'a> {
    fn new(config: &'a Config, recall: &'a EvalRecall) -> anyhow::Result<Evaluation<'a>> {
        let mut dataset = Dataset::read(&recall.dataset, recall.format)?;
        dataset
            .questions
            .truncate(recall.limit.unwrap_or(usize::MAX));
        ensure!(
            recall.unit == Unit::Turn || dataset.has_sessions(),
            "the dataset does not say which session its entries are of"
        );
        let embedder = embedder::embedders(&config.embedder, &config.storage.data_dir)?
            .current
            .map(|model| Arc::new(Remembering::new(model)));
        let asked: Vec<Mode> = recall.modes.iter().map(|&name| mode(name)).collect();
        let modes = match (asked.is_empty(), embedder.is_some()) {
            (false, _) => asked,
            (true, true) => vec![Mode::Lexical, Mode::Semantic, Mode::Hybrid],
            (true, false) => vec![Mode::Lexical],
        };
        let without = modes.iter().all(|&mode| mode == Mode::Lexical);
        let hint = "no model makes vectors here; install one with `remem model install`, or ask with --modes lexical";
        ensure!(embedder.is_some() || without, hint);
        let look = Look {
            speaker: !recall.no_speaker,
            caption: !recall.no_caption,
            date: !recall.no_date,
        };
        Ok(Evaluation {
            config,
            recall,
            dataset,
            embedder,
            modes,
            look,
        })
    }

    async fn run(&self) -> anyhow::Result<Vec<Section>> {
        let (stand, costs) = self
            .stand(&self.dataset, self.look, self.by_meaning())
            .await?;
        let mut answers: Vec<(Mode, Vec<Asked>)> = Vec::new();
        for &mode in &self.modes {
            answers.push((mode, self.ask(&stand, self.way(mode)).await?));
        }
        let k = self.recall.k;
        let questions = &self.dataset.questions;
        let ways: Vec<Named<'_>> = answers
            .iter()
            .map(|(mode, asked)| (mode.as_str().to_owned(), asked.as_slice()))
            .collect();
        let note = if self.recall.no_context {
            "What stands beside an entry does not count."
        } else {
            ""
        };
        let mut sections = vec![
            tables::overall("Recall", note, &ways, k),
            tables::categories(&ways, questions, k),
            tables::costs(&costs),
            tables::latency(&ways),
        ];
        // Latency is known by now.
        if let Some(model) = &self.embedder {
            model.answer();
        }
        sections.push(tables::abstention(&ways, questions));
        if self.dataset.memories.len() > 1 {
            sections.extend(self.probability(&stand, &answers).await?);
        }
        if self.recall.times {
            sections.push(self.times(&stand).await?);
        }
        if self.recall.misspell {
            sections.push(self.misspelt(&stand).await?);
        }
        if self.recall.ablation {
            sections.push(self.ablation(&stand).await?);
        }
        Ok(sections)
    }

    fn way(&self, mode: Mode) -> Way {
        Way {
            mode,
            time: time(self.recall.time),
            context: !self.recall.no_context,
        }
    }

    /// A host with a dataset in it, with or without vectors.
    async fn stand(
        &self,
        dataset: &Dataset,
        look: Look,
        vectors: bool,
    ) -> anyhow::Result<(Stand, Costs)> {
        let embedder = self
            .embedder
            .clone()
            .filter(|_| vectors)
            .map(|model| model as Arc<dyn Embedder>);
        let mut stand = Stand::new(self.config, embedder, dataset.last()).await?;
        let memories = dataset
            .memories
            .iter()
            .map(|memory| memory.texts(self.recall.unit, look))
            .collect();
        let costs = stand.load(memories).await?;
        Ok((stand, costs))
    }

    fn by_meaning(&self) -> bool {
        self.modes.iter().any(|&mode| mode != Mode::Lexical)
    }

    async fn ask(&self, stand: &Stand, way: Way) -> anyhow::Result<Vec<Asked>> {
        self.ask_these(stand, &self.dataset.questions, way).await
    }

    async fn ask_these(
        &self,
        stand: &Stand,
        questions: &[Question],
        way: Way,
    ) -> anyhow::Result<Vec<Asked>> {
        ask::all(stand, questions, self.recall.unit, way, self.recall.k).await
    }

    /// What the probability is worth where half of the questions are asked of the wrong memory, be
    /// it whole or a session.
    async fn probability(
        &self,
        stand: &Stand,
        answers: &[(Mode, Vec<Asked>)],
    ) -> anyhow::Result<Vec<Section>> {
        let questions = &self.dataset.questions;
        let count = self.dataset.memories.len();
        let apart = Apart::new(&self.dataset);
        let sessions = if self.dataset.has_sessions() {
            Some(
                self.stand(&apart.dataset, self.look, self.by_meaning())
                    .await?
                    .0,
            )
        } else {
            None
        };
        let mut situations = Vec::new();
        let mut pooled = [
            ("without vectors", Vec::new()),
            ("with vectors", Vec::new()),
        ];
        for (mode, own) in answers {
            let name = mode.as_str();
            let way = self.way(*mode);
            let away = judged::elsewhere(questions, |memory| (memory + 1) % count);
            let away = self.ask_these(stand, &away, way).await?;
            let of = |question: usize| questions[question].memory;
            let whole = [Judged::all(own, of), Judged::all(&away, of)].concat();
            let mut all = whole.clone();
            situations.push(Situation {
                way: name,
                memories: "whole",
                judged: whole,
            });
            if let Some(sessions) = &sessions {
                let questions = &apart.dataset.questions;
                let of = |question: usize| apart.whole(questions[question].memory);
                let own = self.ask_these(sessions, questions, way).await?;
                let away = self
                    .ask_these(
                        sessions,
                        &judged::elsewhere(questions, |session| apart.other(session)),
                        way,
                    )
                    .await?;
                let small = [Judged::all(&own, of), Judged::all(&away, of)].concat();
                all.extend(&small);
                situations.push(Situation {
                    way: name,
                    memories: "sessions",
                    judged: small,
                });
            }
            // By meaning alone is what becomes of a question that shares no word with what answers
            // it: one row has to tell both.
            pooled[usize::from(*mode != Mode::Lexical)].1.extend(all);
        }
        let pooled: Vec<(&str, Vec<Judged>)> = pooled
            .into_iter()
            .filter(|(_, judged)| !judged.is_empty())
            .collect();
        let mut sections = vec![tables::wrong_memory(&situations)];
        sections.extend(
            pooled
                .iter()
                .map(|(name, judged)| tables::calibration(name, judged)),
        );
        if self.recall.fit {
            sections.push(tables::fitted(&pooled));
        }
        Ok(sections)
    }

    /// Every mode, with each question as it stands, with a slip in a word, and without that word.
    async fn misspelt(&self, stand: &Stand) -> anyhow::Result<Section> {
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
    async fn times(&self, stand: &Stand) -> anyhow::Result<Section> {
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

    /// What was said alone, then with who, what and when; each by every mode, without and with what
    /// stands beside.
    async fn ablation(&self, whole: &Stand) -> anyhow::Result<Section> {
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
        for (name, look) in [
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
        ] {
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

fn mode(name: WayName) -> Mode {
    match name {
        WayName::Lexical => Mode::Lexical,
        WayName::Semantic => Mode::Semantic,
        WayName::Hybrid => Mode::Hybrid,
    }
}

fn time(name: TimeName) -> TimeUse {
    match name {
        TimeName::Prefer => TimeUse::Prefer,
        TimeName::Filter => TimeUse::Filter,
        TimeName::Ignore => TimeUse::Ignore,
    }
}
