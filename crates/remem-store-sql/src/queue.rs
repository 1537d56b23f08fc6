//! The waiting room of group commit: batches of one tenant queue here, and whoever finds no leader
//! becomes it.
//!
//! Both stores share it. A leader takes everything that waits, commits it as one transaction and
//! comes back for more; nobody waits for a timer, so an idle tenant commits at once.

use remem_core::{Batch, sabotage};
use remem_store::{Committed, StoreError, deadline};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Batches in one transaction.
const GROUP_BATCHES_MAX: usize = 512;
/// Changes in one transaction, so that a group of large batches still commits in a fraction of a
/// second.
const GROUP_CHANGES_MAX: usize = 4_096;
/// Batches that may wait; beyond that writers are told to come back.
const WAITING_MAX: usize = 16_384;

/// How a job's caller hears of its end.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A batch that waits for its commit.
pub(crate) struct Waiting {
    pub batch: Batch,
    pub answer: Answer<Committed>,
    /// Until when its request waits, if there is one.
    pub deadline: Option<Instant>,
}

impl Waiting {
    /// A batch of the request under way.
    pub fn new(batch: Batch, answer: Answer<Committed>) -> Waiting {
        Waiting {
            batch,
            answer,
            deadline: deadline::current(),
        }
    }
}

/// What a leader does: commit a batch, or other work `W` that needs the writer between two groups.
#[expect(clippy::large_enum_variant, reason = "nearly all jobs are commits")]
pub(crate) enum Job<W> {
    Commit(Waiting),
    Work(W, Answer<()>),
}

/// What a leader does next: the work first, then the group.
pub(crate) struct Turn<W> {
    pub work: Option<(W, Answer<()>)>,
    pub group: Vec<Waiting>,
}

/// Jobs of one tenant.
pub(crate) struct Queue<W> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W> {
    commits: VecDeque<Waiting>,
    work: VecDeque<(W, Answer<()>)>,
    led: bool,
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        Queue {
            inner: Mutex::new(Inner {
                commits: VecDeque::new(),
                work: VecDeque::new(),
                led: false,
            }),
        }
    }
}

impl<W> Queue<W> {
    fn lock(&self) -> MutexGuard<'_, Inner<W>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. `true` tells the caller to start a leader.
    pub fn submit(&self, job: Job<W>) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        if inner.commits.len() + inner.work.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        match job {
            Job::Commit(waiting) => inner.commits.push_back(waiting),
            Job::Work(work, answer) => inner.work.push_back((work, answer)),
        }
        Ok(!std::mem::replace(&mut inner.led, true))
    }

    /// Takes one piece of work and what waits to be committed, up to a group. So work waits for at
    /// most one group, however many batches wait, and batches for at most one piece of work.
    ///
    /// A leader that is handed nothing has stepped down, in the same critical section that saw the
    /// queue empty: no job can slip in and be left without a leader.
    pub fn next(&self) -> Option<Turn<W>> {
        let mut inner = self.lock();
        let mut group = Vec::new();
        let mut changes = 0;
        while group.len() < GROUP_BATCHES_MAX && changes < GROUP_CHANGES_MAX {
            let Some(waiting) = inner.commits.pop_front() else {
                break;
            };
            changes += waiting.batch.changes().len();
            group.push(waiting);
        }
        let work = sabotage!(
            "leases-wait-until-no-write-waits",
            inner.work.pop_front(),
            if inner.commits.is_empty() && group.is_empty() {
                inner.work.pop_front()
            } else {
                None
            }
        );
        inner.led = work.is_some() || !group.is_empty();
        inner.led.then_some(Turn { work, group })
    }

    /// Nobody waits and nobody leads.
    pub fn is_idle(&self) -> bool {
        !self.lock().led
    }
}

/// A leader that panics, or is dropped before its work is done, must not leave writers waiting for
/// it: they are told, and the next one leads.
pub(crate) struct Leading<'a, W> {
    pub queue: &'a Queue<W>,
    pub done: bool,
}

impl<W> Drop for Leading<'_, W> {
    fn drop(&mut self) {
        if !self.done {
            let mut inner = self.queue.lock();
            inner.led = false;
            inner.commits.clear();
            inner.work.clear();
        }
    }
}

/// Answers one caller. It may be gone; what was done stands.
pub(crate) fn tell<T>(answer: Answer<T>, result: Result<T, StoreError>) {
    let _ = answer.send(result);
}

/// Waits for an answer; a leader that vanished leaves the outcome unknown.
pub(crate) async fn hear<T>(
    answered: oneshot::Receiver<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    answered
        .await
        .unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
}
