//! The command line: what can be said, with help. What it does is in `commands`.

mod commitment;
mod forget;
mod model;
mod pass;
mod proposal;
mod recall;
mod workshop;

pub use commitment::{Commitment, Create, Heartbeat, List as CommitmentList, Rules};
pub use forget::{Archive, Erasure, Forget};
pub use model::{Model, ModelInstall};
pub use pass::{Pass, PassRun, PassSchedule};
pub use proposal::{Automation, Proposal};
pub use recall::{Recall, Search};
use workshop::memory;
pub use workshop::{Facets, Link, Profile, Question, Retention, Rule, Session, Which};

use crate::host::DEFAULT_TENANT;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The memory host for AI agents.
#[derive(Parser)]
#[command(name = "remem", version, about, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused as invalid, 5 key missing or not allowed, \
                        6 not reachable or unavailable, 7 done, but something was left out.\nStart with `remem serve`; the README has a two-minute tour."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Configuration file (TOML)
    #[arg(long, global = true, env = "REMEM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the embedded store lives [default: ./remem-data]
    #[arg(long, global = true, env = "REMEM_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// PostgreSQL URL of the store [default: the embedded store in the data directory]
    #[arg(
        long,
        global = true,
        env = "REMEM_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub database: Option<String>,
    /// Server to talk to [default: http://127.0.0.1:7077]
    #[arg(long, global = true, env = "REMEM_URL", value_name = "URL")]
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
    #[arg(long, global = true, conflicts_with = "url")]
    pub local: bool,
    /// Tenant to act in [default: `default` where the store is opened directly, that of the key where
    /// a server is used, which must be this one if it is given]
    #[arg(long, global = true, env = "REMEM_TENANT")]
    pub tenant: Option<String>,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub json: bool,
}

impl Global {
    /// The tenant to act in where the store is opened directly.
    pub fn local_tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(DEFAULT_TENANT)
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the host
    Serve(Serve),
    /// Prepare a PostgreSQL database (--database), or bring it up to date
    Migrate,
    /// Speak MCP on standard input and output (the store itself, or a server with --url)
    Mcp(Mcp),
    /// Remember something
    Put(Put),
    /// Show one entry
    Get(OneEntry),
    /// List entries, newest first
    List(List),
    /// Find entries by words and meaning
    Search(Search),
    /// Show what a model should know before it answers, within a budget of tokens
    Recall(Recall),
    /// Delete an entry: its text is erased for good
    Delete(OneEntry),
    /// Forget whom or what entries are about, with everything made from them
    Forget(Forget),
    /// Signed reports of what was forgotten
    #[command(subcommand)]
    Erasure(Erasure),
    /// Show what an entry was made from and what was made from it
    Lineage(OneEntry),
    /// Archives that distillations left
    #[command(subcommand)]
    Archive(Archive),
    /// What was promised: reminders read out of memory, or made by hand
    #[command(subcommand)]
    Commitment(Commitment),
    /// Looks at a memory every so often, for commitments that wait for something to become true
    #[command(subcommand)]
    Heartbeat(Heartbeat),
    /// Show every answer to a question, and when each was true
    History(Question),
    /// Say that the answer to a question is no longer true
    Retract(Question),
    /// Sessions and chat threads of a memory
    #[command(subcommand)]
    Session(Session),
    /// Note that an action rests on an entry
    Link(Link),
    /// Show what an entry came from, what came of it, and which actions rest on it
    #[command(after_help = "Example: remem audit @me/ops mem_…")]
    Audit(OneEntry),
    /// What is kept, and why
    #[command(subcommand)]
    Retention(Retention),
    /// Rules of worlds, which memory may not restate
    #[command(subcommand)]
    Rule(Rule),
    /// Profiles: how the agents of which memories remember
    #[command(subcommand)]
    Profile(Profile),
    /// Count the entries of a memory
    Stats {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// List the tenant's memories
    Memories,
    /// The event feed
    #[command(subcommand)]
    Events(Events),
    /// Show who the key in use is: its tenant, principal, scopes, id and end
    Whoami,
    /// API keys
    #[command(subcommand)]
    Key(Key),
    /// Secrets of the vault: kept sealed, and out of every text
    #[command(subcommand)]
    Secret(Secret),
    /// Tenants
    #[command(subcommand)]
    Tenant(Tenant),
    /// Background passes
    #[command(subcommand)]
    Pass(Pass),
    /// Installed agents
    #[command(subcommand)]
    Agent(Agent),
    /// Proposals: drafts of what the host could do by itself, for people to review
    #[command(subcommand)]
    Proposal(Proposal),
    /// Automations: workflows and agents that the clock starts
    #[command(subcommand)]
    Automation(Automation),
    /// Models that make vectors of texts, to find entries by meaning
    #[command(subcommand)]
    Model(Model),
    /// Read entries from JSON lines
    Import(Import),
    /// Write entries as JSON lines
    Export(Export),
    /// Move a whole host from one store to another: tenants, keys and memory, exactly as they are
    Copy(Copy),
    /// Make erased text physically gone now and give free space back
    Vacuum,
    /// Redact text as a write would
    Redact(Redact),
    /// Says where the evaluations are: in a program of their own, `remem-eval`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Eval {
        /// Arguments of the old command; all are accepted, so that the answer is always the pointer
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check this installation and its data
    Doctor,
    /// The configuration
    #[command(subcommand)]
    Config(Config),
    /// Print a shell completion script
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args)]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1:7077]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// `embedded` keeps memory in files, `memory` keeps it only as long as the process
    #[arg(long, value_name = "KIND")]
    pub store: Option<String>,
    /// File with registered secrets to redact, one JSON object {"secretId", "secret", "tenant"?} a
    /// line
    #[arg(long, value_name = "FILE")]
    pub secrets_file: Option<PathBuf>,
    /// Also serve what OpenWOP conformance checks need (fixtures, test endpoints); never on a host
    /// with real memory
    #[arg(long)]
    pub enable_test_seams: bool,
}

#[derive(Args)]
pub struct Mcp {
    /// The most that the tools may vouch for, where the store is opened directly: untrusted, model,
    /// tool, action or operator. Towards a server the key decides
    #[arg(long, value_name = "TRUST", default_value = "model")]
    pub trust: String,
}

#[derive(Args)]
#[command(
    after_help = "Your own memories begin with ~/ : quote them ('~/ops'), since a shell makes a folder of it, or type @me/ops.\n\
                        Example: remem put @me/ops \"Send the report as a table\" --interaction thread-1 --speaker operator --source operator"
)]
pub struct Put {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// What to remember; `-` or nothing reads standard input
    pub content: Option<String>,
    /// Label; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// From when it must not surface any more (RFC 3339)
    #[arg(long, value_name = "INSTANT", conflicts_with = "ttl")]
    pub expires_at: Option<String>,
    /// How long it lasts: 90s, 15m, 12h, 30d
    #[arg(long, value_name = "DURATION")]
    pub ttl: Option<String>,
    /// JSON object kept beside the text
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Whom or what it is about, so that it can be forgotten by that; may be repeated. Only a keyed
    /// digest is kept
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Makes a repetition safe; one is made up if absent
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    #[command(flatten)]
    pub facets: Facets,
}

#[derive(Args)]
pub struct OneEntry {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Entry id
    pub id: String,
}

#[derive(Args)]
pub struct List {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// How many at the most; 0 means all
    #[arg(long, default_value_t = 20)]
    pub limit: u32,
    /// Only entries that carry this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Revision token of a write that must be visible
    #[arg(long, value_name = "TOKEN")]
    pub at_least: Option<String>,
    #[command(flatten)]
    pub which: Which,
}

#[derive(Subcommand)]
pub enum Events {
    /// Show the latest events, and new ones as they come
    Tail {
        /// Begin after this position instead of at the latest events
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
        /// How many of the latest events to begin with
        #[arg(long, short = 'n', default_value_t = 10)]
        lines: u64,
        /// Stop after showing what is there
        #[arg(long)]
        no_follow: bool,
    },
}

#[derive(Subcommand)]
pub enum Key {
    /// Make a key; it is shown once
    Create {
        /// What it allows, separated by commas: memory:read, memory:write, memory:link,
        /// memory:admin, workspace:read, workspace:write, runs:create, runs:read, runs:cancel,
        /// manifest:read, manifest:write, secrets:manage, webhooks:manage, proposals:read,
        /// proposals:write, proposals:apply, proposals:override, keys:manage, host:admin
        #[arg(
            long,
            value_delimiter = ',',
            default_value = "memory:read,memory:write"
        )]
        scopes: Vec<String>,
        /// The scopes of a role instead: reader, writer, reviewer, operator or admin
        #[arg(long, conflicts_with = "scopes")]
        role: Option<String>,
        /// What to call it
        #[arg(long, default_value = "")]
        label: String,
        /// From when it is refused (RFC 3339)
        #[arg(long, value_name = "INSTANT")]
        expires_at: Option<String>,
        /// Who acts with it, if not the key itself: several keys of one user, or a key that
        /// replaces another
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
        /// The most that it may vouch for as the source of what it writes: untrusted, model, tool,
        /// action or operator [default: model]
        #[arg(long, value_name = "TRUST")]
        trust: Option<String>,
    },
    /// List a tenant's keys
    List,
    /// Set the most that a key may vouch for, which also ends what a key from before could
    #[command(after_help = "Example: remem key trust key_1a2b model")]
    Trust {
        /// The key's id, as `key list` shows it
        id: String,
        /// untrusted, model, tool, action or operator
        trust: String,
    },
    /// Revoke a key, at once
    Revoke {
        /// The key's id, as `key list` shows it
        id: String,
    },
}

#[derive(Subcommand)]
pub enum Secret {
    /// Put a secret into the vault; its value is read from standard input or a file
    Set(SecretValue),
    /// Give a secret another value; the earlier ones are kept out of memory as well
    Rotate(SecretValue),
    /// List the names: the tenant's, and those of the key in use
    List {
        /// The key whose own secrets are meant, if not the one in use
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
    /// Take a secret out of the vault with all its values
    Delete {
        /// Its name
        name: String,
        /// For whom it is: tenant or user
        #[arg(long, default_value = "tenant")]
        scope: String,
        /// The key whose own secret is meant, if not the one in use
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
}

#[derive(Args)]
pub struct SecretValue {
    /// Its name: letters, digits and ._-
    pub name: String,
    /// For whom it is: tenant, or user (the key in use)
    #[arg(long, default_value = "tenant")]
    pub scope: String,
    /// File with the value [default: standard input]; a line break at the end does not count
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum Tenant {
    /// Create a tenant, or change its settings
    Create {
        /// Its name
        id: String,
        /// What happens to text shaped like a secret: redact, flag or off
        #[arg(long, default_value = "redact")]
        shapes: String,
    },
    /// List all tenants
    List,
}

#[derive(Subcommand)]
pub enum Agent {
    /// Install an agent for the tenant, or replace one
    Install {
        /// JSON file: a manifest, or {"manifest", "packName"?, "packVersion"?, "peerDependencies"?}
        file: PathBuf,
    },
    /// List the agents of the tenant and of the host
    List,
    /// Show one agent
    Show {
        /// Its name
        id: String,
    },
    /// Remove an agent that the tenant installed
    Remove {
        /// Its name
        id: String,
    },
}

#[derive(Args)]
pub struct Import {
    /// File of JSON lines; `-` reads standard input
    pub file: PathBuf,
    /// Memory for lines without a `memoryRef`
    #[arg(long = "ref", value_name = "MEMORY_REF", value_parser = memory)]
    pub memory_ref: Option<String>,
    /// Stop at the first line that is refused
    #[arg(long)]
    pub strict: bool,
}

#[derive(Args)]
pub struct Export {
    /// File to write; `-` writes standard output
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Only this memory
    #[arg(long = "ref", value_name = "MEMORY_REF", value_parser = memory)]
    pub memory_ref: Option<String>,
    /// Go on with a file that an earlier export left unfinished
    #[arg(long)]
    pub resume: bool,
}

#[derive(Args)]
#[command(
    after_help = "PLACE is sqlite:DIR (a data directory) or postgres://USER:PASSWORD@HOST/NAME (prepared with `remem migrate`).\n\
                        Stop the source first, or run the copy again once it is stopped. An interrupted copy goes on when the same \
                        command is run again. With --tenant, only that tenant is copied."
)]
pub struct Copy {
    /// Where the host is
    #[arg(long, value_name = "PLACE")]
    pub from: String,
    /// Where it goes
    #[arg(long, value_name = "PLACE")]
    pub to: String,
    /// Only look and count
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct Redact {
    /// Read and write JSON lines: {"id", "secrets": [{"secretId", "secret"}], "channel", "content"}
    #[arg(long)]
    pub jsonl: bool,
    /// File with registered secrets, one JSON object {"secretId", "secret"} a line
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    pub secrets_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum Config {
    /// Print the effective configuration
    Print,
}
