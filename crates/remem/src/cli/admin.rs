//! The commands that run and administer a host.

use super::values;
use clap::{Args, Subcommand, ValueHint};
use remem_core::permission::ROLES;
use remem_wire::time::Instant;
use remem_wire::workshop::SourceName;
use std::path::PathBuf;

/// `remem serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:7077]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Where to keep data: in files, or in the process until it exits [default: embedded]
    #[arg(long, value_name = "KIND", value_parser = values::STORES)]
    pub store: Option<String>,
    /// File of secrets to redact, one {"secretId", "secret", "tenant"?} a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secrets_file: Option<PathBuf>,
    /// Serve test endpoints for OpenWOP conformance checks; never on a host with real data
    #[arg(long)]
    pub enable_test_seams: bool,
}

/// `remem mcp`.
#[derive(Args)]
#[command(
    after_help = "Opens the store itself, or talks to a server with --url.\n\n\
    Example of a client's configuration:\n  \
    {\"mcpServers\": {\"memory\": {\"command\": \"remem\", \"args\": [\"mcp\", \"--data-dir\", \"/path\"]}}}"
)]
pub struct McpArgs {
    /// Highest trust that the tools may claim; with --url the key decides
    #[arg(long, value_name = "TRUST", default_value = "model", value_parser = values::trust())]
    pub trust: SourceName,
}

/// `remem key`.
#[derive(Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it once
    Create(KeyCreate),
    /// List the keys of a tenant
    List,
    /// Set the highest trust that a key may claim
    #[command(after_help = "Example:\n  remem key trust key_1a2b model")]
    Trust {
        /// Key id, as `key list` shows it
        id: String,
        /// Highest trust
        #[arg(value_parser = values::trust())]
        trust: SourceName,
    },
    /// Revoke a key at once
    Revoke {
        /// Key id, as `key list` shows it
        id: String,
        /// Revoke even the last key that can manage keys
        #[arg(long)]
        yes: bool,
    },
}

/// `remem key create`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  remem key create --role reader --label dashboard\n  \
    remem key create --scopes memory:read,memory:write --principal ana"
)]
pub struct KeyCreate {
    /// Scopes, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "memory:read,memory:write"
    )]
    #[arg(value_name = "SCOPES", value_parser = values::ScopeParser)]
    pub scopes: Vec<String>,
    /// Role whose scopes to grant instead of --scopes
    #[arg(long, conflicts_with = "scopes", value_parser = ROLES.map(|(name, _)| name))]
    pub role: Option<String>,
    /// Label shown by `key list`
    #[arg(long, default_value = "", hide_default_value = true)]
    pub label: String,
    /// Expiry time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub expires_at: Option<Instant>,
    /// Principal that the key acts for [default: the key's own id]
    #[arg(long, value_name = "NAME")]
    pub principal: Option<String>,
    /// Highest trust that writes with this key may claim [default: model]
    #[arg(long, value_name = "TRUST", value_parser = values::trust())]
    pub trust: Option<SourceName>,
}

/// `remem secret`.
#[derive(Subcommand)]
pub enum SecretCommand {
    /// Add a secret; its value is read from standard input or a file
    #[command(after_help = "Example:\n  remem secret set deploy-token < token.txt")]
    Set(SecretValueArgs),
    /// Replace the value of a secret; earlier values stay redacted
    Rotate(SecretValueArgs),
    /// List the names of secrets
    List {
        /// Key whose own secrets to list [default: the key in use]
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
    /// Delete a secret with all its values
    Delete {
        /// Name of the secret
        name: String,
        /// Owner of the secret: the tenant, or the key in use
        #[arg(long, default_value = "tenant", value_parser = values::SECRET_SCOPES)]
        scope: String,
        /// Key whose own secret to delete [default: the key in use]
        #[arg(long, value_name = "KEY_ID")]
        owner: Option<String>,
    },
}

/// A secret with its value.
#[derive(Args)]
pub struct SecretValueArgs {
    /// Name of the secret: letters, digits and ._-
    pub name: String,
    /// Owner of the secret: the tenant, or the key in use
    #[arg(long, default_value = "tenant", value_parser = values::SECRET_SCOPES)]
    pub scope: String,
    /// File with the value [default: standard input]; a final line break is ignored
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// `remem tenant`.
#[derive(Subcommand)]
pub enum TenantCommand {
    /// Create a tenant, or change its settings
    Create {
        /// Name of the tenant
        id: String,
        /// How to treat text shaped like a secret
        #[arg(long, default_value = "redact", value_parser = values::SHAPES)]
        shapes: String,
    },
    /// List tenants
    List,
}

/// `remem agent`.
#[derive(Subcommand)]
pub enum AgentCommand {
    /// Install an agent for the tenant, or replace one
    Install {
        /// JSON file: a manifest, or {"manifest", "packName"?, "packVersion"?, "peerDependencies"?}
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// List the agents of the tenant and of the host
    List,
    /// Show an agent
    Show {
        /// Agent id
        id: String,
    },
    /// Remove an agent that the tenant installed
    Remove {
        /// Agent id
        id: String,
    },
}

/// `remem copy`.
#[derive(Args)]
#[command(after_help = "STORE is sqlite:DIR (a data directory) or \
    postgres://USER:PASSWORD@HOST/NAME (prepared with `remem migrate`).\n\n\
    Stop the source first, or repeat the copy after it has stopped. To resume an interrupted copy, \
    repeat the command. With --tenant, only that tenant is copied.\n\n\
    Example:\n  remem copy --from sqlite:./remem-data --to postgres://memory_app:…@db/memory")]
pub struct CopyArgs {
    /// Store to copy from
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// Store to copy to
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// Count what would be copied, and copy nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `remem redact`.
#[derive(Args)]
#[command(after_help = "Example:\n  remem redact --secrets-file secrets.jsonl < report.txt")]
pub struct RedactArgs {
    /// Answer JSON lines {"id", "secrets": [{"secretId", "secret"}], "channel", "content"}
    #[arg(long)]
    pub jsonl: bool,
    /// File of secrets to redact, one {"secretId", "secret"} a line
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl", value_hint = ValueHint::FilePath)]
    pub secrets_file: Option<PathBuf>,
}

/// `remem config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print the effective configuration, without passwords
    Print,
}
