//! The commands for workshop memory: tier and kind of entries, questions, sessions, actions,
//! retention, rules, profiles.

use super::values::{self, memory};
use clap::{Args, Subcommand, ValueHint};
use remem_wire::time::Instant;
use remem_wire::workshop::{SourceName, TierName, TypologyName};
use std::path::PathBuf;

/// What is stored of an entry beside its text.
#[derive(Args, Clone, Debug, Default)]
pub struct FacetArgs {
    /// Chat thread of the text; without --tier the entry ends with the thread
    #[arg(long, value_name = "THREAD")]
    pub interaction: Option<String>,
    /// How long the entry lasts [default: by the memory's profile]
    #[arg(long, value_parser = values::tier())]
    pub tier: Option<TierName>,
    /// Kind of the entry [default: by the memory's profile]
    #[arg(long, value_parser = values::typology())]
    pub typology: Option<TypologyName>,
    /// World of the entry; entries that duplicate one of its rules are rejected
    #[arg(long)]
    pub world: Option<String>,
    /// Question that the entry answers; it replaces the current answer
    #[arg(long)]
    pub slot: Option<String>,
    /// Time from which it is true (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub valid_from: Option<Instant>,
    /// Time from which it is no longer true (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub valid_to: Option<Instant>,
    /// Who vouches for the text [default: model]
    #[arg(long, value_parser = values::trust())]
    pub source: Option<SourceName>,
    /// Where the text was read, such as a URL; `remem forget source:URL` erases it
    #[arg(long, value_name = "LOCATION")]
    pub source_ref: Option<String>,
    /// Speaker of a chat turn, stored as metadata
    #[arg(long, value_parser = ["operator", "agent", "tool"])]
    pub speaker: Option<String>,
    /// Tool called in a chat turn, stored as metadata
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
}

/// Filters by tier, kind, thread and session.
#[derive(Args, Clone, Debug, Default)]
pub struct EntryFilterArgs {
    /// What was true at this time (RFC 3339), rather than now
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub as_of: Option<Instant>,
    /// Only entries of this tier
    #[arg(long, value_parser = values::tier())]
    pub tier: Option<TierName>,
    /// Only entries of this kind
    #[arg(long, value_parser = values::typology())]
    pub typology: Option<TypologyName>,
    /// Only entries of this chat thread
    #[arg(long, value_name = "THREAD")]
    pub interaction: Option<String>,
    /// Only entries of this session
    #[arg(long)]
    pub session: Option<String>,
    /// With --json, print {"entry", "facets"} instead of the entry alone
    #[arg(long)]
    pub facets: bool,
}

/// A question of a memory.
#[derive(Args)]
pub struct SlotArgs {
    /// Name of the memory; @me/NAME is your own
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Question (slot), as shown by `list --json --facets`
    pub slot: String,
    /// Session in which it was asked, rather than the whole memory
    #[arg(long)]
    pub session: Option<String>,
}

/// `remem session`.
#[derive(Subcommand)]
pub enum SessionCommand {
    /// List the sessions of a memory, the open one first
    #[command(after_help = "Example:\n  remem session list @me/ops")]
    List {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// Close the open session: keep what outlasts it, end the rest
    #[command(after_help = "Example:\n  remem session close @me/ops")]
    Close {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// End a chat thread: instructions and corrections move to the session, the turns end
    #[command(after_help = "Example:\n  remem session end-thread @me/ops thread-1")]
    EndThread {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
        /// Chat thread, as given to --interaction
        thread: String,
    },
}

/// `remem link`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    remem link @me/ops mem_… --action gate.accept --reference change-42")]
pub struct LinkArgs {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Entry id
    pub id: String,
    /// Kind of action
    #[arg(long)]
    pub action: String,
    /// Name of the action in the system where it happened
    #[arg(long)]
    pub reference: String,
}

/// `remem retention`.
#[derive(Subcommand)]
pub enum RetentionCommand {
    /// Count entries by tier, kind and state
    #[command(after_help = "Example:\n  remem retention status @me/ops")]
    Status {
        /// Name of the memory [default: all that you may see]
        #[arg(value_parser = memory)]
        memory_ref: Option<String>,
    },
}

/// `remem rule`.
#[derive(Subcommand)]
pub enum RuleCommand {
    /// Create or replace a rule
    #[command(
        after_help = "Texts under 100 characters are not compared with rules.\n\nExample:\n  \
        remem rule put gates coverage \"$(cat coverage.txt)\""
    )]
    Put {
        /// World of the rule
        world: String,
        /// Rule id
        id: String,
        /// Text of the rule
        #[arg(required = true, value_name = "TEXT")]
        body: Vec<String>,
    },
    /// List the rules of a world
    #[command(after_help = "Example:\n  remem rule list gates")]
    List {
        /// World
        world: String,
    },
    /// Delete a rule
    #[command(after_help = "Example:\n  remem rule delete gates coverage")]
    Delete {
        /// World of the rule
        world: String,
        /// Rule id
        id: String,
    },
    /// Check whether a text duplicates a rule, so that `put` would reject it
    #[command(
        after_help = "Texts under 100 characters are never duplicates.\n\nExample:\n  \
        remem rule check gates \"$(cat draft.txt)\""
    )]
    Check {
        /// World whose rules to check
        world: String,
        /// Text
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Import rules from JSON lines, one {"id", "body"} each; can be repeated
    #[command(after_help = "Example:\n  remem rule import gates rules.jsonl")]
    Import {
        /// World of the rules
        world: String,
        /// File of JSON lines; `-` reads standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// `remem profile`.
#[derive(Subcommand)]
pub enum ProfileCommand {
    /// List profiles, their memories and their values
    #[command(after_help = "Example:\n  remem profile list")]
    List,
}
