//! Wire types of automations: runs that are started on a schedule.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An automation: a workflow or an agent that is started on a schedule.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationDoc {
    /// Unique name of the automation.
    pub automation_id: String,
    /// Schedule of the automation: one of `every` (ISO 8601 duration), `cron` and `at` (once), with
    /// an optional `zone`.
    #[schema(value_type = Object)]
    pub schedule: Map<String, Value>,
    /// Id of the workflow that is started; absent if an agent is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Id of the agent that is started; absent if a workflow is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Inputs of the runs that are started.
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// True if the automation fires when it is due; false while it is paused.
    pub enabled: bool,
    /// Title for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Time of the next start (RFC 3339); absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_at: Option<Instant>,
    /// Scheduled time of the latest start (RFC 3339); absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Instant>,
    /// Id of the run of the latest start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// Installed artifact that the automation comes from, if it comes from a proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The automations of the tenant.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AutomationList {
    /// Automations, ordered by name.
    pub automations: Vec<AutomationDoc>,
}
