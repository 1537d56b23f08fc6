//! Firing an automation that is due: its next due time, the record of this firing, the event and
//! the run are one commit, as with commitments. Missed ticks are combined into one.

use super::AutomationRecord;
use crate::commitments::fire::{Fired, HOST};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::own_words;
use crate::runs::{NewRun, Start};
use remem_core::event::AutomationFired;
use remem_core::proposal::automation::Target;
use remem_core::{
    Batch, EventBody, Fence, Precondition, PrincipalId, Record, RecordKind, TenantId, Ties,
    Timestamp,
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
    ) -> Result<Fired, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let rules = self.rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let batch = Batch::new(tenant.clone(), now).fenced(fence.cloned());
        let version = Precondition::Version(record.version);
        let due = record.ties.due.unwrap_or(now);
        let Some(mut known) = AutomationRecord::read(&record) else {
            // Redaction has made the automation invalid, so what it starts is unknown: it is not
            // due any more.
            let batch = batch.set(
                RecordKind::Automation,
                record.key,
                version,
                admission.record(record.body),
            );
            return settled(self.parts.store.commit(batch).await.map(|_| ()));
        };
        if self.runs.is_full(&policy) {
            return Ok(Fired::Held);
        }
        let instant = known
            .automation
            .latest(known.anchor, due.plus_ms(-1), now)
            .unwrap_or(due);
        let ties = known.next_due(now).map(Ties::due).unwrap_or_default();
        let Some(start) = self.automated_run(tenant, &known, instant).await? else {
            tracing::warn!(tenant = %tenant, automation = known.automation.id, "what an automation is to start is not there; it waits for its next time");
            let batch = batch.set_tied(
                RecordKind::Automation,
                record.key,
                version,
                known.body(&admission),
                ties,
            );
            return settled(self.parts.store.commit(batch).await.map(|_| ()));
        };
        let run_id = start.id.as_str().to_owned();
        (known.last_fired_at, known.last_run_id) = (Some(instant), Some(run_id.clone()));
        let (batch, run) = self.starting(&policy, tenant, start, batch).await?;
        let batch = batch.set_tied(
            RecordKind::Automation,
            record.key,
            version,
            known.body(&admission),
            ties,
        );
        let note = json!({"automationId": known.automation.id, "scheduledAt": instant.0, "firedAt": now.0, "runId": run_id});
        let key = format!("automation/{}/t{}", known.automation.id, instant.0);
        let firing_ties = Ties::due(now.plus_ms(policy.commitment_retention_ms));
        let batch = batch.set_tied(
            RecordKind::Fire,
            key,
            Precondition::Absent,
            own_words(note),
            firing_ties,
        );
        let automation_id = known.automation.id;
        let scheduled_at = instant.0;
        let event = EventBody::AutomationFired(AutomationFired {
            automation_id,
            scheduled_at,
            enqueued_run_id: run_id,
        });
        match self.parts.store.commit(batch.emit_apart(event)).await {
            Ok(committed) => {
                self.carry(policy, tenant, &run, committed.revision);
                metrics::counter!("remem_automations_fired_total").increment(1);
                self.has_deliveries(tenant);
                Ok(Fired::Now)
            }
            Err(error) => settled(Err(error)),
        }
    }

    /// Prepares the run that an automation starts; `None` if its target cannot be started.
    async fn automated_run(
        &self,
        tenant: &TenantId,
        known: &AutomationRecord,
        instant: Timestamp,
    ) -> Result<Option<Start>, EngineError> {
        let Some(host) = PrincipalId::parse(HOST) else {
            return Ok(None);
        };
        let mut inputs = known.automation.inputs.clone();
        inputs.insert("automationId".to_owned(), json!(known.automation.id));
        inputs.insert("scheduledAt".to_owned(), json!(instant.rfc3339()));
        let (workflow_id, agent_id) = match &known.automation.target {
            Target::Workflow(id) => (id.clone(), None),
            Target::Agent(id) => (String::new(), Some(id.clone())),
        };
        let tags = vec!["source:automation".to_owned()];
        match self
            .prepare_run(
                tenant,
                (&host, None),
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
fn settled(committed: Result<(), StoreError>) -> Result<Fired, EngineError> {
    match committed {
        Ok(()) => Ok(Fired::Now),
        Err(StoreError::Conflict) => Ok(Fired::Elsewhere),
        Err(other) => Err(other.into()),
    }
}
