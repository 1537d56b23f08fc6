//! The rules by which commitments are recognised in a memory and handled: one record for each
//! memory, and one for all others.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::commitment::Delivery;
use remem_core::sabotage;
use remem_core::{
    Batch, MemoryRef, Permission, Precondition, RecordKind, Rejection, StoredRecord, TenantId,
    schedule,
};
use remem_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How a commitment that was recognised in a text is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArmMode {
    /// It is armed if the text is clear enough; otherwise it waits for confirmation.
    #[default]
    Auto,
    /// It always waits for confirmation.
    Confirm,
    /// Texts are not searched for commitments.
    Off,
}

impl ArmMode {
    /// Every mode, for parsing and documentation.
    pub const ALL: [ArmMode; 3] = [ArmMode::Auto, ArmMode::Confirm, ArmMode::Off];

    /// The stable name in records and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ArmMode::Auto => "auto",
            ArmMode::Confirm => "confirm",
            ArmMode::Off => "off",
        }
    }
}

/// The rules for commitments of one memory, or of all without their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentRules {
    /// The memory; absent for the rules of all memories that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// How recognised commitments are handled.
    #[serde(default)]
    pub arm: ArmMode,
    /// The time zone in which times in texts are meant.
    #[serde(default = "utc")]
    pub zone: String,
    /// The workflow or agent to start when a commitment fires.
    #[serde(default)]
    pub delivery: Delivery,
}

/// The default time zone.
fn utc() -> String {
    "UTC".to_owned()
}

impl Default for CommitmentRules {
    fn default() -> CommitmentRules {
        CommitmentRules {
            memory_ref: None,
            arm: ArmMode::Auto,
            zone: utc(),
            delivery: Delivery::default(),
        }
    }
}

impl StoredRecord for CommitmentRules {
    const KIND: RecordKind = RecordKind::CommitmentRules;

    fn key(&self) -> String {
        rules_key(self.memory_ref.as_deref())
    }
}

/// The rules that a caller sets for a memory.
#[derive(Clone, Debug, Default)]
pub struct NewCommitmentRules {
    /// How recognised commitments are handled: `auto`, `confirm` or `off`.
    pub arm: Option<String>,
    /// An IANA time zone.
    pub zone: Option<String>,
    /// The workflow or agent to start when a commitment fires.
    pub delivery: Delivery,
}

const UNREADABLE: &str = "rules of commitments cannot be read";

/// The key of the rules' record: a digest, since names of memories can be longer than a key may be.
fn rules_key(memory_ref: Option<&str>) -> String {
    memory_ref.map_or_else(
        || "*".to_owned(),
        |memory_ref| blake3::hash(memory_ref.as_bytes()).to_hex().to_string(),
    )
}

impl Engine {
    /// Sets the rules of a memory, or of all that have none of their own.
    pub async fn put_commitment_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
        new: NewCommitmentRules,
    ) -> Result<CommitmentRules, EngineError> {
        sabotage!(
            "anybody-sets-the-rules-of-promises",
            caller.require(Permission::MemoryAdmin)?
        );
        let memory = self.resolve_rules_memory(caller, memory_ref).await?;
        let arm = match new.arm.as_deref() {
            None => ArmMode::default(),
            Some(text) => {
                let known = ArmMode::ALL.into_iter().find(|arm| arm.as_str() == text);
                known.ok_or(Rejection::Invalid {
                    field: "arm",
                    rule: "must be auto, confirm or off",
                })?
            }
        };
        let zone = new.zone.unwrap_or_else(utc);
        schedule::parse_zone(&zone)?;
        self.check_delivery(caller, &new.delivery).await?;
        let rules = CommitmentRules {
            memory_ref: memory.as_ref().map(|memory| memory.as_str().to_owned()),
            arm,
            zone,
            delivery: new.delivery,
        };
        let now = self.now_for(caller.tenant()).await?;
        // The inputs of a run may contain text that a caller wrote, so they are redacted.
        let redaction = self.redaction_rules(caller.tenant()).await?;
        let body = redaction
            .admission(&self.policy_of(caller), now)
            .redact_stored(&rules);
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        self.parts
            .store
            .commit(batch.set_record(
                RecordKind::CommitmentRules,
                rules.key(),
                Precondition::None,
                body,
            ))
            .await?;
        self.redacted_commitment_rules(caller, memory.as_ref())
            .await
    }

    /// Returns the rules that apply to a memory: its own, or those of all.
    pub async fn get_commitment_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRules, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let memory = memory_ref
            .and_then(|name| caller.scope(name))
            .map(|scope| scope.memory_ref);
        self.redacted_commitment_rules(caller, memory.as_ref())
            .await
    }

    /// The rules that apply to a memory, redacted by today's rules: a secret may have been
    /// registered since they were set.
    async fn redacted_commitment_rules(
        &self,
        caller: &Caller,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<CommitmentRules, EngineError> {
        let rules = self
            .effective_commitment_rules(caller.tenant(), memory_ref)
            .await?;
        let redaction = self.redaction_rules(caller.tenant()).await?;
        let redacted = redaction
            .admission(&self.policy_of(caller), self.now())
            .redact_stored(&rules);
        let rules = CommitmentRules::from_map(redacted.map());
        Ok(rules.ok_or(StoreError::Damaged(UNREADABLE))?)
    }

    /// The rules that apply to a memory: its own, those of all memories, or the host's defaults.
    pub(crate) async fn effective_commitment_rules(
        &self,
        tenant: &TenantId,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<CommitmentRules, EngineError> {
        for key in memory_ref
            .map(|memory_ref| rules_key(Some(memory_ref.as_str())))
            .into_iter()
            .chain([rules_key(None)])
        {
            if let Some(record) = self
                .parts
                .store
                .record(tenant, RecordKind::CommitmentRules, &key)
                .await?
            {
                let rules = CommitmentRules::read(&record);
                let mut rules = rules.ok_or(StoreError::Damaged(UNREADABLE))?;
                // The started run gets the memory's name as an input. For a memory of one user,
                // only that user's own rules may start one.
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

    /// Resolves the memory that rules are set for; fails if its name holds a secret.
    async fn resolve_rules_memory(
        &self,
        caller: &Caller,
        memory_ref: Option<&str>,
    ) -> Result<Option<MemoryRef>, EngineError> {
        let Some(name) = memory_ref else {
            return Ok(None);
        };
        let scope = caller.scope_to_write(name)?;
        remem_core::admission::check_name(
            self.redaction_rules(caller.tenant()).await?.redactor(),
            "memoryRef",
            scope.memory_ref.as_str(),
        )?;
        Ok(Some(scope.memory_ref))
    }

    /// Checks that what a delivery starts exists and that the caller may start it. If it is removed
    /// later, the commitment still fires, without a run.
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
            caller.require_run_trust()?;
        }
        if delivery.workflow_id.is_some() && delivery.agent_id.is_some() {
            return Err(Rejection::Invalid {
                field: "delivery",
                rule: "must not name both a workflow and an agent",
            }
            .into());
        }
        if let Some(workflow) = &delivery.workflow_id {
            self.find_workflow(tenant, workflow)
                .await?
                .ok_or(EngineError::UnknownWorkflow)?
                .effective_scopes(None)?;
        }
        if let Some(agent) = &delivery.agent_id {
            self.agent_turn_workflow(tenant, agent).await?;
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
