//! How promises are read out of a memory, and what becomes of them: one record a memory, and one
//! for all others.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::commitment::Delivery;
use remem_core::sabotage;
use remem_core::{
    Batch, MemoryRef, Permission, Precondition, RecordKind, Rejection, TenantId, schedule,
};
use remem_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What becomes of a promise that was read out of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// It is armed if it is clear enough, else it waits to be confirmed.
    #[default]
    Auto,
    /// It waits to be confirmed.
    Confirm,
    /// Nothing: texts are not read.
    Off,
}

impl Arm {
    /// Every choice.
    pub const ALL: [Arm; 3] = [Arm::Auto, Arm::Confirm, Arm::Off];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Arm::Auto => "auto",
            Arm::Confirm => "confirm",
            Arm::Off => "off",
        }
    }
}

/// The rules of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentRules {
    /// The memory; absent for those of all memories that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// What becomes of promises.
    #[serde(default)]
    pub arm: Arm,
    /// By whose clocks times are meant.
    #[serde(default = "utc")]
    pub zone: String,
    /// What is started when one fires.
    #[serde(default)]
    pub delivery: Delivery,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Default for CommitmentRules {
    fn default() -> CommitmentRules {
        CommitmentRules {
            memory_ref: None,
            arm: Arm::Auto,
            zone: utc(),
            delivery: Delivery::default(),
        }
    }
}

/// What a caller sets.
#[derive(Clone, Debug, Default)]
pub struct NewRules {
    /// `auto`, `confirm` or `off`.
    pub arm: Option<String>,
    /// The name of a time zone.
    pub zone: Option<String>,
    /// What is started when one fires.
    pub delivery: Delivery,
}

const UNREADABLE: &str = "rules of commitments cannot be read";

/// The name of the record; names of memories can be longer than a key may be.
fn key(memory_ref: Option<&MemoryRef>) -> String {
    memory_ref.map_or_else(
        || "*".to_owned(),
        |memory_ref| {
            blake3::hash(memory_ref.as_str().as_bytes())
                .to_hex()
                .to_string()
        },
    )
}

impl Engine {
    /// Sets the rules of a memory, or of all that have none of their own.
    pub async fn put_commitment_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
        new: NewRules,
    ) -> Result<CommitmentRules, EngineError> {
        sabotage!(
            "anybody-sets-the-rules-of-promises",
            caller.require(Permission::MemoryAdmin)?
        );
        let memory = self.named_memory(caller, memory_ref).await?;
        let arm = match new.arm.as_deref() {
            None => Arm::default(),
            Some(text) => {
                let known = Arm::ALL.into_iter().find(|arm| arm.as_str() == text);
                known.ok_or(Rejection::Invalid {
                    field: "arm",
                    rule: "must be auto, confirm or off",
                })?
            }
        };
        let zone = new.zone.unwrap_or_else(utc);
        schedule::zone(&zone)?;
        self.check_delivery(caller, &new.delivery).await?;
        let rules = CommitmentRules {
            memory_ref: memory.as_ref().map(|memory| memory.as_str().to_owned()),
            arm,
            zone,
            delivery: new.delivery,
        };
        let now = self.now_for(caller.tenant()).await?;
        // What a run is to be given may hold what a caller wrote.
        let given = self.rules(caller.tenant()).await?;
        let body = given
            .admission(&self.policy_of(caller), now)
            .record(object(json!(rules)));
        let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
        self.parts
            .store
            .commit(batch.set(
                RecordKind::CommitmentRules,
                key(memory.as_ref()),
                Precondition::None,
                body,
            ))
            .await?;
        self.shown_rules(caller, memory.as_ref()).await
    }

    /// The rules that hold for a memory: its own, or those of all.
    pub async fn commitment_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRules, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let memory = memory_ref
            .and_then(|name| caller.scope(name))
            .map(|scope| scope.memory_ref);
        self.shown_rules(caller, memory.as_ref()).await
    }

    /// What a run is to be given is looked at again: a secret may have been registered since.
    async fn shown_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<CommitmentRules, EngineError> {
        let rules = self.rules_of(caller.tenant(), memory_ref).await?;
        let given = self.rules(caller.tenant()).await?;
        let shown = given
            .admission(&self.policy_of(caller), self.now())
            .record(object(json!(rules)));
        serde_json::from_value(Value::Object(shown.map().clone()))
            .map_err(|_| StoreError::Damaged(UNREADABLE).into())
    }

    pub(crate) async fn rules_of(
        &self,
        tenant: &TenantId,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<CommitmentRules, EngineError> {
        for key in memory_ref
            .map(|memory_ref| key(Some(memory_ref)))
            .into_iter()
            .chain([key(None)])
        {
            if let Some(record) = self
                .parts
                .store
                .record(tenant, RecordKind::CommitmentRules, &key)
                .await?
            {
                let rules: Result<CommitmentRules, _> =
                    serde_json::from_value(Value::Object(record.body));
                let mut rules = rules.map_err(|_| StoreError::Damaged(UNREADABLE))?;
                // What is started is told the memory's name: for one user's own, that user decides
                // what that is.
                if rules.memory_ref.is_none()
                    && memory_ref.is_some_and(|memory_ref| memory_ref.owner().is_some())
                {
                    sabotage!(
                        "rules-for-all-start-what-they-like",
                        rules.delivery = Delivery::default()
                    );
                }
                return Ok(rules);
            }
        }
        Ok(self.parts.commitments.clone())
    }

    async fn named_memory(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
    ) -> Result<Option<MemoryRef>, EngineError> {
        let Some(name) = memory_ref else {
            return Ok(None);
        };
        let scope = caller.scope_to_write(name)?;
        remem_core::admission::check_name(
            self.rules(caller.tenant()).await?.redactor(),
            "memoryRef",
            scope.memory_ref.as_str(),
        )?;
        Ok(Some(scope.memory_ref))
    }

    /// What is to be started must be there now, and the caller's to start; should it go, the
    /// commitment still tells that it fired.
    pub(crate) async fn check_delivery(
        &self,
        caller: &Caller,
        delivery: &Delivery,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        if delivery.workflow_id.is_some() || delivery.agent_id.is_some() {
            sabotage!(
                "a-delivery-starts-runs-for-anybody",
                caller.require(Permission::RunsCreate)?
            );
            caller.vouch_for_runs()?;
        }
        if delivery.workflow_id.is_some() && delivery.agent_id.is_some() {
            return Err(Rejection::Invalid {
                field: "delivery",
                rule: "must not name both a workflow and an agent",
            }
            .into());
        }
        if let Some(workflow) = &delivery.workflow_id {
            self.workflow_of(tenant, workflow)
                .await?
                .ok_or(EngineError::UnknownWorkflow)?
                .acts_with(None)?;
        }
        if let Some(agent) = &delivery.agent_id {
            self.turn_of(tenant, agent).await?;
        }
        let limit = self.parts.policy.run_input_bytes_max;
        let actual = json!(delivery.inputs).to_string().len();
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "inputs",
                unit: "bytes",
                limit: limit as u64,
                actual: actual as u64,
            }
            .into());
        }
        Ok(())
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value {
        map
    } else {
        Map::new()
    }
}
