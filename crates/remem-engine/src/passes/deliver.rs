//! deliver: sends the events of runs, and the few that stand outside of any, to the webhooks that
//! ask for them, in order, at least once each.
//!
//! Each webhook's record holds its position in the tenant's log, written after every delivery under
//! the lease: a crash in between repeats one event, and a node that slept through its time cannot
//! move a position. Webhooks are served side by side, so that one that fails or is slow holds up
//! none of the others.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Mode, PassReport};
use crate::sight::Sight;
use crate::webhook::send::Attempt;
use crate::webhook::{DeadLetter, Hook, dead_letter_key, texts};
use remem_core::sabotage;
use remem_core::webhook::is_standing;
use remem_core::{Batch, Event, Fence, Precondition, RecordKind, RunId, Seq, TenantId, Timestamp};
use remem_store::{Outcome, StoreError};
use std::collections::HashMap;
use tokio::sync::Semaphore;

/// The name in `PASSES`, for `Engine::has_work`.
pub(crate) const NAME: &str = "deliver";
/// Events read at once.
const PAGE: u32 = 256;
/// Pages of one activation: most events of a busy memory are for nobody.
const PAGES_MAX: u32 = 40;
/// No delivery is begun later than this after the start: what is under way then still ends well
/// within the lease.
const BEGIN_WITHIN_MS: i64 = 15_000;
/// A position that moved over unwanted events alone is written when it moved this far; reading
/// fewer again is cheaper.
const SKIPPED_MAX: u64 = 128;
/// Webhooks of one tenant that use the store at once.
const STORE_TURNS: usize = 2;
/// Attempts that come up sooner than the next look at all tenants are looked for every period.
const SOON_MS: i64 = 60_000;

/// What the deliveries of one activation share.
struct Round<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    mode: Mode,
    fence: Option<Fence>,
    begun: Timestamp,
    /// Many wait for receivers at once, few use the store: callers come first.
    store_turns: Semaphore,
}

/// Whether to go on with a webhook.
#[derive(PartialEq)]
enum Next {
    Event,
    Stop,
}

impl Engine {
    /// To be called after a commit that appended events of a run. Only a hint: all tenants are
    /// looked at every so often.
    pub fn has_deliveries(&self, tenant: &TenantId) {
        self.has_new_entries(tenant);
        self.has_work(NAME, tenant);
    }
}

/// A webhook.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!engine
        .parts
        .store
        .records(tenant, RecordKind::Webhook, "", None, 1)
        .await?
        .is_empty())
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let started = engine.now_for(tenant).await?;
    let round = Round {
        engine,
        tenant,
        mode,
        fence,
        begun: engine.now(),
        store_turns: Semaphore::new(STORE_TURNS),
    };
    let (due, waiting): (Vec<Hook>, Vec<Hook>) = engine
        .hooks(tenant)
        .await?
        .into_iter()
        .partition(|hook| hook.is_due(started));
    let mut soon = waiting.iter().any(|hook| is_soon(hook, started));
    let mut report = PassReport::default();
    let mut failed = None;
    for result in
        futures_util::future::join_all(due.into_iter().map(|hook| Box::pin(round.serve(hook))))
            .await
    {
        match result {
            Ok((hook, one)) => {
                report.examined += one.examined;
                report.changed += one.changed;
                report.more |= one.more;
                soon |= is_soon(&hook, started);
            }
            Err(error) => failed = Some(error),
        }
    }
    if mode != Mode::DryRun && (report.more || soon || failed.is_some()) {
        engine.passes.again(NAME, tenant);
    }
    failed.map_or(Ok(report), Err)
}

fn is_soon(hook: &Hook, now: Timestamp) -> bool {
    !hook.paused
        && hook
            .health
            .next_attempt_at
            .is_some_and(|at| at < now.plus_ms(SOON_MS))
}

impl Round<'_> {
    /// Sends what one webhook is due, until there is nothing more, a failure, or the bound.
    async fn serve(&self, mut hook: Hook) -> Result<(Hook, PassReport), EngineError> {
        let mut report = PassReport::default();
        let mut runs = HashMap::new();
        let mut kept = hook.after;
        let mut sight = Sight::of(hook.actor());
        for page in 1..=PAGES_MAX {
            let events = {
                let _turn = self.store_turns.acquire().await;
                self.engine
                    .parts
                    .store
                    .events(self.tenant, hook.after, PAGE)
                    .await?
            };
            for event in &events {
                let owner = if self.wants(&hook, event, &mut runs).await? {
                    sabotage!(
                        "webhooks-are-sent-everybody-s-own",
                        Some(sight.owner(self.engine, self.tenant, event).await?)
                            .filter(|owner| sight.sees(owner.as_deref())),
                        Some(sight.owner(self.engine, self.tenant, event).await?)
                    )
                } else {
                    None
                };
                let Some(owner) = owner else {
                    hook.after = event.seq;
                    continue;
                };
                if self.is_over(&report) {
                    return Ok((
                        hook,
                        PassReport {
                            more: true,
                            ..report
                        },
                    ));
                }
                report.examined += 1;
                if self.mode == Mode::DryRun {
                    (hook.after, report.changed) = (event.seq, report.changed + 1);
                    continue;
                }
                let next = self.attempt(&mut hook, event, owner, &mut report).await?;
                kept = hook.after;
                if next == Next::Stop {
                    return Ok((hook, report));
                }
            }
            if events.len() < PAGE as usize {
                break;
            }
            report.more = page == PAGES_MAX;
        }
        if self.mode != Mode::DryRun && hook.after.0 - kept.0 >= SKIPPED_MAX {
            self.save(&mut hook, None).await?;
        }
        Ok((hook, report))
    }

    fn is_over(&self, report: &PassReport) -> bool {
        let late = self.engine.now() > self.begun.plus_ms(BEGIN_WITHIN_MS);
        late || report.examined >= u64::from(self.engine.parts.policy.webhook_events_max)
            || self.engine.passes.is_stopping()
    }

    /// Whether an event is for this webhook. The tags of a run are looked up once an activation.
    async fn wants(
        &self,
        hook: &Hook,
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
        // What no run caused carries no tags: a webhook that asks for some does not get it.
        let Some(run) = &event.run else {
            return Ok(sabotage!(
                "any-event-of-no-run-is-delivered",
                sabotage!(
                    "tags-do-not-keep-events-of-no-run-away",
                    is_standing(event.body.kind()) && hook.tags.is_empty(),
                    is_standing(event.body.kind())
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
                    .map(|record| texts(&record.body, "tags"))
                    .unwrap_or_default(),
            );
        }
        Ok(runs
            .get(&run.id)
            .is_some_and(|tags| tags.iter().any(|tag| hook.tags.contains(tag))))
    }

    /// One attempt at one event, and what it means for the webhook.
    async fn attempt(
        &self,
        hook: &mut Hook,
        event: &Event,
        only_for: Option<String>,
        report: &mut PassReport,
    ) -> Result<Next, EngineError> {
        let attempt = self.engine.send(self.tenant, hook, event).await;
        let policy = &self.engine.parts.policy;
        let now = self.engine.now_for(self.tenant).await?;
        let is_own = only_for.is_some();
        let error = match attempt {
            Attempt::Delivered => {
                hook.note(is_own, |health| {
                    (
                        health.attempts,
                        health.next_attempt_at,
                        health.last_success_at,
                    ) = (0, None, Some(now));
                    health.deliveries += 1;
                });
                hook.after = event.seq;
                report.changed += 1;
                return self.save(hook, None).await;
            }
            Attempt::Gone => {
                hook.paused = true;
                tracing::warn!(
                    webhook = hook.id,
                    fingerprint = hook.fingerprint,
                    "the receiver is gone; the webhook is paused"
                );
                "status_410".to_owned()
            }
            Attempt::Failed(error) => error,
        };
        hook.note(is_own, |health| {
            health.attempts += 1;
            health.failures += 1;
            (health.last_failure_at, health.last_error) = (Some(now), Some(error.clone()));
        });
        let attempts = hook.health.attempts;
        if hook.paused || attempts < policy.webhook_attempts_max {
            let next = (!hook.paused).then(|| now.plus_ms(policy.webhook_wait_ms(attempts)));
            hook.note(is_own, |health| health.next_attempt_at = next);
            self.save(hook, None).await?;
            return Ok(Next::Stop);
        }
        let letter = DeadLetter {
            only_for,
            ..dead_letter(event, attempts, error, now)
        };
        hook.note(is_own, |health| {
            (health.attempts, health.next_attempt_at) = (0, None)
        });
        hook.after = event.seq;
        report.changed += 1;
        self.save(hook, Some(letter)).await
    }

    /// Writes the webhook's record. Stops if somebody removed or changed it meanwhile, or took over
    /// the pass.
    async fn save(&self, hook: &mut Hook, letter: Option<DeadLetter>) -> Result<Next, EngineError> {
        let _turn = self.store_turns.acquire().await;
        let Round { engine, tenant, .. } = *self;
        let policy = &engine.parts.policy;
        let rules = engine.rules(tenant).await?;
        let now = engine.now_for(tenant).await?;
        let body = hook.body(policy, &rules, now);
        let mut batch = sabotage!(
            "deliveries-are-not-fenced",
            Batch::new(tenant.clone(), now).fenced(self.fence.clone()),
            Batch::new(tenant.clone(), now)
        );
        batch = batch.set(
            RecordKind::Webhook,
            hook.id.clone(),
            Precondition::Version(hook.version),
            body,
        );
        if let Some(letter) = &letter {
            let key = dead_letter_key(&hook.id, letter.seq);
            batch = batch.set(
                RecordKind::DeadLetter,
                key,
                Precondition::None,
                letter.body(policy, &rules, now),
            );
            for key in self.too_many(hook).await? {
                batch = batch.unset(RecordKind::DeadLetter, key, Precondition::None);
            }
        }
        match engine.parts.store.commit(batch).await {
            Ok(committed) => {
                let version = committed.outcomes.iter().find_map(|outcome| match outcome {
                    Outcome::Recorded { version, .. } => Some(*version),
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
                Ok(Next::Event)
            }
            Err(StoreError::Conflict) => Ok(Next::Stop),
            Err(other) => Err(other.into()),
        }
    }

    /// The oldest dead letters, as far as one more would exceed the bound.
    async fn too_many(&self, hook: &Hook) -> Result<Vec<String>, EngineError> {
        let store = &self.engine.parts.store;
        let limit = self.engine.parts.policy.dead_letters_max;
        let asked = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
        let kept = store
            .records(
                self.tenant,
                RecordKind::DeadLetter,
                &format!("{}/", hook.id),
                None,
                asked,
            )
            .await?;
        let over = (kept.len() + 1).saturating_sub(limit);
        Ok(kept
            .into_iter()
            .take(over)
            .map(|record| record.key)
            .collect())
    }
}

fn dead_letter(event: &Event, attempts: u32, error: String, at: Timestamp) -> DeadLetter {
    let run = event
        .run
        .as_ref()
        .map(|run| run.id.as_str().to_owned())
        .unwrap_or_default();
    DeadLetter {
        seq: Seq(event.seq.0),
        kind: event.body.kind().as_str().to_owned(),
        run,
        attempts,
        error,
        at,
        only_for: None,
    }
}
