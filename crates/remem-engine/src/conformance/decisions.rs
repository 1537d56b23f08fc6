//! Decisions that conformance checks ask for: whether a principal may do something, and what an
//! approval gate answers. The gate is that of proposals, in a tenant that only these checks use.

use crate::caller::Caller;
use crate::engine::{Engine, EngineParts};
use crate::error::EngineError;
use crate::proposals::{ActivationMode, ApplyResult, NewProposal, ProposalError, ProposalSettings};
use remem_core::proposal::ProposalKind;
use remem_core::{Permission, PrincipalId, Rejection, Seq, TenantId};
use serde_json::{Value, json};

/// The outcome of a gate of a conformance check.
#[derive(Clone, Debug, PartialEq)]
pub struct Gated {
    /// Whether it let the proposal pass.
    pub released: bool,
    /// Type of the event that records the decision.
    pub kind: &'static str,
    /// Payload of that event.
    pub payload: Value,
}

/// Events read at once.
const EVENTS: u32 = 100;

impl Engine {
    /// Whether a principal of the caller's tenant may do that: only if one of its keys allows it
    /// now. What is unknown is denied.
    pub async fn rehearse_decision(
        &self,
        caller: &Caller,
        principal: &str,
        action: &str,
    ) -> Result<bool, EngineError> {
        caller.require(Permission::KeysManage)?;
        self.only_with_seams()?;
        let wanted: Option<Permission> = action.parse().ok();
        let (Some(wanted), Some(principal)) = (wanted, PrincipalId::parse(principal)) else {
            return Ok(false);
        };
        let now = self.now();
        let keys = self.parts.directory.keys(caller.tenant()).await?;
        Ok(keys.iter().any(|key| {
            let is_good = key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
            is_good && key.principal == principal && key.effective_permissions().contains(&wanted)
        }))
    }

    /// Lets a proposal be submitted and asks its gate as the scenario says, as for everybody else.
    pub async fn rehearse_gate(
        &self,
        caller: &Caller,
        scenario: &str,
    ) -> Result<Gated, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        self.only_with_seams()?;
        let kind = match scenario {
            "unauthorized-grant" => "authorization.decided",
            "grant" | "quorum" => "approval.granted",
            "reject" => "approval.rejected",
            "override" => "approval.overridden",
            _ => {
                return Err(Rejection::Invalid {
                    field: "scenario",
                    rule: "must be unauthorized-grant, grant, reject, override or quorum",
                }
                .into());
            }
        };
        let quorum = if matches!(scenario, "override" | "quorum") {
            2
        } else {
            1
        };
        let tenant = self.sandbox("gate").await?;
        let begun = self.parts.store.head(&tenant).await?.seq;
        let gated = self.gated(quorum);
        let id = gated.proposal_to_decide(&tenant).await?;
        let released = gated.decide(&tenant, &id, scenario).await?;
        let payload = self.reported_by(&tenant, begun, kind, &id).await?;
        Ok(Gated {
            released,
            kind,
            payload,
        })
    }

    /// Returns an engine on the same storage whose proposals need this number of approvals.
    fn gated(&self, quorum: u32) -> Engine {
        let parts = &self.parts;
        let proposals = ProposalSettings {
            activation: ActivationMode::ApprovalGate,
            quorum,
            override_bypasses_quorum: true,
            ..ProposalSettings::default()
        };
        Engine::new(EngineParts {
            proposal_store: parts.proposal_store.clone(),
            proposal_settings: proposals,
            policy: parts.policy.clone(),
            ..EngineParts::new(
                parts.store.clone(),
                parts.directory.clone(),
                parts.clock.clone(),
                parts.ids.clone(),
                parts.host_key.clone(),
            )
        })
    }

    /// Returns a caller in a tenant that only checks use.
    async fn check_caller(
        &self,
        tenant: &TenantId,
        name: &str,
        permissions: &[Permission],
    ) -> Result<Caller, EngineError> {
        Ok(Caller {
            principal: PrincipalId::parse(name)
                .ok_or(Rejection::MalformedName { field: "principal" })?,
            permissions: permissions.to_vec(),
            ..self.local_caller(tenant).await?
        })
    }

    /// Submits a proposal and opens its gate.
    async fn proposal_to_decide(&self, tenant: &TenantId) -> Result<String, EngineError> {
        let author = self
            .check_caller(tenant, "author", &Permission::ALL)
            .await?;
        let number = blake3::hash(self.parts.ids.unique_name().as_bytes()).to_hex();
        let artifact = json!({
            "templateId": format!("rehearsal-{}", &number[..16]), "version": "1.0.0",
            "text": "Hello, {{who}}.", "variables": [{"name": "who", "defaultValue": "you"}],
        });
        let new = NewProposal {
            kind: ProposalKind::PromptTemplate,
            title: None,
            rationale: None,
            artifact: artifact.as_object().cloned().unwrap_or_default(),
            source_runs: Vec::new(),
        };
        let (shown, _) = self.submit_proposal(&author, new, None).await?;
        let id = shown.proposal.id;
        self.apply_proposal(&author, &id, None).await?;
        Ok(id)
    }

    /// Whether the gate lets the proposal pass.
    async fn decide(
        &self,
        tenant: &TenantId,
        id: &str,
        scenario: &str,
    ) -> Result<bool, EngineError> {
        let reviewer = self
            .check_caller(tenant, "reviewer", &Permission::ALL)
            .await?;
        let done = match scenario {
            "unauthorized-grant" => {
                let nobody = self
                    .check_caller(tenant, "stranger", &[Permission::ProposalsRead])
                    .await?;
                match self.approve_proposal(&nobody, id, None).await {
                    Err(
                        EngineError::Forbidden(_) | EngineError::Proposal(ProposalError::Denied(_)),
                    ) => return Ok(false),
                    other => other?,
                }
            }
            "reject" => {
                self.reject_proposal(&reviewer, id).await?;
                return Ok(false);
            }
            "override" => {
                self.override_proposal(&reviewer, id, "urgent", None, None)
                    .await?
            }
            "quorum" => {
                self.approve_proposal(&reviewer, id, None).await?;
                let second = self
                    .check_caller(tenant, "second", &Permission::ALL)
                    .await?;
                self.approve_proposal(&second, id, None).await?
            }
            _ => self.approve_proposal(&reviewer, id, None).await?,
        };
        Ok(matches!(done, ApplyResult::Installed(_)))
    }

    /// The last event of a kind about a proposal since then.
    async fn reported_by(
        &self,
        tenant: &TenantId,
        begun: Seq,
        kind: &str,
        id: &str,
    ) -> Result<Value, EngineError> {
        let mut after = begun;
        let mut found = None;
        loop {
            let events = self.parts.store.events(tenant, after, EVENTS).await?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return found.ok_or(EngineError::NotFound("approval gate"));
            };
            let mut about = events
                .iter()
                .filter(|event| event.body.kind().as_str() == kind)
                .map(|event| event.body.payload())
                .filter(|payload| payload.to_string().contains(id));
            found = about.next_back().or(found);
            after = last;
        }
    }
}
