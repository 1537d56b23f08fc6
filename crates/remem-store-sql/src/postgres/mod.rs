//! The PostgreSQL store behind the same interface: one schema for all tenants, separated by two
//! independent checks, and many nodes over one database.
//!
//! This file owns the connections and tasks of a node; statements are in `entries`, `read`,
//! `search`, `load`, `save`, `maintain`, `verify`, and only `gate` uses a connection of a pool.

mod answers;
mod arrays;
mod caller_texts;
mod connect;
mod connections;
pub(crate) mod copy;
mod directory;
mod entries;
mod error;
pub(crate) mod gate;
mod group;
mod guard;
mod health;
mod identity;
pub(crate) mod index;
mod lineage;
pub(crate) mod load;
mod maintain;
mod monitor;
mod near;
mod read;
mod record;
mod row_hash;
pub(crate) mod rows;
pub(crate) mod save;
mod schema;
mod search;
mod shared;
mod stats;
mod vector;
mod verify;
mod waiters;
mod workshop;

pub use connect::{PostgresTarget, UrlError};
pub use directory::PostgresDirectory;
pub use guard::{GuardError, ServerInfo};
pub use schema::{BackfillProgress, MigrationReport, Roles, SchemaError, backfill_hashes, migrate};

use crate::stored::refuse_inert;
use async_trait::async_trait;
use connections::Connections;
use gate::{Gate, Identity, Role, sql_call};
use health::HealthReport;
use remem_core::{
    Actor, Batch, EntryId, Event, Fence, MemoryRef, ModelId, Record, RecordKind, Revision, RuleId,
    Scope, Subject, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, CandidateSet, CommitResult, DueWork, EntryActions, EntryQuery, EntryReads,
    EventRange, Filter, FoundEntry, Leases, Ledger, Lineage, LineageReads, LogReads, MemoryStats,
    MemorySummary, Neighbours, Probe, ReadAt, RecordLookup, RecordReads, RetentionCount, Review,
    RowCursor, RuleRange, Snapshot, StoreError, StoreFeatures, StoredSignature, SubjectTrace,
    TenantHead, TracePosition, Upkeep, VectorCounts, Vectors, WorkshopReads, WorldRule,
};
use shared::NodeState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use waiters::{PoolShares, Waiters};

/// Connections for passes: few, since more of them would only save time.
const WORKER_CONNECTIONS: usize = 2;
/// Connections for principals who review proposals.
const REVIEWER_CONNECTIONS: usize = 1;

/// The default number of vectors of a kind up to which a memory's vectors are all compared. That
/// finds the true nearest, some ten milliseconds later than an index would (`docs/recall.md`).
pub const EXACT_MAX: u32 = 20_000;

/// The default number of requests of one tenant that may wait for a connection at a time. More than
/// a busy tenant's clients send at once, so that a burst is served; few enough that callers of
/// other tenants, who are served in turn, still get theirs in time: at a few milliseconds a
/// transaction, 16 connections serve as many in a tenth of a second.
pub const WAITERS_MAX: usize = 256;

/// Parameters for opening a database.
pub struct PostgresOptions {
    /// The database, with the login of the application's role.
    pub target: PostgresTarget,
    /// The database with the login of the worker's role, if that has one of its own; otherwise the
    /// application switches to that role.
    pub worker: Option<PostgresTarget>,
    /// The number of connections for requests.
    pub connections: usize,
    /// The longest wait for a connection, opening it included. A request waits until its deadline
    /// (`remem_store::deadline`) if that comes first.
    pub wait: Duration,
    /// The number of requests of one tenant that may wait at a time; further ones are `Busy` at
    /// once. The default is `WAITERS_MAX`.
    pub waiters_max: usize,
    /// The longest time that a transaction may take.
    pub deadline: Duration,
    /// The number of vectors of a kind up to which a memory's vectors are all compared. The default
    /// is `EXACT_MAX`.
    pub exact_max: u32,
    /// Reads this machine's clock, in milliseconds.
    pub local_ms: fn() -> i64,
}

/// The reasons why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The schema is missing, too old or too new.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The separation of tenants is not intact, or the role has too many rights.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The database cannot be reached or refuses statements.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store of one node, over a database that other nodes may share.
pub struct PostgresStore {
    shared: Arc<NodeState>,
    server: ServerInfo,
    local_ms: fn() -> i64,
    monitor: JoinHandle<()>,
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.monitor.abort();
    }
}

impl PostgresStore {
    /// Opens a prepared database, after a check of its schema, its roles and the separation of
    /// tenants.
    pub async fn open(options: PostgresOptions) -> Result<PostgresStore, PostgresOpenError> {
        let server = examine(&options.target).await?;
        let worker = options
            .worker
            .unwrap_or_else(|| options.target.as_role(&Roles::of(&server.database).worker));
        examine(&worker).await?;
        let reviewer = options
            .target
            .as_role(&Roles::of(&server.database).reviewer);
        examine(&reviewer).await?;
        let gate = Gate {
            connections: Connections {
                app: options.target.pool(options.connections, options.deadline)?,
                worker: worker.pool(WORKER_CONNECTIONS, options.deadline)?,
                reviewer: reviewer.pool(REVIEWER_CONNECTIONS, options.deadline)?,
                health: HealthReport::new(),
                waiters: Waiters::new(options.waiters_max),
                shares: PoolShares::of_pool(options.connections),
                wait: options.wait,
            },
            deadline: options.deadline,
            vectors: server.vectors,
            exact_max: options.exact_max.into(),
        };
        let shared = Arc::new(NodeState::new(gate));
        #[expect(
            clippy::disallowed_methods,
            reason = "the monitor lives as long as the store"
        )]
        let monitor = tokio::spawn(monitor::watch_database(
            shared.clone(),
            options.target,
            options.local_ms,
        ));
        Ok(PostgresStore {
            shared,
            server,
            local_ms: options.local_ms,
            monitor,
        })
    }

    /// The directory of tenants and keys in the same database.
    #[must_use]
    pub fn directory(&self) -> PostgresDirectory {
        PostgresDirectory::new(self.shared.clone())
    }

    /// Access to transactions, for the copy of a whole host.
    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// The properties of the server, read when the store was opened.
    #[must_use]
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// A clock that reads the database's time, so that nodes agree on when an entry ends.
    #[must_use]
    pub fn clock(&self) -> Box<dyn Fn() -> Timestamp + Send + Sync> {
        let shared = self.shared.clone();
        let local_ms = self.local_ms;
        Box::new(move || Timestamp(local_ms() + shared.clock_ahead_ms.load(Ordering::SeqCst)))
    }

    /// The key of all keyed digests in this database; stores `fresh` as the key if there is none.
    pub async fn host_secret(&self, fresh: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        let insert = "INSERT INTO remem.host_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING";
        self.shared
            .gate
            .write(
                Role::App,
                Identity::host(),
                vec![sql_call(insert, &[&fresh.as_slice()])],
            )
            .await?;
        let rows = self
            .shared
            .gate
            .read(
                Role::App,
                Identity::host(),
                "SELECT secret FROM remem.host_secret",
                &[],
            )
            .await?;
        rows.first().map_or(
            Err(StoreError::Damaged("the host's secret is missing")),
            |row| rows::get_bytes(row, 0),
        )
    }
}

/// Checks a database on a separate connection, before the store uses it.
async fn examine(target: &PostgresTarget) -> Result<ServerInfo, PostgresOpenError> {
    let (client, driver) = target.connect().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while its statements wait for it"
    )]
    let driver_task = tokio::spawn(driver);
    let checked = async {
        schema::check(&client).await?;
        Ok(guard::check(&client, target.user()).await?)
    };
    let checked = checked.await;
    drop(client);
    let _ = driver_task.await; // its errors have reached the statements
    checked
}

#[async_trait]
impl Ledger for PostgresStore {
    async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        group::commit(&self.shared, batch).await
    }
}

#[async_trait]
impl EntryReads for PostgresStore {
    async fn entries(&self, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError> {
        self.shared.gate.entries(query).await
    }

    async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<CandidateSet, StoreError> {
        self.shared
            .gate
            .search(scope, probe, filter, depth, at)
            .await
    }

    async fn neighbours(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Neighbours>, StoreError> {
        self.shared.gate.around(scope, ids, reach, at).await
    }

    async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<MemoryStats, StoreError> {
        self.shared.gate.stats(scope, at).await
    }

    async fn memories(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<MemorySummary>, StoreError> {
        self.shared
            .gate
            .scopes(tenant, actor, after, limit, at)
            .await
    }
}

#[async_trait]
impl RecordReads for PostgresStore {
    async fn records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        refuse_inert(kind)?;
        self.shared.gate.records(tenant, kind, lookup, limit).await
    }
}

#[async_trait]
impl LogReads for PostgresStore {
    async fn events_in(
        &self,
        tenant: &TenantId,
        range: &EventRange,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.shared.gate.events(tenant, range, limit).await
    }

    async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        self.shared.gate.snapshots(tenant).await
    }

    async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError> {
        self.shared.gate.head(tenant).await
    }

    async fn watch_commits(
        &self,
        tenant: &TenantId,
    ) -> Result<watch::Receiver<Revision>, StoreError> {
        let handle = self.shared.tenant(tenant);
        let receiver = handle.watch();
        handle.publish(self.shared.gate.head(tenant).await?.revision);
        Ok(receiver)
    }
}

#[async_trait]
impl LineageReads for PostgresStore {
    async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError> {
        self.shared.gate.signatures(scope, after, limit).await
    }

    async fn lineage(&self, scope: &Scope, id: &EntryId) -> Result<Option<Lineage>, StoreError> {
        self.shared.gate.lineage(scope, id).await
    }

    async fn trace_subject(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError> {
        self.shared.gate.trace(tenant, subject, after, limit).await
    }
}

#[async_trait]
impl Vectors for PostgresStore {
    async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        self.shared.gate.vector_counts(tenant).await
    }

    async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.shared.gate.discard_vectors(tenant, keep, limit).await
    }
}

#[async_trait]
impl WorkshopReads for PostgresStore {
    async fn rules_in(
        &self,
        tenant: &TenantId,
        range: &RuleRange,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        self.shared.gate.rules(tenant, range, limit).await
    }

    async fn restated_rule(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        self.shared.gate.shadowed(tenant, world, text).await
    }

    async fn actions_of_entry(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Vec<ActionLink>, StoreError> {
        self.shared.gate.links(scope, id).await
    }

    async fn entries_with_actions(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError> {
        self.shared.gate.linked(tenant, after, limit).await
    }

    async fn retention_counts(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        self.shared.gate.retention(tenant, actor, memory_ref).await
    }
}

#[async_trait]
impl Leases for PostgresStore {
    async fn acquire_lease(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        _now: Timestamp,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        self.shared.gate.claim(tenant, pass, holder, for_ms).await
    }

    async fn release_lease(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        self.shared.gate.release(tenant, fence).await
    }
}

#[async_trait]
impl Upkeep for PostgresStore {
    async fn tenants_with_work(
        &self,
        work: DueWork,
        at: Timestamp,
    ) -> Result<Vec<TenantId>, StoreError> {
        self.shared.gate.due(work, at).await
    }

    /// Does not compact: the server's own vacuum removes erased text from the pages, and the
    /// application has no right to run it.
    async fn scrub(
        &self,
        tenant: &TenantId,
        keys_before: Timestamp,
        _compact: bool,
    ) -> Result<(), StoreError> {
        self.shared.gate.scrub(tenant, keys_before).await
    }

    async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.shared.gate.verify(tenant).await
    }

    async fn count_rows_without_hash(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.shared.gate.unhashed(tenant).await
    }

    fn watch_work(&self) -> watch::Receiver<u64> {
        self.shared.wake.subscribe()
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures {
            durable: self.server.durable,
            vectors: self.server.vectors,
            shared: true,
        }
    }
}

/// The gate runs these as the reviewer's role, the only one that may read the table.
#[async_trait]
impl Review for PostgresStore {
    async fn review_records_by(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        self.shared.gate.records(tenant, kind, lookup, limit).await
    }
}
