//! An embedding model that runs on the processors of this process: tokens, the neural network, the
//! mean over the tokens. It reads the installed files and nothing else, uses no network connection,
//! and keeps no text.
//!
//! The files are read on first use, because most commands never make a vector; they are checked
//! against their digests each time, because a vector is stored under the digest of the network that
//! made it.

use super::catalogue::ModelOffer;
use super::install;
use super::tokenizer::Tokenizer;
use async_trait::async_trait;
use remem_core::Embedding;
use remem_core::sabotage;
use remem_engine::ports::{Embedder, EmbedderError};
use rten::{Model, NodeId, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Number of texts that go through the network together. Larger groups are hardly faster, and take
/// more memory.
const GROUP_TEXTS_MAX: usize = 16;

/// An installed embedding model that runs in this process.
pub struct LocalModel {
    offer: &'static ModelOffer,
    identity: String,
    data_dir: PathBuf,
    /// The loaded model, shared by all calls; `None` once it turned out to be unusable.
    loaded: Arc<OnceLock<Option<LoadedModel>>>,
}

/// A model that is loaded into memory.
struct LoadedModel {
    network: Model,
    inputs: [NodeId; 3],
    output: NodeId,
    tokenizer: Tokenizer,
    dimensions: usize,
}

impl LocalModel {
    /// Returns the model that is installed in the data directory, not yet loaded.
    #[must_use]
    pub fn new(offer: &'static ModelOffer, data_dir: PathBuf) -> LocalModel {
        LocalModel {
            offer,
            identity: offer.identity(),
            data_dir,
            loaded: Arc::default(),
        }
    }
}

#[async_trait]
impl Embedder for LocalModel {
    fn name(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.offer.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let offer = self.offer;
        let data_dir = self.data_dir.clone();
        let loaded = self.loaded.clone();
        let texts = texts.to_vec();
        let work = move || {
            let loaded = loaded.get_or_init(|| load(offer, &data_dir));
            loaded
                .as_ref()
                .and_then(|loaded| loaded.embed(&texts))
                .ok_or(EmbedderError::Unusable)
        };
        // A panic of the library means that these texts get no vectors; it must not end the host.
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or(Err(EmbedderError::Unusable))
    }
}

/// Loads the model from its files. Logs once which file is wrong.
fn load(offer: &'static ModelOffer, data_dir: &Path) -> Option<LoadedModel> {
    let read = |part| {
        let log_flaw = |flaw: &install::FileFlaw| {
            tracing::error!(
                model = offer.name,
                flaw = flaw.as_str(),
                "a file of the embedding model is wrong"
            )
        };
        install::read_installed(data_dir, offer, part)
            .inspect_err(log_flaw)
            .ok()
    };
    let network = read(&offer.network)?;
    let tokenizer = read(&offer.tokenizer)?;
    let network = Model::load(network)
        .inspect_err(|_| {
            tracing::error!(model = offer.name, "the embedding model cannot be loaded")
        })
        .ok()?;
    let node = |name| network.find_node(name);
    let inputs = [
        node("input_ids")?,
        node("attention_mask")?,
        node("token_type_ids")?,
    ];
    let output = *network.output_ids().first()?;
    let words = Tokenizer::new(&tokenizer, offer.tokens_max)?;
    Some(LoadedModel {
        network,
        inputs,
        output,
        tokenizer: words,
        dimensions: offer.dimensions,
    })
}

impl LoadedModel {
    /// Returns one vector per text, in the order of the texts.
    fn embed(&self, texts: &[String]) -> Option<Vec<Embedding>> {
        let tokens: Vec<Vec<i32>> = texts
            .iter()
            .map(|text| self.tokenizer.tokens(text))
            .collect::<Option<_>>()?;
        // Texts of similar length go together, because the padding of shorter ones is computed for
        // nothing.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&n| tokens[n].len());
        let mut vectors = vec![None; tokens.len()];
        for group in order.chunks(GROUP_TEXTS_MAX) {
            let rows: Vec<&[i32]> = group.iter().map(|&n| tokens[n].as_slice()).collect();
            for (&n, vector) in group.iter().zip(self.run(&rows)?) {
                vectors[n] = Embedding::from_components(&vector);
            }
        }
        vectors.into_iter().collect()
    }

    /// Returns one vector per row: the mean over its own tokens, not over the padding.
    fn run(&self, rows: &[&[i32]]) -> Option<Vec<Vec<f32>>> {
        let width = rows.iter().map(|row| row.len()).max()?;
        let shape = [rows.len(), width];
        let tensor = |cell: &dyn Fn(&[i32], usize) -> i32| {
            let cells = rows
                .iter()
                .flat_map(|row| (0..width).map(|column| cell(row, column)))
                .collect::<Vec<i32>>();
            Value::from_shape(&shape, cells).ok()
        };
        let ids = tensor(&|row, column| row.get(column).copied().unwrap_or(0))?;
        let mask = tensor(&|row, column| i32::from(column < row.len()))?;
        let types = tensor(&|_, _| 0)?;
        let [first, second, third] = self.inputs;
        let inputs = vec![
            (first, ids.into()),
            (second, mask.into()),
            (third, types.into()),
        ];
        let output = self.network.run(inputs, &[self.output], None).ok()?.pop()?;
        let (shape, states) = output.into_shape_vec::<f32, 3>().ok()?;
        (shape == [rows.len(), width, self.dimensions]).then_some(())?;
        let means = rows
            .iter()
            .zip(states.chunks_exact(width * self.dimensions))
            .map(|(row, states)| {
                let mut sum = vec![0f32; self.dimensions];
                for state in states.chunks_exact(self.dimensions).take(sabotage!(
                    "what-fills-up-a-row-counts",
                    row.len(),
                    row.len() + width
                )) {
                    sum.iter_mut()
                        .zip(state)
                        .for_each(|(sum, component)| *sum += component);
                }
                // Vectors are compared by direction only, so the sum serves as well as the mean.
                sum
            });
        Some(means.collect())
    }
}

#[cfg(test)]
mod tests;
