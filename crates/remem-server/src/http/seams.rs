//! The endpoints ("seams") that OpenWOP conformance checks call. They are mounted only with
//! `--enable-test-seams`; each one uses the same operations as any other request, with the caller's
//! own key.

use super::extract::{JsonBody, PathParam, QueryParams};
use super::{App, HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi, engine_failure};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use remem_core::{Permission, ShapePolicy, TenantId};
use remem_engine::runs::NewRun;
use remem_engine::workspace::WriteConditions;
use remem_engine::{Caller, Engine};
use remem_wire::memory::{ImportRequest, ListQuery};
use remem_wire::run::{RunEventDoc, RunSnapshot};
use remem_wire::{Failure, ImportEntry, Problem};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};
use std::time::Duration;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/test/memory/seed", post(seed))
        .route("/v1/memory/{memoryRef}", get(list))
        .route("/v1/host/sample/workspace/op", post(workspace))
        .route("/v1/host/sample/agents/{agentId}/dispatch", post(dispatch))
        .route("/v1/host/sample/identity/owned-run", get(owned_run))
        .route(
            "/v1/host/sample/identity/cross-workspace-read",
            post(cross_tenant_read),
        )
        .route("/v1/host/sample/test/runs/{runId}/events", get(run_events))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeedRequest {
    memory_ref: String,
    entries: Vec<ImportEntry>,
}

/// Imports entries under the ids that the check gives.
async fn seed(api: LocalApi, JsonBody(seed): JsonBody<SeedRequest>) -> HandlerResult {
    let ids: Vec<String> = seed.entries.iter().map(|entry| entry.id.clone()).collect();
    api.import(
        &seed.memory_ref,
        ImportRequest {
            entries: seed.entries,
        },
    )
    .await?;
    json_response(StatusCode::CREATED, &value!({"plantedIds": ids}))
}

#[derive(Deserialize)]
struct ListLimit {
    limit: Option<u32>,
}

/// Lists the entries of a memory.
async fn list(
    api: LocalApi,
    PathParam(memory_ref): PathParam,
    QueryParams(query): QueryParams<ListLimit>,
) -> HandlerResult {
    json_response(
        StatusCode::OK,
        &api.list(
            &memory_ref,
            ListQuery {
                limit: query.limit,
                ..ListQuery::default()
            },
        )
        .await?,
    )
}

#[derive(Deserialize)]
struct WorkspaceOp {
    tenant: String,
    workspace: String,
    op: String,
    path: Option<String>,
    content: Option<String>,
}

/// Performs a file operation in a workspace that the request names without proof of access. Each
/// named workspace is therefore a tenant of its own, which no key can reach.
async fn workspace(api: LocalApi, JsonBody(op): JsonBody<WorkspaceOp>) -> HandlerResult {
    api.caller
        .require(Permission::WorkspaceWrite)
        .map_err(engine_failure)?;
    let caller = sandbox(&api.engine, &format!("{}.{}", op.tenant, op.workspace)).await?;
    let engine = &api.engine;
    let path = op.path.unwrap_or_default();
    match op.op.as_str() {
        "put" => {
            let content = op.content.unwrap_or_default();
            let file = engine
                .put_file(&caller, &path, &content, None, WriteConditions::default())
                .await
                .map_err(engine_failure)?;
            json_response(
                StatusCode::OK,
                &value!({"path": file.path, "version": file.version}),
            )
        }
        "get" => {
            let file = engine
                .get_file(&caller, &path, None)
                .await
                .map_err(engine_failure)?
                .ok_or(Problem::NotFound("path"))?;
            json_response(
                StatusCode::OK,
                &value!({"path": file.path, "version": file.version, "content": file.content}),
            )
        }
        "list" => {
            let files = engine
                .list_files(&caller, "")
                .await
                .map_err(engine_failure)?;
            let files: Vec<Value> = files
                .into_iter()
                .map(|file| value!({"path": file.path, "version": file.version}))
                .collect();
            json_response(StatusCode::OK, &value!({"files": files}))
        }
        "delete" => {
            let deleted = engine
                .delete_file(&caller, &path, WriteConditions::default())
                .await
                .map_err(engine_failure)?;
            if deleted {
                json_response(StatusCode::OK, &value!({"deleted": true}))
            } else {
                Err(Problem::NotFound("path").into())
            }
        }
        _ => Err(Problem::malformed("/op", "op must be put, get, list or delete").into()),
    }
}

/// Returns the caller of a tenant that only these checks use, and creates the tenant if needed.
async fn sandbox(engine: &Engine, name: &str) -> Result<Caller, Failure> {
    let tenant =
        TenantId::parse(&format!("conformance:{name}")).ok_or(Problem::NotFound("path"))?;
    if engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await
            .map_err(engine_failure)?;
    }
    engine.local_caller(&tenant).await.map_err(engine_failure)
}

/// Starts a run for the caller and waits up to 5 s for its end.
async fn own_run(api: &LocalApi) -> Result<RunSnapshot, Failure> {
    let new = NewRun {
        workflow_id: "conformance-noop".to_owned(),
        ..NewRun::default()
    };
    let run = api
        .engine
        .create_run(&api.caller, new, None)
        .await
        .map_err(engine_failure)?
        .run;
    let _ = api
        .engine
        .poll_run(&api.caller, run.id.as_str(), 1, Duration::from_secs(5))
        .await;
    Ok(RunSnapshot::new(
        api.caller.tenant().as_str(),
        run.id.as_str(),
        run.state,
    ))
}

/// Returns a run of the caller's own.
async fn owned_run(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &own_run(&api).await?)
}

/// Reads a run of the caller's as a caller of another tenant, which must not find it.
async fn cross_tenant_read(api: LocalApi) -> HandlerResult {
    let run = own_run(&api).await?;
    let stranger = sandbox(&api.engine, "stranger").await?;
    let found = api
        .engine
        .get_run(&stranger, &run.run_id)
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &RunSnapshot::new(stranger.tenant().as_str(), found.id.as_str(), found.state),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DispatchRequest {
    task: Option<Value>,
    validate_handoff: Option<bool>,
    available_tools: Option<Vec<String>>,
}

/// Starts a run of an agent, waits for its end, and returns its events.
async fn dispatch(
    api: LocalApi,
    PathParam(agent_id): PathParam,
    JsonBody(body): JsonBody<DispatchRequest>,
) -> HandlerResult {
    if body.validate_handoff == Some(true) {
        return Err(Problem::NotProvided {
            what: "validation of handoffs",
        }
        .into());
    }
    let inputs =
        value!({"task": body.task, "availableTools": body.available_tools.unwrap_or_default()});
    let inputs = inputs.as_object().cloned().unwrap_or_default();
    let new = NewRun {
        agent_id: Some(agent_id.clone()),
        inputs,
        ..NewRun::default()
    };
    let run = api
        .engine
        .create_run(&api.caller, new, None)
        .await
        .map_err(engine_failure)?
        .run;
    let mut events = Vec::new();
    let mut complete = false;
    while !complete {
        let wait = Duration::from_secs(10);
        let (more, ended) = api
            .engine
            .poll_run(&api.caller, run.id.as_str(), events.len() as u64, wait)
            .await
            .map_err(engine_failure)?;
        if more.is_empty() && !ended {
            break;
        }
        events.extend(more);
        complete = ended;
    }
    let state = api
        .engine
        .get_run(&api.caller, run.id.as_str())
        .await
        .map_err(engine_failure)?
        .state;
    let events: Vec<Value> = events
        .iter()
        .filter_map(RunEventDoc::of)
        .filter_map(|doc| agent_event(&doc, &agent_id))
        .collect();
    json_response(
        StatusCode::OK,
        &value!({"runId": run.id.as_str(), "status": state.status.as_str(), "events": events}),
    )
}

/// Renders an event of the agent, with the agent's id beside the payload; `None` for other events.
fn agent_event(doc: &RunEventDoc, agent_id: &str) -> Option<Value> {
    let named = doc.payload.get("agentId").and_then(Value::as_str) == Some(agent_id);
    named.then(|| value!({"type": doc.r#type, "agentId": agent_id, "sequence": doc.sequence, "payload": doc.payload}))
}

#[derive(Deserialize)]
struct EventTypeQuery {
    r#type: Option<String>,
}

/// Returns a run's events, or only those of one type.
async fn run_events(
    api: LocalApi,
    PathParam(id): PathParam,
    QueryParams(query): QueryParams<EventTypeQuery>,
) -> HandlerResult {
    let (events, _) = api
        .engine
        .run_events(&api.caller, &id, 0)
        .await
        .map_err(engine_failure)?;
    let wanted = |doc: &RunEventDoc| query.r#type.as_ref().is_none_or(|kind| *kind == doc.r#type);
    let events: Vec<RunEventDoc> = events
        .iter()
        .filter_map(RunEventDoc::of)
        .filter(wanted)
        .collect();
    let mut answer = Map::new();
    answer.insert("events".to_owned(), value!(events));
    json_response(StatusCode::OK, &answer)
}
