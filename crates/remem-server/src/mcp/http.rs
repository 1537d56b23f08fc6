//! MCP over streamable HTTP at `/mcp`: each request is authenticated like any other and nothing is
//! kept between two, so any node can answer any request.

use super::MemoryTools;
use super::refusal::{Asked, reword};
use crate::api::LocalApi;
use crate::http::{App, authenticate, error_response, read_body};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use remem_core::sabotage;
use remem_wire::Failure;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;

pub(crate) fn routes(app: &App) -> Router<App> {
    let names = sabotage!(
        "mcp-is-reached-by-any-name",
        app.mcp_hosts.clone(),
        Vec::new()
    );
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_origins(names.iter().flat_map(|name| origins(name)))
        .with_allowed_hosts(names);
    // The body is bounded before it gets there.
    config.max_request_body_bytes = usize::MAX;
    config.legacy_session_mode = false;
    config.json_response = true;
    let service = StreamableHttpService::new(
        || Ok(MemoryTools::over_http()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(app.clone(), admit))
}

/// The origins of web pages of a machine with that name: at any port, unless the name has one.
fn origins(name: &str) -> [String; 2] {
    let address = name.contains("::") && !name.starts_with('[');
    let machine = if address {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    let has_port = Authority::try_from(machine.as_str()).is_ok_and(|name| name.port().is_some());
    let port = if has_port { "" } else { ":*" };
    ["http", "https"].map(|scheme| format!("{scheme}://{machine}{port}"))
}

async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    match admitted(&app, request).await {
        Ok((request, asked)) => {
            let response = next.run(request).await;
            if response.status().is_success() {
                return response;
            }
            sabotage!(
                "mcp-quotes-what-it-refuses",
                reword(response, &asked).await,
                response
            )
        }
        Err(failure) => error_response(failure),
    }
}

/// The request with its caller and its whole body: rmcp itself would wait for a body without end.
async fn admitted(app: &App, request: Request) -> Result<(Request, Asked), Failure> {
    let api = authenticate(app, request.headers()).await?;
    let api = LocalApi {
        caller: api.caller.through_model_tools(),
        ..api
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(api);
    let whole = || Request::from_parts(parts.clone(), body);
    let (body, sent) = sabotage!(
        "a-tool-call-arrives-at-leisure",
        {
            let sent = Bytes::from(read_body(whole(), app.engine.policy()).await?);
            (Body::from(sent.clone()), sent)
        },
        (whole().into_body(), Bytes::new())
    );
    let asked = Asked::new(&parts.headers, sent);
    Ok((Request::from_parts(parts, body), asked))
}
