//! Endpoints of workflow definitions: get, list, install and remove.

use super::extract::{JsonBody, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, fail};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::run::{WorkflowList, WorkflowListed};
use remem_wire::time::Instant;
use serde_json::{Map, Value};

/// Returns the definition of a workflow.
#[utoipa::path(get, path = "/v1/workflows/{workflowId}", tag = "workflows", params(("workflowId" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(super) async fn get_workflow(api: EngineDoor, Ref(id): Ref) -> Answer {
    json(
        StatusCode::OK,
        &api.engine.workflow(&api.caller, &id).await.map_err(fail)?,
    )
}

/// Lists the workflows that the caller's tenant can run.
#[utoipa::path(get, path = "/v1/host/remembrancer/workflows", tag = "workflows", responses((status = 200, body = WorkflowList)))]
pub(super) async fn list_workflows(api: EngineDoor) -> Answer {
    let found = api.engine.workflows(&api.caller).await.map_err(fail)?;
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
    json(
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
    api: EngineDoor,
    Ref(id): Ref,
    JsonBody(document): JsonBody<Map<String, Value>>,
) -> Answer {
    let (stored, new) = api
        .engine
        .put_workflow(&api.caller, &id, document)
        .await
        .map_err(fail)?;
    json(
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
pub(super) async fn delete_workflow(api: EngineDoor, Ref(id): Ref) -> Answer {
    api.engine
        .delete_workflow(&api.caller, &id)
        .await
        .map_err(fail)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
