//! The end of a session: patterns and corroborated claims become persistent in one commit, then
//! everything else ends page by page. Each step depends on the session's record being as it was
//! read, so a node that slept finds itself too late, and a step that was done is not done again:
//! names of what is made are digests of the session and the text.

use super::{Session, State, UNREADABLE};
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::workshop::place::{Placed, Slots, plain_slot};
use remem_core::event::SessionClosed;
use remem_core::promote::promotes;
use remem_core::sabotage;
use remem_core::{
    Batch, Draft, Entry, EntryId, EventBody, Facets, MemoryRef, Precondition, Profile, RecordKind,
    Scope, SessionId, TenantId, Tier, Timestamp, Typology,
};
use remem_store::{Filter, Outcome, Page, Position, ReadAt, StoreError};

/// Entries of a session that are read for patterns: the newest. All of them end with it.
const ENTRIES_MAX: usize = 10_000;
/// Entries of one page.
const PAGE: u32 = 500;
/// How often a step is tried when somebody else was first.
const TRIES: usize = 4;

impl Engine {
    /// Works a session that is closing off; whoever comes second finds the work done.
    pub(crate) async fn finish_session(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        id: &SessionId,
    ) -> Result<Session, EngineError> {
        let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
        let mut raced = 0;
        loop {
            let Some((session, version)) = self.session_record(&scope, id, State::Closing).await?
            else {
                let closed = self.session_record(&scope, id, State::Closed).await?;
                return Ok(closed.ok_or(EngineError::NotFound("session"))?.0);
            };
            let step = if session.compounded {
                self.end_entries(&scope, session, version).await
            } else {
                self.compound_session(&scope, session, version).await
            };
            match step {
                Ok(()) => {}
                Err(EngineError::Store(StoreError::Conflict)) if raced < TRIES => raced += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn session_record(
        &self,
        scope: &Scope,
        id: &SessionId,
        state: State,
    ) -> Result<Option<(Session, u64)>, EngineError> {
        let key = Session {
            state,
            ..Session::opened(&scope.memory_ref, id, Timestamp(0))
        }
        .key();
        let Some(record) = self
            .parts
            .store
            .record(&scope.tenant, RecordKind::Session, &key)
            .await?
        else {
            return Ok(None);
        };
        let version = record.version;
        Ok(Some((Session::read(record)?, version)))
    }

    /// What hangs on a session (or on one of its chat threads), newest first.
    pub(super) async fn entries_of(
        &self,
        scope: &Scope,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<Vec<Entry>, EngineError> {
        let mut found = Vec::new();
        let mut after = None;
        while found.len() < ENTRIES_MAX {
            let page = self
                .parts
                .store
                .list(
                    scope,
                    filter,
                    &Page { limit: PAGE, after },
                    &ReadAt::Now(now),
                )
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(Position {
                created_at: last.created_at,
                id: last.id.clone(),
            });
            found.extend(page);
        }
        Ok(found)
    }

    /// One commit: what outlasts the session, and that this was done.
    async fn compound_session(
        &self,
        scope: &Scope,
        session: Session,
        version: u64,
    ) -> Result<(), EngineError> {
        let tenant = &scope.tenant;
        let now = self.now_for(tenant).await?;
        let profile = self.parts.profiles.of(&scope.memory_ref).clone();
        let id = SessionId::parse(&session.session_id).ok_or(StoreError::Damaged(UNREADABLE))?;
        let filter = Filter {
            session: Some(id.clone()),
            ..Filter::default()
        };
        let entries = self.entries_of(scope, &filter, now).await?;
        let work = || {
            let mut lasting = super::patterns::of_session(&entries);
            lasting.extend(claims(&entries, &profile));
            lasting
        };
        let size = entries.iter().map(cpu::of_entry).sum();
        let lasting = self.parts.cpu.run(tenant, size, work).await?;
        let mut promoted = 0;
        let mut batch = Batch::new(tenant.clone(), now);
        let mut slots = Slots::new(self, scope);
        for one in lasting {
            if self.restates_a_rule(tenant, &one.draft).await? {
                continue;
            }
            let name = made_id(scope, &id, &one);
            if self.parts.store.lineage(scope, &name).await?.is_some() {
                continue; // made before, by a step whose record was lost sight of
            }
            promoted += 1;
            batch = self
                .add_lasting(scope, batch, &mut slots, (name, one), now)
                .await?;
        }
        // Nothing is added any more, so this is how many there are; how many of them stay is known
        // at the end.
        let ended = entries
            .iter()
            .filter(|entry| entry.tier != Tier::Persistent)
            .count() as u64;
        let session = Session {
            compounded: true,
            promoted,
            ended,
            ..session
        };
        let batch = self
            .set_session(
                tenant,
                batch,
                &session,
                Precondition::Version(version),
                Some(now),
            )
            .await?;
        self.parts.store.commit(batch).await?;
        Ok(())
    }

    pub(super) async fn add_lasting(
        &self,
        scope: &Scope,
        mut batch: Batch,
        slots: &mut Slots<'_>,
        (name, one): (EntryId, Lasting),
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        match slots.place(&name, one.draft, now).await? {
            Placed::Same(entry, evidence) => Ok(batch
                .expect(
                    scope.memory_ref.clone(),
                    entry.id.clone(),
                    entry.visible.from,
                )
                .strengthen(scope.memory_ref.clone(), entry.id.clone(), evidence)),
            Placed::Put { draft, close } => {
                for (gone, closing) in close {
                    batch =
                        batch.close(scope.memory_ref.clone(), gone, closing, Some(name.clone()));
                }
                // Derived text passes where every text passes.
                let rules = self.rules(&scope.tenant).await?;
                let policy = sabotage!(
                    "a-session-is-closed-by-other-limits",
                    self.policy_for(&scope.tenant).await?,
                    remem_core::Policy::default()
                );
                let admission = rules.admission(&policy, now);
                let size = cpu::of_draft(&draft);
                let admit = || admission.admit(scope, *draft);
                let cpu = &self.parts.cpu;
                let admitted = cpu.run(&scope.tenant, size, admit).await??;
                let sources = one
                    .sources
                    .into_iter()
                    .map(|source| (scope.memory_ref.clone(), source))
                    .collect();
                Ok(batch.put_from(name, admitted, sources))
            }
        }
    }

    async fn restates_a_rule(&self, tenant: &TenantId, draft: &Draft) -> Result<bool, EngineError> {
        if draft.typology != Typology::Semantic {
            return Ok(false);
        }
        sabotage!(
            "statements-restate-rules-when-they-are-promoted",
            Ok(self
                .parts
                .store
                .shadowed(tenant, &draft.facets.world, &draft.content)
                .await?
                .is_some()),
            Ok(false
                && self
                    .parts
                    .store
                    .shadowed(tenant, &draft.facets.world, &draft.content)
                    .await?
                    .is_some())
        )
    }

    /// Ends what hangs on the session, and closes it for good once nothing does but what actions
    /// rest on.
    async fn end_entries(
        &self,
        scope: &Scope,
        session: Session,
        version: u64,
    ) -> Result<(), EngineError> {
        let tenant = &scope.tenant;
        let now = self.now_for(&scope.tenant).await?;
        let filter = Filter {
            session: SessionId::parse(&session.session_id),
            ..Filter::default()
        };
        let mut after = None;
        let mut kept = 0;
        let mut gone = 0;
        loop {
            let page = self
                .parts
                .store
                .list(
                    scope,
                    &filter,
                    &Page { limit: PAGE, after },
                    &ReadAt::Now(now),
                )
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(Position {
                created_at: last.created_at,
                id: last.id.clone(),
            });
            let transient = page.iter().filter(|entry| entry.tier != Tier::Persistent);
            let empty = Batch::new(tenant.clone(), now).expect_record(
                RecordKind::Session,
                session.key(),
                Precondition::Version(version),
            );
            let batch = transient.fold(empty, |batch, entry| {
                batch.end(scope.memory_ref.clone(), entry.id.clone())
            });
            let outcomes = self.parts.store.commit(batch).await?.outcomes;
            let removed = outcomes
                .iter()
                .filter(|outcome| **outcome == Outcome::Removed)
                .count() as u64;
            gone += removed;
            kept += outcomes.len() as u64 - removed;
        }
        // Those that ended before a crash are not seen again; a session larger than what was read
        // has more than were counted.
        let ended = session.ended.saturating_sub(kept).max(gone);
        let batch = Batch::new(tenant.clone(), now).unset(
            RecordKind::Session,
            session.key(),
            Precondition::Version(version),
        );
        let session = Session {
            state: State::Closed,
            closed_at: Some(now.0),
            ended,
            kept,
            ..session
        };
        let told = SessionClosed {
            memory_ref: session.memory_ref.clone(),
            session_id: session.session_id.clone(),
            promoted: session.promoted,
            ended: session.ended,
            kept,
        };
        let batch = self
            .set_session(tenant, batch, &session, Precondition::None, None)
            .await?;
        self.parts
            .store
            .commit(batch.emit(EventBody::SessionClosed(told)))
            .await?;
        Ok(())
    }
}

/// Something that outlasts its session.
pub(super) struct Lasting {
    pub draft: Draft,
    pub sources: Vec<EntryId>,
}

/// Named by where it comes from and what it says: who works it out again meets it.
pub(super) fn made_id(scope: &Scope, session: &SessionId, one: &Lasting) -> EntryId {
    let mut hasher = blake3::Hasher::new_derive_key("remembrancer made entry v1");
    let slot = one.draft.facets.slot.as_deref().unwrap_or("");
    for part in [
        scope.tenant.as_str(),
        scope.memory_ref.as_str(),
        session.as_str(),
        one.draft.typology.as_str(),
        slot,
        &one.draft.content,
    ] {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    EntryId::parse(&sabotage!(
        "compounding-makes-it-twice",
        format!("mem_{}", &hasher.finalize().to_hex()[..32]),
        format!("mem_{:p}{}", one, &hasher.finalize().to_hex()[..32])
    ))
    .expect("a short name of letters and digits")
}

/// Claims and procedures of the session that enough speaks for. Their texts stay as they are.
fn claims(entries: &[Entry], profile: &Profile) -> Vec<Lasting> {
    let of_session = entries
        .iter()
        .filter(|entry| entry.tier == Tier::Session && entry.typology != Typology::Episodic);
    let lasts =
        |entry: &&Entry| promotes(&entry.facets.evidence, true, profile.promotion_units).is_ok();
    of_session
        .filter(lasts)
        .map(|entry| lasting_of(entry, Tier::Persistent))
        .collect()
}

fn lasting_of(entry: &Entry, tier: Tier) -> Lasting {
    let facets = Facets {
        session: None,
        interaction: None,
        slot: entry
            .facets
            .slot
            .as_deref()
            .map(|slot| plain_slot(entry.facets.session.as_ref(), slot).to_owned()),
        ..entry.facets.clone()
    };
    let draft = Draft {
        content: entry.content.clone(),
        tags: entry.tags.clone(),
        metadata: entry.metadata.clone(),
        expires_at: entry.expires_at,
        tier,
        typology: entry.typology,
        facets,
        ..Draft::default()
    };
    Lasting {
        draft,
        sources: vec![entry.id.clone()],
    }
}
