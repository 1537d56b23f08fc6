//! Bookkeeping of this process about activations, and about work that appeared here. Hints only:
//! leases and records decide.

use super::PassReport;
use remem_core::{TenantId, Timestamp, sabotage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The latest activation of one pass for one tenant.
#[derive(Clone, Debug)]
pub struct PassStatus {
    /// The name of the pass.
    pub name: &'static str,
    /// When the activation ended.
    pub ran_at: Timestamp,
    /// Counts of the activation, or `None` if it failed.
    pub report: Option<PassReport>,
}

/// The bookkeeping of this process about activations and pending work.
#[derive(Default)]
pub struct PassLog {
    /// The latest activation of each pass, by tenant.
    last: Mutex<BTreeMap<(TenantId, &'static str), PassStatus>>,
    /// Tenants where work appeared since the pass last ran.
    pending: Mutex<BTreeSet<(&'static str, TenantId)>>,
    /// When a pass next has work at a tenant, as far as is known here.
    due_at: Mutex<BTreeMap<(&'static str, TenantId), Timestamp>>,
    /// Wakes the drivers of all passes.
    pub(crate) wakeup: Notify,
    /// When the latest activation of a pass for a tenant failed; `None` if it succeeded.
    last_failures: Mutex<BTreeMap<&'static str, BTreeMap<TenantId, Ended>>>,
    /// When a pass last failed to list the tenants that are due. Removed when it succeeds.
    lookup_failures: Mutex<BTreeMap<&'static str, Timestamp>>,
    stopping: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    at: Timestamp,
    is_failed: bool,
    /// How long this says something of the pass.
    fresh_ms: i64,
}

/// A failure that is older is over, unless it is seen again: what failed is tried again at least
/// twice as often.
const FAILURE_FRESH_MS: i64 = 30_000;
/// When an activation that failed is tried again, independent of the period of its pass.
pub(crate) const AGAIN_MS: i64 = 10_000;

/// A summary of the failures of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassFailures {
    /// Number of tenants for which the latest activation of some pass failed.
    pub tenants: usize,
    /// Whether some pass fails for every tenant, which means that the fault is the host's.
    pub all_tenants: bool,
}

impl PassLog {
    /// Records that an activation for a tenant has ended, and whether it failed.
    pub(crate) fn record_end(
        &self,
        pass: &'static str,
        round_ms: i64,
        tenant: &TenantId,
        is_failed: bool,
        now: Timestamp,
    ) {
        let well = sabotage!(
            "what-ended-well-long-ago-hides-failures",
            FAILURE_FRESH_MS.saturating_add(round_ms.saturating_mul(2)),
            i64::MAX
        );
        let ended = Ended {
            at: now,
            is_failed,
            fresh_ms: if is_failed { FAILURE_FRESH_MS } else { well },
        };
        let mut all = self
            .last_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.entry(pass).or_default().insert(tenant.clone(), ended);
    }

    /// Whether the pass failed for a tenant, so that it must be tried again soon.
    pub(crate) fn has_failed(&self, pass: &str) -> bool {
        let ended = self
            .last_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut of = ended.get(pass).into_iter().flat_map(BTreeMap::values);
        sabotage!(
            "what-fails-waits-for-its-period",
            of.any(|ended| ended.is_failed),
            false
        )
    }

    /// Records whether a pass could list the tenants that are due.
    pub(crate) fn record_lookup(&self, pass: &'static str, succeeded: bool, now: Timestamp) {
        let mut blind = self
            .lookup_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if succeeded {
            blind.remove(pass);
        } else {
            blind.insert(pass, now);
        }
    }

    /// The failures as of now. If the host has only one tenant, its failures do not count as
    /// failures of all tenants: one tenant alone proves nothing about the host. `damaged` are the
    /// tenants whose stored data the store found to be damaged.
    pub(crate) fn failures(&self, now: Timestamp, damaged: &[TenantId]) -> PassFailures {
        let age_ms = |at: &Timestamp| now.0.saturating_sub(at.0);
        let blind = self
            .lookup_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = self
            .last_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fails_everywhere = |of: &BTreeMap<TenantId, Ended>| {
            let says = |ended: &&Ended| age_ms(&ended.at) <= ended.fresh_ms;
            let fresh: Vec<&Ended> = of.values().filter(says).collect();
            fresh.len() > 1 && fresh.iter().all(|ended| ended.is_failed)
        };
        let failed = ended.values().flatten().filter(|(_, of)| of.is_failed);
        let failed = failed.map(|(tenant, _)| tenant);
        let tenants: BTreeSet<&TenantId> = failed.chain(damaged).collect();
        PassFailures {
            tenants: tenants.len(),
            all_tenants: sabotage!(
                "ready-while-passes-fail-everywhere",
                blind.values().any(|at| age_ms(at) <= FAILURE_FRESH_MS)
                    || ended.values().any(fails_everywhere),
                false
            ),
        }
    }

    /// Stores the latest activation of a pass for a tenant.
    pub(crate) fn record(&self, tenant: &TenantId, status: PassStatus) {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((tenant.clone(), status.name), status);
    }

    /// Marks a pass as having work at a tenant, for its next period. Wakes nothing, so that a pass
    /// cannot wake itself in a loop.
    pub(crate) fn mark_pending(&self, pass: &'static str, tenant: &TenantId) {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((pass, tenant.clone()));
    }

    /// Sets when a pass next has work at a tenant; `None` if it has none.
    pub(crate) fn set_due_at(&self, pass: &'static str, tenant: &TenantId, at: Option<Timestamp>) {
        let mut due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        match at {
            Some(at) => due.insert((pass, tenant.clone()), at),
            None => due.remove(&(pass, tenant.clone())),
        };
    }

    /// Asks activations in progress to end, because the process is about to exit.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Takes the tenants that are marked as having work, and adds those that are due now.
    pub(crate) fn take_work(&self, pass: &str, now: Timestamp) -> Vec<TenantId> {
        let mut found = self.take_pending(pass);
        let due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = due
            .iter()
            .filter(|((name, _), at)| *name == pass && **at <= now)
            .map(|((_, tenant), _)| tenant.clone());
        found.extend(due);
        let ended = self
            .last_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of = ended.get(pass).into_iter().flatten();
        let again = of.filter(|(_, of)| of.is_failed && of.at.plus_ms(AGAIN_MS) <= now);
        found.extend(again.map(|(tenant, _)| tenant.clone()));
        found.into_iter().collect()
    }

    /// Removes and returns the tenants that are marked as having work for a pass.
    fn take_pending(&self, pass: &str) -> BTreeSet<TenantId> {
        let mut work = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, rest) = std::mem::take(&mut *work)
            .into_iter()
            .partition(|(name, _)| *name == pass);
        *work = rest;
        let taken: BTreeSet<(&'static str, TenantId)> = taken;
        taken.into_iter().map(|(_, tenant)| tenant).collect()
    }

    pub(super) fn statuses_of(&self, tenant: &TenantId) -> Vec<PassStatus> {
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
    fn pass_failures_report_whether_all_tenants_are_affected() {
        let log = PassLog::default();
        let tenant = |name| TenantId::parse(name).unwrap();
        let now = Timestamp(1_000_000);
        let failing = |tenants, everywhere| PassFailures {
            tenants,
            all_tenants: everywhere,
        };
        let ended = |pass, name, is_failed, at| {
            log.record_end(pass, 5_000, &tenant(name), is_failed, at);
        };
        ended("purge", "a", true, now);
        assert_eq!(log.failures(now, &[]), failing(1, false), "the only one");
        ended("purge", "b", false, now);
        ended("sweep", "a", true, now);
        assert_eq!(log.failures(now, &[]), failing(1, false));
        ended("purge", "b", true, now);
        assert_eq!(log.failures(now, &[]), failing(2, true));
        assert_eq!(
            log.failures(now.plus_ms(FAILURE_FRESH_MS + 1), &[]),
            failing(2, false)
        );
        for pass in ["purge", "sweep"] {
            ended(pass, "a", false, now);
        }
        assert_eq!(log.failures(now, &[]), failing(1, false));
        log.record_lookup("sweep", false, now);
        assert_eq!(log.failures(now, &[]), failing(1, true));
        log.record_lookup("sweep", true, now);
        assert_eq!(log.failures(now, &[]), failing(1, false));
        let damaged = [tenant("b"), tenant("c")];
        assert_eq!(
            log.failures(now, &damaged),
            failing(2, false),
            "one fails for both reasons"
        );
    }

    #[test]
    fn failed_tenants_are_retried_and_a_success_counts_for_one_round() {
        let log = PassLog::default();
        let tenant = |name| TenantId::parse(name).unwrap();
        let now = Timestamp(1_000_000);
        let hour = 3_600_000;
        let ended = |name, is_failed, at| {
            log.record_end("sweep", hour, &tenant(name), is_failed, at);
        };
        ended("a", false, now);
        assert!(!log.has_failed("sweep"));
        let later = now.plus_ms(hour);
        for name in ["b", "c"] {
            ended(name, true, later);
        }
        assert!(log.has_failed("sweep") && !log.has_failed("purge"));
        assert_eq!(log.take_work("sweep", later), []);
        let again = later.plus_ms(AGAIN_MS);
        assert_eq!(log.take_work("sweep", again), [tenant("b"), tenant("c")]);
        assert!(!log.failures(later, &[]).all_tenants, "a may be served");
        let later = now.plus_ms(3 * hour);
        for name in ["b", "c"] {
            ended(name, true, later);
        }
        assert!(
            log.failures(later, &[]).all_tenants,
            "a was not looked at since"
        );
    }
}
