//! The runner: timers and shutdown of background work. It is the only part of the engine that
//! starts tasks.

use crate::engine::Engine;
use crate::registry::{AGAIN_MS, PASSES, Pass};
use crate::runs::{self, Halt, QueuedRun};
use futures_util::stream::{self, StreamExt};
use remem_core::TenantId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How often all tenants are visited, in checks of a pass, where no other node uses the storage.
const ALL_TENANTS_EVERY_ALONE: u64 = 600;
/// How long after a wake-up an activation begins, so that it serves a burst of work at once.
const WAKE_DELAY: Duration = Duration::from_millis(200);

/// Starts a task for every pass, which checks for work at the pass's period until `stop` becomes
/// true. The first check visits every tenant, so that what an earlier process left behind is found;
/// later ones visit mostly the tenants where the store reports work.
#[expect(
    clippy::disallowed_methods,
    reason = "the runner is the place that starts tasks"
)]
pub fn start(engine: &Arc<Engine>, stop: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let passes = PASSES
        .iter()
        .map(|pass| tokio::spawn(run_pass_loop(engine.clone(), pass, stop.clone())));
    passes.chain([start_run_executor(engine, stop)]).collect()
}

/// Starts the task that executes queued runs, up to the policy's number at once, until `stop`
/// becomes true. Runs in progress are finished first.
#[expect(
    clippy::disallowed_methods,
    reason = "the runner is the place that starts tasks"
)]
pub fn start_run_executor(engine: &Arc<Engine>, stop: &watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(execute_queued_runs(engine.clone(), stop.clone()))
}

/// Executes queued runs until `stop` becomes true, then waits for those in progress.
async fn execute_queued_runs(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let mut in_progress = JoinSet::new();
    let limit = engine.parts.policy.runs_at_once_max;
    while !*stop.borrow() {
        tokio::select! {
            turn = engine.run_queue.next(), if in_progress.len() < limit => {
                let engine = engine.clone();
                in_progress.spawn(async move { execute_queued_run(&engine, turn).await });
            }
            Some(_) = in_progress.join_next() => {}
            _ = stop.changed() => {}
        }
    }
    while in_progress.join_next().await.is_some() {}
}

/// Executes one queued run, and wakes the delivery of its events.
async fn execute_queued_run(engine: &Engine, turn: QueuedRun) {
    let QueuedRun {
        tenant,
        run,
        loaded: fresh,
    } = turn;
    let result = runs::execute(engine, &tenant, &run, fresh).await;
    engine.run_queue.finish(&tenant, &run);
    match result {
        Ok(()) => engine.notify_run_events(&tenant),
        Err(Halt::Error(error)) => {
            tracing::warn!(run = %run, tenant = %tenant, %error, "a run stands still; it will be taken up again")
        }
        Err(_) => {}
    }
}

/// Checks for work of one pass until `stop` becomes true.
async fn run_pass_loop(engine: Arc<Engine>, pass: &'static Pass, mut stop: watch::Receiver<bool>) {
    let mut activation = 0;
    let mut is_turn = true;
    let mut waited_ms = 0;
    let mut wake = engine.parts.store.watch_work();
    // On storage that no other node uses, only a command that opened it while the host was down can
    // have left work behind: rare visits to all tenants are enough.
    let all_every = if engine.parts.store.features().shared {
        pass.all_tenants_every
    } else {
        pass.all_tenants_every.max(ALL_TENANTS_EVERY_ALONE)
    };
    let round_ms = pass.period_ms.saturating_mul(all_every).cast_signed();
    while !*stop.borrow() {
        let tenants = tenants_to_visit(&engine, pass, is_turn && activation % all_every == 0).await;
        let work =
            stream::iter(tenants).for_each_concurrent(pass.concurrent_tenants, async |tenant| {
                if !engine.pass_log.is_stopping() {
                    run_and_record(&engine, pass, round_ms, &tenant).await;
                }
            });
        finish_or_stop(&engine, &mut stop.clone(), work).await;
        activation += u64::from(is_turn);
        // What failed is tried again within a long period, too; that does not count as a turn of
        // the pass.
        let pause_ms = if engine.pass_log.has_failed(pass.name) {
            pass.period_ms.min(AGAIN_MS.unsigned_abs())
        } else {
            pass.period_ms
        };
        waited_ms += pause_ms;
        is_turn = waited_ms >= pass.period_ms;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
            () = wait_for_store(&mut wake), if pass.due_work.is_some() => is_turn = true,
            () = wait_for_local_work(&engine) => is_turn = true,
            _ = stop.changed() => {}
        }
        if is_turn {
            waited_ms = 0;
        }
    }
}

/// Waits for the activations in progress. If the process is asked to stop meanwhile, asks them to
/// end soon.
async fn finish_or_stop(
    engine: &Engine,
    stop: &mut watch::Receiver<bool>,
    work: impl Future<Output = ()>,
) {
    tokio::pin!(work);
    tokio::select! {
        () = &mut work => return,
        _ = stop.wait_for(|stop| *stop) => engine.stop_passes(),
    }
    work.await;
}

/// Waits until the store reports that work may have appeared, here or on another node. Then waits a
/// moment for more: one activation serves a burst.
async fn wait_for_store(wake: &mut watch::Receiver<u64>) {
    if wake.changed().await.is_err() {
        return std::future::pending().await; // the store is closing: the timer and the stop remain
    }
    tokio::time::sleep(WAKE_DELAY).await;
}

/// Waits until work has appeared in this process, then a moment for more.
async fn wait_for_local_work(engine: &Engine) {
    engine.pass_log.wakeup.notified().await;
    tokio::time::sleep(WAKE_DELAY).await;
}

/// The tenants to visit now: all of them, or those where work is known.
async fn tenants_to_visit(engine: &Engine, pass: &Pass, all: bool) -> Vec<TenantId> {
    let pending = engine.pass_log.take_work(pass.name, engine.now());
    let found = if all {
        // Some tenants' clocks may have been caught up with: update the metric.
        engine.record_tenants_ahead();
        engine
            .parts
            .directory
            .tenants()
            .await
            .map(|tenants| tenants.into_iter().map(|t| t.id).collect())
    } else if let Some(work) = pass.due_work {
        engine
            .parts
            .store
            .tenants_with_work(work, engine.now())
            .await
            .map(|due| pending.into_iter().chain(due).collect())
    } else {
        Ok(pending)
    };
    if is_reportable(engine, found.is_err()).await {
        let now = engine.now();
        engine.pass_log.record_lookup(pass.name, found.is_ok(), now);
    }
    found.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell which tenants are due");
        Vec::new()
    })
}

/// Whether a result counts for the health of passes. A failure because the storage is unreachable
/// does not: `/ready` reports that by itself, for as long as it lasts.
async fn is_reportable(engine: &Engine, is_failed: bool) -> bool {
    !is_failed || engine.is_reachable().await
}

async fn run_and_record(engine: &Engine, pass: &'static Pass, round_ms: i64, tenant: &TenantId) {
    let result = engine.run_if_needed(pass, tenant).await;
    if is_reportable(engine, result.is_err()).await {
        let now = engine.now();
        let is_failed = result.is_err();
        engine
            .pass_log
            .record_end(pass.name, round_ms, tenant, is_failed, now);
        let failing = engine.background_failures().tenants;
        metrics::gauge!("remem_tenants_failing").set(failing as f64);
    }
    match result {
        Ok(Some(report)) if report.changed > 0 => {
            tracing::info!(pass = pass.name, tenant = %tenant, examined = report.examined, changed = report.changed, "pass done");
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(pass = pass.name, tenant = %tenant, %error, "pass failed; it will be tried again")
        }
    }
}
