//! Endpoints of forgetting and provenance: forget, erasure reports, lineage, archives, and undoing
//! what a model wrote.

use super::extract::{JsonBody, PathParam, PathParamPair, QueryParams};
use super::passes::accepted;
use super::{HandlerResult, json_response, no_store};
use crate::api::{ForgetApi, LocalApi, engine_failure};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_wire::forget::{
    ArchiveList, EntryLineage, ErasureList, ErasuresQuery, ForgetAnswer, ForgetAnswered,
    ForgetRequest, Undone,
};
use remem_wire::pass::JobDoc;
use remem_wire::{ErrorBody, Problem, number};

/// Forgets a subject: the entries about it, everything made from them, and the archives of both are
/// erased for good. What is not done within five seconds goes on as a job, which the answer names; a
/// repeated request waits for the same job.
#[utoipa::path(post, path = "/v1/host/remembrancer/forget", tag = "forget", request_body = ForgetRequest,
    responses((status = 200, body = ForgetAnswer), (status = 202, body = JobDoc), (status = 409, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
pub(super) async fn forget(
    api: LocalApi,
    JsonBody(body): JsonBody<ForgetRequest>,
) -> HandlerResult {
    match api.forget(body).await? {
        ForgetAnswered::Done(answer) => json_response(StatusCode::OK, &answer),
        ForgetAnswered::Started(job) => accepted(&job),
    }
}

/// Lists the erasure reports, oldest first, and the public key that verifies them.
#[utoipa::path(get, path = "/v1/host/remembrancer/erasures", tag = "forget", params(ErasuresQuery),
    responses((status = 200, body = ErasureList)))]
pub(super) async fn list_erasures(
    api: LocalApi,
    QueryParams(query): QueryParams<ErasuresQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.erasures(query).await?)
}

/// Returns one erasure report with its signature.
#[utoipa::path(get, path = "/v1/host/remembrancer/erasures/{id}", tag = "forget", params(("id" = String, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(super) async fn get_erasure(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.erasure(&id).await?)
}

/// Returns one page of an erasure report that names what was erased on pages, counted from 1.
#[utoipa::path(get, path = "/v1/host/remembrancer/erasures/{id}/pages/{number}", tag = "forget",
    params(("id" = String, Path), ("number" = u64, Path)),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody)))]
pub(super) async fn get_erasure_page(
    api: LocalApi,
    PathParamPair(id, number): PathParamPair,
) -> HandlerResult {
    let number = number::parse(&number).ok_or_else(|| Problem::MalformedPath {
        hint: format!("number must be a whole number up to {}", number::MAX),
    })?;
    // A number that no list can have names no page.
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    json_response(StatusCode::OK, &api.erasure_page(&id, number).await?)
}

/// Returns the entries that an entry was made from and those that were made from it, one step each
/// way. An entry that is gone has a lineage, too.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/lineage", tag = "entries",
    params(("memoryRef" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = EntryLineage), (status = 404, body = ErrorBody)))]
pub(super) async fn get_lineage(
    api: LocalApi,
    PathParamPair(r, id): PathParamPair,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.lineage(&r, &id).await?)
}

/// Lists the archives that distillations of a memory wrote, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/archives", tag = "memory",
    params(("memoryRef" = String, Path)), responses((status = 200, body = ArchiveList)))]
pub(super) async fn list_archives(api: LocalApi, PathParam(r): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.archives(&r).await?)
}

/// Returns an archive, byte for byte as it was written.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/archives/{sha256}", tag = "memory",
    params(("memoryRef" = String, Path), ("sha256" = String, Path, description = "The digest of its bytes, hexadecimal")),
    responses((status = 200, body = Object), (status = 404, body = ErrorBody), (status = 410, body = ErrorBody)))]
pub(super) async fn get_archive(
    api: LocalApi,
    PathParamPair(r, sha256): PathParamPair,
) -> HandlerResult {
    let bytes = api.archive(&r, &sha256).await?;
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

/// Undoes a text that a model wrote: the entry is replaced, under a new id, by the deterministic
/// text of its archive.
#[utoipa::path(post, path = "/v1/host/remembrancer/model-calls/{id}/undo", tag = "forget", params(("id" = String, Path)),
    responses((status = 200, body = Undone), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn undo_rewrite(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    let entry = api
        .engine
        .undo_rewrite(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &Undone {
            entry_id: entry.as_str().to_owned(),
        },
    )
}
