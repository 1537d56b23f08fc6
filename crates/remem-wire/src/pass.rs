//! Wire types of passes: their state, their runs, jobs and schedules.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A pass with its state in the caller's tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassInfo {
    /// Name of the pass.
    pub name: String,
    /// Short description of the pass.
    pub description: String,
    /// Range of the pass: `host` (runs by itself over a whole tenant) or `memory` (runs over one
    /// memory, by jobs).
    pub over: String,
    /// Interval in milliseconds at which the host checks if the pass has work.
    pub period_ms: u64,
    /// Options that a caller may set for a job of the pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PassOption>,
    /// Time the pass last ran for the tenant (RFC 3339): on any node for a pass over memories, on
    /// this node for a pass over the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<Instant>,
    /// Report of that run; absent if it failed or there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<PassAnswer>,
    /// Latest job of the pass that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobDoc>,
    /// Job of the pass that is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<JobDoc>,
    /// Number of queued jobs of the pass.
    #[serde(default)]
    pub queued: u64,
    /// Time the next schedule of the pass is due (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Instant>,
}

/// Option that a caller may set when a pass runs over a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassOption {
    /// Name of the option.
    pub name: String,
    /// Type of the option: `integer`, `string` or `boolean`.
    pub r#type: String,
    /// Effect of the option.
    pub description: String,
}

/// All passes of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassList {
    /// Passes with their state.
    pub passes: Vec<PassInfo>,
}

/// Request to run a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PassRun {
    /// True to report what the pass would do without doing it; false if absent.
    #[serde(default)]
    pub dry_run: bool,
    /// True to also return free space to the file system; of the pass `purge` only.
    #[serde(default)]
    pub compact: bool,
    /// Name of the memory to run over; all memories of the tenant if absent. Of passes over
    /// memories only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// Options of the job by name. Of passes over memories only.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
}

/// Report of one run of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PassAnswer {
    /// Number of items examined.
    pub examined: u64,
    /// Number of items changed or, in a dry run, that would be.
    pub changed: u64,
    /// True if the run stopped at its limit, so that work may be left.
    pub more: bool,
    /// Further counts and ids, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub detail: Map<String, Value>,
}

/// Answer to a run of a pass: the report, or the job that does the work.
#[derive(Clone, Debug, PartialEq)]
pub enum PassRan {
    /// Report of a run that has ended.
    Done(PassAnswer),
    /// Job that does the work.
    Started(Box<JobDoc>),
}

/// A job: one run of a pass over a memory, or over all memories of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobDoc {
    /// Unique id of the job.
    pub id: String,
    /// Name of the pass.
    pub pass: String,
    /// Name of the memory; null for all memories of the tenant.
    pub memory_ref: Option<String>,
    /// Options of the job by name.
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// Origin of the job: `on-demand`, `scheduled` or `host-managed`.
    pub trigger: String,
    /// State of the job: `queued`, `running`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// True if a running job was asked to stop.
    #[serde(default)]
    pub cancelling: bool,
    /// Name of the current phase.
    pub phase: String,
    /// Number of items done in this phase.
    pub done: u64,
    /// Number of items in this phase.
    pub total: u64,
    /// Number of items examined.
    pub examined: u64,
    /// Number of items changed.
    pub changed: u64,
    /// Further counts and ids, by name.
    #[schema(value_type = Object)]
    pub detail: Map<String, Value>,
    /// Error of the job, or of its latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// Time the job was requested (RFC 3339).
    pub requested_at: Instant,
    /// Time of the first attempt (RFC 3339); absent while the job is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    /// Time the job ended (RFC 3339); absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// Duration of the job in milliseconds; absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Number of attempts at the job.
    pub attempts: u32,
}

/// Error of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobError {
    /// Stable error code for programs.
    pub code: String,
    /// Details of the error by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}

/// Query parameters of the list of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Only jobs of this pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Only jobs in this state: `queued`, `running`, `done`, `failed` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only jobs after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Number of jobs per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// Jobs on this page, newest first.
    pub jobs: Vec<JobDoc>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Query parameter that selects a schedule of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// Name of the memory of the schedule; all memories of the tenant if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// Request to set a schedule. Exactly one of `every` and `cron` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulePut {
    /// Interval of the schedule, counted from now: an ISO 8601 duration of one minute (`PT1M`) or
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Cron expression of five fields: minute, hour, day of the month, month, day of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Name of the time zone that the schedule follows; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Options of the jobs that the schedule makes, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// True if the schedule makes jobs; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A schedule of a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleDoc {
    /// Name of the pass.
    pub pass: String,
    /// Name of the memory; null for all memories of the tenant.
    pub memory_ref: Option<String>,
    /// Interval of the schedule, an ISO 8601 duration; absent if it has a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Cron expression of five fields; absent if the schedule has an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Name of the time zone that the schedule follows.
    pub zone: String,
    /// Options of the jobs that the schedule makes, by name.
    #[schema(value_type = Object)]
    pub options: Map<String, Value>,
    /// True if the schedule makes jobs.
    pub enabled: bool,
    /// Time the schedule is next due (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Instant>,
    /// Time the schedule was last due (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_due: Option<Instant>,
    /// Id of the job that was made then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job_id: Option<String>,
}

/// All schedules of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleList {
    /// Schedules of all passes.
    pub schedules: Vec<ScheduleDoc>,
}
