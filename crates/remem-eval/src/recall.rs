//! `remem-eval recall`: reads a dataset, stores it in a host of its own, asks the questions, and
//! shows the results.

use crate::ask::{self, QuestionResult};
use crate::caching_embedder::CachingEmbedder;
use crate::cli::{EntryUnit, ModeName, Recall, TimeUseName};
use crate::dataset::{Dataset, EvalQuestion, TextParts};
use crate::eval_host::{Costs, EvalHost, SearchSettings};
use crate::report::{self, Section};
use crate::tables::{self, NamedResults};
use anyhow::{Context, ensure};
use remem::{GlobalArgs, Settings, print_json};
use remem_engine::ports::Embedder;
use remem_engine::search::{SearchMode, TimeUse};
use std::path::Path;
use std::sync::Arc;

/// Runs an evaluation and prints or writes its tables.
pub async fn run(global: &GlobalArgs, recall: &Recall) -> anyhow::Result<()> {
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
    embedder: Option<Arc<CachingEmbedder>>,
    /// The search modes, which are measured one after the other.
    pub modes: Vec<SearchMode>,
    /// The parts of a turn that are in the text of its entry.
    pub text_parts: TextParts,
}

impl<'a> Evaluation<'a> {
    fn new(settings: &'a Settings, recall: &'a Recall) -> anyhow::Result<Evaluation<'a>> {
        let mut dataset = Dataset::read(&recall.dataset, recall.format)?;
        dataset
            .questions
            .truncate(recall.limit.unwrap_or(usize::MAX));
        ensure!(
            recall.unit == EntryUnit::Turn || dataset.has_sessions(),
            "the dataset does not say which session its entries are of"
        );
        let embedder = settings
            .embedder()?
            .map(|model| Arc::new(CachingEmbedder::new(model)));
        let asked: Vec<SearchMode> = recall.modes.iter().map(|&name| mode(name)).collect();
        let modes = match (asked.is_empty(), embedder.is_some()) {
            (false, _) => asked,
            (true, true) => vec![
                SearchMode::Lexical,
                SearchMode::Semantic,
                SearchMode::Hybrid,
            ],
            (true, false) => vec![SearchMode::Lexical],
        };
        let without = modes.iter().all(|&mode| mode == SearchMode::Lexical);
        let hint = "no model makes vectors here; install one with `remem model install`, or ask with --modes lexical";
        ensure!(embedder.is_some() || without, hint);
        let look = TextParts {
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
            text_parts: look,
        })
    }

    async fn run(&self) -> anyhow::Result<Vec<Section>> {
        let (stand, costs) = self
            .build_host(&self.dataset, self.text_parts, self.needs_vectors())
            .await?;
        let mut answers: Vec<(SearchMode, Vec<QuestionResult>)> = Vec::new();
        for &mode in &self.modes {
            answers.push((mode, self.ask(&stand, self.search_settings(mode)).await?));
        }
        let k = self.recall.k;
        let questions = &self.dataset.questions;
        let ways: Vec<NamedResults<'_>> = answers
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
            model.enable_cache();
        }
        sections.push(tables::abstention(&ways, questions));
        if self.dataset.memories.len() > 1 {
            sections.extend(self.probability(&stand, &answers).await?);
        }
        if self.recall.times {
            sections.push(self.times_section(&stand).await?);
        }
        if self.recall.misspell {
            sections.push(self.misspelling_section(&stand).await?);
        }
        if self.recall.ablation {
            sections.push(self.ablation_section(&stand).await?);
        }
        Ok(sections)
    }

    /// The search settings for a mode, as the command line says.
    pub fn search_settings(&self, mode: SearchMode) -> SearchSettings {
        SearchSettings {
            mode,
            time: time(self.recall.time),
            context: !self.recall.no_context,
        }
    }

    /// Makes a host with a dataset in it, with or without vectors.
    pub async fn build_host(
        &self,
        dataset: &Dataset,
        look: TextParts,
        vectors: bool,
    ) -> anyhow::Result<(EvalHost, Costs)> {
        let embedder = self
            .embedder
            .clone()
            .filter(|_| vectors)
            .map(|model| model as Arc<dyn Embedder>);
        let mut stand = EvalHost::new(self.settings, embedder, dataset.latest_instant()).await?;
        let memories = dataset
            .memories
            .iter()
            .map(|memory| memory.texts(self.recall.unit, look))
            .collect();
        let costs = stand.load(memories).await?;
        Ok((stand, costs))
    }

    /// Returns true if any mode needs vectors.
    pub fn needs_vectors(&self) -> bool {
        self.modes.iter().any(|&mode| mode != SearchMode::Lexical)
    }

    /// Asks all questions of the dataset.
    pub async fn ask(
        &self,
        stand: &EvalHost,
        way: SearchSettings,
    ) -> anyhow::Result<Vec<QuestionResult>> {
        self.ask_questions(stand, &self.dataset.questions, way)
            .await
    }

    /// Asks the given questions, in order.
    pub async fn ask_questions(
        &self,
        stand: &EvalHost,
        questions: &[EvalQuestion],
        way: SearchSettings,
    ) -> anyhow::Result<Vec<QuestionResult>> {
        ask::ask_all(stand, questions, self.recall.unit, way, self.recall.k).await
    }
}

fn mode(name: ModeName) -> SearchMode {
    match name {
        ModeName::Lexical => SearchMode::Lexical,
        ModeName::Semantic => SearchMode::Semantic,
        ModeName::Hybrid => SearchMode::Hybrid,
    }
}

fn time(name: TimeUseName) -> TimeUse {
    match name {
        TimeUseName::Prefer => TimeUse::Prefer,
        TimeUseName::Filter => TimeUse::Filter,
        TimeUseName::Ignore => TimeUse::Ignore,
    }
}
