//! Automations: what the clock starts. Set, pause, resume, remove.

use super::extract::{JsonBody, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, ReviewDoor};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::automation::{AutomationDoc, AutomationList};
use serde_json::{Map, Value};

/// The tenant's automations.
#[utoipa::path(get, path = "/v1/host/remembrancer/automations", tag = "automations", responses((status = 200, body = AutomationList)))]
pub(super) async fn list_automations(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.automations().await?)
}

/// One automation.
#[utoipa::path(get, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_automation(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.automation(&id).await?)
}

/// Set an automation, or replace the one of this name. It begins to count now.
#[utoipa::path(put, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), request_body = Object,
    responses((status = 201, body = AutomationDoc), (status = 200, body = AutomationDoc, description = "It replaced one"),
        (status = 422, body = ErrorBody)))]
pub(super) async fn put_automation(
    door: EngineDoor,
    Ref(id): Ref,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> Answer {
    let (doc, new) = door.put_automation(&id, body).await?;
    json(
        if new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        &doc,
    )
}

/// Take an automation away. Runs that it started go on.
#[utoipa::path(delete, path = "/v1/host/remembrancer/automations/{automationId}", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_automation(door: EngineDoor, Ref(id): Ref) -> Answer {
    door.remove_automation(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Pause an automation.
#[utoipa::path(post, path = "/v1/host/remembrancer/automations/{automationId}/pause", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn pause_automation(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.enable_automation(&id, false).await?)
}

/// Let a paused automation go on.
#[utoipa::path(post, path = "/v1/host/remembrancer/automations/{automationId}/resume", tag = "automations",
    params(("automationId" = String, Path)), responses((status = 200, body = AutomationDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn resume_automation(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.enable_automation(&id, true).await?)
}
