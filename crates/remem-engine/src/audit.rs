//! Links between actions and entries, and the queries of an auditor: which entries an action
//! referred to, what those were made from, which answers a slot had when, and why entries are
//! retained.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::read::count_within_bytes;
use remem_core::admission::{SLOT_CHARS_MAX, check_name};
use remem_core::sabotage;
use remem_core::{Batch, EntryId, MemoryRef, Permission, Rejection, Revision, Scope};
use remem_store::{ActionLink, ChangeOutcome, Lineage, ReadAt, RetentionCount, WholeEntry};
use std::collections::BTreeSet;

/// Entries that one link covers, at most: the one that is named, and what it was made from.
const LINKED_MAX: usize = 1_000;
/// Answers of one slot that are returned, at most.
const ANSWERS_MAX: u32 = 1_000;

/// The audit information about an entry.
#[derive(Clone, Debug)]
pub struct AuditReport {
    /// The sources and successors of the entry.
    pub lineage: Lineage,
    /// The actions that refer to it.
    pub links: Vec<ActionLink>,
}

impl Engine {
    /// Records that an action refers to an entry, and to what that was made from. Links are never
    /// removed. This needs a permission of its own, since from then on the texts survive a delete.
    pub async fn link_action(
        &self,
        caller: &Caller,
        memory_ref: &str,
        id: &str,
        action: &str,
        reference: &str,
    ) -> Result<(u64, Revision), EngineError> {
        sabotage!(
            "whoever-writes-links",
            caller.require(Permission::MemoryLink)?,
            caller.require(Permission::MemoryWrite)?
        );
        let (Some(scope), Some(id)) = (caller.scope(memory_ref), EntryId::parse(id)) else {
            return Err(EngineError::NotFound("entry"));
        };
        let rules = self.redaction_rules(caller.tenant()).await?;
        for (field, text) in [("action", action), ("reference", reference)] {
            if text.trim().is_empty() || text.chars().any(char::is_control) {
                return Err(Rejection::Invalid {
                    field,
                    rule: "must be a string without control characters",
                }
                .into());
            }
            let limit = SLOT_CHARS_MAX as u64;
            let actual = text.chars().count() as u64;
            if actual > limit {
                return Err(Rejection::TooLarge {
                    field,
                    unit: "characters",
                    limit,
                    actual,
                }
                .into());
            }
            check_name(rules.redactor(), field, text)?;
        }
        let now = self.now_for(caller.tenant()).await?;
        let reached = self.entry_and_sources(&scope, id).await?;
        for (memory_ref, id) in &reached {
            let place = Scope {
                memory_ref: memory_ref.clone(),
                ..scope.clone()
            };
            self.check_links(&place, id, action, reference).await?;
        }
        let empty =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let batch = reached.into_iter().fold(empty, |batch, (memory_ref, id)| {
            batch.link_action(memory_ref, id, action.to_owned(), reference.to_owned())
        });
        let committed = self.parts.store.commit(batch).await?;
        let linked = committed
            .outcomes
            .iter()
            .filter(|outcome| **outcome == ChangeOutcome::Done)
            .count() as u64;
        Ok((linked, committed.revision))
    }

    /// One that an entry has already is not added again, so that it always fits.
    async fn check_links(
        &self,
        scope: &Scope,
        id: &EntryId,
        action: &str,
        reference: &str,
    ) -> Result<(), EngineError> {
        let limit = sabotage!(
            "an-entry-has-any-number-of-links",
            self.parts.policy.links_max,
            usize::MAX
        );
        let links = self.parts.store.actions_of_entry(scope, id).await?;
        let is_there = |link: &ActionLink| link.action == action && link.reference == reference;
        if links.len() < limit || links.iter().any(is_there) {
            return Ok(());
        }
        Err(Rejection::TooLarge {
            field: "links",
            unit: "items",
            limit: limit as u64,
            actual: links.len() as u64 + 1,
        }
        .into())
    }

    /// The entry and everything that it was made from, as far as the caller may see it.
    async fn entry_and_sources(
        &self,
        scope: &Scope,
        id: EntryId,
    ) -> Result<Vec<(MemoryRef, EntryId)>, EngineError> {
        let mut visited = BTreeSet::from([(scope.memory_ref.clone(), id.clone())]);
        let mut found = vec![(scope.memory_ref.clone(), id)];
        let mut next = 0;
        while next < found.len() && found.len() < LINKED_MAX {
            let (memory_ref, id) = found[next].clone();
            let source_scope = Scope {
                memory_ref,
                ..scope.clone()
            };
            let Some(lineage) = self.parts.store.lineage(&source_scope, &id).await? else {
                if next == 0 {
                    return Err(EngineError::NotFound("entry"));
                }
                next += 1;
                continue;
            };
            for source in lineage.sources {
                if visited.insert((source.memory_ref.clone(), source.id.clone())) {
                    found.push((source.memory_ref, source.id));
                }
            }
            next += 1;
        }
        Ok(found)
    }

    /// Returns everything that is known about an entry except its text, whether it is live or not.
    pub async fn audit_entry(
        &self,
        caller: &Caller,
        memory_ref: &str,
        id: &str,
    ) -> Result<AuditReport, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let (Some(scope), Some(id)) = (caller.scope(memory_ref), EntryId::parse(id)) else {
            return Err(EngineError::NotFound("entry"));
        };
        let lineage = self
            .parts
            .store
            .lineage(&scope, &id)
            .await?
            .ok_or(EngineError::NotFound("entry"))?;
        let links = self.parts.store.actions_of_entry(&scope, &id).await?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        let bytes =
            |link: &ActionLink| cpu::text_bytes(&link.action) + cpu::text_bytes(&link.reference);
        let review = |mut link: ActionLink| {
            for text in [&mut link.action, &mut link.reference] {
                let redacted = admission.redact_short_text(text);
                sabotage!("late-secrets-show-in-links", *text = redacted);
            }
            Ok::<_, EngineError>(link)
        };
        let cpu = &self.parts.cpu;
        let links = cpu.each(caller.tenant(), links, bytes, review).await?;
        Ok(AuditReport { lineage, links })
    }

    /// Lists every answer that a slot ever had, oldest first, including those that no longer hold.
    pub async fn slot_history(
        &self,
        caller: &Caller,
        memory_ref: &str,
        slot: &str,
    ) -> Result<Vec<WholeEntry>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(Vec::new());
        };
        let now = self.now_for(caller.tenant()).await?;
        let mut answers = self
            .parts
            .store
            .slot_history(&scope, slot, ANSWERS_MAX)
            .await?;
        answers.retain(|answer| answer.entry.expires_at.is_none_or(|end| now < end));
        let size = |answer: &WholeEntry| cpu::entry_bytes(&answer.entry);
        let bytes_max = self.parts.policy.page_bytes_max;
        answers.truncate(count_within_bytes(&answers, size, bytes_max));
        let entries = answers.iter().map(|answer| answer.entry.clone()).collect();
        let redacted = self
            .review_entries(caller, entries, &ReadAt::Now(now))
            .await?;
        Ok(answers
            .into_iter()
            .zip(redacted)
            .map(|(answer, entry)| WholeEntry { entry, ..answer })
            .collect())
    }

    /// Ends the current answer of a slot, without another in its place.
    pub async fn retract_answer(
        &self,
        caller: &Caller,
        memory_ref: &str,
        slot: &str,
    ) -> Result<Revision, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller
            .scope(memory_ref)
            .ok_or(EngineError::NotFound("answer"))?;
        let now = self.now_for(caller.tenant()).await?;
        let answers = self
            .parts
            .store
            .slot_history(&scope, slot, ANSWERS_MAX)
            .await?;
        let current = answers
            .into_iter()
            .find(|answer| answer.entry.is_live(now))
            .ok_or(EngineError::NotFound("answer"))?;
        let closing = match current.entry.typology {
            remem_core::Typology::Semantic => remem_core::ClosingReason::InvalidFrom(now),
            _ => remem_core::ClosingReason::ReplacedNow,
        };
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let batch = batch.close(scope.memory_ref.clone(), current.entry.id, closing, None);
        Ok(self.parts.store.commit(batch).await?.revision)
    }

    /// Counts the entries of the tenant, or of one memory, by the reason why they are retained, as
    /// far as the caller may see them.
    pub async fn count_retention(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
    ) -> Result<Vec<RetentionCount>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let memory_ref_filter = match memory_ref {
            None => None,
            Some(name) => match caller.memory_ref(name) {
                Some(memory_ref) => Some(memory_ref),
                None => return Ok(Vec::new()),
            },
        };
        Ok(self
            .parts
            .store
            .retention_counts(caller.tenant(), &caller.actor(), memory_ref_filter.as_ref())
            .await?)
    }
}
