//! The desk: the only place of the engine that reads what is under review. What it holds is private
//! to `proposals`, so that nothing that resolves agents, workflows, prompts or automations can
//! reach a proposal, not even by mistake.

use remem_core::{Record, RecordKind, TenantId, Timestamp};
use remem_store::{Review, StoreError};
use std::sync::Arc;

/// Where proposals are looked at.
#[derive(Clone, Default)]
pub struct Desk(Option<Arc<dyn Review>>);

impl Desk {
    /// Over what keeps proposals.
    #[must_use]
    pub fn over(review: Arc<dyn Review>) -> Desk {
        Desk(Some(review))
    }

    /// Whether there is one: a host without says that it has no proposals.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    pub(in crate::proposals) async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        match &self.0 {
            Some(review) => review.inert(tenant, kind, key).await,
            None => Ok(None),
        }
    }

    pub(in crate::proposals) async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        match &self.0 {
            Some(review) => review.inert_list(tenant, kind, prefix, after, limit).await,
            None => Ok(Vec::new()),
        }
    }

    pub(in crate::proposals) async fn due(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        match &self.0 {
            Some(review) => review.inert_due(tenant, kind, until, limit).await,
            None => Ok(Vec::new()),
        }
    }
}
