//! The command line: what can be asked for, with help. What it does is in `commands`.

mod admin;
mod commitment;
mod duration;
mod entry;
mod explain;
mod forget;
mod model;
mod page;
mod parse;
mod pass;
mod proposal;
mod recall;
mod values;
mod workshop;

pub use admin::{
    AgentCommand, ConfigCommand, CopyArgs, KeyCommand, KeyCreate, McpArgs, RedactArgs,
    SecretCommand, SecretValueArgs, ServeArgs, TenantCommand,
};
pub use commitment::{
    CommitmentCommand, CommitmentCreateArgs, CommitmentListArgs, CommitmentRulesArgs,
    HeartbeatCommand,
};
pub use duration::Duration;
pub use entry::{EntryArgs, EventsCommand, ExportArgs, ImportArgs, ListArgs, PutArgs};
pub use explain::Typed;
pub use forget::{ArchiveCommand, ErasureCommand, ForgetArgs};
pub use model::{ModelCommand, ModelInstallArgs};
pub use page::{Format, Man, command, markdown, roff, write_pages};
pub use parse::{parse, refuse, wants_json};
pub use pass::{PassCommand, PassRunArgs, PassScheduleArgs};
pub use proposal::{AutomationCommand, ProposalCommand};
pub use recall::{RecallArgs, SearchArgs};
pub use workshop::{
    LinkArgs, ProfileCommand, RetentionCommand, RuleCommand, SessionCommand, SlotArgs,
};

use crate::host::DEFAULT_TENANT;
use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;
use values::memory;

/// The memory host for AI agents.
#[derive(Parser)]
#[command(name = "remem", version, about)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct RememCli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: RememCommand,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub json: bool,
    /// Server to use [default: http://127.0.0.1:7077]
    #[arg(
        long,
        global = true,
        env = "REMEM_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    #[arg(value_hint = ValueHint::Url)]
    pub url: Option<String>,
    /// API key [default: the one in DATA_DIR/bootstrap.key]
    #[arg(
        long,
        global = true,
        env = "REMEM_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub key: Option<String>,
    /// Open the store directly, without a server
    #[arg(long, global = true)]
    pub local: bool,
    /// Tenant [default: the key's, or `default`]
    #[arg(long, global = true, env = "REMEM_TENANT", hide_env_values = true)]
    #[arg(value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Folder of the embedded store [default: ./remem-data]
    #[arg(long, global = true, env = "REMEM_DATA_DIR", hide_env_values = true)]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// PostgreSQL URL, instead of the embedded store
    #[arg(long, global = true, env = "REMEM_DATABASE", hide_env_values = true)]
    #[arg(value_name = "URL")]
    pub database: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, global = true, env = "REMEM_CONFIG", hide_env_values = true)]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

impl GlobalArgs {
    /// The tenant to act in where the store is opened directly.
    pub fn local_tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(DEFAULT_TENANT)
    }
}

/// Every command. The groups of `remem --help` are in `page`.
#[derive(Subcommand)]
pub enum RememCommand {
    /// Store a text
    Put(PutArgs),
    /// Show an entry
    Get(EntryArgs),
    /// List entries, newest first
    List(ListArgs),
    /// Search entries by keyword, with typo tolerance, and semantically
    Search(SearchArgs),
    /// Print what a model should know before it answers, within a token budget
    Recall(RecallArgs),
    /// Delete an entry; its text is erased for good
    Delete(EntryArgs),
    /// List memories
    Memories,
    /// Count the entries of a memory
    Stats {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// Manage commitments: reminders and conditions that fire once
    #[command(subcommand)]
    Commitment(CommitmentCommand),
    /// Manage heartbeats: regular checks that commitments wait for
    #[command(subcommand)]
    Heartbeat(HeartbeatCommand),
    /// Show all answers to a question, and when each was true
    #[command(after_help = "Examples:\n  remem history @me/ops report_format\n  \
                            remem history @me/ops report_format --session ses_…")]
    History(SlotArgs),
    /// Mark the answer to a question as no longer true
    #[command(after_help = "Examples:\n  remem retract @me/ops report_format\n  \
                            remem retract @me/ops report_format --session ses_…")]
    Retract(SlotArgs),
    /// List and close sessions and chat threads
    #[command(subcommand)]
    Session(SessionCommand),
    /// Record that an action rests on an entry
    Link(LinkArgs),
    /// Show what an entry was made from and which actions rest on it
    #[command(after_help = "Example:\n  remem audit @me/ops mem_…")]
    Audit(EntryArgs),
    /// Count what is kept, and why
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Manage world rules; entries that duplicate one are rejected
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Show memory profiles (defaults per memory)
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Erase a subject and everything made from its entries
    Forget(ForgetArgs),
    /// Show and verify the signed reports of `forget`
    #[command(subcommand)]
    Erasure(ErasureCommand),
    /// Show what an entry was made from and what was made from it
    Lineage(EntryArgs),
    /// List and print archives of distilled entries
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Manage installed agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Review what agents propose, and apply it
    #[command(subcommand)]
    Proposal(ProposalCommand),
    /// Manage automations: workflows and agents on a schedule
    #[command(subcommand)]
    Automation(AutomationCommand),
    /// Import entries from JSON lines
    Import(ImportArgs),
    /// Export entries as JSON lines
    Export(ExportArgs),
    /// Copy a whole host to another store: tenants, keys and memory
    Copy(CopyArgs),
    /// Redact secrets in a text, as a write would
    Redact(RedactArgs),
    /// Run the server
    Serve(ServeArgs),
    /// Run an MCP server on standard input and output
    Mcp(McpArgs),
    /// Prepare or upgrade a PostgreSQL database
    Migrate,
    /// Check this installation and its data
    Doctor,
    /// Show events as they happen
    #[command(subcommand)]
    Events(EventsCommand),
    /// Run, watch and schedule background passes
    #[command(subcommand)]
    Pass(PassCommand),
    /// Remove erased text from the files now, and shrink them
    Vacuum,
    /// Install embedding models for semantic search
    #[command(subcommand)]
    Model(ModelCommand),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show the tenant, principal and scopes of the key in use
    Whoami,
    /// Manage API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage the vault's secrets, which no stored text may contain
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Manage tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  \
        remem completions bash > ~/.local/share/bash-completion/completions/remem\n  \
        remem completions zsh > ~/.zfunc/_remem\n  \
        remem completions fish > ~/.config/fish/completions/remem.fish")]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print or install the manual pages
    Man(Man),
}
