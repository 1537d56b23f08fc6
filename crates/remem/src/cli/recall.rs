//! What can be said to find again: search, and the block for a model.

use super::workshop::{Which, memory};
use clap::Args;

/// `remem search`.
#[derive(Args)]
#[command(
    after_help = "Example: remem search agents/one \"what did we decide last week\" --time filter --explain"
)]
pub struct Search {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// What to look for
    #[arg(required = true)]
    pub query: Vec<String>,
    /// How many hits at the most
    #[arg(long, default_value_t = 10)]
    pub limit: u32,
    /// Show what each score is made of
    #[arg(long)]
    pub explain: bool,
    /// Entries to show before and after each hit, 10 at the most
    #[arg(long, value_name = "N")]
    pub neighbours: Option<u32>,
    /// Show nothing rather than what is probably irrelevant
    #[arg(long)]
    pub abstain: bool,
    #[command(flatten)]
    pub by: By,
    #[command(flatten)]
    pub which: Which,
}

/// `remem recall`.
#[derive(Args)]
#[command(after_help = "Example: remem recall agents/one \"where does Ana live\" --budget 400")]
pub struct Recall {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// The question
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Tokens that the block may have
    #[arg(long, value_name = "TOKENS", default_value_t = 800)]
    pub budget: u64,
    /// How many hits at the most
    #[arg(long, default_value_t = 10)]
    pub limit: u32,
    /// Without procedures and answers that hold, only what was found
    #[arg(long)]
    pub no_standing: bool,
    /// Also show what is probably irrelevant
    #[arg(long)]
    pub no_abstain: bool,
    #[command(flatten)]
    pub by: By,
    #[command(flatten)]
    pub which: Which,
}

/// How to find, and among what.
#[derive(Args, Clone, Debug, Default)]
pub struct By {
    /// By what to find: hybrid (words and meaning), lexical or semantic [default: hybrid]
    #[arg(long)]
    pub mode: Option<String>,
    /// What becomes of a time in the query: filter, prefer or ignore [default: filter]
    #[arg(long)]
    pub time: Option<String>,
    /// Hits of one source at the most
    #[arg(long, value_name = "N")]
    pub per_source: Option<u32>,
    /// Only entries that carry this tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Only entries written at or after this instant (RFC 3339)
    #[arg(long, value_name = "INSTANT")]
    pub from: Option<String>,
    /// Only entries written before this instant (RFC 3339)
    #[arg(long, value_name = "INSTANT")]
    pub to: Option<String>,
    /// Revision token of a write that must be visible
    #[arg(long, value_name = "TOKEN")]
    pub at_least: Option<String>,
}
