//! Ticks of a schedule that a conformance check lets pass. The automation is one like any other, in
//! a tenant that only these checks use, and the pass `fire` starts it.

use super::{ENTRIES_MAX, POLL_INTERVAL, POLLS_MAX};
use crate::automations::AutomationRecord;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{
    Batch, EventBody, Permission, Precondition, RecordKind, RecordLinks, Seq, TenantId, Timestamp,
};
use serde_json::json;

/// Milliseconds from one tick to the next.
const TICK_MS: i64 = 86_400_000;
/// Maximum number of ticks that a check may simulate.
const TICKS_MAX: u32 = 1_000;

impl Engine {
    /// Lets so many ticks of a schedule pass before anybody looks, and answers how many runs were
    /// started.
    pub async fn rehearse_ticks(&self, caller: &Caller, ticks: u32) -> Result<u64, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        self.only_with_seams()?;
        let tenant = self.sandbox("scheduling").await?;
        let own = self.local_caller(&tenant).await?;
        let number = blake3::hash(self.parts.ids.unique_name().as_bytes()).to_hex();
        let id = format!("ticks-{}", &number[..16]);
        let begun = self.parts.store.head(&tenant).await?.seq;
        let automation = json!({"automationId": id, "schedule": {"cron": "0 0 * * *"}, "workflowId": "conformance-noop"});
        let automation = automation.as_object().cloned().unwrap_or_default();
        self.put_automation(&own, &id, &automation).await?;
        let ticks = i64::from(ticks.clamp(1, TICKS_MAX));
        let missed_since = self.now_for(&tenant).await?.plus_ms(-ticks * TICK_MS);
        self.backdate(&tenant, &id, missed_since).await?;
        let mut fired = 0;
        for _ in 0..POLLS_MAX {
            self.run_pass_by_name("fire", &tenant).await?;
            fired = self.automation_fires(&tenant, begun, &id).await?;
            if fired > 0 {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        // What would be made up for tick by tick would be started now.
        self.run_pass_by_name("fire", &tenant).await?;
        fired = fired.max(self.automation_fires(&tenant, begun, &id).await?);
        self.remove_automation(&own, &id).await?;
        Ok(fired)
    }

    /// Makes the automation due since that instant, as if no pass had run.
    async fn backdate(
        &self,
        tenant: &TenantId,
        id: &str,
        since: Timestamp,
    ) -> Result<(), EngineError> {
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Automation, id)
            .await?
            .ok_or(EngineError::NotFound("automation"))?;
        let known =
            AutomationRecord::from_record(&record).ok_or(EngineError::NotFound("automation"))?;
        let known = AutomationRecord {
            anchor: since,
            ..known
        };
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let due = known.next_due(since.plus_ms(-1)).unwrap_or(since);
        let batch = Batch::new(tenant.clone(), now).set_record_with_ties(
            RecordKind::Automation,
            id.to_owned(),
            Precondition::Version(record.version),
            known.body(&rules.admission(&policy, now)),
            RecordLinks::due_at(due),
        );
        self.parts.store.commit(batch).await?;
        Ok(())
    }

    /// How often the automation was started since then.
    async fn automation_fires(
        &self,
        tenant: &TenantId,
        begun: Seq,
        id: &str,
    ) -> Result<u64, EngineError> {
        let mut after = begun;
        let mut count = 0;
        loop {
            let events = self.parts.store.events(tenant, after, ENTRIES_MAX).await?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return Ok(count);
            };
            let fired = events.iter().filter(|event| {
                matches!(&event.body, EventBody::AutomationFired(fired) if fired.automation_id == id)
            });
            count += fired.count() as u64;
            after = last;
        }
    }
}
