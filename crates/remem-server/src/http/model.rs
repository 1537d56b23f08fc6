//! Endpoints of the ledger of model calls and of the progress of embeddings. Both are only read
//! here: a ledger row is written together with the change that the call led to, vectors by their
//! pass.

use super::extract::QueryParams;
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, RecallApi, engine_failure};
use axum::http::StatusCode;
use remem_engine::model;
use remem_wire::ErrorBody;
use remem_wire::model::{ModelCallInfo, ModelCallList, ModelCallsQuery, ModelEvidence, ModelUndo};
use remem_wire::recall::EmbeddingStatus;
use remem_wire::time::Instant;
use serde_json::{Map, Value};

fn info(call: model::ModelCallInfo) -> ModelCallInfo {
    let model::ModelCallInfo { id, at, body } = call;
    let text = |name: &str| optional(&body, name).unwrap_or_default();
    let number = |name: &str| body.get(name).and_then(Value::as_u64);
    ModelCallInfo {
        id,
        at: Instant(at),
        model: text("model"),
        memory_ref: text("memoryRef"),
        accepted: body
            .get("accepted")
            .and_then(Value::as_bool)
            .unwrap_or_default(),
        why: text("why"),
        status: number("status").and_then(|status| u16::try_from(status).ok()),
        duration_ms: number("durationMs").unwrap_or_default(),
        request_hash: text("requestHash"),
        response_hash: optional(&body, "responseHash"),
        output_id: optional(&body, "outputId"),
        evidence: body
            .get("evidence")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(evidence)
            .collect(),
        undo: body
            .get("undo")
            .cloned()
            .and_then(|undo| serde_json::from_value(undo).ok())
            .unwrap_or_else(ModelUndo::default),
    }
}

fn optional(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn evidence(value: &Value) -> Option<ModelEvidence> {
    serde_json::from_value(value.clone()).ok()
}

/// Lists the calls of the language model for the caller's tenant, oldest first: digests, the result
/// of each call, and how to undo it.
#[utoipa::path(get, path = "/v1/host/remembrancer/model-calls", tag = "administration", params(ModelCallsQuery),
    responses((status = 200, body = ModelCallList)))]
pub(super) async fn list_model_calls(
    api: LocalApi,
    QueryParams(query): QueryParams<ModelCallsQuery>,
) -> HandlerResult {
    let (calls, more) = api
        .engine
        .list_model_calls(&api.caller, query.after.as_deref(), query.limit)
        .await
        .map_err(engine_failure)?;
    let next_after = calls.last().filter(|_| more).map(|last| last.id.clone());
    json_response(
        StatusCode::OK,
        &ModelCallList {
            model_calls: calls.into_iter().map(info).collect(),
            next_after,
        },
    )
}

/// Returns how many texts of the caller's tenant have embeddings, of which models, and which model
/// serves searches.
#[utoipa::path(get, path = "/v1/host/remembrancer/embeddings", tag = "administration",
    responses((status = 200, body = EmbeddingStatus), (status = 403, body = ErrorBody)))]
pub(super) async fn get_embeddings(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.embeddings().await?)
}
