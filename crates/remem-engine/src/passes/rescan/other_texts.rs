//! The part of a rescan that covers texts outside of entries and records: rules of worlds, names of
//! actions that entries are linked to, labels of keys. It may not change names that identify
//! something.

use super::{RescanWalk, WalkPosition};
use crate::cpu;
use crate::error::EngineError;
use remem_core::sabotage;
use remem_core::{ActionText, Admission, RuleId, RuleText, Timestamp, WorldId};
use remem_store::{EntryActions, RowCursor, WorldRule};
use std::collections::BTreeSet;

impl RescanWalk<'_> {
    /// Redacts a page of rules again.
    pub(super) async fn rescan_world_rules(
        &mut self,
        after: Option<(WorldId, RuleId)>,
    ) -> Result<(), EngineError> {
        let limit = self.policy.rescan_batch_max;
        let store = &self.engine.parts.store;
        let mut found = store.all_rules(self.tenant, after.as_ref(), limit).await?;
        let fitting = self.count_fitting(&found, |(_, rule)| rule.body.len());
        let is_last = found.len() < limit as usize && fitting == found.len();
        found.truncate(fitting);
        let place = match found.last().filter(|_| !is_last) {
            Some((world, rule)) => WalkPosition::Rules(Some((world.clone(), rule.id.clone()))),
            None => WalkPosition::Actions(None),
        };
        self.report.examined += found.len() as u64;
        let found = self.rules_to_rewrite(found).await?;
        let changed = found.len() as u64;
        let mut batch = self.batch().await?;
        for (world, rule, body) in found {
            sabotage!(
                "late-secrets-stay-in-rules",
                batch = batch.rewrite_rule(world, rule.id, rule.body, body)
            );
        }
        self.commit_step(batch, place, changed).await
    }

    /// The rules whose text the redaction of today changes, with the new texts.
    async fn rules_to_rewrite(
        &self,
        found: Vec<(WorldId, WorldRule)>,
    ) -> Result<Vec<(WorldId, WorldRule, RuleText)>, EngineError> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let reword = |(world, rule): (WorldId, WorldRule)| {
            let body = admission.readmit_rule(&rule.body);
            let changed = body.as_str() != rule.body;
            Ok::<_, EngineError>(changed.then_some((world, rule, body)))
        };
        let bytes = |(_, rule): &(WorldId, WorldRule)| cpu::text_bytes(&rule.body);
        let cpu = self.engine.cpu();
        let reworded = cpu.each(self.tenant, found, bytes, reword).await?;
        Ok(reworded.into_iter().flatten().collect())
    }

    /// Redacts a page of the actions that entries are linked to again.
    pub(super) async fn rescan_actions(
        &mut self,
        after: Option<RowCursor>,
    ) -> Result<(), EngineError> {
        let limit = self.policy.rescan_batch_max;
        let store = &self.engine.parts.store;
        let mut found = store
            .entries_with_actions(self.tenant, after, limit)
            .await?;
        let fitting = self.count_fitting(&found, action_bytes);
        let is_last = found.len() < limit as usize && fitting == found.len();
        found.truncate(fitting);
        let place = match found.last().filter(|_| !is_last) {
            Some(last) => WalkPosition::Actions(Some(last.row)),
            None => WalkPosition::Labels,
        };
        self.report.examined += found.len() as u64;
        let mut batch = self.batch().await?;
        let mut changed = 0;
        for linked in found {
            for (previous, action) in self.actions_to_rename(&linked) {
                changed += 1;
                let memory_ref = linked.memory_ref.clone();
                sabotage!(
                    "late-secrets-stay-in-actions",
                    batch = batch.rewrite_action(memory_ref, linked.id.clone(), previous, action)
                );
            }
        }
        self.commit_step(batch, place, changed).await
    }

    /// The actions of an entry that must be renamed, each with its new name. If the entry's text is
    /// erased, the action's names are too: earlier versions of this host left them in place.
    fn actions_to_rename(&self, linked: &EntryActions) -> Vec<(ActionText, ActionText)> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let taken = linked.actions.iter().map(link_key);
        let mut taken: BTreeSet<(String, String)> = taken.collect();
        let mut renamed = Vec::new();
        for (number, previous) in linked.actions.iter().enumerate() {
            let mut action = if linked.is_erased {
                erased_action(previous, number)
            } else {
                redacted_action(&admission, previous)
            };
            if action == *previous {
                continue;
            }
            while !taken.insert(link_key(&action)) {
                action.reference.push('+'); // two links may not be alike
            }
            renamed.push((previous.clone(), action));
        }
        renamed
    }

    /// Redacts the labels of the tenant's keys again, and returns how many changed. Keys are not
    /// part of a batch: a crash before the commit repeats the work, which then changes nothing.
    pub(super) async fn rescan_labels(&mut self) -> Result<u64, EngineError> {
        let directory = &self.engine.parts.directory;
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let mut changed = 0;
        for key in directory.keys(self.tenant).await? {
            let label = admission.redact_short_text(&key.label);
            if label == key.label {
                continue;
            }
            changed += 1;
            if self.mode != super::PassMode::DryRun {
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
fn action_bytes(linked: &EntryActions) -> usize {
    let bytes = |text: &ActionText| text.action.len() + text.reference.len();
    linked.actions.iter().map(bytes).sum()
}

/// The pair by which the links of an entry must differ.
fn link_key(text: &ActionText) -> (String, String) {
    (text.action.clone(), text.reference.clone())
}

/// The names of an action, redacted.
fn redacted_action(admission: &Admission<'_>, text: &ActionText) -> ActionText {
    ActionText {
        action: admission.redact_short_text(&text.action),
        reference: admission.redact_short_text(&text.reference),
    }
}

/// The names of an action whose entry is erased: a number instead of its reference.
fn erased_action(text: &ActionText, number: usize) -> ActionText {
    if text.action.is_empty() {
        return text.clone();
    }
    ActionText {
        action: String::new(),
        reference: (number + 1).to_string(),
    }
}
