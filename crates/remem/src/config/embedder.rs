//! `[embedder]`: the embedding model for new vectors, and the previous one whose vectors are still
//! used. `embedder/mod.rs` applies the settings.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An embedding model on this machine, or one behind an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderConfig {
    /// Whether no embeddings are made, even if a model is installed.
    pub off: bool,
    /// Name of an installed model, as `remem model list` shows it; without it and without a URL,
    /// the model that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Base URL of an OpenAI-compatible endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the model at the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of components of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// File with the key that is sent to the endpoint; none is sent if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Longest time that a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// The previous model, whose vectors serve searches until the new ones are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<EmbedderConfig>>,
}

impl Default for EmbedderConfig {
    fn default() -> EmbedderConfig {
        EmbedderConfig {
            off: false,
            model: None,
            base_url: None,
            name: None,
            dimensions: None,
            key_file: None,
            timeout_ms: 10_000,
            previous: None,
        }
    }
}

impl EmbedderConfig {
    /// Returns every URL of the section, so that passwords in them can be masked.
    pub fn urls(&mut self) -> Vec<&mut Option<String>> {
        let mut urls = vec![&mut self.base_url];
        urls.extend(
            self.previous
                .as_deref_mut()
                .map(EmbedderConfig::urls)
                .unwrap_or_default(),
        );
        urls
    }
}
