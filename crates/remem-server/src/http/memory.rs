//! Endpoints of a memory as a whole: search, recall, counts, and the list of a tenant's memories.

use super::extract::{JsonBody, PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi, RecallApi};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::memory::{
    MemoriesQuery, MemoryList, MemoryStats, ReadQuery, SearchAnswer, SearchRequest,
};
use remem_wire::recall::{RecallAnswer, RecallRequest};

/// Finds the entries that answer a query by their words and their meaning, best first.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/search", tag = "memory",
    params(("memoryRef" = String, Path)), request_body = SearchRequest,
    responses((status = 200, body = SearchAnswer), (status = 422, body = ErrorBody)))]
pub(super) async fn search(
    api: LocalApi,
    PathParam(r): PathParam,
    JsonBody(body): JsonBody<SearchRequest>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.search(&r, body).await?)
}

/// Returns what a model should know before it answers a question, as one text within a budget of
/// tokens.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/recall", tag = "memory",
    params(("memoryRef" = String, Path)), request_body = RecallRequest,
    responses((status = 200, body = RecallAnswer), (status = 422, body = ErrorBody)))]
pub(super) async fn recall(
    api: LocalApi,
    PathParam(r): PathParam,
    JsonBody(body): JsonBody<RecallRequest>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.recall(&r, body).await?)
}

/// Counts the entries and bytes of a memory.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/stats", tag = "memory",
    params(("memoryRef" = String, Path), ReadQuery), responses((status = 200, body = MemoryStats)))]
pub(super) async fn stats(
    api: LocalApi,
    PathParam(r): PathParam,
    QueryParams(query): QueryParams<ReadQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.stats(&r, query).await?)
}

/// Lists the tenant's memories by name.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory", tag = "memory",
    params(MemoriesQuery), responses((status = 200, body = MemoryList)))]
pub(super) async fn list_memories(
    api: LocalApi,
    QueryParams(query): QueryParams<MemoriesQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.memories(query).await?)
}
