//! The middleware that every request passes: it measures, logs the route (never the path or the
//! body), sets the deadline, and turns panics into error responses.

use super::{error_response, version};
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use remem_core::sabotage;
use remem_store::deadline;
use remem_wire::Problem;
use std::any::Any;
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;

/// The instant until which a request may wait for storage, as an extension of the request: for code
/// that does not run in the request's own task.
#[derive(Clone, Copy)]
pub(crate) struct RequestDeadline(pub tokio::time::Instant);

/// Wraps a router in the middleware. `limit` is the time after its arrival in which a request may
/// wait for storage.
pub(super) fn with_layers(router: Router, limit: Duration) -> Router {
    // The route is known only inside the router, so `observe` is placed within, like a
    // `route_layer`, and the guard against panics outside.
    router
        .layer(from_fn_with_state(limit, set_deadline))
        .layer(from_fn(version::negotiate))
        .layer(from_fn(observe))
        .layer(CatchPanicLayer::custom(panic_response))
}

/// Runs a request under its deadline. The body of a stream is read after its handler has returned,
/// so it has no deadline.
async fn set_deadline(State(limit): State<Duration>, mut request: Request, next: Next) -> Response {
    let wait = sabotage!(
        "a-request-has-no-deadline",
        limit,
        Duration::from_secs(3_600)
    );
    let at = tokio::time::Instant::now() + wait;
    request.extensions_mut().insert(RequestDeadline(at));
    deadline::within(at, next.run(request)).await
}

fn panic_response(_: Box<dyn Any + Send>) -> Response {
    // The panic hook has logged the place. The payload may hold content, so it is dropped.
    error_response(Problem::Internal.into())
}

/// Returns the method as the label of a metric and as text of the log. Unknown methods share one
/// label, because a caller without a key can send any word as the method, and every new label would
/// stay in memory for good.
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.into_iter().find(|known| *known == method.as_str());
    sabotage!(
        "callers-name-metric-labels",
        known.unwrap_or("other"),
        String::leak(method.as_str().to_owned())
    )
}

/// Adds the check that a request names exactly one host. It is applied only to requests that came
/// over a connection.
pub(crate) fn with_host_check(router: Router) -> Router {
    router.layer(from_fn(require_one_host))
}

async fn require_one_host(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let host_required = request.version() == Version::HTTP_11;
    if sabotage!(
        "requests-name-no-host-or-two",
        hosts > 1 || host_required && hosts == 0,
        false
    ) {
        return error_response(Problem::MalformedHost.into());
    }
    next.run(request).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the surface's metrics layer is the place that measures"
)]
async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    tracing::debug!(
        method,
        route,
        status,
        elapsed_us = elapsed.as_micros() as u64,
        "request"
    );
    metrics::counter!("remem_http_requests_total", "method" => method, "route" => route.clone(), "status" => status.to_string())
        .increment(1);
    metrics::histogram!("remem_http_request_seconds", "method" => method, "route" => route)
        .record(elapsed.as_secs_f64());
    response
}
