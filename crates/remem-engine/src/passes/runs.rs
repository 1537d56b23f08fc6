//! runs: resumes runs that no process is executing, ends those that took too long, and deletes
//! those that ended long ago.
//!
//! A run that has not ended holds a snapshot, so the open snapshots are the list of runs to check.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use crate::runs::{self, QueuedRun};
use remem_core::event::Fault;
use remem_core::{Batch, Fence, Precondition, RecordKind, RunId, RunState, TenantId, Timestamp};
use remem_store::Snapshot;

/// The name in `PASSES`.
const NAME: &str = "runs";
/// Ended runs deleted by one activation, at most.
const DELETE_MAX: u32 = 200;
/// Limit for reading the records of one run's reads: more than a run can have.
const READS_MAX: u32 = 100_000;

/// Whether there is an open snapshot, or a run that can be deleted.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let oldest = engine
        .parts
        .store
        .records(tenant, RecordKind::Run, "", None, 1)
        .await?;
    let Some(oldest) = oldest.first() else {
        return Ok(false);
    };
    let is_deletable =
        oldest.at.plus_ms(engine.parts.policy.run_retention_ms) < engine.now_for(tenant).await?;
    Ok(is_deletable || !engine.parts.store.snapshots(tenant).await?.is_empty())
}

/// Checks the tenant's open runs and deletes old ones.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let now = engine.now_for(tenant).await?;
    let mut report = PassReport::default();
    for snapshot in engine.parts.store.snapshots(tenant).await? {
        report.examined += 1;
        if !engine.run_queue.is_active(tenant, &snapshot.run) {
            report.changed +=
                u64::from(process_snapshot(engine, tenant, &snapshot, now, mode).await?);
        }
    }
    delete_old_runs(engine, tenant, now, mode, fence, report).await
}

/// Handles an open snapshot: releases it if its run has ended, and otherwise resumes a stalled run
/// or ends one that took too long. Returns whether there was something to do.
async fn process_snapshot(
    engine: &Engine,
    tenant: &TenantId,
    snapshot: &Snapshot,
    now: Timestamp,
    mode: PassMode,
) -> Result<bool, EngineError> {
    let policy = &engine.parts.policy;
    let Some(record) = engine
        .parts
        .store
        .record(tenant, RecordKind::Run, snapshot.run.as_str())
        .await?
    else {
        return release_snapshot(engine, tenant, &snapshot.run, now, mode).await;
    };
    let stalled_since = record.at;
    let state = RunState::from_map(record.body);
    if state
        .as_ref()
        .is_none_or(|state| state.status.is_terminal())
    {
        return release_snapshot(engine, tenant, &snapshot.run, now, mode).await;
    }
    let parent = state.and_then(|state| state.parent);
    if stalled_since.plus_ms(policy.run_stall_ms) > now
        || has_open_parent(engine, tenant, parent.as_deref()).await?
    {
        engine.pass_log.mark_pending(NAME, tenant); // another process may be executing it, or has stopped
        return Ok(false);
    }
    if mode == PassMode::DryRun {
        return Ok(true);
    }
    if parent.is_some() {
        let fault = Fault {
            code: "parent_ended".to_owned(),
            message: "the run that started this one has ended".to_owned(),
        };
        runs::fail_run(engine, tenant, &snapshot.run, fault).await?;
    } else if snapshot.at.plus_ms(policy.run_duration_ms_max) < now {
        let fault = Fault {
            code: "run_timeout".to_owned(),
            message: "the run took longer than this host allows".to_owned(),
        };
        runs::fail_run(engine, tenant, &snapshot.run, fault).await?;
    } else {
        engine.run_queue.push(QueuedRun {
            tenant: tenant.clone(),
            run: snapshot.run.clone(),
            loaded: None,
        });
    }
    Ok(true)
}

/// Whether the run is a part of another run that has not ended: it is executed together with that
/// one.
async fn has_open_parent(
    engine: &Engine,
    tenant: &TenantId,
    parent: Option<&str>,
) -> Result<bool, EngineError> {
    let Some(parent) = parent.and_then(RunId::parse) else {
        return Ok(false);
    };
    Ok(engine
        .load_run(tenant, &parent)
        .await?
        .is_some_and(|(run, _)| !run.state.status.is_terminal()))
}

/// Releases a snapshot whose run has ended or is gone.
async fn release_snapshot(
    engine: &Engine,
    tenant: &TenantId,
    run: &RunId,
    now: Timestamp,
    mode: PassMode,
) -> Result<bool, EngineError> {
    if mode != PassMode::DryRun {
        engine
            .parts
            .store
            .commit(
                Batch::new(tenant.clone(), now)
                    .in_run(run.clone())
                    .release_snapshot(),
            )
            .await?;
    }
    Ok(true)
}

/// Deletes runs whose retention has ended, with the records of their reads. Keys of runs sort by
/// time, so the first run that is too young ends the search.
async fn delete_old_runs(
    engine: &Engine,
    tenant: &TenantId,
    now: Timestamp,
    mode: PassMode,
    fence: Option<Fence>,
    mut report: PassReport,
) -> Result<PassReport, EngineError> {
    let store = &engine.parts.store;
    let policy = &engine.parts.policy;
    let oldest = now.plus_ms(-policy.run_retention_ms);
    let runs = store
        .records(tenant, RecordKind::Run, "", None, DELETE_MAX)
        .await?;
    let full = runs.len() as u32 == DELETE_MAX;
    for record in runs {
        let ended = RunState::from_map(record.body).and_then(|state| state.completed_at);
        if record.at > oldest {
            return Ok(report);
        }
        if ended.is_none_or(|ended| ended > oldest.0) {
            continue;
        }
        report.changed += 1;
        if mode == PassMode::DryRun {
            continue;
        }
        let reads = store
            .records(
                tenant,
                RecordKind::RunRead,
                &format!("{}/", record.key),
                None,
                READS_MAX,
            )
            .await?;
        let batch = Batch::new(tenant.clone(), now).fenced(fence.clone());
        let batch = batch.delete_record(
            RecordKind::Run,
            record.key,
            Precondition::Version(record.version),
        );
        let batch = reads.into_iter().fold(batch, |batch, read| {
            batch.delete_record(RecordKind::RunRead, read.key, Precondition::None)
        });
        store.commit(batch).await?;
    }
    Ok(PassReport {
        more: full,
        ..report
    })
}
