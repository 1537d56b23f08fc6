//! What a put means where memory has sessions and slots: the draft as the memory's profile takes
//! it, the session it hangs on, the answer whose place it takes; all in one commit, tried again
//! when somebody else answered first. It may not store anything itself.

mod mask;
pub(crate) mod place;

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use place::{Placed, Slots};
use remem_core::sabotage;
use remem_core::{
    Admitted, Batch, Draft, Entry, EntryId, Idempotency, Profile, Scope, TenantId, Tier, Timestamp,
};
use remem_store::{Committed, Outcome, StoreError};

/// How often a put is worked out anew because a slot or session changed meanwhile.
const TRIES: usize = 8;

/// What becomes of a draft.
pub(crate) enum Kept {
    /// It is stored.
    New(Box<Admitted>),
    /// An entry says it already.
    Same(Box<Entry>),
}

impl Engine {
    /// The drafts as the memory takes them; `who` says it. Personal data is masked where the
    /// profile says so.
    pub(crate) async fn shape(
        &self,
        caller: &Caller,
        scope: &Scope,
        drafts: Vec<Draft>,
        now: Timestamp,
    ) -> Result<(Profile, Vec<Draft>), EngineError> {
        let profile = self.parts.profiles.of(&scope.memory_ref).clone();
        let rules = self.rules(&scope.tenant).await?;
        let policy = self.policy_of(caller);
        let shape = |mut draft: Draft| {
            if profile.non_mirror {
                // Secrets first: a mask in the middle of one would hide it from whoever looks for
                // it.
                draft.content = rules
                    .redactor()
                    .clean(&draft.content, policy.shapes)
                    .text
                    .into_string();
                sabotage!(
                    "personal-data-is-kept",
                    draft = self.without_mirrors(&scope.tenant, draft)?
                );
            }
            Ok::<_, EngineError>(profile.shape(draft, caller.principal().as_str(), now)?)
        };
        let shaped = self
            .parts
            .cpu
            .each(&scope.tenant, drafts, cpu::of_draft, shape)
            .await?;
        Ok((profile, shaped))
    }

    /// Whether a put needs nothing but its own row.
    pub(crate) fn is_plain(drafts: &[Draft]) -> bool {
        drafts
            .iter()
            .all(|draft| draft.tier == Tier::Persistent && draft.facets.slot.is_none())
    }

    /// Stores drafts that hang on a session or answer a question, at `now` or, after a race, later.
    pub(crate) async fn put_placed(
        &self,
        caller: &Caller,
        scope: &Scope,
        (profile, drafts): (&Profile, &[Draft]),
        (idempotency, mut now): (Option<Idempotency>, Timestamp),
    ) -> Result<(Vec<Kept>, Committed), EngineError> {
        for _ in 0..TRIES {
            let batch = Batch::new(scope.tenant.clone(), now)
                .by(caller.principal().clone())
                .idempotent(idempotency.clone());
            let (batch, kept) = self
                .plan_put(caller, scope, (profile, drafts), batch, now)
                .await?;
            match self.parts.store.commit(batch).await {
                Ok(committed) => return Ok((kept, committed)),
                Err(StoreError::Conflict) => now = self.now_for(&scope.tenant).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// One change a draft, after whatever has to come first.
    async fn plan_put(
        &self,
        caller: &Caller,
        scope: &Scope,
        (profile, drafts): (&Profile, &[Draft]),
        mut batch: Batch,
        now: Timestamp,
    ) -> Result<(Batch, Vec<Kept>), EngineError> {
        let mut drafts = drafts.to_vec();
        if drafts.iter().any(|draft| draft.tier != Tier::Persistent) {
            let turn = self.session_turn(scope, profile, now).await?;
            for draft in drafts
                .iter_mut()
                .filter(|draft| draft.tier != Tier::Persistent)
            {
                draft.facets.session = Some(turn.session.clone());
            }
            batch = self.join_session(&scope.tenant, batch, turn).await?;
        }
        let mut slots = Slots::new(self, scope);
        let mut ready = Vec::new();
        let mut kept = Vec::new();
        let mut admissible = Vec::new();
        for draft in drafts {
            let id = self.parts.ids.entry();
            match slots.place(&id, draft, now).await? {
                Placed::Same(entry, evidence) => {
                    batch = batch.expect(
                        scope.memory_ref.clone(),
                        entry.id.clone(),
                        entry.visible.from,
                    );
                    ready.push(Ready::Same(entry, evidence));
                }
                Placed::Put { draft, close } => {
                    for (gone, closing) in close {
                        batch =
                            batch.close(scope.memory_ref.clone(), gone, closing, Some(id.clone()));
                    }
                    admissible.push(*draft);
                    ready.push(Ready::Put(id));
                }
            }
        }
        let mut admitted = self
            .admit(caller, scope, admissible, now)
            .await?
            .into_iter();
        for one in ready {
            batch = match one {
                Ready::Same(entry, evidence) => {
                    let next =
                        batch.strengthen(scope.memory_ref.clone(), entry.id.clone(), evidence);
                    kept.push(Kept::Same(entry));
                    next
                }
                Ready::Put(id) => {
                    let Some(one) = admitted.next() else { continue };
                    kept.push(Kept::New(Box::new(one.clone())));
                    batch.put(id, one)
                }
            };
        }
        Ok((batch, kept))
    }

    /// The entries as they are kept, in the order of the drafts. On a repetition the first answer
    /// is told again: a draft whose change stored nothing was said before.
    pub(crate) fn kept_entries(kept: Vec<Kept>, committed: &Committed) -> Vec<Entry> {
        let first = committed.outcomes.len().saturating_sub(kept.len());
        let entries = kept
            .into_iter()
            .zip(&committed.outcomes[first..])
            .filter_map(|(kept, outcome)| match (kept, outcome) {
                (Kept::New(one), Outcome::Stored { id, created_at }) => Some(
                    crate::write::entry_of(*one, id, *created_at, committed.revision),
                ),
                (Kept::Same(entry), Outcome::Stored { id, .. }) => Some(Entry {
                    id: id.clone(),
                    ..*entry
                }),
                (Kept::Same(entry), _) => Some(*entry),
                (Kept::New(_), _) => None,
            });
        entries.collect()
    }

    /// A keyed digest of what is personal: the same everywhere in a tenant, and nobody else's.
    pub(crate) fn pseudonym(&self, tenant: &TenantId, kind: &str, normal: &str) -> String {
        let key = blake3::keyed_hash(
            &self.parts.key.derive("remembrancer pseudonym v1"),
            tenant.as_str().as_bytes(),
        );
        blake3::keyed_hash(key.as_bytes(), format!("{kind}:{normal}").as_bytes()).to_hex()[..8]
            .to_owned()
    }
}

enum Ready {
    Same(Box<Entry>, remem_core::Evidence),
    Put(EntryId),
}
