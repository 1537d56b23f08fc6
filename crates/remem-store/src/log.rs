//! The trait `LogReads`: the events of a tenant and of its runs, its newest commit, and the
//! snapshots that runs hold.

use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::{Event, Revision, RunId, Seq, TenantId, Timestamp};
use tokio::sync::watch;

/// Reads the log of a tenant, and waits for its next commit.
#[async_trait]
pub trait LogReads: Send + Sync {
    /// Returns events of the tenant's log or of one run's own log, in order, without gaps, at most
    /// `limit`.
    async fn events_in(
        &self,
        tenant: &TenantId,
        range: &EventRange,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError>;

    /// Returns the snapshots that runs hold, oldest first.
    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the newest revision, event and instant of the tenant.
    async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError>;

    /// Notifies the receiver of the tenant's next commit. Only a hint: commits of other processes
    /// may be reported late or not at all.
    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError>;
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRange {
    /// The events of the tenant after this one.
    After(Seq),
    /// The events of one run from this position of its own log on.
    OfRun(RunId, u64),
}

/// A snapshot that a run holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub run: RunId,
    /// The newest revision that the run sees.
    pub revision: Revision,
    /// The instant at which the snapshot was taken.
    pub at: Timestamp,
}

/// The newest revision, event and instant of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantHead {
    /// The newest commit of the tenant.
    pub revision: Revision,
    /// The newest event of the tenant.
    pub seq: Seq,
    /// The latest instant of any commit.
    pub at: Timestamp,
}
