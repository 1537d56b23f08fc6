//! Secrets of the vault: set, rotate, list, delete. No answer carries a value.

use super::extract::{JsonBody, Params, Ref};
use super::{Answer, json};
use crate::door::{Door, EngineDoor};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::secrets::{SecretInfo, SecretList, SecretPut, SecretScopeQuery, SecretsQuery};

/// Put a secret into the vault. From now on no text of the tenant keeps its value.
#[utoipa::path(put, path = "/v1/host/remembrancer/secrets/{name}", tag = "secrets", params(("name" = String, Path)),
    request_body = SecretPut, responses((status = 201, body = SecretInfo), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn set_secret(
    door: EngineDoor,
    Ref(name): Ref,
    JsonBody(body): JsonBody<SecretPut>,
) -> Answer {
    json(StatusCode::CREATED, &door.set_secret(&name, body).await?)
}

/// Give a secret another value. Its earlier ones are kept out of memory as well.
#[utoipa::path(post, path = "/v1/host/remembrancer/secrets/{name}/rotate", tag = "secrets", params(("name" = String, Path)),
    request_body = SecretPut, responses((status = 200, body = SecretInfo), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn rotate_secret(
    door: EngineDoor,
    Ref(name): Ref,
    JsonBody(body): JsonBody<SecretPut>,
) -> Answer {
    json(StatusCode::OK, &door.rotate_secret(&name, body).await?)
}

/// The names in the vault: the tenant's, and the caller's own.
#[utoipa::path(get, path = "/v1/host/remembrancer/secrets", tag = "secrets", params(SecretsQuery),
    responses((status = 200, body = SecretList), (status = 422, body = ErrorBody)))]
pub(super) async fn list_secrets(door: EngineDoor, Params(query): Params<SecretsQuery>) -> Answer {
    json(StatusCode::OK, &door.secrets(query).await?)
}

/// Take a secret out of the vault, with all its values.
#[utoipa::path(delete, path = "/v1/host/remembrancer/secrets/{name}", tag = "secrets",
    params(("name" = String, Path), SecretScopeQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_secret(
    door: EngineDoor,
    Ref(name): Ref,
    Params(query): Params<SecretScopeQuery>,
) -> Answer {
    door.delete_secret(&name, query).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
