//! MCP over streamable HTTP at `/mcp`: each request is authenticated like any other, and no state
//! is kept between requests, so any node can answer any request.

use super::MemoryTools;
use crate::door::EngineDoor;
use crate::http::{App, authenticate, read_body, render};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use remem_core::sabotage;
use remem_wire::{Failure, Problem};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;

pub(crate) fn routes(app: &App) -> Router<App> {
    // The bearer key keeps hostile web pages out, so the Host header need not be pinned.
    let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    config.legacy_session_mode = false;
    config.json_response = true;
    let service = StreamableHttpService::new(
        || Ok(MemoryTools::over_http()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(app.clone(), authenticate_request))
}

/// Authenticates a request before rmcp handles it, and replaces rmcp's own errors.
async fn authenticate_request(State(app): State<App>, request: Request, next: Next) -> Response {
    match prepare(&app, request).await {
        Ok(request) => {
            let response = next.run(request).await;
            // rmcp's own refusals are plain text that quotes headers and bodies: only the status is
            // kept.
            let status = response.status();
            let hint = "it is not an MCP message that this host takes".to_owned();
            if status.is_success() {
                response
            } else {
                render(Failure {
                    status: status.as_u16(),
                    ..Problem::MalformedBody {
                        hint,
                        pointer: None,
                    }
                    .into()
                })
            }
        }
        Err(failure) => render(failure),
    }
}

/// Returns the request with the memory API of its caller as an extension and with its whole body:
/// rmcp itself would wait for a body without a deadline.
async fn prepare(app: &App, request: Request) -> Result<Request, Failure> {
    let api = authenticate(app, request.headers()).await?;
    let api = EngineDoor {
        caller: api.caller.through_tools(),
        ..api
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(api);
    let body = sabotage!(
        "a-tool-call-arrives-at-leisure",
        Body::from(
            read_body(
                Request::from_parts(parts.clone(), body),
                app.engine.policy()
            )
            .await?
        ),
        body
    );
    Ok(Request::from_parts(parts, body))
}
