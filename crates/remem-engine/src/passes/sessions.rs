//! sessions: closes sessions that were idle for too long, and completes the closing of others. When
//! a caller writes to an idle session, that write closes it; this pass finds the sessions without a
//! further write, and those that a crashed node closed only in part.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use crate::sessions::{SessionInfo, SessionState};
use remem_core::sabotage;
use remem_core::{
    Batch, Fence, MemoryRef, Precondition, Record, RecordKind, Scope, SessionId, TenantId,
    Timestamp,
};
use remem_store::{RecordLookup, StoreError};

/// The name in `PASSES`.
pub(crate) const NAME: &str = "sessions";
/// Sessions read with one query.
const PAGE_SIZE: u32 = 50;
/// Pages of one activation, at most.
const PAGES_MAX: u32 = 20;

/// Reads sessions that are due, earliest first.
async fn due_sessions(
    engine: &Engine,
    tenant: &TenantId,
    now: Timestamp,
    after: Option<(Timestamp, String)>,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    engine
        .parts
        .store
        .records_by(
            tenant,
            RecordKind::Session,
            &RecordLookup::Due { until: now, after },
            limit,
        )
        .await
}

/// Whether a session of the tenant is due.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let now = engine.now_for(tenant).await?;
    Ok(!due_sessions(engine, tenant, now, None, 1).await?.is_empty())
}

/// Closes the tenant's sessions that are due.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let now = engine.now_for(tenant).await?;
    let mut report = PassReport::default();
    let mut failed = None;
    let mut after = None;
    for page in 1..=PAGES_MAX {
        let records = due_sessions(engine, tenant, now, after.clone(), PAGE_SIZE).await?;
        let full = records.len() == PAGE_SIZE as usize;
        // Continue after the last session, since those that stay due would be read again.
        after = records
            .last()
            .and_then(|record| Some((record.links.due?, record.key.clone())));
        report.examined += records.len() as u64;
        for record in records {
            if mode == PassMode::DryRun {
                report.changed += 1;
                continue;
            }
            match process_session(engine, tenant, record, fence.clone(), now).await {
                Ok(changed) => report.changed += u64::from(changed),
                // A caller wrote to the session, or closed it, at the same time: try again.
                Err(EngineError::Store(StoreError::Conflict)) => report.more = true,
                // An error with one session must not hold up the others.
                Err(error) => sabotage!(
                    "a-session-that-cannot-be-closed-starves-others",
                    failed = Some(error),
                    return Err(error)
                ),
            }
        }
        if !full || engine.pass_log.is_stopping() {
            break;
        }
        report.more |= page == PAGES_MAX;
    }
    if report.more && mode != PassMode::DryRun {
        engine.pass_log.mark_pending(NAME, tenant);
    }
    failed.map_or(Ok(report), Err)
}

/// Closes one session, or makes it due later if it is not idle yet. Returns whether it was closed.
async fn process_session(
    engine: &Engine,
    tenant: &TenantId,
    record: Record,
    fence: Option<Fence>,
    now: Timestamp,
) -> Result<bool, EngineError> {
    let version = record.version;
    let session = SessionInfo::from_record(record)?;
    let damaged = || StoreError::Damaged("a session names no memory");
    let memory_ref = MemoryRef::parse(&session.memory_ref).ok_or_else(damaged)?;
    let id = SessionId::parse(&session.session_id).ok_or_else(damaged)?;
    let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
    if session.state == SessionState::Open {
        let idle_ms = engine
            .parts
            .profiles
            .for_memory(&memory_ref)
            .session_idle_ms;
        if !engine.is_idle(&scope, &session, idle_ms, now).await? {
            let session = SessionInfo {
                activity_at: now.0,
                ..session
            };
            let batch = Batch::new(tenant.clone(), now).fenced(fence);
            let next = Some(now.plus_ms(idle_ms));
            let batch = engine
                .set_session(
                    tenant,
                    batch,
                    &session,
                    Precondition::Version(version),
                    next,
                )
                .await?;
            engine.parts.store.commit(batch).await?;
            return Ok(false);
        }
        engine
            .move_to_closing(tenant, session, version, None)
            .await?;
    }
    engine.finish_session(tenant, &memory_ref, &id).await?;
    Ok(true)
}
