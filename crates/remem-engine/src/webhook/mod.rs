//! Webhooks: subscriptions to a tenant's run events. This file has their types and records;
//! `manage` has the operations of callers, `send` makes one delivery, and the pass `deliver` makes
//! all of them.
//!
//! A webhook is one record. Its URL and secret are sealed: URLs often hold a token, and redaction
//! would make them unusable.

mod manage;
pub(crate) mod send;

pub use manage::{NewWebhook, RedeliveryResult, RegisteredWebhook};
use remem_core::sabotage;
pub use send::{SIGNATURE_ALGORITHM, signature};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::seal;
use crate::secrets::RedactionRules;
use remem_core::{
    Actor, Policy, PrincipalId, Record, RecordBody, RecordKind, Sealed, Seq, ShapePolicy, TenantId,
    Timestamp,
};
use serde_json::{Map, Value, json};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookHealth {
    /// Failed attempts to deliver the current event.
    pub attempts: u32,
    /// Failed attempts in all.
    pub failures: u64,
    /// Number of events that were delivered.
    pub deliveries: u64,
    /// When an attempt last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// When an attempt last failed.
    pub last_failure_at: Option<Timestamp>,
    /// Why it failed: a status or a class of error, never text from the receiver.
    pub last_error: Option<String>,
    /// When the next attempt is due.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The event's position in the tenant's log.
    pub seq: Seq,
    /// The type of the event.
    pub kind: String,
    /// The id of the event's run; empty if it has none.
    pub run: String,
    /// Number of attempts that were made.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When the last attempt was made.
    pub at: Timestamp,
    /// The user who alone may see the event.
    pub(crate) only_for: Option<String>,
}

/// A webhook as its record stores it.
#[derive(Clone)]
pub(crate) struct WebhookRecord {
    pub id: String,
    /// The version of its record.
    pub version: u64,
    pub events: Vec<String>,
    pub tags: Vec<String>,
    pub fingerprint: String,
    pub created_at: Timestamp,
    pub paused: bool,
    /// Position in the log: everything up to this event was sent, skipped or given up.
    pub after: Seq,
    pub health: WebhookHealth,
    /// The user that registered it, whose private events are sent as well. Webhooks from before
    /// this was recorded get no private events.
    pub principal: Option<String>,
    /// The health that other users see, without private events. Absent until a private event was
    /// sent.
    pub shared_health: Option<WebhookHealth>,
    url: Sealed,
    secret: Sealed,
}

/// Purpose of the derived key that URLs and secrets are sealed with.
const KEY_PURPOSE: &str = "remembrancer webhook v1";

impl WebhookHealth {
    /// Reads the health from the body of a record.
    fn from_body(body: &Map<String, Value>) -> WebhookHealth {
        WebhookHealth {
            attempts: count(body, "attempts"),
            failures: number(body, "failures").unwrap_or(0),
            deliveries: number(body, "deliveries").unwrap_or(0),
            last_success_at: time(body, "lastSuccessAt"),
            last_failure_at: time(body, "lastFailureAt"),
            last_error: text(body, "lastError"),
            next_attempt_at: time(body, "nextAttemptAt"),
        }
    }

    /// The health as fields of a record.
    fn to_map(&self) -> Map<String, Value> {
        let times = [
            self.last_success_at,
            self.last_failure_at,
            self.next_attempt_at,
        ]
        .map(|at| at.map(|at| at.0));
        let body = json!({"attempts": self.attempts, "failures": self.failures, "deliveries": self.deliveries, "lastError": self.last_error,
            "lastSuccessAt": times[0], "lastFailureAt": times[1], "nextAttemptAt": times[2]});
        let pairs = body.as_object().cloned().unwrap_or_default().into_iter();
        pairs.filter(|(_, value)| !value.is_null()).collect()
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

    /// Reads a webhook from its record; `None` if a field is missing.
    pub(crate) fn from_record(record: &Record) -> Option<WebhookRecord> {
        let body = &record.body;
        Some(WebhookRecord {
            id: record.key.clone(),
            version: record.version,
            events: texts(body, "events"),
            tags: texts(body, "tags"),
            fingerprint: text(body, "fingerprint")?,
            created_at: time(body, "createdAt")?,
            paused: body.get("paused").and_then(Value::as_bool).unwrap_or(false),
            after: Seq(number(body, "after")?),
            health: WebhookHealth::from_body(body),
            principal: text(body, "principal"),
            shared_health: body
                .get("others")
                .and_then(Value::as_object)
                .map(WebhookHealth::from_body),
            url: record.sealed("url")?,
            secret: record.sealed("secret")?,
        })
    }

    /// The body of the webhook's record. Shapes of secrets were checked at registration; only
    /// registered secrets are redacted again.
    pub(crate) fn body(
        &self,
        policy: &Policy,
        rules: &RedactionRules,
        now: Timestamp,
    ) -> RecordBody {
        let mut body = self.health.to_map();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        put("events", json!(self.events));
        put("tags", json!(self.tags));
        put("fingerprint", json!(self.fingerprint));
        put("createdAt", json!(self.created_at.0));
        put("paused", json!(self.paused));
        put("after", json!(self.after.0));
        put("principal", json!(self.principal));
        put(
            "others",
            self.shared_health
                .as_ref()
                .map_or(Value::Null, |others| Value::Object(others.to_map())),
        );
        let policy = Policy {
            shapes: ShapePolicy::Off,
            ..policy.clone()
        };
        rules
            .admission(&policy, now)
            .redact_record(body)
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
        Ok(records
            .iter()
            .filter_map(WebhookRecord::from_record)
            .collect())
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
    /// Reads a dead letter from its record.
    fn from_record(record: &Record) -> Option<DeadLetter> {
        let body = &record.body;
        Some(DeadLetter {
            seq: Seq(number(body, "seq")?),
            kind: text(body, "type")?,
            run: text(body, "runId")?,
            attempts: count(body, "attempts"),
            error: text(body, "error")?,
            at: time(body, "at")?,
            only_for: text(body, "onlyFor"),
        })
    }

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
        let mut body = json!({"seq": self.seq.0, "type": self.kind, "runId": self.run, "attempts": self.attempts, "error": self.error,
            "at": self.at.0});
        if let Some(user) = &self.only_for {
            body["onlyFor"] = json!(user);
        }
        let policy = Policy {
            shapes: ShapePolicy::Off,
            ..policy.clone()
        };
        rules
            .admission(&policy, now)
            .redact_record(body.as_object().cloned().unwrap_or_default())
    }
}

/// The key of a dead letter's record; sorts by position.
pub(crate) fn dead_letter_key(webhook: &str, seq: Seq) -> String {
    format!("{webhook}/{:012}", seq.0)
}

/// A string field of a record.
fn text(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// A number in a record.
fn number(body: &Map<String, Value>, name: &str) -> Option<u64> {
    body.get(name).and_then(Value::as_u64)
}

/// A number in a record, or zero.
fn count(body: &Map<String, Value>, name: &str) -> u32 {
    number(body, name)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0)
}

/// An instant in a record.
fn time(body: &Map<String, Value>, name: &str) -> Option<Timestamp> {
    body.get(name).and_then(Value::as_i64).map(Timestamp)
}

/// A field of a record that holds strings.
pub(crate) fn texts(body: &Map<String, Value>, name: &str) -> Vec<String> {
    let items = body.get(name).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
