//! The state of embedding for operators: which model computes vectors, which one serves, and the
//! result of comparing two models. Only counts and names of models are returned, never a text, a
//! query or a vector.

use crate::caller::Caller;
use crate::embedders::RECORD_KEY;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::Embedder;
use crate::stored::progress::EmbedProgress;
use remem_core::{ModelId, Permission, RecordKind, StoredRecord};

/// The state of embedding for a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddingState {
    /// Name and dimension of the model that computes new vectors.
    pub current: Option<(String, usize)>,
    /// Name of the model whose vectors answer searches.
    pub serving: Option<String>,
    /// Number of texts that can have a vector.
    pub texts: u64,
    /// Number of vectors by model; a model that this host does not know any more is shown by its
    /// number.
    pub vectors: Vec<(String, u64)>,
    /// The result of comparing the current model with the previous one.
    pub comparison: Option<ModelComparisonInfo>,
}

/// The result of comparing two models, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelComparisonInfo {
    /// Average share of the old model's hits that the new one finds.
    pub overlap: u64,
    /// Share of queries whose first hit by the old model is among the new one's hits.
    pub agreement: u64,
    /// Number of queries that both were compared by.
    pub questions: u64,
    /// Whether the new model may serve.
    pub passed: bool,
}

impl Engine {
    /// Returns the state of embedding for the caller's tenant; empty on a host without vectors.
    pub async fn embedding_status(&self, caller: &Caller) -> Result<EmbeddingState, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let store = &self.parts.store;
        if !store.features().vectors {
            return Ok(EmbeddingState::default());
        }
        let counts = store.vector_counts(tenant).await?;
        let status = store
            .record(tenant, RecordKind::Progress, RECORD_KEY)
            .await?;
        let progress = status.as_ref().and_then(EmbedProgress::read);
        let progress = progress.unwrap_or_default();
        let rejected = progress.held;
        let comparison = progress.comparison.map(|comparison| ModelComparisonInfo {
            overlap: comparison.overlap,
            agreement: comparison.agreement,
            questions: comparison.questions,
            passed: rejected.is_none(),
        });
        let current = self.parts.embedders.current.as_ref();
        Ok(EmbeddingState {
            current: current.map(|model| (model.name().to_owned(), model.dimensions())),
            serving: self
                .serving_model(tenant)
                .await?
                .map(|model| model.name().to_owned()),
            texts: counts.texts,
            vectors: counts
                .models
                .into_iter()
                .map(|(id, entries)| (self.model_name(id), entries))
                .collect(),
            comparison,
        })
    }

    /// The name of a model, or its number if it is unknown.
    fn model_name(&self, id: ModelId) -> String {
        let models = &self.parts.embedders;
        let known = [&models.current, &models.previous]
            .into_iter()
            .flatten()
            .find(|model| model.id() == id);
        known.map_or_else(
            || id.0.to_string(),
            |model: &std::sync::Arc<dyn Embedder>| model.name().to_owned(),
        )
    }
}
