//! The seams that run passes: compaction, consolidation and distillation. They are mounted with the
//! other seams; each runs the ordinary pass over a memory that the check names.

use super::extract::JsonBody;
use super::{App, HandlerResult, json_response};
use crate::api::{LocalApi, engine_failure};
use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use remem_core::sabotage;
use remem_core::{Permission, Rejection};
use remem_engine::conformance::canaries;
use remem_engine::jobs::{Trigger, WorkError, WorkReport};
use remem_wire::{Failure, Problem};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/test/memory/compact", post(compact))
        .route("/v1/host/sample/memory/consolidate", post(consolidate))
        .route("/v1/host/sample/memory/distill", post(distill))
}

/// Checks that the caller may run passes. This comes before any entry is planted, so that a caller
/// without the right leaves nothing behind.
fn require_admin(api: &LocalApi) -> Result<(), Failure> {
    sabotage!(
        "seams-plant-before-they-ask",
        api.caller
            .require(Permission::MemoryAdmin)
            .map_err(engine_failure),
        Ok(())
    )
}

/// Runs a pass over a memory and waits for its end.
async fn run_pass(
    api: &LocalApi,
    pass: &str,
    memory_ref: &str,
    options: Value,
) -> Result<WorkReport, Failure> {
    let memory_ref =
        api.caller
            .memory_ref(memory_ref)
            .ok_or(Problem::Rejected(Rejection::MalformedName {
                field: "memoryRef",
            }))?;
    let options = options.as_object().cloned().unwrap_or_default();
    let done = api
        .engine
        .run_job_and_wait(
            api.caller.tenant(),
            pass,
            Some(&memory_ref),
            options,
            Trigger::OnDemand,
        )
        .await;
    done.map_err(refused)
}

fn refused(error: WorkError) -> Failure {
    match error {
        WorkError::Refused { code, details } => Problem::WorkRefused { code, details }.into(),
        WorkError::Failed(error) => engine_failure(error),
        WorkError::Stopped(_) => Problem::Busy.into(),
    }
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactRequest {
    memory_ref: String,
}

/// Compacts all entries of a memory; 204 if there are fewer than two.
async fn compact(api: LocalApi, JsonBody(body): JsonBody<CompactRequest>) -> HandlerResult {
    require_admin(&api)?;
    let report = run_pass(
        &api,
        "compact",
        &body.memory_ref,
        value!({"include": "all"}),
    )
    .await?;
    let output = report
        .detail
        .get("outputs")
        .and_then(Value::as_array)
        .and_then(|all| all.first())
        .cloned();
    let Some(payload) = output else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let id = payload
        .get("outputId")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let entry = api
        .engine
        .get(&api.caller, &body.memory_ref, id, None)
        .await
        .map_err(engine_failure)?
        .ok_or(Problem::NotFound("pass"))?;
    json_response(
        StatusCode::OK,
        &value!({"type": "memory.compacted", "payload": payload, "outputContent": entry.content}),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConsolidateRequest {
    memory_ref: String,
    #[serde(default)]
    include_secret_canary: bool,
}

/// Consolidates a memory; an empty memory is given duplicates to merge first.
async fn consolidate(api: LocalApi, JsonBody(body): JsonBody<ConsolidateRequest>) -> HandlerResult {
    require_admin(&api)?;
    let canary = api.engine.canary().unwrap_or_default();
    if api
        .engine
        .count_planted(&api.caller, &body.memory_ref)
        .await
        .map_err(engine_failure)?
        == 0
    {
        let mut texts = vec![
            "The release train for the mobile application leaves on the first working day of each month.".to_owned(),
            "The release train for the mobile application leaves on the first working day of each month!".to_owned(),
            "Customers in the northern region prefer invoices in two languages.".to_owned(),
        ];
        if body.include_secret_canary {
            texts.push(format!(
                "The gateway was reached with the key {canary} during the rehearsal."
            ));
        }
        api.engine
            .plant_entries(&api.caller, &body.memory_ref, &texts)
            .await
            .map_err(engine_failure)?;
    }
    let report = run_pass(&api, "consolidate", &body.memory_ref, value!({})).await?;
    let input = report.detail.get("inputCount");
    let output = report.detail.get("outputCount");
    let event = value!({"memoryRef": body.memory_ref, "inputCount": input, "outputCount": output, "trigger": "on-demand"});
    let leaked = api
        .engine
        .contains_text(&api.caller, &body.memory_ref, &canary)
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &value!({"event": event, "secretLeaked": leaked}),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DistillRequest {
    memory_ref: String,
    token_budget: Option<u64>,
    sources: Option<Vec<Value>>,
    index_emitted: Option<bool>,
    #[serde(default)]
    include_secret_canary: bool,
}

/// Returns the texts that a check gives, or twelve of the host's own.
fn given_texts(given: Option<Vec<Value>>) -> Vec<String> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Object(map) => map
            .get("content")
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    };
    match given {
        Some(given) => given.into_iter().filter_map(text).collect(),
        None => (1..=12)
            .map(|n| {
                format!(
                    "Note {n}: the depot in bay {n} was counted on day {n} and held {} crates.",
                    n * 7
                )
            })
            .collect(),
    }
}

/// Distils exactly the texts of a check. The index is always written; `indexEmitted: false` only
/// leaves it out of the answer.
async fn distill(api: LocalApi, JsonBody(body): JsonBody<DistillRequest>) -> HandlerResult {
    require_admin(&api)?;
    let canary = api.engine.canary().unwrap_or_default();
    let mut texts = given_texts(body.sources);
    if body.include_secret_canary {
        texts.push(format!(
            "The rehearsal used the key {canary} for the gateway."
        ));
    }
    texts.sort(); // the same sources in another order are the same sources
    let engine = &api.engine;
    let caller = &api.caller;
    let set = engine
        .plant_entries(caller, &body.memory_ref, &texts)
        .await
        .map_err(engine_failure)?;
    let report = engine
        .distill_planted(caller, &body.memory_ref, &set, body.token_budget)
        .await
        .map_err(refused)?;
    let mut leaked = false;
    for canary in canaries(&texts).iter().chain([&canary]) {
        leaked |= engine
            .contains_text(caller, &body.memory_ref, canary)
            .await
            .map_err(engine_failure)?;
    }
    let detail = &report.detail;
    let updated = body.index_emitted != Some(false);
    let event = value!({
        "type": "memory.compacted", "memoryRef": body.memory_ref, "outputId": text(detail, "outputId"),
        "sourceCount": detail.get("sourceCount"), "trigger": "host-managed", "byteSize": detail.get("byteSize"),
        "distillation": {"tokenBudget": detail.get("tokenBudget"), "tokensUsed": detail.get("tokensUsed"), "indexUpdated": updated},
    });
    let mut answer = value!({
        "event": event, "archiveChecksum": text(detail, "archive"), "indexUpdated": updated,
        "secretLeaked": leaked,
    });
    if updated {
        answer["indexFile"] = value!("MEMORY-INDEX.json");
    }
    json_response(StatusCode::OK, &answer)
}
