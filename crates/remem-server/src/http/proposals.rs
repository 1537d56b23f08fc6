//! Endpoints of proposals: reading, revising, deciding, submitting, gates, installed artifacts and
//! traces. The protocol's checks find a part of them under the test seams.

use super::extract::{IdempotencyKey, JsonBody, OptionalBody, PathParam, QueryParams};
use super::{App, HandlerResult, json_response};
use crate::api::{DecisionOutcome, LocalApi, ReviewApi};
use axum::Router;
use axum::http::{HeaderValue, StatusCode};
use axum::routing::{get, post};
use remem_wire::ErrorBody;
use remem_wire::proposal::{
    InstalledArtifacts, Proposal, ProposalDecision, ProposalGate, ProposalList, ProposalOverride,
    ProposalPatch, ProposalRevisions, ProposalSubmit, ProposalsQuery, TraceCreate, TraceCreated,
};

/// The paths at which the protocol's conformance checks look for proposals. They lead to the same
/// handlers, and like every seam they are mounted only by `--enable-test-seams`.
pub(super) fn seams() -> Router<App> {
    let one = get(get_proposal)
        .patch(revise_proposal)
        .delete(archive_proposal);
    Router::new()
        .route("/v1/host/sample/proposals", get(list_proposals))
        .route("/v1/host/sample/proposals/{proposalId}", one)
        .route(
            "/v1/host/sample/proposals/{proposalId}/apply",
            post(apply_proposal),
        )
        .route(
            "/v1/host/sample/proposals/{proposalId}/reject",
            post(reject_proposal),
        )
}

/// Lists proposals, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals", tag = "proposals", params(ProposalsQuery), responses((status = 200, body = ProposalList)))]
pub(super) async fn list_proposals(
    api: LocalApi,
    QueryParams(query): QueryParams<ProposalsQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.proposals(query).await?)
}

/// Returns one proposal with the artifact of its newest revision.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody)))]
pub(super) async fn get_proposal(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.proposal(&id).await?)
}

/// Adds a revision to a proposal. The new revision has no effect and no approvals yet.
#[utoipa::path(patch, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    request_body = ProposalPatch, responses((status = 200, body = Proposal), (status = 409, body = ErrorBody)))]
pub(super) async fn revise_proposal(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(body): JsonBody<ProposalPatch>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.revise_proposal(&id, body).await?)
}

/// Archives a proposal that was not applied.
#[utoipa::path(delete, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn archive_proposal(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.archive_proposal(&id).await?)
}

/// Renders a decision: 202 while the proposal waits for approvals, else 200.
fn decision_response(decision: &DecisionOutcome) -> HandlerResult {
    json_response(
        if decision.awaits_approval {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        },
        &decision.proposal,
    )
}

/// Applies a proposal: installs its newest revision, byte for byte. Where that takes approvals,
/// this opens the gate and counts as the caller's own approval.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/apply", tag = "proposals", params(("proposalId" = String, Path)),
    request_body = ProposalDecision,
    responses((status = 200, body = Proposal), (status = 202, body = Proposal, description = "It waits for approvals"),
        (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn apply_proposal(
    api: LocalApi,
    PathParam(id): PathParam,
    OptionalBody(body): OptionalBody<ProposalDecision>,
) -> HandlerResult {
    decision_response(&api.apply_proposal(&id, body).await?)
}

/// Rejects a proposal for good.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/reject", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn reject_proposal(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.reject_proposal(&id).await?)
}

/// Submits a draft of the caller's own for review.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals", tag = "proposals",
    params(("Idempotency-Key" = Option<String>, Header)), request_body = ProposalSubmit,
    responses((status = 201, body = Proposal), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn submit_proposal(
    api: LocalApi,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<ProposalSubmit>,
) -> HandlerResult {
    let (proposal, replayed) = api.submit_proposal(body, key.0.as_deref()).await?;
    let mut answer = json_response(StatusCode::CREATED, &proposal)?;
    if replayed {
        answer
            .headers_mut()
            .insert(remem_wire::REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

/// Lists the revisions of a proposal, with their digests.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}/revisions", tag = "proposals",
    params(("proposalId" = String, Path)), responses((status = 200, body = ProposalRevisions), (status = 404, body = ErrorBody)))]
pub(super) async fn list_revisions(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.proposal_revisions(&id).await?)
}

/// Returns the approval gate of a proposal's newest revision.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}/gate", tag = "proposals",
    params(("proposalId" = String, Path)), responses((status = 200, body = ProposalGate), (status = 404, body = ErrorBody)))]
pub(super) async fn get_gate(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.proposal_gate(&id).await?)
}

/// Approves a proposal whose gate is open. The last approval that is needed installs it.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/approve", tag = "proposals",
    params(("proposalId" = String, Path)), request_body = ProposalDecision,
    responses((status = 200, body = Proposal), (status = 202, body = Proposal, description = "It waits for more"),
        (status = 409, body = ErrorBody)))]
pub(super) async fn approve_proposal(
    api: LocalApi,
    PathParam(id): PathParam,
    OptionalBody(body): OptionalBody<ProposalDecision>,
) -> HandlerResult {
    decision_response(&api.approve_proposal(&id, body).await?)
}

/// Installs a proposal without the quorum of its gate, where the host allows it.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/override", tag = "proposals",
    params(("proposalId" = String, Path)), request_body = ProposalOverride,
    responses((status = 200, body = Proposal), (status = 409, body = ErrorBody)))]
pub(super) async fn override_proposal(
    api: LocalApi,
    PathParam(id): PathParam,
    JsonBody(body): JsonBody<ProposalOverride>,
) -> HandlerResult {
    decision_response(&api.override_proposal(&id, body).await?)
}

/// Lists the artifacts that were installed from proposals, byte for byte.
#[utoipa::path(get, path = "/v1/host/remembrancer/installed", tag = "proposals", responses((status = 200, body = InstalledArtifacts)))]
pub(super) async fn list_installed(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.installed_artifacts().await?)
}

/// Records the sequence of tools that an agent called, so that routines can be found.
#[utoipa::path(post, path = "/v1/host/remembrancer/traces", tag = "proposals", request_body = TraceCreate,
    responses((status = 201, body = TraceCreated), (status = 422, body = ErrorBody)))]
pub(super) async fn record_trace(
    api: LocalApi,
    JsonBody(body): JsonBody<TraceCreate>,
) -> HandlerResult {
    json_response(StatusCode::CREATED, &api.record_trace(body).await?)
}
