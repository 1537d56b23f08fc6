//! Closing a session: patterns and corroborated claims become persistent entries in one commit,
//! then everything else ends page by page. Each step depends on the session's record being
//! unchanged, so a node that was paused comes too late. A step that was done is not done again: ids
//! of the new entries are digests of the session and the text.

use super::{SessionInfo, SessionState, UNREADABLE};
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::workshop::placement::{DraftPlacement, SlotPlanner, slot_without_session};
use remem_core::event::SessionClosed;
use remem_core::promote::check_promotion;
use remem_core::sabotage;
use remem_core::{
    Batch, Draft, Entry, EntryId, EventBody, Facets, MemoryRef, Precondition, Profile, RecordKind,
    Scope, SessionId, StoredRecord, TenantId, Tier, Timestamp, Typology,
};
use remem_store::{ChangeOutcome, Filter, ListPosition, Page, ReadAt, StoreError};

/// Entries of a session that are read for patterns, the newest first. All of the session's entries
/// end with it.
const ENTRIES_MAX: usize = 10_000;
/// Entries read with one query, and ended in one transaction.
const PAGE_SIZE: u32 = 500;
/// How often a step is retried after a conflict.
const STEP_TRIES: usize = 4;

impl Engine {
    /// Completes the closing of a session. If another process has completed it, returns the closed
    /// session.
    pub(crate) async fn finish_session(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        id: &SessionId,
    ) -> Result<SessionInfo, EngineError> {
        let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
        let mut conflicts = 0;
        loop {
            let Some((session, version)) =
                self.find_session(&scope, id, SessionState::Closing).await?
            else {
                let closed = self.find_session(&scope, id, SessionState::Closed).await?;
                return Ok(closed.ok_or(EngineError::NotFound("session"))?.0);
            };
            let step = if session.compounded {
                self.end_session_entries(&scope, session, version).await
            } else {
                self.promote_from_session(&scope, session, version).await
            };
            match step {
                Ok(()) => {}
                Err(EngineError::Store(StoreError::Conflict)) if conflicts < STEP_TRIES => {
                    conflicts += 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds a session by its id, in one state, with the version of its record.
    async fn find_session(
        &self,
        scope: &Scope,
        id: &SessionId,
        state: SessionState,
    ) -> Result<Option<(SessionInfo, u64)>, EngineError> {
        let key = SessionInfo {
            state,
            ..SessionInfo::opened(&scope.memory_ref, id, Timestamp(0))
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
        Ok(Some((SessionInfo::from_record(record)?, version)))
    }

    /// Reads the entries of a session, or of one of its chat threads, newest first.
    pub(super) async fn session_entries(
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
                    &Page {
                        limit: PAGE_SIZE,
                        after,
                    },
                    &ReadAt::Now(now),
                )
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(ListPosition {
                created_at: last.created_at,
                id: last.id.clone(),
            });
            found.extend(page);
        }
        Ok(found)
    }

    /// Promotes what outlasts the session, and records that this was done, in one commit.
    async fn promote_from_session(
        &self,
        scope: &Scope,
        session: SessionInfo,
        version: u64,
    ) -> Result<(), EngineError> {
        let tenant = &scope.tenant;
        let now = self.now_for(tenant).await?;
        let profile = self.parts.profiles.for_memory(&scope.memory_ref).clone();
        let id = SessionId::parse(&session.session_id).ok_or(StoreError::Damaged(UNREADABLE))?;
        let filter = Filter {
            session: Some(id.clone()),
            ..Filter::default()
        };
        let entries = self.session_entries(scope, &filter, now).await?;
        let work = || {
            let mut lasting = super::patterns::session_patterns(&entries);
            lasting.extend(promotable_claims(&entries, &profile));
            lasting
        };
        let size = entries.iter().map(cpu::entry_bytes).sum();
        let candidates = self.parts.cpu.run(tenant, size, work).await?;
        let mut promoted = 0;
        let mut batch = Batch::new(tenant.clone(), now);
        let mut slots = SlotPlanner::new(self, scope);
        for candidate in candidates {
            if self.restates_a_rule(tenant, &candidate.draft).await? {
                continue;
            }
            let name = promoted_id(scope, &id, &candidate);
            if self.parts.store.lineage(scope, &name).await?.is_some() {
                continue; // promoted before, by a step whose record was not written
            }
            promoted += 1;
            batch = self
                .add_promoted(scope, batch, &mut slots, name, candidate, now)
                .await?;
        }
        // No entry can join any more, so this is the final count; how many of them stay is known at
        // the end.
        let ended = entries
            .iter()
            .filter(|entry| entry.tier != Tier::Persistent)
            .count() as u64;
        let session = SessionInfo {
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

    /// Adds one promoted entry to a batch, unless an equal one exists, which then gains its
    /// evidence.
    pub(super) async fn add_promoted(
        &self,
        scope: &Scope,
        mut batch: Batch,
        slots: &mut SlotPlanner<'_>,
        id: EntryId,
        promoted: PromotedEntry,
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        match slots.place(&id, promoted.draft, now).await? {
            DraftPlacement::Same(entry, evidence) => Ok(batch
                .expect_entry(
                    scope.memory_ref.clone(),
                    entry.id.clone(),
                    entry.visible.from,
                )
                .set_evidence(scope.memory_ref.clone(), entry.id.clone(), evidence)),
            DraftPlacement::Put { draft, close } => {
                for (replaced, closing) in close {
                    batch = batch.close(
                        scope.memory_ref.clone(),
                        replaced,
                        closing,
                        Some(id.clone()),
                    );
                }
                // A derived text is admitted like every other text.
                let rules = self.redaction_rules(&scope.tenant).await?;
                let policy = sabotage!(
                    "a-session-is-closed-by-other-limits",
                    self.policy_for(&scope.tenant).await?,
                    remem_core::Policy::default()
                );
                let admission = rules.admission(&policy, now);
                let size = cpu::draft_bytes(&draft);
                let admit = || admission.admit(scope, *draft);
                let cpu = &self.parts.cpu;
                let admitted = cpu.run(&scope.tenant, size, admit).await??;
                let sources = promoted
                    .sources
                    .into_iter()
                    .map(|source| (scope.memory_ref.clone(), source))
                    .collect();
                Ok(batch.put_derived(id, admitted, sources))
            }
        }
    }

    /// Whether a statement restates a rule of its world. Such a statement is not promoted.
    async fn restates_a_rule(&self, tenant: &TenantId, draft: &Draft) -> Result<bool, EngineError> {
        if draft.typology != Typology::Semantic {
            return Ok(false);
        }
        sabotage!(
            "statements-restate-rules-when-they-are-promoted",
            Ok(self
                .parts
                .store
                .restated_rule(tenant, &draft.facets.world, &draft.content)
                .await?
                .is_some()),
            Ok(false
                && self
                    .parts
                    .store
                    .restated_rule(tenant, &draft.facets.world, &draft.content)
                    .await?
                    .is_some())
        )
    }

    /// Ends the transient entries of a session, and closes the session once only entries that
    /// actions refer to are left.
    async fn end_session_entries(
        &self,
        scope: &Scope,
        session: SessionInfo,
        version: u64,
    ) -> Result<(), EngineError> {
        let tenant = &scope.tenant;
        let now = self.now_for(&scope.tenant).await?;
        let filter = Filter {
            session: SessionId::parse(&session.session_id),
            ..Filter::default()
        };
        let mut after = None;
        let mut kept_entries = 0;
        let mut ended_entries = 0;
        loop {
            let page = self
                .parts
                .store
                .list(
                    scope,
                    &filter,
                    &Page {
                        limit: PAGE_SIZE,
                        after,
                    },
                    &ReadAt::Now(now),
                )
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(ListPosition {
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
                batch.end_with_session(scope.memory_ref.clone(), entry.id.clone())
            });
            let outcomes = self.parts.store.commit(batch).await?.outcomes;
            let removed = outcomes
                .iter()
                .filter(|outcome| **outcome == ChangeOutcome::Removed)
                .count() as u64;
            ended_entries += removed;
            kept_entries += outcomes.len() as u64 - removed;
        }
        // Entries that ended before a crash are not read again, and a very large session has more
        // entries than were counted: take the larger number.
        let ended = session
            .ended
            .saturating_sub(kept_entries)
            .max(ended_entries);
        let batch = Batch::new(tenant.clone(), now).delete_record(
            RecordKind::Session,
            session.key(),
            Precondition::Version(version),
        );
        let session = SessionInfo {
            state: SessionState::Closed,
            closed_at: Some(now.0),
            ended,
            kept: kept_entries,
            ..session
        };
        let event = SessionClosed {
            memory_ref: session.memory_ref.clone(),
            session_id: session.session_id.clone(),
            promoted: session.promoted,
            ended: session.ended,
            kept: kept_entries,
        };
        let batch = self
            .set_session(tenant, batch, &session, Precondition::None, None)
            .await?;
        self.parts
            .store
            .commit(batch.emit(EventBody::SessionClosed(event)))
            .await?;
        Ok(())
    }
}

/// An entry that outlasts its session, and the entries it was made from.
pub(super) struct PromotedEntry {
    pub draft: Draft,
    pub sources: Vec<EntryId>,
}

/// The id of a promoted entry, a digest of its session and text: a repeated step makes the same id,
/// and finds the entry.
pub(super) fn promoted_id(scope: &Scope, session: &SessionId, promoted: &PromotedEntry) -> EntryId {
    let mut hasher = blake3::Hasher::new_derive_key("remembrancer made entry v1");
    let slot = promoted.draft.facets.slot.as_deref().unwrap_or("");
    for part in [
        scope.tenant.as_str(),
        scope.memory_ref.as_str(),
        session.as_str(),
        promoted.draft.typology.as_str(),
        slot,
        &promoted.draft.content,
    ] {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    EntryId::parse(&sabotage!(
        "compounding-makes-it-twice",
        format!("mem_{}", &hasher.finalize().to_hex()[..32]),
        format!("mem_{:p}{}", promoted, &hasher.finalize().to_hex()[..32])
    ))
    .expect("a short name of letters and digits")
}

/// Copies of the session's claims and procedures that have enough evidence. Their texts are
/// unchanged.
fn promotable_claims(entries: &[Entry], profile: &Profile) -> Vec<PromotedEntry> {
    let of_session = entries
        .iter()
        .filter(|entry| entry.tier == Tier::Session && entry.typology != Typology::Episodic);
    let has_evidence = |entry: &&Entry| {
        check_promotion(&entry.facets.evidence, true, profile.promotion_units).is_ok()
    };
    of_session
        .filter(has_evidence)
        .map(|entry| promoted_copy(entry, Tier::Persistent))
        .collect()
}

/// A copy of a session's entry that outlasts the session.
fn promoted_copy(entry: &Entry, tier: Tier) -> PromotedEntry {
    let facets = Facets {
        session: None,
        interaction: None,
        slot: entry
            .facets
            .slot
            .as_deref()
            .map(|slot| slot_without_session(entry.facets.session.as_ref(), slot).to_owned()),
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
    PromotedEntry {
        draft,
        sources: vec![entry.id.clone()],
    }
}
