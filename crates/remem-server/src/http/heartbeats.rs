//! Endpoints of heartbeats: list, get, set and remove.

use super::extract::{JsonBody, PathParam};
use super::{HandlerResult, json_response};
use crate::api::{CommitmentApi, LocalApi};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::heartbeat::{HeartbeatDoc, HeartbeatList, HeartbeatPut};

/// Lists the heartbeats of the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/heartbeats", tag = "commitments", responses((status = 200, body = HeartbeatList)))]
pub(super) async fn list_heartbeats(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.heartbeats().await?)
}

/// Returns one heartbeat with the result of its last check.
#[utoipa::path(get, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), responses((status = 200, body = HeartbeatDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_heartbeat(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.heartbeat(&id).await?)
}

/// Creates a heartbeat, or replaces the one of this id, which then begins anew.
#[utoipa::path(put, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), request_body = HeartbeatPut, responses((status = 200, body = HeartbeatDoc)))]
pub(super) async fn put_heartbeat(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(body): JsonBody<HeartbeatPut>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.put_heartbeat(&id, body).await?)
}

/// Removes a heartbeat by its id.
#[utoipa::path(delete, path = "/v1/host/remembrancer/heartbeats/{heartbeatId}", tag = "commitments",
    params(("heartbeatId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_heartbeat(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    api.remove_heartbeat(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
