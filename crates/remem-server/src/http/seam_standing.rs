//! The seams about what stands: a commitment that fires, a look of a heartbeat. Mounted with the
//! other seams; what fires, fires as it does for everybody else.

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

/// Lets a promise be written, read and fired. What was meant is told beside the event, so that a
/// check can look for it there.
async fn fire(door: EngineDoor, JsonBody(body): JsonBody<Fire>) -> Answer {
    let condition = body.condition.as_deref().unwrap_or("time");
    let done = door
        .engine
        .rehearse_commitment(&door.caller, &body.memory_ref, condition)
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

/// One look of a heartbeat that finds what the check says.
async fn tick(door: EngineDoor, JsonBody(body): JsonBody<Tick>) -> Answer {
    let id = body.heartbeat_id;
    let done = door
        .engine
        .tick_heartbeat(
            &door.caller,
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
