//! How far vectors have been made, for whoever looks after the host: which model makes them, whose
//! vectors serve, and what a comparison of two models showed. Only counts and names of models leave
//! here, never a text, a question or a vector.

use crate::caller::Caller;
use crate::embedders::RECORD;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::Embedder;
use remem_core::{ModelId, Permission, RecordKind};
use serde_json::Value;

/// How far vectors have been made for a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embeddings {
    /// The model that makes new ones, and their components.
    pub current: Option<(String, usize)>,
    /// The model whose vectors answer searches.
    pub serving: Option<String>,
    /// Texts that could have one.
    pub texts: u64,
    /// How many have one, by model; of a model that this host does not know any more, its number.
    pub vectors: Vec<(String, u64)>,
    /// What a comparison of the current model with the one before it showed.
    pub comparison: Option<Compared>,
}

/// How alike two models answer, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// How many of the old one's hits the new one finds.
    pub overlap: u64,
    /// How often the old one's first hit is among the new one's.
    pub agreement: u64,
    /// Questions that both were asked.
    pub questions: u64,
    /// Whether the new one may serve.
    pub passed: bool,
}

impl Engine {
    /// How far vectors have been made for the caller's tenant. A host that makes none has none to
    /// tell of.
    pub async fn embeddings(&self, caller: &Caller) -> Result<Embeddings, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let store = &self.parts.store;
        if !store.features().vectors {
            return Ok(Embeddings::default());
        }
        let counts = store.vector_counts(tenant).await?;
        let note = store.record(tenant, RecordKind::Progress, RECORD).await?;
        let number =
            |at: &Value, name: &str| at.get(name).and_then(Value::as_u64).unwrap_or_default();
        let comparison = note.as_ref().and_then(|note| {
            note.body
                .get("comparison")
                .map(|told| (told, note.body.get("held")))
        });
        let comparison = comparison.map(|(told, held)| Compared {
            overlap: number(told, "overlap"),
            agreement: number(told, "agreement"),
            questions: number(told, "questions"),
            passed: held.is_none_or(Value::is_null),
        });
        let current = self.parts.embedders.current.as_ref();
        Ok(Embeddings {
            current: current.map(|model| (model.name().to_owned(), model.dimensions())),
            serving: self
                .serving(tenant)
                .await?
                .map(|model| model.name().to_owned()),
            texts: counts.texts,
            vectors: counts
                .models
                .into_iter()
                .map(|(id, entries)| (self.name_of(id), entries))
                .collect(),
            comparison,
        })
    }

    fn name_of(&self, id: ModelId) -> String {
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
