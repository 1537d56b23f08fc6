//! The embedding models of this host, and the choice of the one that serves searches. Vectors of a
//! new model are computed beside those of the previous one, which serve until the pass `embed` has
//! compared the two; queries are embedded by whichever model serves.
//!
//! The last queries of each tenant are kept in memory for that comparison; they are in no log and
//! no database, and are lost with the process.

use crate::bounded_map::BoundedMap;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::{Embedder, EmbedderError};
use crate::stored::progress::EmbedProgress;
use remem_core::sabotage;
use remem_core::{Embedding, MemoryRef, RecordKind, StoredRecord, TenantId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Key of the `Progress` record that says which model serves.
pub(crate) const RECORD_KEY: &str = "embed";
/// Recent queries kept for each tenant.
const QUERIES_PER_TENANT: usize = 32;
/// Tenants whose recent queries are kept.
const TENANTS_MAX: usize = 256;

/// The embedding models of this host.
pub struct Embedders {
    /// The model that new vectors are computed with.
    pub current: Option<Arc<dyn Embedder>>,
    /// The model before it, whose vectors serve until the new ones are accepted.
    pub previous: Option<Arc<dyn Embedder>>,
    /// The last queries of each tenant.
    recent_queries: Mutex<BoundedMap<TenantId, VecDeque<RecentQuery>>>,
}

/// A recent query of a search.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RecentQuery {
    pub memory_ref: MemoryRef,
    pub text: String,
}

impl Default for Embedders {
    fn default() -> Embedders {
        Embedders::new(None, None)
    }
}

impl Embedders {
    /// Embedders with a current and a previous model.
    #[must_use]
    pub fn new(
        current: Option<Arc<dyn Embedder>>,
        previous: Option<Arc<dyn Embedder>>,
    ) -> Embedders {
        Embedders {
            current,
            previous,
            recent_queries: Mutex::new(BoundedMap::new(TENANTS_MAX)),
        }
    }

    /// Remembers a query of a tenant, in place of its oldest one.
    pub(crate) fn remember_query(&self, tenant: &TenantId, query: RecentQuery) {
        let mut by_tenant = self
            .recent_queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(queries) = by_tenant.get(tenant) else {
            by_tenant.insert(tenant.clone(), VecDeque::from([query]));
            return;
        };
        if !queries.contains(&query) {
            queries.push_back(query);
        }
        while queries.len() > QUERIES_PER_TENANT {
            queries.pop_front();
        }
    }

    /// The last queries of a tenant.
    pub(crate) fn recent_queries(&self, tenant: &TenantId) -> Vec<RecentQuery> {
        let mut by_tenant = self
            .recent_queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let queries = by_tenant.get(tenant);
        queries.map_or_else(Vec::new, |queries| queries.iter().cloned().collect())
    }
}

impl Engine {
    /// The model whose vectors serve a tenant. Without a previous model nothing has to be looked
    /// up.
    pub(crate) async fn serving_model(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<Arc<dyn Embedder>>, EngineError> {
        let Some(current) = self.parts.embedders.current.clone() else {
            return Ok(None);
        };
        let Some(previous) = self.parts.embedders.previous.clone() else {
            return Ok(Some(current));
        };
        let status = self
            .parts
            .store
            .record(tenant, RecordKind::Progress, RECORD_KEY)
            .await?;
        let serving = status.and_then(|status| EmbedProgress::read(&status)?.serving);
        Ok(Some(if serving == Some(current.id()) {
            current
        } else {
            previous
        }))
    }
}

/// Computes the vector of one text.
pub(crate) async fn embed_one(
    embedder: &dyn Embedder,
    text: &str,
) -> Result<Embedding, EmbedderError> {
    embed_all(embedder, &[text.to_owned()])
        .await?
        .pop()
        .ok_or(EmbedderError::Malformed)
}

/// Computes one vector for each text. Fails if there are more or fewer, or if one has another
/// dimension than the model states, before anything is stored.
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
