//! Runs that wait for execution in this process. Runs that are lost here when the process ends are
//! found again by the pass `runs`.

use remem_core::{Policy, Revision, RunId, RunState, TenantId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Queued runs, executed in the order in which they were added.
#[derive(Default)]
pub struct RunQueue {
    inner: Mutex<RunQueueState>,
    /// Wakes the executor when a run is added.
    run_added: Notify,
    /// Notified when a run is no longer held back.
    hold_released: Notify,
}

/// A run to be executed next.
pub struct QueuedRun {
    pub tenant: TenantId,
    pub run: RunId,
    /// The run's state, if this process has just stored it.
    pub loaded: Option<LoadedRun>,
}

/// A run's state right after it was stored, so that it need not be read back.
pub struct LoadedRun {
    pub state: RunState,
    pub version: u64,
    /// The revision of the run's snapshot.
    pub revision: Revision,
    pub policy: Policy,
}

#[derive(Default)]
struct RunQueueState {
    waiting: VecDeque<QueuedRun>,
    /// Runs that wait or are being executed, each notified after each of its commits.
    active: HashMap<(TenantId, RunId), Arc<Notify>>,
    /// Runs held back by a task that must change their records between two of their steps.
    held_back: Vec<(TenantId, RunId)>,
}

/// Holds a run back before its next step, until dropped.
pub struct RunHold<'q> {
    queue: &'q RunQueue,
    run: (TenantId, RunId),
}

impl Drop for RunHold<'_> {
    fn drop(&mut self) {
        let mut inner = self.queue.inner();
        if let Some(at) = inner
            .held_back
            .iter()
            .position(|wanted| *wanted == self.run)
        {
            inner.held_back.swap_remove(at);
        }
        self.queue.hold_released.notify_waiters();
    }
}

impl RunQueue {
    fn inner(&self) -> std::sync::MutexGuard<'_, RunQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a new run should be refused rather than queued.
    pub fn is_full(&self, policy: &Policy) -> bool {
        self.inner().waiting.len() >= policy.runs_waiting_max
    }

    /// Queues a run, unless it is queued or being executed already.
    pub fn push(&self, turn: QueuedRun) {
        let mut inner = self.inner();
        let name = (turn.tenant.clone(), turn.run.clone());
        if let std::collections::hash_map::Entry::Vacant(vacant) = inner.active.entry(name) {
            vacant.insert(Arc::default());
            inner.waiting.push_back(turn);
            self.run_added.notify_one();
        }
    }

    /// Waits for the next run in the queue and removes it.
    pub async fn next(&self) -> QueuedRun {
        loop {
            if let Some(next) = self.inner().waiting.pop_front() {
                return next;
            }
            self.run_added.notified().await;
        }
    }

    /// Marks an execution as finished, and notifies those who wait for the run.
    pub fn finish(&self, tenant: &TenantId, run: &RunId) {
        let notifier = self.inner().active.remove(&(tenant.clone(), run.clone()));
        notifier
            .iter()
            .for_each(|notifier| notifier.notify_waiters());
    }

    /// Notifies those who wait for the run that it has taken a step.
    pub fn notify_step(&self, tenant: &TenantId, run: &RunId) {
        self.step_notifier(tenant, run)
            .iter()
            .for_each(|notifier| notifier.notify_waiters());
    }

    /// The notifier of a run that this process executes, triggered after each of its steps: a task
    /// that waits for one run need not wake up for all.
    pub fn step_notifier(&self, tenant: &TenantId, run: &RunId) -> Option<Arc<Notify>> {
        self.inner()
            .active
            .get(&(tenant.clone(), run.clone()))
            .cloned()
    }

    /// Holds a run back before its next step. A run that another process executes is not affected.
    pub fn hold_back(&self, tenant: &TenantId, run: &RunId) -> RunHold<'_> {
        let run = (tenant.clone(), run.clone());
        self.inner().held_back.push(run.clone());
        RunHold { queue: self, run }
    }

    /// Waits while the run is held back. Without this, a fast run would always be a step ahead of a
    /// task that wants to change its record.
    pub async fn wait_while_held(&self, tenant: &TenantId, run: &RunId) {
        loop {
            let freed = self.hold_released.notified();
            if !self
                .inner()
                .held_back
                .iter()
                .any(|wanted| wanted.0 == *tenant && wanted.1 == *run)
            {
                return;
            }
            freed.await;
        }
    }

    /// Whether the run is queued or being executed in this process.
    pub fn is_active(&self, tenant: &TenantId, run: &RunId) -> bool {
        self.inner()
            .active
            .contains_key(&(tenant.clone(), run.clone()))
    }
}
