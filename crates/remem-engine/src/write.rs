//! Writes: put, import, delete. Every surface that changes memory for a caller calls one of these.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use remem_core::entry::RevisionRange;
use remem_core::sabotage;
use remem_core::{
    Admitted, Batch, Draft, Entry, EntryId, Facets, Idempotency, Permission, Policy, Profile,
    Rejection, Revision, Scope, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult};
use std::sync::Arc;

/// The result of a put.
#[derive(Clone, Debug)]
pub struct PutResult {
    /// The stored entries, in the order of the request.
    pub entries: Vec<Entry>,
    /// Revision of this write: a read at this revision, on any node, sees it.
    pub revision: Revision,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteResult {
    /// Revision of this write: a read at this revision, on any node, sees it.
    pub revision: Revision,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
    /// Whether the text is still stored, because the history of an action refers to it.
    pub text_retained: bool,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportResult {
    /// How many entries were stored.
    pub imported: u64,
    /// How many entries were skipped because their id is, or once was, in use.
    pub skipped: u64,
    /// Revision of this write: a read at this revision, on any node, sees it.
    pub revision: Revision,
}

/// The rules of one write, read once: the profile of its memory, the caller's policy, and the
/// redaction rules of now.
pub(crate) struct WriteRules<'a> {
    pub profile: &'a Profile,
    pub policy: Policy,
    pub redaction: Arc<RedactionRules>,
}

impl Engine {
    /// Stores entries: all of them or none. A single put is a batch of one.
    pub async fn put(
        &self,
        caller: &Caller,
        memory_ref: &str,
        drafts: Vec<Draft>,
        key: Option<&str>,
    ) -> Result<PutResult, EngineError> {
        sabotage!(
            "scope-not-checked",
            caller.require(Permission::MemoryWrite)?
        );
        let scope = caller.scope_to_write(memory_ref)?;
        self.check_batch_size(&drafts)?;
        // A batch of one and a single put are the same operation: a client may retry one as the
        // other.
        let digest = key.map_or_else(RequestDigest::default, |_| put_digest(&scope, &drafts));
        let idempotency = self.idempotency("put", key, &digest)?;
        let drafts = caller.with_trust(drafts)?;
        let now = self.now_for(caller.tenant()).await?;
        let again = idempotency.is_some().then(|| drafts.clone());
        let rejection = match self
            .put_at(caller, &scope, drafts, idempotency.clone(), now)
            .await
        {
            Err(EngineError::Rejected(rejection)) => rejection,
            result => return result,
        };
        // An entry stored by the first request may have expired since. The repetition still gets
        // the first answer, computed as of the instant of the first request.
        let first = self
            .replayed_commit(caller.tenant(), idempotency.as_ref())
            .await?;
        match first.zip(again) {
            Some((first, drafts)) => {
                self.put_at(caller, &scope, drafts, idempotency, first.at)
                    .await
            }
            None => Err(rejection.into()),
        }
    }

    /// Stores entries as [`Engine::put`] does, with `now` as the instant of the write.
    async fn put_at(
        &self,
        caller: &Caller,
        scope: &Scope,
        drafts: Vec<Draft>,
        idempotency: Option<Idempotency>,
        now: Timestamp,
    ) -> Result<PutResult, EngineError> {
        let rules = self.write_rules(caller, scope).await?;
        let drafts = self
            .shape_drafts(caller, scope, drafts, &rules, now)
            .await?;
        if !Engine::need_no_placement(&drafts) {
            let (placed_entries, committed) = self
                .put_with_placement(caller, scope, &rules, &drafts, idempotency, now)
                .await?;
            metrics::counter!("remem_entries_written_total").increment(placed_entries.len() as u64);
            self.mark_new_entries(&scope.tenant);
            let revision = committed.revision;
            let replayed = committed.replayed;
            return Ok(PutResult {
                entries: Engine::entries_of_put(placed_entries, &committed),
                revision,
                replayed,
            });
        }
        let admitted = self.admit(scope, drafts, &rules, now).await?;
        let mut batch = Batch::new(scope.tenant.clone(), now)
            .with_principal(caller.principal().clone())
            .idempotent(idempotency);
        for draft in &admitted {
            batch = batch.put(self.parts.ids.entry(), draft.clone());
        }
        let committed = self.parts.store.commit(batch).await?;
        metrics::counter!("remem_entries_written_total").increment(admitted.len() as u64);
        self.mark_new_entries(&scope.tenant);
        Ok(put_result(admitted, &committed))
    }

    /// Stores entries under the ids that they had elsewhere. Ids that are in use are skipped, so an
    /// import can be repeated and never brings back what was deleted here.
    pub async fn import(
        &self,
        caller: &Caller,
        memory_ref: &str,
        drafts: Vec<Draft>,
    ) -> Result<ImportResult, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let scope = caller.scope_to_write(memory_ref)?;
        self.check_batch_size(&drafts)?;
        let drafts = caller.with_trust(drafts)?;
        let now = self.now_for(caller.tenant()).await?;
        let rules = self.write_rules(caller, &scope).await?;
        let admitted = self.admit(&scope, drafts, &rules, now).await?;
        let mut batch =
            Batch::new(scope.tenant.clone(), now).with_principal(caller.principal().clone());
        for draft in admitted {
            let origin = draft.origin().ok_or(Rejection::Invalid {
                field: "id",
                rule: "is required for an import",
            })?;
            batch = batch.put(origin.id.clone(), draft);
        }
        let committed = self.parts.store.commit(batch).await?;
        let skipped = committed
            .outcomes
            .iter()
            .filter(|o| **o == ChangeOutcome::NoChange)
            .count() as u64;
        let imported = committed.outcomes.len() as u64 - skipped;
        metrics::counter!("remem_entries_written_total").increment(imported);
        self.mark_new_entries(caller.tenant());
        Ok(ImportResult {
            imported,
            skipped,
            revision: committed.revision,
        })
    }

    /// Deletes an entry. An id that never existed, belongs to another user or is deleted already is
    /// answered `NotFound`, all alike.
    pub async fn delete(
        &self,
        caller: &Caller,
        memory_ref: &str,
        id: &str,
        key: Option<&str>,
    ) -> Result<DeleteResult, EngineError> {
        sabotage!(
            "scope-not-checked",
            caller.require(Permission::MemoryWrite)?
        );
        let (Some(scope), Some(id)) = (caller.scope(memory_ref), EntryId::parse(id)) else {
            return Err(EngineError::NotFound("entry"));
        };
        let mut body = RequestDigest::default();
        body.part(scope.memory_ref.as_str().as_bytes());
        body.part(id.as_str().as_bytes());
        let idempotency = self.idempotency("delete", key, &body)?;
        let now = self.now_for(caller.tenant()).await?;
        let batch = Batch::new(scope.tenant, now)
            .with_principal(caller.principal().clone())
            .idempotent(idempotency)
            .delete(scope.memory_ref, id);
        let committed = self.parts.store.commit(batch).await?;
        let held = match committed.outcomes.first() {
            Some(ChangeOutcome::Removed) => false,
            Some(ChangeOutcome::TextHeld) => true,
            _ => return Err(EngineError::NotFound("entry")),
        };
        if !committed.replayed {
            metrics::counter!("remem_entries_deleted_total").increment(1);
        }
        Ok(DeleteResult {
            revision: committed.revision,
            replayed: committed.replayed,
            text_retained: held,
        })
    }

    /// Marks the tenant's new entries for the passes that read commitments out of them and embed
    /// them. They run at their next period: nothing needs to be woken for it.
    pub(crate) fn mark_new_entries(&self, tenant: &TenantId) {
        self.pass_log
            .mark_pending(crate::passes::infer::NAME, tenant);
        if self.parts.embedders.current.is_some() {
            self.pass_log
                .mark_pending(crate::passes::embed::NAME, tenant);
        }
    }

    /// Refuses an empty batch and one with too many entries.
    fn check_batch_size(&self, drafts: &[Draft]) -> Result<(), Rejection> {
        let limit = self.parts.policy.batch_entries_max;
        match drafts.len() {
            0 => Err(Rejection::Empty { field: "entries" }),
            n if n > limit => Err(Rejection::TooLarge {
                field: "entries",
                unit: "items",
                limit: limit as u64,
                actual: n as u64,
            }),
            _ => Ok(()),
        }
    }

    /// The rules of a write to a memory.
    pub(crate) async fn write_rules(
        &self,
        caller: &Caller,
        scope: &Scope,
    ) -> Result<WriteRules<'_>, EngineError> {
        Ok(WriteRules {
            profile: self.parts.profiles.for_memory(&scope.memory_ref),
            policy: self.policy_of(caller),
            redaction: self.redaction_rules(&scope.tenant).await?,
        })
    }

    /// Checks and redacts drafts, on the thread pool for the caller's tenant.
    pub(crate) async fn admit(
        &self,
        scope: &Scope,
        drafts: Vec<Draft>,
        rules: &WriteRules<'_>,
        now: Timestamp,
    ) -> Result<Vec<Admitted>, EngineError> {
        let admission = rules.redaction.admission(&rules.policy, now);
        let admit = |draft| admission.admit(scope, draft);
        self.parts
            .cpu
            .each(&scope.tenant, drafts, cpu::draft_bytes, admit)
            .await
    }
}

/// The result of a put, with the entries as they were stored. On a replay the texts come from the
/// repeated request, which is the same as the first. So the first answer can be given again without
/// storing a copy of it, even after the entry was deleted.
fn put_result(admitted: Vec<Admitted>, committed: &CommitResult) -> PutResult {
    let entries = admitted
        .into_iter()
        .zip(&committed.outcomes)
        .filter_map(|(draft, outcome)| match outcome {
            ChangeOutcome::Stored { id, created_at } => Some(entry_from_admitted(
                draft,
                id,
                *created_at,
                committed.revision,
            )),
            ChangeOutcome::Recorded { .. }
            | ChangeOutcome::Done
            | ChangeOutcome::Removed
            | ChangeOutcome::TextHeld
            | ChangeOutcome::NoChange => None,
        });
    PutResult {
        entries: entries.collect(),
        revision: committed.revision,
        replayed: committed.replayed,
    }
}

/// Builds the entry that a commit stored from the draft that was admitted.
pub(crate) fn entry_from_admitted(
    draft: Admitted,
    id: &EntryId,
    created_at: Timestamp,
    revision: Revision,
) -> Entry {
    Entry {
        id: id.clone(),
        memory_ref: draft.scope().memory_ref.clone(),
        content: draft.content().to_owned(),
        tags: draft.tags().map(str::to_owned).collect(),
        metadata: draft
            .metadata()
            .and_then(|text| serde_json::from_str(text).ok()),
        created_at,
        expires_at: draft.expires_at(),
        tier: draft.tier(),
        typology: draft.typology(),
        facets: draft.facets().clone(),
        visible: RevisionRange {
            from: revision,
            to: None,
        },
        redaction_fingerprint: draft.redaction_fingerprint(),
    }
}

/// Digest of a put request, for its idempotency key.
fn put_digest(scope: &Scope, drafts: &[Draft]) -> RequestDigest {
    let mut digest = RequestDigest::default();
    digest.part(scope.memory_ref.as_str().as_bytes());
    for draft in drafts {
        digest.part(draft.content.as_bytes());
        digest.part(&(draft.tags.len() as u64).to_le_bytes());
        for tag in &draft.tags {
            digest.part(tag.as_bytes());
        }
        let metadata = draft.metadata.as_ref().map(serde_json::to_string);
        let metadata = metadata.transpose().ok().flatten().unwrap_or_default();
        digest.part(metadata.as_bytes());
        digest.part(&draft.expires_at.map_or([0; 8], |t| t.0.to_le_bytes()));
        digest.part(draft.tier.as_str().as_bytes());
        digest.part(draft.typology.as_str().as_bytes());
        // A draft without facets has the digest that it always had: a retry may come from before an
        // upgrade.
        if draft.facets != Facets::default() {
            add_facets(&mut digest, &draft.facets);
        }
        digest.part(&(draft.subjects.len() as u64).to_le_bytes());
        for subject in &draft.subjects {
            sabotage!(
                "subjects-are-no-part-of-a-repeated-put",
                digest.part(subject.bytes())
            );
        }
    }
    digest
}

/// Adds the facets of a draft to the digest of its request.
fn add_facets(digest: &mut RequestDigest, facets: &Facets) {
    let names = [
        facets.session.as_ref().map(|id| id.as_str()),
        facets.interaction.as_ref().map(|id| id.as_str()),
        facets.slot.as_deref(),
    ];
    for name in names {
        digest.part(&[u8::from(name.is_some())]);
        digest.part(name.unwrap_or_default().as_bytes());
    }
    digest.part(facets.world.as_str().as_bytes());
    digest.part(facets.trust.as_str().as_bytes());
    for at in [facets.valid_at, facets.invalid_at] {
        digest.part(&at.map_or(i64::MIN, |at| at.0).to_le_bytes());
    }
}
