//! What every request passes: measured, logged by its route (never by its path or body), given its
//! deadline, and guarded against panics.

use super::{render, version};
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

/// Until when a request waits for storage: for code that does not run in the request's own task.
#[derive(Clone, Copy)]
pub(crate) struct RequestDeadline(pub tokio::time::Instant);

/// `limit` is how long after its arrival a request may still wait for storage.
pub(super) fn wrap(router: Router, limit: Duration) -> Router {
    // The route is known only inside the router, hence `route_layer`-like placement: observe sits
    // within, guard outside.
    router
        .layer(from_fn_with_state(limit, set_deadline))
        .layer(from_fn(version::negotiate))
        .layer(from_fn(observe))
        .layer(CatchPanicLayer::custom(panicked))
}

/// A stream's body is read after its handler has returned, so it has no deadline.
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

fn panicked(_: Box<dyn Any + Send>) -> Response {
    // The panic hook has logged where; the payload may hold anything and goes nowhere.
    render(Problem::Internal.into())
}

/// The method as a metric's label and as text of the log. A caller without a key chooses any word
/// for it, and every new label would be kept for good.
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.into_iter().find(|known| *known == method.as_str());
    sabotage!(
        "callers-name-metric-labels",
        known.unwrap_or("other"),
        String::leak(method.as_str().to_owned())
    )
}

/// What a client that has not said which host it means, or two, is answered. Only requests from a
/// connection pass here.
pub(crate) fn with_one_host(router: Router) -> Router {
    router.layer(from_fn(one_host))
}

async fn one_host(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let needed = request.version() == Version::HTTP_11;
    if sabotage!(
        "requests-name-no-host-or-two",
        hosts > 1 || needed && hosts == 0,
        false
    ) {
        return render(Problem::MalformedHost.into());
    }
    next.run(request).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the surface's metrics layer is the place that measures"
)]
async fn observe(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = method_label(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let elapsed = begun.elapsed();
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
