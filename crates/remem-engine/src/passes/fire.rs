//! fire: processes what is due: commitments and automations fire, heartbeats check, approval gates
//! time out, and old records of firings are deleted. It runs on every node. The lease only avoids
//! duplicate work, and is short, because others wait for what a paused node left undone.

use crate::commitments::CommitmentInfo;
use crate::commitments::firing::{FireOutcome, RunQuota};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use futures_util::stream::{self, StreamExt};
use remem_core::sabotage;
use remem_core::{Batch, Fence, Precondition, Record, RecordKind, TenantId, Timestamp};
use remem_store::{RecordLookup, StoreError};

/// The name in `PASSES`.
pub(crate) const NAME: &str = "fire";
/// How long the lease lasts: a node that is paused delays what is due by no more than this.
pub(crate) const LEASE_MS: u64 = 3_000;
/// An activation begins no further page later than this after its start.
const BEGIN_WITHIN_MS: i64 = 1_000;
/// Records read with one query.
const PAGE_SIZE: u32 = 128;
/// Records processed concurrently: the store commits in groups, so that many cost little more than
/// one.
const CONCURRENT_FIRES: usize = 32;

/// Whether anything of the tenant is due.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let now = engine.now_for(tenant).await?;
    for kind in [
        RecordKind::Commitment,
        RecordKind::Automation,
        RecordKind::Heartbeat,
        RecordKind::Firing,
    ] {
        if !due_records(engine, tenant, kind, now, None, 1)
            .await?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads records of a kind that are due, earliest first.
async fn due_records(
    engine: &Engine,
    tenant: &TenantId,
    kind: RecordKind,
    until: Timestamp,
    after: Option<(Timestamp, String)>,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    engine
        .parts
        .store
        .records_by(tenant, kind, &RecordLookup::Due { until, after }, limit)
        .await
}

/// Processes everything of the tenant that is due.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let begun = engine.now_for(tenant).await?;
    let mut report = PassReport::default();
    let mut failed = None;
    for kind in [
        RecordKind::Commitment,
        RecordKind::Automation,
        RecordKind::Heartbeat,
    ] {
        match fire_due_records(engine, tenant, kind, mode, fence.as_ref(), begun).await {
            Ok(kind_report) => {
                report = PassReport {
                    examined: report.examined + kind_report.examined,
                    changed: report.changed + kind_report.changed,
                    more: report.more | kind_report.more,
                }
            }
            // An error with one kind must not hold up the others.
            Err(error) => sabotage!(
                "what-cannot-be-read-starves-others",
                failed = Some(error),
                return Err(error)
            ),
        }
    }
    if mode != PassMode::DryRun {
        report.changed += delete_old_fire_records(engine, tenant, fence, begun).await?;
        if report.more || failed.is_some() {
            engine.pass_log.mark_pending(NAME, tenant);
        }
    }
    failed.map_or(Ok(report), Err)
}

/// Processes the due records of one kind, up to the policy's number.
async fn fire_due_records(
    engine: &Engine,
    tenant: &TenantId,
    kind: RecordKind,
    mode: PassMode,
    fence: Option<&Fence>,
    begun: Timestamp,
) -> Result<PassReport, EngineError> {
    let mut report = PassReport::default();
    let mut after = None;
    let quota = RunQuota::default();
    // A commitment that must wait for a free run does not count towards the limit, nor does a
    // record that cannot be read: neither may keep others waiting.
    let mut done = 0;
    let mut failed = None;
    let started = engine.now();
    while done < u64::from(engine.parts.policy.fires_max) {
        let page = due_records(engine, tenant, kind, begun, after.clone(), PAGE_SIZE).await?;
        let full = page.len() == PAGE_SIZE as usize;
        // Continue after the last record, since those that stay due would be read again.
        after = page
            .last()
            .and_then(|record| Some((record.links.due?, record.key.clone())));
        report.examined += page.len() as u64;
        if mode == PassMode::DryRun {
            (report.changed, done) = (report.examined, report.examined);
        } else {
            let outcomes: Vec<Result<FireOutcome, EngineError>> = stream::iter(page)
                .map(|record| fire_record(engine, tenant, record, fence, &quota))
                .buffer_unordered(CONCURRENT_FIRES)
                .collect()
                .await;
            for outcome in outcomes {
                match outcome {
                    Ok(FireOutcome::NoFreeRun) => {
                        sabotage!("what-waits-for-room-starves-others", {}, done += 1)
                    }
                    Ok(fired) => {
                        (done, report.changed) = (
                            done + 1,
                            report.changed + u64::from(fired == FireOutcome::Done),
                        )
                    }
                    Err(error) => sabotage!(
                        "what-cannot-be-read-starves-others",
                        failed = Some(error),
                        return Err(error)
                    ),
                }
            }
        }
        if !full {
            return failed.map_or(Ok(report), Err);
        }
        if engine.now() > started.plus_ms(BEGIN_WITHIN_MS) || engine.pass_log.is_stopping() {
            break;
        }
    }
    failed.map_or(
        Ok(PassReport {
            more: true,
            ..report
        }),
        Err,
    )
}

/// Processes one due record.
async fn fire_record(
    engine: &Engine,
    tenant: &TenantId,
    record: Record,
    fence: Option<&Fence>,
    quota: &RunQuota,
) -> Result<FireOutcome, EngineError> {
    match record.kind {
        RecordKind::Heartbeat => engine.process_heartbeat(tenant, record, fence).await,
        RecordKind::Automation => engine.fire_automation(tenant, record, fence).await,
        _ => {
            engine
                .process_commitment(tenant, &CommitmentInfo::from_record(record)?, fence, quota)
                .await
        }
    }
}

/// Deletes records of firings whose retention has ended.
async fn delete_old_fire_records(
    engine: &Engine,
    tenant: &TenantId,
    fence: Option<Fence>,
    now: Timestamp,
) -> Result<u64, EngineError> {
    let old = due_records(engine, tenant, RecordKind::Firing, now, None, PAGE_SIZE).await?;
    if old.is_empty() {
        return Ok(0);
    }
    let count = old.len() as u64;
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = old.into_iter().fold(batch, |batch, record| {
        batch.delete_record(RecordKind::Firing, record.key, Precondition::None)
    });
    match engine.parts.store.commit(batch).await {
        Ok(_) => Ok(count),
        Err(StoreError::Conflict) => Ok(0),
        Err(other) => Err(other.into()),
    }
}
