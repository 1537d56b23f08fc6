//! The seams of OpenWOP conformance checks. Mounted only by `--enable-test-seams`; each one does
//! what it names through the same operations as everybody else, with the caller's own key.

use super::extract::{JsonBody, Params, Ref};
use super::{Answer, App, json};
use crate::door::{Door, EngineDoor, fail};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use remem_core::{Permission, ShapePolicy, TenantId};
use remem_engine::runs::NewRun;
use remem_engine::workspace::Conditions;
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
            post(foreign_read),
        )
        .route("/v1/host/sample/test/runs/{runId}/events", get(run_events))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seed {
    memory_ref: String,
    entries: Vec<ImportEntry>,
}

/// Plants entries under given ids.
async fn seed(door: EngineDoor, JsonBody(seed): JsonBody<Seed>) -> Answer {
    let ids: Vec<String> = seed.entries.iter().map(|entry| entry.id.clone()).collect();
    door.import(
        &seed.memory_ref,
        ImportRequest {
            entries: seed.entries,
        },
    )
    .await?;
    json(StatusCode::CREATED, &value!({"plantedIds": ids}))
}

#[derive(Deserialize)]
struct Limit {
    limit: Option<u32>,
}

/// A memory's entries.
async fn list(door: EngineDoor, Ref(memory_ref): Ref, Params(query): Params<Limit>) -> Answer {
    json(
        StatusCode::OK,
        &door
            .list(
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

/// Acts in a workspace that is named, not proved: so each name is a tenant of its own, which no key
/// reaches.
async fn workspace(door: EngineDoor, JsonBody(op): JsonBody<WorkspaceOp>) -> Answer {
    door.caller
        .require(Permission::WorkspaceWrite)
        .map_err(fail)?;
    let caller = sandbox(&door.engine, &format!("{}.{}", op.tenant, op.workspace)).await?;
    let engine = &door.engine;
    let path = op.path.unwrap_or_default();
    match op.op.as_str() {
        "put" => {
            let content = op.content.unwrap_or_default();
            let file = engine
                .put_file(&caller, &path, &content, None, Conditions::default())
                .await
                .map_err(fail)?;
            json(
                StatusCode::OK,
                &value!({"path": file.path, "version": file.version}),
            )
        }
        "get" => {
            let file = engine
                .file(&caller, &path, None)
                .await
                .map_err(fail)?
                .ok_or(Problem::NotFound("path"))?;
            json(
                StatusCode::OK,
                &value!({"path": file.path, "version": file.version, "content": file.content}),
            )
        }
        "list" => {
            let files = engine.files(&caller, "").await.map_err(fail)?;
            let files: Vec<Value> = files
                .into_iter()
                .map(|file| value!({"path": file.path, "version": file.version}))
                .collect();
            json(StatusCode::OK, &value!({"files": files}))
        }
        "delete" => {
            let gone = engine
                .delete_file(&caller, &path, Conditions::default())
                .await
                .map_err(fail)?;
            if gone {
                json(StatusCode::OK, &value!({"deleted": true}))
            } else {
                Err(Problem::NotFound("path").into())
            }
        }
        _ => Err(Problem::malformed("/op", "op must be put, get, list or delete").into()),
    }
}

/// The caller of a tenant that only these checks use.
async fn sandbox(engine: &Engine, name: &str) -> Result<Caller, Failure> {
    let tenant =
        TenantId::parse(&format!("conformance:{name}")).ok_or(Problem::NotFound("path"))?;
    if engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await
            .map_err(fail)?;
    }
    engine.local_caller(&tenant).await.map_err(fail)
}

async fn own_run(door: &EngineDoor) -> Result<RunSnapshot, Failure> {
    let new = NewRun {
        workflow_id: "conformance-noop".to_owned(),
        ..NewRun::default()
    };
    let run = door
        .engine
        .create_run(&door.caller, new, None)
        .await
        .map_err(fail)?
        .run;
    let _ = door
        .engine
        .poll_run(&door.caller, run.id.as_str(), 1, Duration::from_secs(5))
        .await;
    Ok(RunSnapshot::new(
        door.caller.tenant().as_str(),
        run.id.as_str(),
        run.state,
    ))
}

/// A run of the caller's.
async fn owned_run(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &own_run(&door).await?)
}

/// A run of the caller's, asked for by somebody else.
async fn foreign_read(door: EngineDoor) -> Answer {
    let run = own_run(&door).await?;
    let stranger = sandbox(&door.engine, "stranger").await?;
    let found = door
        .engine
        .run(&stranger, &run.run_id)
        .await
        .map_err(fail)?;
    json(
        StatusCode::OK,
        &RunSnapshot::new(stranger.tenant().as_str(), found.id.as_str(), found.state),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dispatch {
    task: Option<Value>,
    validate_handoff: Option<bool>,
    available_tools: Option<Vec<String>>,
}

/// Calls upon an agent and waits for what comes of it.
async fn dispatch(
    door: EngineDoor,
    Ref(agent_id): Ref,
    JsonBody(body): JsonBody<Dispatch>,
) -> Answer {
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
    let run = door
        .engine
        .create_run(&door.caller, new, None)
        .await
        .map_err(fail)?
        .run;
    let mut events = Vec::new();
    let mut complete = false;
    while !complete {
        let wait = Duration::from_secs(10);
        let (more, ended) = door
            .engine
            .poll_run(&door.caller, run.id.as_str(), events.len() as u64, wait)
            .await
            .map_err(fail)?;
        if more.is_empty() && !ended {
            break;
        }
        events.extend(more);
        complete = ended;
    }
    let state = door
        .engine
        .run(&door.caller, run.id.as_str())
        .await
        .map_err(fail)?
        .state;
    let events: Vec<Value> = events
        .iter()
        .filter_map(RunEventDoc::of)
        .filter_map(|doc| of_agent(&doc, &agent_id))
        .collect();
    json(
        StatusCode::OK,
        &value!({"runId": run.id.as_str(), "status": state.status.as_str(), "events": events}),
    )
}

/// An event that names the agent, with the name at its head.
fn of_agent(doc: &RunEventDoc, agent_id: &str) -> Option<Value> {
    let named = doc.payload.get("agentId").and_then(Value::as_str) == Some(agent_id);
    named.then(|| value!({"type": doc.r#type, "agentId": agent_id, "sequence": doc.sequence, "payload": doc.payload}))
}

#[derive(Deserialize)]
struct OfType {
    r#type: Option<String>,
}

/// A run's events of one kind.
async fn run_events(door: EngineDoor, Ref(id): Ref, Params(query): Params<OfType>) -> Answer {
    let (events, _) = door
        .engine
        .run_events(&door.caller, &id, 0)
        .await
        .map_err(fail)?;
    let wanted = |doc: &RunEventDoc| query.r#type.as_ref().is_none_or(|kind| *kind == doc.r#type);
    let events: Vec<RunEventDoc> = events
        .iter()
        .filter_map(RunEventDoc::of)
        .filter(wanted)
        .collect();
    let mut answer = Map::new();
    answer.insert("events".to_owned(), value!(events));
    json(StatusCode::OK, &answer)
}
