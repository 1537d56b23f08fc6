//! Group commit: writers that arrive while a commit is under way share the next one.
//!
//! The leader (see `queue`) is a task of its own, so that a caller who gives up does not cancel the
//! other batches. A group costs two round trips: lock the clock and read the rows that the batches
//! name, then write everything and commit. Nodes take turns at the clock's row lock, which is held
//! until the commit: revisions become visible in their order.

use super::error::{ConstraintError, concerns_one_batch, constraint_error};
use super::gate::{Gate, TripError};
use super::load::load;
use super::save::Saving;
use super::shared::NodeState;
use crate::queue::{
    LeaderGuard, PendingCommit, Queue, WriterJob, await_reply, send_reply, split_by_actor,
};
use crate::stored::refused_error;
use remem_core::ledger::apply;
use remem_core::{Batch, Rejection, Revision, TenantId};
use remem_store::{CommitResult, StoreError, deadline};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Passes are woken for entries that expire within this time.
const SOON_MS: i64 = 1_000;

/// The queue of one tenant's batches on this node.
pub(super) type Commits = Queue<Infallible>;

/// Queues a batch, starts a leader if there is none, and waits for the result.
pub(super) async fn commit(
    shared: &Arc<NodeState>,
    batch: Batch,
) -> Result<CommitResult, StoreError> {
    let tenant = batch.tenant().clone();
    let handle = shared.tenant(batch.tenant());
    let (reply, result) = oneshot::channel();
    if handle
        .commits
        .submit(WriterJob::Commit(PendingCommit::new(batch, reply)))?
    {
        let shared = shared.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "the leader must outlive the caller that happens to start it"
        )]
        tokio::spawn(async move { run_leader(&shared, &tenant, &handle.commits).await });
    }
    await_reply(result).await
}

/// Works through the queue until it is empty.
async fn run_leader(shared: &NodeState, tenant: &TenantId, commits: &Commits) {
    let mut guard = LeaderGuard {
        queue: commits,
        finished: false,
    };
    while let Some(step) = commits.next() {
        let group = refuse_late(step.group);
        for (_, part) in split_by_actor(group, |waiting| &waiting.batch) {
            metrics::histogram!("remem_commit_group_batches").record(part.len() as f64);
            match latest_deadline(&part) {
                Some(latest) => {
                    let commit = Box::pin(commit_group(shared, tenant, part));
                    deadline::within(latest, commit).await;
                }
                None => Box::pin(commit_group(shared, tenant, part)).await,
            }
        }
    }
    guard.finished = true;
}

/// Refuses batches whose requests have passed their deadlines in the queue; returns the others.
fn refuse_late(group: Vec<PendingCommit>) -> Vec<PendingCommit> {
    let now = Instant::now();
    let is_late =
        |waiting: &PendingCommit| waiting.deadline.is_some_and(|deadline| deadline <= now);
    let (late, in_time): (Vec<_>, Vec<_>) = group.into_iter().partition(is_late);
    for waiting in late {
        send_reply(waiting.reply, Err(StoreError::Busy));
    }
    in_time
}

/// The instant until which a group may wait for its connection: the latest deadline of its
/// requests. `None` if a batch in it belongs to no request.
fn latest_deadline(group: &[PendingCommit]) -> Option<Instant> {
    let deadlines: Option<Vec<Instant>> = group.iter().map(|waiting| waiting.deadline).collect();
    deadlines?.into_iter().max()
}

/// Commits a group and answers its callers. If a constraint refused one of its batches, each half is
/// committed by itself, so that the others share few commits.
async fn commit_group(shared: &NodeState, tenant: &TenantId, mut group: Vec<PendingCommit>) {
    let batches: Vec<&Batch> = group.iter().map(|w| &w.batch).collect();
    match commit_together(&shared.gate, tenant, &batches).await {
        Ok(applied) => {
            shared.announce_commit(tenant, applied.revision, applied.due);
            for (waiting, result) in group.into_iter().zip(applied.results) {
                send_reply(waiting.reply, result);
            }
        }
        Err(GroupError::Constraint(_)) if group.len() > 1 => {
            let second = group.split_off(group.len() / 2);
            Box::pin(commit_group(shared, tenant, group)).await;
            Box::pin(commit_group(shared, tenant, second)).await;
        }
        Err(error) => {
            for waiting in group {
                send_reply(waiting.reply, Err(error.for_caller()));
            }
        }
    }
}

struct AppliedGroup {
    revision: Revision,
    /// Whether an entry expires before a pass would look by itself.
    due: bool,
    results: Vec<Result<CommitResult, StoreError>>,
}

/// The reasons why a whole group was not applied, or may not have been.
enum GroupError {
    /// A constraint refused one of the batches; its meaning, if the store interface has one for it.
    Constraint(Option<ConstraintError>),
    Store(StoreError),
}

impl GroupError {
    /// The error for one caller. Errors cannot be cloned: each caller gets one of the same kind.
    fn for_caller(&self) -> StoreError {
        match self {
            GroupError::Constraint(Some(ConstraintError::SlotTaken)) => StoreError::Conflict,
            GroupError::Constraint(Some(ConstraintError::RestatesRule(rule))) => {
                Rejection::ShadowsRule { rule: rule.clone() }.into()
            }
            GroupError::Constraint(None) => {
                StoreError::Unavailable("the batch breaks a rule of the database".into())
            }
            GroupError::Store(StoreError::Busy) => StoreError::Busy,
            GroupError::Store(StoreError::Full) => StoreError::Full,
            GroupError::Store(StoreError::Damaged(what)) => StoreError::Damaged(what),
            GroupError::Store(StoreError::Unavailable(source)) => {
                StoreError::Unavailable(source.to_string().into())
            }
            GroupError::Store(other) => StoreError::Unavailable(other.to_string().into()),
        }
    }
}

/// Applies the batches in one transaction. An error means that none of them is known to be applied.
async fn commit_together(
    gate: &Gate,
    tenant: &TenantId,
    group: &[&Batch],
) -> Result<AppliedGroup, GroupError> {
    let (transaction, mut working) = load(gate, tenant, group).await.map_err(GroupError::Store)?;
    let results: Vec<_> = group
        .iter()
        .map(|batch| apply(batch, &mut working).map_err(refused_error))
        .collect();
    let revision = working.clock.revision;
    let at = working.clock.at;
    let saving = Saving::of(working.into_effects(), group.len() == 1);
    let name = tenant.as_str();
    let arrays = saving.arrays();
    transaction
        .commit(saving.calls(&name, &arrays))
        .await
        .map_err(|error| match error {
            TripError::Database(error) if concerns_one_batch(&error) => {
                GroupError::Constraint(constraint_error(&error))
            }
            other => GroupError::Store(other.into_store()),
        })?;
    let due = saving.next_expiry <= at.0.saturating_add(SOON_MS);
    Ok(AppliedGroup {
        revision,
        due,
        results,
    })
}
