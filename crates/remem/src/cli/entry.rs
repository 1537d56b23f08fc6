//! The commands for entries, their files and their events.

use super::duration::{Duration, duration};
use super::values::{self, memory};
use super::workshop::{EntryFilterArgs, FacetArgs};
use clap::{Args, Subcommand, ValueHint};
use remem_wire::Metadata;
use remem_wire::time::Instant;
use std::path::PathBuf;

/// `remem put`.
#[derive(Args)]
#[command(
    after_help = "Your own memories begin with ~/. Quote the name ('~/ops'), since a shell \
    replaces ~, or write @me/ops.\n\nExamples:\n  \
    remem put agent-1 Ana prefers tea --tag drinks --ttl 30d\n  \
    remem put agent-1 < notes.txt\n  \
    remem put @me/ops \"Send the report as a table\" --interaction thread-1 --source operator"
)]
pub struct PutArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Text to store; without it, or with `-`, the text is read from standard input
    #[arg(value_name = "TEXT")]
    pub content: Vec<String>,
    /// Tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Expiry time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with = "ttl", value_parser = values::instant)]
    pub expires_at: Option<Instant>,
    /// Time until the entry expires, for example 90s, 12h, 7d or P7D
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,
    /// JSON object to store beside the text
    #[arg(long, value_name = "JSON", value_parser = values::object)]
    pub metadata: Option<Metadata>,
    /// Subject, used later by `forget`; may be repeated. Only a keyed digest of it is stored
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Key that makes a repetition safe [default: a random one]
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    #[command(flatten)]
    pub facets: FacetArgs,
}

/// An entry of a memory.
#[derive(Args)]
pub struct EntryArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Entry id
    pub id: String,
}

/// `remem list`.
#[derive(Args)]
pub struct ListArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Maximum number of entries; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
    /// Only entries with this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Revision token of a write that the answer must include
    #[arg(long, value_name = "TOKEN")]
    pub at_least: Option<String>,
    #[command(flatten)]
    pub which: EntryFilterArgs,
}

/// `remem events`.
#[derive(Subcommand)]
pub enum EventsCommand {
    /// Print the latest events, then new ones as they happen
    Tail {
        /// Start after this sequence number instead of at the latest events
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
        /// Number of latest events to start with
        #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
        lines: u64,
        /// Exit instead of waiting for new events
        #[arg(long)]
        no_follow: bool,
    },
}

/// `remem import`.
#[derive(Args)]
#[command(
    after_help = "A line is what `remem export` writes, or as little as {\"content\": \"…\"}. \
    Entries keep their ids, and ids that exist are skipped, so an import can be repeated.\n\n\
    Example:\n  remem import notes.jsonl --ref agent-1"
)]
pub struct ImportArgs {
    /// File of JSON lines; `-` reads standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Memory for lines without a `memoryRef`
    #[arg(long = "ref", value_name = "MEMORY_REF", value_parser = memory)]
    pub memory_ref: Option<String>,
    /// Stop at the first line that is refused
    #[arg(long)]
    pub strict: bool,
}

/// `remem export`.
#[derive(Args)]
pub struct ExportArgs {
    /// File to write; `-` writes to standard output
    #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Only this memory
    #[arg(long = "ref", value_name = "MEMORY_REF", value_parser = memory)]
    pub memory_ref: Option<String>,
    /// Continue a file that an interrupted export left
    #[arg(long)]
    pub resume: bool,
}
