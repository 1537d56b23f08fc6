//! The part of the memory API for proposals, the artifacts installed from them, traces of tool
//! calls, and automations.

use super::{LocalApi, engine_failure, invalid_field};
use async_trait::async_trait;
use remem_core::CleanText;
use remem_core::proposal::automation::AutomationTarget;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_engine::automations::AutomationInfo;
use remem_engine::proposals::{
    ApplyResult, ApprovalGate, InstallationInfo, NewProposal, NewTrace, ProposalChanges,
    ProposalQuery, ProposalView,
};
use remem_wire::Failure;
use remem_wire::automation::{AutomationDoc, AutomationList};
use remem_wire::proposal::{
    Activation, Approval, InstalledArtifact, InstalledArtifacts, Owner, Proposal, ProposalDecision,
    ProposalGate, ProposalList, ProposalOverride, ProposalPatch, ProposalRevision,
    ProposalRevisions, ProposalSubmit, ProposalsQuery, Provenance, TraceCreate, TraceCreated,
};
use remem_wire::time::Instant;
use serde_json::{Map, Value};

/// The result of applying, approving or overriding a proposal.
#[derive(Clone)]
pub struct DecisionOutcome {
    /// The proposal after the decision.
    pub proposal: Proposal,
    /// Whether it is not installed yet because it needs the approval of others.
    pub awaits_approval: bool,
}

/// Proposals and automations, on behalf of one caller.
#[async_trait]
pub trait ReviewApi: Send + Sync {
    /// Returns a page of proposals, oldest first.
    async fn proposals(&self, query: ProposalsQuery) -> Result<ProposalList, Failure>;
    /// Returns one proposal with the artifact of its newest revision.
    async fn proposal(&self, id: &str) -> Result<Proposal, Failure>;
    /// Returns the revisions of a proposal with their digests.
    async fn proposal_revisions(&self, id: &str) -> Result<ProposalRevisions, Failure>;
    /// Returns the approval gate of a proposal's newest revision.
    async fn proposal_gate(&self, id: &str) -> Result<ProposalGate, Failure>;
    /// Submits a draft for review. The flag is true if an earlier request with the same idempotency
    /// key had submitted it.
    async fn submit_proposal(
        &self,
        request: ProposalSubmit,
        key: Option<&str>,
    ) -> Result<(Proposal, bool), Failure>;
    /// Adds a revision to a proposal.
    async fn revise_proposal(&self, id: &str, request: ProposalPatch) -> Result<Proposal, Failure>;
    /// Rejects a proposal for good.
    async fn reject_proposal(&self, id: &str) -> Result<Proposal, Failure>;
    /// Archives a proposal that was not applied.
    async fn archive_proposal(&self, id: &str) -> Result<Proposal, Failure>;
    /// Installs a proposal, or opens its gate where that takes approvals.
    async fn apply_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure>;
    /// Approves a proposal whose gate is open.
    async fn approve_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure>;
    /// Installs a proposal without its quorum, where the host allows it.
    async fn override_proposal(
        &self,
        id: &str,
        request: ProposalOverride,
    ) -> Result<DecisionOutcome, Failure>;
    /// Returns the artifacts that were installed from proposals.
    async fn installed_artifacts(&self) -> Result<InstalledArtifacts, Failure>;
    /// Stores the sequence of tools that an agent called, so that routines can be found.
    async fn record_trace(&self, request: TraceCreate) -> Result<TraceCreated, Failure>;
    /// Returns the automations of the caller's tenant.
    async fn automations(&self) -> Result<AutomationList, Failure>;
    /// Returns one automation by its id.
    async fn automation(&self, id: &str) -> Result<AutomationDoc, Failure>;
    /// Creates or replaces an automation. The flag is true if it is new.
    async fn put_automation(
        &self,
        id: &str,
        request: Map<String, Value>,
    ) -> Result<(AutomationDoc, bool), Failure>;
    /// Pauses or resumes an automation.
    async fn enable_automation(&self, id: &str, enabled: bool) -> Result<AutomationDoc, Failure>;
    /// Removes an automation; runs that it started continue.
    async fn remove_automation(&self, id: &str) -> Result<(), Failure>;
}

fn parse_kind(text: &str) -> Result<ProposalKind, Failure> {
    ProposalKind::parse(text).ok_or_else(|| {
        invalid_field(
            "kind",
            "must be agent-pack, workflow-chain-pack, prompt-template or automation",
        )
    })
}

fn parse_state(text: &str) -> Result<ProposalState, Failure> {
    ProposalState::parse(text).ok_or_else(|| {
        invalid_field(
            "state",
            "must be draft, revised, applied, rejected or archived",
        )
    })
}

impl LocalApi {
    fn proposal_doc(&self, shown: ProposalView) -> Proposal {
        let proposal = shown.proposal;
        let tenant = self.caller.tenant().as_str().to_owned();
        Proposal {
            id: proposal.id,
            kind: proposal.kind.as_str().to_owned(),
            state: proposal.state.as_str().to_owned(),
            title: proposal.title.map(CleanText::into_string),
            rationale: proposal.rationale.map(CleanText::into_string),
            artifact: shown.artifact,
            provenance: Provenance {
                source_run_ids: proposal.source_runs,
                synthesizer_model: proposal.synthesizer,
            },
            duplicate_of: proposal.duplicate_of,
            owner: Owner {
                tenant,
                principal: proposal.owner,
            },
            activation: proposal.activation.map(|activated| Activation {
                approval_id: activated.approval_id,
                installed_artifact_ref: activated.installed_ref,
            }),
            created_at: Instant(proposal.created_at),
            updated_at: Some(Instant(proposal.updated_at)),
        }
    }

    fn decision(&self, applied: ApplyResult) -> DecisionOutcome {
        match applied {
            ApplyResult::Installed(shown) => DecisionOutcome {
                proposal: self.proposal_doc(*shown),
                awaits_approval: false,
            },
            ApplyResult::Pending(shown, _) => DecisionOutcome {
                proposal: self.proposal_doc(*shown),
                awaits_approval: true,
            },
        }
    }
}

#[async_trait]
impl ReviewApi for LocalApi {
    async fn proposals(&self, query: ProposalsQuery) -> Result<ProposalList, Failure> {
        let query = ProposalQuery {
            state: query.state.as_deref().map(parse_state).transpose()?,
            kind: query.kind.as_deref().map(parse_kind).transpose()?,
            after: query.cursor,
            limit: query.limit,
        };
        self.engine
            .seed_proposal(&self.caller)
            .await
            .map_err(engine_failure)?;
        let (found, next_cursor) = self
            .engine
            .list_proposals(&self.caller, &query)
            .await
            .map_err(engine_failure)?;
        Ok(ProposalList {
            proposals: found
                .into_iter()
                .map(|shown| self.proposal_doc(shown))
                .collect(),
            next_cursor,
        })
    }

    async fn proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.engine
            .get_proposal(&self.caller, id)
            .await
            .map(|shown| self.proposal_doc(shown))
            .map_err(engine_failure)
    }

    async fn proposal_revisions(&self, id: &str) -> Result<ProposalRevisions, Failure> {
        let found = self
            .engine
            .list_proposal_revisions(&self.caller, id)
            .await
            .map_err(engine_failure)?;
        let revision_doc = |revision: remem_engine::proposals::RevisionView| ProposalRevision {
            number: revision.number,
            artifact_digest: revision.sha256,
            author: revision.author,
            created_at: Instant(revision.at),
            artifact: revision.artifact,
        };
        Ok(ProposalRevisions {
            revisions: found.into_iter().map(revision_doc).collect(),
        })
    }

    async fn proposal_gate(&self, id: &str) -> Result<ProposalGate, Failure> {
        self.engine
            .get_proposal_gate(&self.caller, id)
            .await
            .map(gate_doc)
            .map_err(engine_failure)
    }

    async fn submit_proposal(
        &self,
        request: ProposalSubmit,
        key: Option<&str>,
    ) -> Result<(Proposal, bool), Failure> {
        let ProposalSubmit {
            kind: of,
            title,
            rationale,
            artifact,
            source_run_ids: source_runs,
        } = request;
        let new = NewProposal {
            kind: parse_kind(&of)?,
            title,
            rationale,
            artifact,
            source_runs,
        };
        let (shown, replayed) = self
            .engine
            .submit_proposal(&self.caller, new, key)
            .await
            .map_err(engine_failure)?;
        Ok((self.proposal_doc(shown), replayed))
    }

    async fn revise_proposal(&self, id: &str, request: ProposalPatch) -> Result<Proposal, Failure> {
        let ProposalPatch {
            title,
            rationale,
            artifact,
            artifact_digest: expected,
        } = request;
        let revise = ProposalChanges {
            title,
            rationale,
            artifact,
            expected,
        };
        self.engine
            .revise_proposal(&self.caller, id, revise)
            .await
            .map(|shown| self.proposal_doc(shown))
            .map_err(engine_failure)
    }

    async fn reject_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.engine
            .reject_proposal(&self.caller, id)
            .await
            .map(|shown| self.proposal_doc(shown))
            .map_err(engine_failure)
    }

    async fn archive_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.engine
            .archive_proposal(&self.caller, id)
            .await
            .map(|shown| self.proposal_doc(shown))
            .map_err(engine_failure)
    }

    async fn apply_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure> {
        let applied = self
            .engine
            .apply_proposal(&self.caller, id, request.artifact_digest.as_deref())
            .await;
        applied
            .map(|applied| self.decision(applied))
            .map_err(engine_failure)
    }

    async fn approve_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure> {
        let applied = self
            .engine
            .approve_proposal(&self.caller, id, request.artifact_digest.as_deref())
            .await;
        applied
            .map(|applied| self.decision(applied))
            .map_err(engine_failure)
    }

    async fn override_proposal(
        &self,
        id: &str,
        request: ProposalOverride,
    ) -> Result<DecisionOutcome, Failure> {
        let ProposalOverride {
            reason,
            note,
            artifact_digest,
        } = request;
        let applied = self
            .engine
            .override_proposal(&self.caller, id, &reason, note, artifact_digest.as_deref())
            .await;
        applied
            .map(|applied| self.decision(applied))
            .map_err(engine_failure)
    }

    async fn installed_artifacts(&self) -> Result<InstalledArtifacts, Failure> {
        let found = self
            .engine
            .list_installed_artifacts(&self.caller)
            .await
            .map_err(engine_failure)?;
        let artifact = |installed: InstallationInfo| InstalledArtifact {
            reference: installed.reference,
            artifact: installed.artifact,
            artifact_digest: installed.sha256,
            proposal_id: installed.proposal,
            revision: installed.revision,
            installed_at: Instant(installed.at),
        };
        Ok(InstalledArtifacts {
            installed: found.into_iter().map(artifact).collect(),
        })
    }

    async fn record_trace(&self, request: TraceCreate) -> Result<TraceCreated, Failure> {
        let TraceCreate {
            agent_id,
            tools,
            task,
            run_id: run,
        } = request;
        let id = self
            .engine
            .record_trace(
                &self.caller,
                NewTrace {
                    agent_id,
                    tools,
                    task,
                    run,
                },
            )
            .await
            .map_err(engine_failure)?;
        Ok(TraceCreated { id })
    }

    async fn automations(&self) -> Result<AutomationList, Failure> {
        let found = self
            .engine
            .list_automations(&self.caller)
            .await
            .map_err(engine_failure)?;
        Ok(AutomationList {
            automations: found.into_iter().map(automation_doc).collect(),
        })
    }

    async fn automation(&self, id: &str) -> Result<AutomationDoc, Failure> {
        self.engine
            .get_automation(&self.caller, id)
            .await
            .map(automation_doc)
            .map_err(engine_failure)
    }

    async fn put_automation(
        &self,
        id: &str,
        request: Map<String, Value>,
    ) -> Result<(AutomationDoc, bool), Failure> {
        let (info, new) = self
            .engine
            .put_automation(&self.caller, id, &request)
            .await
            .map_err(engine_failure)?;
        Ok((automation_doc(info), new))
    }

    async fn enable_automation(&self, id: &str, enabled: bool) -> Result<AutomationDoc, Failure> {
        self.engine
            .set_automation_enabled(&self.caller, id, enabled)
            .await
            .map(automation_doc)
            .map_err(engine_failure)
    }

    async fn remove_automation(&self, id: &str) -> Result<(), Failure> {
        self.engine
            .remove_automation(&self.caller, id)
            .await
            .map_err(engine_failure)
    }
}

fn gate_doc(gate: ApprovalGate) -> ProposalGate {
    ProposalGate {
        id: gate.id,
        proposal_id: gate.proposal,
        revision: gate.revision,
        artifact_digest: gate.sha256,
        state: gate.state.as_str().to_owned(),
        required: gate.quorum,
        approvals: gate
            .votes
            .into_iter()
            .map(|vote| Approval {
                principal: vote.principal,
                at: Instant(vote.at),
            })
            .collect(),
        ended_by: gate.ended_by,
        reason: gate.reason,
        note: gate.note.map(CleanText::into_string),
        opened_at: Instant(gate.opened_at),
        due_at: Instant(gate.deadline),
    }
}

fn automation_doc(info: AutomationInfo) -> AutomationDoc {
    let map = info.automation.to_map();
    let (workflow_id, agent_id) = match info.automation.target {
        AutomationTarget::Workflow(id) => (Some(id), None),
        AutomationTarget::Agent(id) => (None, Some(id)),
    };
    AutomationDoc {
        automation_id: info.automation.id,
        schedule: map
            .get("schedule")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
        workflow_id,
        agent_id,
        inputs: info.automation.inputs,
        enabled: info.automation.enabled,
        title: info.automation.title,
        next_due_at: info.next_due.map(Instant),
        last_fired_at: info.last_fired_at.map(Instant),
        last_run_id: info.last_run_id,
        source: info.source,
    }
}
