//! The commands that find entries: search, and the block for a model.

use super::values::{self, memory};
use super::workshop::EntryFilterArgs;
use clap::Args;
use remem_wire::time::Instant;

/// `remem search`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  remem search agent-1 what does Ana drink\n  \
    remem search agent-1 \"what did we decide last week\" --time filter --explain"
)]
pub struct SearchArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Words or a question
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: u32,
    /// Show the parts of each score
    #[arg(long)]
    pub explain: bool,
    /// Number of entries to show before and after each hit, 10 at most
    #[arg(long, value_name = "N")]
    pub neighbours: Option<u32>,
    /// Show nothing if no hit is probably relevant
    #[arg(long)]
    pub abstain: bool,
    #[command(flatten)]
    pub by: RetrievalArgs,
    #[command(flatten)]
    pub which: EntryFilterArgs,
}

/// `remem recall`.
#[derive(Args)]
#[command(after_help = "Example:\n  remem recall agent-1 \"where does Ana live\" --budget 400")]
pub struct RecallArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Question
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Maximum size of the block in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 800)]
    pub budget: u64,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: u32,
    /// Leave out procedures and standing answers; print hits only
    #[arg(long)]
    pub no_standing: bool,
    /// Print hits even if they are probably irrelevant
    #[arg(long)]
    pub no_abstain: bool,
    #[command(flatten)]
    pub by: RetrievalArgs,
    #[command(flatten)]
    pub which: EntryFilterArgs,
}

/// The search mode, and filters by tag and time of writing.
#[derive(Args, Clone, Debug, Default)]
pub struct RetrievalArgs {
    /// Search mode: by keyword and meaning, by keyword, or by meaning [default: hybrid]
    #[arg(long, value_parser = values::MODES)]
    pub mode: Option<String>,
    /// How to treat dates in the query [default: filter]
    #[arg(long, value_parser = values::TIMES)]
    pub time: Option<String>,
    /// Maximum number of hits from one source
    #[arg(long, value_name = "N")]
    pub per_source: Option<u32>,
    /// Only entries with this tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Only entries written at or after this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub from: Option<Instant>,
    /// Only entries written before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub to: Option<Instant>,
    /// Revision token of a write that the answer must include
    #[arg(long, value_name = "TOKEN")]
    pub at_least: Option<String>,
}
