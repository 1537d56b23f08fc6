//! Changing a proposal without applying it: revise, reject, archive. Each is one commit under the
//! condition that the proposal is unchanged, and closes the approval gate of a revision that is no
//! longer current.

use super::gate::{Gate, GateState};
use super::manage::{busy, settled};
use super::record::{Proposal, Shown, revision_body, revision_key};
use super::{ProposalError, TRIES};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::ApprovalEnded;
use remem_core::proposal::{State, Step};
use remem_core::{
    Batch, EventBody, Permission, Precondition, RecordKind, Rejection, TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value};

/// The changes of a revision.
#[derive(Clone, Default)]
pub struct Revise {
    /// A title that replaces the old one.
    pub title: Option<String>,
    /// A rationale that replaces the old one.
    pub rationale: Option<String>,
    /// An artifact that replaces the old one.
    pub artifact: Option<Map<String, Value>>,
    /// The hash of the artifact that the caller has seen; the request fails if it is another one by
    /// now.
    pub expected: Option<String>,
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for Revise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revise")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Adds a revision to a proposal. Approvals of the earlier revision do not count for it.
    pub async fn revise_proposal(
        &self,
        caller: &Caller,
        id: &str,
        revise: Revise,
    ) -> Result<Shown, EngineError> {
        caller.require(Permission::ProposalsWrite)?;
        if revise.title.is_none() && revise.rationale.is_none() && revise.artifact.is_none() {
            return Err(Rejection::Invalid {
                field: "artifact",
                rule: "or title or rationale is required",
            }
            .into());
        }
        for _ in 0..TRIES {
            if let Some(result) = settled(self.revise_once(caller, id, revise.clone()).await) {
                result?;
                return self.reread(caller, id).await;
            }
        }
        busy()
    }

    /// One attempt to revise; conflicts with concurrent changes of the proposal.
    async fn revise_once(
        &self,
        caller: &Caller,
        id: &str,
        revise: Revise,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let proposal = self.find_proposal(tenant, id).await?;
        let state = step(&proposal, Step::Revise)?;
        is_seen(&proposal, revise.expected.as_deref())?;
        let limit = policy.proposal_revisions_max;
        let actual = proposal.revision + 1;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "revisions",
                unit: "items",
                limit,
                actual,
            }
            .into());
        }
        let artifact = match revise.artifact {
            Some(artifact) => artifact,
            None => self
                .parts
                .review
                .artifact(tenant, &proposal)
                .await?
                .ok_or(ProposalError::HoldsSecret)?
                .map(),
        };
        let rules = self.rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let title = revise.title.or(proposal.title.clone());
        let rationale = revise.rationale.or(proposal.rationale.clone());
        let admission = rules.admission(&policy, now);
        let draft = self
            .written(tenant, &admission, (title, rationale), artifact)
            .await?;
        let author = caller.principal().as_str();
        let next = Proposal {
            state,
            title: draft.title,
            rationale: draft.rationale,
            author: Some(author.to_owned()),
            duplicate_of: self
                .repeats(tenant, proposal.kind, &draft.artifact, Some(&proposal.id))
                .await?,
            revision: actual,
            sha256: draft.artifact.sha256().to_owned(),
            updated_at: now,
            ..proposal.clone()
        };
        let key = revision_key(&next.id, next.revision);
        let body = revision_body(&draft.artifact, Some(author), now);
        let batch = changing(caller, &proposal, &next, now).set(
            RecordKind::ProposalRevision,
            key,
            Precondition::Absent,
            body,
        );
        // Approvals of the earlier revision do not hold for this one.
        let (batch, _) = self
            .ending_gate(batch, tenant, &proposal, GateState::Void, None)
            .await?;
        self.parts
            .store
            .commit(batch.emit(EventBody::ProposalRevised(next.told())))
            .await?;
        Ok(())
    }

    /// Rejects a proposal; the same artifact is not proposed by the host again.
    pub async fn reject_proposal(&self, caller: &Caller, id: &str) -> Result<Shown, EngineError> {
        self.close_proposal(caller, id, Step::Reject).await
    }

    /// Archives a proposal, without a decision about it.
    pub async fn archive_proposal(&self, caller: &Caller, id: &str) -> Result<Shown, EngineError> {
        self.close_proposal(caller, id, Step::Archive).await
    }

    /// Rejects or archives a proposal.
    async fn close_proposal(
        &self,
        caller: &Caller,
        id: &str,
        closing: Step,
    ) -> Result<Shown, EngineError> {
        caller.require(Permission::ProposalsWrite)?;
        for _ in 0..TRIES {
            if let Some(result) = settled(self.close_once(caller, id, closing).await) {
                result?;
                return self.reread(caller, id).await;
            }
        }
        busy()
    }

    /// One attempt to reject or archive; conflicts with concurrent changes of the proposal.
    async fn close_once(
        &self,
        caller: &Caller,
        id: &str,
        closing: Step,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        let proposal = self.find_proposal(tenant, id).await?;
        let now = self.now_for(tenant).await?;
        let next = Proposal {
            state: step(&proposal, closing)?,
            updated_at: now,
            ..proposal.clone()
        };
        let batch = changing(caller, &proposal, &next, now);
        let who = Some(caller.principal().as_str());
        let (batch, event) = if closing == Step::Reject {
            let (mut batch, gate) = self
                .ending_gate(batch, tenant, &proposal, GateState::Rejected, who)
                .await?;
            if let Some(gate) = gate {
                batch = batch.emit(EventBody::ApprovalRejected(ended(
                    &gate,
                    caller.principal().as_str(),
                    "rejected",
                )));
            }
            (batch, EventBody::ProposalRejected(next.told()))
        } else {
            let (batch, _) = self
                .ending_gate(batch, tenant, &proposal, GateState::Void, who)
                .await?;
            (batch, EventBody::ProposalArchived(next.told()))
        };
        self.parts.store.commit(batch.emit(event)).await?;
        Ok(())
    }

    /// Adds the end of a proposal's open gate to a batch, and returns the gate, if there is one.
    pub(super) async fn ending_gate(
        &self,
        batch: Batch,
        tenant: &TenantId,
        proposal: &Proposal,
        state: GateState,
        by: Option<&str>,
    ) -> Result<(Batch, Option<Gate>), EngineError> {
        // A gate that cannot be read never passes, and must not keep a proposal from being
        // rejected.
        let gate = match self.gate_of(tenant, proposal).await {
            Err(EngineError::Store(StoreError::Damaged(_))) => None,
            other => other?,
        };
        let Some(gate) = gate.filter(|gate| gate.state == GateState::Open) else {
            return Ok((batch, None));
        };
        let ended = Gate {
            state,
            ended_by: by.map(str::to_owned),
            ..gate.clone()
        };
        Ok((
            batch.set(
                RecordKind::Gate,
                gate.id.clone(),
                Precondition::Version(gate.version),
                ended.body(),
            ),
            Some(gate),
        ))
    }

    /// Reads a proposal again after a change.
    pub(super) async fn reread(&self, caller: &Caller, id: &str) -> Result<Shown, EngineError> {
        let proposal = self.find_proposal(caller.tenant(), id).await?;
        self.shown_proposal(caller.tenant(), proposal).await
    }
}

/// The state that an action leads to; fails if the proposal's state does not allow it.
pub(super) fn step(proposal: &Proposal, step: Step) -> Result<State, ProposalError> {
    proposal
        .state
        .after(step)
        .ok_or(ProposalError::State(proposal.state))
}

/// Fails if the current artifact is not the one whose hash the caller names. The hash may have the
/// prefix `sha256:`.
pub(super) fn is_seen(proposal: &Proposal, expected: Option<&str>) -> Result<(), ProposalError> {
    let is_current = expected.is_none_or(|expected| {
        expected
            .strip_prefix("sha256:")
            .unwrap_or(expected)
            .eq_ignore_ascii_case(&proposal.sha256)
    });
    if is_current {
        Ok(())
    } else {
        Err(ProposalError::Stale)
    }
}

/// The batch that changes a proposal, under the condition that it is unchanged since it was read.
pub(super) fn changing(
    caller: &Caller,
    current: &Proposal,
    next: &Proposal,
    now: Timestamp,
) -> Batch {
    let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
    batch.set(
        RecordKind::Proposal,
        current.id.clone(),
        Precondition::Version(current.version),
        next.body(),
    )
}

/// The event that a gate has ended.
pub(super) fn ended(gate: &Gate, principal: &str, reason: &str) -> ApprovalEnded {
    ApprovalEnded {
        gate_id: gate.id.clone(),
        principal: principal.to_owned(),
        reason: reason.to_owned(),
    }
}
