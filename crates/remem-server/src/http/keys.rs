//! Endpoints of keys: the caller's own identity, create, list, change and revoke.

use super::extract::{JsonBody, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::admin::{KeyChange, KeyCreate, KeyCreated, KeyInfo, KeyList, TenantQuery, Whoami};

/// Returns the caller's tenant, principal and scopes, as its key or token proved them. Needs no
/// scope.
#[utoipa::path(get, path = "/v1/host/remembrancer/whoami", tag = "administration",
    responses((status = 200, body = Whoami)))]
pub(super) async fn whoami(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.whoami().await?)
}

/// Creates a key: for the caller's own tenant with keys:manage, for any tenant with host:admin. A
/// key never has more rights than its creator's.
#[utoipa::path(post, path = "/v1/host/remembrancer/keys", tag = "administration", request_body = KeyCreate,
    responses((status = 201, body = KeyCreated), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn create_key(
    api: LocalApi,
    JsonBody(body): JsonBody<KeyCreate>,
) -> HandlerResult {
    json_response(StatusCode::CREATED, &api.create_key(body).await?)
}

/// Lists the records of a tenant's keys, without the keys themselves.
#[utoipa::path(get, path = "/v1/host/remembrancer/keys", tag = "administration", params(TenantQuery),
    responses((status = 200, body = KeyList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_keys(
    api: LocalApi,
    QueryParams(query): QueryParams<TenantQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.keys(query).await?)
}

/// Changes the highest trust that a key may vouch for: down, or up to that of the caller's own key.
/// It takes effect with the key's next request.
#[utoipa::path(patch, path = "/v1/host/remembrancer/keys/{id}", tag = "administration",
    params(("id" = String, Path), TenantQuery), request_body = KeyChange,
    responses((status = 200, body = KeyInfo), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn change_key(
    api: LocalApi,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
    JsonBody(body): JsonBody<KeyChange>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.change_key(query, &id, body).await?)
}

/// Revokes a key with immediate effect.
#[utoipa::path(delete, path = "/v1/host/remembrancer/keys/{id}", tag = "administration",
    params(("id" = String, Path), TenantQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn revoke_key(
    api: LocalApi,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> HandlerResult {
    api.revoke_key(query, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
