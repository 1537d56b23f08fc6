//! Vectors from a model behind an OpenAI-compatible endpoint: what is asked, and what an answer
//! must be to count. How it is asked is in `endpoint.rs`. It asks once, and an answer that is not
//! one vector a text is none at all. It never logs a key, a text or a vector.

use crate::config;
use crate::endpoint::{self, Endpoint, Unanswered};
use anyhow::{Context, ensure};
use async_trait::async_trait;
use remem_core::Embedding;
use remem_core::sabotage;
use remem_engine::ports::{Embedder, EmbedderError};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

/// Texts of one question at the most: servers differ in how many they take, and all take these.
const TEXTS_MAX: usize = 64;
/// Bytes of an answer at the most: the vectors of one question, a number written out with all its
/// digits and room to spare.
const BODY_BYTES_MAX: usize = TEXTS_MAX * 4_096 * 32;

/// A model behind a URL.
pub struct RemoteModel {
    endpoint: Endpoint,
    name: String,
    dimensions: usize,
    key: Option<HeaderValue>,
}

/// The part of an answer that counts. Servers add what they like.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl RemoteModel {
    /// The model of a section of the configuration that has a base URL. Errors name a key, never
    /// its value.
    pub fn new(
        section: &str,
        config: &config::Embedder,
        base: &str,
    ) -> anyhow::Result<RemoteModel> {
        let name = endpoint::name(section, config.name.as_ref())?;
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
                .and_then(endpoint::bearer);
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

    async fn ask(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        let question = json!({"model": self.name, "input": texts, "encoding_format": "float"});
        let body = self.endpoint.ask(&question, self.key.clone()).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| EmbedderError::Malformed)?;
        self.in_order(answer, texts.len())
    }

    /// One vector a text, by the places that the answer names.
    fn in_order(&self, answer: Answer, texts: usize) -> Result<Vec<Embedding>, EmbedderError> {
        let mut vectors = vec![None; texts];
        for item in answer.data {
            if sabotage!(
                "vectors-of-any-width",
                item.embedding.len() != self.dimensions,
                false
            ) {
                return Err(EmbedderError::Dimensions);
            }
            let place = sabotage!(
                "vectors-of-one-text-for-another",
                vectors.get_mut(item.index).filter(|place| place.is_none()),
                vectors.iter_mut().find(|place| place.is_none())
            )
            .ok_or(EmbedderError::Malformed)?;
            *place =
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
            vectors.extend(self.ask(texts).await?);
        }
        Ok(vectors)
    }
}

impl From<Unanswered> for EmbedderError {
    fn from(why: Unanswered) -> EmbedderError {
        match why {
            Unanswered::Timeout => EmbedderError::Timeout,
            Unanswered::Unreachable => EmbedderError::Unreachable,
            Unanswered::Status(status) => EmbedderError::Status(status),
            Unanswered::TooLarge => EmbedderError::Malformed,
        }
    }
}

#[cfg(test)]
mod tests;
