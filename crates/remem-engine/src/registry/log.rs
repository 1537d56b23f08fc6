//! What this process knows of activations, and of work that came up here. Hints only: leases and
//! records decide.

use super::PassReport;
use remem_core::{TenantId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The latest activation of a pass for a tenant.
#[derive(Clone, Debug)]
pub struct PassStatus {
    /// Which pass.
    pub name: &'static str,
    /// When it last ran.
    pub ran_at: Timestamp,
    /// What it did, or that it failed.
    pub report: Option<PassReport>,
}

/// What is known about activations in this process, and about work that came up here.
#[derive(Default)]
pub struct PassLog {
    last: Mutex<BTreeMap<(TenantId, &'static str), PassStatus>>,
    work: Mutex<BTreeSet<(&'static str, TenantId)>>,
    due: Mutex<BTreeMap<(&'static str, TenantId), Timestamp>>,
    pub(crate) bell: Notify,
    stopping: AtomicBool,
}

impl PassLog {
    pub(crate) fn record(&self, tenant: &TenantId, status: PassStatus) {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((tenant.clone(), status.name), status);
    }

    /// There is more to do at a tenant, at the next period: rings no bell, so that a pass cannot
    /// wake itself.
    pub(crate) fn again(&self, pass: &'static str, tenant: &TenantId) {
        self.work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((pass, tenant.clone()));
    }

    /// When a pass has work at a tenant next, as far as is known here.
    pub(crate) fn due_at(&self, pass: &'static str, tenant: &TenantId, at: Option<Timestamp>) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        match at {
            Some(at) => due.insert((pass, tenant.clone()), at),
            None => due.remove(&(pass, tenant.clone())),
        };
    }

    /// The process is about to end: what can wait for another one should.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The tenants for which work came up since the last time this was asked, or is due now.
    pub(crate) fn take_work(&self, pass: &str, now: Timestamp) -> Vec<TenantId> {
        let mut found = self.came_up(pass);
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let due = due
            .iter()
            .filter(|((name, _), at)| *name == pass && **at <= now)
            .map(|((_, tenant), _)| tenant.clone());
        found.extend(due);
        found.into_iter().collect()
    }

    fn came_up(&self, pass: &str) -> BTreeSet<TenantId> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, rest) = std::mem::take(&mut *work)
            .into_iter()
            .partition(|(name, _)| *name == pass);
        *work = rest;
        let taken: BTreeSet<(&'static str, TenantId)> = taken;
        taken.into_iter().map(|(_, tenant)| tenant).collect()
    }

    pub(super) fn of(&self, tenant: &TenantId) -> Vec<PassStatus> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter()
            .filter(|((t, _), _)| t == tenant)
            .map(|(_, status)| status.clone())
            .collect()
    }
}
