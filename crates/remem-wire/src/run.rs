//! Runs, their events and workflow definitions on the wire, as OpenWOP names them.

use crate::time::Instant;
use remem_core::event::Fault;
use remem_core::run::{FileAt, ForkMode, RunState};
use remem_core::{AgentRef, Event};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What to run. Fields that this host has no use for are ignored, as the protocol allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCreate {
    /// The workflow; or …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// … the installed agent to call upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Map<String, Value>>,
    /// Ignored: the key decides whose run it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Not supported: register a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// Settings. Under `secrets`, values by name that this run alone may use; they are sealed,
    /// never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub configurable: Option<Map<String, Value>>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
}

/// A run was started.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunCreated {
    /// Its name.
    pub run_id: String,
    /// How far it has come.
    pub status: String,
    /// Where its events are.
    pub events_url: String,
    /// Where its state is.
    pub status_url: String,
}

/// How far a run has come.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// Its name.
    pub run_id: String,
    /// What it executes.
    pub workflow_id: String,
    /// `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Whose it is.
    pub owner: RunOwner,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Instant,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub completed_at: Option<Instant>,
    /// On whose behalf it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub agent: Option<AgentRef>,
    /// Its variables.
    #[schema(value_type = Object)]
    pub variables: Map<String, Value>,
    /// Its nodes.
    #[schema(value_type = Object)]
    pub node_states: Map<String, Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub error: Option<Fault>,
    /// Labels.
    pub tags: Vec<String>,
    /// Notes.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Settings.
    #[schema(value_type = Object)]
    pub configurable: Map<String, Value>,
    /// Workspace files as they were when it began.
    #[schema(value_type = Vec<Object>)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub workspace: Vec<FileAt>,
    /// The run that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The run that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run_id: Option<String>,
}

/// Whose a run is.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOwner {
    /// The tenant.
    pub tenant: String,
    /// The key that started it.
    pub principal: String,
}

impl RunSnapshot {
    /// The snapshot of a run of `tenant`.
    #[must_use]
    pub fn new(tenant: &str, id: &str, state: RunState) -> RunSnapshot {
        let ended = |skipped: bool| if skipped { "skipped" } else { "completed" };
        let node = |done: &remem_core::run::NodeDone| {
            (
                done.id.clone(),
                serde_json::json!({"status": ended(done.skipped)}),
            )
        };
        let failed = |id: String| (id, serde_json::json!({"status": "failed"}));
        RunSnapshot {
            run_id: id.to_owned(),
            status: state.status.as_str().to_owned(),
            owner: RunOwner {
                tenant: tenant.to_owned(),
                principal: state.principal,
            },
            started_at: Instant(remem_core::Timestamp(state.started_at)),
            completed_at: state
                .completed_at
                .map(|at| Instant(remem_core::Timestamp(at))),
            node_states: state
                .done
                .iter()
                .map(node)
                .chain(state.failed_node.into_iter().map(failed))
                .collect(),
            workflow_id: state.workflow_id,
            agent: state.agent,
            variables: state.variables,
            error: state.error,
            tags: state.tags,
            metadata: state.metadata,
            configurable: state.configurable,
            workspace: state.workspace,
            parent_run_id: state.parent,
            source_run_id: state.source.map(|source| source.run_id),
        }
    }
}

/// One event of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunEventDoc {
    /// Unique in the tenant.
    pub event_id: String,
    /// The run.
    pub run_id: String,
    /// What happened.
    pub r#type: String,
    /// Ids and counts.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// When; for what a replay repeats, the first time.
    #[schemars(with = "String")]
    pub timestamp: Instant,
    /// 0, 1, 2, … without gaps.
    pub sequence: u64,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

impl RunEventDoc {
    /// The event as its run's log shows it; `None` if it belongs to no run.
    #[must_use]
    pub fn of(event: &Event) -> Option<RunEventDoc> {
        let run = event.run.as_ref()?;
        let payload = event.body.payload();
        Some(RunEventDoc {
            event_id: format!("evt_{:012}", event.seq.0),
            run_id: run.id.as_str().to_owned(),
            r#type: event.body.kind().as_str().to_owned(),
            timestamp: Instant(event.happened_at()),
            sequence: run.seq,
            node_id: payload
                .get("nodeId")
                .and_then(Value::as_str)
                .map(str::to_owned),
            payload,
        })
    }
}

/// Events of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunEvents {
    /// In order.
    pub events: Vec<RunEventDoc>,
    /// The run's last event has been given by now.
    pub is_complete: bool,
}

/// Which events of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RunEventsQuery {
    /// Only events after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sequence: Option<u64>,
    /// How many seconds to wait for one (30 at the most).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// `updates` is all there is; other modes give the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_mode: Option<String>,
    /// Accepted; events are sent as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_ms: Option<u64>,
}

/// How to fork a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFork {
    /// `replay` or `branch`.
    #[schema(value_type = String)]
    pub mode: ForkMode,
    /// From which event on; needed for a branch, 0 if absent for a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
    /// For a branch: other inputs, configurable, metadata or tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub run_options_overlay: Option<Map<String, Value>>,
}

/// A run was forked.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunForked {
    /// The new run.
    pub run_id: String,
    /// Where it comes from.
    pub source_run_id: String,
    /// From which event on.
    pub from_seq: u64,
    /// `replay` or `branch`.
    #[schema(value_type = String)]
    #[schemars(with = "String")]
    pub mode: ForkMode,
    /// How far it has come.
    pub status: String,
    /// Where its events are.
    pub events_url: String,
}

/// Why a run is cancelled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCancel {
    /// For people; not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run was cancelled.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusAnswer {
    /// The run.
    pub run_id: String,
    /// `cancelled`.
    pub status: String,
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowListed {
    /// Its name.
    pub id: String,
    /// `tenant` or `host`.
    pub scope: String,
    /// When the tenant installed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<Instant>,
}

/// The workflows that can be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowList {
    /// By name.
    pub workflows: Vec<WorkflowListed>,
}
