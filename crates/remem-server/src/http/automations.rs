//! Endpoints of automations, which start runs by the clock: list, get, set, pause, resume, remove.

use super::extract::{JsonBody, PathParam};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, ReviewApi};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::automation::{AutomationDoc, AutomationList};
use serde_json::{Map, Value};

/// Lists the automations of the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/automations", tag = "automations", responses((status = 200, body = AutomationList)))]
pub(super) async fn list_automations(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.automations().await?)
}

/// Returns one automation by its id.
#[utoipa::path(get, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_automation(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.automation(&id).await?)
}

/// Creates an automation, or replaces the one of this id. Its schedule counts from now.
#[utoipa::path(put, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), request_body = Object,
    responses((status = 201, body = AutomationDoc), (status = 200, body = AutomationDoc, description = "It replaced one"),
        (status = 422, body = ErrorBody)))]
pub(super) async fn put_automation(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> HandlerResult {
    let (doc, new) = api.put_automation(&id, body).await?;
    json_response(
        if new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        &doc,
    )
}

/// Removes an automation. Runs that it started continue.
#[utoipa::path(delete, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_automation(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    api.remove_automation(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Pauses an automation until it is resumed.
#[utoipa::path(post, path = "/v1/host/remembrancer/automations/{automationId}/pause", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn pause_automation(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.enable_automation(&id, false).await?)
}

/// Resumes a paused automation.
#[utoipa::path(post, path = "/v1/host/remembrancer/automations/{automationId}/resume", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn resume_automation(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.enable_automation(&id, true).await?)
}
