//! The part of a rescan that covers texts outside of entries and records: rules of worlds, names of
//! actions that entries are linked to, labels of keys. It may not change names that identify
//! something.

use super::{Place, Walk};
use crate::cpu;
use crate::error::EngineError;
use remem_core::sabotage;
use remem_core::{ActionText, Admission, RuleId, RuleText, Timestamp, WorldId};
use remem_store::{Linked, RowCursor, Rule};
use std::collections::BTreeSet;

impl Walk<'_> {
    /// Redacts a page of rules again.
    pub(super) async fn world_rules(
        &mut self,
        after: Option<(WorldId, RuleId)>,
    ) -> Result<(), EngineError> {
        let limit = self.policy.rescan_batch_max;
        let store = &self.engine.parts.store;
        let mut found = store.all_rules(self.tenant, after.as_ref(), limit).await?;
        let fitting = self.fitting(&found, |(_, rule)| rule.body.len());
        let is_last = found.len() < limit as usize && fitting == found.len();
        found.truncate(fitting);
        let place = match found.last().filter(|_| !is_last) {
            Some((world, rule)) => Place::Rules(Some((world.clone(), rule.id.clone()))),
            None => Place::Actions(None),
        };
        self.report.examined += found.len() as u64;
        let found = self.reworded(found).await?;
        let changed = found.len() as u64;
        let mut batch = self.batch().await?;
        for (world, rule, body) in found {
            sabotage!(
                "late-secrets-stay-in-rules",
                batch = batch.reword(world, rule.id, rule.body, body)
            );
        }
        self.commit(batch, place, changed).await
    }

    /// The rules whose text the redaction of today changes, with the new texts.
    async fn reworded(
        &self,
        found: Vec<(WorldId, Rule)>,
    ) -> Result<Vec<(WorldId, Rule, RuleText)>, EngineError> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let reword = |(world, rule): (WorldId, Rule)| {
            let body = admission.rule_again(&rule.body);
            let changed = body.as_str() != rule.body;
            Ok::<_, EngineError>(changed.then_some((world, rule, body)))
        };
        let bytes = |(_, rule): &(WorldId, Rule)| cpu::of_text(&rule.body);
        let cpu = self.engine.cpu();
        let reworded = cpu.each(self.tenant, found, bytes, reword).await?;
        Ok(reworded.into_iter().flatten().collect())
    }

    /// Redacts a page of the actions that entries are linked to again.
    pub(super) async fn actions(&mut self, after: Option<RowCursor>) -> Result<(), EngineError> {
        let limit = self.policy.rescan_batch_max;
        let store = &self.engine.parts.store;
        let mut found = store.linked(self.tenant, after, limit).await?;
        let fitting = self.fitting(&found, bytes_of);
        let is_last = found.len() < limit as usize && fitting == found.len();
        found.truncate(fitting);
        let place = match found.last().filter(|_| !is_last) {
            Some(last) => Place::Actions(Some(last.row)),
            None => Place::Labels,
        };
        self.report.examined += found.len() as u64;
        let mut batch = self.batch().await?;
        let mut changed = 0;
        for linked in found {
            for (previous, action) in self.renamed(&linked) {
                changed += 1;
                let memory_ref = linked.memory_ref.clone();
                sabotage!(
                    "late-secrets-stay-in-actions",
                    batch = batch.relink(memory_ref, linked.id.clone(), previous, action)
                );
            }
        }
        self.commit(batch, place, changed).await
    }

    /// The actions of an entry that must be renamed, each with its new name. If the entry's text is
    /// erased, the action's names are too: earlier versions of this host left them in place.
    fn renamed(&self, linked: &Linked) -> Vec<(ActionText, ActionText)> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let taken = linked.actions.iter().map(key);
        let mut taken: BTreeSet<(String, String)> = taken.collect();
        let mut renamed = Vec::new();
        for (number, previous) in linked.actions.iter().enumerate() {
            let mut action = if linked.is_erased {
                erased(previous, number)
            } else {
                clean(&admission, previous)
            };
            if action == *previous {
                continue;
            }
            while !taken.insert(key(&action)) {
                action.reference.push('+'); // two links may not be alike
            }
            renamed.push((previous.clone(), action));
        }
        renamed
    }

    /// Redacts the labels of the tenant's keys again, and returns how many changed. Keys are not
    /// part of a batch: a crash before the commit repeats the work, which then changes nothing.
    pub(super) async fn labels(&mut self) -> Result<u64, EngineError> {
        let directory = &self.engine.parts.directory;
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let mut changed = 0;
        for key in directory.keys(self.tenant).await? {
            let label = admission.short_text(&key.label);
            if label == key.label {
                continue;
            }
            changed += 1;
            if self.mode != super::Mode::DryRun {
                sabotage!(
                    "late-secrets-stay-in-labels",
                    directory
                        .relabel_key(self.tenant, &key.id, &key.label, &label)
                        .await?
                );
            }
        }
        Ok(changed)
    }
}

/// Bytes of text in the actions of an entry.
fn bytes_of(linked: &Linked) -> usize {
    let bytes = |text: &ActionText| text.action.len() + text.reference.len();
    linked.actions.iter().map(bytes).sum()
}

/// The pair by which the links of an entry must differ.
fn key(text: &ActionText) -> (String, String) {
    (text.action.clone(), text.reference.clone())
}

/// The names of an action, redacted.
fn clean(admission: &Admission<'_>, text: &ActionText) -> ActionText {
    ActionText {
        action: admission.short_text(&text.action),
        reference: admission.short_text(&text.reference),
    }
}

/// The names of an action whose entry is erased: a number instead of its reference.
fn erased(text: &ActionText, number: usize) -> ActionText {
    if text.action.is_empty() {
        return text.clone();
    }
    ActionText {
        action: String::new(),
        reference: (number + 1).to_string(),
    }
}
