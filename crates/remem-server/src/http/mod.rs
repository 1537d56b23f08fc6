//! HTTP: the router and what its handlers share. One group of endpoints a file.

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
mod seam_passes;
mod seam_standing;
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
pub(crate) use layers::{RequestDeadline, with_one_host};

use crate::door::EngineDoor;
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

/// What handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The application.
    pub engine: Arc<Engine>,
    /// The metrics to show, if they are collected.
    pub metrics: Option<PrometheusHandle>,
    /// Whether metrics are shown without a key.
    pub metrics_public: bool,
    /// Becomes true when the host begins to stop.
    pub stopping: watch::Receiver<bool>,
    documents: Arc<meta::Documents>,
}

impl App {
    /// The state for an engine.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        metrics: Option<PrometheusHandle>,
        metrics_public: bool,
        stopping: watch::Receiver<bool>,
    ) -> App {
        let documents = Arc::new(meta::Documents::new(&engine, api().1, &engine.fixtures()));
        App {
            engine,
            metrics,
            metrics_public,
            stopping,
            documents,
        }
    }
}

/// A template with a verb after its parameter is one that the router cannot tell from the parameter
/// alone: the handler does. It is named here for the document, and routed below.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Remembrancer",
        description = "The memory host for AI agents. Every path but the two documents, /health and /ready needs `Authorization: Bearer <key>`, where the host accepts them also `Bearer <token>`: a JWT of its issuer.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(runs::fork_run)
)]
struct Api;

fn api() -> (Router<App>, utoipa::openapi::OpenApi) {
    let mut document = Api::openapi();
    let components = document.components.get_or_insert_default();
    let what = "An API key, or a JWT of the issuer that the host trusts, if it trusts one";
    let bearer = SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(what))
            .build(),
    );
    components.add_security_scheme("key", bearer);
    document.security = Some(vec![utoipa::openapi::security::SecurityRequirement::new(
        "key",
        Vec::<String>::new(),
    )]);
    let (router, document) = workshop_memory(standing(under_review(OpenApiRouter::with_openapi(
        document,
    ))))
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
    (router, document::complete(document))
}

/// What an agent is to be reminded of, and what is looked at for it.
fn standing(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
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

/// What is answered, ends, is rested upon, and is not to be restated.
fn workshop_memory(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
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

/// What is reviewed before it has an effect, and what the clock starts.
fn under_review(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
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

/// The whole HTTP surface.
pub fn router(app: App) -> Router {
    let mut routes = api().0.merge(mcp::http::routes(&app));
    if app.engine.has_seams() {
        routes = routes
            .merge(seams::routes())
            .merge(proposals::seams())
            .merge(seam_passes::routes())
            .merge(seam_standing::routes());
    }
    let limit = Duration::from_millis(app.engine.policy().request_ms_max);
    let routes = routes
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app);
    layers::wrap(routes, limit)
}

async fn not_found() -> Response {
    render(Problem::NotFound("path").into())
}

async fn method_not_allowed() -> Response {
    render(Problem::MethodNotAllowed.into())
}

/// A failure as an answer.
pub(crate) fn render(failure: Failure) -> Response {
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

/// What a handler returns.
pub(crate) type Answer = Result<Response, Fail>;

/// A failure on its way out of a handler.
pub struct Fail(Failure);

impl<E: Into<Failure>> From<E> for Fail {
    fn from(error: E) -> Fail {
        Fail(error.into())
    }
}

impl IntoResponse for Fail {
    fn into_response(self) -> Response {
        render(self.0)
    }
}

/// A value as an answer. Memory is private: no cache on the way may keep it.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    let mut response = (status, axum::Json(value)).into_response();
    no_store(response.headers_mut());
    Ok(response)
}

/// The answer to a write.
pub(crate) fn written<T: Serialize>(
    status: StatusCode,
    written: crate::door::Written<T>,
) -> Answer {
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

fn no_store(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// The door of the caller that a request's key or token names.
pub(crate) async fn authenticate(app: &App, headers: &HeaderMap) -> Result<EngineDoor, Failure> {
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
        .map_err(crate::door::denied)?;
    Ok(EngineDoor {
        engine: app.engine.clone(),
        caller,
    })
}
