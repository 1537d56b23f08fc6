//! The endpoint of the event feed: a JSON page, or, for `Accept: text/event-stream`, a stream that
//! resumes after `Last-Event-ID`.

use super::extract::QueryParams;
use super::{App, HandlerError, HandlerResult, json_response, stream};
use crate::api::{LocalApi, MemoryApi, engine_problem};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::Event as Frame;
use remem_core::Event;
use remem_wire::event::EventsQuery;
use remem_wire::{ErrorBody, EventDoc, EventPage, Problem};

/// Returns the events of the caller's tenant as a page or a stream: ids and counts, never content.
#[utoipa::path(get, path = "/v1/host/remembrancer/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "For a stream: go on after this event")),
    responses((status = 200, content((EventPage = "application/json"), (String = "text/event-stream")),
                  description = "A page; with Accept: text/event-stream an endless stream of EventDoc"),
              (status = 429, body = ErrorBody)))]
pub(super) async fn events(
    State(app): State<App>,
    api: LocalApi,
    headers: HeaderMap,
    QueryParams(query): QueryParams<EventsQuery>,
) -> HandlerResult {
    let wants = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    if !wants.contains("text/event-stream") {
        return json_response(StatusCode::OK, &api.events(query).await?);
    }
    let resume = headers
        .get("last-event-id")
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let after = api
        .event_position(resume.or(query.after).as_deref())
        .await?;
    let feed =
        api.engine
            .feed(&api.caller, after)
            .await
            .map_err(|error| match engine_problem(error) {
                Problem::TooManyFeeds { .. } => Problem::TooManyFeeds {
                    limit: app.engine.policy().feeds_max as u64,
                },
                other => other,
            });
    Ok(stream::event_stream_response(
        feed.map_err(HandlerError::from)?,
        app.stopping,
        frame,
    ))
}

fn frame(event: &Event) -> Option<Frame> {
    let doc = EventDoc::from(event);
    Frame::default()
        .id(doc.sequence.to_string())
        .event(doc.r#type.clone())
        .json_data(&doc)
        .ok()
}
