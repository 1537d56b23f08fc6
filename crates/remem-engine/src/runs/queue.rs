//! Runs that wait for their turn in this process. Whatever is lost here with the process is found
//! again by the pass `runs`.

use remem_core::{Policy, Revision, RunId, RunState, TenantId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// First come, first served.
#[derive(Default)]
pub struct RunQueue {
    inner: Mutex<Inner>,
    bell: Notify,
    /// Rung when somebody who wanted a run has let go of it.
    free: Notify,
}

/// A run whose turn it is.
pub struct Turn {
    pub tenant: TenantId,
    pub run: RunId,
    /// If this process has just stored it.
    pub fresh: Option<Fresh>,
}

/// What is known of a run right after it was stored, so that nobody has to read it back.
pub struct Fresh {
    pub state: RunState,
    pub version: u64,
    /// Its snapshot.
    pub revision: Revision,
    pub policy: Policy,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Turn>,
    /// Waiting or being executed; rung after each of its commits.
    here: HashMap<(TenantId, RunId), Arc<Notify>>,
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
    pub fn push(&self, turn: Turn) {
        let mut inner = self.inner();
        let name = (turn.tenant.clone(), turn.run.clone());
        if let std::collections::hash_map::Entry::Vacant(place) = inner.here.entry(name) {
            place.insert(Arc::default());
            inner.waiting.push_back(turn);
            self.bell.notify_one();
        }
    }

    /// The next one; waits for it.
    pub async fn next(&self) -> Turn {
        loop {
            if let Some(next) = self.inner().waiting.pop_front() {
                return next;
            }
            self.bell.notified().await;
        }
    }

    /// It was carried as far as it went.
    pub fn done(&self, tenant: &TenantId, run: &RunId) {
        let bell = self.inner().here.remove(&(tenant.clone(), run.clone()));
        bell.iter().for_each(|bell| bell.notify_waiters());
    }

    /// It has just taken a step.
    pub fn ring(&self, tenant: &TenantId, run: &RunId) {
        self.bell_of(tenant, run)
            .iter()
            .for_each(|bell| bell.notify_waiters());
    }

    /// Rings after each step of a run that this process carries on: whoever waits for one run need
    /// not wake up for all.
    pub fn bell_of(&self, tenant: &TenantId, run: &RunId) -> Option<Arc<Notify>> {
        self.inner()
            .here
            .get(&(tenant.clone(), run.clone()))
            .cloned()
    }

    /// Wants a run to stand still. One that is carried on elsewhere does not notice.
    pub fn want(&self, tenant: &TenantId, run: &RunId) -> Wish<'_> {
        let run = (tenant.clone(), run.clone());
        self.inner().wanted.push(run.clone());
        Wish { queue: self, run }
    }

    /// Waits while somebody wants the run: a quick run would otherwise always be a step ahead of
    /// them.
    pub async fn give_way(&self, tenant: &TenantId, run: &RunId) {
        loop {
            let freed = self.free.notified();
            if !self
                .inner()
                .wanted
                .iter()
                .any(|wanted| wanted.0 == *tenant && wanted.1 == *run)
            {
                return;
            }
            freed.await;
        }
    }

    /// Whether this process has it already.
    pub fn has(&self, tenant: &TenantId, run: &RunId) -> bool {
        self.inner()
            .here
            .contains_key(&(tenant.clone(), run.clone()))
    }
}
