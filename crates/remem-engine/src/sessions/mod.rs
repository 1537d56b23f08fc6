//! Sessions of a memory: one is open at a time, begins with the first thing that hangs on it, and
//! is over when it rests too long or somebody says so. This file owns the records (`open/…`,
//! `closing/…`, `closed/…`); what outlasts a session is worked out in `close`.

pub(crate) mod close;
mod patterns;
mod threads;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::SessionRef;
use remem_core::sabotage;
use remem_core::{
    Batch, EventBody, MemoryRef, Permission, Precondition, Profile, Record, RecordKind, Scope,
    SessionId, TenantId, Ties, Timestamp,
};
use remem_store::{Filter, Page, ReadAt, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Activity is noted this often at the most; in between, the newest entry tells of it.
const NOTE_EVERY_MS: i64 = 3_600_000;
const UNREADABLE: &str = "a session cannot be read";

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its memory.
    pub memory_ref: String,
    /// Its name.
    pub session_id: String,
    /// When it began.
    pub opened_at: i64,
    /// When something last happened in it, as far as was noted.
    pub activity_at: i64,
    /// `open`, `closing` or `closed`.
    pub state: State,
    /// What outlasts it was worked out.
    #[serde(default)]
    pub compounded: bool,
    /// When it was over for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<i64>,
    /// Patterns and claims that outlast it.
    #[serde(default)]
    pub promoted: u64,
    /// Entries that ended with it.
    #[serde(default)]
    pub ended: u64,
    /// Entries that an action rests on, and that stay.
    #[serde(default)]
    pub kept: u64,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Things happen in it.
    Open,
    /// It is over, and what outlasts it is being worked out.
    Closing,
    /// It is over.
    Closed,
}

impl State {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Closing => "closing",
            State::Closed => "closed",
        }
    }
}

impl Session {
    pub(crate) fn read(record: Record) -> Result<Session, StoreError> {
        serde_json::from_value(Value::Object(record.body))
            .map_err(|_| StoreError::Damaged(UNREADABLE))
    }

    fn key(&self) -> String {
        let memory = memory_key(&self.memory_ref);
        match self.state {
            State::Open => format!("open/{memory}"),
            State::Closing => format!("closing/{memory}/{}", self.session_id),
            State::Closed => format!("closed/{memory}/{}", self.session_id),
        }
    }

    fn reference(&self) -> SessionRef {
        SessionRef {
            memory_ref: self.memory_ref.clone(),
            session_id: self.session_id.clone(),
        }
    }

    /// Found by its name as long as entries hang on it, and due when it has to be looked at.
    fn ties(&self, due: Option<Timestamp>) -> Ties {
        let topic = (self.state != State::Closed).then(|| self.session_id.clone());
        Ties {
            due,
            topic,
            ..Ties::default()
        }
    }
}

/// Names of memories may be longer than those of records.
fn memory_key(memory_ref: &str) -> String {
    blake3::hash(memory_ref.as_bytes()).to_hex()[..32].to_owned()
}

/// What a put does to the sessions of its memory.
pub(crate) struct Turn {
    /// What the put hangs on.
    pub session: SessionId,
    /// The record as it is; none if there is none.
    found: Option<(Session, u64)>,
    next: Next,
    now: Timestamp,
    idle_ms: i64,
    memory_ref: MemoryRef,
}

enum Next {
    /// Goes on.
    Keep,
    /// Goes on, and it is noted when.
    Note,
    /// There was none, or it rests for too long.
    Open,
}

impl Engine {
    /// The session that something written now hangs on.
    pub(crate) async fn session_turn(
        &self,
        scope: &Scope,
        profile: &Profile,
        now: Timestamp,
    ) -> Result<Turn, EngineError> {
        let found = self.open_session(&scope.tenant, &scope.memory_ref).await?;
        let idle_ms = profile.session_idle_ms;
        let next = match &found {
            None => Next::Open,
            Some((session, _))
                if sabotage!(
                    "a-session-rests-for-ever",
                    self.is_idle(scope, session, idle_ms, now).await?,
                    false
                ) =>
            {
                Next::Open
            }
            Some((session, _)) if now.0.saturating_sub(session.activity_at) >= NOTE_EVERY_MS => {
                Next::Note
            }
            Some(_) => Next::Keep,
        };
        let session = match (&next, &found) {
            (Next::Keep | Next::Note, Some((session, _))) => SessionId::parse(&session.session_id),
            _ => SessionId::parse(&format!(
                "ses_{}",
                self.parts.ids.entry().as_str().trim_start_matches("mem_")
            )),
        };
        let session = session.ok_or(StoreError::Damaged(UNREADABLE))?;
        Ok(Turn {
            session,
            found,
            next,
            now,
            idle_ms,
            memory_ref: scope.memory_ref.clone(),
        })
    }

    /// Adds to a batch what its put does to the sessions of its memory. Whoever closes the session
    /// meanwhile makes it fail.
    pub(crate) async fn join_session(
        &self,
        tenant: &TenantId,
        batch: Batch,
        turn: Turn,
    ) -> Result<Batch, EngineError> {
        let open = Session::opened(&turn.memory_ref, &turn.session, turn.now);
        let due = Some(turn.now.plus_ms(turn.idle_ms));
        let batch = match (turn.next, turn.found) {
            (Next::Keep, Some((session, version))) => {
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
            (Next::Note, Some((session, version))) => {
                let session = Session {
                    activity_at: turn.now.0,
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
                self.begin_closing(tenant, batch, session, turn.now).await?
            }
            (_, None) => {
                self.set_session(tenant, batch, &open, Precondition::Absent, due)
                    .await?
            }
        };
        Ok(batch.emit(EventBody::SessionOpened(open.reference())))
    }

    async fn begin_closing(
        &self,
        tenant: &TenantId,
        batch: Batch,
        session: Session,
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        let session = Session {
            state: State::Closing,
            ..session
        };
        let batch = self
            .set_session(tenant, batch, &session, Precondition::None, Some(now))
            .await?;
        Ok(batch.emit(EventBody::SessionClosing(session.reference())))
    }

    pub(crate) async fn set_session(
        &self,
        tenant: &TenantId,
        batch: Batch,
        session: &Session,
        wanted: Precondition,
        due: Option<Timestamp>,
    ) -> Result<Batch, EngineError> {
        let rules = self.rules(tenant).await?;
        let body = if let Value::Object(map) = json!(session) {
            map
        } else {
            Map::new()
        };
        // Names and numbers; looked at like everything that is kept.
        let policy = self.policy_for(tenant).await?;
        let body = rules.admission(&policy, batch.at()).record(body);
        Ok(batch.set_tied(
            RecordKind::Session,
            session.key(),
            wanted,
            body,
            session.ties(due),
        ))
    }

    async fn open_session(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
    ) -> Result<Option<(Session, u64)>, EngineError> {
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
        Ok(Some((Session::read(record)?, version)))
    }

    /// Whether nothing has happened in it for that long. What was noted may be older than the
    /// newest entry.
    pub(crate) async fn is_idle(
        &self,
        scope: &Scope,
        session: &Session,
        idle_ms: i64,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let rests = |since: i64| now.0.saturating_sub(since) >= idle_ms;
        if !rests(session.activity_at) {
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
        Ok(newest.first().is_none_or(|entry| rests(entry.created_at.0)))
    }

    /// The sessions of a memory, the open one first, then the newest.
    pub async fn sessions(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<Vec<Session>, EngineError> {
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
                found.push(Session::read(record)?);
            }
        }
        found.sort_by_key(|session| {
            (
                session.state != State::Open,
                std::cmp::Reverse(session.opened_at),
            )
        });
        Ok(found)
    }

    /// Ends the open session of a memory, works out what outlasts it, and answers how it ended.
    pub async fn close_session(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<Session, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller
            .scope(memory_ref)
            .ok_or(EngineError::NotFound("session"))?;
        let (session, version) = self
            .open_session(caller.tenant(), &scope.memory_ref)
            .await?
            .ok_or(EngineError::NotFound("session"))?;
        self.move_to_closing(caller.tenant(), session.clone(), version, Some(caller))
            .await?;
        let id = SessionId::parse(&session.session_id).ok_or(StoreError::Damaged(UNREADABLE))?;
        self.finish_session(caller.tenant(), &scope.memory_ref, &id)
            .await
    }

    /// The session is open no more; the next thing that happens opens another one.
    pub(crate) async fn move_to_closing(
        &self,
        tenant: &TenantId,
        session: Session,
        version: u64,
        caller: Option<&Caller>,
    ) -> Result<(), EngineError> {
        let now = self.now_for(tenant).await?;
        let mut batch = Batch::new(tenant.clone(), now).unset(
            RecordKind::Session,
            session.key(),
            Precondition::Version(version),
        );
        if let Some(caller) = caller {
            batch = batch.by(caller.principal().clone());
        }
        let batch = self.begin_closing(tenant, batch, session, now).await?;
        self.parts.store.commit(batch).await?;
        Ok(())
    }
}

/// Sessions of a memory that are shown.
const SESSIONS_MAX: u32 = 1_000;

impl Session {
    fn opened(memory_ref: &MemoryRef, id: &SessionId, now: Timestamp) -> Session {
        Session {
            memory_ref: memory_ref.as_str().to_owned(),
            session_id: id.as_str().to_owned(),
            opened_at: now.0,
            activity_at: now.0,
            state: State::Open,
            compounded: false,
            closed_at: None,
            promoted: 0,
            ended: 0,
            kept: 0,
        }
    }
}
