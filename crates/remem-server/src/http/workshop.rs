//! Endpoints of workshop memory: slots, sessions and chat threads, action links and audits,
//! retention, rules of worlds, and profiles.

use super::extract::{JsonBody, PathParam, PathParamPair, QueryParams};
use super::{HandlerResult, json_response, write_response};
use crate::api::{LocalApi, WorkshopApi};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::workshop::{
    EntryAudit, InteractionClosed, LinkPut, Linked, ProfileList, RetentionQuery, RetentionStatus,
    RuleCheck, RuleChecked, RuleList, RulePut, RulesPut, RulesQuery, RulesWritten, SessionDoc,
    SessionList, SlotHistory, SlotQuery,
};

/// Lists every answer to the question of a slot, oldest first, including those that are no longer
/// true.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/slots/{slot}", tag = "workshop",
    params(("memoryRef" = String, Path), ("slot" = String, Path, description = "The question, one percent-encoded segment"), SlotQuery),
    responses((status = 200, body = SlotHistory)))]
pub(super) async fn get_history(
    api: LocalApi,
    PathParamPair(r, slot): PathParamPair,
    QueryParams(query): QueryParams<SlotQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.history(&r, &slot, query).await?)
}

/// Ends the validity of the current answer of a slot, with no other in its place. The answer stays
/// in the history.
#[utoipa::path(delete, path = "/v1/host/remembrancer/memory/{memoryRef}/slots/{slot}", tag = "workshop",
    params(("memoryRef" = String, Path), ("slot" = String, Path), SlotQuery),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn retract(
    api: LocalApi,
    PathParamPair(r, slot): PathParamPair,
    QueryParams(query): QueryParams<SlotQuery>,
) -> HandlerResult {
    write_response(StatusCode::NO_CONTENT, api.retract(&r, &slot, query).await?)
}

/// Lists the sessions of a memory, the open one first, then the newest.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/sessions", tag = "workshop",
    params(("memoryRef" = String, Path)), responses((status = 200, body = SessionList)))]
pub(super) async fn list_sessions(api: LocalApi, PathParam(r): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.sessions(&r).await?)
}

/// Closes the open session of a memory: what outlasts the session is worked out and kept, the rest
/// ends.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/sessions/close", tag = "workshop",
    params(("memoryRef" = String, Path)),
    responses((status = 200, body = SessionDoc), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn close_session(api: LocalApi, PathParam(r): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.close_session(&r).await?)
}

/// Closes a chat thread: orders and corrections continue in the session, the turns end. Closing it
/// again does nothing more.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/interactions/{interaction}/close", tag = "workshop",
    params(("memoryRef" = String, Path), ("interaction" = String, Path)), responses((status = 200, body = InteractionClosed)))]
pub(super) async fn close_interaction(
    api: LocalApi,
    PathParamPair(r, interaction): PathParamPair,
) -> HandlerResult {
    json_response(
        StatusCode::OK,
        &api.close_interaction(&r, &interaction).await?,
    )
}

/// Records that an action rests on an entry and on the entries that it was made from: they are held
/// as long as the reasons of the action may be asked for.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/links", tag = "workshop",
    params(("memoryRef" = String, Path), ("id" = String, Path)), request_body = LinkPut,
    responses((status = 200, body = Linked), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn link_action(
    api: LocalApi,
    PathParamPair(r, id): PathParamPair,
    JsonBody(body): JsonBody<LinkPut>,
) -> HandlerResult {
    write_response(StatusCode::OK, api.link_action(&r, &id, body).await?)
}

/// Returns everything that is known about an entry except its text, even if the entry is gone: what
/// it was made from, what was made from it, and the actions that rest on it.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/audit", tag = "workshop",
    params(("memoryRef" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = EntryAudit), (status = 404, body = ErrorBody)))]
pub(super) async fn get_audit(api: LocalApi, PathParamPair(r, id): PathParamPair) -> HandlerResult {
    json_response(StatusCode::OK, &api.audit(&r, &id).await?)
}

/// Counts stored entries by tier, kind and retention state, for one memory or for all that the
/// caller may see.
#[utoipa::path(get, path = "/v1/host/remembrancer/retention", tag = "workshop", params(RetentionQuery),
    responses((status = 200, body = RetentionStatus)))]
pub(super) async fn get_retention(
    api: LocalApi,
    QueryParams(query): QueryParams<RetentionQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.retention(query).await?)
}

/// Creates a rule of a world, or replaces the one of the same id.
#[utoipa::path(put, path = "/v1/host/remembrancer/worlds/{world}/rules/{ruleId}", tag = "workshop",
    params(("world" = String, Path), ("ruleId" = String, Path)), request_body = RulePut,
    responses((status = 200, body = RulesWritten), (status = 422, body = ErrorBody)))]
pub(super) async fn put_rule(
    api: LocalApi,
    PathParamPair(world, id): PathParamPair,
    JsonBody(body): JsonBody<RulePut>,
) -> HandlerResult {
    write_response(StatusCode::OK, api.put_rule(&world, &id, body).await?)
}

/// Deletes a rule of a world.
#[utoipa::path(delete, path = "/v1/host/remembrancer/worlds/{world}/rules/{ruleId}", tag = "workshop",
    params(("world" = String, Path), ("ruleId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_rule(
    api: LocalApi,
    PathParamPair(world, id): PathParamPair,
) -> HandlerResult {
    write_response(StatusCode::NO_CONTENT, api.delete_rule(&world, &id).await?)
}

/// Lists the rules of a world by name.
#[utoipa::path(get, path = "/v1/host/remembrancer/worlds/{world}/rules", tag = "workshop",
    params(("world" = String, Path), RulesQuery), responses((status = 200, body = RuleList)))]
pub(super) async fn list_rules(
    api: LocalApi,
    PathParam(world): PathParam,
    QueryParams(query): QueryParams<RulesQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.rules(&world, query).await?)
}

/// Creates or replaces several rules of a world in one transaction: all or none.
#[utoipa::path(post, path = "/v1/host/remembrancer/worlds/{world}/rules", tag = "workshop",
    params(("world" = String, Path)), request_body = RulesPut,
    responses((status = 200, body = RulesWritten), (status = 422, body = ErrorBody)))]
pub(super) async fn put_rules(
    api: LocalApi,
    PathParam(world): PathParam,
    JsonBody(body): JsonBody<RulesPut>,
) -> HandlerResult {
    write_response(StatusCode::OK, api.put_rules(&world, body).await?)
}

/// Checks whether a text restates a rule of a world, so that a put of it would be refused.
#[utoipa::path(post, path = "/v1/host/remembrancer/worlds/{world}/check", tag = "workshop",
    params(("world" = String, Path)), request_body = RuleCheck, responses((status = 200, body = RuleChecked)))]
pub(super) async fn check_rule(
    api: LocalApi,
    PathParam(world): PathParam,
    JsonBody(body): JsonBody<RuleCheck>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.check_rule(&world, body).await?)
}

/// Lists every memory profile with all its values and the memories that it applies to.
#[utoipa::path(get, path = "/v1/host/remembrancer/profiles", tag = "workshop", responses((status = 200, body = ProfileList)))]
pub(super) async fn list_profiles(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.profiles().await?)
}
