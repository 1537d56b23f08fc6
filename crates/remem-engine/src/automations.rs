//! Automations: workflows and agents that are started by a timer. This file has their records and
//! the operations of callers; the pass `fire` starts what is due.

mod firing;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::admission::check_name;
use remem_core::proposal::automation::AutomationTarget;
use remem_core::proposal::{Automation, is_name};
use remem_core::record::or_default;
use remem_core::{
    Admission, Batch, Permission, Policy, Precondition, Record, RecordBody, RecordKind,
    RecordLinks, Rejection, StoredRecord, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An automation as its record stores it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AutomationRecord {
    pub automation: Automation,
    /// The instant that intervals are counted from.
    pub anchor: Timestamp,
    pub last_fired_at: Option<Timestamp>,
    pub last_run_id: Option<String>,
    /// The installed artifact that it came from, if it came from a proposal.
    pub source: Option<String>,
    pub version: u64,
}

/// The body of an automation's record: its definition, and beside it what the host has noted.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredAutomation {
    #[serde(skip)]
    id: String,
    anchor: Timestamp,
    #[serde(default, deserialize_with = "or_default")]
    last_fired_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    last_run_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    source: Option<String>,
    /// The definition, which `Automation` reads.
    #[serde(flatten)]
    definition: Map<String, Value>,
}

impl StoredRecord for StoredAutomation {
    const KIND: RecordKind = RecordKind::Automation;

    fn key(&self) -> String {
        self.id.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.id.clone_from(&record.key);
    }
}

impl AutomationRecord {
    /// An automation that has never fired.
    pub fn new(
        automation: Automation,
        anchor: Timestamp,
        source: Option<String>,
    ) -> AutomationRecord {
        AutomationRecord {
            automation,
            anchor,
            last_fired_at: None,
            last_run_id: None,
            source,
            version: 0,
        }
    }

    /// Reads an automation from its record; `None` if redaction has made it invalid, in which case
    /// it never fires.
    pub fn from_record(record: &Record) -> Option<AutomationRecord> {
        let stored = StoredAutomation::read(record)?;
        // The limits were checked when it was stored.
        let policy = Policy {
            run_input_bytes_max: usize::MAX,
            ..Policy::default()
        };
        Some(AutomationRecord {
            automation: Automation::from_map(&stored.definition, &policy)
                .ok()
                .filter(|automation| automation.id == record.key)?,
            anchor: stored.anchor,
            last_fired_at: stored.last_fired_at,
            last_run_id: stored.last_run_id,
            source: stored.source,
            version: record.version,
        })
    }

    /// The automation as it is stored.
    pub fn to_stored(&self) -> StoredAutomation {
        StoredAutomation {
            id: self.automation.id.clone(),
            anchor: self.anchor,
            last_fired_at: self.last_fired_at,
            last_run_id: self.last_run_id.clone(),
            source: self.source.clone(),
            definition: self.automation.to_map(),
        }
    }

    /// The body of the automation's record.
    pub fn body(&self, admission: &Admission<'_>) -> RecordBody {
        admission.redact_stored(&self.to_stored())
    }

    /// When it is due next after `after`; `None` if it is paused.
    pub fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        self.automation.next_due(self.anchor, after)
    }
}

/// An automation as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct AutomationInfo {
    /// The definition of the automation.
    pub automation: Automation,
    /// When it fires next.
    pub next_due: Option<Timestamp>,
    /// When it last fired.
    pub last_fired_at: Option<Timestamp>,
    /// The run that was started last.
    pub last_run_id: Option<String>,
    /// The installed artifact that it came from, if it came from a proposal.
    pub source: Option<String>,
}

/// How often a conflicting commit is retried: the pass `fire` writes the same record.
const COMMIT_TRIES: u32 = 16;

impl Engine {
    /// Lists the tenant's automations, by id.
    pub async fn list_automations(
        &self,
        caller: &Caller,
    ) -> Result<Vec<AutomationInfo>, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let limit = u32::try_from(self.parts.policy.automations_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(caller.tenant(), RecordKind::Automation, "", None, limit)
            .await?;
        let mut infos = Vec::with_capacity(records.len());
        for record in &records {
            infos.extend(self.automation_info(caller, record).await?);
        }
        Ok(infos)
    }

    /// Returns one automation of the tenant.
    pub async fn get_automation(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<AutomationInfo, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let record = self
            .automation_record(caller.tenant(), id)
            .await?
            .ok_or(EngineError::NotFound("automation"))?;
        self.automation_info(caller, &record)
            .await?
            .ok_or(EngineError::NotFound("automation"))
    }

    /// Creates an automation, or replaces the one with the same id, and returns whether it is new.
    /// Its intervals start now.
    pub async fn put_automation(
        &self,
        caller: &Caller,
        id: &str,
        map: &Map<String, Value>,
    ) -> Result<(AutomationInfo, bool), EngineError> {
        caller.require(Permission::ManifestWrite)?;
        caller.require_run_trust()?;
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let automation = Automation::from_map(map, &policy)?;
        if automation.id != id {
            return Err(Rejection::Invalid {
                field: "automationId",
                rule: "must equal the name in the path",
            }
            .into());
        }
        let rules = self.redaction_rules(tenant).await?;
        check_name(rules.redactor(), "automationId", id)?;
        let (field, target) = match &automation.target {
            AutomationTarget::Workflow(id) => ("workflowId", id),
            AutomationTarget::Agent(id) => ("agentId", id),
        };
        check_name(rules.redactor(), field, target)?;
        for _ in 0..COMMIT_TRIES {
            let known = self.automation_record(tenant, id).await?;
            if known.is_none() {
                self.check_automation_room(tenant).await?;
            }
            let now = self.now_for(tenant).await?;
            let before = known.as_ref().and_then(AutomationRecord::from_record);
            let fresh = AutomationRecord::new(automation.clone(), now, None);
            let next = match before {
                Some(before) => AutomationRecord {
                    last_fired_at: before.last_fired_at,
                    last_run_id: before.last_run_id,
                    ..fresh
                },
                None => fresh,
            };
            let precondition = known.as_ref().map_or(Precondition::Absent, |known| {
                Precondition::Version(known.version)
            });
            match self.write_automation(caller, &next, precondition).await {
                Ok(()) => return Ok((self.get_automation(caller, id).await?, known.is_none())),
                Err(EngineError::Store(StoreError::Conflict)) => {}
                Err(other) => return Err(other),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// Pauses or resumes an automation.
    pub async fn set_automation_enabled(
        &self,
        caller: &Caller,
        id: &str,
        enabled: bool,
    ) -> Result<AutomationInfo, EngineError> {
        caller.require(Permission::ManifestWrite)?;
        caller.require_run_trust()?;
        for _ in 0..COMMIT_TRIES {
            let record = self
                .automation_record(caller.tenant(), id)
                .await?
                .ok_or(EngineError::NotFound("automation"))?;
            let mut next = AutomationRecord::from_record(&record)
                .ok_or(EngineError::NotFound("automation"))?;
            next.automation.enabled = enabled;
            match self
                .write_automation(caller, &next, Precondition::Version(record.version))
                .await
            {
                Ok(()) => {
                    let record = self
                        .automation_record(caller.tenant(), id)
                        .await?
                        .ok_or(EngineError::NotFound("automation"))?;
                    return self
                        .automation_info(caller, &record)
                        .await?
                        .ok_or(EngineError::NotFound("automation"));
                }
                Err(EngineError::Store(StoreError::Conflict)) => {}
                Err(other) => return Err(other),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// Deletes an automation. Runs that it has started continue.
    pub async fn remove_automation(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        caller.require(Permission::ManifestWrite)?;
        if !is_name(id) {
            return Err(EngineError::NotFound("automation"));
        }
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let committed = self
            .parts
            .store
            .commit(batch.delete_record(RecordKind::Automation, id.to_owned(), Precondition::None))
            .await?;
        if committed.outcomes == [ChangeOutcome::Removed] {
            Ok(())
        } else {
            Err(EngineError::NotFound("automation"))
        }
    }

    /// Commits an automation's record.
    async fn write_automation(
        &self,
        caller: &Caller,
        next: &AutomationRecord,
        precondition: Precondition,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let ties = next
            .next_due(now)
            .map(RecordLinks::due_at)
            .unwrap_or_default();
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        let body = next.body(&rules.admission(&policy, now));
        self.parts
            .store
            .commit(batch.set_record_with_ties(
                RecordKind::Automation,
                next.automation.id.clone(),
                precondition,
                body,
                ties,
            ))
            .await?;
        Ok(())
    }

    /// Reads an automation's record.
    async fn automation_record(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<Record>, EngineError> {
        if !is_name(id) {
            return Ok(None);
        }
        Ok(self
            .parts
            .store
            .record(tenant, RecordKind::Automation, id)
            .await?)
    }

    /// An automation as callers see it, redacted.
    async fn automation_info(
        &self,
        caller: &Caller,
        record: &Record,
    ) -> Result<Option<AutomationInfo>, EngineError> {
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, record.at);
        let redacted = self
            .redact_body(caller.tenant(), &admission, record.body.clone())
            .await?;
        let redacted = Record {
            body: redacted.map().clone(),
            ..record.clone()
        };
        Ok(
            AutomationRecord::from_record(&redacted).map(|stored| AutomationInfo {
                automation: stored.automation,
                next_due: record.links.due,
                last_fired_at: stored.last_fired_at,
                last_run_id: stored.last_run_id,
                source: stored.source,
            }),
        )
    }

    /// Fails if the tenant has too many automations.
    async fn check_automation_room(&self, tenant: &TenantId) -> Result<(), EngineError> {
        let limit = self.parts.policy.automations_max;
        let limit_u32 = u32::try_from(limit).unwrap_or(u32::MAX);
        let known = self
            .parts
            .store
            .records(tenant, RecordKind::Automation, "", None, limit_u32)
            .await?
            .len();
        let limit_n = limit as u64;
        let actual = known as u64 + 1;
        if known < limit {
            Ok(())
        } else {
            Err(Rejection::TooLarge {
                field: "automations",
                unit: "items",
                limit: limit_n,
                actual,
            }
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::Redactor;
    use serde_json::json;

    #[test]
    fn automation_record_round_trips() {
        let map = json!({"automationId": "a", "schedule": {"every": "PT1H"}, "workflowId": "w", "inputs": {"x": 1}, "enabled": true});
        let policy = Policy::default();
        let redactor = Redactor::empty();
        let automation = Automation::from_map(map.as_object().unwrap(), &policy).unwrap();
        let fresh =
            AutomationRecord::new(automation, Timestamp(5), Some("automation/a".to_owned()));
        let fired = AutomationRecord {
            last_fired_at: Some(Timestamp(6)),
            last_run_id: Some("run_1".to_owned()),
            ..fresh.clone()
        };
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 0,
            now: Timestamp(0),
        };
        for automation in [fresh, fired] {
            let body = automation.body(&admission).map().clone();
            let record = Record {
                kind: RecordKind::Automation,
                key: "a".to_owned(),
                version: 0,
                at: Timestamp(0),
                body,
                links: RecordLinks::default(),
            };
            assert_eq!(
                AutomationRecord::from_record(&record),
                Some(automation.clone())
            );
            assert_eq!(
                automation.next_due(Timestamp(5)),
                Some(Timestamp(5 + 3_600_000))
            );
            let mut paused = automation;
            paused.automation.enabled = false;
            assert_eq!(paused.next_due(Timestamp(5)), None);
        }
    }
}
