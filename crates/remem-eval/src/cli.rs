//! The command line with its help texts. `recall` does the work.

use clap::{Args, Parser, Subcommand, ValueEnum};
use remem::GlobalArgs;
use std::path::PathBuf;

/// Measures how well memory finds again.
#[derive(Parser)]
#[command(name = "remem-eval", version, about, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.\n\
                  docs/evaluation.md explains the numbers.")]
pub struct EvalCli {
    /// The options of every command of `remem`: those that choose the model, and `--json`, count.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to measure.
    #[command(subcommand)]
    pub command: EvalCommand,
}

/// What can be measured.
#[derive(Subcommand)]
pub enum EvalCommand {
    /// Put the entries of a dataset into a host of its own, ask its questions, and count how much
    /// of the evidence is found
    Recall(Recall),
}

/// What to measure, and how.
#[derive(Args)]
#[command(
    after_help = "The host is made in a temporary folder and goes with it; nothing of yours is read but the dataset and the model \
                        that the configuration names or that is installed.\n\
                        Example: remem-eval recall --dataset locomo.json --ablation --report recall.md"
)]
pub struct Recall {
    /// The file with entries and questions
    #[arg(long, value_name = "FILE")]
    pub dataset: PathBuf,
    /// What kind of file it is
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// How many hits count
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub k: u32,
    /// What becomes one entry
    #[arg(long, value_enum, default_value_t = EntryUnit::Turn)]
    pub unit: EntryUnit,
    /// Ways to search, separated by commas [default: lexical, and with a model semantic and hybrid]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub modes: Vec<ModeName>,
    /// How to treat dates in a question
    #[arg(long, value_enum, default_value_t = TimeUseName::Filter)]
    pub time: TimeUseName,
    /// Ask only so many questions, the first ones
    #[arg(long, value_name = "QUESTIONS")]
    pub limit: Option<usize>,
    /// What stands beside an entry does not count
    #[arg(long)]
    pub no_context: bool,
    /// Leave out who said it
    #[arg(long)]
    pub no_speaker: bool,
    /// Leave out what was shared with it
    #[arg(long)]
    pub no_caption: bool,
    /// Leave out when it was said
    #[arg(long)]
    pub no_date: bool,
    /// Add what each part of the ranking brings
    #[arg(long)]
    pub ablation: bool,
    /// Add a comparison of what can become of a time in a question
    #[arg(long)]
    pub times: bool,
    /// Add what becomes of the figures when a word of each question is misspelt
    #[arg(long)]
    pub misspell: bool,
    /// Fit the constants of the probability to this dataset
    #[arg(long)]
    pub fit: bool,
    /// Also write the tables to this file, as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub report: Option<PathBuf>,
    /// Also write the tables to this file, as JSON
    #[arg(long, value_name = "FILE.json")]
    pub report_json: Option<PathBuf>,
}

/// The format of a dataset file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// What the file looks like
    Auto,
    /// LoCoMo: a list of conversations with their questions
    Locomo,
    /// LongMemEval: a list of questions with their haystacks
    Longmemeval,
    /// Lines of entries and of questions
    Jsonl,
}

/// The part of a dataset that becomes one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EntryUnit {
    /// What one speaker said at a time
    Turn,
    /// A whole session
    Session,
}

/// The names of the search modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// By words
    Lexical,
    /// By meaning
    Semantic,
    /// By both
    Hybrid,
}

/// The names of the uses of a time in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUseName {
    /// Entries of that time come first where all else is alike
    Prefer,
    /// Only entries of that time count, if one of them answers
    Filter,
    /// Nothing
    Ignore,
}
