//! Applying a proposal. The bytes of its newest revision are installed exactly as they were stored:
//! read by number, and checked against their hash, the rules of their kind and the secrets of
//! today. Nothing is generated again.

use super::authority::{AuthorizedAction, allowed_event};
use super::change::{change_batch, check_artifact_hash, state_after};
use super::draft::check_still_clean;
use super::gate::{ApprovalGate, GateState};
use super::manage::{too_many_conflicts, unless_conflict};
use super::record::{ProposalActivation, ProposalRecord, ProposalView};
use super::{ActivationMode, COMMIT_TRIES, ProposalError};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::ProposalActivated;
use remem_core::proposal::{Artifact, ProposalAction};
use remem_core::sabotage;
use remem_core::{Batch, EventBody, Permission, Timestamp};

/// The result of an attempt to apply a proposal.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyResult {
    /// The proposal is installed.
    Installed(Box<ProposalView>),
    /// Further principals have to approve it first.
    Pending(Box<ProposalView>, Box<ApprovalGate>),
}

impl ApplyResult {
    /// The proposal in its current state.
    #[must_use]
    pub fn view(&self) -> &ProposalView {
        match self {
            ApplyResult::Installed(shown) | ApplyResult::Pending(shown, _) => shown,
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
    ) -> Result<ApplyResult, EngineError> {
        for _ in 0..COMMIT_TRIES {
            if let Some(result) = unless_conflict(self.apply_once(caller, id, digest).await) {
                return result;
            }
        }
        too_many_conflicts()
    }

    /// One attempt to apply; conflicts with concurrent changes of the proposal.
    async fn apply_once(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<ApplyResult, EngineError> {
        let proposal = self
            .find_for_decision(caller, id, AuthorizedAction::Apply)
            .await?;
        state_after(&proposal, ProposalAction::Apply)?;
        check_artifact_hash(&proposal, digest)?;
        match self.parts.proposal_settings.activation {
            ActivationMode::DirectRbac => self.apply_directly(caller, proposal).await,
            ActivationMode::ApprovalGate => self.open_gate_or_approve(caller, proposal).await,
        }
    }

    /// Finds a proposal that the caller wants to decide about, and checks its right to. A caller
    /// without the right does not learn whether the proposal exists.
    pub(super) async fn find_for_decision(
        &self,
        caller: &Caller,
        id: &str,
        action: AuthorizedAction,
    ) -> Result<ProposalRecord, EngineError> {
        match self.find_proposal(caller.tenant(), id).await {
            Ok(proposal) => self
                .authorize(caller, &proposal, action)
                .await
                .map(|()| proposal),
            Err(EngineError::NotFound(_)) => {
                let needed = if action == AuthorizedAction::Override {
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
        proposal: ProposalRecord,
    ) -> Result<ApplyResult, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let batch = self.activation_batch(caller, &proposal, None, now).await?;
        // End a gate from a time when the host required several approvals.
        let who = Some(caller.principal().as_str());
        let (batch, _) = self
            .end_gate(batch, caller.tenant(), &proposal, GateState::Void, who)
            .await?;
        self.parts
            .store
            .commit(batch.emit(allowed_event(caller, &proposal, AuthorizedAction::Apply)))
            .await?;
        Ok(ApplyResult::Installed(Box::new(
            self.reload_proposal(caller, &proposal.id).await?,
        )))
    }

    /// Builds the batch that installs the newest revision of a proposal, all of it or nothing.
    pub(super) async fn activation_batch(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
        gate: Option<&str>,
        now: Timestamp,
    ) -> Result<Batch, EngineError> {
        let state = state_after(proposal, ProposalAction::Apply)?;
        let artifact = self.artifact_to_install(caller, proposal).await?;
        let installation = self
            .plan_installation(caller, proposal, &artifact, now)
            .await?;
        let activated = ProposalActivation {
            approval_id: gate.map(str::to_owned),
            installed_ref: installation.reference.clone(),
        };
        let event = ProposalActivated {
            proposal_id: proposal.id.clone(),
            kind: proposal.kind.as_str().to_owned(),
            installed_artifact_ref: installation.reference.clone(),
            approval_id: activated.approval_id.clone(),
        };
        let next = ProposalRecord {
            state,
            activation: Some(activated),
            updated_at: now,
            ..proposal.clone()
        };
        let batch = installation.add_to(change_batch(caller, proposal, &next, now));
        Ok(batch.emit(EventBody::ProposalActivated(event)))
    }

    /// Reads the artifact to install; fails if it was erased or damaged, or holds a secret.
    async fn artifact_to_install(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
    ) -> Result<Artifact, EngineError> {
        // The artifact was erased because of a late secret, or is damaged: either way it is not
        // what was reviewed.
        let artifact = self
            .parts
            .proposal_store
            .artifact(caller.tenant(), proposal)
            .await?
            .ok_or(ProposalError::HoldsSecret)?;
        sabotage!(
            "a-late-secret-is-installed",
            check_still_clean(
                &*self.redaction_rules(caller.tenant()).await?,
                &self.policy_of(caller),
                &artifact,
            )?
        );
        Ok(artifact)
    }
}
