//! Webhooks on the wire: registering and watching them, and what they are sent.

use crate::event::EventDoc;
use crate::run::RunEventDoc;
use crate::time::Instant;
use remem_core::webhook::is_standing;
use remem_core::{Event, TenantId};
use serde::{Deserialize, Serialize};

/// What to subscribe to.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookRegister {
    /// Where events are posted: `https`, on the public internet.
    pub url: String,
    /// Event types, one at least.
    pub events: Vec<String>,
    /// Only of runs that carry one of these tags; then nothing that no run caused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Taken and ignored: the key decides the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// A signing key of one's own, 16 to 256 visible characters; made by the host if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A fresh webhook.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookCreated {
    /// Its name.
    pub webhook_id: String,
    /// The same name, as clients call it.
    pub subscription_id: String,
    /// Where events are posted.
    pub url: String,
    /// What signatures are made with: shown this once.
    pub secret: String,
    /// The first eight hex digits of the secret's SHA-256.
    pub secret_fingerprint: String,
    /// What it subscribes to.
    pub event_types: Vec<String>,
    /// Since when.
    pub created_at: Instant,
    /// `v1`: HMAC-SHA256 over `{timestamp}.{body}`.
    pub signature_algorithm: String,
}

/// A webhook in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookInfo {
    /// Its name.
    pub webhook_id: String,
    /// Where events are posted, redacted.
    pub url: String,
    /// What it subscribes to.
    pub event_types: Vec<String>,
    /// Only of runs that carry one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The first eight hex digits of the secret's SHA-256.
    pub secret_fingerprint: String,
    /// Since when.
    pub created_at: Instant,
    /// `active`, or `paused` because the receiver answered 410.
    pub state: String,
    /// Events that arrived.
    pub deliveries: u64,
    /// Failed attempts at all.
    pub failures: u64,
    /// Failed attempts at the event that is due.
    pub attempts: u32,
    /// When one last arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Instant>,
    /// When one last did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Instant>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When the next attempt is made, if one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Instant>,
}

/// The tenant's webhooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookList {
    /// By name.
    pub webhooks: Vec<WebhookInfo>,
}

/// Query of a removal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WebhookRemoveQuery {
    /// Taken and ignored: the key decides the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
}

/// Which dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLettersQuery {
    /// Only after this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many at the most (100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// An event that a webhook did not take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterInfo {
    /// Its position in the tenant's log, and its name here.
    pub sequence: u64,
    /// Its type.
    pub r#type: String,
    /// The run; absent of what no run caused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When that was.
    pub at: Instant,
}

/// A page of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterList {
    /// Oldest first.
    pub dead_letters: Vec<DeadLetterInfo>,
    /// Pass as `after` to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
}

/// How another attempt went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redelivery {
    /// The receiver took it; it is a dead letter no more.
    pub delivered: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a webhook is sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery<'a> {
    /// The run; absent of what no run caused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<&'a str>,
    /// The tenant.
    pub workspace_id: &'a str,
    /// The event.
    pub event: Delivered,
}

/// The event of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Delivered {
    /// As in the run's own log.
    OfRun(RunEventDoc),
    /// As in the tenant's log.
    Standing(StandingEvent),
}

/// An event that no run caused.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StandingEvent {
    /// Unique in the tenant.
    pub event_id: String,
    /// What happened.
    pub r#type: String,
    /// Ids and closed words.
    pub payload: serde_json::Value,
    /// When.
    pub timestamp: Instant,
    /// Position in the tenant's log.
    pub sequence: u64,
}

/// The body of a delivery; `None` if no webhook is ever sent the event.
#[must_use]
pub fn envelope(tenant: &TenantId, event: &Event) -> Option<Vec<u8>> {
    let run_id = event.run.as_ref().map(|run| run.id.as_str());
    let told = match RunEventDoc::of(event) {
        Some(doc) => Delivered::OfRun(doc),
        None if is_standing(event.body.kind()) => {
            let EventDoc {
                event_id,
                sequence,
                r#type,
                timestamp,
                payload,
                ..
            } = EventDoc::from(event);
            Delivered::Standing(StandingEvent {
                event_id,
                r#type,
                payload,
                timestamp,
                sequence,
            })
        }
        None => return None,
    };
    serde_json::to_vec(&Delivery {
        run_id,
        workspace_id: tenant.as_str(),
        event: told,
    })
    .ok()
}
