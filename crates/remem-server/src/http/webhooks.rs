//! Endpoints of webhooks: register and remove as OpenWOP defines them; list, dead letters and
//! redelivery as extensions of this host.

use super::extract::{IdempotencyKey, JsonBody, PathParam, PathParamPair, QueryParams};
use super::{HandlerResult, json_response, write_response};
use crate::api::{LocalApi, WriteAnswer, engine_failure};
use axum::http::StatusCode;
use remem_core::{Seq, sabotage};
use remem_engine::webhook::{DeadLetter, NewWebhook, Webhook};
use remem_wire::time::Instant;
use remem_wire::webhook::{
    DeadLetterInfo, DeadLetterList, DeadLettersQuery, Redelivery, WebhookCreated, WebhookInfo,
    WebhookList, WebhookRegister, WebhookRemoveQuery,
};
use remem_wire::{ErrorBody, Problem, number};

fn webhook_info(webhook: Webhook) -> WebhookInfo {
    let Webhook {
        id,
        url,
        events,
        tags,
        fingerprint,
        created_at,
        paused,
        health,
    } = webhook;
    WebhookInfo {
        webhook_id: id,
        url,
        event_types: events,
        tags,
        secret_fingerprint: fingerprint,
        created_at: Instant(created_at),
        state: if paused { "paused" } else { "active" }.to_owned(),
        deliveries: health.deliveries,
        failures: health.failures,
        attempts: health.attempts,
        last_success_at: health.last_success_at.map(Instant),
        last_failure_at: health.last_failure_at.map(Instant),
        last_error: health.last_error,
        next_attempt_at: health.next_attempt_at.map(Instant),
    }
}

fn dead_letter_info(letter: DeadLetter) -> DeadLetterInfo {
    let DeadLetter {
        seq,
        kind,
        run,
        attempts,
        error,
        at,
        ..
    } = letter;
    DeadLetterInfo {
        sequence: seq.0,
        r#type: kind,
        run_id: Some(run).filter(|run| !run.is_empty()),
        attempts,
        error,
        at: Instant(at),
    }
}

/// Whether a request names a tenant that is not the key's.
fn names_another(api: &LocalApi, tenant: Option<&str>) -> bool {
    sabotage!(
        "webhooks-are-registered-for-other-tenants",
        tenant.is_some_and(|tenant| tenant != api.caller.tenant().as_str()),
        false
    )
}

/// Register a webhook: it is posted the run events of the caller's tenant from now on. The secret
/// is shown this once.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", params(("Idempotency-Key" = Option<String>, Header)),
    request_body = WebhookRegister,
    responses((status = 201, body = WebhookCreated), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn register(
    api: LocalApi,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<WebhookRegister>,
) -> HandlerResult {
    let WebhookRegister {
        url,
        events,
        tags,
        secret,
        tenant_id,
    } = body;
    if names_another(&api, tenant_id.as_deref()) {
        api.caller
            .require(remem_core::Permission::WebhooksManage)
            .map_err(engine_failure)?;
        return Err(Problem::ForeignTenant.into());
    }
    if events.is_empty() {
        api.caller
            .require(remem_core::Permission::WebhooksManage)
            .map_err(engine_failure)?;
        return Err(
            Problem::malformed("/events", "events must name at least one event type").into(),
        );
    }
    let new = NewWebhook {
        url,
        events,
        tags: tags.unwrap_or_default(),
        secret,
    };
    let created = api
        .engine
        .register_webhook(&api.caller, new, key.0.as_deref())
        .await
        .map_err(engine_failure)?;
    let value = WebhookCreated {
        webhook_id: created.webhook.id.clone(),
        subscription_id: created.webhook.id,
        url: created.webhook.url,
        secret: created.secret.to_string(),
        secret_fingerprint: created.webhook.fingerprint,
        event_types: created.webhook.events,
        created_at: Instant(created.webhook.created_at),
        signature_algorithm: remem_engine::webhook::SIGNATURE_ALGORITHM.to_owned(),
    };
    write_response(
        StatusCode::CREATED,
        WriteAnswer {
            value,
            revision: created.revision.0.to_string(),
            replayed: created.replayed,
        },
    )
}

/// Removes a webhook with its dead letters.
#[utoipa::path(delete, path = "/v1/webhooks/{webhookId}", tag = "webhooks", params(("webhookId" = String, Path), WebhookRemoveQuery),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove(
    api: LocalApi,
    PathParam(id): PathParam,
    QueryParams(query): QueryParams<WebhookRemoveQuery>,
) -> HandlerResult {
    if names_another(&api, query.tenant_id.as_deref()) {
        api.caller
            .require(remem_core::Permission::WebhooksManage)
            .map_err(engine_failure)?;
        return Err(Problem::UnknownWebhook.into());
    }
    let revision = api
        .engine
        .remove_webhook(&api.caller, &id)
        .await
        .map_err(engine_failure)?;
    write_response(
        StatusCode::NO_CONTENT,
        WriteAnswer {
            value: (),
            revision: revision.0.to_string(),
            replayed: false,
        },
    )
}

/// Lists the tenant's webhooks and the health of their deliveries, without their secrets.
#[utoipa::path(get, path = "/v1/host/remembrancer/webhooks", tag = "webhooks", responses((status = 200, body = WebhookList)))]
pub(super) async fn list(api: LocalApi) -> HandlerResult {
    let webhooks = api
        .engine
        .list_webhooks(&api.caller)
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &WebhookList {
            webhooks: webhooks.into_iter().map(webhook_info).collect(),
        },
    )
}

/// Lists the events that could not be delivered to a webhook, oldest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/webhooks/{webhookId}/dead-letters", tag = "webhooks",
    params(("webhookId" = String, Path), DeadLettersQuery),
    responses((status = 200, body = DeadLetterList), (status = 404, body = ErrorBody)))]
pub(super) async fn dead_letters(
    api: LocalApi,
    PathParam(id): PathParam,
    QueryParams(query): QueryParams<DeadLettersQuery>,
) -> HandlerResult {
    let after = Seq(query.after.unwrap_or(0));
    let (letters, more) = api
        .engine
        .list_dead_letters(&api.caller, &id, after, query.limit)
        .await
        .map_err(engine_failure)?;
    let next_after = letters.last().filter(|_| more).map(|last| last.seq.0);
    json_response(
        StatusCode::OK,
        &DeadLetterList {
            dead_letters: letters.into_iter().map(dead_letter_info).collect(),
            next_after,
        },
    )
}

/// Delivers a dead letter once more, now.
#[utoipa::path(post, path = "/v1/host/remembrancer/webhooks/{webhookId}/dead-letters/{sequence}/redeliver", tag = "webhooks",
    params(("webhookId" = String, Path), ("sequence" = u64, Path)),
    responses((status = 200, body = Redelivery), (status = 404, body = ErrorBody)))]
pub(super) async fn redeliver(
    api: LocalApi,
    PathParamPair(id, sequence): PathParamPair,
) -> HandlerResult {
    let sequence = number::parse(&sequence).ok_or_else(|| Problem::MalformedPath {
        hint: format!("sequence must be a whole number up to {}", number::MAX),
    })?;
    let done = api
        .engine
        .redeliver(&api.caller, &id, Seq(sequence))
        .await
        .map_err(engine_failure)?;
    json_response(
        StatusCode::OK,
        &Redelivery {
            delivered: done.delivered,
            error: done.error,
        },
    )
}
