//! Heartbeats on the wire: predicates over a memory that the host looks at every so often.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// What a heartbeat looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatPut {
    /// The memory that is looked at.
    pub memory_ref: String,
    /// What it is that may be so, as commitments wait for it, such as "the invoice has cleared".
    pub key: String,
    /// It is so when a live entry of the memory carries this tag.
    pub tag: String,
    /// Seconds from one look to the next; what is too short becomes the shortest that this host
    /// allows (30).
    pub every_seconds: u32,
    /// Whether it looks; it does if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatDoc {
    /// Its name.
    pub id: String,
    /// The memory that is looked at.
    pub memory_ref: String,
    /// The normal form of what may be so.
    pub key: String,
    /// It is so when a live entry of the memory carries this tag.
    pub tag: String,
    /// Seconds from one look to the next.
    pub every_seconds: u32,
    /// Whether it looks.
    pub enabled: bool,
    /// What the last look that ended in time found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// How the last look ended: `ok`, `timeout` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<String>,
    /// When it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Instant>,
}

/// The tenant's heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatList {
    /// By name.
    pub heartbeats: Vec<HeartbeatDoc>,
}
