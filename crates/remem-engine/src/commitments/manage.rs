//! What callers do with commitments: make one by hand, confirm, take back, put off.

use super::infer::{HAND_MADE, condition};
use super::{CommitmentInfo, named, set, ties};
use crate::caller::Caller;
use crate::cpu;
use crate::engine::{Digest, Engine};
use crate::error::EngineError;
use remem_core::admission::check_name;
use remem_core::commitment::{Delivery, Refusal, Spans, State, When, check_instant};
use remem_core::infer::{self, Reading, Verdict};
use remem_core::sabotage;
use remem_core::{
    Batch, Commitment, Draft, EventBody, Facets, Idempotency, Permission, Precondition, Rejection,
    Scope, TenantId, Timestamp, Timing, schedule,
};
use remem_store::{Outcome, StoreError};
use serde_json::Value;

/// What a caller wants to be reminded of. Without a time or a predicate, the text has to tell.
#[derive(Clone, Debug, Default)]
pub struct NewCommitment {
    /// What is meant; kept as an entry of the memory.
    pub text: String,
    /// At this instant, …
    pub at: Option<Timestamp>,
    /// … again and again after this distance, …
    pub every: Option<String>,
    /// … as this cron line says, …
    pub cron: Option<String>,
    /// … or when this becomes true.
    pub predicate: Option<String>,
    /// By whose clocks; the memory's if absent.
    pub zone: Option<String>,
    /// What is started.
    pub delivery: Delivery,
    /// Whom it is about.
    pub subjects: Vec<String>,
}

/// The answer to a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The commitment.
    pub info: CommitmentInfo,
    /// The same request was answered before, under the same idempotency key, or the same was armed
    /// before.
    pub replayed: bool,
}

/// What is to be done with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is meant.
    Confirm,
    /// It is not wanted any more.
    Cancel,
    /// Not now, but then.
    Snooze(Timestamp),
}

/// Another node may fire it at the same time.
const TRIES: u32 = 16;

impl Engine {
    /// Makes a commitment: its text becomes an entry of the memory, and both are one commit.
    pub async fn create_commitment(
        &self,
        caller: &Caller,
        memory_ref: &str,
        new: NewCommitment,
        key: Option<&str>,
    ) -> Result<Created, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller.scope_to_write(memory_ref)?;
        let idempotency = self.idempotency("create-commitment", key, &digest(&scope, &new))?;
        let refused = match self
            .create_new(caller, &scope, new, idempotency.clone())
            .await
        {
            Err(
                refused @ (EngineError::Rejected(_)
                | EngineError::UnknownWorkflow
                | EngineError::NotFound(_)),
            ) => refused,
            answered => return answered,
        };
        // Its instant may have passed since, or what it starts may be gone.
        let first = self
            .first_answer(caller.tenant(), idempotency.as_ref())
            .await?;
        let id = first.and_then(|first| first.outcomes.iter().find_map(recorded));
        Ok(Created {
            info: self.written_commitment(caller, &id.ok_or(refused)?).await?,
            replayed: true,
        })
    }

    async fn create_new(
        &self,
        caller: &Caller,
        scope: &Scope,
        new: NewCommitment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, EngineError> {
        self.check_delivery(caller, &new.delivery).await?;
        let subjects = self.subjects(caller, &new.subjects)?;
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, now);
        let draft = Draft {
            content: new.text.clone(),
            tags: vec![HAND_MADE.to_owned()],
            subjects,
            facets: Facets {
                trust: caller.own_trust(),
                ..Facets::default()
            },
            ..Draft::default()
        };
        let size = cpu::of_draft(&draft);
        let admit = || admission.admit(scope, draft);
        let cpu = &self.parts.cpu;
        let admitted = cpu.run(caller.tenant(), size, admit).await??;
        let mut commitment = self
            .by_hand(caller.tenant(), scope, &new, admitted.content(), now)
            .await?;
        let action = infer::observation_key(admitted.content())
            .unwrap_or_else(|| admitted.content().to_owned());
        let id = self.commitment_id(caller.tenant(), &commitment, &action);
        let entry = self.parts.ids.entry();
        let source = (scope.memory_ref.clone(), entry.clone());
        let place = ties(&commitment, Some(source), policy.commitment_retention_ms);
        for _ in 0..TRIES {
            let known = self.load_commitment(caller.tenant(), &id).await?;
            if let Some(earlier) = &known {
                if earlier.commitment.state.is_open() {
                    return Ok(Created {
                        info: self.written_commitment(caller, &id).await?,
                        replayed: true,
                    });
                }
                commitment.follow(&earlier.commitment);
            }
            // Another caller may make the same at the same time, and it may have fired since.
            let as_found = known.map_or(Precondition::Absent, |info| {
                Precondition::Version(info.version)
            });
            let batch = Batch::new(scope.tenant.clone(), now)
                .by(caller.principal().clone())
                .idempotent(idempotency.clone());
            let batch = sabotage!(
                "two-create-the-same-over-each-other",
                set(
                    batch.put(entry.clone(), admitted.clone()),
                    &admission,
                    &id,
                    &commitment,
                    place.clone(),
                    as_found,
                ),
                set(
                    batch.put(entry.clone(), admitted.clone()),
                    &admission,
                    &id,
                    &commitment,
                    place.clone(),
                    Precondition::None
                )
            );
            let batch = batch.emit(EventBody::CommitmentCreated(named(
                &id,
                &commitment,
                Some(&entry),
            )));
            match self.parts.store.commit(batch).await {
                Ok(committed) => {
                    let id = committed.outcomes.iter().find_map(recorded).unwrap_or(id);
                    return Ok(Created {
                        info: self.written_commitment(caller, &id).await?,
                        replayed: committed.replayed,
                    });
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// The normal form of what is waited for. A secret is looked for in it as it was given: the
    /// normal form has no capitals, and shapes of secrets do.
    async fn predicate_key(
        &self,
        tenant: &TenantId,
        predicate: &str,
    ) -> Result<String, EngineError> {
        let secrets = self.rules(tenant).await?;
        sabotage!(
            "a-predicate-may-hold-a-secret",
            check_name(secrets.redactor(), "predicate", predicate)?
        );
        let key = infer::observation_key(predicate);
        Ok(key.ok_or(Rejection::Invalid {
            field: "predicate",
            rule: "must be a short statement that can become true",
        })?)
    }

    async fn by_hand(
        &self,
        tenant: &TenantId,
        scope: &Scope,
        new: &NewCommitment,
        text: &str,
        now: Timestamp,
    ) -> Result<Commitment, EngineError> {
        let rules = self.rules_of(tenant, Some(&scope.memory_ref)).await?;
        let zone = new.zone.clone().unwrap_or(rules.zone);
        let clocks = schedule::zone(&zone)?;
        let horizon_ms = self.parts.policy.horizon_ms_max;
        let (when, next_at, spans) = match (new.at, &new.every, &new.cron, &new.predicate) {
            (Some(at), None, None, None) => {
                check_instant("at", at, now, horizon_ms)?;
                (When::Once, Some(at), None)
            }
            (None, None, None, Some(predicate)) => {
                let key = self.predicate_key(tenant, predicate).await?;
                (When::Predicate { key, once: true }, None, None)
            }
            (None, None, None, None) => {
                let reading = Reading {
                    text,
                    at: now,
                    zone: &clocks,
                    trusted: true,
                    horizon_ms,
                };
                let promise = infer::infer(&reading).into_iter().next();
                let untold = Rejection::Invalid {
                    field: "text",
                    rule: "has no time in it; set at, every, cron or predicate",
                };
                let promise = promise.ok_or(untold)?;
                if let Verdict::Refused(_) = promise.verdict {
                    return Err(Rejection::too_far("text", horizon_ms).into());
                }
                let (when, next_at) = condition(&promise.condition, &zone);
                let span = |range: &std::ops::Range<usize>| [range.start, range.end];
                let sentence = span(&promise.sentence);
                let cue = span(&promise.cue);
                let words = span(&promise.condition_words);
                (
                    when,
                    next_at,
                    Some(Spans {
                        sentence,
                        cue,
                        condition: words,
                    }),
                )
            }
            (None, every, cron, None) => {
                let timing = Timing::parse(every.as_deref(), cron.as_deref(), &zone)?;
                let first = timing.next(now, now).ok_or(Rejection::Invalid {
                    field: "cron",
                    rule: "must have an occurrence in the future",
                })?;
                check_instant("cron", first, now, horizon_ms)?;
                (
                    When::Recurring {
                        every: every.clone(),
                        cron: cron.clone(),
                        zone,
                        anchor: now.0,
                    },
                    Some(first),
                    None,
                )
            }
            _ => {
                return Err(Rejection::Invalid {
                    field: "at",
                    rule: "every, cron and predicate exclude each other: give one",
                }
                .into());
            }
        };
        let rules = spans.is_some().then(|| infer::RULES.to_owned());
        Ok(Commitment {
            memory_ref: scope.memory_ref.as_str().to_owned(),
            state: State::Armed,
            when,
            next_at: next_at.map(|at| at.0),
            give_up_at: now.plus_ms(self.parts.policy.commitment_wait_ms).0,
            rules,
            confidence: 100,
            spans,
            delivery: new.delivery.clone(),
            created_at: now.0,
            updated_at: now.0,
            holds: None,
            epoch: 0,
            fired: 0,
            last_fired_at: None,
            last_run_id: None,
            ended_by: None,
        })
    }

    /// Confirms one, takes it back or puts it off.
    pub async fn change_commitment(
        &self,
        caller: &Caller,
        id: &str,
        change: Changed,
    ) -> Result<CommitmentInfo, EngineError> {
        sabotage!("anybody-confirms", caller.require(Permission::MemoryWrite)?);
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        for _ in 0..TRIES {
            let info = self.commitment_of(caller, id).await?;
            let now = self.now_for(tenant).await?;
            let rules = self.rules(tenant).await?;
            let changed = match change {
                Changed::Confirm => info.commitment.confirm(now, policy.commitment_wait_ms),
                Changed::Cancel => info.commitment.cancel(now),
                Changed::Snooze(until) => info.commitment.snooze(until, now, policy.horizon_ms_max),
            };
            let next = changed.map_err(|refusal| match refusal {
                Refusal::State(state) => EngineError::CommitmentState { state },
                Refusal::Rejected(rejection) => EngineError::Rejected(rejection),
            })?;
            let told = CommitmentInfo {
                commitment: next.clone(),
                ..info.clone()
            }
            .named();
            let event = if next.state.is_open() {
                EventBody::CommitmentChanged(told)
            } else {
                EventBody::CommitmentEnded(told)
            };
            let place = ties(
                &next,
                info.ties.source.clone(),
                policy.commitment_retention_ms,
            );
            let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
            let batch = set(
                batch,
                &rules.admission(&policy, now),
                id,
                &next,
                place,
                Precondition::Version(info.version),
            )
            .emit(event);
            match self.parts.store.commit(batch).await {
                Ok(_) => return self.written_commitment(caller, id).await,
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }
}

fn recorded(outcome: &Outcome) -> Option<String> {
    if let Outcome::Recorded { key, .. } = outcome {
        Some(key.clone())
    } else {
        None
    }
}

fn digest(scope: &Scope, new: &NewCommitment) -> Digest {
    let mut digest = Digest::default();
    digest.part(scope.memory_ref.as_str().as_bytes());
    digest.part(new.text.as_bytes());
    digest.part(&new.at.map_or([0; 8], |at| at.0.to_le_bytes()));
    for text in [
        &new.every,
        &new.cron,
        &new.predicate,
        &new.zone,
        &new.delivery.workflow_id,
        &new.delivery.agent_id,
    ] {
        digest.part(text.as_deref().unwrap_or_default().as_bytes());
    }
    digest.part(
        Value::Object(new.delivery.inputs.clone())
            .to_string()
            .as_bytes(),
    );
    digest.part(Value::from(new.subjects.clone()).to_string().as_bytes());
    digest
}
