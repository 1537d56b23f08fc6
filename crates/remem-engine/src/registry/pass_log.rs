//! Bookkeeping of this process about activations, and about work that appeared here. Hints only:
//! leases and records decide.

use super::PassReport;
use crate::bounded_map::BoundedMap;
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

/// Tenants of which the latest activations are remembered.
const STATUS_TENANTS_MAX: usize = 10_000;
/// Tenants of which is remembered that a pass succeeded there: one is enough to show that it does
/// not fail everywhere.
const SUCCEEDED_TENANTS_MAX: usize = 1_000;
/// Tenants of which is remembered when a pass next has work there. The visits to all tenants find
/// what is forgotten.
const DUE_TENANTS_MAX: usize = 100_000;

/// The bookkeeping of this process about activations and pending work. It holds nothing for a
/// tenant that is idle, except for a bounded number of them.
pub struct PassLog {
    /// The latest activation of each pass, by tenant.
    last: Mutex<BoundedMap<TenantId, BTreeMap<&'static str, PassStatus>>>,
    /// Tenants where work appeared since the pass last ran.
    pending: Mutex<BTreeMap<&'static str, BTreeSet<TenantId>>>,
    /// When a pass next has work at a tenant, as far as is known here.
    due_at: Mutex<BTreeMap<&'static str, BoundedMap<TenantId, Timestamp>>>,
    /// Wakes the drivers of all passes.
    pub(crate) wakeup: Notify,
    /// How the latest activations of each pass have ended.
    last_ends: Mutex<BTreeMap<&'static str, PassEnds>>,
    /// When a pass last failed to list the tenants that are due. Removed when it succeeds.
    lookup_failures: Mutex<BTreeMap<&'static str, Timestamp>>,
    stopping: AtomicBool,
}

impl Default for PassLog {
    fn default() -> PassLog {
        PassLog {
            last: Mutex::new(BoundedMap::new(STATUS_TENANTS_MAX)),
            pending: Mutex::default(),
            due_at: Mutex::default(),
            wakeup: Notify::default(),
            last_ends: Mutex::default(),
            lookup_failures: Mutex::default(),
            stopping: AtomicBool::default(),
        }
    }
}

/// How the latest activations of a pass have ended.
struct PassEnds {
    /// The tenants whose latest activation failed, and when.
    failed: BTreeMap<TenantId, Timestamp>,
    /// Tenants whose latest activation succeeded, and until when this says something of the pass.
    succeeded: BoundedMap<TenantId, Timestamp>,
}

impl Default for PassEnds {
    fn default() -> PassEnds {
        PassEnds {
            failed: BTreeMap::new(),
            succeeded: BoundedMap::new(SUCCEEDED_TENANTS_MAX),
        }
    }
}

impl PassEnds {
    /// Whether all activations that still say something of the pass have failed, and for more than
    /// one tenant.
    fn fails_everywhere(&self, now: Timestamp) -> bool {
        let is_fresh = |at: &Timestamp| now.0.saturating_sub(at.0) <= FAILURE_FRESH_MS;
        self.failed.values().filter(|at| is_fresh(at)).count() > 1
            && self.succeeded.iter().all(|(_, until)| now > *until)
    }
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
        let mut all = self
            .last_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ends = all.entry(pass).or_default();
        if is_failed {
            ends.succeeded.remove(tenant);
            ends.failed.insert(tenant.clone(), now);
        } else {
            ends.failed.remove(tenant);
            ends.succeeded.insert(tenant.clone(), now.plus_ms(well));
        }
    }

    /// Whether the pass failed for a tenant, so that it must be tried again soon.
    pub(crate) fn has_failed(&self, pass: &str) -> bool {
        let ends = self
            .last_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sabotage!(
            "what-fails-waits-for-its-period",
            ends.get(pass).is_some_and(|ends| !ends.failed.is_empty()),
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
        let ends = self
            .last_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let failed = ends.values().flat_map(|ends| ends.failed.keys());
        let tenants: BTreeSet<&TenantId> = failed.chain(damaged).collect();
        PassFailures {
            tenants: tenants.len(),
            all_tenants: sabotage!(
                "ready-while-passes-fail-everywhere",
                blind.values().any(|at| age_ms(at) <= FAILURE_FRESH_MS)
                    || ends.values().any(|ends| ends.fails_everywhere(now)),
                false
            ),
        }
    }

    /// Stores the latest activation of a pass for a tenant.
    pub(crate) fn record(&self, tenant: &TenantId, status: PassStatus) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.get(tenant) {
            Some(known) => {
                known.insert(status.name, status);
            }
            None => last.insert(tenant.clone(), BTreeMap::from([(status.name, status)])),
        }
    }

    /// Marks a pass as having work at a tenant, for its next period. Wakes nothing, so that a pass
    /// cannot wake itself in a loop.
    pub(crate) fn mark_pending(&self, pass: &'static str, tenant: &TenantId) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants = pending.entry(pass).or_default();
        if !tenants.contains(tenant) {
            tenants.insert(tenant.clone());
        }
    }

    /// Sets when a pass next has work at a tenant; `None` if it has none.
    pub(crate) fn set_due_at(&self, pass: &'static str, tenant: &TenantId, at: Option<Timestamp>) {
        let mut due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants = due
            .entry(pass)
            .or_insert_with(|| BoundedMap::new(DUE_TENANTS_MAX));
        match at {
            Some(at) => tenants.insert(tenant.clone(), at),
            None => tenants.remove(tenant),
        }
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
        let mut found = self
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(pass)
            .unwrap_or_default();
        let due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = due.get(pass).into_iter().flat_map(BoundedMap::iter);
        found.extend(
            due.filter(|(_, at)| **at <= now)
                .map(|(tenant, _)| tenant.clone()),
        );
        let ends = self
            .last_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let failed = ends.get(pass).into_iter().flat_map(|ends| &ends.failed);
        let again = failed.filter(|(_, at)| at.plus_ms(AGAIN_MS) <= now);
        found.extend(again.map(|(tenant, _)| tenant.clone()));
        found.into_iter().collect()
    }

    pub(super) fn statuses_of(&self, tenant: &TenantId) -> Vec<PassStatus> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.get(tenant);
        known.map_or_else(Vec::new, |known| known.values().cloned().collect())
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

    #[test]
    fn a_pass_log_keeps_nothing_of_tenants_that_succeeded() {
        let log = PassLog::default();
        let tenant = |n: usize| TenantId::parse(&format!("t{n}")).unwrap();
        let status = PassStatus {
            name: "purge",
            ran_at: Timestamp(0),
            report: None,
        };
        for n in 0..STATUS_TENANTS_MAX + 1_000 {
            let tenant = tenant(n);
            log.mark_pending("purge", &tenant);
            log.record(&tenant, status.clone());
            log.record_end("purge", 1_000, &tenant, n % 2 == 0, Timestamp(0));
            log.record_end("purge", 1_000, &tenant, n == 7, Timestamp(1));
        }
        assert!(log.last.lock().unwrap().iter().count() <= STATUS_TENANTS_MAX);
        let ends = log.last_ends.lock().unwrap();
        let succeeded = ends["purge"].succeeded.iter().count();
        assert!(ends["purge"].failed.len() == 1 && succeeded <= SUCCEEDED_TENANTS_MAX);
        drop(ends);
        let taken = log.take_work("purge", Timestamp(1)).len();
        assert_eq!(taken, STATUS_TENANTS_MAX + 1_000);
        assert!(log.pending.lock().unwrap().is_empty());
        assert_eq!(log.statuses_of(&tenant(STATUS_TENANTS_MAX)).len(), 1);
        assert_eq!(log.statuses_of(&tenant(0)).len(), 0);
    }
}
