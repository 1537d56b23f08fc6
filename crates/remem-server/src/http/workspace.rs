//! Endpoints of workspace files, as OpenWOP defines them: list, read, write and delete.

use super::extract::{IdempotencyKey, JsonBody, PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, engine_failure};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_engine::workspace::{FileInfo, FileView, WriteConditions};
use remem_wire::time::Instant;
use remem_wire::workspace::{
    WorkspaceFile, WorkspaceFileInfo, WorkspaceFileList, WorkspaceFilePut, WorkspaceListQuery,
    WorkspaceReadQuery,
};
use remem_wire::{ErrorBody, Problem};

fn file_doc(file: FileView) -> WorkspaceFile {
    let FileView {
        path,
        content,
        content_type,
        version,
        etag,
        updated_at,
    } = file;
    WorkspaceFile {
        path,
        content,
        content_type,
        version,
        etag,
        updated_at: Instant(updated_at),
    }
}

fn file_info(file: FileInfo) -> WorkspaceFileInfo {
    let FileInfo {
        path,
        content_type,
        version,
        etag,
        updated_at,
    } = file;
    WorkspaceFileInfo {
        path,
        content_type,
        version,
        etag,
        updated_at: Instant(updated_at),
    }
}

/// Renders a file with its `ETag` header.
fn file_response(file: FileView) -> HandlerResult {
    let etag = HeaderValue::from_str(&file.etag);
    let mut response = json_response(StatusCode::OK, &file_doc(file))?;
    if let Ok(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

fn conditions<'a>(headers: &'a HeaderMap, key: &'a IdempotencyKey) -> WriteConditions<'a> {
    let if_match = headers
        .get(header::IF_MATCH)
        .map(|value| value.to_str().unwrap_or_default());
    WriteConditions {
        if_match,
        key: key.0.as_deref(),
    }
}

/// Lists the tenant's files, without their texts.
#[utoipa::path(get, path = "/v1/host/workspace/files", tag = "workspace", params(WorkspaceListQuery),
    responses((status = 200, body = WorkspaceFileList)))]
pub(super) async fn list_files(
    api: LocalApi,
    QueryParams(query): QueryParams<WorkspaceListQuery>,
) -> HandlerResult {
    let files = api
        .engine
        .list_files(&api.caller, query.prefix.as_deref().unwrap_or_default())
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &WorkspaceFileList {
            files: files.into_iter().map(file_info).collect(),
        },
    )
}

/// Returns one file, at its newest version or at a given one.
#[utoipa::path(get, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path, description = "The file; slashes may be percent-encoded"), WorkspaceReadQuery),
    responses((status = 200, body = WorkspaceFile), (status = 404, body = ErrorBody)))]
pub(super) async fn get_file(
    api: LocalApi,
    PathParam(path): PathParam,
    QueryParams(query): QueryParams<WorkspaceReadQuery>,
) -> HandlerResult {
    let file = api
        .engine
        .get_file(&api.caller, &path, query.version)
        .await
        .map_err(engine_failure)?;
    file_response(file.ok_or(Problem::NotFound("file"))?)
}

/// Writes a new version of a file. With `If-Match`, only over the version that it names.
#[utoipa::path(put, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path), ("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    request_body = WorkspaceFilePut,
    responses((status = 200, body = WorkspaceFile), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody)))]
pub(super) async fn put_file(
    api: LocalApi,
    PathParam(path): PathParam,
    headers: HeaderMap,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<WorkspaceFilePut>,
) -> HandlerResult {
    let kind = body.content_type.as_deref();
    let conditions = conditions(&headers, &key);
    file_response(
        api.engine
            .put_file(&api.caller, &path, &body.content, kind, conditions)
            .await
            .map_err(engine_failure)?,
    )
}

/// Deletes a file with all its versions.
#[utoipa::path(delete, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path), ("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn delete_file(
    api: LocalApi,
    PathParam(path): PathParam,
    headers: HeaderMap,
    key: IdempotencyKey,
) -> HandlerResult {
    if api
        .engine
        .delete_file(&api.caller, &path, conditions(&headers, &key))
        .await
        .map_err(engine_failure)?
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(Problem::NotFound("file").into())
}
