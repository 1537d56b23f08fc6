//! Endpoints of the vault's secrets: set, rotate, list and delete. No answer holds a value.

use super::extract::{JsonBody, PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::secrets::{SecretInfo, SecretList, SecretPut, SecretScopeQuery, SecretsQuery};

/// Stores a new secret in the vault. From now on its value is redacted from every text of the
/// tenant.
#[utoipa::path(put, path = "/v1/host/remembrancer/secrets/{name}", tag = "secrets", params(("name" = String, Path)),
    request_body = SecretPut, responses((status = 201, body = SecretInfo), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn set_secret(
    api: LocalApi,
    PathParam(name): PathParam,
    JsonBody(body): JsonBody<SecretPut>,
) -> HandlerResult {
    json_response(StatusCode::CREATED, &api.set_secret(&name, body).await?)
}

/// Gives a secret a new value. Its earlier values are still redacted from texts.
#[utoipa::path(post, path = "/v1/host/remembrancer/secrets/{name}/rotate", tag = "secrets", params(("name" = String, Path)),
    request_body = SecretPut, responses((status = 200, body = SecretInfo), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn rotate_secret(
    api: LocalApi,
    PathParam(name): PathParam,
    JsonBody(body): JsonBody<SecretPut>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.rotate_secret(&name, body).await?)
}

/// Lists the names in the vault: the tenant's secrets and the caller's own.
#[utoipa::path(get, path = "/v1/host/remembrancer/secrets", tag = "secrets", params(SecretsQuery),
    responses((status = 200, body = SecretList), (status = 422, body = ErrorBody)))]
pub(super) async fn list_secrets(
    api: LocalApi,
    QueryParams(query): QueryParams<SecretsQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.secrets(query).await?)
}

/// Deletes a secret from the vault with all its values.
#[utoipa::path(delete, path = "/v1/host/remembrancer/secrets/{name}", tag = "secrets",
    params(("name" = String, Path), SecretScopeQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_secret(
    api: LocalApi,
    PathParam(name): PathParam,
    QueryParams(query): QueryParams<SecretScopeQuery>,
) -> HandlerResult {
    api.delete_secret(&name, query).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
