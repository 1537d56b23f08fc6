//! Entries of a memory: put, put many, import, get, list, delete.

use super::extract::{IdempotencyKey, JsonBody, Params, Ref, RefAndId};
use super::{Answer, json, written};
use crate::door::{Door, EngineDoor};
use axum::http::StatusCode;
use remem_wire::memory::{EntryList, EntryMetadata, ImportAnswer, ImportRequest, ListQuery, PutMany, PutManyAnswer, ReadQuery};
use remem_wire::{ErrorBody, MemoryEntry, PutEntry};

/// Remember something.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path, description = "Name of the memory, one percent-encoded segment"),
           ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition safe")),
    request_body = PutEntry,
    responses((status = 201, body = MemoryEntry), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entry(door: EngineDoor, Ref(r): Ref, key: IdempotencyKey, JsonBody(body): JsonBody<PutEntry>) -> Answer {
    written(StatusCode::CREATED, door.put(&r, body, key.0.as_deref()).await?)
}

/// Remember several things in one transaction: all or none.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:batch", tag = "entries",
    params(("memoryRef" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    request_body = PutMany,
    responses((status = 201, body = PutManyAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entries(door: EngineDoor, Ref(r): Ref, key: IdempotencyKey, JsonBody(body): JsonBody<PutMany>) -> Answer {
    written(StatusCode::CREATED, door.put_many(&r, body, key.0.as_deref()).await?)
}

/// Store entries that keep the identity they had elsewhere; ids that are or were ever taken are skipped.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:import", tag = "entries",
    params(("memoryRef" = String, Path)), request_body = ImportRequest,
    responses((status = 200, body = ImportAnswer), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn import_entries(door: EngineDoor, Ref(r): Ref, JsonBody(body): JsonBody<ImportRequest>) -> Answer {
    written(StatusCode::OK, door.import(&r, body).await?)
}

/// Entries of a memory, newest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path), ListQuery), responses((status = 200, body = EntryList)))]
pub(super) async fn list_entries(door: EngineDoor, Ref(r): Ref, Params(query): Params<ListQuery>) -> Answer {
    json(StatusCode::OK, &door.list(&r, query).await?)
}

/// One entry.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ReadQuery),
    responses((status = 200, body = MemoryEntry), (status = 404, body = ErrorBody)))]
pub(super) async fn get_entry(door: EngineDoor, RefAndId(r, id): RefAndId, Params(query): Params<ReadQuery>) -> Answer {
    json(StatusCode::OK, &door.get(&r, &id, query).await?)
}

/// The metadata of one entry.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/metadata", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ReadQuery),
    responses((status = 200, body = EntryMetadata), (status = 404, body = ErrorBody)))]
pub(super) async fn get_metadata(door: EngineDoor, RefAndId(r, id): RefAndId, Params(query): Params<ReadQuery>) -> Answer {
    json(StatusCode::OK, &door.metadata(&r, &id, query).await?)
}

/// Take an entry away; its text is erased, its id stays taken.
#[utoipa::path(delete, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_entry(door: EngineDoor, RefAndId(r, id): RefAndId, key: IdempotencyKey) -> Answer {
    written(StatusCode::NO_CONTENT, door.delete(&r, &id, key.0.as_deref()).await?)
}
