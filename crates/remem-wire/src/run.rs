//! Wire types of runs, their events and workflow definitions, with the names of OpenWOP.

use crate::time::Instant;
use remem_core::event::Fault;
use remem_core::run::{ForkMode, RunState, WorkspaceFileVersion};
use remem_core::{AgentRef, Event};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Request to start a run of a workflow or an agent. Fields that this host does not use are
/// ignored, as OpenWOP allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCreate {
    /// Id of the workflow to run; one of `workflowId` and `agentId` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Id of the installed agent to call; one of `workflowId` and `agentId` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Inputs of the run, at most 64 KiB as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Map<String, Value>>,
    /// Ignored field: the key decides which tenant owns the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Unsupported field: register a webhook instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// Settings of the run, at most 64 KiB as JSON. Values under `secrets` can be used by this run
    /// alone; they are sealed and never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub configurable: Option<Map<String, Value>>,
    /// Labels of the run: at most 100, of 256 characters each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Notes on the run, at most 64 KiB as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
}

/// Answer to the start of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunCreated {
    /// Unique id of the run.
    pub run_id: String,
    /// State of the run: `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Path of the run's events.
    pub events_url: String,
    /// Path of the run's state.
    pub status_url: String,
}

/// State of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// Unique id of the run.
    pub run_id: String,
    /// Id of the workflow that the run executes.
    pub workflow_id: String,
    /// State of the run: `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Owner of the run.
    pub owner: RunOwner,
    /// Time the run started (RFC 3339).
    #[schemars(with = "String")]
    pub started_at: Instant,
    /// Time the run ended (RFC 3339); absent while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub completed_at: Option<Instant>,
    /// Agent that the run acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub agent: Option<AgentRef>,
    /// Variables of the run by name.
    #[schema(value_type = Object)]
    pub variables: Map<String, Value>,
    /// States of the nodes that were executed, by node id.
    #[schema(value_type = Object)]
    pub node_states: Map<String, Value>,
    /// Error of a failed run: `{code, message}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub error: Option<Fault>,
    /// Labels of the run.
    pub tags: Vec<String>,
    /// Notes on the run.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Settings of the run, without secrets.
    #[schema(value_type = Object)]
    pub configurable: Map<String, Value>,
    /// Workspace files at the start of the run, each `{path, version}`.
    #[schema(value_type = Vec<Object>)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub workspace: Vec<WorkspaceFileVersion>,
    /// Id of the run that started this one as a part of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// Id of the run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run_id: Option<String>,
}

/// Owner of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOwner {
    /// Name of the tenant.
    pub tenant: String,
    /// Principal that started the run.
    pub principal: String,
}

impl RunSnapshot {
    /// Builds the snapshot of a run of `tenant`.
    #[must_use]
    pub fn new(tenant: &str, id: &str, state: RunState) -> RunSnapshot {
        let ended_status = |skipped: bool| if skipped { "skipped" } else { "completed" };
        let node = |done: &remem_core::run::EndedNode| {
            (
                done.id.clone(),
                serde_json::json!({"status": ended_status(done.skipped)}),
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
    /// Id of the event, unique within the tenant.
    pub event_id: String,
    /// Id of the run.
    pub run_id: String,
    /// Type of the event, such as `run.completed`.
    pub r#type: String,
    /// Details of the event, such as ids and counts.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// Time of the event; for an event that a replay repeats, the original time (RFC 3339).
    #[schemars(with = "String")]
    pub timestamp: Instant,
    /// Position in the run's log, counted from 0 without gaps.
    pub sequence: u64,
    /// Id of the node that the event belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

impl RunEventDoc {
    /// Builds the event as its run's log shows it; `None` if it belongs to no run.
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
    /// Events in the order of the run's log.
    pub events: Vec<RunEventDoc>,
    /// True if the run has ended and its last event was returned, now or before.
    pub is_complete: bool,
}

/// Query parameters of a run's events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RunEventsQuery {
    /// Only events after this position.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_sequence: Option<u64>,
    /// Number of seconds to wait for a new event, at most 30; 0 if absent.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<u64>,
    /// Requested stream mode. Only `updates` is supported; other modes return the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_mode: Option<String>,
    /// Requested buffering in milliseconds. Accepted and ignored: events are sent at once.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub buffer_ms: Option<u64>,
}

/// Request to fork a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFork {
    /// Kind of the fork: `replay` or `branch`.
    #[schema(value_type = String)]
    pub mode: ForkMode,
    /// Position of the event from which the fork continues; required for a branch, 0 if absent for
    /// a replay.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub from_seq: Option<u64>,
    /// Replacements for `inputs`, `configurable`, `metadata` or `tags`; of a branch only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub run_options_overlay: Option<Map<String, Value>>,
}

/// Answer to the fork of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunForked {
    /// Id of the new run.
    pub run_id: String,
    /// Id of the run that was forked.
    pub source_run_id: String,
    /// Position of the event from which the fork continues.
    pub from_seq: u64,
    /// Kind of the fork: `replay` or `branch`.
    #[schema(value_type = String)]
    #[schemars(with = "String")]
    pub mode: ForkMode,
    /// State of the new run: `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Path of the new run's events.
    pub events_url: String,
}

/// Request to cancel a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCancel {
    /// Reason for people; accepted and not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer to the cancellation of a run.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusAnswer {
    /// Id of the run.
    pub run_id: String,
    /// State of the run: always `cancelled`.
    pub status: String,
}

/// Summary of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowListed {
    /// Unique id of the workflow.
    pub id: String,
    /// Owner of the workflow: `tenant` or `host`.
    pub scope: String,
    /// Time the tenant installed the workflow (RFC 3339); absent for workflows of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<Instant>,
}

/// The workflows that the tenant can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowList {
    /// Workflows, ordered by id.
    pub workflows: Vec<WorkflowListed>,
}
