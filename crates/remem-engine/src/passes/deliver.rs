//! deliver: sends the events of runs, and the few events outside of runs that webhooks can request,
//! to the webhooks that want them: in order, each at least once.
//!
//! Each webhook's record holds its position in the tenant's log, written after every delivery under
//! the lease. A crash in between repeats one event, and a node that was paused for longer than its
//! lease cannot move a position. Webhooks are served concurrently, so that one that fails or is
//! slow holds up none of the others.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::event_visibility::EventVisibility;
use crate::registry::{PassMode, PassReport};
use crate::stored::run::RunHead;
use crate::webhook::send::DeliveryAttempt;
use crate::webhook::{DeadLetter, WebhookRecord};
use remem_core::sabotage;
use remem_core::webhook::is_sent_without_run;
use remem_core::{
    Batch, Event, Fence, Precondition, RecordKind, RunId, Seq, StoredRecord, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, StoreError};
use std::collections::HashMap;
use tokio::sync::Semaphore;

/// The name in `PASSES`, for `Engine::notify_work`.
pub(crate) const NAME: &str = "deliver";
/// Events read with one query.
const PAGE_SIZE: u32 = 256;
/// Pages of one activation: most events of a busy memory match no webhook.
const PAGES_MAX: u32 = 40;
/// No delivery begins later than this after the start of the activation: those in progress then
/// still end well within the lease.
const BEGIN_WITHIN_MS: i64 = 15_000;
/// A position that has moved only past unwanted events is written when it has moved this far;
/// reading fewer again is cheaper than a write.
const SKIPPED_BEFORE_SAVE: u64 = 128;
/// Webhooks of one tenant that use the store concurrently.
const STORE_PERMITS: usize = 2;
/// Retries due sooner than the next visit to all tenants are looked for every period.
const RETRY_SOON_MS: i64 = 60_000;

/// The state that the deliveries of one activation share.
struct DeliveryRound<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    mode: PassMode,
    fence: Option<Fence>,
    begun: Timestamp,
    /// Limits concurrent use of the store: many deliveries wait for receivers, but few may use the
    /// store, since callers come first.
    store_permits: Semaphore,
}

/// Whether to send the webhook's next event.
#[derive(PartialEq)]
enum NextStep {
    Continue,
    Stop,
}

impl Engine {
    /// Marks a tenant's new events for delivery and inference. To be called after a commit that
    /// appended events of a run. Only a hint: all tenants are visited every so often.
    pub fn notify_run_events(&self, tenant: &TenantId) {
        self.mark_new_entries(tenant);
        self.notify_work(NAME, tenant);
    }
}

/// Whether the tenant has a webhook.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!engine
        .parts
        .store
        .records(tenant, RecordKind::Webhook, "", None, 1)
        .await?
        .is_empty())
}

/// Sends what is due to the tenant's webhooks.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let started = engine.now_for(tenant).await?;
    let round = DeliveryRound {
        engine,
        tenant,
        mode,
        fence,
        begun: engine.now(),
        store_permits: Semaphore::new(STORE_PERMITS),
    };
    let (due, waiting): (Vec<WebhookRecord>, Vec<WebhookRecord>) = engine
        .load_webhooks(tenant)
        .await?
        .into_iter()
        .partition(|hook| hook.is_due(started));
    let mut retry_soon = waiting.iter().any(|hook| retries_soon(hook, started));
    let mut report = PassReport::default();
    let mut failed = None;
    for result in futures_util::future::join_all(
        due.into_iter()
            .map(|hook| Box::pin(round.serve_webhook(hook))),
    )
    .await
    {
        match result {
            Ok((hook, hook_report)) => {
                report.examined += hook_report.examined;
                report.changed += hook_report.changed;
                report.more |= hook_report.more;
                retry_soon |= retries_soon(&hook, started);
            }
            Err(error) => failed = Some(error),
        }
    }
    if mode != PassMode::DryRun && (report.more || retry_soon || failed.is_some()) {
        engine.pass_log.mark_pending(NAME, tenant);
    }
    failed.map_or(Ok(report), Err)
}

/// Whether the webhook's next attempt is due before the next visit to all tenants.
fn retries_soon(hook: &WebhookRecord, now: Timestamp) -> bool {
    !hook.paused
        && hook
            .health
            .next_attempt_at
            .is_some_and(|at| at < now.plus_ms(RETRY_SOON_MS))
}

impl DeliveryRound<'_> {
    /// Sends the events that one webhook is due, until there are no more, a delivery fails, or the
    /// bound is reached.
    async fn serve_webhook(
        &self,
        mut hook: WebhookRecord,
    ) -> Result<(WebhookRecord, PassReport), EngineError> {
        let mut report = PassReport::default();
        let mut runs = HashMap::new();
        let mut saved_position = hook.after;
        let mut visibility = EventVisibility::for_actor(hook.actor());
        for page in 1..=PAGES_MAX {
            let events = {
                let _permit = self.store_permits.acquire().await;
                self.engine
                    .parts
                    .store
                    .events(self.tenant, hook.after, PAGE_SIZE)
                    .await?
            };
            for event in &events {
                let owner = if self.matches(&hook, event, &mut runs).await? {
                    sabotage!(
                        "webhooks-are-sent-everybody-s-own",
                        Some(
                            visibility
                                .owner_of_event(self.engine, self.tenant, event)
                                .await?
                        )
                        .filter(|owner| visibility.is_visible(owner.as_deref())),
                        Some(
                            visibility
                                .owner_of_event(self.engine, self.tenant, event)
                                .await?
                        )
                    )
                } else {
                    None
                };
                let Some(owner) = owner else {
                    hook.after = event.seq;
                    continue;
                };
                if self.is_at_bound(&report) {
                    return Ok((
                        hook,
                        PassReport {
                            more: true,
                            ..report
                        },
                    ));
                }
                report.examined += 1;
                if self.mode == PassMode::DryRun {
                    (hook.after, report.changed) = (event.seq, report.changed + 1);
                    continue;
                }
                let step = self.deliver(&mut hook, event, owner, &mut report).await?;
                saved_position = hook.after;
                if step == NextStep::Stop {
                    return Ok((hook, report));
                }
            }
            if events.len() < PAGE_SIZE as usize {
                break;
            }
            report.more = page == PAGES_MAX;
        }
        if self.mode != PassMode::DryRun && hook.after.0 - saved_position.0 >= SKIPPED_BEFORE_SAVE {
            self.save_webhook(&mut hook, None).await?;
        }
        Ok((hook, report))
    }

    /// Whether the bound of the activation is reached.
    fn is_at_bound(&self, report: &PassReport) -> bool {
        let late = self.engine.now() > self.begun.plus_ms(BEGIN_WITHIN_MS);
        late || report.examined >= u64::from(self.engine.parts.policy.webhook_events_max)
            || self.engine.pass_log.is_stopping()
    }

    /// Whether an event matches this webhook's filter. The tags of a run are read once an
    /// activation.
    async fn matches(
        &self,
        hook: &WebhookRecord,
        event: &Event,
        runs: &mut HashMap<RunId, Vec<String>>,
    ) -> Result<bool, EngineError> {
        if !hook
            .events
            .iter()
            .any(|kind| kind == event.body.kind().as_str())
        {
            return Ok(false);
        }
        // An event outside of runs carries no tags, so a webhook with a filter on tags does not get
        // it.
        let Some(run) = &event.run else {
            return Ok(sabotage!(
                "any-event-of-no-run-is-delivered",
                sabotage!(
                    "tags-do-not-keep-events-of-no-run-away",
                    is_sent_without_run(event.body.kind()) && hook.tags.is_empty(),
                    is_sent_without_run(event.body.kind())
                ),
                hook.tags.is_empty()
            ));
        };
        if hook.tags.is_empty() {
            return Ok(true);
        }
        if !runs.contains_key(&run.id) {
            let record = self
                .engine
                .parts
                .store
                .record(self.tenant, RecordKind::Run, run.id.as_str())
                .await?;
            runs.insert(
                run.id.clone(),
                record
                    .and_then(|record| RunHead::read(&record))
                    .map(|run| run.tags)
                    .unwrap_or_default(),
            );
        }
        Ok(runs
            .get(&run.id)
            .is_some_and(|tags| tags.iter().any(|tag| hook.tags.contains(tag))))
    }

    /// Sends one event, and records the outcome with the webhook: delivered, to be retried, or
    /// given up as a dead letter.
    async fn deliver(
        &self,
        hook: &mut WebhookRecord,
        event: &Event,
        only_for: Option<String>,
        report: &mut PassReport,
    ) -> Result<NextStep, EngineError> {
        let attempt = self.engine.send(self.tenant, hook, event).await;
        let policy = &self.engine.parts.policy;
        let now = self.engine.now_for(self.tenant).await?;
        let is_own = only_for.is_some();
        let error = match attempt {
            DeliveryAttempt::Delivered => {
                hook.update_health(is_own, |health| {
                    (
                        health.attempts,
                        health.next_attempt_at,
                        health.last_success_at,
                    ) = (0, None, Some(now));
                    health.deliveries += 1;
                });
                hook.after = event.seq;
                report.changed += 1;
                return self.save_webhook(hook, None).await;
            }
            DeliveryAttempt::Gone => {
                hook.paused = true;
                tracing::warn!(
                    webhook = hook.id,
                    fingerprint = hook.fingerprint,
                    "the receiver is gone; the webhook is paused"
                );
                "status_410".to_owned()
            }
            DeliveryAttempt::Failed(error) => error,
        };
        hook.update_health(is_own, |health| {
            health.attempts += 1;
            health.failures += 1;
            (health.last_failure_at, health.last_error) = (Some(now), Some(error.clone()));
        });
        let attempts = hook.health.attempts;
        if hook.paused || attempts < policy.webhook_attempts_max {
            let next = (!hook.paused).then(|| now.plus_ms(policy.webhook_wait_ms(attempts)));
            hook.update_health(is_own, |health| health.next_attempt_at = next);
            self.save_webhook(hook, None).await?;
            return Ok(NextStep::Stop);
        }
        let letter = DeadLetter {
            webhook: hook.id.clone(),
            only_for,
            ..dead_letter(event, attempts, error, now)
        };
        hook.update_health(is_own, |health| {
            (health.attempts, health.next_attempt_at) = (0, None)
        });
        hook.after = event.seq;
        report.changed += 1;
        self.save_webhook(hook, Some(letter)).await
    }

    /// Writes the webhook's record. Returns `Stop` if the record was changed or removed meanwhile,
    /// or if another node took over the pass.
    async fn save_webhook(
        &self,
        hook: &mut WebhookRecord,
        letter: Option<DeadLetter>,
    ) -> Result<NextStep, EngineError> {
        let _permit = self.store_permits.acquire().await;
        let DeliveryRound { engine, tenant, .. } = *self;
        let policy = &engine.parts.policy;
        let rules = engine.redaction_rules(tenant).await?;
        let now = engine.now_for(tenant).await?;
        let body = hook.body(policy, &rules, now);
        let mut batch = sabotage!(
            "deliveries-are-not-fenced",
            Batch::new(tenant.clone(), now).fenced(self.fence.clone()),
            Batch::new(tenant.clone(), now)
        );
        batch = batch.set_record(
            RecordKind::Webhook,
            hook.id.clone(),
            Precondition::Version(hook.version),
            body,
        );
        if let Some(letter) = &letter {
            let body = letter.body(policy, &rules, now);
            let key = letter.key();
            batch = batch.set_record(RecordKind::DeadLetter, key, Precondition::None, body);
            for key in self.excess_dead_letters(hook).await? {
                batch = batch.delete_record(RecordKind::DeadLetter, key, Precondition::None);
            }
        }
        match engine.parts.store.commit(batch).await {
            Ok(committed) => {
                let version = committed.outcomes.iter().find_map(|outcome| match outcome {
                    ChangeOutcome::Recorded { version, .. } => Some(*version),
                    _ => None,
                });
                hook.version = version.unwrap_or(hook.version + 1);
                if letter.is_some() {
                    metrics::counter!("remem_webhook_deliveries_total", "outcome" => "dead_letter")
                        .increment(1);
                    tracing::warn!(
                        webhook = hook.id,
                        fingerprint = hook.fingerprint,
                        "an event was given up; it is a dead letter"
                    );
                }
                Ok(NextStep::Continue)
            }
            Err(StoreError::Conflict) => Ok(NextStep::Stop),
            Err(other) => Err(other.into()),
        }
    }

    /// Keys of the oldest dead letters that must go so that one more fits the limit.
    async fn excess_dead_letters(&self, hook: &WebhookRecord) -> Result<Vec<String>, EngineError> {
        let store = &self.engine.parts.store;
        let limit = self.engine.parts.policy.dead_letters_max;
        let limit_plus_one = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
        let letters = store
            .records(
                self.tenant,
                RecordKind::DeadLetter,
                &format!("{}/", hook.id),
                None,
                limit_plus_one,
            )
            .await?;
        let over = (letters.len() + 1).saturating_sub(limit);
        Ok(letters
            .into_iter()
            .take(over)
            .map(|record| record.key)
            .collect())
    }
}

/// The dead letter of an event whose delivery was given up.
fn dead_letter(event: &Event, attempts: u32, error: String, at: Timestamp) -> DeadLetter {
    let run = event
        .run
        .as_ref()
        .map(|run| run.id.as_str().to_owned())
        .unwrap_or_default();
    DeadLetter {
        webhook: String::new(),
        seq: Seq(event.seq.0),
        kind: event.body.kind().as_str().to_owned(),
        run,
        attempts,
        error,
        at,
        only_for: None,
    }
}
