//! `remem-eval recall`: reads a dataset, stores it in a host of its own, asks the questions, and
//! shows the results.

use crate::ask::{self, Asked};
use crate::cli::{Recall, TimeName, Unit, WayName};
use crate::dataset::{Dataset, Look, Question};
use crate::remember::Remembering;
use crate::report::{self, Section};
use crate::stand::{Costs, Stand, Way};
use crate::tables::{self, Named};
use anyhow::{Context, ensure};
use remem::{Global, Settings, print_json};
use remem_engine::ports::Embedder;
use remem_engine::search::{Mode, TimeUse};
use std::path::Path;
use std::sync::Arc;

/// Runs an evaluation and prints or writes its tables.
pub async fn run(global: &Global, recall: &Recall) -> anyhow::Result<()> {
    let settings = Settings::load(global)?;
    let evaluation = Evaluation::new(&settings, recall)?;
    let sections = Box::pin(evaluation.run()).await?;
    if let Some(file) = &recall.report {
        write(file, &report::markdown(&sections))?;
    }
    if let Some(file) = &recall.report_json {
        write(file, &format!("{:#}\n", report::json(&sections)))?;
    }
    if global.json {
        return print_json(&report::json(&sections));
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

/// One evaluation: its options, its dataset and its model.
pub struct Evaluation<'a> {
    settings: &'a Settings,
    /// The options from the command line.
    pub recall: &'a Recall,
    pub dataset: Dataset,
    embedder: Option<Arc<Remembering>>,
    /// The search modes, which are measured one after the other.
    pub modes: Vec<Mode>,
    /// The parts of a turn that are in the text of its entry.
    pub look: Look,
}

impl<'a> Evaluation<'a> {
    fn new(settings: &'a Settings, recall: &'a Recall) -> anyhow::Result<Evaluation<'a>> {
        let mut dataset = Dataset::read(&recall.dataset, recall.format)?;
        dataset
            .questions
            .truncate(recall.limit.unwrap_or(usize::MAX));
        ensure!(
            recall.unit == Unit::Turn || dataset.has_sessions(),
            "the dataset does not say which session its entries are of"
        );
        let embedder = settings
            .embedder()?
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
            settings,
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
        // The latencies are measured by now, so vectors may come from the cache.
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

    /// The search settings for a mode, as the command line says.
    pub fn way(&self, mode: Mode) -> Way {
        Way {
            mode,
            time: time(self.recall.time),
            context: !self.recall.no_context,
        }
    }

    /// Makes a host with a dataset in it, with or without vectors.
    pub async fn stand(
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
        let mut stand = Stand::new(self.settings, embedder, dataset.last()).await?;
        let memories = dataset
            .memories
            .iter()
            .map(|memory| memory.texts(self.recall.unit, look))
            .collect();
        let costs = stand.load(memories).await?;
        Ok((stand, costs))
    }

    /// Returns true if any mode needs vectors.
    pub fn by_meaning(&self) -> bool {
        self.modes.iter().any(|&mode| mode != Mode::Lexical)
    }

    /// Asks all questions of the dataset.
    pub async fn ask(&self, stand: &Stand, way: Way) -> anyhow::Result<Vec<Asked>> {
        self.ask_these(stand, &self.dataset.questions, way).await
    }

    /// Asks the given questions, in order.
    pub async fn ask_these(
        &self,
        stand: &Stand,
        questions: &[Question],
        way: Way,
    ) -> anyhow::Result<Vec<Asked>> {
        ask::all(stand, questions, self.recall.unit, way, self.recall.k).await
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
