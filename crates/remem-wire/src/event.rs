//! Events on the wire: ids, counts and reserved tags.

use crate::time::Instant;
use remem_core::Event;
use serde::{Deserialize, Serialize};

/// One event of a tenant's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventDoc {
    /// Unique in the tenant.
    pub event_id: String,
    /// Position in the log. It grows by one with each event; events of other users' own memories
    /// are left out.
    pub sequence: u64,
    /// What happened.
    pub r#type: String,
    /// When.
    pub timestamp: Instant,
    /// Token of the commit it belongs to.
    pub revision: String,
    /// The run that caused it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Where it stands in the run's own log: 0, 1, 2, … without gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_sequence: Option<u64>,
    /// When it happened first, if the run only repeats what an earlier one recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Instant>,
    /// Ids and counts.
    #[schema(value_type = Object)]
    pub payload: serde_json::Value,
    /// Hash that chains the event to the one before, for audits (docs/operations.md has the format).
    pub hash: String,
}

impl From<&Event> for EventDoc {
    fn from(event: &Event) -> EventDoc {
        EventDoc {
            event_id: format!("evt_{:012}", event.seq.0),
            sequence: event.seq.0,
            r#type: event.body.kind().as_str().to_owned(),
            timestamp: Instant(event.at),
            revision: event.revision.0.to_string(),
            run_id: event.run.as_ref().map(|run| run.id.as_str().to_owned()),
            run_sequence: event.run.as_ref().map(|run| run.seq),
            recorded_at: event
                .run
                .as_ref()
                .and_then(|run| run.recorded_at.map(Instant)),
            payload: event.body.payload(),
            hash: event
                .hash
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }
}

/// Query of the feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events after this position; 0 or absent is the beginning, `latest` is from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many at the most (1000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of the feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// Oldest first.
    pub events: Vec<EventDoc>,
    /// Pass as `after` to go on.
    pub next_after: u64,
}
