//! Operations of callers on webhooks: register, list, remove, list dead letters and deliver one
//! again.

use super::send::{DeliveryAttempt, fingerprint, hex};
use super::{DeadLetter, Webhook, WebhookHealth, WebhookRecord, dead_letter_key};
use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use remem_core::sabotage;
use remem_core::webhook::{check_secret, check_url, event_types};
use remem_core::{
    Batch, Idempotency, Permission, Precondition, PrincipalId, Record, RecordKind, Rejection,
    Revision, Seq, StoredRecord, Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult, StoreError};
use zeroize::Zeroizing;

/// A webhook that a caller registers.
#[derive(Clone, Default)]
pub struct NewWebhook {
    /// The URL to send events to.
    pub url: String,
    /// The types of events to send.
    pub events: Vec<String>,
    /// Only events of runs with one of these tags; of all runs if empty.
    pub tags: Vec<String>,
    /// The signing key, if the caller brings one.
    pub secret: Option<String>,
}

/// The result of registering a webhook, with its secret, which is never shown again.
pub struct RegisteredWebhook {
    /// The webhook as it was registered.
    pub webhook: Webhook,
    /// The key that deliveries are signed with.
    pub secret: Zeroizing<String>,
    /// The revision of the commit.
    pub revision: Revision,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// The result of delivering a dead letter again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedeliveryResult {
    /// Whether the receiver accepted the event; then the dead letter is gone.
    pub delivered: bool,
    /// Why the delivery failed.
    pub error: Option<String>,
}

/// How often a conflicting commit is retried: the pass `deliver` writes the same record.
const COMMIT_TRIES: u32 = 16;

impl Engine {
    /// Registers a webhook, which gets the events from now on.
    pub async fn register_webhook(
        &self,
        caller: &Caller,
        new: NewWebhook,
        key: Option<&str>,
    ) -> Result<RegisteredWebhook, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let policy = self.policy_of(caller);
        let chars = new.url.chars().count();
        let limit = policy.webhook_url_chars_max;
        if chars > limit {
            return Err(Rejection::TooLarge {
                field: "url",
                unit: "characters",
                limit: limit as u64,
                actual: chars as u64,
            }
            .into());
        }
        check_url(&new.url, policy.webhooks_private)?;
        new.secret.as_deref().map(check_secret).transpose()?;
        let idempotency = self.idempotency(
            "register-webhook",
            key,
            &registration_digest(caller.principal(), &new),
        )?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        let now = self.now_for(caller.tenant()).await?;
        let tags = rules.admission(&policy, now).admit_tags(&new.tags)?;
        let events = event_types(&new.events)?;
        if let Some(earlier) = self
            .check_webhook_room(caller, idempotency.as_ref())
            .await?
        {
            return self.registration_result(caller, earlier).await;
        }
        let hook = self.build_webhook(caller, &new, events, tags, now).await?;
        let body = hook.body(&policy, &rules, now);
        let batch = Batch::new(caller.tenant().clone(), now)
            .with_principal(caller.principal().clone())
            .idempotent(idempotency);
        let committed = self
            .parts
            .store
            .commit(batch.set_record(
                RecordKind::Webhook,
                hook.id.clone(),
                Precondition::Absent,
                body,
            ))
            .await?;
        if !committed.replayed {
            tracing::info!(tenant = %caller.tenant(), webhook = hook.id, fingerprint = hook.fingerprint, "webhook registered");
        }
        self.registration_result(caller, committed).await
    }

    /// Builds the record of a new webhook.
    async fn build_webhook(
        &self,
        caller: &Caller,
        new: &NewWebhook,
        events: Vec<String>,
        tags: Vec<String>,
        now: Timestamp,
    ) -> Result<WebhookRecord, EngineError> {
        let tenant = caller.tenant();
        let id = format!("wh_{}", self.parts.ids.unique_name());
        let secret = Zeroizing::new(new.secret.clone().unwrap_or_else(random_secret));
        Ok(WebhookRecord {
            version: 0,
            events,
            tags,
            fingerprint: fingerprint(&secret),
            created_at: now,
            paused: false,
            after: self.parts.store.head(tenant).await?.seq,
            health: WebhookHealth::default(),
            principal: Some(caller.principal().as_str().to_owned()),
            shared_health: None,
            url: self.seal_field(tenant, &id, "url", &new.url),
            secret: self.seal_field(tenant, &id, "secret", &secret),
            id,
        })
    }

    /// The result of a registration, now or earlier: the record holds the secret, sealed, for
    /// repetitions of the request.
    async fn registration_result(
        &self,
        caller: &Caller,
        committed: CommitResult,
    ) -> Result<RegisteredWebhook, EngineError> {
        let id = committed.outcomes.iter().find_map(|outcome| match outcome {
            ChangeOutcome::Recorded { key, .. } => Some(key.clone()),
            _ => None,
        });
        let hook = self
            .find_webhook(caller, id.as_deref().unwrap_or_default())
            .await?;
        let (_, secret) = self
            .open_webhook(caller.tenant(), &hook)
            .ok_or(EngineError::UnknownWebhook)?;
        let webhook =
            self.webhook_view(caller, &*self.redaction_rules(caller.tenant()).await?, hook);
        Ok(RegisteredWebhook {
            webhook,
            secret,
            revision: committed.revision,
            replayed: committed.replayed,
        })
    }

    /// Fails when the tenant has too many webhooks. A repetition of a registration that succeeded
    /// is returned instead.
    async fn check_webhook_room(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
    ) -> Result<Option<CommitResult>, EngineError> {
        let limit = self.parts.policy.webhooks_max;
        if self.load_webhooks(caller.tenant()).await?.len() < limit {
            return Ok(None);
        }
        let too_many = Rejection::TooLarge {
            field: "webhooks",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        let earlier = self.replayed_commit(caller.tenant(), key).await?;
        earlier.ok_or_else(|| too_many.into()).map(Some)
    }

    /// Lists the tenant's webhooks, without their secrets.
    pub async fn list_webhooks(&self, caller: &Caller) -> Result<Vec<Webhook>, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        Ok(self
            .load_webhooks(caller.tenant())
            .await?
            .into_iter()
            .map(|hook| self.webhook_view(caller, &rules, hook))
            .collect())
    }

    /// A webhook as the caller may see it: redacted, and without the health of private deliveries.
    fn webhook_view(
        &self,
        caller: &Caller,
        rules: &RedactionRules,
        hook: WebhookRecord,
    ) -> Webhook {
        let url = self
            .open_field(caller.tenant(), &hook.id, "url", &hook.url)
            .unwrap_or_default();
        let url = rules
            .redactor()
            .clean(&url, self.policy_of(caller).shapes)
            .text
            .into_string();
        let is_own = hook.principal.as_deref() == Some(caller.principal().as_str());
        let WebhookRecord {
            id,
            events,
            mut tags,
            fingerprint,
            created_at,
            paused,
            health,
            shared_health: others,
            ..
        } = hook;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        for tag in &mut tags {
            let redacted = admission.redact_short_text(tag);
            sabotage!("late-secrets-show-in-tags-of-webhooks", *tag = redacted);
        }
        let health = others
            .filter(|_| sabotage!("how-a-webhook-does-tells-of-one-s-own", !is_own, false))
            .unwrap_or(health);
        Webhook {
            id,
            url,
            events,
            tags,
            fingerprint,
            created_at,
            paused,
            health,
        }
    }

    /// Reads a webhook's record; fails if it does not exist.
    async fn find_webhook(&self, caller: &Caller, id: &str) -> Result<WebhookRecord, EngineError> {
        let is_valid_id =
            id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let record = if is_valid_id {
            self.parts
                .store
                .record(caller.tenant(), RecordKind::Webhook, id)
                .await?
        } else {
            None
        };
        record
            .as_ref()
            .and_then(WebhookRecord::read)
            .ok_or(EngineError::UnknownWebhook)
    }

    /// Removes a webhook with its dead letters.
    pub async fn remove_webhook(&self, caller: &Caller, id: &str) -> Result<Revision, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        for _ in 0..COMMIT_TRIES {
            let hook = self.find_webhook(caller, id).await?;
            let now = self.now_for(caller.tenant()).await?;
            let mut batch =
                Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
            batch = batch.delete_record(
                RecordKind::Webhook,
                hook.id.clone(),
                Precondition::Version(hook.version),
            );
            for letter in self
                .dead_letter_records(caller, &hook, Seq(0), u32::MAX)
                .await?
            {
                batch = batch.delete_record(RecordKind::DeadLetter, letter.key, Precondition::None);
            }
            match self.parts.store.commit(batch).await {
                Ok(committed) => {
                    tracing::info!(tenant = %caller.tenant(), webhook = hook.id, fingerprint = hook.fingerprint, "webhook removed");
                    return Ok(committed.revision);
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Reads the records of a webhook's dead letters after a position.
    async fn dead_letter_records(
        &self,
        caller: &Caller,
        hook: &WebhookRecord,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Record>, EngineError> {
        let prefix = format!("{}/", hook.id);
        let after = dead_letter_key(&hook.id, after);
        // The pass may store one dead letter more before it deletes the oldest.
        let limit = limit.min(
            u32::try_from(self.parts.policy.dead_letters_max)
                .unwrap_or(u32::MAX)
                .saturating_add(1),
        );
        Ok(self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::DeadLetter,
                &prefix,
                Some(&after),
                limit,
            )
            .await?)
    }

    /// Lists the events that a webhook did not accept, oldest first, after a position; and whether
    /// there are more.
    pub async fn list_dead_letters(
        &self,
        caller: &Caller,
        id: &str,
        after: Seq,
        limit: Option<u32>,
    ) -> Result<(Vec<DeadLetter>, bool), EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let hook = self.find_webhook(caller, id).await?;
        let limit = self.parts.policy.list_limit(limit) as usize;
        // Read all of them, which are not many: some may be for another user only.
        let records = self
            .dead_letter_records(caller, &hook, after, u32::MAX)
            .await?;
        let mut letters: Vec<DeadLetter> = records
            .iter()
            .filter_map(DeadLetter::read)
            .filter(|letter| letter.is_visible_to(caller))
            .collect();
        let more = letters.len() > limit;
        letters.truncate(limit);
        Ok((letters, more))
    }

    /// Delivers a dead letter again, now. A success removes it from the list.
    pub async fn redeliver(
        &self,
        caller: &Caller,
        id: &str,
        seq: Seq,
    ) -> Result<RedeliveryResult, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let tenant = caller.tenant();
        let hook = self.find_webhook(caller, id).await?;
        let key = dead_letter_key(&hook.id, seq);
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::DeadLetter, &key)
            .await?
            .ok_or(EngineError::NotFound("dead letter"))?;
        let letter = DeadLetter::read(&record)
            .filter(|letter| letter.is_visible_to(caller))
            .ok_or(EngineError::NotFound("dead letter"))?;
        let events = self
            .parts
            .store
            .events(tenant, Seq(seq.0.saturating_sub(1)), 1)
            .await?;
        let event = events
            .first()
            .filter(|event| event.seq == seq)
            .ok_or(EngineError::NotFound("dead letter"))?;
        let error = match self.send(tenant, &hook, event).await {
            DeliveryAttempt::Delivered => None,
            DeliveryAttempt::Gone => Some("status_410".to_owned()),
            DeliveryAttempt::Failed(error) => Some(error),
        };
        let now = self.now_for(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        let batch = match &error {
            None => batch.delete_record(RecordKind::DeadLetter, key, Precondition::None),
            Some(error) => {
                let letter = DeadLetter {
                    attempts: letter.attempts.saturating_add(1),
                    error: error.clone(),
                    at: now,
                    ..letter
                };
                let body = letter.body(
                    &self.parts.policy,
                    &*self.redaction_rules(tenant).await?,
                    now,
                );
                batch.set_record(
                    RecordKind::DeadLetter,
                    key,
                    Precondition::Version(record.version),
                    body,
                )
            }
        };
        match self.parts.store.commit(batch).await {
            // Another request has removed or delivered the letter meanwhile: the receiver's answer
            // is returned all the same.
            Ok(_) | Err(StoreError::Conflict) => Ok(RedeliveryResult {
                delivered: error.is_none(),
                error,
            }),
            Err(other) => Err(other.into()),
        }
    }
}

/// Digest of a registration, for its idempotency key. It belongs to the user: the webhook is sent
/// events that only this user may see, and the answer holds its secret, so no other user may repeat
/// the request.
fn registration_digest(user: &PrincipalId, new: &NewWebhook) -> RequestDigest {
    let mut digest = RequestDigest::of_user(user);
    digest.part(new.url.as_bytes());
    digest.part(new.secret.as_deref().unwrap_or_default().as_bytes());
    for list in [&new.events, &new.tags] {
        digest.part(&(list.len() as u64).to_le_bytes());
        list.iter().for_each(|item| digest.part(item.as_bytes()));
    }
    digest
}

/// A new signing key of 32 random bytes, in hex.
fn random_secret() -> String {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).expect("the machine has randomness");
    hex(bytes.as_ref())
}
