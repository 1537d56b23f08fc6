//! Who makes vectors here, and whose vectors are served. Vectors of a new model are made beside
//! those of the one before, which serve until the pass `embed` has compared the two; queries are
//! embedded by whichever model serves.
//!
//! It keeps the last questions of each tenant in mind, for that comparison; they are in no log and
//! no database, and go with the process.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::{Embedder, EmbedderError};
use remem_core::sabotage;
use remem_core::{Embedding, MemoryRef, ModelId, RecordKind, TenantId};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The record with what serves, of kind `Progress`.
pub(crate) const RECORD: &str = "embed";
/// Questions kept in mind, of each tenant and of how many tenants.
const QUESTIONS: usize = 32;
const TENANTS: usize = 256;

/// The models of this host.
#[derive(Default)]
pub struct Embedders {
    /// The one that new vectors are made by.
    pub current: Option<Arc<dyn Embedder>>,
    /// The one before, whose vectors serve until the new ones have proved themselves.
    pub previous: Option<Arc<dyn Embedder>>,
    asked: Mutex<HashMap<TenantId, VecDeque<Question>>>,
}

/// Something that was looked for lately.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub memory_ref: MemoryRef,
    pub text: String,
}

impl Embedders {
    /// These two.
    #[must_use]
    pub fn new(
        current: Option<Arc<dyn Embedder>>,
        previous: Option<Arc<dyn Embedder>>,
    ) -> Embedders {
        Embedders {
            current,
            previous,
            asked: Mutex::default(),
        }
    }

    pub(crate) fn asked(&self, tenant: &TenantId, question: Question) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= TENANTS && !asked.contains_key(tenant) {
            return;
        }
        let questions = asked.entry(tenant.clone()).or_default();
        if !questions.contains(&question) {
            questions.push_back(question);
        }
        while questions.len() > QUESTIONS {
            questions.pop_front();
        }
    }

    pub(crate) fn questions(&self, tenant: &TenantId) -> Vec<Question> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(tenant)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

impl Engine {
    /// The model whose vectors serve a tenant. Without one before there is no choice to look up.
    pub(crate) async fn serving(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<Arc<dyn Embedder>>, EngineError> {
        let Some(current) = self.parts.embedders.current.clone() else {
            return Ok(None);
        };
        let Some(previous) = self.parts.embedders.previous.clone() else {
            return Ok(Some(current));
        };
        let note = self
            .parts
            .store
            .record(tenant, RecordKind::Progress, RECORD)
            .await?;
        let serving = note
            .and_then(|note| note.body.get("serving").and_then(Value::as_i64))
            .map(ModelId);
        Ok(Some(if serving == Some(current.id()) {
            current
        } else {
            previous
        }))
    }
}

/// The vector of one text.
pub(crate) async fn embed_one(
    embedder: &dyn Embedder,
    text: &str,
) -> Result<Embedding, EmbedderError> {
    embed_all(embedder, &[text.to_owned()])
        .await?
        .pop()
        .ok_or(EmbedderError::Malformed)
}

/// One vector a text, each as wide as the model says: whatever else a server answers is refused
/// here, before anything is kept.
pub(crate) async fn embed_all(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Embedding>, EmbedderError> {
    let vectors = embedder.embed(texts).await?;
    if vectors.len() != texts.len() {
        return Err(EmbedderError::Malformed);
    }
    if sabotage!(
        "a-vector-of-any-width-is-kept",
        vectors
            .iter()
            .any(|vector| vector.components().len() != embedder.dimensions()),
        false
    ) {
        return Err(EmbedderError::Dimensions);
    }
    Ok(vectors)
}
