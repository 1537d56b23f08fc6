//! `[embedder]`: which model makes the vectors of texts, and which one made those that are still
//! served. What the settings mean is in `embedder/mod.rs`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A model on this machine, or one behind an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embedder {
    /// No vectors at all, whatever is installed.
    pub off: bool,
    /// An installed model, as `remem model list` names it; without it and without a URL, the one
    /// that is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where an OpenAI-compatible endpoint begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// What the model is called there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Components of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// File with the key that is sent there; none is sent if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// The model whose vectors are served until the new ones are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Embedder>>,
}

impl Default for Embedder {
    fn default() -> Embedder {
        Embedder {
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

impl Embedder {
    /// Every URL, for showing them without passwords.
    pub fn urls(&mut self) -> Vec<&mut Option<String>> {
        let mut urls = vec![&mut self.base_url];
        urls.extend(
            self.previous
                .as_deref_mut()
                .map(Embedder::urls)
                .unwrap_or_default(),
        );
        urls
    }
}
