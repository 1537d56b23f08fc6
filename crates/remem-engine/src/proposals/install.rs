//! Installing a proposal: the records that resolvers read, and beside them the exact bytes that
//! they came from. A name that the tenant or the host uses already is never replaced.

use super::ProposalError;
use super::record::ProposalRecord;
use super::stored::StoredInstallation;
use crate::automations::AutomationRecord;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::runs::with_scopes;
use remem_core::admission::check_name;
use remem_core::proposal::{Artifact, Installable, ProposalKind, check};
use remem_core::sabotage;
use remem_core::{
    Agent, Batch, CleanText, HostText, Permission, Precondition, Record, RecordBody, RecordKind,
    RecordLinks, Rejection, StoredRecord, TenantId, Timestamp, Workflow,
};
use serde_json::{Map, Value};

/// An artifact that was installed from a proposal.
#[derive(Clone, PartialEq)]
pub struct InstallationInfo {
    /// The kind and name: `<kind>/<name>`.
    pub reference: String,
    /// The exact bytes, redacted if they have come to contain a secret.
    pub artifact: String,
    /// The hash of the installed bytes.
    pub sha256: String,
    /// The id of the proposal.
    pub proposal: String,
    /// The installed revision of the proposal.
    pub revision: u64,
    /// When it was installed.
    pub at: Timestamp,
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for InstallationInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Installed")
            .field("reference", &self.reference)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

/// One record that an installation writes.
struct InstallRecord {
    kind: RecordKind,
    key: String,
    body: RecordBody,
    ties: RecordLinks,
}

impl InstallRecord {
    /// The kind and name of the record.
    fn item(&self) -> (HostText, HostText) {
        (HostText::from(self.kind.as_str()), HostText::new(&self.key))
    }
}

/// Everything that an installation writes.
pub(super) struct Installation {
    /// The kind and name: `<kind>/<name>`.
    pub reference: String,
    records: Vec<InstallRecord>,
    installed: StoredInstallation,
    /// The condition on the record of an earlier installation of this name.
    precondition: Precondition,
}

impl Installation {
    /// Adds all records to a batch, under the condition that their names are still free.
    pub fn add_to(self, batch: Batch) -> Batch {
        let add = |batch: Batch, effect: InstallRecord| {
            batch.set_record_with_ties(
                effect.kind,
                effect.key,
                Precondition::Absent,
                effect.body,
                effect.ties,
            )
        };
        let batch = self.records.into_iter().fold(batch, add);
        batch.set_stored(&self.installed, self.precondition)
    }
}

impl Engine {
    /// Lists what was installed from proposals, by kind and name.
    pub async fn list_installed_artifacts(
        &self,
        caller: &Caller,
    ) -> Result<Vec<InstallationInfo>, EngineError> {
        caller.require(Permission::ProposalsRead)?;
        let limit = u32::try_from(self.parts.policy.proposals_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::InstalledArtifact,
                "",
                None,
                limit,
            )
            .await?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let read = |record: Record| {
            let stored = StoredInstallation::read(&record)?;
            let admission = rules.admission(&policy, record.at);
            let artifact = admission.redact_text(&stored.artifact?);
            Some(InstallationInfo {
                artifact: artifact.into_string(),
                sha256: stored.sha256?.into_string(),
                proposal: stored.proposal_id?.into_string(),
                revision: stored.revision?,
                at: record.at,
                reference: record.key,
            })
        };
        Ok(records.into_iter().filter_map(read).collect())
    }

    /// Plans what applying a proposal writes.
    pub(super) async fn plan_installation(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
        artifact: &Artifact,
        now: Timestamp,
    ) -> Result<Installation, EngineError> {
        caller.require_run_trust()?;
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let installable =
            check(proposal.kind, &artifact.to_map(), &policy).map_err(ProposalError::Malformed)?;
        let reference = format!("{}/{}", proposal.kind.as_str(), installable.name());
        let rules = self.redaction_rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let record_of = |kind, key: &str, body: Map<String, Value>| InstallRecord {
            kind,
            key: key.to_owned(),
            body: admission.redact_record(body),
            ties: RecordLinks::default(),
        };
        let effects: Vec<InstallRecord> = match &installable {
            Installable::Agents { agents, .. } => {
                self.check_prompts(tenant, agents).await?;
                agents
                    .iter()
                    .map(|agent| record_of(RecordKind::Agent, agent.id(), agent.body().clone()))
                    .collect()
            }
            Installable::Workflows { workflows, .. } => {
                let definition = |workflow: &Workflow| {
                    record_of(
                        RecordKind::Workflow,
                        &workflow.id,
                        with_scopes(workflow.document.clone(), caller),
                    )
                };
                workflows.iter().map(definition).collect()
            }
            Installable::Prompt(template) => {
                vec![record_of(
                    RecordKind::Prompt,
                    template.id(),
                    artifact.to_map(),
                )]
            }
            Installable::Automation(automation) => {
                let record =
                    AutomationRecord::new(automation.clone(), now, Some(reference.clone()));
                let ties = record
                    .next_due(now)
                    .map(RecordLinks::due_at)
                    .unwrap_or_default();
                vec![InstallRecord {
                    kind: RecordKind::Automation,
                    key: automation.id.clone(),
                    body: record.body(&admission),
                    ties,
                }]
            }
        };
        for effect in &effects {
            // Names are stored in clear and appear in events, so they are always checked for
            // secrets, independent of the tenant's policy for shapes.
            check_name(rules.redactor(), "artifact", &effect.key)
                .map_err(|_| ProposalError::HoldsSecret)?;
        }
        let precondition = self
            .check_names(tenant, proposal, &reference, &effects)
            .await?;
        let stored_artifact = sabotage!(
            "a-proposal-is-written-anew-when-it-is-applied",
            CleanText::of_artifact(artifact),
            admission
                .redact_text(
                    &Value::Object(artifact.to_map())
                        .to_string()
                        .replace("1.0}", "1}")
                )
                .into()
        );
        let installed = StoredInstallation {
            reference: HostText::new(&reference),
            artifact: Some(stored_artifact),
            sha256: Some(HostText::new(artifact.sha256())),
            proposal_id: Some(HostText::new(&proposal.id)),
            revision: Some(proposal.revision),
            items: effects.iter().map(InstallRecord::item).collect(),
            by: Some(HostText::from(caller.principal())),
            at: Some(now),
            erased: None,
        };
        Ok(Installation {
            reference,
            records: effects,
            installed,
            precondition,
        })
    }

    /// Fails unless the prompts of all agents exist.
    async fn check_prompts(&self, tenant: &TenantId, agents: &[Agent]) -> Result<(), EngineError> {
        for agent in agents {
            if self.system_prompt(tenant, agent).await?.is_none() {
                let rule = "must name a workspace file or a prompt template of the tenant";
                return Err(ProposalError::Malformed(Rejection::Invalid {
                    field: "systemPromptRef",
                    rule,
                })
                .into());
            }
        }
        Ok(())
    }

    /// Fails if a name is used or a limit is exceeded; returns the condition for the record of the
    /// installation.
    async fn check_names(
        &self,
        tenant: &TenantId,
        proposal: &ProposalRecord,
        reference: &str,
        effects: &[InstallRecord],
    ) -> Result<Precondition, EngineError> {
        for effect in effects {
            let is_of_host = match effect.kind {
                RecordKind::Agent => self
                    .parts
                    .agents
                    .iter()
                    .any(|agent| agent.id() == effect.key),
                RecordKind::Workflow => self.host_workflow(&effect.key).is_some(),
                _ => false,
            };
            if sabotage!(
                "a-proposal-takes-over-a-name",
                is_of_host
                    || self
                        .parts
                        .store
                        .record(tenant, effect.kind, &effect.key)
                        .await?
                        .is_some(),
                is_of_host
            ) {
                return Err(ProposalError::InstallConflict.into());
            }
        }
        self.check_room(tenant, proposal.kind, effects).await?;
        let Some(earlier) = self
            .parts
            .store
            .record(tenant, RecordKind::InstalledArtifact, reference)
            .await?
        else {
            return Ok(Precondition::Absent);
        };
        // What was installed under this name before may have been deleted since; then the name is
        // free.
        let items = StoredInstallation::read(&earlier).unwrap_or_default().items;
        for (kind, key) in &items {
            let kind = RecordKind::ALL
                .into_iter()
                .find(|known| known.as_str() == kind.as_str());
            let (Some(kind), key) = (kind, key.as_str()) else {
                continue;
            };
            if self.parts.store.record(tenant, kind, key).await?.is_some() {
                return Err(ProposalError::InstallConflict.into());
            }
        }
        Ok(Precondition::Version(earlier.version))
    }

    /// Fails if the tenant would have too many records of a kind.
    async fn check_room(
        &self,
        tenant: &TenantId,
        kind: ProposalKind,
        effects: &[InstallRecord],
    ) -> Result<(), EngineError> {
        let policy = &self.parts.policy;
        let (record, field, limit) = match kind {
            ProposalKind::AgentPack => (RecordKind::Agent, "agents", policy.agents_max),
            ProposalKind::WorkflowChainPack => (
                RecordKind::Workflow,
                "workflows",
                policy.workflows_max as usize,
            ),
            ProposalKind::PromptTemplate => (RecordKind::Prompt, "prompts", policy.prompts_max),
            ProposalKind::Automation => (
                RecordKind::Automation,
                "automations",
                policy.automations_max,
            ),
        };
        let limit_u32 = u32::try_from(limit).unwrap_or(u32::MAX);
        let actual = self
            .parts
            .store
            .records(tenant, record, "", None, limit_u32)
            .await?
            .len()
            + effects.len();
        let limit = limit as u64;
        let actual = actual as u64;
        if actual <= limit {
            Ok(())
        } else {
            Err(Rejection::TooLarge {
                field,
                unit: "items",
                limit,
                actual,
            }
            .into())
        }
    }
}
