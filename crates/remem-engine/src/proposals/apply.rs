//! Applying a proposal. What is installed are the bytes of its newest revision as they were written
//! down: read by number, held against their hash, against the rules of their kind and against the
//! secrets of today. Nothing is made anew.

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

/// What came of an attempt to apply a proposal.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// It is installed.
    Installed(Box<Shown>),
    /// Others have to approve it first.
    Waiting(Box<Shown>, Box<Gate>),
}

impl Applied {
    /// The proposal as it is now.
    #[must_use]
    pub fn shown(&self) -> &Shown {
        match self {
            Applied::Installed(shown) | Applied::Waiting(shown, _) => shown,
        }
    }
}

impl Engine {
    /// Applies a proposal or, where that takes more than one, asks for it and approves it. `digest`
    /// is the hash of the artifact that the caller has seen.
    pub async fn apply_proposal(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<Applied, EngineError> {
        for _ in 0..TRIES {
            if let Some(done) = settled(self.apply_once(caller, id, digest).await) {
                return done;
            }
        }
        busy()
    }

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

    /// The proposal that a caller wants to decide about, if it may. Whoever may not learns nothing
    /// about what is there.
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

    async fn apply_directly(
        &self,
        caller: &Caller,
        proposal: Proposal,
    ) -> Result<Applied, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let batch = self.activating(caller, &proposal, None, now).await?;
        // One that was opened when the host was configured otherwise.
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

    /// A batch that installs the newest revision of a proposal, all of it or nothing.
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

    async fn bytes_to_install(
        &self,
        caller: &Caller,
        proposal: &Proposal,
    ) -> Result<Artifact, EngineError> {
        // Erased, because a secret came to light, or damaged: either way they are not what was
        // reviewed.
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
