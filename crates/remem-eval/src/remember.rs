//! A model with a cache of the vectors that it has made, so that questions which are asked in many
//! ways are embedded once. While latency is measured the cache is only filled: every vector is made
//! anew.

use async_trait::async_trait;
use remem_core::Embedding;
use remem_engine::ports::{Embedder, EmbedderError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An embedding model with a cache.
pub struct Remembering {
    model: Arc<dyn Embedder>,
    known: Mutex<HashMap<String, Embedding>>,
    answers: AtomicBool,
}

impl Remembering {
    /// Wraps a model, with the cache not yet in use for answers.
    pub fn new(model: Arc<dyn Embedder>) -> Remembering {
        Remembering {
            model,
            known: Mutex::default(),
            answers: AtomicBool::new(false),
        }
    }

    /// Answers from the cache from now on.
    pub fn answer(&self) {
        self.answers.store(true, Ordering::SeqCst);
    }

    fn known(&self, texts: &[String]) -> Option<Vec<Embedding>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().map(|text| known.get(text).cloned()).collect()
    }
}

#[async_trait]
impl Embedder for Remembering {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn dimensions(&self) -> usize {
        self.model.dimensions()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        if let Some(vectors) = self
            .known(texts)
            .filter(|_| self.answers.load(Ordering::SeqCst))
        {
            return Ok(vectors);
        }
        let vectors = self.model.embed(texts).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(texts.iter().cloned().zip(vectors.iter().cloned()));
        Ok(vectors)
    }
}
