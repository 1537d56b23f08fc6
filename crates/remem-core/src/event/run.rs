//! Payloads of events about runs: ids, counts and texts of this host.

use serde::{Deserialize, Serialize};

/// The payload of `run.started` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunStarted {
    /// The workflow that is executed.
    pub workflow_id: String,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run_id: Option<String>,
    /// The run that started this one as a part of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The user whose own memory the run works with; no other user may see the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
}

/// The payload of `run.completed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunEnded {
    pub duration_ms: u64,
}

/// The payload of `run.failed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFailed {
    pub error: Fault,
    /// The node that failed, if the failure was in a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<String>,
    pub duration_ms: u64,
}

/// The payload of `run.cancelled` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunCancelled {
    /// The party that asked for the cancellation.
    pub cancelled_by: String,
    pub duration_ms: u64,
}

/// The error of a node or run: texts of this host, never of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// The stable code of the error.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

/// The payload of `node.started` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeStarted {
    pub node_id: String,
    /// The type of the node, such as `core.noop`.
    pub type_id: String,
}

/// The payload of `node.completed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeEnded {
    pub node_id: String,
}

/// The payload of `node.failed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFailed {
    pub node_id: String,
    pub error: Fault,
}

/// The payload of `agent.invocation.started` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationStarted {
    /// The name of the invocation, unique within the run.
    pub invocation_id: String,
    pub agent_id: String,
    /// The origin of the invocation: `run-api` or `workflow-node`.
    pub source: String,
    /// The model class of the agent's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    /// The number of offered tools that the manifest allows.
    pub tool_surface_count: u64,
    /// True if the agent has memory that lasts across runs.
    pub memory_bound: bool,
}

/// The payload of `agent.invocation.completed` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationCompleted {
    /// The name of the invocation, unique within the run.
    pub invocation_id: String,
    pub agent_id: String,
    /// The outcome of the invocation: `completed` or `failed`.
    pub outcome: String,
}

/// The payload of `agent.reasoned` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReasoned {
    pub agent_id: String,
    /// Always empty: thoughts are stored nowhere.
    pub reasoning: String,
    /// Always `off` on this host.
    pub verbosity: String,
}

/// The payload of `agent.decided` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDecided {
    pub agent_id: String,
    pub decision: Decision,
}

/// The result of an agent's turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// The kind of the decision; `recall` is the only one.
    pub kind: String,
    /// The number of entries that were recalled.
    pub recalled: u64,
}
