//! The HTTP surface: the router, and the state, answers and authentication that its handlers share.
//! Each group of endpoints has a file of its own.

mod agents;
mod automations;
mod commitments;
mod document;
mod entries;
mod events;
mod extract;
mod forget;
mod heartbeats;
mod jobs;
mod keys;
mod layers;
mod memory;
mod meta;
mod model;
mod passes;
mod proposals;
mod run_events;
mod runs;
mod seam_commitments;
mod seam_passes;
mod seams;
mod secrets;
mod stream;
mod tenants;
mod version;
mod webhooks;
mod workflows;
mod workshop;
mod workspace;

pub(crate) use extract::read_body;
pub(crate) use layers::{RequestDeadline, with_host_check};

use crate::api::LocalApi;
use crate::mcp;
use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use remem_engine::Engine;
use remem_wire::{Failure, Problem};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The state that all handlers share. It is cheap to clone.
#[derive(Clone)]
pub struct App {
    pub engine: Arc<Engine>,
    /// The recorder that `/metrics` renders; `None` if metrics are not collected.
    pub metrics: Option<PrometheusHandle>,
    /// Whether `/metrics` answers requests that have no key.
    pub metrics_public: bool,
    /// Becomes true when the host begins to stop.
    pub stopping: watch::Receiver<bool>,
    /// Names by which clients may reach MCP; any if there are none.
    pub mcp_hosts: Vec<String>,
    documents: Arc<meta::PublicDocuments>,
}

impl App {
    /// Builds the state for an engine and renders the public documents.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        metrics: Option<PrometheusHandle>,
        metrics_public: bool,
        stopping: watch::Receiver<bool>,
    ) -> App {
        let documents = Arc::new(meta::PublicDocuments::new(
            &engine,
            documented_routes().1,
            &engine.test_workflow_ids(),
        ));
        App {
            engine,
            metrics,
            metrics_public,
            stopping,
            mcp_hosts: Vec::new(),
            documents,
        }
    }
}

/// The root of the OpenAPI document. It names `fork_run` because its template has a verb after the
/// parameter (`{runId}:fork`): the router cannot tell that from the parameter alone, so the path is
/// routed by hand below and the handler checks the verb.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Remembrancer",
        description = "The memory host for AI agents. Every path but the two documents, /health and /ready needs `Authorization: Bearer <key>`, where the host accepts them also `Bearer <token>`: a JWT of its issuer.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(runs::fork_run)
)]
struct ApiDocument;

/// Returns the routes of all documented endpoints, and the OpenAPI document that describes them.
fn documented_routes() -> (Router<App>, utoipa::openapi::OpenApi) {
    let mut document = ApiDocument::openapi();
    let components = document.components.get_or_insert_default();
    let description = "An API key, or a JWT of the issuer that the host trusts, if it trusts one";
    let bearer = SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(description))
            .build(),
    );
    components.add_security_scheme("key", bearer);
    document.security = Some(vec![utoipa::openapi::security::SecurityRequirement::new(
        "key",
        Vec::<String>::new(),
    )]);
    let (router, document) = workshop_routes(commitment_routes(proposal_routes(
        OpenApiRouter::with_openapi(document),
    )))
    .routes(routes!(entries::put_entry, entries::list_entries))
    .routes(routes!(entries::put_entries))
    .routes(routes!(entries::import_entries))
    .routes(routes!(entries::get_entry, entries::delete_entry))
    .routes(routes!(entries::get_metadata))
    .routes(routes!(memory::search))
    .routes(routes!(memory::recall))
    .routes(routes!(memory::stats))
    .routes(routes!(memory::list_memories))
    .routes(routes!(events::events))
    .routes(routes!(forget::forget))
    .routes(routes!(forget::list_erasures))
    .routes(routes!(forget::get_erasure))
    .routes(routes!(forget::get_erasure_page))
    .routes(routes!(forget::get_lineage))
    .routes(routes!(forget::list_archives))
    .routes(routes!(forget::get_archive))
    .routes(routes!(forget::undo_rewrite))
    .routes(routes!(keys::whoami))
    .routes(routes!(keys::create_key, keys::list_keys))
    .routes(routes!(keys::change_key, keys::revoke_key))
    .routes(routes!(tenants::put_tenant, tenants::list_tenants))
    .routes(routes!(passes::list_passes))
    .routes(routes!(passes::run_pass))
    .routes(routes!(
        passes::get_schedule,
        passes::put_schedule,
        passes::remove_schedule
    ))
    .routes(routes!(passes::list_schedules))
    .routes(routes!(jobs::list_jobs))
    .routes(routes!(jobs::get_job))
    .routes(routes!(jobs::cancel_job))
    .routes(routes!(model::list_model_calls))
    .routes(routes!(model::get_embeddings))
    .routes(routes!(secrets::list_secrets))
    .routes(routes!(secrets::set_secret, secrets::delete_secret))
    .routes(routes!(secrets::rotate_secret))
    .routes(routes!(workspace::list_files))
    .routes(routes!(
        workspace::get_file,
        workspace::put_file,
        workspace::delete_file
    ))
    .routes(routes!(runs::create_run))
    .routes(routes!(runs::get_run))
    .route("/v1/runs/{runId}", axum::routing::post(runs::fork_run))
    .routes(routes!(runs::cancel_run))
    .routes(routes!(runs::get_artifact))
    .routes(routes!(run_events::run_events))
    .routes(routes!(run_events::poll_run))
    .routes(routes!(workflows::get_workflow))
    .routes(routes!(workflows::list_workflows))
    .routes(routes!(workflows::put_workflow, workflows::delete_workflow))
    .routes(routes!(agents::list_agents))
    .routes(routes!(agents::get_agent))
    .routes(routes!(agents::install_agent))
    .routes(routes!(agents::remove_agent))
    .routes(routes!(webhooks::register))
    .routes(routes!(webhooks::remove))
    .routes(routes!(webhooks::list))
    .routes(routes!(webhooks::dead_letters))
    .routes(routes!(webhooks::redeliver))
    .routes(routes!(meta::discovery))
    .routes(routes!(meta::openapi))
    .routes(routes!(meta::health))
    .routes(routes!(meta::ready))
    .routes(routes!(meta::metrics))
    .split_for_parts();
    (router, document)
}

/// Adds the endpoints of commitments, observations and heartbeats.
fn commitment_routes(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(routes!(commitments::list_commitments))
        .routes(routes!(commitments::get_commitment))
        .routes(routes!(commitments::explain_commitment))
        .routes(routes!(commitments::list_fires))
        .routes(routes!(commitments::create_commitment))
        .routes(routes!(commitments::confirm_commitment))
        .routes(routes!(commitments::cancel_commitment))
        .routes(routes!(commitments::snooze_commitment))
        .routes(routes!(commitments::observe))
        .routes(routes!(commitments::get_rules, commitments::put_rules))
        .routes(routes!(
            commitments::get_memory_rules,
            commitments::put_memory_rules
        ))
        .routes(routes!(heartbeats::list_heartbeats))
        .routes(routes!(
            heartbeats::get_heartbeat,
            heartbeats::put_heartbeat,
            heartbeats::remove_heartbeat
        ))
}

/// Adds the endpoints of workshop memory: slots, sessions, action links, retention, rules and
/// profiles.
fn workshop_routes(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(routes!(workshop::get_history, workshop::retract))
        .routes(routes!(workshop::list_sessions))
        .routes(routes!(workshop::close_session))
        .routes(routes!(workshop::close_interaction))
        .routes(routes!(workshop::link_action))
        .routes(routes!(workshop::get_audit))
        .routes(routes!(workshop::get_retention))
        .routes(routes!(workshop::list_rules, workshop::put_rules))
        .routes(routes!(workshop::put_rule, workshop::delete_rule))
        .routes(routes!(workshop::check_rule))
        .routes(routes!(workshop::list_profiles))
}

/// Adds the endpoints of proposals, their artifacts and traces, and automations.
fn proposal_routes(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    router
        .routes(routes!(
            proposals::list_proposals,
            proposals::submit_proposal
        ))
        .routes(routes!(
            proposals::get_proposal,
            proposals::revise_proposal,
            proposals::archive_proposal
        ))
        .routes(routes!(proposals::apply_proposal))
        .routes(routes!(proposals::reject_proposal))
        .routes(routes!(proposals::list_revisions))
        .routes(routes!(proposals::get_gate))
        .routes(routes!(proposals::approve_proposal))
        .routes(routes!(proposals::override_proposal))
        .routes(routes!(proposals::list_installed))
        .routes(routes!(proposals::record_trace))
        .routes(routes!(automations::list_automations))
        .routes(routes!(
            automations::get_automation,
            automations::put_automation,
            automations::remove_automation
        ))
        .routes(routes!(automations::pause_automation))
        .routes(routes!(automations::resume_automation))
}

/// Builds the whole HTTP surface: documented endpoints, MCP, and test seams where they are enabled.
pub fn router(app: App) -> Router {
    let mut routes = documented_routes().0.merge(mcp::http::routes(&app));
    if app.engine.has_test_endpoints() {
        routes = routes
            .merge(seams::routes())
            .merge(proposals::seams())
            .merge(seam_passes::routes())
            .merge(seam_commitments::routes());
    }
    let limit = Duration::from_millis(app.engine.policy().request_ms_max);
    let routes = routes
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app);
    layers::with_layers(routes, limit)
}

async fn not_found() -> Response {
    error_response(Problem::NotFound("path").into())
}

async fn method_not_allowed() -> Response {
    error_response(Problem::MethodNotAllowed.into())
}

/// Renders a failed call as a response.
pub(crate) fn error_response(failure: Failure) -> Response {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(failure.body)).into_response();
    let headers = response.headers_mut();
    if let Some(seconds) = failure.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    no_store(headers);
    response
}

/// The result of a handler: a response, or an error that renders as one.
pub(crate) type HandlerResult = Result<Response, HandlerError>;

/// A failed call as the error of a handler. `?` converts problems and failures into it.
pub struct HandlerError(Failure);

impl<E: Into<Failure>> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        HandlerError(error.into())
    }
}

impl IntoResponse for HandlerError {
    fn into_response(self) -> Response {
        error_response(self.0)
    }
}

/// Renders a value as a JSON response. Memory is private, so no cache on the way may store it.
pub(crate) fn json_response<T: Serialize>(status: StatusCode, value: &T) -> HandlerResult {
    let mut response = (status, axum::Json(value)).into_response();
    no_store(response.headers_mut());
    Ok(response)
}

/// Renders the answer to a write, with the headers for its revision and for a replay.
pub(crate) fn write_response<T: Serialize>(
    status: StatusCode,
    written: crate::api::WriteAnswer<T>,
) -> HandlerResult {
    let mut response = if status == StatusCode::NO_CONTENT {
        status.into_response()
    } else {
        (status, axum::Json(&written.value)).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(revision) = HeaderValue::from_str(&written.revision) {
        headers.insert(remem_wire::REVISION_HEADER, revision);
    }
    if written.replayed {
        headers.insert(remem_wire::REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    no_store(headers);
    Ok(response)
}

pub(crate) fn no_store(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Authenticates the key or token of a request, and returns the memory API for its caller.
pub(crate) async fn authenticate(app: &App, headers: &HeaderMap) -> Result<LocalApi, Failure> {
    let text = headers
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok());
    let (scheme, key) = text
        .and_then(|t| t.split_once(' '))
        .ok_or(Problem::Unauthenticated)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::Unauthenticated.into());
    }
    let caller = app
        .engine
        .authenticate(key.trim())
        .await
        .map_err(crate::api::authentication_problem)?;
    Ok(LocalApi {
        engine: app.engine.clone(),
        caller,
    })
}
