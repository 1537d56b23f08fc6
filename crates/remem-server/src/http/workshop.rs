//! Workshop memory: answers to a question, sessions and chat threads, actions and their audit,
//! retention, rules, profiles.

use super::extract::{JsonBody, Params, Ref, RefAndId};
use super::{Answer, json, written};
use crate::door::{EngineDoor, WorkshopDoor};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::workshop::{
    EntryAudit, InteractionClosed, LinkPut, Linked, ProfileList, RetentionQuery, RetentionStatus,
    RuleCheck, RuleChecked, RuleList, RulePut, RulesPut, RulesQuery, RulesWritten, SessionDoc,
    SessionList, SlotHistory, SlotQuery,
};

/// Every answer to a question, oldest first, those that hold no more included.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/slots/{slot}", tag = "workshop",
    params(("memoryRef" = String, Path), ("slot" = String, Path, description = "The question, one percent-encoded segment"), SlotQuery),
    responses((status = 200, body = SlotHistory)))]
pub(super) async fn get_history(
    door: EngineDoor,
    RefAndId(r, slot): RefAndId,
    Params(query): Params<SlotQuery>,
) -> Answer {
    json(StatusCode::OK, &door.history(&r, &slot, query).await?)
}

/// Say that the answer to a question is no longer true, with no other in its place. It stays in the
/// history.
#[utoipa::path(delete, path = "/v1/host/remembrancer/memory/{memoryRef}/slots/{slot}", tag = "workshop",
    params(("memoryRef" = String, Path), ("slot" = String, Path), SlotQuery),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn retract(
    door: EngineDoor,
    RefAndId(r, slot): RefAndId,
    Params(query): Params<SlotQuery>,
) -> Answer {
    written(
        StatusCode::NO_CONTENT,
        door.retract(&r, &slot, query).await?,
    )
}

/// The sessions of a memory, the open one first, then the newest.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/sessions", tag = "workshop",
    params(("memoryRef" = String, Path)), responses((status = 200, body = SessionList)))]
pub(super) async fn list_sessions(door: EngineDoor, Ref(r): Ref) -> Answer {
    json(StatusCode::OK, &door.sessions(&r).await?)
}

/// End the open session of a memory: what outlasts it is worked out, the rest ends.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/sessions/close", tag = "workshop",
    params(("memoryRef" = String, Path)),
    responses((status = 200, body = SessionDoc), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn close_session(door: EngineDoor, Ref(r): Ref) -> Answer {
    json(StatusCode::OK, &door.close_session(&r).await?)
}

/// End a chat thread: what was ordered and corrected goes on in the session, the turns end. Once
/// more does nothing more.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/interactions/{interaction}/close", tag = "workshop",
    params(("memoryRef" = String, Path), ("interaction" = String, Path)), responses((status = 200, body = InteractionClosed)))]
pub(super) async fn close_interaction(
    door: EngineDoor,
    RefAndId(r, interaction): RefAndId,
) -> Answer {
    json(
        StatusCode::OK,
        &door.close_interaction(&r, &interaction).await?,
    )
}

/// Note that an action rests on an entry and on what that was made from: they stay as long as
/// somebody may ask why.
#[utoipa::path(post, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/links", tag = "workshop",
    params(("memoryRef" = String, Path), ("id" = String, Path)), request_body = LinkPut,
    responses((status = 200, body = Linked), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn link_action(
    door: EngineDoor,
    RefAndId(r, id): RefAndId,
    JsonBody(body): JsonBody<LinkPut>,
) -> Answer {
    written(StatusCode::OK, door.link_action(&r, &id, body).await?)
}

/// Everything that is known about an entry but its text, be it gone or not: what it came from, what
/// came of it, what rests on it.
#[utoipa::path(get, path = "/v1/host/remembrancer/memory/{memoryRef}/entries/{id}/audit", tag = "workshop",
    params(("memoryRef" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = EntryAudit), (status = 404, body = ErrorBody)))]
pub(super) async fn get_audit(door: EngineDoor, RefAndId(r, id): RefAndId) -> Answer {
    json(StatusCode::OK, &door.audit(&r, &id).await?)
}

/// What holds the entries that are kept, of a memory or of all that the caller may see.
#[utoipa::path(get, path = "/v1/host/remembrancer/retention", tag = "workshop", params(RetentionQuery),
    responses((status = 200, body = RetentionStatus)))]
pub(super) async fn get_retention(
    door: EngineDoor,
    Params(query): Params<RetentionQuery>,
) -> Answer {
    json(StatusCode::OK, &door.retention(query).await?)
}

/// Write a rule of a world. One of the same name is replaced.
#[utoipa::path(put, path = "/v1/host/remembrancer/worlds/{world}/rules/{ruleId}", tag = "workshop",
    params(("world" = String, Path), ("ruleId" = String, Path)), request_body = RulePut,
    responses((status = 200, body = RulesWritten), (status = 422, body = ErrorBody)))]
pub(super) async fn put_rule(
    door: EngineDoor,
    RefAndId(world, id): RefAndId,
    JsonBody(body): JsonBody<RulePut>,
) -> Answer {
    written(StatusCode::OK, door.put_rule(&world, &id, body).await?)
}

/// Take a rule away.
#[utoipa::path(delete, path = "/v1/host/remembrancer/worlds/{world}/rules/{ruleId}", tag = "workshop",
    params(("world" = String, Path), ("ruleId" = String, Path)), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn delete_rule(door: EngineDoor, RefAndId(world, id): RefAndId) -> Answer {
    written(StatusCode::NO_CONTENT, door.delete_rule(&world, &id).await?)
}

/// The rules of a world by name.
#[utoipa::path(get, path = "/v1/host/remembrancer/worlds/{world}/rules", tag = "workshop",
    params(("world" = String, Path), RulesQuery), responses((status = 200, body = RuleList)))]
pub(super) async fn list_rules(
    door: EngineDoor,
    Ref(world): Ref,
    Params(query): Params<RulesQuery>,
) -> Answer {
    json(StatusCode::OK, &door.rules(&world, query).await?)
}

/// Write several rules of a world in one transaction: all or none.
#[utoipa::path(post, path = "/v1/host/remembrancer/worlds/{world}/rules", tag = "workshop",
    params(("world" = String, Path)), request_body = RulesPut,
    responses((status = 200, body = RulesWritten), (status = 422, body = ErrorBody)))]
pub(super) async fn put_rules(
    door: EngineDoor,
    Ref(world): Ref,
    JsonBody(body): JsonBody<RulesPut>,
) -> Answer {
    written(StatusCode::OK, door.put_rules(&world, body).await?)
}

/// Whether a text restates a rule of a world, so that a put of it would be refused.
#[utoipa::path(post, path = "/v1/host/remembrancer/worlds/{world}/check", tag = "workshop",
    params(("world" = String, Path)), request_body = RuleCheck, responses((status = 200, body = RuleChecked)))]
pub(super) async fn check_rule(
    door: EngineDoor,
    Ref(world): Ref,
    JsonBody(body): JsonBody<RuleCheck>,
) -> Answer {
    json(StatusCode::OK, &door.check_rule(&world, body).await?)
}

/// How the agents of which memories remember: every profile with all its values.
#[utoipa::path(get, path = "/v1/host/remembrancer/profiles", tag = "workshop", responses((status = 200, body = ProfileList)))]
pub(super) async fn list_profiles(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.profiles().await?)
}
