//! What this process knows of activations, and of work that came up here. Hints only: leases and
//! records decide.

use super::PassReport;
use remem_core::{TenantId, Timestamp, sabotage};
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
    /// When the latest activation of a pass for a tenant failed; `None` if it did not.
    ended: Mutex<BTreeMap<&'static str, BTreeMap<TenantId, Option<Timestamp>>>>,
    /// When a pass could not tell which tenants are due, the last time that it looked.
    blind: Mutex<BTreeMap<&'static str, Timestamp>>,
    stopping: AtomicBool,
}

/// A failure of a whole pass that is older is over, unless it is seen again: passes look at least
/// twice as often.
const FRESH_MS: i64 = 30_000;

/// What fails in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// Tenants for which a pass failed when it was last run.
    pub tenants: usize,
    /// A pass fails for every tenant: the fault is the host's.
    pub everywhere: bool,
}

impl PassLog {
    /// An activation for a tenant has ended, well or not.
    pub(crate) fn ended(
        &self,
        pass: &'static str,
        tenant: &TenantId,
        is_failed: bool,
        now: Timestamp,
    ) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let failed_at = is_failed.then_some(now);
        ended
            .entry(pass)
            .or_default()
            .insert(tenant.clone(), failed_at);
    }

    /// A pass has looked which tenants are due, and could tell or not.
    pub(crate) fn looked(&self, pass: &'static str, could_tell: bool, now: Timestamp) {
        let mut blind = self.blind.lock().unwrap_or_else(PoisonError::into_inner);
        if could_tell {
            blind.remove(pass);
        } else {
            blind.insert(pass, now);
        }
    }

    /// What fails now. One tenant alone proves nothing about the host, also where it is the only
    /// one.
    /// `damaged` are tenants whose stored data the store found to be damaged.
    pub(crate) fn failing(&self, now: Timestamp, damaged: &[TenantId]) -> Failing {
        let is_fresh = |at: &Timestamp| now.0.saturating_sub(at.0) <= FRESH_MS;
        let blind = self.blind.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let fails_everywhere = |of: &BTreeMap<TenantId, Option<Timestamp>>| {
            of.len() > 1 && of.values().all(|at| at.as_ref().is_some_and(is_fresh))
        };
        let failed = ended.values().flatten().filter(|(_, at)| at.is_some());
        let failed = failed.map(|(tenant, _)| tenant);
        let tenants: BTreeSet<&TenantId> = failed.chain(damaged).collect();
        Failing {
            tenants: tenants.len(),
            everywhere: sabotage!(
                "ready-while-passes-fail-everywhere",
                blind.values().any(is_fresh) || ended.values().any(fails_everywhere),
                false
            ),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_fails_everywhere_when_no_tenant_is_served_and_there_are_some() {
        let log = PassLog::default();
        let tenant = |name| TenantId::parse(name).unwrap();
        let now = Timestamp(1_000_000);
        let failing = |tenants, everywhere| Failing {
            tenants,
            everywhere,
        };
        log.ended("purge", &tenant("a"), true, now);
        assert_eq!(log.failing(now, &[]), failing(1, false), "the only one");
        log.ended("purge", &tenant("b"), false, now);
        log.ended("sweep", &tenant("a"), true, now);
        assert_eq!(log.failing(now, &[]), failing(1, false));
        log.ended("purge", &tenant("b"), true, now);
        assert_eq!(log.failing(now, &[]), failing(2, true));
        assert_eq!(
            log.failing(now.plus_ms(FRESH_MS + 1), &[]),
            failing(2, false)
        );
        for pass in ["purge", "sweep"] {
            log.ended(pass, &tenant("a"), false, now);
        }
        assert_eq!(log.failing(now, &[]), failing(1, false));
        log.looked("sweep", false, now);
        assert_eq!(log.failing(now, &[]), failing(1, true));
        log.looked("sweep", true, now);
        assert_eq!(log.failing(now, &[]), failing(1, false));
        let damaged = [tenant("b"), tenant("c")];
        assert_eq!(
            log.failing(now, &damaged),
            failing(2, false),
            "one fails for both reasons"
        );
    }
}
