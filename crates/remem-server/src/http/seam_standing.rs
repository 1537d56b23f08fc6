//! The seams of commitments and heartbeats: one makes a commitment fire, one runs a check of a
//! heartbeat. They are mounted with the other seams and use the same code as ordinary firings.

use super::extract::JsonBody;
use super::{Answer, App, json};
use crate::door::{EngineDoor, fail};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize;
use serde_json::{Value, json as value};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/host/sample/commitment/fire", post(fire))
        .route("/v1/host/sample/heartbeat/tick", post(tick))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fire {
    memory_ref: String,
    condition: Option<String>,
    #[serde(default)]
    include_intention_canary: bool,
}

/// Writes a text that holds a promise, recognises the commitment in it and fires it. The text of
/// the commitment is returned beside the event, so that a check can verify that the event does not
/// contain it.
async fn fire(api: EngineDoor, JsonBody(body): JsonBody<Fire>) -> Answer {
    let condition = body.condition.as_deref().unwrap_or("time");
    let done = api
        .engine
        .rehearse_commitment(&api.caller, &body.memory_ref, condition)
        .await
        .map_err(fail)?;
    let mut answer = value!({"event": done.event, "fireCount": done.fires});
    if body.include_intention_canary {
        answer["intentionCanary"] = value!(done.intention);
    }
    json(StatusCode::OK, &answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tick {
    heartbeat_id: String,
    observed_state: Value,
    #[serde(default)]
    simulate_slow_ms: u64,
}

/// Runs one check of a heartbeat that observes the state given by the conformance check.
async fn tick(api: EngineDoor, JsonBody(body): JsonBody<Tick>) -> Answer {
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
        .map_err(fail)?;
    let evaluated = value!({"heartbeatId": id, "status": done.status, "changed": done.changed});
    json(
        StatusCode::OK,
        &value!({"evaluated": evaluated, "stateChanged": done.changed, "enqueuedRuns": done.runs}),
    )
}
