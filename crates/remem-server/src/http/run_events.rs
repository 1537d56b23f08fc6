//! Endpoints of the events of a run: JSON, a poll that waits, or, for `Accept: text/event-stream`,
//! a stream that ends with the run.

use super::extract::{PathParam, QueryParams};
use super::{App, HandlerError, HandlerResult, json_response, stream};
use crate::api::{LocalApi, engine_failure, engine_problem};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::Event as Frame;
use remem_core::Event;
use remem_store::deadline;
use remem_wire::run::{RunEventDoc, RunEvents, RunEventsQuery};
use remem_wire::{ErrorBody, Problem, number};
use std::time::Duration;

/// The longest time that a poll may wait.
const WAIT_SECONDS_MAX: u64 = 30;

/// Renders events, and whether the run has ended, as JSON.
fn events_response(events: &[Event], is_complete: bool) -> HandlerResult {
    json_response(
        StatusCode::OK,
        &RunEvents {
            events: events.iter().filter_map(RunEventDoc::of).collect(),
            is_complete,
        },
    )
}

/// Returns the first sequence to read after the last event that the client knows.
fn next_sequence(last: Option<u64>) -> u64 {
    last.map_or(0, |last| last.saturating_add(1).min(number::MAX))
}

/// Returns the events of a run: all of them, or a stream with Accept: text/event-stream.
#[utoipa::path(get, path = "/v1/runs/{runId}/events", tag = "runs",
    params(("runId" = String, Path), RunEventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "For a stream: go on after this one")),
    responses((status = 200, content((RunEvents = "application/json"), (String = "text/event-stream")),
                  description = "All of them; with Accept: text/event-stream a stream of RunEventDoc that ends with the run"),
              (status = 404, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(super) async fn run_events(
    State(app): State<App>,
    api: LocalApi,
    PathParam(id): PathParam,
    headers: HeaderMap,
    QueryParams(query): QueryParams<RunEventsQuery>,
) -> HandlerResult {
    let wants = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    if !wants.contains("text/event-stream") {
        let (events, is_complete) = api
            .engine
            .run_events(&api.caller, &id, next_sequence(query.last_sequence))
            .await
            .map_err(engine_failure)?;
        return events_response(&events, is_complete);
    }
    // A header that is not a number is not one of our ids, and is ignored.
    let resume = match headers.get("last-event-id").and_then(|v| v.to_str().ok()) {
        Some(text) if text.parse::<u64>().is_ok_and(|id| id > number::MAX) => {
            return Err(Problem::too_large("Last-Event-ID").into());
        }
        text => text.and_then(number::parse),
    };
    let feed = api
        .engine
        .run_feed(
            &api.caller,
            &id,
            next_sequence(resume.or(query.last_sequence)),
        )
        .await;
    let feed = feed.map_err(|error| match engine_problem(error) {
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

/// Returns the events of a run after a known one, and waits for them up to `timeout` seconds.
#[utoipa::path(get, path = "/v1/runs/{runId}/events/poll", tag = "runs", params(("runId" = String, Path), RunEventsQuery),
    responses((status = 200, body = RunEvents), (status = 404, body = ErrorBody)))]
pub(super) async fn poll_run(
    api: LocalApi,
    PathParam(id): PathParam,
    QueryParams(query): QueryParams<RunEventsQuery>,
) -> HandlerResult {
    let wait = Duration::from_secs(query.timeout.unwrap_or(0).min(WAIT_SECONDS_MAX));
    let from = next_sequence(query.last_sequence);
    let poll = api.engine.poll_run(&api.caller, &id, from, wait);
    // The deadline of a request bounds its wait for storage, not the wait that the caller asked
    // for.
    let (events, is_complete) = deadline::with_extra_time(wait, poll)
        .await
        .map_err(engine_failure)?;
    events_response(&events, is_complete)
}

fn frame(event: &Event) -> Option<Frame> {
    let doc = RunEventDoc::of(event)?;
    Frame::default()
        .id(doc.sequence.to_string())
        .event(doc.r#type.clone())
        .json_data(&doc)
        .ok()
}
