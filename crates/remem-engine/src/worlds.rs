//! Rules of worlds: canonical texts that entries may not restate. They are not part of any memory:
//! administrators write and list them, and only the check of new entries reads them.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::read::count_within_bytes;
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{Batch, Permission, Rejection, Revision, RuleId, WorldId};
use remem_store::{ChangeOutcome, WorldRule};
use std::collections::BTreeSet;

/// Rules that are read at a time to count those of a world.
const RULES_PAGE: u32 = 100;

/// A rule to be written.
#[derive(Clone, Debug)]
pub struct NewRule {
    /// The id of the rule in its world.
    pub id: String,
    /// The text of the rule.
    pub body: String,
}

impl Engine {
    /// Parses the name of a world that can have rules.
    fn parse_world(name: &str) -> Result<WorldId, Rejection> {
        let world = WorldId::parse(name).ok_or(Rejection::MalformedName { field: "world" })?;
        if world.is_none() {
            Err(Rejection::Invalid {
                field: "world",
                rule: "has no rules and can have none",
            })
        } else {
            Ok(world)
        }
    }

    /// Writes rules of a world: all of them or none. A rule with the same id is replaced.
    pub async fn put_rules(
        &self,
        caller: &Caller,
        world: &str,
        rules: Vec<NewRule>,
    ) -> Result<Revision, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let world = Engine::parse_world(world)?;
        let limit = self.parts.policy.batch_entries_max;
        let count = rules.len();
        if count == 0 {
            return Err(Rejection::Empty { field: "rules" }.into());
        }
        if count > limit {
            return Err(Rejection::TooLarge {
                field: "rules",
                unit: "items",
                limit: limit as u64,
                actual: count as u64,
            }
            .into());
        }
        let now = self.now_for(caller.tenant()).await?;
        let redaction = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        check_name(redaction.redactor(), "world", world.as_str())?;
        let admission = redaction.admission(&policy, now);
        let bytes = |rule: &NewRule| cpu::text_bytes(&rule.id) + cpu::text_bytes(&rule.body);
        let admit = |rule: NewRule| {
            let id = RuleId::parse(&rule.id).ok_or(Rejection::MalformedName { field: "ruleId" })?;
            check_name(redaction.redactor(), "ruleId", id.as_str())?;
            Ok::<_, Rejection>((id, admission.admit_rule(&rule.body)?))
        };
        let admitted = self
            .parts
            .cpu
            .each(caller.tenant(), rules, bytes, admit)
            .await?;
        self.check_rule_count(caller, &world, admitted.iter().map(|(id, _)| id))
            .await?;
        let empty =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let batch = admitted.into_iter().fold(empty, |batch, (id, body)| {
            batch.set_rule(world.clone(), id, Some(body))
        });
        Ok(self.parts.store.commit(batch).await?.revision)
    }

    /// Refuses rules with which a world would have too many. A rule that is replaced counts once.
    async fn check_rule_count(
        &self,
        caller: &Caller,
        world: &WorldId,
        new: impl Iterator<Item = &RuleId>,
    ) -> Result<(), EngineError> {
        let limit = sabotage!(
            "a-world-has-any-number-of-rules",
            self.parts.policy.world_rules_max,
            usize::MAX
        );
        let mut ids: BTreeSet<RuleId> = new.cloned().collect();
        let mut after = None;
        while ids.len() <= limit {
            let page = self
                .parts
                .store
                .rules(caller.tenant(), world, after.as_ref(), RULES_PAGE)
                .await?;
            if page.is_empty() {
                break;
            }
            after = page.last().map(|rule| rule.id.clone());
            ids.extend(page.into_iter().map(|rule| rule.id));
        }
        if ids.len() <= limit {
            return Ok(());
        }
        Err(Rejection::TooLarge {
            field: "rules",
            unit: "items",
            limit: limit as u64,
            actual: ids.len() as u64,
        }
        .into())
    }

    /// Deletes a rule of a world.
    pub async fn delete_rule(
        &self,
        caller: &Caller,
        world: &str,
        id: &str,
    ) -> Result<Revision, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let (Some(world), Some(id)) = (
            WorldId::parse(world).filter(|world| !world.is_none()),
            RuleId::parse(id),
        ) else {
            return Err(EngineError::NotFound("rule"));
        };
        let now = self.now_for(caller.tenant()).await?;
        let batch = Batch::new(caller.tenant().clone(), now)
            .with_principal(caller.principal().clone())
            .set_rule(world, id, None);
        let committed = self.parts.store.commit(batch).await?;
        if committed.outcomes.first() == Some(&ChangeOutcome::NoChange) {
            Err(EngineError::NotFound("rule"))
        } else {
            Ok(committed.revision)
        }
    }

    /// Lists the rules of a world by id, after `after`, and whether there are more.
    pub async fn list_rules(
        &self,
        caller: &Caller,
        world: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<WorldRule>, bool), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let Some(world) = WorldId::parse(world) else {
            return Ok((Vec::new(), false));
        };
        let limit = self.parts.policy.list_limit(limit);
        let after = after.and_then(RuleId::parse);
        let mut found = self
            .parts
            .store
            .rules(
                caller.tenant(),
                &world,
                after.as_ref(),
                limit.saturating_add(1),
            )
            .await?;
        let size = |rule: &WorldRule| rule.body.len();
        let bytes_max = self.parts.policy.page_bytes_max;
        let fitting = count_within_bytes(&found, size, bytes_max).min(limit as usize);
        let more = found.len() > fitting;
        found.truncate(fitting);
        Ok((self.review_rules(caller, found).await?, more))
    }

    /// Redacts rules by the rules of today: they may contain what has become a secret since they
    /// were written.
    async fn review_rules(
        &self,
        caller: &Caller,
        found: Vec<WorldRule>,
    ) -> Result<Vec<WorldRule>, EngineError> {
        let redaction = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = redaction.admission(&policy, self.now());
        let review = |mut rule: WorldRule| {
            let redacted = admission.readmit_rule(&rule.body).as_str().to_owned();
            sabotage!("late-secrets-show-in-rules", rule.body = redacted);
            Ok::<_, EngineError>(rule)
        };
        let bytes = |rule: &WorldRule| cpu::text_bytes(&rule.body);
        let cpu = &self.parts.cpu;
        cpu.each(caller.tenant(), found, bytes, review).await
    }

    /// Returns the rule that a text restates, if any: a put of that text would be refused.
    pub async fn find_restated_rule(
        &self,
        caller: &Caller,
        world: &str,
        text: &str,
    ) -> Result<Option<RuleId>, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let limit = self.parts.policy.content_bytes_max;
        if text.len() > limit {
            return Err(Rejection::TooLarge {
                field: "text",
                unit: "bytes",
                limit: limit as u64,
                actual: text.len() as u64,
            }
            .into());
        }
        let Some(world) = WorldId::parse(world) else {
            return Ok(None);
        };
        Ok(self
            .parts
            .store
            .restated_rule(caller.tenant(), &world, text)
            .await?)
    }
}
