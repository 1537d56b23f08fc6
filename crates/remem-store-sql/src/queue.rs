//! The waiting room of group commit: batches of one tenant queue here, and whoever finds no leader
//! becomes it.
//!
//! Both stores share it. A leader takes everything that waits, commits it as one transaction and
//! comes back for more; nobody waits for a timer, so an idle tenant commits at once.

use remem_core::Batch;
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

/// Jobs of one tenant.
pub(crate) struct Queue<W> {
    inner: Mutex<Inner<W>>,
}

struct Inner<W> {
    waiting: VecDeque<Job<W>>,
    led: bool,
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        Queue {
            inner: Mutex::new(Inner {
                waiting: VecDeque::new(),
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
        if inner.waiting.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        inner.waiting.push_back(job);
        Ok(!std::mem::replace(&mut inner.led, true))
    }

    /// Takes what waits, up to a group, stopping at the first job of another kind. A leader that is
    /// handed nothing has stepped down, in the same critical section that saw the queue empty: no
    /// job can slip in and wait for nobody.
    pub fn next(&self) -> (Vec<Waiting>, Option<(W, Answer<()>)>) {
        let mut inner = self.lock();
        let mut group = Vec::new();
        let mut changes = 0;
        while group.len() < GROUP_BATCHES_MAX && changes < GROUP_CHANGES_MAX {
            match inner.waiting.pop_front() {
                Some(Job::Commit(waiting)) => {
                    changes += waiting.batch.changes().len();
                    group.push(waiting);
                }
                Some(Job::Work(work, answer)) => return (group, Some((work, answer))),
                None => break,
            }
        }
        if group.is_empty() {
            inner.led = false;
        }
        (group, None)
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
            inner.waiting.clear();
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
