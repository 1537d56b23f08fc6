//! The seams of commitments and heartbeats: one makes a commitment fire, one runs a check of a
//! heartbeat. They are mounted with the other seams and use the same code as ordinary firings.

use super::extract::JsonBody;
use super::{App, HandlerResult, json_response};
use crate::api::{LocalApi, engine_failure};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use remem_core::Rejection;
use remem_wire::Problem;
use serde::Deserialize;
use serde_json::{Value, json as value};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/host/sample/commitment/fire", post(fire))
        .route("/v1/host/sample/heartbeat/tick", post(tick))
        .route("/v1/host/sample/scheduling/tick", post(schedule))
        .route("/v1/host/sample/authorization/decide", post(decide))
        .route("/v1/host/sample/governance/approval-gate", post(gate))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FireRequest {
    memory_ref: String,
    condition: Option<String>,
    #[serde(default)]
    include_intention_canary: bool,
}

/// Writes a text that holds a promise, recognises the commitment in it and fires it. The text of
/// the commitment is returned beside the event, so that a check can verify that the event does not
/// contain it.
async fn fire(api: LocalApi, JsonBody(body): JsonBody<FireRequest>) -> HandlerResult {
    let condition = body.condition.as_deref().unwrap_or("time");
    let done = api
        .engine
        .rehearse_commitment(&api.caller, &body.memory_ref, condition)
        .await
        .map_err(engine_failure)?;
    let mut answer = value!({"event": done.event, "fireCount": done.fires});
    if body.include_intention_canary {
        answer["intentionCanary"] = value!(done.intention);
    }
    json_response(StatusCode::OK, &answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TickRequest {
    heartbeat_id: String,
    observed_state: Value,
    #[serde(default)]
    simulate_slow_ms: u64,
}

/// Runs one check of a heartbeat that observes the state given by the conformance check.
async fn tick(api: LocalApi, JsonBody(body): JsonBody<TickRequest>) -> HandlerResult {
    let id = body.heartbeat_id;
    let done = api
        .engine
        .tick_heartbeat(
            &api.caller,
            &id,
            &body.observed_state,
            body.simulate_slow_ms,
        )
        .await
        .map_err(engine_failure)?;
    let changed = done.change.is_some();
    let evaluated = value!({"heartbeatId": id, "status": done.status, "changed": changed});
    let changes: Vec<Value> = done
        .change
        .iter()
        .map(|(from, to)| value!({"heartbeatId": id, "from": from, "to": to}))
        .collect();
    json_response(
        StatusCode::OK,
        &value!({"evaluated": [evaluated], "stateChanged": changes, "enqueuedRuns": done.runs}),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schedule {
    scenario: String,
    missed_ticks: Option<u32>,
}

/// Lets one tick of a schedule pass, or several before anybody looks.
async fn schedule(api: LocalApi, JsonBody(body): JsonBody<Schedule>) -> HandlerResult {
    let ticks = match body.scenario.as_str() {
        "single-tick" => 1,
        "missed-window" => body.missed_ticks.unwrap_or(2),
        _ => {
            let rule = "must be single-tick or missed-window";
            let field = "scenario";
            return Err(Problem::Rejected(Rejection::Invalid { field, rule }).into());
        }
    };
    let fired = api
        .engine
        .rehearse_ticks(&api.caller, ticks)
        .await
        .map_err(engine_failure)?;
    json_response(StatusCode::OK, &value!({"runsFired": fired}))
}

#[derive(Deserialize)]
struct Decide {
    principal: String,
    action: String,
}

/// Whether a principal of the caller's tenant may do something. No key is given a right for one
/// resource alone, so which one it is makes no difference.
async fn decide(api: LocalApi, JsonBody(body): JsonBody<Decide>) -> HandlerResult {
    let allowed = api
        .engine
        .rehearse_decision(&api.caller, &body.principal, &body.action)
        .await
        .map_err(engine_failure)?;
    json_response(StatusCode::OK, &value!({"allowed": allowed}))
}

#[derive(Deserialize)]
struct Gate {
    scenario: String,
}

/// What an approval gate answers.
async fn gate(api: LocalApi, JsonBody(body): JsonBody<Gate>) -> HandlerResult {
    let gated = api
        .engine
        .rehearse_gate(&api.caller, &body.scenario)
        .await
        .map_err(engine_failure)?;
    let event = value!({"type": gated.kind, "payload": gated.payload});
    json_response(
        StatusCode::OK,
        &value!({"released": gated.released, "event": event}),
    )
}
