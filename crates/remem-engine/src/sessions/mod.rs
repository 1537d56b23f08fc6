//! Sessions of a memory. One is open at a time: it opens with the first write that belongs to it,
//! and ends when it was idle for too long or a caller closes it. This file owns the records
//! (`open/…`, `closing/…`, `closed/…`); what is kept beyond a session is decided in `close`.

pub(crate) mod close;
mod patterns;
mod threads;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::SessionRef;
use remem_core::sabotage;
use remem_core::{
    Batch, EventBody, MemoryRef, Permission, Precondition, Profile, Record, RecordKind,
    RecordLinks, Scope, SessionId, StoredRecord, TenantId, Timestamp,
};
use remem_store::{Filter, Page, ReadAt, StoreError};
use serde::{Deserialize, Serialize};

/// How often the time of the last activity is recorded, at most; in between, the newest entry shows
/// it.
const ACTIVITY_INTERVAL_MS: i64 = 3_600_000;
const UNREADABLE: &str = "a session cannot be read";

/// A session of a memory, as its record stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The memory that the session belongs to.
    pub memory_ref: String,
    /// The id of the session.
    pub session_id: String,
    /// When the session was opened, in milliseconds.
    pub opened_at: i64,
    /// The last recorded activity, in milliseconds.
    pub activity_at: i64,
    /// Whether it is open, closing or closed.
    pub state: SessionState,
    /// Whether what outlasts the session has been promoted.
    #[serde(default)]
    pub compounded: bool,
    /// The instant when closing was completed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<i64>,
    /// Number of patterns and claims that were promoted beyond the session.
    #[serde(default)]
    pub promoted: u64,
    /// Number of entries that ended with the session.
    #[serde(default)]
    pub ended: u64,
    /// Number of entries that stay because an action refers to them.
    #[serde(default)]
    pub kept: u64,
}

/// The state of a session, from open to closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Writes join the session.
    Open,
    /// Writes open another session; this one's entries are being promoted or ended.
    Closing,
    /// The session is over, and its entries have ended.
    Closed,
}

impl SessionState {
    /// The stable name in records and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Open => "open",
            SessionState::Closing => "closing",
            SessionState::Closed => "closed",
        }
    }
}

impl StoredRecord for SessionInfo {
    const KIND: RecordKind = RecordKind::Session;

    /// The key of the session's record, which depends on its state.
    fn key(&self) -> String {
        let memory = memory_key(&self.memory_ref);
        match self.state {
            SessionState::Open => format!("open/{memory}"),
            SessionState::Closing => format!("closing/{memory}/{}", self.session_id),
            SessionState::Closed => format!("closed/{memory}/{}", self.session_id),
        }
    }
}

impl SessionInfo {
    /// Reads a session from its record.
    pub(crate) fn from_record(record: Record) -> Result<SessionInfo, StoreError> {
        SessionInfo::read(&record).ok_or(StoreError::Damaged(UNREADABLE))
    }

    /// The session as events refer to it.
    fn to_ref(&self) -> SessionRef {
        SessionRef {
            memory_ref: self.memory_ref.clone(),
            session_id: self.session_id.clone(),
        }
    }

    /// The keys that the record is found by: the session's id until it is closed, and the instant
    /// at which the session must be processed.
    fn ties_until(&self, due: Option<Timestamp>) -> RecordLinks {
        let topic = (self.state != SessionState::Closed).then(|| self.session_id.clone());
        RecordLinks {
            due,
            topic,
            ..RecordLinks::default()
        }
    }
}

/// A digest for use in keys, since names of memories may be longer than a key may be.
fn memory_key(memory_ref: &str) -> String {
    blake3::hash(memory_ref.as_bytes()).to_hex()[..32].to_owned()
}

/// How a put affects the sessions of its memory.
pub(crate) struct SessionJoin {
    /// The session that the put joins.
    pub session: SessionId,
    /// The open session and the version of its record, if there is one.
    open: Option<(SessionInfo, u64)>,
    action: JoinAction,
    now: Timestamp,
    idle_ms: i64,
    memory_ref: MemoryRef,
}

/// The changes to sessions that a put has to write.
enum JoinAction {
    /// Join the open session as it is.
    Keep,
    /// Join the open session and record the time of the activity.
    RecordActivity,
    /// Open a new session: there is none, or it was idle for too long.
    OpenNew,
}

impl Engine {
    /// Decides which session a write joins now, and whether that opens a new one.
    pub(crate) async fn plan_session_join(
        &self,
        scope: &Scope,
        profile: &Profile,
        now: Timestamp,
    ) -> Result<SessionJoin, EngineError> {
        let found = self
            .find_open_session(&scope.tenant, &scope.memory_ref)
            .await?;
        let idle_ms = profile.session_idle_ms;
        let next = match &found {
            None => JoinAction::OpenNew,
            Some((session, _))
                if sabotage!(
                    "a-session-rests-for-ever",
                    self.is_idle(scope, session, idle_ms, now).await?,
                    false
                ) =>
            {
                JoinAction::OpenNew
            }
            Some((session, _))
                if now.0.saturating_sub(session.activity_at) >= ACTIVITY_INTERVAL_MS =>
            {
                JoinAction::RecordActivity
            }
            Some(_) => JoinAction::Keep,
        };
        let session = match (&next, &found) {
            (JoinAction::Keep | JoinAction::RecordActivity, Some((session, _))) => {
                SessionId::parse(&session.session_id)
            }
            _ => SessionId::parse(&format!(
                "ses_{}",
                self.parts.ids.entry().as_str().trim_start_matches("mem_")
            )),
        };
        let session = session.ok_or(StoreError::Damaged(UNREADABLE))?;
        Ok(SessionJoin {
            session,
            open: found,
            action: next,
            now,
            idle_ms,
            memory_ref: scope.memory_ref.clone(),
        })
    }

    /// Adds to a batch what its put changes in the sessions of its memory. If the session is closed
    /// meanwhile, the commit conflicts.
    pub(crate) async fn join_session(
        &self,
        tenant: &TenantId,
        batch: Batch,
        join: SessionJoin,
    ) -> Result<Batch, EngineError> {
        let open = SessionInfo::opened(&join.memory_ref, &join.session, join.now);
        let due = Some(join.now.plus_ms(join.idle_ms));
        let batch = match (join.action, join.open) {
            (JoinAction::Keep, Some((session, version))) => {
                return Ok(sabotage!(
                    "a-closed-session-is-written-to",
                    batch.expect_record(
                        RecordKind::Session,
                        session.key(),
                        Precondition::Version(version)
                    ),
                    batch
                ));
            }
            (JoinAction::RecordActivity, Some((session, version))) => {
                let session = SessionInfo {
                    activity_at: join.now.0,
                    ..session
                };
                return self
                    .set_session(tenant, batch, &session, Precondition::Version(version), due)
                    .await;
            }
            (_, Some((session, version))) => {
                let batch = self
                    .set_session(tenant, batch, &open, Precondition::Version(version), due)
                    .await?;
                self.add_closing(tenant, batch, session, join.now).await?
            }
            (_, None) => {
                self.set_session(tenant, batch, &open, Precondition::Absent, due)
                    .await?
            }
        };
        Ok(batch.emit(EventBody::SessionOpened(open.to_ref())))
    }

    /// Adds the closing of a session to a batch.
    async fn add_closing(
        &self,
        tenant: &TenantId,
        batch: Batch,
        session: SessionInfo,
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        let session = SessionInfo {
            state: SessionState::Closing,
            ..session
        };
        let batch = self
            .set_session(tenant, batch, &session, Precondition::None, Some(now))
            .await?;
        Ok(batch.emit(EventBody::SessionClosing(session.to_ref())))
    }

    /// Adds the write of a session's record to a batch.
    pub(crate) async fn set_session(
        &self,
        tenant: &TenantId,
        batch: Batch,
        session: &SessionInfo,
        precondition: Precondition,
        due: Option<Timestamp>,
    ) -> Result<Batch, EngineError> {
        let rules = self.redaction_rules(tenant).await?;
        // A session holds only ids and numbers; it is redacted like everything that is stored.
        let policy = self.policy_for(tenant).await?;
        let body = rules.admission(&policy, batch.at()).redact_stored(session);
        Ok(batch.set_record_with_ties(
            RecordKind::Session,
            session.key(),
            precondition,
            body,
            session.ties_until(due),
        ))
    }

    /// The open session of a memory, with the version of its record.
    async fn find_open_session(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
    ) -> Result<Option<(SessionInfo, u64)>, EngineError> {
        let key = format!("open/{}", memory_key(memory_ref.as_str()));
        let Some(record) = self
            .parts
            .store
            .record(tenant, RecordKind::Session, &key)
            .await?
        else {
            return Ok(None);
        };
        let version = record.version;
        Ok(Some((SessionInfo::from_record(record)?, version)))
    }

    /// Whether the session was idle for `idle_ms`. The newest entry counts as well, since the
    /// recorded activity may be older.
    pub(crate) async fn is_idle(
        &self,
        scope: &Scope,
        session: &SessionInfo,
        idle_ms: i64,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let is_past = |since: i64| now.0.saturating_sub(since) >= idle_ms;
        if !is_past(session.activity_at) {
            return Ok(false);
        }
        let filter = Filter {
            session: SessionId::parse(&session.session_id),
            ..Filter::default()
        };
        let page = Page {
            limit: 1,
            after: None,
        };
        let newest = self
            .parts
            .store
            .list(&scope.clone().as_host(), &filter, &page, &ReadAt::Now(now))
            .await?;
        Ok(newest
            .first()
            .is_none_or(|entry| is_past(entry.created_at.0)))
    }

    /// Returns the sessions of a memory, the open one first, then the newest.
    pub async fn list_sessions(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<Vec<SessionInfo>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(Vec::new());
        };
        let memory = memory_key(scope.memory_ref.as_str());
        let mut found = Vec::new();
        for prefix in [
            format!("open/{memory}"),
            format!("closing/{memory}/"),
            format!("closed/{memory}/"),
        ] {
            for record in self
                .parts
                .store
                .records(
                    caller.tenant(),
                    RecordKind::Session,
                    &prefix,
                    None,
                    SESSIONS_MAX,
                )
                .await?
            {
                found.push(SessionInfo::from_record(record)?);
            }
        }
        found.sort_by_key(|session| {
            (
                session.state != SessionState::Open,
                std::cmp::Reverse(session.opened_at),
            )
        });
        Ok(found)
    }

    /// Closes the open session of a memory, promotes what outlasts it, and returns its final state.
    pub async fn close_session(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<SessionInfo, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller
            .scope(memory_ref)
            .ok_or(EngineError::NotFound("session"))?;
        let (session, version) = self
            .find_open_session(caller.tenant(), &scope.memory_ref)
            .await?
            .ok_or(EngineError::NotFound("session"))?;
        self.move_to_closing(caller.tenant(), session.clone(), version, Some(caller))
            .await?;
        let id = SessionId::parse(&session.session_id).ok_or(StoreError::Damaged(UNREADABLE))?;
        self.finish_session(caller.tenant(), &scope.memory_ref, &id)
            .await
    }

    /// Moves an open session to closing; the next write opens another one.
    pub(crate) async fn move_to_closing(
        &self,
        tenant: &TenantId,
        session: SessionInfo,
        version: u64,
        caller: Option<&Caller>,
    ) -> Result<(), EngineError> {
        let now = self.now_for(tenant).await?;
        let mut batch = Batch::new(tenant.clone(), now).delete_record(
            RecordKind::Session,
            session.key(),
            Precondition::Version(version),
        );
        if let Some(caller) = caller {
            batch = batch.with_principal(caller.principal().clone());
        }
        let batch = self.add_closing(tenant, batch, session, now).await?;
        self.parts.store.commit(batch).await?;
        Ok(())
    }
}

/// Sessions of each state that a list shows, at most.
const SESSIONS_MAX: u32 = 1_000;

impl SessionInfo {
    /// A new session that opens now.
    fn opened(memory_ref: &MemoryRef, id: &SessionId, now: Timestamp) -> SessionInfo {
        SessionInfo {
            memory_ref: memory_ref.as_str().to_owned(),
            session_id: id.as_str().to_owned(),
            opened_at: now.0,
            activity_at: now.0,
            state: SessionState::Open,
            compounded: false,
            closed_at: None,
            promoted: 0,
            ended: 0,
            kept: 0,
        }
    }
}
