//! Firing an automation that is due: its next due time, the record of this firing, the event and
//! the run are one commit, as with commitments. Missed ticks are combined into one.

use super::AutomationRecord;
use crate::commitments::firing::{FireOutcome, HOST};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::runs::{NewRun, PreparedRun};
use crate::stored::firing::StoredFiring;
use remem_core::event::AutomationFired;
use remem_core::proposal::automation::AutomationTarget;
use remem_core::{
    Batch, EventBody, Fence, HostText, Precondition, PrincipalId, Record, RecordKind, RecordLinks,
    TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::json;

impl Engine {
    /// Fires an automation that is due, or moves it to its next tick if its target is gone.
    pub(crate) async fn fire_automation(
        &self,
        tenant: &TenantId,
        record: Record,
        fence: Option<&Fence>,
    ) -> Result<FireOutcome, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let batch = Batch::new(tenant.clone(), now).fenced(fence.cloned());
        let version = Precondition::Version(record.version);
        let due = record.links.due.unwrap_or(now);
        let Some(mut known) = AutomationRecord::from_record(&record) else {
            // Redaction has made the automation invalid, so what it starts is unknown: it is not
            // due any more.
            let batch = batch.set_record(
                RecordKind::Automation,
                record.key,
                version,
                admission.redact_record(record.body),
            );
            return outcome_of(self.parts.store.commit(batch).await.map(|_| ()));
        };
        if self.run_queue.is_full(&policy) {
            return Ok(FireOutcome::NoFreeRun);
        }
        let instant = known
            .automation
            .latest_due(known.anchor, due.plus_ms(-1), now)
            .unwrap_or(due);
        let ties = known
            .next_due(now)
            .map(RecordLinks::due_at)
            .unwrap_or_default();
        let Some(start) = self.prepare_automated_run(tenant, &known, instant).await? else {
            tracing::warn!(tenant = %tenant, automation = known.automation.id, "what an automation is to start is not there; it waits for its next time");
            let batch = batch.set_record_with_ties(
                RecordKind::Automation,
                record.key,
                version,
                known.body(&admission),
                ties,
            );
            return outcome_of(self.parts.store.commit(batch).await.map(|_| ()));
        };
        let run_id = start.id.as_str().to_owned();
        (known.last_fired_at, known.last_run_id) = (Some(instant), Some(run_id.clone()));
        let (batch, run) = self.add_run_start(&policy, tenant, start, batch).await?;
        let batch = batch.set_record_with_ties(
            RecordKind::Automation,
            record.key,
            version,
            known.body(&admission),
            ties,
        );
        let note = StoredFiring {
            key: HostText::new(format!("automation/{}/t{}", known.automation.id, instant.0)),
            ties: RecordLinks::due_at(now.plus_ms(policy.commitment_retention_ms)),
            automation_id: Some(HostText::new(&known.automation.id)),
            scheduled_at: instant,
            fired_at: now,
            run_id: Some(HostText::new(&run_id)),
            ..StoredFiring::default()
        };
        let batch = batch.set_stored(&note, Precondition::Absent);
        let automation_id = known.automation.id;
        let scheduled_at = instant.0;
        let event = EventBody::AutomationFired(AutomationFired {
            automation_id,
            scheduled_at,
            enqueued_run_id: run_id,
        });
        match self.parts.store.commit(batch.emit_outside_run(event)).await {
            Ok(committed) => {
                self.queue_run(policy, tenant, &run, committed.revision);
                metrics::counter!("remem_automations_fired_total").increment(1);
                self.notify_run_events(tenant);
                Ok(FireOutcome::Done)
            }
            Err(error) => outcome_of(Err(error)),
        }
    }

    /// Prepares the run that an automation starts; `None` if its target cannot be started.
    async fn prepare_automated_run(
        &self,
        tenant: &TenantId,
        known: &AutomationRecord,
        instant: Timestamp,
    ) -> Result<Option<PreparedRun>, EngineError> {
        let Some(host) = PrincipalId::parse(HOST) else {
            return Ok(None);
        };
        let mut inputs = known.automation.inputs.clone();
        inputs.insert("automationId".to_owned(), json!(known.automation.id));
        inputs.insert("scheduledAt".to_owned(), json!(instant.rfc3339()));
        let (workflow_id, agent_id) = match &known.automation.target {
            AutomationTarget::Workflow(id) => (id.clone(), None),
            AutomationTarget::Agent(id) => (String::new(), Some(id.clone())),
        };
        let tags = vec!["source:automation".to_owned()];
        match self
            .prepare_run(
                tenant,
                &host,
                None,
                NewRun {
                    workflow_id,
                    agent_id,
                    inputs,
                    tags,
                    ..NewRun::default()
                },
            )
            .await
        {
            Ok(start) => Ok(Some(start)),
            Err(
                reason @ (EngineError::UnknownWorkflow
                | EngineError::NotFound(_)
                | EngineError::Rejected(_)),
            ) => {
                tracing::warn!(tenant = %tenant, automation = known.automation.id, %reason, "an automation cannot be started");
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// The outcome that the result of a commit means.
fn outcome_of(committed: Result<(), StoreError>) -> Result<FireOutcome, EngineError> {
    match committed {
        Ok(()) => Ok(FireOutcome::Done),
        Err(StoreError::Conflict) => Ok(FireOutcome::NotDone),
        Err(other) => Err(other.into()),
    }
}
