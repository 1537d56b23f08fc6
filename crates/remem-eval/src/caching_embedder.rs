//! A model with a cache of the vectors that it has made, so that questions which are asked in many
//! ways are embedded once. While latency is measured the cache is only filled: every vector is made
//! again.

use async_trait::async_trait;
use remem_core::Embedding;
use remem_engine::ports::{Embedder, EmbedderError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An embedding model with a cache.
pub struct CachingEmbedder {
    model: Arc<dyn Embedder>,
    cache: Mutex<HashMap<String, Embedding>>,
    cache_enabled: AtomicBool,
}

impl CachingEmbedder {
    /// Wraps a model, with the cache not yet in use for answers.
    pub fn new(model: Arc<dyn Embedder>) -> CachingEmbedder {
        CachingEmbedder {
            model,
            cache: Mutex::default(),
            cache_enabled: AtomicBool::new(false),
        }
    }

    /// Answers from the cache from now on.
    pub fn enable_cache(&self) {
        self.cache_enabled.store(true, Ordering::SeqCst);
    }

    fn cached(&self, texts: &[String]) -> Option<Vec<Embedding>> {
        let known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().map(|text| known.get(text).cloned()).collect()
    }
}

#[async_trait]
impl Embedder for CachingEmbedder {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn dimensions(&self) -> usize {
        self.model.dimensions()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        if let Some(vectors) = self
            .cached(texts)
            .filter(|_| self.cache_enabled.load(Ordering::SeqCst))
        {
            return Ok(vectors);
        }
        let vectors = self.model.embed(texts).await?;
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(texts.iter().cloned().zip(vectors.iter().cloned()));
        Ok(vectors)
    }
}
