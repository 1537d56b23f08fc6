//! Applying a proposal. The bytes of its newest revision are installed exactly as they were stored:
//! read by number, and checked against their hash, the rules of their kind and the secrets of
//! today. Nothing is generated anew.

use super::authority::{Action, allowed};
use super::change::{changing, is_seen, step};
use super::draft::still_clean;
use super::gate::{Gate, GateState};
use super::manage::{busy, settled};
use super::record::{Activated, Proposal, Shown};
use super::{Activation, ProposalError, TRIES};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::ProposalActivated;
use remem_core::proposal::{Artifact, Step};
use remem_core::sabotage;
use remem_core::{Batch, EventBody, Permission, Timestamp};

/// The result of an attempt to apply a proposal.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// The proposal is installed.
    Installed(Box<Shown>),
    /// Further principals have to approve it first.
    Waiting(Box<Shown>, Box<Gate>),
}

impl Applied {
    /// The proposal in its current state.
    #[must_use]
    pub fn shown(&self) -> &Shown {
        match self {
            Applied::Installed(shown) | Applied::Waiting(shown, _) => shown,
        }
    }
}

impl Engine {
    /// Applies a proposal. If that takes several approvals, requests them and adds the caller's.
    /// `digest` is the hash of the artifact that the caller has reviewed.
    pub async fn apply_proposal(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<Applied, EngineError> {
        for _ in 0..TRIES {
            if let Some(result) = settled(self.apply_once(caller, id, digest).await) {
                return result;
            }
        }
        busy()
    }

    /// One attempt to apply; conflicts with concurrent changes of the proposal.
    async fn apply_once(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<Applied, EngineError> {
        let proposal = self.to_decide(caller, id, Action::Apply).await?;
        step(&proposal, Step::Apply)?;
        is_seen(&proposal, digest)?;
        match self.parts.proposals.activation {
            Activation::DirectRbac => self.apply_directly(caller, proposal).await,
            Activation::ApprovalGate => self.ask_or_grant(caller, proposal).await,
        }
    }

    /// Finds a proposal that the caller wants to decide about, and checks its right to. A caller
    /// without the right does not learn whether the proposal exists.
    pub(super) async fn to_decide(
        &self,
        caller: &Caller,
        id: &str,
        action: Action,
    ) -> Result<Proposal, EngineError> {
        match self.find_proposal(caller.tenant(), id).await {
            Ok(proposal) => self
                .authorize(caller, &proposal, action)
                .await
                .map(|()| proposal),
            Err(EngineError::NotFound(_)) => {
                let needed = if action == Action::Override {
                    Permission::ProposalsOverride
                } else {
                    Permission::ProposalsApply
                };
                caller.require(needed)?;
                Err(EngineError::NotFound("proposal"))
            }
            Err(other) => Err(other),
        }
    }

    /// Installs a proposal on the decision of one caller.
    async fn apply_directly(
        &self,
        caller: &Caller,
        proposal: Proposal,
    ) -> Result<Applied, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let batch = self.activating(caller, &proposal, None, now).await?;
        // End a gate from a time when the host required several approvals.
        let who = Some(caller.principal().as_str());
        let (batch, _) = self
            .ending_gate(batch, caller.tenant(), &proposal, GateState::Void, who)
            .await?;
        self.parts
            .store
            .commit(batch.emit(allowed(caller, &proposal, Action::Apply)))
            .await?;
        Ok(Applied::Installed(Box::new(
            self.reread(caller, &proposal.id).await?,
        )))
    }

    /// Builds the batch that installs the newest revision of a proposal, all of it or nothing.
    pub(super) async fn activating(
        &self,
        caller: &Caller,
        proposal: &Proposal,
        gate: Option<&str>,
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        let state = step(proposal, Step::Apply)?;
        let artifact = self.bytes_to_install(caller, proposal).await?;
        let installation = self.installation(caller, proposal, &artifact, now).await?;
        let activated = Activated {
            approval_id: gate.map(str::to_owned),
            installed_ref: installation.reference.clone(),
        };
        let event = ProposalActivated {
            proposal_id: proposal.id.clone(),
            kind: proposal.kind.as_str().to_owned(),
            installed_artifact_ref: installation.reference.clone(),
            approval_id: activated.approval_id.clone(),
        };
        let next = Proposal {
            state,
            activated: Some(activated),
            updated_at: now,
            ..proposal.clone()
        };
        let batch = installation.add_to(changing(caller, proposal, &next, now));
        Ok(batch.emit(EventBody::ProposalActivated(event)))
    }

    /// Reads the artifact to install; fails if it was erased or damaged, or holds a secret.
    async fn bytes_to_install(
        &self,
        caller: &Caller,
        proposal: &Proposal,
    ) -> Result<Artifact, EngineError> {
        // The artifact was erased because of a late secret, or is damaged: either way it is not
        // what was reviewed.
        let artifact = self
            .parts
            .review
            .artifact(caller.tenant(), proposal)
            .await?
            .ok_or(ProposalError::HoldsSecret)?;
        sabotage!(
            "a-late-secret-is-installed",
            still_clean(
                &*self.rules(caller.tenant()).await?,
                &self.policy_of(caller),
                &artifact,
            )?
        );
        Ok(artifact)
    }
}
