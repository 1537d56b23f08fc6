//! `PASSES`: one row a pass. The runner, the CLI, the status endpoint, metrics and docs all read
//! this table.

mod log;

pub(crate) use log::AGAIN_MS;
pub use log::{Failing, PassLog, PassStatus};

/// Passes that fail, and why.
pub type FailingPasses = Vec<(&'static str, EngineError)>;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::options::{OptionKind, OptionSpec};
use crate::jobs::work::Held;
use crate::jobs::{Job, WorkFuture, carry};
use crate::passes;
use remem_core::{Fence, TenantId};
use remem_store::{StoreError, Work};
use std::pin::Pin;
use std::time::Duration;

/// Work in the background: does a bounded amount, may be run at any time and any number of times.
pub struct Pass {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// How often the runner looks whether there is work, in milliseconds.
    pub period_ms: u64,
    /// Every so many looks it asks all tenants: what other nodes left undone is found by nothing
    /// else.
    pub all_every: u64,
    /// As what the store knows it and tells which tenants are due; otherwise only
    /// `Engine::has_work` does.
    pub store_knows: Option<Work>,
    /// How long an activation may hold its lease: well beyond what a bounded amount of work takes,
    /// and short where others wait for what a node that was paused has left undone. Whoever is
    /// paused for longer finds itself fenced off.
    pub lease_ms: u64,
    /// Tenants served side by side: more than one where an activation waits for somebody else.
    pub tenants_at_once: usize,
    /// What it works over.
    pub over: Over,
}

/// What a pass works over.
#[derive(Clone, Copy)]
pub enum Over {
    /// All of a tenant, by itself: upkeep.
    Host {
        /// Whether there may be something to do, as cheap as can be: asked before a lease is taken,
        /// which is a write.
        worth: for<'a> fn(&'a Engine, &'a TenantId) -> WorthFuture<'a>,
        /// One activation.
        run: for<'a> fn(&'a Engine, &'a TenantId, Mode, Option<Fence>) -> PassFuture<'a>,
    },
    /// One memory, when a job says so: a caller or a schedule made it.
    Memory {
        /// One activation over one memory.
        work: for<'a> fn(&'a Engine, &'a Job<'a>) -> WorkFuture<'a>,
        /// What a caller may set.
        options: &'static [OptionSpec],
    },
}

impl Over {
    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Over::Host { .. } => "host",
            Over::Memory { .. } => "memory",
        }
    }

    /// What a caller may set.
    #[must_use]
    pub fn options(self) -> &'static [OptionSpec] {
        match self {
            Over::Host { .. } => &[],
            Over::Memory { options, .. } => options,
        }
    }
}

/// What an activation answers with.
pub type PassFuture<'a> =
    Pin<Box<dyn Future<Output = Result<PassReport, EngineError>> + Send + 'a>>;

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
pub static PASSES: [Pass; 15] = [
    Pass {
        name: "purge",
        doc: "removes expired entries and makes erased text physically gone",
        period_ms: 1_000,
        all_every: 600,
        store_knows: Some(Work::Purge),
        lease_ms: LEASE_MS,
        tenants_at_once: 1,
        over: Over::Host {
            worth: |_, _| Box::pin(async { Ok(true) }),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::purge::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "runs",
        doc: "takes up runs that stand still, and forgets those that ended long ago",
        period_ms: 5_000,
        all_every: 6,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 4,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::runs::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::runs::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::deliver::NAME,
        doc: "sends events of runs to webhooks",
        period_ms: 1_000,
        all_every: 30,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 16,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::deliver::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::deliver::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "rescan",
        doc: "takes secrets that were registered late out of what is stored already",
        period_ms: 5_000,
        all_every: 60,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 1,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::rescan::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::rescan::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::jobs::NAME,
        doc: "makes jobs of schedules that are due, and forgets jobs that ended long ago",
        period_ms: 1_000,
        all_every: 60,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 4,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::jobs::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::jobs::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::infer::NAME,
        doc: "reads commitments out of new entries",
        period_ms: 1_000,
        all_every: 60,
        store_knows: None,
        lease_ms: passes::infer::LEASE_MS,
        tenants_at_once: 2,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::infer::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::infer::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::embed::NAME,
        doc: "makes the vectors that search by meaning compares",
        period_ms: 500,
        all_every: 120,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 2,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::embed::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::embed::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::fire::NAME,
        doc: "fires commitments and automations that are due, and lets heartbeats look",
        period_ms: 500,
        all_every: 120,
        store_knows: Some(Work::Records),
        lease_ms: passes::fire::LEASE_MS,
        tenants_at_once: 8,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::fire::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::fire::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::sessions::NAME,
        doc: "ends sessions that rest for too long, and keeps what outlasts them",
        period_ms: 5_000,
        all_every: 720,
        store_knows: Some(Work::Records),
        lease_ms: LEASE_MS,
        tenants_at_once: 2,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::sessions::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::sessions::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::sweep::NAME,
        doc: "takes the text of statements that ceased to be true long ago, and counts what hangs on nothing",
        period_ms: 3_600_000,
        all_every: 24,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 1,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::sweep::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::sweep::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: "archives",
        doc: "erases archives of distillations whose time is over",
        period_ms: 3_600_000,
        all_every: 1,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 1,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::archives::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::archives::run(engine, tenant, mode, fence))
            },
        },
    },
    Pass {
        name: passes::propose::NAME,
        doc: "drafts what was done again and again, and rejects what nobody decided about in time",
        period_ms: 60_000,
        all_every: 60,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 1,
        over: Over::Host {
            worth: |engine, tenant| Box::pin(passes::propose::worth(engine, tenant)),
            run: |engine, tenant, mode, fence| {
                Box::pin(passes::propose::run(engine, tenant, mode, fence))
            },
        },
    },
    over_memory(
        "consolidate",
        "reconciles a memory with itself: merges what says the same, retires what is outdated",
        |engine, job| Box::pin(passes::consolidate::work(engine, job)),
        &[],
    ),
    over_memory(
        "compact",
        "makes one entry of many",
        |engine, job| Box::pin(passes::compact::work(engine, job)),
        &COMPACT_OPTIONS,
    ),
    over_memory(
        "distill",
        "makes a short digest of a memory within a budget of tokens",
        |engine, job| Box::pin(passes::distill::work(engine, job)),
        &DISTILL_OPTIONS,
    ),
];

const fn over_memory(
    name: &'static str,
    doc: &'static str,
    work: for<'a> fn(&'a Engine, &'a Job<'a>) -> WorkFuture<'a>,
    options: &'static [OptionSpec],
) -> Pass {
    // Looked at once a minute for what another node left undone; here the bell rings.
    Pass {
        name,
        doc,
        period_ms: 1_000,
        all_every: 60,
        store_knows: None,
        lease_ms: LEASE_MS,
        tenants_at_once: 2,
        over: Over::Memory { work, options },
    }
}

static COMPACT_OPTIONS: [OptionSpec; 1] = [OptionSpec {
    name: "include",
    kind: OptionKind::Word(&["short-lived", "all"]),
    doc: "which entries: those of threads and sessions (short-lived, the default) or all; never those that will expire",
    rule: "must be short-lived or all",
}];

static DISTILL_OPTIONS: [OptionSpec; 4] = [
    OptionSpec {
        name: "tokenBudget",
        kind: OptionKind::Integer {
            min: 1,
            max: 10_000_000,
        },
        doc: "tokens that may be read and written",
        rule: "must be an integer from 1 to 10000000",
    },
    OptionSpec {
        name: "markdown",
        kind: OptionKind::Flag,
        doc: "also write the index as Markdown",
        rule: "must be true or false",
    },
    OptionSpec {
        name: "sources",
        kind: OptionKind::Word(&["all", "new"]),
        doc: "which entries: all (the default) or those that are newer than the last distillation",
        rule: "must be all or new",
    },
    OptionSpec {
        name: "recursive",
        kind: OptionKind::Flag,
        doc: "also read what earlier distillations made",
        rule: "must be true or false",
    },
];

/// The pass of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// How long most activations may hold their lease.
pub const LEASE_MS: u64 = 30_000;
/// How often a person who asks for a pass tries to get the lease.
pub(crate) const CLAIM_TRIES: u32 = 100;
const RELEASE_TRIES: u32 = 4;
pub(crate) const CLAIM_AGAIN: Duration = Duration::from_millis(50);

impl Engine {
    /// Tells what passes are at that the process is about to end: what can wait for another one
    /// does.
    pub fn stop_passes(&self) {
        self.passes.stop();
    }

    /// Tells the runner of this process that a pass has work at a tenant. Only a hint.
    pub(crate) fn has_work(&self, pass: &'static str, tenant: &TenantId) {
        self.passes.again(pass, tenant);
        self.passes.bell.notify_waiters();
    }

    /// Runs one activation for somebody who waits for it, after any other that is under way, here
    /// or on another node. Of a pass over memories these are the jobs that wait.
    pub async fn run_pass(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: Mode,
    ) -> Result<PassReport, EngineError> {
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
                let Over::Host { worth, .. } = pass.over else {
                    return carry::worth(self, pass, tenant).await;
                };
                let is_worth = worth(self, tenant).await?;
                if is_worth {
                    self.run_pass(pass, tenant, Mode::DryRun).await?;
                }
                Ok(is_worth)
            };
            if let Err(error) = done.await {
                failing.push((pass.name, error));
            }
        }
        failing
    }

    /// Runs one activation if it is worth it.
    pub(crate) async fn try_worthy(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<Option<PassReport>, EngineError> {
        let worthy = match pass.over {
            Over::Host { worth, .. } => worth(self, tenant).await?,
            Over::Memory { .. } => carry::worth(self, pass, tenant).await?,
        };
        if !worthy {
            return Ok(None);
        }
        let report = self.try_pass(pass, tenant, Mode::Apply).await?;
        if report.is_none() && pass.store_knows.is_none() {
            // Whoever has the lease may be gone: the work is taken up when its time is over.
            self.passes.again(pass.name, tenant);
        }
        Ok(report)
    }

    /// Runs one activation under its lease; `None` if another one is under way.
    pub(crate) async fn try_pass(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: Mode,
    ) -> Result<Option<PassReport>, EngineError> {
        let Some(held) = self.claim(pass, tenant).await? else {
            return Ok(None);
        };
        let result = self.activate(pass, tenant, mode, Some(&held)).await;
        self.release(tenant, &held.fence).await;
        result.map(Some)
    }

    /// Takes the lease of a pass; `None` if somebody has it.
    pub(crate) async fn claim(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
    ) -> Result<Option<Held>, EngineError> {
        let holder = self.parts.ids.holder();
        let fence = self
            .parts
            .store
            .claim(tenant, pass.name, &holder, self.now(), pass.lease_ms)
            .await?;
        Ok(fence.map(|fence| Held { fence, holder }))
    }

    /// A lease that cannot be given back holds others up until its time is over, so it is worth
    /// more than one try.
    pub(crate) async fn release(&self, tenant: &TenantId, fence: &Fence) {
        for _ in 0..RELEASE_TRIES {
            match self.parts.store.release(tenant, fence).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(pass = fence.pass, %error, "a lease was not given back")
                }
            }
        }
    }

    async fn activate(
        &self,
        pass: &'static Pass,
        tenant: &TenantId,
        mode: Mode,
        held: Option<&Held>,
    ) -> Result<PassReport, EngineError> {
        // Jobs are measured one by one.
        let Over::Host { run, .. } = pass.over else {
            return carry::run(self, pass, tenant, held).await;
        };
        let begun = self.now();
        let result = run(self, tenant, mode, held.map(|held| held.fence.clone())).await;
        let ran_at = self.now();
        let report = result.as_ref().ok().copied();
        self.passes.record(
            tenant,
            PassStatus {
                name: pass.name,
                ran_at,
                report,
            },
        );
        let outcome = if result.is_ok() { "ok" } else { "failed" };
        measure(
            pass.name,
            outcome,
            report.map_or(0, |r| r.changed),
            ran_at.0 - begun.0,
        );
        result
    }

    /// The latest activation of each pass for a tenant.
    #[must_use]
    pub fn pass_status(&self, tenant: &TenantId) -> Vec<PassStatus> {
        self.passes.of(tenant)
    }
}

/// What metrics tell of an activation.
pub(crate) fn measure(pass: &'static str, outcome: &'static str, changed: u64, took_ms: i64) {
    metrics::counter!("remem_pass_activations_total", "pass" => pass, "outcome" => outcome)
        .increment(1);
    metrics::counter!("remem_pass_changes_total", "pass" => pass).increment(changed);
    #[expect(clippy::cast_precision_loss, reason = "no activation takes so long")]
    metrics::histogram!("remem_pass_duration_seconds", "pass" => pass)
        .record(took_ms.max(0) as f64 / 1_000.0);
}
