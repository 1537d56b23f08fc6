//! Entries of a memory: put, put many, import, get, list, delete.

use super::extract::{IdempotencyKey, JsonBody, Params, Ref, RefAndId};
use super::{Answer, json, written};
use crate::door::{Door, EngineDoor, Include, Written};
use axum::http::StatusCode;
use remem_wire::entry::{Deleted, EntryAnswer, EntryBeside};
use remem_wire::memory::{
    EntryList, EntryMetadata, GetQuery, ImportAnswer, ImportRequest, ListQuery, PutMany,
    PutManyAnswer, PutQuery, ReadQuery,
};
use remem_wire::{ErrorBody, PutEntry};

/// The entry alone, unless something is wanted beside it.
fn answer(beside: EntryBeside, include: Include) -> EntryAnswer {
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

/// Remember something.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path, description = "Name of the memory, one percent-encoded segment"),
           ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition safe"), PutQuery),
    request_body = PutEntry,
    responses((status = 201, body = EntryAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entry(
    door: EngineDoor,
    Ref(r): Ref,
    key: IdempotencyKey,
    Params(query): Params<PutQuery>,
    JsonBody(body): JsonBody<PutEntry>,
) -> Answer {
    let include = Include::parse(query.include.as_deref())?;
    let Written {
        value,
        revision,
        replayed,
    } = door.put(&r, body, key.0.as_deref()).await?;
    written(
        StatusCode::CREATED,
        Written {
            value: answer(value, include),
            revision,
            replayed,
        },
    )
}

/// Remember several things in one transaction: all or none.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:batch", tag = "entries",
    params(("memoryRef" = String, Path), ("Idempotency-Key" = Option<String>, Header), PutQuery),
    request_body = PutMany,
    responses((status = 201, body = PutManyAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn put_entries(
    door: EngineDoor,
    Ref(r): Ref,
    key: IdempotencyKey,
    Params(query): Params<PutQuery>,
    JsonBody(body): JsonBody<PutMany>,
) -> Answer {
    let include = Include::parse(query.include.as_deref())?;
    let mut stored = door.put_many(&r, body, key.0.as_deref()).await?;
    stored.value.metadata.retain(|_, _| include.metadata);
    stored.value.facets.retain(|_, _| include.facets);
    written(StatusCode::CREATED, stored)
}

/// Store entries that keep the identity they had elsewhere; ids that are or were ever taken are
/// skipped.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries:import", tag = "entries",
    params(("memoryRef" = String, Path)), request_body = ImportRequest,
    responses((status = 200, body = ImportAnswer), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn import_entries(
    door: EngineDoor,
    Ref(r): Ref,
    JsonBody(body): JsonBody<ImportRequest>,
) -> Answer {
    written(StatusCode::OK, door.import(&r, body).await?)
}

/// Entries of a memory, newest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries", tag = "entries",
    params(("memoryRef" = String, Path), ListQuery), responses((status = 200, body = EntryList)))]
pub(super) async fn list_entries(
    door: EngineDoor,
    Ref(r): Ref,
    Params(query): Params<ListQuery>,
) -> Answer {
    json(StatusCode::OK, &door.list(&r, query).await?)
}

/// One entry.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), GetQuery),
    responses((status = 200, body = EntryAnswer), (status = 404, body = ErrorBody)))]
pub(super) async fn get_entry(
    door: EngineDoor,
    RefAndId(r, id): RefAndId,
    Params(query): Params<GetQuery>,
) -> Answer {
    let include = Include::parse(query.include.as_deref())?;
    json(
        StatusCode::OK,
        &answer(door.get(&r, &id, query).await?, include),
    )
}

/// The metadata of one entry.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/metadata", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ReadQuery),
    responses((status = 200, body = EntryMetadata), (status = 404, body = ErrorBody)))]
pub(super) async fn get_metadata(
    door: EngineDoor,
    RefAndId(r, id): RefAndId,
    Params(query): Params<ReadQuery>,
) -> Answer {
    json(StatusCode::OK, &door.metadata(&r, &id, query).await?)
}

/// Take an entry away; its text is erased, its id stays taken. A text that an action rests on is
/// held, and then the answer has a body that says so.
#[utoipa::path(delete, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 204, description = "Gone, its text erased"),
              (status = 200, body = Deleted, description = "Gone, its text held: an action rests on it"),
              (status = 404, body = ErrorBody)))]
pub(super) async fn delete_entry(
    door: EngineDoor,
    RefAndId(r, id): RefAndId,
    key: IdempotencyKey,
) -> Answer {
    let deleted = door.delete(&r, &id, key.0.as_deref()).await?;
    let status = if deleted.value.held {
        StatusCode::OK
    } else {
        StatusCode::NO_CONTENT
    };
    written(status, deleted)
}
