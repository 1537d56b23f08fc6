//! What callers do with webhooks: register, list, remove, look at dead letters and try one again.

use super::send::{Attempt, fingerprint, hex};
use super::{DeadLetter, Health, Hook, Webhook, dead_letter_key};
use crate::caller::Caller;
use crate::engine::{Digest, Engine};
use crate::error::EngineError;
use crate::secrets::Rules;
use remem_core::sabotage;
use remem_core::webhook::{check_secret, check_url, event_types};
use remem_core::{
    Batch, Idempotency, Permission, Precondition, PrincipalId, Record, RecordKind, Rejection,
    Revision, Seq, Timestamp,
};
use remem_store::{Committed, Outcome, StoreError};
use zeroize::Zeroizing;

/// What a caller asks for.
#[derive(Clone, Default)]
pub struct NewWebhook {
    /// Where to.
    pub url: String,
    /// Which events.
    pub events: Vec<String>,
    /// Of runs with one of these tags; of all if empty.
    pub tags: Vec<String>,
    /// The signing key, if the caller has one already.
    pub secret: Option<String>,
}

/// A fresh webhook, with its secret for the only time.
pub struct Registered {
    /// What it is.
    pub webhook: Webhook,
    /// What signatures are made with.
    pub secret: Zeroizing<String>,
    /// The commit.
    pub revision: Revision,
    /// It repeats an earlier answer.
    pub replayed: bool,
}

/// How another attempt at a dead letter went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redelivered {
    /// The receiver took it; the dead letter is gone.
    pub delivered: bool,
    /// Why not.
    pub error: Option<String>,
}

/// The pass may write the record at the same time.
const TRIES: u32 = 16;

impl Engine {
    /// Registers a webhook. It gets what happens from now on.
    pub async fn register_webhook(
        &self,
        caller: &Caller,
        new: NewWebhook,
        key: Option<&str>,
    ) -> Result<Registered, EngineError> {
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
        let idempotency =
            self.idempotency("register-webhook", key, &digest(caller.principal(), &new))?;
        let rules = self.rules(caller.tenant()).await?;
        let now = self.now_for(caller.tenant()).await?;
        let tags = rules.admission(&policy, now).tag_texts(&new.tags)?;
        let events = event_types(&new.events)?;
        if let Some(earlier) = self.no_room(caller, idempotency.as_ref()).await? {
            return self.registered(caller, earlier).await;
        }
        let hook = self.new_hook(caller, &new, events, tags, now).await?;
        let body = hook.body(&policy, &rules, now);
        let batch = Batch::new(caller.tenant().clone(), now)
            .by(caller.principal().clone())
            .idempotent(idempotency);
        let committed = self
            .parts
            .store
            .commit(batch.set(
                RecordKind::Webhook,
                hook.id.clone(),
                Precondition::Absent,
                body,
            ))
            .await?;
        if !committed.replayed {
            tracing::info!(tenant = %caller.tenant(), webhook = hook.id, fingerprint = hook.fingerprint, "webhook registered");
        }
        self.registered(caller, committed).await
    }

    async fn new_hook(
        &self,
        caller: &Caller,
        new: &NewWebhook,
        events: Vec<String>,
        tags: Vec<String>,
        now: Timestamp,
    ) -> Result<Hook, EngineError> {
        let tenant = caller.tenant();
        let id = format!("wh_{}", self.parts.ids.holder());
        let secret = Zeroizing::new(new.secret.clone().unwrap_or_else(random_secret));
        Ok(Hook {
            version: 0,
            events,
            tags,
            fingerprint: fingerprint(&secret),
            created_at: now,
            paused: false,
            after: self.parts.store.head(tenant).await?.seq,
            health: Health::default(),
            principal: Some(caller.principal().as_str().to_owned()),
            others: None,
            url: self.sealed(tenant, &id, "url", &new.url),
            secret: self.sealed(tenant, &id, "secret", &secret),
            id,
        })
    }

    /// The answer to a registration, now or earlier: the secret is in the record, sealed, for a
    /// repetition to find.
    async fn registered(
        &self,
        caller: &Caller,
        committed: Committed,
    ) -> Result<Registered, EngineError> {
        let id = committed.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Recorded { key, .. } => Some(key.clone()),
            _ => None,
        });
        let hook = self.hook(caller, id.as_deref().unwrap_or_default()).await?;
        let (_, secret) = self
            .open_hook(caller.tenant(), &hook)
            .ok_or(EngineError::NoWebhook)?;
        let webhook = self.shown(caller, &*self.rules(caller.tenant()).await?, hook);
        Ok(Registered {
            webhook,
            secret,
            revision: committed.revision,
            replayed: committed.replayed,
        })
    }

    /// Refuses when the tenant has enough webhooks, unless the request repeats one that was done.
    async fn no_room(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
    ) -> Result<Option<Committed>, EngineError> {
        let limit = self.parts.policy.webhooks_max;
        if self.hooks(caller.tenant()).await?.len() < limit {
            return Ok(None);
        }
        let full = Rejection::TooLarge {
            field: "webhooks",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        let earlier = self.first_answer(caller.tenant(), key).await?;
        earlier.ok_or_else(|| full.into()).map(Some)
    }

    /// The tenant's webhooks, without their secrets.
    pub async fn webhooks(&self, caller: &Caller) -> Result<Vec<Webhook>, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let rules = self.rules(caller.tenant()).await?;
        Ok(self
            .hooks(caller.tenant())
            .await?
            .into_iter()
            .map(|hook| self.shown(caller, &rules, hook))
            .collect())
    }

    fn shown(&self, caller: &Caller, rules: &Rules, hook: Hook) -> Webhook {
        let url = self
            .opened(caller.tenant(), &hook.id, "url", &hook.url)
            .unwrap_or_default();
        let url = rules
            .redactor()
            .clean(&url, self.policy_of(caller).shapes)
            .text
            .into_string();
        let is_own = hook.principal.as_deref() == Some(caller.principal().as_str());
        let Hook {
            id,
            events,
            mut tags,
            fingerprint,
            created_at,
            paused,
            health,
            others,
            ..
        } = hook;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        for tag in &mut tags {
            let clean = admission.short_text(tag);
            sabotage!("late-secrets-show-in-tags-of-webhooks", *tag = clean);
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

    async fn hook(&self, caller: &Caller, id: &str) -> Result<Hook, EngineError> {
        let named = id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let record = if named {
            self.parts
                .store
                .record(caller.tenant(), RecordKind::Webhook, id)
                .await?
        } else {
            None
        };
        record
            .as_ref()
            .and_then(Hook::read)
            .ok_or(EngineError::NoWebhook)
    }

    /// Removes a webhook with its dead letters.
    pub async fn remove_webhook(&self, caller: &Caller, id: &str) -> Result<Revision, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        for _ in 0..TRIES {
            let hook = self.hook(caller, id).await?;
            let now = self.now_for(caller.tenant()).await?;
            let mut batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
            batch = batch.unset(
                RecordKind::Webhook,
                hook.id.clone(),
                Precondition::Version(hook.version),
            );
            for letter in self.letters(caller, &hook, Seq(0), u32::MAX).await? {
                batch = batch.unset(RecordKind::DeadLetter, letter.key, Precondition::None);
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

    async fn letters(
        &self,
        caller: &Caller,
        hook: &Hook,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Record>, EngineError> {
        let prefix = format!("{}/", hook.id);
        let after = dead_letter_key(&hook.id, after);
        // The pass may be ahead of its own clearing up by one.
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

    /// What a webhook did not take, oldest first, after a position; and whether there is more.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        id: &str,
        after: Seq,
        limit: Option<u32>,
    ) -> Result<(Vec<DeadLetter>, bool), EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let hook = self.hook(caller, id).await?;
        let limit = self.parts.policy.list_limit(limit) as usize;
        // All of them, which are not many: some may be for another user alone.
        let records = self.letters(caller, &hook, after, u32::MAX).await?;
        let mut letters: Vec<DeadLetter> = records
            .iter()
            .filter_map(DeadLetter::read)
            .filter(|one| one.is_shown_to(caller))
            .collect();
        let more = letters.len() > limit;
        letters.truncate(limit);
        Ok((letters, more))
    }

    /// Tries a dead letter once more, now. A success takes it off the list.
    pub async fn redeliver(
        &self,
        caller: &Caller,
        id: &str,
        seq: Seq,
    ) -> Result<Redelivered, EngineError> {
        caller.require(Permission::WebhooksManage)?;
        let tenant = caller.tenant();
        let hook = self.hook(caller, id).await?;
        let key = dead_letter_key(&hook.id, seq);
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::DeadLetter, &key)
            .await?
            .ok_or(EngineError::NotFound("dead letter"))?;
        let letter = DeadLetter::read(&record)
            .filter(|one| one.is_shown_to(caller))
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
            Attempt::Delivered => None,
            Attempt::Gone => Some("status_410".to_owned()),
            Attempt::Failed(error) => Some(error),
        };
        let now = self.now_for(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
        let batch = match &error {
            None => batch.unset(RecordKind::DeadLetter, key, Precondition::None),
            Some(error) => {
                let letter = DeadLetter {
                    attempts: letter.attempts.saturating_add(1),
                    error: error.clone(),
                    at: now,
                    ..letter
                };
                let body = letter.body(&self.parts.policy, &*self.rules(tenant).await?, now);
                batch.set(
                    RecordKind::DeadLetter,
                    key,
                    Precondition::Version(record.version),
                    body,
                )
            }
        };
        match self.parts.store.commit(batch).await {
            // Somebody else took the letter away or tried it too: what the receiver said stays
            // true.
            Ok(_) | Err(StoreError::Conflict) => Ok(Redelivered {
                delivered: error.is_none(),
                error,
            }),
            Err(other) => Err(other.into()),
        }
    }
}

/// A webhook is sent what is its user's own, and the answer holds its secret: nobody else repeats
/// the request.
fn digest(user: &PrincipalId, new: &NewWebhook) -> Digest {
    let mut digest = Digest::of_user(user);
    digest.part(new.url.as_bytes());
    digest.part(new.secret.as_deref().unwrap_or_default().as_bytes());
    for list in [&new.events, &new.tags] {
        digest.part(&(list.len() as u64).to_le_bytes());
        list.iter().for_each(|item| digest.part(item.as_bytes()));
    }
    digest
}

fn random_secret() -> String {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).expect("the machine has randomness");
    hex(bytes.as_ref())
}
