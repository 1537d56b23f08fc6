//! Payloads of events about what stands beside memory: commitments, heartbeats, automations,
//! proposals and who decides about them. Ids, closed words and instants; what somebody meant stays
//! in memory, what somebody proposes stays under review.

use serde::{Deserialize, Serialize};

/// Payload of `commitment.created` and `commitment.ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentRef {
    /// The commitment.
    pub commitment_id: String,
    /// The memory it belongs to.
    pub memory_ref: String,
    /// The entry it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// `time` or `predicate`.
    pub condition: String,
    /// How it stands.
    pub state: String,
}

/// Payload of `commitment.fired`: exactly what the protocol allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentFired {
    /// The commitment.
    pub commitment_id: String,
    /// The memory it belongs to.
    pub memory_ref: String,
    /// The entry it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// `time` or `predicate`.
    pub condition: String,
    /// The run that was started with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_run_id: Option<String>,
}

/// Payload of `heartbeat.evaluated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatEvaluated {
    /// The heartbeat.
    pub heartbeat_id: String,
    /// `ok`, `timeout` or `error`.
    pub status: String,
    /// Whether the predicate is other than it was.
    pub changed: bool,
}

/// Payload of `heartbeat.stateChanged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatStateChanged {
    /// The heartbeat.
    pub heartbeat_id: String,
    /// As it was.
    pub from: PredicateState,
    /// As it is.
    pub to: PredicateState,
}

/// What is known of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PredicateState {
    /// Whether it holds; absent if nobody has looked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// Payload of `automation.fired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutomationFired {
    /// The automation.
    pub automation_id: String,
    /// The tick, in milliseconds.
    pub scheduled_at: i64,
    /// The run that was started with it.
    pub enqueued_run_id: String,
}

/// Payload of `proposal.created`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalCreated {
    /// The proposal.
    pub proposal_id: String,
    /// Of what.
    pub kind: String,
    /// The runs that it was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_run_ids: Vec<String>,
    /// What it repeats.
    #[serde(default)]
    pub duplicate_of: Option<String>,
}

/// Payload of `proposal.revised`, `proposal.rejected` and `proposal.archived`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalRef {
    /// The proposal.
    pub proposal_id: String,
    /// Of what.
    pub kind: String,
    /// Its newest revision.
    pub revision: u64,
}

/// Payload of `proposal.activated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalActivated {
    /// The proposal.
    pub proposal_id: String,
    /// Of what.
    pub kind: String,
    /// What was installed.
    pub installed_artifact_ref: String,
    /// The gate that it passed, if there was one.
    #[serde(default)]
    pub approval_id: Option<String>,
}

/// Payload of `authorization.decided`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationDecided {
    /// Who asked.
    pub principal: String,
    /// For what.
    pub action: String,
    /// About what.
    pub resource: String,
    /// The answer.
    pub allowed: bool,
    /// A word for why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Payload of `approval.granted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalGranted {
    /// The gate.
    pub gate_id: String,
    /// Who granted.
    pub principal: String,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
}

/// How many grants a gate has, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuorumProgress {
    /// Grants.
    pub granted: u32,
    /// Needed.
    pub required: u32,
}

/// Payload of `approval.rejected` and `approval.overridden`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalEnded {
    /// The gate.
    pub gate_id: String,
    /// Who ended it.
    pub principal: String,
    /// A word for why.
    pub reason: String,
}
