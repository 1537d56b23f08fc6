//! Passes: how they are doing, and running one by hand.

use super::extract::JsonBody;
use super::{Answer, json};
use crate::door::{Door, EngineDoor};
use axum::extract::Path;
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::admin::{PassAnswer, PassList, PassRun};

/// The passes and their latest activation for the caller's tenant on this node.
#[utoipa::path(get, path = "/v1/host/remembrancer/passes", tag = "administration",
    responses((status = 200, body = PassList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_passes(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.passes().await?)
}

/// Run a pass once for the caller's tenant.
#[utoipa::path(post, path = "/v1/host/remembrancer/passes/{name}/run", tag = "administration",
    params(("name" = String, Path)), request_body = PassRun,
    responses((status = 200, body = PassAnswer), (status = 404, body = ErrorBody)))]
pub(super) async fn run_pass(door: EngineDoor, Path(name): Path<String>, JsonBody(body): JsonBody<PassRun>) -> Answer {
    json(StatusCode::OK, &door.run_pass(&name, body).await?)
}
