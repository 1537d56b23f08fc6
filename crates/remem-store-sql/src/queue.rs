//! The queue of group commit: the batches of one tenant wait here, and a writer that finds no
//! leader becomes the leader.
//!
//! Both stores share it. A leader takes every batch that waits, commits them as one transaction and
//! comes back for more; no writer waits for a timer, so an idle tenant commits at once.

use remem_core::{Actor, Batch, ledger, sabotage};
use remem_store::{CommitResult, StoreError, deadline};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The most batches in one transaction.
const GROUP_BATCHES_MAX: usize = 512;
/// The most changes in one transaction, so that a group of large batches still commits in a
/// fraction of a second.
const GROUP_CHANGES_MAX: usize = 4_096;
/// The most bytes that the batches of one transaction hold in memory, unless one alone holds more.
const GROUP_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most jobs that may wait; beyond that, writers get `Busy` and have to try again.
const WAITING_MAX: usize = 16_384;

/// The channel on which the caller of a job gets its result.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

/// A batch that waits for its commit, with the channel to its caller.
pub(crate) struct PendingCommit {
    pub batch: Batch,
    pub reply: ReplySender<CommitResult>,
    /// The instant at which its request stops waiting, if it has such a deadline.
    pub deadline: Option<Instant>,
}

impl PendingCommit {
    /// Wraps a batch with the deadline of the current request.
    pub fn new(batch: Batch, reply: ReplySender<CommitResult>) -> PendingCommit {
        PendingCommit {
            batch,
            reply,
            deadline: deadline::current(),
        }
    }
}

/// A job for the leader: a batch to commit, or a task `W` that needs the writer between two groups.
#[expect(clippy::large_enum_variant, reason = "nearly all jobs are commits")]
pub(crate) enum WriterJob<W> {
    Commit(PendingCommit),
    Task(W, ReplySender<()>),
}

/// The next step of a leader: the task first, then the group.
pub(crate) struct LeaderStep<W> {
    pub task: Option<(W, ReplySender<()>)>,
    pub group: Vec<PendingCommit>,
}

/// The waiting jobs of one tenant, and whether a leader is at work on them.
pub(crate) struct Queue<W> {
    inner: Mutex<QueueState<W>>,
}

struct QueueState<W> {
    commits: VecDeque<PendingCommit>,
    tasks: VecDeque<(W, ReplySender<()>)>,
    has_leader: bool,
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        Queue {
            inner: Mutex::new(QueueState {
                commits: VecDeque::new(),
                tasks: VecDeque::new(),
                has_leader: false,
            }),
        }
    }
}

impl<W> Queue<W> {
    fn lock(&self) -> MutexGuard<'_, QueueState<W>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. `true` means that there is no leader and that the caller must start one.
    pub fn submit(&self, job: WriterJob<W>) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        if inner.commits.len() + inner.tasks.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        match job {
            WriterJob::Commit(waiting) => inner.commits.push_back(waiting),
            WriterJob::Task(work, answer) => inner.tasks.push_back((work, answer)),
        }
        Ok(!std::mem::replace(&mut inner.has_leader, true))
    }

    /// Takes one task and the batches that wait, up to the size of a group. So a task waits for at
    /// most one group, however many batches wait, and batches wait for at most one task.
    ///
    /// A leader that gets `None` has stepped down, in the same critical section that saw the queue
    /// empty: no job can slip in and be left without a leader.
    pub fn next(&self) -> Option<LeaderStep<W>> {
        let mut inner = self.lock();
        let mut group = Vec::new();
        let mut changes = 0;
        let mut bytes = 0;
        while group.len() < GROUP_BATCHES_MAX && changes < GROUP_CHANGES_MAX {
            let Some(waiting) = inner.commits.front() else {
                break;
            };
            bytes += ledger::weight(&waiting.batch);
            if bytes > GROUP_BYTES_MAX && !group.is_empty() {
                break;
            }
            changes += waiting.batch.changes().len();
            group.extend(inner.commits.pop_front());
        }
        // The break makes a task wait until no batch waits.
        let work = sabotage!(
            "leases-wait-until-no-write-waits",
            inner.tasks.pop_front(),
            if inner.commits.is_empty() && group.is_empty() {
                inner.tasks.pop_front()
            } else {
                None
            }
        );
        inner.has_leader = work.is_some() || !group.is_empty();
        inner.has_leader.then_some(LeaderStep { task: work, group })
    }

    /// Returns whether no job waits and no leader is at work.
    pub fn is_idle(&self) -> bool {
        !self.lock().has_leader
    }
}

/// Splits a group into parts with one actor each, since a transaction, or a part of one, has one
/// identity. A batch that touches no memory of a single user goes with any part; the others, in
/// their order, with parts of their own actor.
pub(crate) fn split_by_actor<T>(
    group: Vec<T>,
    batch: impl Fn(&T) -> &Batch,
) -> Vec<(Actor, Vec<T>)> {
    let mut parts: Vec<(Option<Actor>, Vec<T>)> = Vec::new();
    for item in group {
        let batch = batch(&item);
        let actor = batch.touches_user_memory().then(|| batch.actor());
        match parts.last_mut() {
            Some((known, part)) if actor.is_none() || known.is_none() || *known == actor => {
                *known = known.take().or(actor);
                part.push(item);
            }
            _ => parts.push((actor, vec![item])),
        }
    }
    let named = |(actor, part): (Option<Actor>, Vec<T>)| (actor.unwrap_or(Actor::NoUser), part);
    parts.into_iter().map(named).collect()
}

/// Releases the waiting writers if the leader panics or is dropped before its work is done: they
/// get an error instead of waiting without end, and the next writer becomes the leader.
pub(crate) struct LeaderGuard<'a, W> {
    pub queue: &'a Queue<W>,
    pub finished: bool,
}

impl<W> Drop for LeaderGuard<'_, W> {
    fn drop(&mut self) {
        if !self.finished {
            let mut inner = self.queue.lock();
            inner.has_leader = false;
            inner.commits.clear();
            inner.tasks.clear();
        }
    }
}

/// Sends the result to one caller. The caller may be gone; the commit is valid all the same.
pub(crate) fn send_reply<T>(answer: ReplySender<T>, result: Result<T, StoreError>) {
    let _ = answer.send(result);
}

/// Waits for the result of a job; if the leader vanished, the outcome is unknown.
pub(crate) async fn await_reply<T>(
    reply: oneshot::Receiver<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    reply
        .await
        .unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
}
