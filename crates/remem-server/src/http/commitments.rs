//! Commitments: look, make, confirm, cancel, snooze, tell what was observed, and how promises are
//! read.

use super::extract::{IdempotencyKey, JsonBody, Params, Ref};
use super::{Answer, json};
use crate::door::{CommitmentDoor, EngineDoor};
use axum::http::{HeaderValue, StatusCode};
use remem_wire::ErrorBody;
use remem_wire::commitment::{
    CommitmentCreate, CommitmentDoc, CommitmentList, CommitmentRulesDoc, CommitmentRulesPut,
    CommitmentSnooze, CommitmentWhy, CommitmentsQuery, FireList, FiresQuery, Observation,
    ObservationAnswer,
};

/// The commitments of the caller's tenant, in the order of what happens next, with what was meant.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments", tag = "commitments", params(CommitmentsQuery),
    responses((status = 200, body = CommitmentList)))]
pub(super) async fn list_commitments(
    door: EngineDoor,
    Params(query): Params<CommitmentsQuery>,
) -> Answer {
    json(StatusCode::OK, &door.commitments(query).await?)
}

/// One commitment.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_commitment(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.commitment(&id).await?)
}

/// Which words of which entry led to a commitment.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}/explain", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentWhy), (status = 404, body = ErrorBody)))]
pub(super) async fn explain_commitment(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.explain_commitment(&id).await?)
}

/// When a commitment fired, and which runs came of it, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitments/{commitmentId}/fires", tag = "commitments",
    params(("commitmentId" = String, Path), FiresQuery),
    responses((status = 200, body = FireList), (status = 404, body = ErrorBody)))]
pub(super) async fn list_fires(
    door: EngineDoor,
    Ref(id): Ref,
    Params(query): Params<FiresQuery>,
) -> Answer {
    json(StatusCode::OK, &door.commitment_fires(&id, query).await?)
}

/// Make a commitment: its text becomes an entry of the memory. 200 if there is such a one already.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/commitments", tag = "commitments",
    params(("memoryRef" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = CommitmentCreate,
    responses((status = 201, body = CommitmentDoc), (status = 200, body = CommitmentDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn create_commitment(
    door: EngineDoor,
    Ref(r): Ref,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<CommitmentCreate>,
) -> Answer {
    let made = door.create_commitment(&r, body, key.0.as_deref()).await?;
    let mut response = json(
        if made.replayed {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        },
        &made.commitment,
    )?;
    if made.replayed {
        response
            .headers_mut()
            .insert(remem_wire::REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Say that a commitment is meant: one that waits to be confirmed becomes armed.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/confirm", tag = "commitments",
    params(("commitmentId" = String, Path)),
    responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn confirm_commitment(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.confirm_commitment(&id).await?)
}

/// Take a commitment back: it never fires again.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/cancel", tag = "commitments",
    params(("commitmentId" = String, Path)), responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_commitment(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.cancel_commitment(&id).await?)
}

/// Put a commitment off; one that waits to be confirmed becomes armed.
#[utoipa::path(post, path = "/v1/host/remembrancer/commitments/{commitmentId}/snooze", tag = "commitments",
    params(("commitmentId" = String, Path)), request_body = CommitmentSnooze,
    responses((status = 200, body = CommitmentDoc), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn snooze_commitment(
    door: EngineDoor,
    Ref(id): Ref,
    JsonBody(body): JsonBody<CommitmentSnooze>,
) -> Answer {
    json(StatusCode::OK, &door.snooze_commitment(&id, body).await?)
}

/// Tell what was seen to the commitments of a memory that wait for it. Telling the same twice does
/// nothing more.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/observations", tag = "commitments",
    params(("memoryRef" = String, Path)), request_body = Observation, responses((status = 200, body = ObservationAnswer)))]
pub(super) async fn observe(
    door: EngineDoor,
    Ref(r): Ref,
    JsonBody(body): JsonBody<Observation>,
) -> Answer {
    json(StatusCode::OK, &door.observe(&r, body).await?)
}

/// How promises are read out of memories that have no rules of their own.
#[utoipa::path(get, path = "/v1/host/remembrancer/commitment-rules", tag = "commitments",
    responses((status = 200, body = CommitmentRulesDoc)))]
pub(super) async fn get_rules(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.commitment_rules(None).await?)
}

/// Set how promises are read out of memories that have no rules of their own.
#[utoipa::path(put, path = "/v1/host/remembrancer/commitment-rules", tag = "commitments", request_body = CommitmentRulesPut,
    responses((status = 200, body = CommitmentRulesDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_rules(
    door: EngineDoor,
    JsonBody(body): JsonBody<CommitmentRulesPut>,
) -> Answer {
    json(
        StatusCode::OK,
        &door.put_commitment_rules(None, body).await?,
    )
}

/// How promises are read out of a memory: its own rules, or those of all.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/commitment-rules", tag = "commitments",
    params(("memoryRef" = String, Path)), responses((status = 200, body = CommitmentRulesDoc)))]
pub(super) async fn get_memory_rules(door: EngineDoor, Ref(r): Ref) -> Answer {
    json(StatusCode::OK, &door.commitment_rules(Some(&r)).await?)
}

/// Set how promises are read out of a memory.
#[utoipa::path(put, path = "/v1/host/remembrancer/memory/{memoryRef}/commitment-rules", tag = "commitments",
    params(("memoryRef" = String, Path)), request_body = CommitmentRulesPut,
    responses((status = 200, body = CommitmentRulesDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_memory_rules(
    door: EngineDoor,
    Ref(r): Ref,
    JsonBody(body): JsonBody<CommitmentRulesPut>,
) -> Answer {
    json(
        StatusCode::OK,
        &door.put_commitment_rules(Some(&r), body).await?,
    )
}
