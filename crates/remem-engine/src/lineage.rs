//! The lineage of entries: what an entry was made from, and what was made from it.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{EntryId, Permission};
use remem_store::Lineage;

impl Engine {
    /// Returns the direct sources and derivatives of an entry. An entry that is gone still has its
    /// lineage; one that never existed has none.
    pub async fn lineage(
        &self,
        caller: &Caller,
        memory_ref: &str,
        id: &str,
    ) -> Result<Lineage, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let (Some(scope), Some(id)) = (caller.scope(memory_ref), EntryId::parse(id)) else {
            return Err(EngineError::NotFound("entry"));
        };
        let mut lineage = self
            .parts
            .store
            .lineage(&scope, &id)
            .await?
            .ok_or(EngineError::NotFound("entry"))?;
        lineage
            .sources
            .retain(|source| caller.may_see(&source.memory_ref));
        lineage
            .derivatives
            .retain(|derivative| caller.may_see(&derivative.memory_ref));
        Ok(lineage)
    }
}
