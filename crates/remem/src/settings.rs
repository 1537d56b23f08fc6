//! The settings of a host, for programs other than `remem`: they can open a host and its model with
//! them, but cannot read the configuration.

use crate::cli::GlobalArgs;
use crate::config::{self, Config};
use crate::embedder;
use crate::host;
use remem_engine::Engine;
use remem_engine::ports::{Clock, Embedder};
use std::path::Path;
use std::sync::Arc;

/// The effective configuration of a host.
pub struct Settings {
    config: Config,
}

impl Settings {
    /// Reads the configuration file, the environment and these options, as every command does.
    pub fn load(global: &GlobalArgs) -> anyhow::Result<Settings> {
        let config = config::load(global, None)?;
        Ok(Settings { config })
    }

    /// Opens the model that the configuration names or that is installed; `None` without one.
    pub fn embedder(&self) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
        let models = embedder::embedders(&self.config.embedder, &self.config.storage.data_dir)?;
        Ok(models.current)
    }

    /// Opens an engine over an embedded store in `folder`, independent of the configured store. The
    /// limits are the configured ones; the host's secret is a new random one and is not stored.
    pub fn engine_in(
        &self,
        folder: &Path,
        clock: Arc<dyn Clock>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> anyhow::Result<Engine> {
        host::open_engine_in(&self.config, folder, clock, embedder)
    }
}
