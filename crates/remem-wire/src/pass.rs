//! Shapes of passes: how they are doing, how to run one, its jobs and its schedules.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A pass and how it is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it works over: host (all of a tenant, by itself) or memory (one memory, by jobs).
    pub over: String,
    /// How often the host looks whether there is work, in milliseconds.
    pub period_ms: u64,
    /// What a caller may set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PassOption>,
    /// When it last ran for this tenant: of a pass over memories anywhere, of another one on this
    /// node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<Instant>,
    /// What that activation did; absent if it failed or never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<PassAnswer>,
    /// The latest job that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobDoc>,
    /// The job that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<JobDoc>,
    /// Jobs that wait.
    #[serde(default)]
    pub queued: u64,
    /// When the next schedule ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Instant>,
}

/// What a caller may set when a pass works over a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassOption {
    /// Its name.
    pub name: String,
    /// integer, string or boolean.
    pub r#type: String,
    /// What it does.
    pub description: String,
}

/// All passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassList {
    /// The passes.
    pub passes: Vec<PassInfo>,
}

/// How to run a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassRun {
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Also give free space back to the file system; of purge.
    #[serde(default)]
    pub compact: bool,
    /// Of a pass over memories: which one; all of the tenant's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// Of a pass over memories: what it is to be run with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
}

/// What an activation did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassAnswer {
    /// Things looked at.
    pub examined: u64,
    /// Things changed (in a dry run: that would be).
    pub changed: u64,
    /// The bound of one activation was reached; there may be more.
    pub more: bool,
    /// Counts and ids that say more.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub detail: Map<String, Value>,
}

/// The answer to a run: what was done, or the job that will do it.
#[derive(Clone, Debug, PartialEq)]
pub enum PassRan {
    /// It is done.
    Done(PassAnswer),
    /// It is under way.
    Started(Box<JobDoc>),
}

/// A job: work of a pass over a memory, or over all of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobDoc {
    /// Its name.
    pub id: String,
    /// The pass.
    pub pass: String,
    /// The memory; null for all of the tenant's.
    pub memory_ref: Option<String>,
    /// What it runs with.
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// Who asked for it: on-demand, scheduled or host-managed.
    pub trigger: String,
    /// queued, running, done, failed or cancelled.
    pub state: String,
    /// Somebody asked it to stop.
    #[serde(default)]
    pub cancelling: bool,
    /// What it is doing.
    pub phase: String,
    /// Things done in this phase …
    pub done: u64,
    /// … of so many.
    pub total: u64,
    /// Things looked at.
    pub examined: u64,
    /// Things changed.
    pub changed: u64,
    /// Counts and ids that say more.
    #[schema(value_type = Object)]
    pub detail: Map<String, Value>,
    /// Why it failed, or why the latest attempt did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// When it was asked for.
    pub requested_at: Instant,
    /// When it was first taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How often it was taken up.
    pub attempts: u32,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobError {
    /// Stable code for programs.
    pub code: String,
    /// Facts that help to mend it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}

/// Which jobs are listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Of this pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// In this state: queued, running, done, failed or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The nextAfter of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many; 100 if absent, 0 for as many as the host gives at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Jobs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobDoc>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Which schedule of a pass is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// The memory; all of the tenant's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// A schedule to set: every or cron, one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulePut {
    /// An ISO 8601 duration from PT1M on, counted from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// A cron line of five fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone by whose clocks it goes; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What the jobs run with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// Whether it ticks; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleDoc {
    /// The pass.
    pub pass: String,
    /// The memory; null for all of the tenant's.
    pub memory_ref: Option<String>,
    /// An ISO 8601 duration …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// … or a cron line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone.
    pub zone: String,
    /// What the jobs run with.
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// Whether it ticks.
    pub enabled: bool,
    /// The next tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Instant>,
    /// The latest tick …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_due: Option<Instant>,
    /// … and its job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job_id: Option<String>,
}

/// All schedules of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleList {
    /// The schedules.
    pub schedules: Vec<ScheduleDoc>,
}
