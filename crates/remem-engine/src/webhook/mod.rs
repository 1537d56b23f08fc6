//! Webhooks: subscriptions to a tenant's run events. This file has their types and records;
//! `manage` has the operations of callers, `send` makes one delivery, and the pass `deliver` makes
//! all of them.
//!
//! A webhook is one record. Its URL and secret are sealed: URLs often hold a token, and redaction
//! would make them unusable.

mod manage;
pub(crate) mod send;

pub use manage::{NewWebhook, RedeliveryResult, RegisteredWebhook};
use remem_core::record::or_default;
use remem_core::sabotage;
pub use send::{SIGNATURE_ALGORITHM, signature};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::seal;
use crate::secrets::RedactionRules;
use remem_core::{
    Actor, Policy, PrincipalId, Record, RecordBody, RecordKind, Sealed, Seq, ShapePolicy,
    StoredRecord, TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A webhook as callers see it.
#[derive(Clone, PartialEq)]
pub struct Webhook {
    /// The id of the webhook.
    pub id: String,
    /// The URL that it posts to, redacted.
    pub url: String,
    /// The types of events that it is sent.
    pub events: Vec<String>,
    /// Only events of runs with one of these tags; of all runs if empty.
    pub tags: Vec<String>,
    /// The first eight hex digits of the SHA-256 of its secret.
    pub fingerprint: String,
    /// When the webhook was registered.
    pub created_at: Timestamp,
    /// Whether deliveries have stopped, because the receiver answered that it is gone.
    pub paused: bool,
    /// Counts and times of its deliveries.
    pub health: WebhookHealth,
}

/// Counts and times of a webhook's deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookHealth {
    /// Failed attempts to deliver the current event.
    #[serde(deserialize_with = "or_default")]
    pub attempts: u32,
    /// Failed attempts in all.
    #[serde(deserialize_with = "or_default")]
    pub failures: u64,
    /// Number of events that were delivered.
    #[serde(deserialize_with = "or_default")]
    pub deliveries: u64,
    /// When an attempt last succeeded.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_success_at: Option<Timestamp>,
    /// When an attempt last failed.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_failure_at: Option<Timestamp>,
    /// Why it failed: a status or a class of error, never text from the receiver.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_error: Option<String>,
    /// When the next attempt is due.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub next_attempt_at: Option<Timestamp>,
}

// Prints no URL, which can hold a token.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("id", &self.id)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// An event whose delivery to a webhook was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The id of the webhook.
    #[serde(skip)]
    pub(crate) webhook: String,
    /// The event's position in the tenant's log.
    pub seq: Seq,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: String,
    /// The id of the event's run; empty if it has none.
    #[serde(rename = "runId")]
    pub run: String,
    /// Number of attempts that were made.
    #[serde(default, deserialize_with = "or_default")]
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When the last attempt was made.
    pub at: Timestamp,
    /// The user who alone may see the event.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) only_for: Option<String>,
}

/// A webhook as its record stores it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookRecord {
    #[serde(skip)]
    pub id: String,
    /// The version of its record.
    #[serde(skip)]
    pub version: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub events: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    pub fingerprint: String,
    pub created_at: Timestamp,
    #[serde(default, deserialize_with = "or_default")]
    pub paused: bool,
    /// Position in the log: everything up to this event was sent, skipped or given up.
    pub after: Seq,
    #[serde(flatten)]
    pub health: WebhookHealth,
    /// The user that registered it, whose private events are sent as well. Webhooks from before
    /// this was recorded get no private events.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub principal: Option<String>,
    /// The health that other users see, without private events. Absent until a private event was
    /// sent.
    #[serde(
        default,
        rename = "others",
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub shared_health: Option<WebhookHealth>,
    // Ciphertext is added to the body after its redaction.
    #[serde(skip_serializing)]
    url: Sealed,
    #[serde(skip_serializing)]
    secret: Sealed,
}

/// Purpose of the derived key that URLs and secrets are sealed with.
const KEY_PURPOSE: &str = "remembrancer webhook v1";

impl StoredRecord for WebhookRecord {
    const KIND: RecordKind = RecordKind::Webhook;

    fn key(&self) -> String {
        self.id.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.id.clone_from(&record.key);
        self.version = record.version;
    }
}

impl StoredRecord for DeadLetter {
    const KIND: RecordKind = RecordKind::DeadLetter;

    fn key(&self) -> String {
        dead_letter_key(&self.webhook, self.seq)
    }

    fn complete(&mut self, record: &Record) {
        let webhook = record.key.rsplit_once('/').map(|(webhook, _)| webhook);
        webhook.unwrap_or_default().clone_into(&mut self.webhook);
    }
}

impl WebhookRecord {
    /// Updates the health after an attempt. An attempt at a private event does not change the
    /// health that other users see.
    pub(crate) fn update_health(&mut self, is_private: bool, update: impl Fn(&mut WebhookHealth)) {
        if is_private && self.shared_health.is_none() {
            self.shared_health = Some(self.health.clone());
        }
        update(&mut self.health);
        if let Some(others) = self.shared_health.as_mut().filter(|_| !is_private) {
            update(others);
        }
    }

    /// The body of the webhook's record. Shapes of secrets were checked at registration; only
    /// registered secrets are redacted again.
    pub(crate) fn body(
        &self,
        policy: &Policy,
        rules: &RedactionRules,
        now: Timestamp,
    ) -> RecordBody {
        let policy = Policy {
            shapes: ShapePolicy::Off,
            ..policy.clone()
        };
        rules
            .admission(&policy, now)
            .redact_stored(self)
            .with_sealed("url", &self.url)
            .with_sealed("secret", &self.secret)
    }

    /// The user whose events the webhook may be sent.
    pub(crate) fn actor(&self) -> Actor {
        self.principal
            .as_deref()
            .and_then(PrincipalId::parse)
            .map_or(Actor::NoUser, Actor::User)
    }

    /// Whether an event may be sent to it now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        !self.paused && self.health.next_attempt_at.is_none_or(|at| at <= now)
    }
}

impl Engine {
    /// Reads the tenant's webhooks, by id.
    pub(crate) async fn load_webhooks(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<WebhookRecord>, EngineError> {
        // Concurrent registrations can exceed the limit by a few.
        let limit = u32::try_from(self.parts.policy.webhooks_max)
            .unwrap_or(u32::MAX)
            .saturating_mul(2);
        let records = self
            .parts
            .store
            .records(tenant, RecordKind::Webhook, "", None, limit)
            .await?;
        Ok(records.iter().filter_map(WebhookRecord::read).collect())
    }

    /// Encrypts a field of a webhook.
    fn seal_field(&self, tenant: &TenantId, id: &str, field: &str, plain: &str) -> Sealed {
        let key = Zeroizing::new(self.parts.host_key.derive(KEY_PURPOSE));
        seal::seal(
            &key,
            &seal::associated_data(sabotage!(
                "a-sealed-field-opens-anywhere",
                [tenant.as_str(), id, field],
                ["", id.split_at(0).0, field]
            )),
            plain.as_bytes(),
        )
    }

    /// Decrypts a field of a webhook.
    fn open_field(
        &self,
        tenant: &TenantId,
        id: &str,
        field: &str,
        sealed: &Sealed,
    ) -> Option<Zeroizing<String>> {
        let key = Zeroizing::new(self.parts.host_key.derive(KEY_PURPOSE));
        let bytes = seal::open(
            &key,
            &seal::associated_data(sabotage!(
                "a-sealed-field-opens-anywhere",
                [tenant.as_str(), id, field],
                ["", id.split_at(0).0, field]
            )),
            sealed,
        )?;
        std::str::from_utf8(&bytes)
            .ok()
            .map(|text| Zeroizing::new(text.to_owned()))
    }

    /// Decrypts the URL and the secret; `None` if the host's key has changed since registration.
    pub(crate) fn open_webhook(
        &self,
        tenant: &TenantId,
        hook: &WebhookRecord,
    ) -> Option<(Zeroizing<String>, Zeroizing<String>)> {
        Some((
            self.open_field(tenant, &hook.id, "url", &hook.url)?,
            self.open_field(tenant, &hook.id, "secret", &hook.secret)?,
        ))
    }
}

impl DeadLetter {
    /// Whether the caller may see the event.
    fn is_visible_to(&self, caller: &Caller) -> bool {
        self.only_for.as_deref().is_none_or(|user| {
            sabotage!(
                "anybody-sees-dead-letters",
                user == caller.principal().as_str(),
                true
            )
        })
    }

    /// The body of the dead letter's record.
    pub(crate) fn body(
        &self,
        policy: &Policy,
        rules: &RedactionRules,
        now: Timestamp,
    ) -> RecordBody {
        let policy = Policy {
            shapes: ShapePolicy::Off,
            ..policy.clone()
        };
        rules.admission(&policy, now).redact_stored(self)
    }
}

/// The key of a dead letter's record; sorts by position.
pub(crate) fn dead_letter_key(webhook: &str, seq: Seq) -> String {
    format!("{webhook}/{:012}", seq.0)
}
