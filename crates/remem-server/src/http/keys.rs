//! Keys: who a caller is by them, create, list, change, revoke.

use super::extract::{JsonBody, Params};
use super::{Answer, json};
use crate::door::{Door, EngineDoor};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::admin::{KeyChange, KeyCreate, KeyCreated, KeyInfo, KeyList, TenantQuery, Whoami};

/// Who the caller is: what its key or token proved. Needs no scope.
#[utoipa::path(get, path = "/v1/host/remembrancer/whoami", tag = "administration",
    responses((status = 200, body = Whoami)))]
pub(super) async fn whoami(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.whoami().await?)
}

/// Make a key: for the own tenant with keys:manage, for any with host:admin; never with more rights
/// than one's own.
#[utoipa::path(post, path = "/v1/host/remembrancer/keys", tag = "administration", request_body = KeyCreate,
    responses((status = 201, body = KeyCreated), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn create_key(door: EngineDoor, JsonBody(body): JsonBody<KeyCreate>) -> Answer {
    json(StatusCode::CREATED, &door.create_key(body).await?)
}

/// A tenant's keys, without the keys.
#[utoipa::path(get, path = "/v1/host/remembrancer/keys", tag = "administration", params(TenantQuery),
    responses((status = 200, body = KeyList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_keys(door: EngineDoor, Params(query): Params<TenantQuery>) -> Answer {
    json(StatusCode::OK, &door.keys(query).await?)
}

/// Change what a key may vouch for: down, or up to what one's own key may. It counts from the key's
/// next request on.
#[utoipa::path(patch, path = "/v1/host/remembrancer/keys/{id}", tag = "administration",
    params(("id" = String, Path), TenantQuery), request_body = KeyChange,
    responses((status = 200, body = KeyInfo), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn change_key(
    door: EngineDoor,
    Path(id): Path<String>,
    Params(query): Params<TenantQuery>,
    JsonBody(body): JsonBody<KeyChange>,
) -> Answer {
    json(StatusCode::OK, &door.change_key(query, &id, body).await?)
}

/// Revoke a key, at once.
#[utoipa::path(delete, path = "/v1/host/remembrancer/keys/{id}", tag = "administration",
    params(("id" = String, Path), TenantQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn revoke_key(
    door: EngineDoor,
    Path(id): Path<String>,
    Params(query): Params<TenantQuery>,
) -> Answer {
    door.revoke_key(query, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
