//! Heartbeats: look, set, take away.

use super::extract::{JsonBody, Ref};
use super::{Answer, json};
use crate::door::{CommitmentDoor, EngineDoor};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::heartbeat::{HeartbeatDoc, HeartbeatList, HeartbeatPut};

/// The heartbeats of the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/heartbeats", tag = "commitments", responses((status = 200, body = HeartbeatList)))]
pub(super) async fn list_heartbeats(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.heartbeats().await?)
}

/// One heartbeat, with what its last look found.
#[utoipa::path(get, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), responses((status = 200, body = HeartbeatDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_heartbeat(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.heartbeat(&id).await?)
}

/// Set a heartbeat, or another under its name: it begins anew.
#[utoipa::path(put, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), request_body = HeartbeatPut, responses((status = 200, body = HeartbeatDoc)))]
pub(super) async fn put_heartbeat(
    door: EngineDoor,
    Ref(id): Ref,
    JsonBody(body): JsonBody<HeartbeatPut>,
) -> Answer {
    json(StatusCode::OK, &door.put_heartbeat(&id, body).await?)
}

/// Take a heartbeat away.
#[utoipa::path(delete, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_heartbeat(door: EngineDoor, Ref(id): Ref) -> Answer {
    door.remove_heartbeat(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
