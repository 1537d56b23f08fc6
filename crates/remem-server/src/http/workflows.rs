//! Endpoints of workflow definitions: get, list, install and remove.

use super::extract::{JsonBody, PathParam};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, engine_failure};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::run::{WorkflowList, WorkflowListed};
use remem_wire::time::Instant;
use serde_json::{Map, Value};

/// Returns the definition of a workflow.
#[utoipa::path(get, path = "/v1/workflows/{workflowId}", tag = "workflows", params(("workflowId" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(super) async fn get_workflow(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(
        StatusCode::OK,
        &api.engine
            .get_workflow(&api.caller, &id)
            .await
            .map_err(engine_failure)?,
    )
}

/// Lists the workflows that the caller's tenant can run.
#[utoipa::path(get, path = "/v1/host/remembrancer/workflows", tag = "workflows", responses((status = 200, body = WorkflowList)))]
pub(super) async fn list_workflows(api: LocalApi) -> HandlerResult {
    let found = api
        .engine
        .list_workflows(&api.caller)
        .await
        .map_err(engine_failure)?;
    let listed = found.into_iter().map(|info| WorkflowListed {
        id: info.id,
        scope: if info.installed_at.is_some() {
            "tenant"
        } else {
            "host"
        }
        .to_owned(),
        installed_at: info.installed_at.map(Instant),
    });
    json_response(
        StatusCode::OK,
        &WorkflowList {
            workflows: listed.collect(),
        },
    )
}

/// Installs a workflow for the tenant, or replaces the one of the same id.
#[utoipa::path(put, path = "/v1/host/remembrancer/workflows/{workflowId}", tag = "workflows", params(("workflowId" = String, Path)),
    request_body = Object, responses((status = 201, body = Object), (status = 200, body = Object), (status = 422, body = ErrorBody)))]
pub(super) async fn put_workflow(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(document): JsonBody<Map<String, Value>>,
) -> HandlerResult {
    let (stored, new) = api
        .engine
        .put_workflow(&api.caller, &id, document)
        .await
        .map_err(engine_failure)?;
    json_response(
        if new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        &stored,
    )
}

/// Removes a workflow; runs of it continue.
#[utoipa::path(delete, path = "/v1/host/remembrancer/workflows/{workflowId}", tag = "workflows", params(("workflowId" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_workflow(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    api.engine
        .delete_workflow(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
