//! Changing a proposal without applying it: revise, reject, archive. Each is one commit under the
//! condition that the proposal is unchanged, and closes the approval gate of a revision that is no
//! longer current.

use super::gate::{ApprovalGate, GateState};
use super::manage::{too_many_conflicts, unless_conflict};
use super::record::{ProposalRecord, ProposalView, revision_key, revision_to_store};
use super::{COMMIT_TRIES, ProposalError};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::ApprovalEnded;
use remem_core::proposal::{ProposalAction, ProposalState};
use remem_core::{
    Batch, CleanText, EventBody, Permission, Precondition, Rejection, TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value};

/// The changes of a revision.
#[derive(Clone, Default)]
pub struct ProposalChanges {
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
impl std::fmt::Debug for ProposalChanges {
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
        revise: ProposalChanges,
    ) -> Result<ProposalView, EngineError> {
        caller.require(Permission::ProposalsWrite)?;
        if revise.title.is_none() && revise.rationale.is_none() && revise.artifact.is_none() {
            return Err(Rejection::Invalid {
                field: "artifact",
                rule: "or title or rationale is required",
            }
            .into());
        }
        for _ in 0..COMMIT_TRIES {
            if let Some(result) =
                unless_conflict(self.revise_once(caller, id, revise.clone()).await)
            {
                result?;
                return self.reload_proposal(caller, id).await;
            }
        }
        too_many_conflicts()
    }

    /// One attempt to revise; conflicts with concurrent changes of the proposal.
    async fn revise_once(
        &self,
        caller: &Caller,
        id: &str,
        revise: ProposalChanges,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let proposal = self.find_proposal(tenant, id).await?;
        let state = state_after(&proposal, ProposalAction::Revise)?;
        check_artifact_hash(&proposal, revise.expected.as_deref())?;
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
                .proposal_store
                .artifact(tenant, &proposal)
                .await?
                .ok_or(ProposalError::HoldsSecret)?
                .to_map(),
        };
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let known = |text: &Option<CleanText>| text.clone().map(CleanText::into_string);
        let title = revise.title.or_else(|| known(&proposal.title));
        let rationale = revise.rationale.or_else(|| known(&proposal.rationale));
        let admission = rules.admission(&policy, now);
        let draft = self
            .to_canonical(tenant, &admission, title, rationale, artifact)
            .await?;
        let author = caller.principal().as_str();
        let next = ProposalRecord {
            state,
            title: draft.title,
            rationale: draft.rationale,
            author: Some(author.to_owned()),
            duplicate_of: self
                .find_duplicate(tenant, proposal.kind, &draft.artifact, Some(&proposal.id))
                .await?,
            revision: actual,
            sha256: draft.artifact.sha256().to_owned(),
            updated_at: now,
            ..proposal.clone()
        };
        let key = revision_key(&next.id, next.revision);
        let revision = revision_to_store(key, &draft.artifact, Some(author), now);
        let batch =
            change_batch(caller, &proposal, &next, now).set_stored(&revision, Precondition::Absent);
        // Approvals of the earlier revision do not hold for this one.
        let (batch, _) = self
            .end_gate(batch, tenant, &proposal, GateState::Void, None)
            .await?;
        self.parts
            .store
            .commit(batch.emit(EventBody::ProposalRevised(next.to_ref())))
            .await?;
        Ok(())
    }

    /// Rejects a proposal; the same artifact is not proposed by the host again.
    pub async fn reject_proposal(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ProposalView, EngineError> {
        self.close_proposal(caller, id, ProposalAction::Reject)
            .await
    }

    /// Archives a proposal, without a decision about it.
    pub async fn archive_proposal(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ProposalView, EngineError> {
        self.close_proposal(caller, id, ProposalAction::Archive)
            .await
    }

    /// Rejects or archives a proposal.
    async fn close_proposal(
        &self,
        caller: &Caller,
        id: &str,
        closing: ProposalAction,
    ) -> Result<ProposalView, EngineError> {
        caller.require(Permission::ProposalsWrite)?;
        for _ in 0..COMMIT_TRIES {
            if let Some(result) = unless_conflict(self.close_once(caller, id, closing).await) {
                result?;
                return self.reload_proposal(caller, id).await;
            }
        }
        too_many_conflicts()
    }

    /// One attempt to reject or archive; conflicts with concurrent changes of the proposal.
    async fn close_once(
        &self,
        caller: &Caller,
        id: &str,
        closing: ProposalAction,
    ) -> Result<(), EngineError> {
        let tenant = caller.tenant();
        let proposal = self.find_proposal(tenant, id).await?;
        let now = self.now_for(tenant).await?;
        let next = ProposalRecord {
            state: state_after(&proposal, closing)?,
            updated_at: now,
            ..proposal.clone()
        };
        let batch = change_batch(caller, &proposal, &next, now);
        let who = Some(caller.principal().as_str());
        let (batch, event) = if closing == ProposalAction::Reject {
            let (mut batch, gate) = self
                .end_gate(batch, tenant, &proposal, GateState::Rejected, who)
                .await?;
            if let Some(gate) = gate {
                batch = batch.emit(EventBody::ApprovalRejected(approval_ended(
                    &gate,
                    caller.principal().as_str(),
                    "rejected",
                )));
            }
            (batch, EventBody::ProposalRejected(next.to_ref()))
        } else {
            let (batch, _) = self
                .end_gate(batch, tenant, &proposal, GateState::Void, who)
                .await?;
            (batch, EventBody::ProposalArchived(next.to_ref()))
        };
        self.parts.store.commit(batch.emit(event)).await?;
        Ok(())
    }

    /// Adds the end of a proposal's open gate to a batch, and returns the gate, if there is one.
    pub(super) async fn end_gate(
        &self,
        batch: Batch,
        tenant: &TenantId,
        proposal: &ProposalRecord,
        state: GateState,
        by: Option<&str>,
    ) -> Result<(Batch, Option<ApprovalGate>), EngineError> {
        // A gate that cannot be read never passes, and must not keep a proposal from being
        // rejected.
        let gate = match self.find_gate(tenant, proposal).await {
            Err(EngineError::Store(StoreError::Damaged(_))) => None,
            other => other?,
        };
        let Some(gate) = gate.filter(|gate| gate.state == GateState::Open) else {
            return Ok((batch, None));
        };
        let ended = ApprovalGate {
            state,
            ended_by: by.map(str::to_owned),
            ..gate.clone()
        };
        Ok((
            batch.set_stored(&ended.to_stored(), Precondition::Version(gate.version)),
            Some(gate),
        ))
    }

    /// Reads a proposal again after a change.
    pub(super) async fn reload_proposal(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ProposalView, EngineError> {
        let proposal = self.find_proposal(caller.tenant(), id).await?;
        self.proposal_view(caller.tenant(), proposal).await
    }
}

/// The state that an action leads to; fails if the proposal's state does not allow it.
pub(super) fn state_after(
    proposal: &ProposalRecord,
    step: ProposalAction,
) -> Result<ProposalState, ProposalError> {
    proposal
        .state
        .next_state(step)
        .ok_or(ProposalError::State(proposal.state))
}

/// Fails if the current artifact is not the one whose hash the caller names. The hash may have the
/// prefix `sha256:`.
pub(super) fn check_artifact_hash(
    proposal: &ProposalRecord,
    expected: Option<&str>,
) -> Result<(), ProposalError> {
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
pub(super) fn change_batch(
    caller: &Caller,
    current: &ProposalRecord,
    next: &ProposalRecord,
    now: Timestamp,
) -> Batch {
    let batch = Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
    batch.set_stored(&next.to_stored(), Precondition::Version(current.version))
}

/// The event that a gate has ended.
pub(super) fn approval_ended(gate: &ApprovalGate, principal: &str, reason: &str) -> ApprovalEnded {
    ApprovalEnded {
        gate_id: gate.id.clone(),
        principal: principal.to_owned(),
        reason: reason.to_owned(),
    }
}
