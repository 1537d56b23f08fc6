//! Shapes of automations: what the clock starts.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An automation.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationDoc {
    /// Its name.
    pub automation_id: String,
    /// When it is due: `every`, `cron` or `at`, and `zone`.
    #[schema(value_type = Object)]
    pub schedule: Map<String, Value>,
    /// The workflow that is started, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// … or the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What it is given.
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// Whether it is due at all.
    pub enabled: bool,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it is due next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_at: Option<Instant>,
    /// When it was last started …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Instant>,
    /// … and the run that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// What was installed, if it came from a proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The tenant's automations, by name.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AutomationList {
    /// The automations.
    pub automations: Vec<AutomationDoc>,
}
