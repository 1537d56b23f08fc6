//! What events of runs carry: ids, counts and texts of this host.

use serde::{Deserialize, Serialize};

/// Payload of `run.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunStarted {
    /// What is executed.
    pub workflow_id: String,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run_id: Option<String>,
    /// The run that started this one as a part of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The user whose own memory it works with: nobody else is told of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
}

/// Payload of `run.completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunEnded {
    /// How long it took.
    pub duration_ms: u64,
}

/// Payload of `run.failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFailed {
    /// Why.
    pub error: Fault,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
}

/// Payload of `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunCancelled {
    /// Who asked for it.
    pub cancelled_by: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// Why a node or run failed: texts of this host, never of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Stable code.
    pub code: String,
    /// Sentence for people.
    pub message: String,
}

/// Payload of `node.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeStarted {
    /// The node.
    pub node_id: String,
    /// What kind of node it is.
    pub type_id: String,
}

/// Payload of `node.completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeEnded {
    /// The node.
    pub node_id: String,
}

/// Payload of `node.failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFailed {
    /// The node.
    pub node_id: String,
    /// Why.
    pub error: Fault,
}

/// Payload of `agent.invocation.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationStarted {
    /// Unique within the run.
    pub invocation_id: String,
    /// The agent.
    pub agent_id: String,
    /// `run-api` or `workflow-node`.
    pub source: String,
    /// The model class of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    /// How many of the offered tools its manifest allows.
    pub tool_surface_count: u64,
    /// Whether memory across runs is bound.
    pub memory_bound: bool,
}

/// Payload of `agent.invocation.completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationCompleted {
    /// Unique within the run.
    pub invocation_id: String,
    /// The agent.
    pub agent_id: String,
    /// `completed` or `failed`.
    pub outcome: String,
}

/// Payload of `agent.reasoned`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReasoned {
    /// The agent.
    pub agent_id: String,
    /// Always empty here.
    pub reasoning: String,
    /// Always `off` here.
    pub verbosity: String,
}

/// Payload of `agent.decided`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDecided {
    /// The agent.
    pub agent_id: String,
    /// What was decided.
    pub decision: Decision,
}

/// What an agent's turn came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// What was done: `recall`.
    pub kind: String,
    /// How many memories were brought up.
    pub recalled: u64,
}
