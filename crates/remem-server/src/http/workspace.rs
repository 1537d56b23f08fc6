//! Workspace files, as OpenWOP names them: list, read, write, delete.

use super::extract::{IdempotencyKey, JsonBody, Params, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, fail};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_engine::workspace::{Conditions, File, FileInfo};
use remem_wire::time::Instant;
use remem_wire::workspace::{
    WorkspaceFile, WorkspaceFileInfo, WorkspaceFileList, WorkspaceFilePut, WorkspaceListQuery,
    WorkspaceReadQuery,
};
use remem_wire::{ErrorBody, Problem};

fn whole(file: File) -> WorkspaceFile {
    let File {
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

fn info(file: FileInfo) -> WorkspaceFileInfo {
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

fn answer(file: File) -> Answer {
    let etag = HeaderValue::from_str(&file.etag);
    let mut response = json(StatusCode::OK, &whole(file))?;
    if let Ok(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

fn conditions<'a>(headers: &'a HeaderMap, key: &'a IdempotencyKey) -> Conditions<'a> {
    let if_match = headers
        .get(header::IF_MATCH)
        .map(|value| value.to_str().unwrap_or_default());
    Conditions {
        if_match,
        key: key.0.as_deref(),
    }
}

/// The tenant's files, without their texts.
#[utoipa::path(get, path = "/v1/host/workspace/files", tag = "workspace", params(WorkspaceListQuery),
    responses((status = 200, body = WorkspaceFileList)))]
pub(super) async fn list_files(
    door: EngineDoor,
    Params(query): Params<WorkspaceListQuery>,
) -> Answer {
    let files = door
        .engine
        .files(&door.caller, query.prefix.as_deref().unwrap_or_default())
        .await
        .map_err(fail)?;
    json(
        StatusCode::OK,
        &WorkspaceFileList {
            files: files.into_iter().map(info).collect(),
        },
    )
}

/// One file, at its newest or at a given version.
#[utoipa::path(get, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path, description = "The file; slashes may be percent-encoded"), WorkspaceReadQuery),
    responses((status = 200, body = WorkspaceFile), (status = 404, body = ErrorBody)))]
pub(super) async fn get_file(
    door: EngineDoor,
    Ref(path): Ref,
    Params(query): Params<WorkspaceReadQuery>,
) -> Answer {
    let file = door
        .engine
        .file(&door.caller, &path, query.version)
        .await
        .map_err(fail)?;
    answer(file.ok_or(Problem::NotFound("file"))?)
}

/// Write a file: a new version. With `If-Match` only over the version that it names.
#[utoipa::path(put, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path), ("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    request_body = WorkspaceFilePut,
    responses((status = 200, body = WorkspaceFile), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody)))]
pub(super) async fn put_file(
    door: EngineDoor,
    Ref(path): Ref,
    headers: HeaderMap,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<WorkspaceFilePut>,
) -> Answer {
    let kind = body.content_type.as_deref();
    let conditions = conditions(&headers, &key);
    answer(
        door.engine
            .put_file(&door.caller, &path, &body.content, kind, conditions)
            .await
            .map_err(fail)?,
    )
}

/// Delete a file with all its versions.
#[utoipa::path(delete, path = "/v1/host/workspace/files/{*path}", tag = "workspace",
    params(("path" = String, Path), ("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn delete_file(
    door: EngineDoor,
    Ref(path): Ref,
    headers: HeaderMap,
    key: IdempotencyKey,
) -> Answer {
    if door
        .engine
        .delete_file(&door.caller, &path, conditions(&headers, &key))
        .await
        .map_err(fail)?
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(Problem::NotFound("file").into())
}
