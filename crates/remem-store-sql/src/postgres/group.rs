//! Group commit: writers that arrive while a commit is under way share the next one.
//!
//! The leader (see `queue`) is a task of its own, so that a caller who gives up does not cancel the
//! other batches. A group costs two round trips: lock the clock and read the rows that the batches
//! name, then write everything and commit. Nodes take turns at the clock's row lock, which is held
//! until the commit: revisions become visible in their order.

use super::apply::apply;
use super::columns::{Entries, Records, Rewrites, Scopes, Snapshots, States};
use super::error::{Refusal, concerns_one_batch, refusal};
use super::gate::{Failed, Gate};
use super::load::load;
use super::save::{ClockColumns, Saving, Writes, calls};
use super::shared::Shared;
use crate::queue::{Job, Leading, Queue, Waiting, hear, tell};
use remem_core::{Actor, Batch, Rejection, Revision, TenantId};
use remem_store::{Committed, StoreError, deadline};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Passes are woken for entries that expire within this time.
const SOON_MS: i64 = 1_000;

/// The queue of one tenant's batches on this node.
pub(super) type Commits = Queue<Infallible>;

/// Queues a batch, starts a leader if there is none, and waits for the result.
pub(super) async fn commit(shared: &Arc<Shared>, batch: Batch) -> Result<Committed, StoreError> {
    let tenant = batch.tenant().clone();
    let handle = shared.tenant(batch.tenant());
    let (reply, result) = oneshot::channel();
    if handle
        .commits
        .submit(Job::Commit(Waiting::new(batch, reply)))?
    {
        let shared = shared.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "the leader must outlive the caller that happens to start it"
        )]
        tokio::spawn(async move { lead(&shared, &tenant, &handle.commits).await });
    }
    hear(result).await
}

/// Works through the queue until it is empty.
async fn lead(shared: &Shared, tenant: &TenantId, commits: &Commits) {
    let mut guard = Leading {
        queue: commits,
        done: false,
    };
    while let Some(step) = commits.next() {
        for part in by_actor(in_time(step.group)) {
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
    guard.done = true;
}

/// Refuses batches whose requests have passed their deadlines in the queue; returns the others.
fn in_time(group: Vec<Waiting>) -> Vec<Waiting> {
    let now = Instant::now();
    let is_late = |waiting: &Waiting| waiting.deadline.is_some_and(|deadline| deadline <= now);
    let (late, in_time): (Vec<_>, Vec<_>) = group.into_iter().partition(is_late);
    for waiting in late {
        tell(waiting.answer, Err(StoreError::Busy));
    }
    in_time
}

/// The instant until which a group may wait for its connection: the latest deadline of its
/// requests. `None` if a batch in it belongs to no request.
fn latest_deadline(group: &[Waiting]) -> Option<Instant> {
    let deadlines: Option<Vec<Instant>> = group.iter().map(|waiting| waiting.deadline).collect();
    deadlines?.into_iter().max()
}

/// Splits a group into parts with one actor each, since a transaction has one identity. A batch
/// that touches no memory of a single user goes with any part; the others, in their order, with
/// parts of their own actor.
fn by_actor(group: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut parts: Vec<(Option<Actor>, Vec<Waiting>)> = Vec::new();
    for waiting in group {
        let actor = waiting.batch.touches_owned().then(|| waiting.batch.actor());
        match parts.last_mut() {
            Some((known, part)) if actor.is_none() || known.is_none() || *known == actor => {
                *known = known.take().or(actor);
                part.push(waiting);
            }
            _ => parts.push((actor, vec![waiting])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Commits a group and answers its callers. If one batch made it fail, each batch is committed by
/// itself.
async fn commit_group(shared: &Shared, tenant: &TenantId, group: Vec<Waiting>) {
    let batches: Vec<&Batch> = group.iter().map(|w| &w.batch).collect();
    match transaction(&shared.gate, tenant, &batches).await {
        Ok(applied) => {
            shared.committed(tenant, applied.revision, applied.due);
            for (waiting, result) in group.into_iter().zip(applied.results) {
                tell(waiting.answer, result);
            }
        }
        Err(Spoilt::ByOneBatch(_)) if group.len() > 1 => {
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
    /// Whether an entry expires before a pass would look by itself.
    due: bool,
    results: Vec<Result<Committed, StoreError>>,
}

/// The reasons why a whole group was not applied, or may not have been.
enum Spoilt {
    /// A constraint refused one of the batches; its meaning, if the store interface has one for it.
    ByOneBatch(Option<Refusal>),
    ByStore(StoreError),
}

impl Spoilt {
    /// The error for one caller. Errors cannot be cloned: each caller gets one of the same kind.
    fn for_one(&self) -> StoreError {
        match self {
            Spoilt::ByOneBatch(Some(Refusal::Raced)) => StoreError::Conflict,
            Spoilt::ByOneBatch(Some(Refusal::Shadow(rule))) => {
                Rejection::ShadowsRule { rule: rule.clone() }.into()
            }
            Spoilt::ByOneBatch(None) => {
                StoreError::Unavailable("the batch breaks a rule of the database".into())
            }
            Spoilt::ByStore(StoreError::Busy) => StoreError::Busy,
            Spoilt::ByStore(StoreError::Full) => StoreError::Full,
            Spoilt::ByStore(StoreError::Damaged(what)) => StoreError::Damaged(what),
            Spoilt::ByStore(StoreError::Unavailable(source)) => {
                StoreError::Unavailable(source.to_string().into())
            }
            Spoilt::ByStore(other) => StoreError::Unavailable(other.to_string().into()),
        }
    }
}

/// Applies the batches in one transaction. An error means that none of them is known to be applied.
async fn transaction(gate: &Gate, tenant: &TenantId, group: &[&Batch]) -> Result<Applied, Spoilt> {
    let (transaction, mut state) = load(gate, tenant, group).await.map_err(Spoilt::ByStore)?;
    state.vectors = gate.vectors;
    let before = state.clock.clone();
    let mut writes = Writes::default();
    let results: Vec<_> = group
        .iter()
        .map(|batch| apply(batch, &mut state, &mut writes))
        .collect();
    writes.kin().seal();
    writes.vectors.seal();
    writes.retied.seal();
    writes.workshop.seal();
    writes.workshop.alone = group.len() == 1;
    let new_scopes = Scopes::of(&state, true);
    let old_scopes = Scopes::of(&state, false);
    let entries = Entries::of(&writes.entries);
    let clock = ClockColumns::of(&state.clock);
    let name = tenant.as_str();
    let records = Records::of(&writes, false);
    let snapshots = Snapshots::of(&writes);
    let rewrites = Rewrites::of(&writes);
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
        clock: (state.clock != before).then_some(&clock),
    };
    let calls = calls(&saving, &writes);
    transaction
        .commit(calls)
        .await
        .map_err(|error| match error {
            Failed::Database(error) if concerns_one_batch(&error) => {
                Spoilt::ByOneBatch(refusal(&error))
            }
            other => Spoilt::ByStore(other.into_store()),
        })?;
    let due = writes.next_expiry <= state.clock.at.0.saturating_add(SOON_MS);
    Ok(Applied {
        revision: state.clock.revision,
        due,
        results,
    })
}
