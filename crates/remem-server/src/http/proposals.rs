//! Proposals: reading, revising, deciding, submitting, gates, and what was installed.

use super::extract::{IdempotencyKey, JsonBody, OptionalBody, Params, Ref};
use super::{Answer, App, json};
use crate::door::{Decided, EngineDoor, ReviewDoor};
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

/// Proposals, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals", tag = "proposals", params(ProposalsQuery), responses((status = 200, body = ProposalList)))]
pub(super) async fn list_proposals(
    door: EngineDoor,
    Params(query): Params<ProposalsQuery>,
) -> Answer {
    json(StatusCode::OK, &door.proposals(query).await?)
}

/// One proposal, with the artifact of its newest revision.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody)))]
pub(super) async fn get_proposal(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.proposal(&id).await?)
}

/// Change a proposal: a new revision, which has no effect and which nobody has approved.
#[utoipa::path(patch, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    request_body = ProposalPatch, responses((status = 200, body = Proposal), (status = 409, body = ErrorBody)))]
pub(super) async fn revise_proposal(
    door: EngineDoor,
    Ref(id): Ref,
    JsonBody(body): JsonBody<ProposalPatch>,
) -> Answer {
    json(StatusCode::OK, &door.revise_proposal(&id, body).await?)
}

/// Put a proposal away.
#[utoipa::path(delete, path = "/v1/host/remembrancer/proposals/{proposalId}", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn archive_proposal(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.archive_proposal(&id).await?)
}

fn decided(decided: &Decided) -> Answer {
    json(
        if decided.waits {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        },
        &decided.proposal,
    )
}

/// Apply a proposal: install its newest revision, byte for byte. Where that takes approvals, ask
/// for them and give one's own.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/apply", tag = "proposals", params(("proposalId" = String, Path)),
    request_body = ProposalDecision,
    responses((status = 200, body = Proposal), (status = 202, body = Proposal, description = "It waits for approvals"),
        (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn apply_proposal(
    door: EngineDoor,
    Ref(id): Ref,
    OptionalBody(body): OptionalBody<ProposalDecision>,
) -> Answer {
    decided(&door.apply_proposal(&id, body).await?)
}

/// Turn a proposal down.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/reject", tag = "proposals", params(("proposalId" = String, Path)),
    responses((status = 200, body = Proposal), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn reject_proposal(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.reject_proposal(&id).await?)
}

/// Put a draft of one's own under review.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals", tag = "proposals",
    params(("Idempotency-Key" = Option<String>, Header)), request_body = ProposalSubmit,
    responses((status = 201, body = Proposal), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn submit_proposal(
    door: EngineDoor,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<ProposalSubmit>,
) -> Answer {
    let (proposal, replayed) = door.submit_proposal(body, key.0.as_deref()).await?;
    let mut answer = json(StatusCode::CREATED, &proposal)?;
    if replayed {
        answer
            .headers_mut()
            .insert(remem_wire::REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

/// The revisions of a proposal, with their digests.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}/revisions", tag = "proposals",
    params(("proposalId" = String, Path)), responses((status = 200, body = ProposalRevisions), (status = 404, body = ErrorBody)))]
pub(super) async fn list_revisions(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.proposal_revisions(&id).await?)
}

/// The gate of a proposal's newest revision.
#[utoipa::path(get, path = "/v1/host/remembrancer/proposals/{proposalId}/gate", tag = "proposals",
    params(("proposalId" = String, Path)), responses((status = 200, body = ProposalGate), (status = 404, body = ErrorBody)))]
pub(super) async fn get_gate(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.proposal_gate(&id).await?)
}

/// Approve a proposal whose gate is open; the last approval that is needed installs it.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/approve", tag = "proposals",
    params(("proposalId" = String, Path)), request_body = ProposalDecision,
    responses((status = 200, body = Proposal), (status = 202, body = Proposal, description = "It waits for more"),
        (status = 409, body = ErrorBody)))]
pub(super) async fn approve_proposal(
    door: EngineDoor,
    Ref(id): Ref,
    OptionalBody(body): OptionalBody<ProposalDecision>,
) -> Answer {
    decided(&door.approve_proposal(&id, body).await?)
}

/// Go past the quorum of a gate, where the host allows it.
#[utoipa::path(post, path = "/v1/host/remembrancer/proposals/{proposalId}/override", tag = "proposals",
    params(("proposalId" = String, Path)), request_body = ProposalOverride,
    responses((status = 200, body = Proposal), (status = 409, body = ErrorBody)))]
pub(super) async fn override_proposal(
    door: EngineDoor,
    Ref(id): Ref,
    JsonBody(body): JsonBody<ProposalOverride>,
) -> Answer {
    decided(&door.override_proposal(&id, body).await?)
}

/// What was installed from proposals, byte for byte.
#[utoipa::path(get, path = "/v1/host/remembrancer/installed", tag = "proposals", responses((status = 200, body = InstalledArtifacts)))]
pub(super) async fn list_installed(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.installed_artifacts().await?)
}

/// Tell which tools an agent called one after the other, so that routines can be found.
#[utoipa::path(post, path = "/v1/host/remembrancer/traces", tag = "proposals", request_body = TraceCreate,
    responses((status = 201, body = TraceCreated), (status = 422, body = ErrorBody)))]
pub(super) async fn record_trace(
    door: EngineDoor,
    JsonBody(body): JsonBody<TraceCreate>,
) -> Answer {
    json(StatusCode::CREATED, &door.record_trace(body).await?)
}
