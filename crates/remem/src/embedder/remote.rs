//! Vectors from an embedding model behind an OpenAI-compatible endpoint: the body of a request, and
//! the checks of a response. The HTTP call is in `endpoint.rs`. A request is not retried, and a
//! response without exactly one vector per text is refused as a whole. It never logs a key, a text
//! or a vector.

use crate::config;
use crate::endpoint::{self, Endpoint, EndpointError};
use anyhow::{Context, ensure};
use async_trait::async_trait;
use remem_core::Embedding;
use remem_core::sabotage;
use remem_engine::ports::{Embedder, EmbedderError};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

/// Maximum number of texts in a request: servers differ in how many they accept, and all accept
/// this many.
const TEXTS_MAX: usize = 64;
/// Maximum number of bytes of a response: the vectors of one request, each number written out with
/// all its digits, and room to spare.
const BODY_BYTES_MAX: usize = TEXTS_MAX * 4_096 * 32;

/// An embedding model behind a URL.
pub struct RemoteModel {
    endpoint: Endpoint,
    name: String,
    dimensions: usize,
    key: Option<HeaderValue>,
}

/// The part of a response that is used. Servers may add other fields.
#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    embedding: Vec<f32>,
}

impl RemoteModel {
    /// Returns the model of a section of the configuration that has a base URL. Errors name a
    /// setting, never its value.
    pub fn new(
        section: &str,
        config: &config::EmbedderConfig,
        base: &str,
    ) -> anyhow::Result<RemoteModel> {
        let name = endpoint::model_name(section, config.name.as_ref())?;
        let dimensions = config
            .dimensions
            .with_context(|| format!("{section}.base_url needs {section}.dimensions"))?;
        let range = Embedding::DIMENSIONS;
        ensure!(
            range.contains(&dimensions),
            "{section}.dimensions must be from {} to {}",
            range.start(),
            range.end()
        );
        let endpoint = Endpoint::new(
            section,
            base,
            "embeddings",
            config.timeout_ms,
            BODY_BYTES_MAX,
        )?;
        let key = config.key_file.as_deref().map(|file| {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {section}.key_file {}", file.display()))?;
            let text = Zeroizing::new(text);
            let key = Some(text.trim())
                .filter(|key| !key.is_empty())
                .and_then(endpoint::bearer_header);
            key.with_context(|| {
                format!(
                    "{section}.key_file {} must hold one line of visible characters",
                    file.display()
                )
            })
        });
        Ok(RemoteModel {
            endpoint,
            name,
            dimensions,
            key: key.transpose()?,
        })
    }

    async fn request_vectors(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        let request = json!({"model": self.name, "input": texts, "encoding_format": "float"});
        let body = self.endpoint.post_json(&request, self.key.clone()).await?;
        let response: EmbeddingsResponse =
            serde_json::from_slice(&body).map_err(|_| EmbedderError::Malformed)?;
        self.in_order(response, texts.len())
    }

    /// Returns one vector per text, in the order of the indices that the response names.
    fn in_order(
        &self,
        response: EmbeddingsResponse,
        texts: usize,
    ) -> Result<Vec<Embedding>, EmbedderError> {
        let mut vectors = vec![None; texts];
        for item in response.data {
            if sabotage!(
                "vectors-of-any-width",
                item.embedding.len() != self.dimensions,
                false
            ) {
                return Err(EmbedderError::Dimensions);
            }
            let vector = sabotage!(
                "vectors-of-one-text-for-another",
                vectors
                    .get_mut(item.index)
                    .filter(|vector| vector.is_none()),
                vectors.iter_mut().find(|vector| vector.is_none())
            )
            .ok_or(EmbedderError::Malformed)?;
            *vector =
                Some(Embedding::from_components(&item.embedding).ok_or(EmbedderError::Malformed)?);
        }
        vectors
            .into_iter()
            .collect::<Option<_>>()
            .ok_or(EmbedderError::Malformed)
    }
}

#[async_trait]
impl Embedder for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TEXTS_MAX) {
            vectors.extend(self.request_vectors(texts).await?);
        }
        Ok(vectors)
    }
}

impl From<EndpointError> for EmbedderError {
    fn from(error: EndpointError) -> EmbedderError {
        match error {
            EndpointError::Timeout => EmbedderError::Timeout,
            EndpointError::Unreachable => EmbedderError::Unreachable,
            EndpointError::Status(status) => EmbedderError::Status(status),
            EndpointError::TooLarge => EmbedderError::Malformed,
        }
    }
}

#[cfg(test)]
mod tests;
