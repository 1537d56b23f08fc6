//! A body that does not arrive is given up, whichever endpoint it was meant for.

use axum::body::{Body, Bytes};
use axum::http::Request;
use futures_util::stream::{self, StreamExt};
use remem_core::Policy;
use remem_testkit::server::MEMORY;
use remem_testkit::{TestServer, deadline};
use std::convert::Infallible;

/// A body that sends one byte, and then nothing more.
fn trickle() -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
    Body::from_stream(first.chain(stream::pending()))
}

#[tokio::test]
async fn a_request_body_that_does_not_arrive_times_out() {
    let policy = Policy {
        body_ms_max: 100,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    for path in [format!("{MEMORY}/m/entries"), "/mcp".to_owned()] {
        let request = Request::post(&path)
            .header("authorization", "Bearer key-of-a")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("host", "localhost")
            .body(trickle())
            .unwrap();
        let answer = tokio::time::timeout(deadline() / 4, host.send(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{path} waits for ever"));
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (408, "request_timeout"),
            "{path}: {}",
            answer.json()
        );
    }
}
