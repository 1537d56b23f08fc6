//! Wire types of events, which carry ids, counts and reserved tags.

use crate::time::Instant;
use remem_core::Event;
use serde::{Deserialize, Serialize};

/// One event of a tenant's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventDoc {
    /// Id of the event, unique within the tenant.
    pub event_id: String,
    /// Position in the log, which grows by one with each event. Events of other users' own memories
    /// are left out.
    pub sequence: u64,
    /// Type of the event, such as `memory.written`.
    pub r#type: String,
    /// Time of the event (RFC 3339).
    pub timestamp: Instant,
    /// Revision token of the commit that the event belongs to.
    pub revision: String,
    /// Id of the run that caused the event; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Position in the run's own log, counted from 0 without gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_sequence: Option<u64>,
    /// Time of the original event (RFC 3339), if a replay repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Instant>,
    /// Details of the event, such as ids, counts and reserved tags; never content.
    #[schema(value_type = Object)]
    pub payload: serde_json::Value,
    /// Hash that chains the event to the one before, for audits (format in docs/operations.md).
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

/// Query parameters of the event feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only events after this position: 0 or absent starts at the beginning, `latest` at the events
    /// from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Number of events per page, at most 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of the event feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// Events on this page, oldest first.
    pub events: Vec<EventDoc>,
    /// Position to pass as `after` for the next page.
    pub next_after: u64,
}
