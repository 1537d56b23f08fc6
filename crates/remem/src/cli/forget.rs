//! What can be said about forgetting and about where entries come from.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "Erases for good, in all memories of the tenant: the entries that the subject was given with, whatever was \
                        made from them, and the archives of it. Look first with --dry-run. `remem vacuum` afterwards makes the \
                        bytes gone from the files at once."
)]
pub struct Forget {
    /// Whom or what to forget, as it was given to `put --subject`; `-` reads standard input, which
    /// other users of the machine cannot see
    pub subject: String,
    /// Only say what would be erased
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// File for the signed report; it must not exist yet
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum Erasure {
    /// List the reports, oldest first
    List,
    /// Print one report as JSON, as it was signed
    Show {
        /// Its id, as `erasure list` shows it
        id: String,
    },
    /// Check the signature of a report in a file; needs no server
    Verify {
        /// The report; `-` reads standard input
        file: PathBuf,
        /// The host's public key [default: that of the host in --url or --local, otherwise the one
        /// in the report]
        #[arg(long, value_name = "BASE64")]
        public_key: Option<String>,
    },
}

#[derive(Subcommand)]
pub enum Archive {
    /// List the archives of a memory, oldest first
    List {
        /// Name of the memory
        #[arg(value_parser = super::workshop::memory)]
        memory_ref: String,
    },
    /// Print an archive, byte for byte
    Get {
        /// Name of the memory
        #[arg(value_parser = super::workshop::memory)]
        memory_ref: String,
        /// The digest of its bytes
        sha256: String,
    },
}
