//! The approval gate: a quorum of approvals of one revision, by principals who did not write it,
//! before a deadline. There is one record for each revision. Every vote is a commit under the
//! condition that gate and proposal are unchanged, and the last one installs.

use super::apply::ApplyResult;
use super::authority::{AuthorizedAction, allowed_event};
use super::change::{approval_ended, change_batch, check_artifact_hash, state_after};
use super::draft;
use super::manage::{too_many_conflicts, unless_conflict};
use super::record::ProposalRecord;
use super::stored::{StoredGate, StoredVote, UnreadableGate};
use super::{ActivationMode, COMMIT_TRIES, ProposalError};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::PassReport;
use remem_core::event::{ApprovalGranted, QuorumProgress};
use remem_core::proposal::ProposalAction;
use remem_core::sabotage;
use remem_core::{
    Batch, CleanText, EventBody, Fence, HostText, Permission, Precondition, Record, RecordKind,
    Rejection, StoredRecord, TenantId, Timestamp,
};
use remem_store::StoreError;
use serde::{Deserialize, Serialize};

/// The reasons for an override that a caller may give.
pub const OVERRIDE_REASONS: [&str; 4] = ["urgent", "reviewer-unavailable", "policy", "other"];
/// The principal that rejects proposals without a decision by their deadline.
const HOST: &str = "remembrancer";
/// Gates that one activation ends, at most.
const EXPIRE_MAX: u32 = 100;

/// The approvals of one revision of a proposal.
#[derive(Clone, PartialEq, Eq)]
pub struct ApprovalGate {
    /// The id of the gate.
    pub id: String,
    /// The id of the proposal.
    pub proposal: String,
    /// The number of the revision.
    pub revision: u64,
    /// The hash of the revision's artifact.
    pub sha256: String,
    /// Whether it is open, and otherwise how it ended.
    pub state: GateState,
    /// Number of approvals that it needs.
    pub quorum: u32,
    /// The approvals so far, each by another principal.
    pub votes: Vec<Vote>,
    /// The principal that ended it.
    pub ended_by: Option<String>,
    /// The reason of an override or rejection, as a code.
    pub reason: Option<String>,
    /// A note of the principal that overrode it.
    pub note: Option<CleanText>,
    /// When the gate was opened.
    pub opened_at: Timestamp,
    /// The deadline, after which it is rejected.
    pub deadline: Timestamp,
    pub(super) version: u64,
}

/// One approval of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The principal that approved.
    pub principal: String,
    /// When the approval was given.
    pub at: Timestamp,
}

/// The state of a gate, from open to one of four ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// Open: waiting for further approvals.
    Open,
    /// The quorum was reached.
    Passed,
    /// A principal with the right to override installed the proposal without a quorum.
    Overridden,
    /// A principal rejected the proposal, or the deadline passed.
    Rejected,
    /// The revision is no longer current.
    Void,
}

impl GateState {
    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GateState::Open => "open",
            GateState::Passed => "passed",
            GateState::Overridden => "overridden",
            GateState::Rejected => "rejected",
            GateState::Void => "void",
        }
    }
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for ApprovalGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("votes", &self.votes.len())
            .finish_non_exhaustive()
    }
}

/// The id of the gate of a proposal's newest revision.
fn gate_id(proposal: &ProposalRecord) -> String {
    format!("{}-r{}", proposal.id, proposal.revision)
}

impl ApprovalGate {
    /// Reads a gate from its record; `None` if a field is missing.
    fn from_record(record: &Record) -> Option<ApprovalGate> {
        let stored = StoredGate::read(record).filter(|gate| gate.quorum > 0)?;
        let vote = |vote: StoredVote| Vote {
            principal: vote.principal.into_string(),
            at: vote.at,
        };
        Some(ApprovalGate {
            id: stored.id.into_string(),
            proposal: stored.proposal.into_string(),
            revision: stored.revision,
            sha256: stored.sha256.into_string(),
            state: stored.state,
            quorum: stored.quorum,
            votes: stored.votes.into_iter().map(vote).collect(),
            ended_by: stored.ended_by.map(HostText::into_string),
            reason: stored.reason.map(HostText::into_string),
            note: stored.note,
            opened_at: stored.opened_at,
            deadline: stored.due,
            version: record.version,
        })
    }

    /// The gate as it is stored.
    pub(super) fn to_stored(&self) -> StoredGate {
        let vote = |vote: &Vote| StoredVote {
            principal: HostText::new(&vote.principal),
            at: vote.at,
        };
        StoredGate {
            id: HostText::new(&self.id),
            proposal: HostText::new(&self.proposal),
            revision: self.revision,
            sha256: HostText::new(&self.sha256),
            state: self.state,
            quorum: self.quorum,
            votes: self.votes.iter().map(vote).collect(),
            ended_by: self.ended_by.as_deref().map(HostText::new),
            reason: self.reason.as_deref().map(HostText::new),
            note: self.note.clone(),
            opened_at: self.opened_at,
            due: self.deadline,
        }
    }

    /// Adds the write of the gate to a batch.
    fn add_to(&self, batch: Batch) -> Batch {
        let precondition = if self.version == 0 {
            Precondition::Absent
        } else {
            Precondition::Version(self.version)
        };
        batch.set_stored(&self.to_stored(), precondition)
    }

    /// Adds an approval; `None` if this principal has approved already.
    fn with_vote(&self, principal: &str, at: Timestamp) -> Option<ApprovalGate> {
        let known = self.votes.iter().any(|vote| vote.principal == principal);
        let vote = Vote {
            principal: principal.to_owned(),
            at,
        };
        (sabotage!(
            "a-vote-counts-as-often-as-it-is-given",
            !known,
            !known || known
        ))
        .then(|| ApprovalGate {
            votes: self.votes.iter().cloned().chain([vote]).collect(),
            ..self.clone()
        })
    }
}

impl Engine {
    /// Returns the gate of a proposal's newest revision.
    pub async fn get_proposal_gate(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ApprovalGate, EngineError> {
        caller.require(Permission::ProposalsRead)?;
        let proposal = self.find_proposal(caller.tenant(), id).await?;
        let gate = self
            .find_gate(caller.tenant(), &proposal)
            .await?
            .ok_or(EngineError::NotFound("approval gate"))?;
        // The redaction rules may have changed since the note was written.
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        let note = gate
            .note
            .as_ref()
            .map(|note| CleanText::from(admission.redact_text(note)));
        Ok(ApprovalGate { note, ..gate })
    }

    /// Reads the gate of a proposal's newest revision.
    pub(super) async fn find_gate(
        &self,
        tenant: &TenantId,
        proposal: &ProposalRecord,
    ) -> Result<Option<ApprovalGate>, EngineError> {
        let Some(record) = self
            .parts
            .proposal_store
            .record(tenant, RecordKind::Gate, &gate_id(proposal))
            .await?
        else {
            return Ok(None);
        };
        let gate = ApprovalGate::from_record(&record)
            .filter(|gate| gate.sha256 == proposal.sha256 && gate.proposal == proposal.id);
        Ok(Some(
            gate.ok_or(StoreError::Damaged("a gate cannot be read"))?,
        ))
    }

    /// The open gate of a proposal's newest revision, or a new one. Fails if its gate has ended.
    async fn open_or_new_gate(
        &self,
        tenant: &TenantId,
        proposal: &ProposalRecord,
        now: Timestamp,
    ) -> Result<ApprovalGate, EngineError> {
        let settings = &self.parts.proposal_settings;
        match self.find_gate(tenant, proposal).await? {
            Some(gate)
                if sabotage!(
                    "late-approvals-count",
                    gate.state == GateState::Open && gate.deadline > now,
                    gate.state == GateState::Open
                ) =>
            {
                // If the host has raised its quorum since, the higher number counts.
                Ok(ApprovalGate {
                    quorum: gate.quorum.max(settings.quorum),
                    ..gate
                })
            }
            Some(_) => Err(ProposalError::NoGate.into()),
            None => Ok(ApprovalGate {
                id: gate_id(proposal),
                proposal: proposal.id.clone(),
                revision: proposal.revision,
                sha256: proposal.sha256.clone(),
                state: GateState::Open,
                quorum: settings.quorum.max(1),
                votes: Vec::new(),
                ended_by: None,
                reason: None,
                note: None,
                opened_at: now,
                deadline: now.plus_ms(settings.gate_timeout_ms.max(1)),
                version: 0,
            }),
        }
    }

    /// Opens the gate. If the caller did not write the proposal, this is also its approval.
    pub(super) async fn open_gate_or_approve(
        &self,
        caller: &Caller,
        proposal: ProposalRecord,
    ) -> Result<ApplyResult, EngineError> {
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let gate = self.open_or_new_gate(tenant, &proposal, now).await?;
        if !proposal.is_submitted_or_written_by(caller.principal().as_str()) {
            return self.add_approval(caller, &proposal, gate, now).await;
        }
        if gate.version == 0 {
            let batch = change_batch(caller, &proposal, &proposal, now).emit(allowed_event(
                caller,
                &proposal,
                AuthorizedAction::Apply,
            ));
            self.parts.store.commit(gate.add_to(batch)).await?;
        }
        self.pending_result(caller, &proposal).await
    }

    /// Approves the revision of an open gate.
    pub async fn approve_proposal(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<ApplyResult, EngineError> {
        for _ in 0..COMMIT_TRIES {
            if let Some(result) = unless_conflict(self.approve_once(caller, id, digest).await) {
                return result;
            }
        }
        too_many_conflicts()
    }

    /// One attempt to approve; conflicts with concurrent changes.
    async fn approve_once(
        &self,
        caller: &Caller,
        id: &str,
        digest: Option<&str>,
    ) -> Result<ApplyResult, EngineError> {
        let proposal = self
            .find_for_decision(caller, id, AuthorizedAction::Approve)
            .await?;
        state_after(&proposal, ProposalAction::Apply)?;
        check_artifact_hash(&proposal, digest)?;
        let now = self.now_for(caller.tenant()).await?;
        let gate = self
            .open_or_new_gate(caller.tenant(), &proposal, now)
            .await?;
        if gate.version == 0
            || self.parts.proposal_settings.activation != ActivationMode::ApprovalGate
        {
            return Err(ProposalError::NoGate.into());
        }
        self.add_approval(caller, &proposal, gate, now).await
    }

    /// Adds the caller's approval, and installs the proposal if that completes the quorum.
    async fn add_approval(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
        gate: ApprovalGate,
        now: Timestamp,
    ) -> Result<ApplyResult, EngineError> {
        let principal = caller.principal().as_str();
        // A repeated approval changes nothing.
        let Some(gate) = gate.with_vote(principal, now) else {
            return self.pending_result(caller, proposal).await;
        };
        let granted = u32::try_from(gate.votes.len()).unwrap_or(u32::MAX);
        let quorum_progress = Some(QuorumProgress {
            granted,
            required: gate.quorum,
        });
        let event = ApprovalGranted {
            gate_id: gate.id.clone(),
            principal: principal.to_owned(),
            quorum_progress,
        };
        let has_quorum = granted >= gate.quorum;
        let (gate, batch) = if has_quorum {
            let batch = self
                .activation_batch(caller, proposal, Some(&gate.id), now)
                .await?;
            (
                ApprovalGate {
                    state: GateState::Passed,
                    ended_by: Some(principal.to_owned()),
                    ..gate
                },
                batch,
            )
        } else {
            (gate, change_batch(caller, proposal, proposal, now))
        };
        let batch = batch
            .emit(allowed_event(caller, proposal, AuthorizedAction::Approve))
            .emit(EventBody::ApprovalGranted(event));
        self.parts.store.commit(gate.add_to(batch)).await?;
        if has_quorum {
            return Ok(ApplyResult::Installed(Box::new(
                self.reload_proposal(caller, &proposal.id).await?,
            )));
        }
        self.pending_result(caller, proposal).await
    }

    /// The result for a proposal that still needs approvals.
    async fn pending_result(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
    ) -> Result<ApplyResult, EngineError> {
        let gate = self
            .find_gate(caller.tenant(), proposal)
            .await?
            .ok_or(EngineError::NotFound("approval gate"))?;
        Ok(ApplyResult::Pending(
            Box::new(self.reload_proposal(caller, &proposal.id).await?),
            Box::new(gate),
        ))
    }

    /// Installs a proposal without a quorum, for callers with the right to override, where the host
    /// allows it. Needs a reason.
    pub async fn override_proposal(
        &self,
        caller: &Caller,
        id: &str,
        reason: &str,
        note: Option<String>,
        digest: Option<&str>,
    ) -> Result<ApplyResult, EngineError> {
        for _ in 0..COMMIT_TRIES {
            if let Some(result) = unless_conflict(
                self.override_once(caller, id, reason, note.clone(), digest)
                    .await,
            ) {
                return result;
            }
        }
        too_many_conflicts()
    }

    /// One attempt to override; conflicts with concurrent changes.
    async fn override_once(
        &self,
        caller: &Caller,
        id: &str,
        reason: &str,
        note: Option<String>,
        digest: Option<&str>,
    ) -> Result<ApplyResult, EngineError> {
        let tenant = caller.tenant();
        let known = OVERRIDE_REASONS.into_iter().find(|known| *known == reason);
        let proposal = self
            .find_for_decision(caller, id, AuthorizedAction::Override)
            .await?;
        let rule = "must be urgent, reviewer-unavailable, policy or other";
        let reason = known.ok_or(Rejection::Invalid {
            field: "reason",
            rule,
        })?;
        if self.parts.proposal_settings.activation != ActivationMode::ApprovalGate {
            return Err(ProposalError::NoGate.into());
        }
        state_after(&proposal, ProposalAction::Apply)?;
        check_artifact_hash(&proposal, digest)?;
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let note = draft::redact_note(&rules.admission(&self.policy_of(caller), now), note)?;
        let principal = caller.principal().as_str();
        let gate = self.open_or_new_gate(tenant, &proposal, now).await?;
        let ended_by = Some(principal.to_owned());
        let reason = Some(reason.to_owned());
        let gate = ApprovalGate {
            state: GateState::Overridden,
            ended_by,
            reason,
            note,
            ..gate
        };
        let event = approval_ended(&gate, principal, gate.reason.as_deref().unwrap_or_default());
        let batch = self
            .activation_batch(caller, &proposal, Some(&gate.id), now)
            .await?;
        let batch = batch
            .emit(allowed_event(caller, &proposal, AuthorizedAction::Override))
            .emit(EventBody::ApprovalOverridden(event));
        self.parts.store.commit(gate.add_to(batch)).await?;
        Ok(ApplyResult::Installed(Box::new(
            self.reload_proposal(caller, id).await?,
        )))
    }

    /// Whether the deadline of a gate has passed.
    pub(crate) async fn has_overdue_gates(
        &self,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        Ok(!self
            .parts
            .proposal_store
            .due_records(tenant, RecordKind::Gate, now, 1)
            .await?
            .is_empty())
    }

    /// Rejects proposals without a decision by their deadline.
    pub(crate) async fn expire_gates(
        &self,
        tenant: &TenantId,
        now: Timestamp,
        fence: Option<Fence>,
    ) -> Result<PassReport, EngineError> {
        let records = self
            .parts
            .proposal_store
            .due_records(tenant, RecordKind::Gate, now, EXPIRE_MAX)
            .await?;
        let mut report = PassReport {
            more: records.len() == EXPIRE_MAX as usize,
            ..PassReport::default()
        };
        for record in records {
            report.examined += 1;
            let batch = Batch::new(tenant.clone(), now).fenced(fence.clone());
            match self
                .parts
                .store
                .commit(self.add_expiry(batch, tenant, &record).await?)
                .await
            {
                Ok(_) => report.changed += 1,
                // A decision came at the last moment, or the lease is gone: the next activation
                // finds out which.
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(report)
    }

    /// Adds the rejection of an overdue gate and its proposal to a batch.
    async fn add_expiry(
        &self,
        batch: Batch,
        tenant: &TenantId,
        record: &Record,
    ) -> Result<Batch, EngineError> {
        let precondition = Precondition::Version(record.version);
        let Some(gate) = ApprovalGate::from_record(record) else {
            // An unreadable gate never passes; closing it takes it out of the due records.
            tracing::warn!(
                gate = record.key,
                "a gate cannot be read; it is closed for good"
            );
            let closed = UnreadableGate {
                id: HostText::new(&record.key),
                state: GateState::Rejected,
                reason: HostText::from("unreadable"),
            };
            return Ok(batch.set_stored(&closed, precondition));
        };
        let now = batch.at();
        let ended_gate = ApprovalGate {
            state: GateState::Rejected,
            ended_by: Some(HOST.to_owned()),
            reason: Some("timeout".to_owned()),
            ..gate.clone()
        };
        let batch = batch.set_stored(&ended_gate.to_stored(), precondition);
        let batch = batch.emit(EventBody::ApprovalRejected(approval_ended(
            &gate, HOST, "timeout",
        )));
        let proposal = self
            .parts
            .proposal_store
            .proposal(tenant, &gate.proposal)
            .await?
            .filter(|proposal| proposal.revision == gate.revision);
        let Some(proposal) = proposal else {
            return Ok(batch);
        };
        let Some(state) = proposal.state.next_state(ProposalAction::Reject) else {
            return Ok(batch);
        };
        let next = ProposalRecord {
            state,
            updated_at: now,
            ..proposal.clone()
        };
        let batch = batch.set_stored(&next.to_stored(), Precondition::Version(proposal.version));
        Ok(batch.emit(EventBody::ProposalRejected(next.to_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::{RecordLinks, Redactor, ShapePolicy};
    use serde_json::{Map, Value, json};

    fn gate() -> ApprovalGate {
        ApprovalGate {
            id: "prop_1-r2".to_owned(),
            proposal: "prop_1".to_owned(),
            revision: 2,
            sha256: "c".repeat(64),
            state: GateState::Open,
            quorum: 2,
            votes: Vec::new(),
            ended_by: None,
            reason: None,
            note: Some(Redactor::empty().clean("n", ShapePolicy::Off).text.into()),
            opened_at: Timestamp(1),
            deadline: Timestamp(2),
            version: 1,
        }
    }

    fn record(body: Map<String, Value>) -> Record {
        let kind = RecordKind::Gate;
        let key = "prop_1-r2".to_owned();
        Record {
            kind,
            key,
            version: 1,
            at: Timestamp(0),
            body,
            links: RecordLinks::default(),
        }
    }

    #[test]
    fn gate_record_round_trips() {
        let voted = gate().with_vote("key_1", Timestamp(3)).unwrap();
        for gate in [gate(), voted] {
            assert!(ApprovalGate::from_record(&record(gate.to_stored().to_map())) == Some(gate));
        }
    }

    #[test]
    fn an_incomplete_gate_record_is_not_parsed() {
        let whole = gate().to_stored().to_map();
        for field in [
            "proposal", "revision", "sha256", "state", "quorum", "votes", "openedAt", "due",
        ] {
            let mut broken = whole.clone();
            broken.remove(field);
            assert!(
                ApprovalGate::from_record(&record(broken)).is_none(),
                "{field}"
            );
        }
        let mut zero = whole;
        zero.insert("quorum".to_owned(), json!(0));
        assert!(ApprovalGate::from_record(&record(zero)).is_none());
    }

    #[test]
    fn a_principal_cannot_vote_twice() {
        let once = gate().with_vote("key_1", Timestamp(3)).unwrap();
        assert!(once.with_vote("key_1", Timestamp(4)).is_none());
        assert_eq!(
            once.with_vote("key_2", Timestamp(4)).unwrap().votes.len(),
            2
        );
    }
}
