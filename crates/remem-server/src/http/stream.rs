//! Streams of events: server-sent events from any source that yields them a page at a time.
//!
//! A stream pulls a page when its client has room, so a client that stops reading costs one page of
//! memory, not a queue.

use axum::http::HeaderValue;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use remem_core::Event;
use remem_engine::feed::EventFeed;
use remem_engine::runs::RunFeed;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A source of events, page by page.
pub(super) trait EventPages: Send + 'static {
    /// Waits for the next page; `None` is the end of the stream.
    fn next_page(&mut self) -> impl Future<Output = Option<Vec<Event>>> + Send;
}

impl EventPages for EventFeed {
    async fn next_page(&mut self) -> Option<Vec<Event>> {
        self.next().await.ok().flatten()
    }
}

impl EventPages for RunFeed {
    async fn next_page(&mut self) -> Option<Vec<Event>> {
        self.next().await.ok().flatten()
    }
}

/// Returns the stream as a response. It ends with its source, when the host stops, when the key is
/// revoked or the token expires, or when the store fails; the client then reconnects with the id of
/// its last event.
pub(super) fn event_stream_response(
    pages: impl EventPages,
    stopping: watch::Receiver<bool>,
    frame: fn(&Event) -> Option<Frame>,
) -> Response {
    let mut response = Sse::new(event_frames(pages, stopping, frame))
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event_frames(
    pages: impl EventPages,
    stopping: watch::Receiver<bool>,
    frame: fn(&Event) -> Option<Frame>,
) -> impl Stream<Item = Result<Frame, Infallible>> {
    let pages = stream::unfold((pages, stopping), |(mut pages, mut stopping)| async move {
        if *stopping.borrow() {
            return None;
        }
        let page = tokio::select! {
            page = pages.next_page() => page,
            _ = stopping.changed() => None,
        };
        page.map(|events| (events, (pages, stopping)))
    });
    pages.flat_map(move |events| {
        stream::iter(events.iter().filter_map(frame).map(Ok).collect::<Vec<_>>())
    })
}
