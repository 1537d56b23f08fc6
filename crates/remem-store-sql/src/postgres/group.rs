//! Group commit: writers that arrive while a commit is under way share the next one.
//!
//! The leader (see `queue`) is a task of its own, so that a caller who gives up does not take its neighbours along. A
//! group costs two trips: lock the clock and read what the batches name, then write everything and commit. Nodes take
//! turns at the clock's row lock, which is held until the commit: revisions become visible in their order.

use super::apply::apply;
use super::columns::{Entries, Records, Rewrites, Scopes, Snapshots, States};
use super::error::concerns_one_batch;
use super::gate::{Failed, Gate};
use super::load::load;
use super::save::{ClockColumns, Saving, Writes, calls};
use super::shared::Shared;
use crate::queue::{Job, Leading, Queue, Waiting, hear, tell};
use remem_core::{Batch, Revision, TenantId};
use remem_store::{Committed, StoreError};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Entries that end within this time are worth waking passes for.
const SOON_MS: i64 = 1_000;

/// Batches of one tenant that wait on this node.
pub(super) type Commits = Queue<Infallible>;

pub(super) async fn commit(shared: &Arc<Shared>, batch: Batch) -> Result<Committed, StoreError> {
    let (tenant, handle) = (batch.tenant().clone(), shared.tenant(batch.tenant()));
    let (answer, answered) = oneshot::channel();
    if handle.commits.submit(Job::Commit(Waiting { batch, answer }))? {
        let shared = shared.clone();
        #[expect(clippy::disallowed_methods, reason = "the leader must outlive the caller that happens to start it")]
        tokio::spawn(async move { lead(&shared, &tenant, &handle.commits).await });
    }
    hear(answered).await
}

async fn lead(shared: &Shared, tenant: &TenantId, commits: &Commits) {
    let mut leading = Leading { queue: commits, done: false };
    loop {
        let (group, _) = commits.next();
        if group.is_empty() {
            leading.done = true;
            return;
        }
        metrics::histogram!("remem_commit_group_batches").record(group.len() as f64);
        commit_group(shared, tenant, group).await;
    }
}

async fn commit_group(shared: &Shared, tenant: &TenantId, group: Vec<Waiting>) {
    let batches: Vec<&Batch> = group.iter().map(|w| &w.batch).collect();
    match transaction(&shared.gate, tenant, &batches).await {
        Ok(applied) => {
            shared.committed(tenant, applied.revision, applied.due);
            for (waiting, result) in group.into_iter().zip(applied.results) {
                tell(waiting.answer, result);
            }
        }
        Err(Spoilt::ByOneBatch) if group.len() > 1 => {
            for waiting in group {
                Box::pin(commit_group(shared, tenant, vec![waiting])).await;
            }
        }
        Err(error) => {
            for waiting in group {
                tell(waiting.answer, Err(error.for_one()));
            }
        }
    }
}

struct Applied {
    revision: Revision,
    /// An entry ends before a pass would look on its own.
    due: bool,
    results: Vec<Result<Committed, StoreError>>,
}

/// Why a whole group was not applied, or may not have been.
enum Spoilt {
    ByOneBatch,
    ByStore(StoreError),
}

impl Spoilt {
    /// Errors cannot be cloned: each caller gets one of the same kind.
    fn for_one(&self) -> StoreError {
        match self {
            Spoilt::ByOneBatch => StoreError::Unavailable("the batch breaks a rule of the database".into()),
            Spoilt::ByStore(StoreError::Busy) => StoreError::Busy,
            Spoilt::ByStore(StoreError::Full) => StoreError::Full,
            Spoilt::ByStore(StoreError::Damaged(what)) => StoreError::Damaged(what),
            Spoilt::ByStore(StoreError::Unavailable(source)) => StoreError::Unavailable(source.to_string().into()),
            Spoilt::ByStore(other) => StoreError::Unavailable(other.to_string().into()),
        }
    }
}

/// Applies the batches in one transaction. An error means that none of them is known to be applied.
async fn transaction(gate: &Gate, tenant: &TenantId, group: &[&Batch]) -> Result<Applied, Spoilt> {
    let (transaction, mut working) = load(gate, tenant, group).await.map_err(Spoilt::ByStore)?;
    let (before, mut writes) = (working.clock.clone(), Writes::default());
    let results: Vec<_> = group.iter().map(|batch| apply(batch, &mut working, &mut writes)).collect();
    writes.kin().seal();
    writes.retied.seal();
    let (new_scopes, old_scopes) = (Scopes::of(&working, true), Scopes::of(&working, false));
    let (entries, clock, name) = (Entries::of(&writes.entries), ClockColumns::of(&working.clock), tenant.as_str());
    let (records, snapshots, rewrites) = (Records::of(&writes, false), Snapshots::of(&writes), Rewrites::of(&writes));
    let states = States::of(&writes);
    let saving = Saving {
        tenant: &name,
        new_scopes: &new_scopes,
        old_scopes: &old_scopes,
        entries: &entries,
        records: &records,
        reviews: &Records::of(&writes, true),
        snapshots: &snapshots,
        rewrites: &rewrites,
        states: &states,
        clock: (working.clock != before).then_some(&clock),
    };
    let calls = calls(&saving, &writes);
    transaction.commit(calls).await.map_err(|error| match error {
        Failed::Database(error) if concerns_one_batch(&error) => Spoilt::ByOneBatch,
        other => Spoilt::ByStore(other.into_store()),
    })?;
    let due = writes.next_expiry <= working.clock.at.0.saturating_add(SOON_MS);
    Ok(Applied { revision: working.clock.revision, due, results })
}
