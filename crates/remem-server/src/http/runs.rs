//! Endpoints of runs, as OpenWOP defines them: start, get, fork and cancel. Their events are in
//! `run_events`.

use super::extract::{IdempotencyKey, JsonBody, OptionalBody, PathParam, PathParamPair};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, engine_failure};
use axum::http::{HeaderValue, StatusCode};
use remem_core::redact::SecretValue;
use remem_core::run::ForkMode;
use remem_engine::runs::{ForkRequest, NewRun};
use remem_wire::run::{
    RunCancel, RunCreate, RunCreated, RunFork, RunForked, RunSnapshot, RunStatusAnswer,
};
use remem_wire::{ErrorBody, Failure, Problem, REPLAY_HEADER};
use serde_json::{Map, Value};

fn events_url(id: &str) -> String {
    format!("/v1/runs/{id}/events")
}

/// Adds the header of a repeated answer if `replayed` is true.
fn with_replay_header(replayed: bool, mut response: axum::response::Response) -> HandlerResult {
    if replayed {
        response
            .headers_mut()
            .insert(REPLAY_HEADER, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Takes the secrets for one run out of its configuration: they are passed separately, so that
/// they are nowhere stored in clear.
fn take_secrets(configurable: &mut Map<String, Value>) -> Result<Vec<SecretValue>, Failure> {
    let malformed = || {
        Failure::from(Problem::malformed(
            "/configurable/secrets",
            "configurable.secrets must be an object of strings",
        ))
    };
    let Some(secrets) = configurable.remove("secrets") else {
        return Ok(Vec::new());
    };
    let Value::Object(secrets) = secrets else {
        return Err(malformed());
    };
    let value = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok(SecretValue::new(name, text)),
        _ => Err(malformed()),
    };
    secrets.into_iter().map(value).collect()
}

/// Starts a run of a workflow or an agent.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", params(("Idempotency-Key" = Option<String>, Header)), request_body = RunCreate,
    responses((status = 201, body = RunCreated), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn create_run(
    api: LocalApi,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<RunCreate>,
) -> HandlerResult {
    if body.callback_url.is_some() {
        return Err(Problem::NotProvided {
            what: "callbackUrl: register a webhook instead",
        }
        .into());
    }
    if body.workflow_id.is_some() == body.agent_id.is_some() {
        return Err(Problem::malformed(
            "/workflowId",
            "workflowId or agentId is required, not both",
        )
        .into());
    }
    let mut configurable = body.configurable.unwrap_or_default();
    let new = NewRun {
        secrets: take_secrets(&mut configurable)?,
        configurable,
        workflow_id: body.workflow_id.unwrap_or_default(),
        agent_id: body.agent_id,
        inputs: body.inputs.unwrap_or_default(),
        tags: body.tags.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
    };
    let started = api
        .engine
        .create_run(&api.caller, new, key.0.as_deref())
        .await
        .map_err(engine_failure)?;
    let id = started.run.id.as_str();
    let created = RunCreated {
        run_id: id.to_owned(),
        status: started.run.state.status.as_str().to_owned(),
        events_url: events_url(id),
        status_url: format!("/v1/runs/{id}"),
    };
    with_replay_header(
        started.replayed,
        json_response(StatusCode::CREATED, &created)?,
    )
}

/// Returns the state of a run.
#[utoipa::path(get, path = "/v1/runs/{runId}", tag = "runs", params(("runId" = String, Path)),
    responses((status = 200, body = RunSnapshot), (status = 404, body = ErrorBody)))]
pub(super) async fn get_run(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    let run = api
        .engine
        .get_run(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &RunSnapshot::new(api.caller.tenant().as_str(), run.id.as_str(), run.state),
    )
}

/// Forks a run that has ended: replays it from its record, or branches off at one of its events.
#[utoipa::path(post, path = "/v1/runs/{runId}:fork", tag = "runs",
    params(("runId" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = RunFork,
    responses((status = 201, body = RunForked), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn fork_run(
    api: LocalApi,
    PathParam(target): PathParam,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<RunFork>,
) -> HandlerResult {
    let id = target
        .strip_suffix(":fork")
        .ok_or(Problem::NotFound("run"))?;
    // The protocol calls these two bad requests (400), as distinct from a fork that cannot be
    // served (422).
    if body.mode == ForkMode::Branch && body.from_seq.is_none() {
        return Err(Problem::malformed("/fromSeq", "fromSeq is required in mode branch").into());
    }
    if body.mode == ForkMode::Replay && body.run_options_overlay.is_some() {
        return Err(Problem::malformed(
            "/runOptionsOverlay",
            "runOptionsOverlay is allowed in mode branch only",
        )
        .into());
    }
    let fork = ForkRequest {
        mode: body.mode,
        from_seq: body.from_seq,
        overlay: body.run_options_overlay,
    };
    let forked = api
        .engine
        .fork_run(&api.caller, id, fork, key.0.as_deref())
        .await
        .map_err(engine_failure)?;
    let answer = RunForked {
        run_id: forked.run.id.as_str().to_owned(),
        source_run_id: forked.source.run_id,
        from_seq: forked.source.from_seq,
        mode: forked.source.mode,
        status: forked.run.state.status.as_str().to_owned(),
        events_url: events_url(forked.run.id.as_str()),
    };
    with_replay_header(
        forked.replayed,
        json_response(StatusCode::CREATED, &answer)?,
    )
}

/// Cancels a run. The reason in the body is accepted but not stored.
#[utoipa::path(post, path = "/v1/runs/{runId}/cancel", tag = "runs", params(("runId" = String, Path)), request_body = RunCancel,
    responses((status = 200, body = RunStatusAnswer), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_run(
    api: LocalApi,
    PathParam(id): PathParam,
    OptionalBody(_reason): OptionalBody<RunCancel>,
) -> HandlerResult {
    let run = api
        .engine
        .cancel_run(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    let status = run.state.status.as_str().to_owned();
    json_response(
        StatusCode::OK,
        &RunStatusAnswer {
            run_id: run.id.as_str().to_owned(),
            status,
        },
    )
}

/// Answers 404: this host stores no artifacts of runs.
#[utoipa::path(get, path = "/v1/runs/{runId}/artifacts/{artifactId}", tag = "runs",
    params(("runId" = String, Path), ("artifactId" = String, Path)), responses((status = 404, body = ErrorBody)))]
pub(super) async fn get_artifact(
    api: LocalApi,
    PathParamPair(id, _): PathParamPair,
) -> HandlerResult {
    api.engine
        .get_run(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    Err(Problem::NotFound("run").into())
}
