//! Forgetting and where entries come from: forget, reports, lineage, archives, and taking back what
//! a model wrote.

use super::extract::{JsonBody, Params, Ref, RefAndId};
use super::{Answer, json, no_store};
use crate::door::{EngineDoor, ForgetDoor, fail};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::forget::{
    ArchiveList, EntryLineage, ErasureList, ErasuresQuery, ForgetAnswer, ForgetRequest, Undone,
};

/// Forget whom or what entries are about: they, everything made from them, and the archives of it
/// are erased for good.
#[utoipa::path(post, path = "/v1/host/remembrancer/forget", tag = "forget", request_body = ForgetRequest,
    responses((status = 200, body = ForgetAnswer), (status = 422, body = ErrorBody)))]
pub(super) async fn forget(door: EngineDoor, JsonBody(body): JsonBody<ForgetRequest>) -> Answer {
    json(StatusCode::OK, &door.forget(body).await?)
}

/// The reports of what was forgotten, oldest first, and the key to check them with.
#[utoipa::path(get, path = "/v1/host/remembrancer/erasures", tag = "forget", params(ErasuresQuery),
    responses((status = 200, body = ErasureList)))]
pub(super) async fn list_erasures(
    door: EngineDoor,
    Params(query): Params<ErasuresQuery>,
) -> Answer {
    json(StatusCode::OK, &door.erasures(query).await?)
}

/// One report, signed.
#[utoipa::path(get, path = "/v1/host/remembrancer/erasures/{id}", tag = "forget", params(("id" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(super) async fn get_erasure(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.erasure(&id).await?)
}

/// What an entry was made from and what was made from it, one step each way; also of one that is
/// gone.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/lineage", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = EntryLineage), (status = 404, body = ErrorBody)))]
pub(super) async fn get_lineage(door: EngineDoor, RefAndId(r, id): RefAndId) -> Answer {
    json(StatusCode::OK, &door.lineage(&r, &id).await?)
}

/// The archives that distillations of a memory left, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/archives", tag = "memory",
    params(("memoryRef" = String, Path)), responses((status = 200, body = ArchiveList)))]
pub(super) async fn list_archives(door: EngineDoor, Ref(r): Ref) -> Answer {
    json(StatusCode::OK, &door.archives(&r).await?)
}

/// An archive, byte for byte as it was written.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/archives/{sha256}", tag = "memory",
    params(("memoryRef" = String, Path), ("sha256" = String, Path, description = "The digest of its bytes, hexadecimal")),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 410, body = ErrorBody)))]
pub(super) async fn get_archive(door: EngineDoor, RefAndId(r, sha256): RefAndId) -> Answer {
    let bytes = door.archive(&r, &sha256).await?;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{sha256}\"")) {
        headers.insert(header::ETAG, etag);
    }
    no_store(headers);
    Ok(response)
}

/// Take back what a model wrote: the entry gets the deterministic text of its archive, under a new
/// id.
#[utoipa::path(post, path = "/v1/host/remembrancer/model-calls/{id}/undo", tag = "forget", params(("id" = String, Path)),
    responses((status = 200, body = Undone), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn undo_rewrite(door: EngineDoor, Ref(id): Ref) -> Answer {
    let entry = door
        .engine
        .undo_rewrite(&door.caller, &id)
        .await
        .map_err(fail)?;
    json(
        StatusCode::OK,
        &Undone {
            entry_id: entry.as_str().to_owned(),
        },
    )
}
