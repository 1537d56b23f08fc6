//! `PASSES`: the table of passes, one row each. The runner, the CLI, the status endpoint, metrics
//! and docs all read it.

mod pass_log;

pub(crate) use pass_log::AGAIN_MS;
pub use pass_log::{PassFailures, PassLog, PassStatus};

/// Passes that fail, and why.
pub type FailingPasses = Vec<(&'static str, EngineError)>;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::options::{COMPACT_OPTIONS, DISTILL_OPTIONS, OptionSpec};
use crate::jobs::work::HeldLease;
use crate::jobs::{JobContext, JobProgress, WorkFuture, execute};
use crate::{forget, passes};
use remem_core::{Fence, TenantId};
use remem_store::{DueWork, StoreError};
use std::pin::Pin;
use std::time::Duration;

/// A pass: background work that does a bounded amount at a time, and may run at any time and any
/// number of times.
pub struct Pass {
    /// The name in commands, the API and metrics.
    pub name: &'static str,
    /// A description of one line, shown to users.
    pub doc: &'static str,
    /// How often the runner checks for work, in milliseconds.
    pub period_ms: u64,
    /// Every so many checks the runner visits all tenants: nothing else finds the work that another
    /// node left undone.
    pub all_tenants_every: u64,
    /// The kind of work by which the store can list the tenants that are due. Without it, only
    /// `Engine::notify_work` and the visits to all tenants find work.
    pub due_work: Option<DueWork>,
    /// How long one activation may hold its lease: well beyond the time that a bounded amount of
    /// work takes, and short where other nodes wait for work that a paused node left undone. A node
    /// that is paused for longer is fenced off.
    pub lease_ms: u64,
    /// Number of tenants served concurrently: more than one where an activation waits for another
    /// service.
    pub concurrent_tenants: usize,
    /// Whether it works on a tenant, on one memory or on a subject, and its functions.
    pub kind: PassKind,
}

/// The kinds of passes, with the functions that do their work.
#[derive(Clone, Copy)]
pub enum PassKind {
    /// Maintenance of a whole tenant, started by the host itself.
    Tenant {
        /// Whether there may be work. It must be cheap: it runs before a lease is taken, which is a
        /// write.
        has_work: for<'a> fn(&'a Engine, &'a TenantId) -> HasWorkFuture<'a>,
        /// Does one activation of the pass.
        run: for<'a> fn(&'a Engine, &'a TenantId, PassMode, Option<Fence>) -> PassFuture<'a>,
    },
    /// Work on one memory, started by a job that a caller or a schedule created.
    Memory {
        /// Does the job's work on one memory.
        work: for<'a> fn(&'a Engine, &'a JobContext<'a>) -> WorkFuture<'a>,
        /// The options that a job may set.
        options: &'static [OptionSpec],
    },
    /// Work on one subject in all memories of a tenant, by a job that only a forget starts.
    Subject {
        /// Does the job's work.
        work: for<'a> fn(&'a Engine, &'a JobProgress<'a>) -> WorkFuture<'a>,
    },
}

impl PassKind {
    /// The name of this kind in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PassKind::Tenant { .. } => "host",
            PassKind::Memory { .. } => "memory",
            PassKind::Subject { .. } => "subject",
        }
    }

    /// Whether its work is done by jobs.
    #[must_use]
    pub fn does_jobs(self) -> bool {
        !matches!(self, PassKind::Tenant { .. })
    }

    /// The options that a job of this pass may set.
    #[must_use]
    pub fn options(self) -> &'static [OptionSpec] {
        match self {
            PassKind::Tenant { .. } | PassKind::Subject { .. } => &[],
            PassKind::Memory { options, .. } => options,
        }
    }
}

/// The future of one activation.
pub type PassFuture<'a> =
    Pin<Box<dyn Future<Output = Result<PassReport, EngineError>> + Send + 'a>>;

/// The future of a check whether there is work.
pub type HasWorkFuture<'a> = Pin<Box<dyn Future<Output = Result<bool, EngineError>> + Send + 'a>>;

/// How an activation applies its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassMode {
    /// Make the changes and commit them.
    Apply,
    /// Only report the changes that would be made.
    DryRun,
    /// Commit the changes and return free space to the file system.
    Compact,
}

/// Counts of one activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// Number of things that were examined.
    pub examined: u64,
    /// Number of things that were changed (in a dry run: that would be).
    pub changed: u64,
    /// Whether the bound of one activation was reached, so that there may be more work.
    pub more: bool,
}

/// The table of all passes.
pub static PASSES: [Pass; 16] = [
    Pass {
        name: "purge",
        doc: "removes expired entries and makes erased text physically gone",
        period_ms: 1_000,
        all_tenants_every: 600,
        due_work: Some(DueWork::Purge),
        lease_ms: LEASE_MS,
        concurrent_tenants: 1,
        kind: PassKind::Tenant {
            has_work: |_, _| Box::pin(async { Ok(true) }),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::purge::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "runs",
        doc: "takes up runs that stand still, and forgets those that ended long ago",
        period_ms: 5_000,
        all_tenants_every: 6,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 4,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::runs::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::runs::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::deliver::NAME,
        doc: "sends events of runs to webhooks",
        period_ms: 1_000,
        all_tenants_every: 30,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 16,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::deliver::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::deliver::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "rescan",
        doc: "takes secrets that were registered late out of what is stored already",
        period_ms: 5_000,
        all_tenants_every: 60,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 1,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::rescan::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::rescan::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::jobs::NAME,
        doc: "makes jobs of schedules that are due, and forgets jobs that ended long ago",
        period_ms: 1_000,
        all_tenants_every: 60,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 4,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::jobs::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::jobs::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::infer::NAME,
        doc: "reads commitments out of new entries",
        period_ms: 1_000,
        all_tenants_every: 60,
        due_work: None,
        lease_ms: passes::infer::LEASE_MS,
        concurrent_tenants: 2,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::infer::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::infer::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::embed::NAME,
        doc: "makes the vectors that search by meaning compares",
        period_ms: 500,
        all_tenants_every: 120,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 2,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::embed::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::embed::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::fire::NAME,
        doc: "fires commitments and automations that are due, and lets heartbeats look",
        period_ms: 500,
        all_tenants_every: 120,
        due_work: Some(DueWork::Records),
        lease_ms: passes::fire::LEASE_MS,
        concurrent_tenants: 8,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::fire::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::fire::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::sessions::NAME,
        doc: "ends sessions that rest for too long, and keeps what outlasts them",
        period_ms: 5_000,
        all_tenants_every: 720,
        due_work: Some(DueWork::Records),
        lease_ms: LEASE_MS,
        concurrent_tenants: 2,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::sessions::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::sessions::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::sweep::NAME,
        doc: "takes the text of statements that ceased to be true long ago, and counts what hangs on nothing",
        period_ms: 3_600_000,
        all_tenants_every: 24,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 1,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::sweep::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::sweep::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "archives",
        doc: "erases archives of distillations whose time is over",
        period_ms: 3_600_000,
        all_tenants_every: 1,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 1,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::archives::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::archives::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::propose::NAME,
        doc: "drafts what was done again and again, and rejects what nobody decided about in time",
        period_ms: 60_000,
        all_tenants_every: 60,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 1,
        kind: PassKind::Tenant {
            has_work: |engine, tenant| Box::pin(passes::propose::has_work(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::propose::run(engine, tenant, mode, fence))
            },
        },
    },
    memory_pass_row(
        "consolidate",
        "reconciles a memory with itself: merges what says the same, retires what is outdated",
        |engine, job| Box::pin(passes::consolidate::work(engine, job)),
        &[],
    ),
    memory_pass_row(
        "compact",
        "makes one entry of many",
        |engine, job| Box::pin(passes::compact::work(engine, job)),
        &COMPACT_OPTIONS,
    ),
    memory_pass_row(
        "distill",
        "makes a short digest of a memory within a budget of tokens",
        |engine, job| Box::pin(passes::distill::work(engine, job)),
        &DISTILL_OPTIONS,
    ),
    job_pass_row(
        forget::PASS,
        "erases a subject with everything that was made from its entries, for a forget",
        PassKind::Subject {
            work: |engine, job| Box::pin(forget::work(engine, job)),
        },
    ),
];

/// The row of a pass that works on one memory for a job.
const fn memory_pass_row(
    name: &'static str,
    doc: &'static str,
    work: for<'a> fn(&'a Engine, &'a JobContext<'a>) -> WorkFuture<'a>,
    options: &'static [OptionSpec],
) -> Pass {
    job_pass_row(name, doc, PassKind::Memory { work, options })
}

/// The row of a pass that does jobs.
const fn job_pass_row(name: &'static str, doc: &'static str, kind: PassKind) -> Pass {
    // All tenants are visited once a minute, for jobs of another node; for jobs of this process the
    // runner is woken.
    Pass {
        name,
        doc,
        period_ms: 1_000,
        all_tenants_every: 60,
        due_work: None,
        lease_ms: LEASE_MS,
        concurrent_tenants: 2,
        kind,
    }
}

/// Finds a pass by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// How long most passes may hold their lease.
pub const LEASE_MS: u64 = 30_000;
/// How often a caller who waits for a pass tries to take the lease, `CLAIM_RETRY_DELAY` apart.
pub(crate) const CLAIM_TRIES: u32 = 100;
const RELEASE_TRIES: u32 = 4;
pub(crate) const CLAIM_RETRY_DELAY: Duration = Duration::from_millis(50);

impl Engine {
    /// Asks activations in progress to end soon, because the process is about to exit. Work that
    /// can wait is left to another process or the next start.
    pub fn stop_passes(&self) {
        self.pass_log.stop();
    }

    /// Wakes the runner of this process for a pass that has work at a tenant. Only a hint: what is
    /// lost is found by the visits to all tenants.
    pub(crate) fn notify_work(&self, pass: &'static str, tenant: &TenantId) {
        self.pass_log.mark_pending(pass, tenant);
        self.pass_log.wakeup.notify_waiters();
    }

    /// Runs one activation for a caller who waits for it, once no other activation of that pass is
    /// in progress here or on another node. For a pass over memories that means its queued jobs.
    pub async fn run_pass(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: PassMode,
    ) -> Result<PassReport, EngineError> {
        if mode == PassMode::DryRun {
            return self.run_activation(pass, tenant, mode, None).await;
        }
        for _ in 0..CLAIM_TRIES {
            if let Some(report) = self.run_under_lease(pass, tenant, mode).await? {
                return Ok(report);
            }
            tokio::time::sleep(CLAIM_RETRY_DELAY).await;
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// The tenants for which passes fail now, found by doing each without a change; for the host's
    /// operator.
    pub async fn passes_that_fail(&self) -> Result<Vec<(TenantId, FailingPasses)>, EngineError> {
        let mut found = Vec::new();
        for tenant in self.parts.directory.tenants().await? {
            let failing = self.passes_that_fail_for(&tenant.id).await;
            if !failing.is_empty() {
                found.push((tenant.id, failing));
            }
        }
        Ok(found)
    }

    async fn passes_that_fail_for(&self, tenant: &TenantId) -> FailingPasses {
        let mut failing = Vec::new();
        for pass in &PASSES {
            let done = async {
                let PassKind::Tenant { has_work, .. } = pass.kind else {
                    return execute::has_work(self, pass, tenant).await;
                };
                let has_work = has_work(self, tenant).await?;
                if has_work {
                    self.run_pass(pass, tenant, PassMode::DryRun).await?;
                }
                Ok(has_work)
            };
            if let Err(error) = done.await {
                failing.push((pass.name, error));
            }
        }
        failing
    }

    /// Runs one activation if it is worth it.
    pub(crate) async fn run_if_needed(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<Option<PassReport>, EngineError> {
        let needed = match pass.kind {
            PassKind::Tenant { has_work, .. } => has_work(self, tenant).await?,
            PassKind::Memory { .. } | PassKind::Subject { .. } => {
                execute::has_work(self, pass, tenant).await?
            }
        };
        if !needed {
            return Ok(None);
        }
        let report = self.run_under_lease(pass, tenant, PassMode::Apply).await?;
        if report.is_none() && pass.due_work.is_none() {
            // The holder of the lease may have crashed: try again until its lease has ended.
            self.pass_log.mark_pending(pass.name, tenant);
        }
        Ok(report)
    }

    /// Runs one activation under the lease of its pass; `None` if another process holds it.
    pub(crate) async fn run_under_lease(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: PassMode,
    ) -> Result<Option<PassReport>, EngineError> {
        let Some(lease) = self.claim_lease(pass, tenant).await? else {
            return Ok(None);
        };
        let result = self.run_activation(pass, tenant, mode, Some(&lease)).await;
        self.release_lease(tenant, &lease.fence).await;
        result.map(Some)
    }

    /// Takes the lease of a pass; `None` if another process holds it.
    pub(crate) async fn claim_lease(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<Option<HeldLease>, EngineError> {
        let holder = self.parts.ids.unique_name();
        let fence = self
            .parts
            .store
            .acquire_lease(tenant, pass.name, &holder, self.now(), pass.lease_ms)
            .await?;
        Ok(fence.map(|fence| HeldLease {
            fence,
            holder,
            until: None,
        }))
    }

    /// Gives a lease back. Tried a few times, since a lease that is not given back blocks the pass
    /// until it ends.
    pub(crate) async fn release_lease(&self, tenant: &TenantId, fence: &Fence) {
        for _ in 0..RELEASE_TRIES {
            match self.parts.store.release_lease(tenant, fence).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(pass = fence.pass, %error, "a lease was not given back")
                }
            }
        }
    }

    /// Runs one activation, and records its outcome for the status and the metrics.
    async fn run_activation(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: PassMode,
        lease: Option<&HeldLease>,
    ) -> Result<PassReport, EngineError> {
        // Jobs are recorded one by one, in `jobs`.
        let PassKind::Tenant { run, .. } = pass.kind else {
            return execute::run_due_jobs(self, pass, tenant, lease).await;
        };
        let begun = self.now();
        let result = run(self, tenant, mode, lease.map(|lease| lease.fence.clone())).await;
        let ran_at = self.now();
        let report = result.as_ref().ok().copied();
        self.pass_log.record(
            tenant,
            PassStatus {
                name: pass.name,
                ran_at,
                report,
            },
        );
        let outcome = if result.is_ok() { "ok" } else { "failed" };
        record_metrics(
            pass.name,
            outcome,
            report.map_or(0, |r| r.changed),
            ran_at.0 - begun.0,
        );
        result
    }

    /// The latest activation of each pass for a tenant, in this process.
    #[must_use]
    pub fn pass_status(&self, tenant: &TenantId) -> Vec<PassStatus> {
        self.pass_log.statuses_of(tenant)
    }
}

/// Records the metrics of one activation.
pub(crate) fn record_metrics(
    pass: &'static str,
    outcome: &'static str,
    changed: u64,
    took_ms: i64,
) {
    metrics::counter!("remem_pass_activations_total", "pass" => pass, "outcome" => outcome)
        .increment(1);
    metrics::counter!("remem_pass_changes_total", "pass" => pass).increment(changed);
    #[expect(clippy::cast_precision_loss, reason = "no activation takes so long")]
    metrics::histogram!("remem_pass_duration_seconds", "pass" => pass)
        .record(took_ms.max(0) as f64 / 1_000.0);
}
