//! The commands for forgetting a subject, and for the origin of entries.

use super::values::memory;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `remem forget`.
#[derive(Args)]
#[command(
    after_help = "Erases, in all memories of the tenant, the entries with this subject, \
    everything made from them, and its archives. This cannot be undone. \
    A server goes on with it as a job after five seconds, which the command waits for. \
    `remem vacuum` then removes the bytes from the files at once.\n\n\
    Examples:\n  remem forget ada@example.org --dry-run\n  \
    remem forget ada@example.org --report ada.json\n  \
    echo ada@example.org | remem forget - --yes"
)]
pub struct ForgetArgs {
    /// Subject, as given to `put --subject`; `-` reads it from standard input, which keeps it out of
    /// the list of processes
    pub subject: String,
    /// Show what would be erased, and erase nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// New file for the signed report
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
}

/// `remem erasure`.
#[derive(Subcommand)]
pub enum ErasureCommand {
    /// List the reports, oldest first
    List,
    /// Print a report as JSON, as it was signed
    Show {
        /// Report id, as `erasure list` shows it
        id: String,
        /// Print this page of a report that names what was erased on pages, counted from 1
        #[arg(long, value_name = "NUMBER")]
        page: Option<usize>,
    },
    /// Verify the signature of a report; needs no server
    Verify {
        /// File with the report; `-` reads standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Public key of the host [default: that of --url or --local, else the one in the report]
        #[arg(long, value_name = "BASE64")]
        public_key: Option<String>,
    },
}

/// `remem archive`.
#[derive(Subcommand)]
pub enum ArchiveCommand {
    /// List the archives of a memory, oldest first
    List {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// Print an archive byte for byte
    Get {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
        /// SHA-256 of the archive, as `archive list` shows it
        sha256: String,
    },
}
