//! The run: what is kept of it while it goes on and afterwards. Its events are the log; this is the
//! state that they lead to.

use crate::event::Fault;
use crate::workflow::AgentRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Nodes are being executed, or about to be.
    Running,
    /// It ended well.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Whether nothing can happen any more.
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
    /// What is executed.
    pub workflow_id: String,
    /// The definition, unless the host itself brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Map<String, Value>>,
    /// How far it has come.
    pub status: RunStatus,
    /// The key that started it.
    pub principal: String,
    /// When it was started, in milliseconds.
    pub started_at: i64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<i64>,
    /// What it was given.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Its variables now.
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// The nodes that have ended, in order.
    #[serde(default)]
    pub done: Vec<NodeDone>,
    /// Why it failed, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// … and at which node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node: Option<String>,
    /// On whose behalf it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
    /// The caller's labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The caller's notes.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The caller's settings.
    #[serde(default)]
    pub configurable: Map<String, Value>,
    /// Names of the secrets that it was given for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Names of the secrets that it has resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<String>,
    /// Workspace files as they were at the start.
    #[serde(default)]
    pub workspace: Vec<FileAt>,
    /// Runs that it started and that have ended: it sees what they wrote.
    #[serde(default)]
    pub children: Vec<String>,
    /// The run that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The user whose own memory it works with: nobody else sees the run. Decided when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
    /// Names of the scopes that it acts with, node by node; absent where the host itself brings
    /// the workflow, and in runs that began before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

/// A node that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDone {
    /// Which.
    pub id: String,
    /// The variables it set.
    #[serde(default)]
    pub outputs: Map<String, Value>,
    /// How many reads it recorded.
    #[serde(default)]
    pub reads: u32,
    /// It was passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// A workspace file at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileAt {
    /// The file.
    pub path: String,
    /// Its version.
    pub version: u64,
}

/// Where a fork comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The run.
    pub run_id: String,
    /// From which of its events on.
    pub from_seq: u64,
    /// How.
    pub mode: ForkMode,
}

/// How a run is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// The same again: every read is answered from the record, every fact is repeated, nothing is
    /// written.
    Replay,
    /// From there on anew.
    Branch,
}

impl RunState {
    /// As a record's content.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// From a record's content; `None` if this version does not know it.
    #[must_use]
    pub fn from_map(map: Map<String, Value>) -> Option<RunState> {
        serde_json::from_value(Value::Object(map)).ok()
    }
}
