//! The event feed: a JSON page, or a stream for `Accept: text/event-stream` that resumes after `Last-Event-ID`.
//!
//! A stream pulls a page at a time when its reader has room, so a reader that stops costs one page, not a queue.

use super::extract::Params;
use super::{Answer, App, Fail, json};
use crate::door::{Door, EngineDoor, problem};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use remem_core::Event;
use remem_engine::feed::Feed;
use remem_wire::event::EventsQuery;
use remem_wire::{ErrorBody, EventDoc, EventPage, Problem};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;

/// What happened in the tenant's memories: ids and counts, never content.
#[utoipa::path(get, path = "/v1/host/remembrancer/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "For a stream: go on after this event")),
    responses((status = 200, content((EventPage = "application/json"), (String = "text/event-stream")),
                  description = "A page; with Accept: text/event-stream an endless stream of EventDoc"),
              (status = 429, body = ErrorBody)))]
pub(super) async fn events(State(app): State<App>, door: EngineDoor, headers: HeaderMap, Params(query): Params<EventsQuery>) -> Answer {
    let wants = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if !wants.contains("text/event-stream") {
        return json(StatusCode::OK, &door.events(query).await?);
    }
    let resume = headers.get("last-event-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
    let after = door.position(resume.or(query.after).as_deref()).await?;
    let feed = door.engine.feed(&door.caller, after).await.map_err(|error| match problem(error) {
        Problem::TooManyFeeds { .. } => Problem::TooManyFeeds { limit: app.engine.policy().feeds_max as u64 },
        other => other,
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    let mut response = Sse::new(frames(feed.map_err(Fail::from)?, app.stopping)).keep_alive(keep_alive).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Ends when the host stops, the key is revoked, or the store fails: the client reconnects with its last event.
fn frames(feed: Feed, stopping: watch::Receiver<bool>) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let pages = stream::unfold((feed, stopping), |(mut feed, mut stopping)| async move {
        if *stopping.borrow() {
            return None;
        }
        let page = tokio::select! {
            page = feed.next() => page.ok().flatten(),
            _ = stopping.changed() => None,
        };
        page.map(|events| (events, (feed, stopping)))
    });
    pages.flat_map(|events| stream::iter(events.into_iter().map(|event| Ok(frame(&event)))))
}

fn frame(event: &Event) -> SseEvent {
    let doc = EventDoc::from(event);
    let frame = SseEvent::default().id(doc.sequence.to_string()).event(doc.r#type.clone());
    frame.json_data(&doc).unwrap_or_default()
}
