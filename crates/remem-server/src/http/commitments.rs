//! Endpoints of commitments: list, get, explain, create, confirm, cancel, snooze, observations, and
//! the rules by which promises are recognised.

use super::extract::{IdempotencyKey, JsonBody, PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{CommitmentApi, LocalApi};
use axum::http::{HeaderValue, StatusCode};
use remem_wire::ErrorBody;
use remem_wire::commitment::{
    CommitmentCreate, CommitmentDoc, CommitmentList, CommitmentRulesDoc, CommitmentRulesPut,
    CommitmentSnooze, CommitmentWhy, CommitmentsQuery, FireList, FiresQuery, Observation,
    ObservationAnswer,
};

/// Lists the commitments of the caller's tenant with their texts, the one that happens next first.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments", tag = "commitments", params(CommitmentsQuery),
    responses((status = 200, body = CommitmentList)))]
pub(super) async fn list_commitments(
    api: LocalApi,
    QueryParams(query): QueryParams<CommitmentsQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.commitments(query).await?)
}

/// Returns one commitment by its id.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_commitment(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.commitment(&id).await?)
}

/// Explains which words of which entry led to a commitment.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}/explain", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentWhy), (status = 404, body = ErrorBody)))]
pub(super) async fn explain_commitment(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.explain_commitment(&id).await?)
}

/// Lists the times at which a commitment fired and the runs that it started, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}/fires", tag = "commitments",
    params(("commitmentId" = String, Path), FiresQuery),
    responses((status = 200, body = FireList), (status = 404, body = ErrorBody)))]
pub(super) async fn list_fires(
    api: LocalApi,
    PathParam(id): PathParam,
    QueryParams(query): QueryParams<FiresQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.commitment_fires(&id, query).await?)
}

/// Creates a commitment: its text becomes an entry of the memory. Answers 200 if the same
/// commitment exists already.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/commitments", tag = "commitments",
    params(("memoryRef" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = CommitmentCreate,
    responses((status = 201, body = CommitmentDoc), (status = 200, body = CommitmentDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn create_commitment(
    api: LocalApi,
    PathParam(r): PathParam,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<CommitmentCreate>,
) -> HandlerResult {
    let created = api.create_commitment(&r, body, key.0.as_deref()).await?;
    let mut response = json_response(
        if created.replayed {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        },
        &created.commitment,
    )?;
    if created.replayed {
        response
            .headers_mut()
            .insert(remem_wire::REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Confirms a commitment: one that waits to be confirmed becomes armed.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/confirm", tag = "commitments",
    params(("commitmentId" = String, Path)),
    responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn confirm_commitment(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.confirm_commitment(&id).await?)
}

/// Cancels a commitment: it never fires again.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/cancel", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_commitment(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.cancel_commitment(&id).await?)
}

/// Postpones a commitment; one that waits to be confirmed becomes armed.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/snooze", tag = "commitments",
    params(("commitmentId" = String, Path)), request_body = CommitmentSnooze,
    responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn snooze_commitment(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(body): JsonBody<CommitmentSnooze>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.snooze_commitment(&id, body).await?)
}

/// Reports an observation to the commitments of a memory that wait for it. Reporting the same twice
/// does nothing more.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/observations", tag = "commitments",
    params(("memoryRef" = String, Path)), request_body = Observation, responses((status = 200, body = ObservationAnswer)))]
pub(super) async fn observe(
    api: LocalApi,
    PathParam(r): PathParam,
    JsonBody(body): JsonBody<Observation>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.observe(&r, body).await?)
}

/// Returns the rules by which promises are recognised in memories that have no rules of their own.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitment-rules", tag = "commitments",
    responses((status = 200, body = CommitmentRulesDoc)))]
pub(super) async fn get_rules(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.commitment_rules(None).await?)
}

/// Sets the rules by which promises are recognised in memories that have no rules of their own.
#[utoipa::path(put, path = "/v1/host/remembrancer/commitment-rules", tag = "commitments", request_body = CommitmentRulesPut,
    responses((status = 200, body = CommitmentRulesDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_rules(
    api: LocalApi,
    JsonBody(body): JsonBody<CommitmentRulesPut>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.put_commitment_rules(None, body).await?)
}

/// Returns the rules by which promises are recognised in a memory: its own, or the tenant's.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/commitment-rules", tag = "commitments",
    params(("memoryRef" = String, Path)), responses((status = 200, body = CommitmentRulesDoc)))]
pub(super) async fn get_memory_rules(api: LocalApi, PathParam(r): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.commitment_rules(Some(&r)).await?)
}

/// Sets the rules by which promises are recognised in a memory.
#[utoipa::path(put, path = "/v1/host/remembrancer/memory/{memoryRef}/commitment-rules", tag = "commitments",
    params(("memoryRef" = String, Path)), request_body = CommitmentRulesPut,
    responses((status = 200, body = CommitmentRulesDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_memory_rules(
    api: LocalApi,
    PathParam(r): PathParam,
    JsonBody(body): JsonBody<CommitmentRulesPut>,
) -> HandlerResult {
    json_response(
        StatusCode::OK,
        &api.put_commitment_rules(Some(&r), body).await?,
    )
}
