//! Runs that wait for their turn in this process. Whatever is lost here with the process is found again by the pass `runs`.

use remem_core::{Policy, RunId, TenantId};
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// First come, first served.
#[derive(Default)]
pub struct RunQueue {
    inner: Mutex<Inner>,
    bell: Notify,
    /// Rung when somebody who wanted a run has let go of it.
    free: Notify,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<(TenantId, RunId)>,
    /// Waiting or being executed.
    here: HashSet<(TenantId, RunId)>,
    /// Wanted by somebody who must change it between two of its steps.
    wanted: Vec<(TenantId, RunId)>,
}

/// Holds a run back before its next step, until dropped.
pub struct Wish<'q> {
    queue: &'q RunQueue,
    run: (TenantId, RunId),
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        let mut inner = self.queue.inner();
        if let Some(at) = inner.wanted.iter().position(|wanted| *wanted == self.run) {
            inner.wanted.swap_remove(at);
        }
        self.queue.free.notify_waiters();
    }
}

impl RunQueue {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a new run should rather be refused than kept waiting.
    pub fn is_full(&self, policy: &Policy) -> bool {
        self.inner().waiting.len() >= policy.runs_waiting_max
    }

    /// Lets a run wait, once.
    pub fn push(&self, tenant: TenantId, run: RunId) {
        let mut inner = self.inner();
        if inner.here.insert((tenant.clone(), run.clone())) {
            inner.waiting.push_back((tenant, run));
            self.bell.notify_one();
        }
    }

    /// The next one; waits for it.
    pub async fn next(&self) -> (TenantId, RunId) {
        loop {
            if let Some(next) = self.inner().waiting.pop_front() {
                return next;
            }
            self.bell.notified().await;
        }
    }

    /// It was carried as far as it went.
    pub fn done(&self, tenant: &TenantId, run: &RunId) {
        self.inner().here.remove(&(tenant.clone(), run.clone()));
    }

    /// Wants a run to stand still. One that is carried on elsewhere does not notice.
    pub fn want(&self, tenant: &TenantId, run: &RunId) -> Wish<'_> {
        let run = (tenant.clone(), run.clone());
        self.inner().wanted.push(run.clone());
        Wish { queue: self, run }
    }

    /// Waits while somebody wants the run: a quick run would otherwise always be a step ahead of them.
    pub async fn give_way(&self, tenant: &TenantId, run: &RunId) {
        loop {
            let freed = self.free.notified();
            if !self.inner().wanted.iter().any(|wanted| wanted.0 == *tenant && wanted.1 == *run) {
                return;
            }
            freed.await;
        }
    }

    /// Whether this process has it already.
    pub fn has(&self, tenant: &TenantId, run: &RunId) -> bool {
        self.inner().here.contains(&(tenant.clone(), run.clone()))
    }
}
