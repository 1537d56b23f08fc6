//! The store of proposals: the only part of the engine that reads them. Its methods are private to
//! `proposals`, so that nothing that resolves agents, workflows, prompts or automations can reach a
//! proposal, not even by mistake.

use remem_core::{Record, RecordKind, TenantId, Timestamp};
use remem_store::{Review, ReviewCalls, StoreError};
use std::sync::Arc;

/// Access to proposals, their revisions and approval gates. The default has none.
#[derive(Clone, Default)]
pub struct ProposalStore(Option<Arc<dyn Review>>);

impl ProposalStore {
    /// Reads proposals from this storage.
    #[must_use]
    pub fn new(review: Arc<dyn Review>) -> ProposalStore {
        ProposalStore(Some(review))
    }

    /// Whether this host has proposals at all.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.0.is_some()
    }

    /// Reads one record by its key.
    pub(in crate::proposals) async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        match &self.0 {
            Some(review) => review.review_record(tenant, kind, key).await,
            None => Ok(None),
        }
    }

    /// Reads records by key.
    pub(in crate::proposals) async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        match &self.0 {
            Some(review) => {
                review
                    .review_records(tenant, kind, prefix, after, limit)
                    .await
            }
            None => Ok(Vec::new()),
        }
    }

    /// Reads records that are due.
    pub(in crate::proposals) async fn due_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        match &self.0 {
            Some(review) => review.due_review_records(tenant, kind, until, limit).await,
            None => Ok(Vec::new()),
        }
    }
}
