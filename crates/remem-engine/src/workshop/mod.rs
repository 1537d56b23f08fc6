//! Puts into workshop memories, which have sessions and slots: the draft is adapted to the memory's
//! profile, joins a session, and may replace the current answer of its slot. All of it is one
//! commit, tried again after a conflict. Nothing is stored here except through that commit.

mod pii;
pub(crate) mod placement;

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::write::WriteRules;
use placement::{DraftPlacement, SlotPlanner};
use remem_core::sabotage;
use remem_core::{
    Admitted, Batch, Draft, Entry, EntryId, Idempotency, Scope, TenantId, Tier, Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult, StoreError};

/// How often a put is planned again because a slot or session has changed meanwhile.
const COMMIT_TRIES: usize = 8;

/// The outcome of one draft of a put.
pub(crate) enum PutOutcome {
    /// A new entry is stored.
    New(Box<Admitted>),
    /// An existing entry states the same.
    Same(Box<Entry>),
}

impl Engine {
    /// Adapts drafts to the memory's profile, and masks personal data where the profile requires
    /// it.
    pub(crate) async fn shape_drafts(
        &self,
        caller: &Caller,
        scope: &Scope,
        drafts: Vec<Draft>,
        rules: &WriteRules<'_>,
        now: Timestamp,
    ) -> Result<Vec<Draft>, EngineError> {
        let profile = rules.profile;
        let shape = |mut draft: Draft| {
            if profile.non_mirror {
                // Redact secrets first: a mask in the middle of one would hide it from detection.
                draft.content = rules
                    .redaction
                    .redactor()
                    .clean(&draft.content, rules.policy.shapes)
                    .text
                    .into_string();
                sabotage!(
                    "personal-data-is-kept",
                    draft = self.mask_pii(&scope.tenant, draft)?
                );
            }
            Ok::<_, EngineError>(profile.complete_draft(draft, caller.principal().as_str(), now)?)
        };
        self.parts
            .cpu
            .each(&scope.tenant, drafts, cpu::draft_bytes, shape)
            .await
    }

    /// Whether no draft needs a session or a slot, so that each is only stored as a row.
    pub(crate) fn need_no_placement(drafts: &[Draft]) -> bool {
        drafts
            .iter()
            .all(|draft| draft.tier == Tier::Persistent && draft.facets.slot.is_none())
    }

    /// Stores drafts that join a session or have a slot, with `now` or, after a conflict, a later
    /// instant.
    pub(crate) async fn put_with_placement(
        &self,
        caller: &Caller,
        scope: &Scope,
        rules: &WriteRules<'_>,
        drafts: &[Draft],
        idempotency: Option<Idempotency>,
        mut now: Timestamp,
    ) -> Result<(Vec<PutOutcome>, CommitResult), EngineError> {
        for _ in 0..COMMIT_TRIES {
            let batch = Batch::new(scope.tenant.clone(), now)
                .with_principal(caller.principal().clone())
                .idempotent(idempotency.clone());
            let (batch, outcomes) = self.plan_put(scope, rules, drafts, batch, now).await?;
            match self.parts.store.commit(batch).await {
                Ok(committed) => return Ok((outcomes, committed)),
                Err(StoreError::Conflict) => now = self.now_for(&scope.tenant).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// Plans a put: the session that it joins, the entries that it closes, and one change for each
    /// draft.
    async fn plan_put(
        &self,
        scope: &Scope,
        rules: &WriteRules<'_>,
        drafts: &[Draft],
        mut batch: Batch,
        now: Timestamp,
    ) -> Result<(Batch, Vec<PutOutcome>), EngineError> {
        let mut drafts = drafts.to_vec();
        if drafts.iter().any(|draft| draft.tier != Tier::Persistent) {
            let join = self.plan_session_join(scope, rules.profile, now).await?;
            for draft in drafts
                .iter_mut()
                .filter(|draft| draft.tier != Tier::Persistent)
            {
                draft.facets.session = Some(join.session.clone());
            }
            batch = self.join_session(&scope.tenant, batch, join).await?;
        }
        let mut slots = SlotPlanner::new(self, scope);
        let mut planned = Vec::new();
        let mut outcomes = Vec::new();
        let mut admissible = Vec::new();
        for draft in drafts {
            let id = self.parts.ids.entry();
            match slots.place(&id, draft, now).await? {
                DraftPlacement::Same(entry, evidence) => {
                    batch = batch.expect_entry(
                        scope.memory_ref.clone(),
                        entry.id.clone(),
                        entry.visible.from,
                    );
                    planned.push(PlannedPut::Same(entry, evidence));
                }
                DraftPlacement::Put { draft, close } => {
                    for (replaced, closing) in close {
                        batch = batch.close(
                            scope.memory_ref.clone(),
                            replaced,
                            closing,
                            Some(id.clone()),
                        );
                    }
                    admissible.push(*draft);
                    planned.push(PlannedPut::Put(id));
                }
            }
        }
        let mut admitted = self.admit(scope, admissible, rules, now).await?.into_iter();
        for put in planned {
            batch = match put {
                PlannedPut::Same(entry, evidence) => {
                    let next =
                        batch.set_evidence(scope.memory_ref.clone(), entry.id.clone(), evidence);
                    outcomes.push(PutOutcome::Same(entry));
                    next
                }
                PlannedPut::Put(id) => {
                    let Some(draft) = admitted.next() else {
                        continue;
                    };
                    outcomes.push(PutOutcome::New(Box::new(draft.clone())));
                    batch.put(id, draft)
                }
            };
        }
        Ok((batch, outcomes))
    }

    /// The entries of a put, in the order of the drafts. A replay gives the first answer again;
    /// there, a draft whose change stored nothing was stated before.
    pub(crate) fn entries_of_put(
        outcomes: Vec<PutOutcome>,
        committed: &CommitResult,
    ) -> Vec<Entry> {
        let first = committed.outcomes.len().saturating_sub(outcomes.len());
        let entries = outcomes
            .into_iter()
            .zip(&committed.outcomes[first..])
            .filter_map(|(put_outcome, outcome)| match (put_outcome, outcome) {
                (PutOutcome::New(draft), ChangeOutcome::Stored { id, created_at }) => Some(
                    crate::write::entry_from_admitted(*draft, id, *created_at, committed.revision),
                ),
                (PutOutcome::Same(entry), ChangeOutcome::Stored { id, .. }) => Some(Entry {
                    id: id.clone(),
                    ..*entry
                }),
                (PutOutcome::Same(entry), _) => Some(*entry),
                (PutOutcome::New(_), _) => None,
            });
        entries.collect()
    }

    /// The pseudonym of personal data: a keyed digest, the same everywhere in a tenant and
    /// different in every other.
    pub(crate) fn pseudonym(&self, tenant: &TenantId, kind: &str, normal: &str) -> String {
        let key = blake3::keyed_hash(
            &self.parts.host_key.derive("remembrancer pseudonym v1"),
            tenant.as_str().as_bytes(),
        );
        blake3::keyed_hash(key.as_bytes(), format!("{kind}:{normal}").as_bytes()).to_hex()[..8]
            .to_owned()
    }
}

/// A planned change for one draft: evidence for an existing entry, or a new entry.
enum PlannedPut {
    Same(Box<Entry>, remem_core::Evidence),
    Put(EntryId),
}
