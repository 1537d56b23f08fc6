//! Endpoints about the host itself: the two public documents, health, readiness and metrics.

use super::{App, HandlerResult, authenticate, document, json_response};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use remem_core::{Permission, sabotage};
use remem_engine::Engine;
use remem_wire::{Problem, discovery};
use serde_json::json as value;

/// The discovery and OpenAPI documents, rendered once: they change only with the process.
pub(super) struct PublicDocuments {
    discovery: RenderedDocument,
    openapi: RenderedDocument,
}

struct RenderedDocument {
    text: String,
    etag: String,
}

impl RenderedDocument {
    fn new(text: String) -> RenderedDocument {
        let etag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..32]);
        RenderedDocument { text, etag }
    }

    fn respond(&self, headers: &HeaderMap) -> Response {
        let known = headers
            .get(header::IF_NONE_MATCH)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let matches = known.split(',').any(|tag| matches!(tag.trim().trim_start_matches("W/"), tag if tag == self.etag || tag == "*"));
        let mut response = if matches {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            (
                [(header::CONTENT_TYPE, "application/json")],
                self.text.clone(),
            )
                .into_response()
        };
        let headers = response.headers_mut();
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=60"),
        );
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            headers.insert(header::ETAG, etag);
        }
        response
    }
}

impl PublicDocuments {
    /// Renders both documents. `fixtures` are the ids of the workflows that are built into the
    /// host.
    pub fn new(
        engine: &Engine,
        openapi: utoipa::openapi::OpenApi,
        fixtures: &[String],
    ) -> PublicDocuments {
        let discovery = discovery::document(
            &engine.capabilities(),
            engine.policy(),
            fixtures,
            engine.activation().as_str(),
        );
        let openapi = document::complete_document(openapi, engine.policy()).to_string();
        PublicDocuments {
            discovery: RenderedDocument::new(discovery.to_string()),
            openapi: RenderedDocument::new(openapi),
        }
    }
}

/// Returns the capabilities of this host as an OpenWOP discovery document.
#[utoipa::path(get, path = "/.well-known/openwop", tag = "host", security(()),
    responses((status = 200, body = Object), (status = 304), (status = 406, body = remem_wire::ErrorBody)))]
pub(super) async fn discovery(State(app): State<App>, headers: HeaderMap) -> Response {
    app.documents.discovery.respond(&headers)
}

/// Returns this OpenAPI document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "host", security(()),
    responses((status = 200, body = Object), (status = 304)))]
pub(super) async fn openapi(State(app): State<App>, headers: HeaderMap) -> Response {
    app.documents.openapi.respond(&headers)
}

/// Reports that the process is alive.
#[utoipa::path(get, path = "/health", tag = "host", security(()), responses((status = 200, body = Object)))]
pub(super) async fn health() -> HandlerResult {
    json_response(
        StatusCode::OK,
        &value!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}),
    )
}

/// Reports that the host serves: its storage answers, its passes work, and it is not stopping. If
/// something fails for some tenants only, `degraded` is true and `failingTenants` counts them.
#[utoipa::path(get, path = "/ready", tag = "host", security(()), responses((status = 200, body = Object), (status = 503, body = remem_wire::ErrorBody)))]
pub(super) async fn ready(State(app): State<App>) -> HandlerResult {
    if *app.stopping.borrow() {
        return Err(Problem::Stopping.into());
    }
    if !app.engine.is_reachable().await {
        return Err(Problem::Unavailable.into());
    }
    let failing = app.engine.background_failures();
    if failing.all_tenants {
        return Err(Problem::PassesFail.into());
    }
    let mut ready = value!({"status": "ready"});
    if failing.tenants > 0 {
        ready["degraded"] = value!(true);
        ready["failingTenants"] = value!(failing.tenants);
    }
    json_response(StatusCode::OK, &ready)
}

/// Returns Prometheus metrics. They cover the whole host, so they need host:admin unless the
/// configuration makes them public.
#[utoipa::path(get, path = "/metrics", tag = "host",
    responses((status = 200, content_type = "text/plain", body = String), (status = 404, body = remem_wire::ErrorBody)))]
pub(super) async fn metrics(State(app): State<App>, headers: HeaderMap) -> HandlerResult {
    if !app.metrics_public {
        let api = authenticate(&app, &headers).await?;
        let needed = sabotage!(
            "a-tenant-reads-the-host-s-metrics",
            Permission::HostAdmin,
            Permission::MemoryAdmin
        );
        if !api.caller.has_permission(needed) {
            return Err(Problem::Forbidden(needed).into());
        }
    }
    let metrics = app.metrics.as_ref().ok_or(Problem::NotFound("path"))?;
    Ok((
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        metrics.render(),
    )
        .into_response())
}
