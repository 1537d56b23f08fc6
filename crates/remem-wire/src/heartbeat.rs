//! Wire types of heartbeats: checks of a memory that the host repeats.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// Request to set a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatPut {
    /// Name of the memory that is checked.
    pub memory_ref: String,
    /// Statement that the heartbeat observes for commitments, such as "the invoice has cleared".
    pub key: String,
    /// Tag whose presence on a live entry of the memory makes the statement true.
    pub tag: String,
    /// Interval between two checks in seconds; a value below the host's minimum (30) is raised to
    /// it.
    pub every_seconds: u32,
    /// True if the heartbeat runs its checks; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A heartbeat: a check of a memory that the host repeats, and whose changes commitments observe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatDoc {
    /// Unique name of the heartbeat.
    pub id: String,
    /// Name of the memory that is checked.
    pub memory_ref: String,
    /// Normal form of the statement that the heartbeat observes.
    pub key: String,
    /// Tag whose presence on a live entry of the memory makes the statement true.
    pub tag: String,
    /// Interval between two checks in seconds.
    pub every_seconds: u32,
    /// True if the heartbeat runs its checks.
    pub enabled: bool,
    /// Result of the latest check that ended in time; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Status of the latest check: `ok`, `timeout` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<String>,
    /// Time of the latest check (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Instant>,
}

/// The heartbeats of the tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatList {
    /// Heartbeats, ordered by name.
    pub heartbeats: Vec<HeartbeatDoc>,
}
