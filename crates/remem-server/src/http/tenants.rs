//! Endpoints of tenants, for holders of host:admin: create or change, and list.

use super::extract::JsonBody;
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::admin::{TenantInfo, TenantList, TenantPut};

/// Creates a tenant or changes its settings.
#[utoipa::path(post, path = "/v1/host/remembrancer/tenants", tag = "administration", request_body = TenantPut,
    responses((status = 200, body = TenantInfo), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_tenant(
    api: LocalApi,
    JsonBody(body): JsonBody<TenantPut>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.put_tenant(body).await?)
}

/// Lists all tenants by name.
#[utoipa::path(get, path = "/v1/host/remembrancer/tenants", tag = "administration",
    responses((status = 200, body = TenantList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_tenants(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.tenants().await?)
}
