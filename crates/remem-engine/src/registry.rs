//! `PASSES`: one row a pass. The runner, the CLI, the status endpoint, metrics and docs all read this table.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::passes;
use remem_core::{Fence, TenantId, Timestamp};
use remem_store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// A background job: takes a tenant, does a bounded amount, may be run at any time and any number of times.
pub struct Pass {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// How often the runner looks whether there is work, in milliseconds.
    pub period_ms: u64,
    /// Every so many looks it asks all tenants: what other nodes left undone is found by nothing else.
    pub all_every: u64,
    /// Whether the store tells which tenants are due; otherwise only `Engine::has_work` does.
    pub store_knows: bool,
    /// Tenants served side by side: more than one where an activation waits for somebody else.
    pub tenants_at_once: usize,
    /// Whether there may be something to do, as cheap as can be: asked before a lease is taken, which is a write.
    pub worth: for<'a> fn(&'a Engine, &'a TenantId) -> WorthFuture<'a>,
    /// One activation.
    pub run: for<'a> fn(&'a Engine, &'a TenantId, Mode, Option<Fence>) -> PassFuture<'a>,
}

/// What an activation answers with.
pub type PassFuture<'a> = Pin<Box<dyn Future<Output = Result<PassReport, EngineError>> + Send + 'a>>;

/// What the question whether an activation is worth it answers with.
pub type WorthFuture<'a> = Pin<Box<dyn Future<Output = Result<bool, EngineError>> + Send + 'a>>;

/// How a pass is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Do it.
    Apply,
    /// Say what would be done.
    DryRun,
    /// Do it and give free space back to the file system.
    Compact,
}

/// What one activation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// Things looked at.
    pub examined: u64,
    /// Things changed (in a dry run: that would be).
    pub changed: u64,
    /// The bound of one activation was reached; there may be more.
    pub more: bool,
}

/// All passes.
pub const PASSES: [Pass; 4] = [
    Pass {
        name: "purge",
        doc: "removes expired entries and makes erased text physically gone",
        period_ms: 1_000,
        all_every: 600,
        store_knows: true,
        tenants_at_once: 1,
        worth: |_, _| Box::pin(async { Ok(true) }),
        run: |engine, tenant, mode, fence| Box::pin(passes::purge::run(engine, tenant, mode, fence)),
    },
    Pass {
        name: "runs",
        doc: "takes up runs that stand still, and forgets those that ended long ago",
        period_ms: 5_000,
        all_every: 6,
        store_knows: false,
        tenants_at_once: 4,
        worth: |engine, tenant| Box::pin(passes::runs::worth(engine, tenant)),
        run: |engine, tenant, mode, fence| Box::pin(passes::runs::run(engine, tenant, mode, fence)),
    },
    Pass {
        name: passes::deliver::NAME,
        doc: "sends events of runs to webhooks",
        period_ms: 1_000,
        all_every: 30,
        store_knows: false,
        tenants_at_once: 16,
        worth: |engine, tenant| Box::pin(passes::deliver::worth(engine, tenant)),
        run: |engine, tenant, mode, fence| Box::pin(passes::deliver::run(engine, tenant, mode, fence)),
    },
    Pass {
        name: "rescan",
        doc: "takes secrets that were registered late out of what is stored already",
        period_ms: 5_000,
        all_every: 60,
        store_knows: false,
        tenants_at_once: 1,
        worth: |engine, tenant| Box::pin(passes::rescan::worth(engine, tenant)),
        run: |engine, tenant, mode, fence| Box::pin(passes::rescan::run(engine, tenant, mode, fence)),
    },
];

/// The pass of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

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
    pub(crate) bell: Notify,
    stopping: AtomicBool,
}

impl PassLog {
    pub(crate) fn record(&self, tenant: &TenantId, status: PassStatus) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).insert((tenant.clone(), status.name), status);
    }

    /// There is more to do at a tenant, at the next period: rings no bell, so that a pass cannot wake itself.
    pub(crate) fn again(&self, pass: &'static str, tenant: &TenantId) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).insert((pass, tenant.clone()));
    }

    /// The process is about to end: what can wait for another one should.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The tenants for which work came up since the last time this was asked.
    pub(crate) fn take_work(&self, pass: &str) -> Vec<TenantId> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, rest) = std::mem::take(&mut *work).into_iter().partition(|(name, _)| *name == pass);
        *work = rest;
        let taken: BTreeSet<(&'static str, TenantId)> = taken;
        taken.into_iter().map(|(_, tenant)| tenant).collect()
    }

    fn of(&self, tenant: &TenantId) -> Vec<PassStatus> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().filter(|((t, _), _)| t == tenant).map(|(_, status)| status.clone()).collect()
    }
}

/// How long an activation may hold its lease: well beyond what a bounded amount of work takes. A node that is paused for
/// longer finds itself fenced off.
const LEASE_MS: u64 = 30_000;
/// How often a person who asks for a pass tries to get the lease.
const CLAIM_TRIES: u32 = 100;
const RELEASE_TRIES: u32 = 4;
const CLAIM_AGAIN: Duration = Duration::from_millis(50);

impl Engine {
    /// Tells the runner of this process that a pass has work at a tenant. Only a hint.
    pub(crate) fn has_work(&self, pass: &'static str, tenant: &TenantId) {
        self.passes.work.lock().unwrap_or_else(PoisonError::into_inner).insert((pass, tenant.clone()));
        self.passes.bell.notify_waiters();
    }

    /// Runs one activation for somebody who waits for it, after any other that is under way, here or on another node.
    pub async fn run_pass(&self, pass: &'static Pass, tenant: &TenantId, mode: Mode) -> Result<PassReport, EngineError> {
        if mode == Mode::DryRun {
            return self.activate(pass, tenant, mode, None).await;
        }
        for _ in 0..CLAIM_TRIES {
            if let Some(report) = self.try_pass(pass, tenant, mode).await? {
                return Ok(report);
            }
            tokio::time::sleep(CLAIM_AGAIN).await;
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Runs one activation if it is worth it.
    pub(crate) async fn try_worthy(&self, pass: &'static Pass, tenant: &TenantId) -> Result<Option<PassReport>, EngineError> {
        if (pass.worth)(self, tenant).await? { self.try_pass(pass, tenant, Mode::Apply).await } else { Ok(None) }
    }

    /// Runs one activation under its lease; `None` if another one is under way.
    pub(crate) async fn try_pass(&self, pass: &'static Pass, tenant: &TenantId, mode: Mode) -> Result<Option<PassReport>, EngineError> {
        let holder = self.parts.ids.holder();
        let Some(fence) = self.parts.store.claim(tenant, pass.name, &holder, self.now(), LEASE_MS).await? else { return Ok(None) };
        let result = self.activate(pass, tenant, mode, Some(fence.clone())).await;
        self.release(tenant, &fence).await;
        result.map(Some)
    }

    /// A lease that cannot be given back holds others up until its time is over, so it is worth more than one try.
    async fn release(&self, tenant: &TenantId, fence: &Fence) {
        for _ in 0..RELEASE_TRIES {
            match self.parts.store.release(tenant, fence).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(pass = fence.pass, %error, "a lease was not given back"),
            }
        }
    }

    async fn activate(&self, pass: &'static Pass, tenant: &TenantId, mode: Mode, fence: Option<Fence>) -> Result<PassReport, EngineError> {
        let result = (pass.run)(self, tenant, mode, fence).await;
        let report = result.as_ref().ok().copied();
        self.passes.record(tenant, PassStatus { name: pass.name, ran_at: self.now(), report });
        let outcome = if result.is_ok() { "ok" } else { "failed" };
        metrics::counter!("remem_pass_activations_total", "pass" => pass.name, "outcome" => outcome).increment(1);
        metrics::counter!("remem_pass_changes_total", "pass" => pass.name).increment(report.map_or(0, |r| r.changed));
        result
    }

    /// The latest activation of each pass for a tenant.
    #[must_use]
    pub fn pass_status(&self, tenant: &TenantId) -> Vec<PassStatus> {
        self.passes.of(tenant)
    }
}
