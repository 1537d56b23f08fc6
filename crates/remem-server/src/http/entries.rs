//! Endpoints of the entries of a memory: put, put many, import, get, list and delete.

use super::extract::{IdempotencyKey, JsonBody, PathParam, PathParamPair, QueryParams};
use super::{HandlerResult, json_response, write_response};
use crate::api::{Include, LocalApi, MemoryApi, WriteAnswer};
use axum::http::StatusCode;
use remem_wire::entry::{Deleted, EntryAnswer, EntryBeside};
use remem_wire::memory::{
    EntryList, EntryMetadata, GetQuery, ImportAnswer, ImportRequest, ListQuery, PutMany,
    PutManyAnswer, PutQuery, ReadQuery,
};
use remem_wire::{ErrorBody, PutEntry};

/// Returns the entry alone, or with its metadata and facets where `include` asks for them.
fn entry_answer(beside: EntryBeside, include: Include) -> EntryAnswer {
    let EntryBeside {
        entry,
        metadata,
        facets,
    } = beside;
    if include == Include::default() {
        return EntryAnswer::Plain(entry);
    }
    EntryAnswer::Beside(EntryBeside {
        entry,
        metadata: metadata.filter(|_| include.metadata),
        facets: facets.filter(|_| include.facets),
    })
}

/// Stores one entry in a memory.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path, description = "Name of the memory, one percent-encoded segment"),
           ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition safe"), PutQuery),
    request_body = PutEntry,
    responses((status = 201, body = EntryAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entry(
    api: LocalApi,
    PathParam(r): PathParam,
    key: IdempotencyKey,
    QueryParams(query): QueryParams<PutQuery>,
    JsonBody(body): JsonBody<PutEntry>,
) -> HandlerResult {
    let include = Include::parse(query.include.as_deref())?;
    let WriteAnswer {
        value,
        revision,
        replayed,
    } = api.put(&r, body, key.0.as_deref()).await?;
    write_response(
        StatusCode::CREATED,
        WriteAnswer {
            value: entry_answer(value, include),
            revision,
            replayed,
        },
    )
}

/// Stores several entries in one transaction: all or none.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:batch", tag = "entries",
    params(("memoryRef" = String, Path), ("Idempotency-Key" = Option<String>, Header), PutQuery),
    request_body = PutMany,
    responses((status = 201, body = PutManyAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entries(
    api: LocalApi,
    PathParam(r): PathParam,
    key: IdempotencyKey,
    QueryParams(query): QueryParams<PutQuery>,
    JsonBody(body): JsonBody<PutMany>,
) -> HandlerResult {
    let include = Include::parse(query.include.as_deref())?;
    let mut stored = api.put_many(&r, body, key.0.as_deref()).await?;
    stored.value.metadata.retain(|_, _| include.metadata);
    stored.value.facets.retain(|_, _| include.facets);
    write_response(StatusCode::CREATED, stored)
}

/// Stores entries under the ids that they had elsewhere. An id that is or was ever in use is
/// skipped.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:import", tag = "entries",
    params(("memoryRef" = String, Path)), request_body = ImportRequest,
    responses((status = 200, body = ImportAnswer), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn import_entries(
    api: LocalApi,
    PathParam(r): PathParam,
    JsonBody(body): JsonBody<ImportRequest>,
) -> HandlerResult {
    write_response(StatusCode::OK, api.import(&r, body).await?)
}

/// Lists the entries of a memory, newest first, or those that fit a budget of tokens.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path), ListQuery), responses((status = 200, body = EntryList)))]
pub(super) async fn list_entries(
    api: LocalApi,
    PathParam(r): PathParam,
    QueryParams(query): QueryParams<ListQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.list(&r, query).await?)
}

/// Returns one entry of a memory.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), GetQuery),
    responses((status = 200, body = EntryAnswer), (status = 404, body = ErrorBody)))]
pub(super) async fn get_entry(
    api: LocalApi,
    PathParamPair(r, id): PathParamPair,
    QueryParams(query): QueryParams<GetQuery>,
) -> HandlerResult {
    let include = Include::parse(query.include.as_deref())?;
    json_response(
        StatusCode::OK,
        &entry_answer(api.get(&r, &id, query).await?, include),
    )
}

/// Returns the metadata of one entry.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/metadata", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ReadQuery),
    responses((status = 200, body = EntryMetadata), (status = 404, body = ErrorBody)))]
pub(super) async fn get_metadata(
    api: LocalApi,
    PathParamPair(r, id): PathParamPair,
    QueryParams(query): QueryParams<ReadQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.metadata(&r, &id, query).await?)
}

/// Deletes an entry: its text is erased, and its id is never used again. The text is held instead
/// if an action rests on it, and then the answer has a body that says so.
#[utoipa::path(delete, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204, description = "Gone, its text erased"),
              (status = 200, body = Deleted, description = "Gone, its text held: an action rests on it"),
              (status = 404, body = ErrorBody)))]
pub(super) async fn delete_entry(
    api: LocalApi,
    PathParamPair(r, id): PathParamPair,
    key: IdempotencyKey,
) -> HandlerResult {
    let deleted = api.delete(&r, &id, key.0.as_deref()).await?;
    let status = if deleted.value.held {
        StatusCode::OK
    } else {
        StatusCode::NO_CONTENT
    };
    write_response(status, deleted)
}
