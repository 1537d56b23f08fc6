//! Payloads of events about commitments, heartbeats, automations and proposals, and about decisions
//! on them. Ids, fixed words and instants only; the text of a commitment stays in memory, and that
//! of a proposal with the proposal.

use serde::{Deserialize, Serialize};

/// The payload of `commitment.created` and `commitment.ended` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentRef {
    pub commitment_id: String,
    pub memory_ref: String,
    /// The entry that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// The kind of condition: `time` or `predicate`.
    pub condition: String,
    /// The state of the commitment.
    pub state: String,
}

/// The payload of `commitment.fired`, with exactly the fields that the protocol allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentFired {
    pub commitment_id: String,
    pub memory_ref: String,
    /// The entry that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// The kind of condition: `time` or `predicate`.
    pub condition: String,
    /// The run that was started for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_run_id: Option<String>,
}

/// The payload of `heartbeat.evaluated` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatEvaluated {
    pub heartbeat_id: String,
    /// `ok`, `timeout` or `error`.
    pub status: String,
    /// True if the predicate's value differs from the last one.
    pub changed: bool,
}

/// The payload of `heartbeat.stateChanged` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatStateChanged {
    pub heartbeat_id: String,
    /// The value before the evaluation.
    pub from: PredicateState,
    /// The value after the evaluation.
    pub to: PredicateState,
}

/// The known value of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PredicateState {
    /// True if the predicate holds; absent before the first evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// The payload of `automation.fired` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutomationFired {
    pub automation_id: String,
    /// The scheduled instant, in milliseconds.
    pub scheduled_at: i64,
    /// The run that was started for it.
    pub enqueued_run_id: String,
}

/// The payload of `proposal.created` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalCreated {
    pub proposal_id: String,
    /// The kind of the proposed object.
    pub kind: String,
    /// The runs that it was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_run_ids: Vec<String>,
    /// The proposal that this one repeats, if it does.
    #[serde(default)]
    pub duplicate_of: Option<String>,
}

/// The payload of `proposal.revised`, `proposal.rejected` and `proposal.archived`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalRef {
    pub proposal_id: String,
    /// The kind of the proposed object.
    pub kind: String,
    /// The number of its newest revision.
    pub revision: u64,
}

/// The payload of `proposal.activated` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalActivated {
    pub proposal_id: String,
    /// The kind of the proposed object.
    pub kind: String,
    /// A reference to the object that was installed.
    pub installed_artifact_ref: String,
    /// The approval gate that it passed, if there was one.
    #[serde(default)]
    pub approval_id: Option<String>,
}

/// The payload of `authorization.decided` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationDecided {
    /// The principal that asked for the action.
    pub principal: String,
    /// The action that it asked for.
    pub action: String,
    /// The object of the action.
    pub resource: String,
    pub allowed: bool,
    /// A fixed word for the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The payload of `approval.granted` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalGranted {
    pub gate_id: String,
    /// The principal that approved.
    pub principal: String,
    /// The number of approvals so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

/// The number of approvals that a gate has, and the number that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuorumProgress {
    pub granted: u32,
    pub required: u32,
}

/// The payload of `approval.rejected` and `approval.overridden` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalEnded {
    pub gate_id: String,
    /// The principal that ended it.
    pub principal: String,
    /// A fixed word for the reason.
    pub reason: String,
}
