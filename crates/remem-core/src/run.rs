//! The state of a run, during and after its execution. The run's events are its log; this is the
//! state that results from them.

use crate::event::Fault;
use crate::workflow::AgentRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Nodes are being executed, or about to be.
    Running,
    /// It ended without an error.
    Completed,
    /// It ended with an error.
    Failed,
    /// A caller cancelled it.
    Cancelled,
}

impl RunStatus {
    /// Returns true if the run has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != RunStatus::Running
    }

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        }
    }
}

/// The state of a run, as its record holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// The id of the workflow that is executed.
    pub workflow_id: String,
    /// The definition of the workflow; absent for a workflow of the host itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Map<String, Value>>,
    pub status: RunStatus,
    /// The principal that started it.
    pub principal: String,
    /// When it was started, in milliseconds.
    pub started_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    /// The inputs of the run.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// The current values of its variables.
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// The nodes that have ended, in order.
    #[serde(default)]
    pub done: Vec<EndedNode>,
    /// The error that it failed with, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// … and at which node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node: Option<String>,
    /// The agent that the run acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
    /// Labels of the caller.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Notes of the caller.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Settings of the caller.
    #[serde(default)]
    pub configurable: Map<String, Value>,
    /// The names of the secrets that the caller gave to this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The names of the secrets that it has resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<String>,
    /// The versions of the workspace files at the start.
    #[serde(default)]
    pub workspace: Vec<WorkspaceFileVersion>,
    /// The runs that it started and that have ended: it can read their writes.
    #[serde(default)]
    pub children: Vec<String>,
    /// The run that started this one as a part of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The run and event that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ForkSource>,
    /// The user whose own memory it works with; no other user can see the run. Decided when it
    /// begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
    /// The names of the scopes that its nodes may use. Absent for a workflow of the host itself,
    /// and in runs that began before scopes were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

/// A node that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedNode {
    pub id: String,
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// The number of reads that it recorded.
    #[serde(default)]
    pub reads: u32,
    /// True if the node was skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// A workspace file at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceFileVersion {
    pub path: String,
    pub version: u64,
}

/// The origin of a forked run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkSource {
    pub run_id: String,
    /// The position of the event at which the fork begins.
    pub from_seq: u64,
    pub mode: ForkMode,
}

/// The way in which a run is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// Repeats the run: every read is answered from the recording, every event is repeated, nothing
    /// is written.
    Replay,
    /// Executes the run again from that event on.
    Branch,
}

impl RunState {
    /// The body of its record.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// Reads the body of a record; `None` if this version does not know its form.
    #[must_use]
    pub fn from_map(map: Map<String, Value>) -> Option<RunState> {
        serde_json::from_value(Value::Object(map)).ok()
    }
}
