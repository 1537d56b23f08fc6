//! Operations of callers on commitments: create, confirm, cancel, snooze.

use super::recognise::{CREATED_TAG, to_when};
use super::{CommitmentInfo, commitment_ref, set_commitment, ties_of};
use crate::caller::Caller;
use crate::cpu;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use remem_core::admission::check_name;
use remem_core::commitment::{
    CommitmentError, CommitmentState, CommitmentTrigger, Delivery, TextSpans, check_instant,
};
use remem_core::infer::{self, InferInput, PromiseVerdict};
use remem_core::sabotage;
use remem_core::{
    Batch, Commitment, Draft, EventBody, Facets, Idempotency, Permission, Precondition, Rejection,
    Scope, TenantId, Timestamp, Timing, schedule,
};
use remem_store::{ChangeOutcome, StoreError};
use serde_json::Value;

/// A commitment to create. Without a time or a predicate, one is read from the text.
#[derive(Clone, Debug, Default)]
pub struct NewCommitment {
    /// The text of the reminder; stored as an entry of the memory.
    pub text: String,
    /// The instant to fire at. At most one of `at`, `every`, `cron` and `predicate` may be set.
    pub at: Option<Timestamp>,
    /// The interval of a recurring commitment.
    pub every: Option<String>,
    /// The cron line of a recurring commitment.
    pub cron: Option<String>,
    /// The statement to wait for: the commitment fires when it becomes true.
    pub predicate: Option<String>,
    /// The time zone of `every`, `cron` and the text; the memory's if absent.
    pub zone: Option<String>,
    /// The workflow or agent to start when it fires.
    pub delivery: Delivery,
    /// The subjects that the text is about.
    pub subjects: Vec<String>,
}

/// The result of creating a commitment.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateCommitmentResult {
    /// The new commitment, or the open one that is equal to it.
    pub info: CommitmentInfo,
    /// Whether this repeats the answer to an earlier request with the same idempotency key, or an
    /// equal commitment was open already.
    pub replayed: bool,
}

/// A change of a commitment by a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitmentChange {
    /// Confirm a commitment that was only recognised in a text.
    Confirm,
    /// Cancel it: it will not fire.
    Cancel,
    /// Postpone it to this instant.
    Snooze(Timestamp),
}

/// How often a conflicting commit is retried: another node may fire the commitment at the same
/// time.
const COMMIT_TRIES: u32 = 16;

impl Engine {
    /// Creates a commitment. Its text becomes an entry of the memory, in the same commit.
    pub async fn create_commitment(
        &self,
        caller: &Caller,
        memory_ref: &str,
        new: NewCommitment,
        key: Option<&str>,
    ) -> Result<CreateCommitmentResult, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller.scope_to_write(memory_ref)?;
        let idempotency =
            self.idempotency("create-commitment", key, &commitment_digest(&scope, &new))?;
        let rejected = match self
            .create_with_entry(caller, &scope, new, idempotency.clone())
            .await
        {
            Err(
                rejected @ (EngineError::Rejected(_)
                | EngineError::UnknownWorkflow
                | EngineError::NotFound(_)),
            ) => rejected,
            result => return result,
        };
        // The request is refused now because its instant has passed, or what it starts is gone. A
        // repetition of an earlier request still gets the first answer.
        let first = self
            .replayed_commit(caller.tenant(), idempotency.as_ref())
            .await?;
        let id = first.and_then(|first| first.outcomes.iter().find_map(recorded_key));
        Ok(CreateCommitmentResult {
            info: self
                .get_written_commitment(caller, &id.ok_or(rejected)?)
                .await?,
            replayed: true,
        })
    }

    /// Creates a commitment and its entry, without regard to replays of refused requests.
    async fn create_with_entry(
        &self,
        caller: &Caller,
        scope: &Scope,
        new: NewCommitment,
        idempotency: Option<Idempotency>,
    ) -> Result<CreateCommitmentResult, EngineError> {
        self.check_delivery(caller, &new.delivery).await?;
        let subjects = self.subject_digests(caller, &new.subjects)?;
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, now);
        let draft = Draft {
            content: new.text.clone(),
            tags: vec![CREATED_TAG.to_owned()],
            subjects,
            facets: Facets {
                trust: caller.default_trust(),
                ..Facets::default()
            },
            ..Draft::default()
        };
        let size = cpu::draft_bytes(&draft);
        let admit = || admission.admit(scope, draft);
        let cpu = &self.parts.cpu;
        let admitted = cpu.run(caller.tenant(), size, admit).await??;
        let mut commitment = self
            .build_commitment(caller.tenant(), scope, &new, admitted.content(), now)
            .await?;
        let action = infer::observation_key(admitted.content())
            .unwrap_or_else(|| admitted.content().to_owned());
        let id = self.commitment_id(caller.tenant(), &commitment, &action);
        let entry = self.parts.ids.entry();
        let source = (scope.memory_ref.clone(), entry.clone());
        let record_ties = ties_of(&commitment, Some(source), policy.commitment_retention_ms);
        for _ in 0..COMMIT_TRIES {
            let known = self.load_commitment(caller.tenant(), &id).await?;
            if let Some(earlier) = &known {
                if earlier.commitment.state.is_open() {
                    return Ok(CreateCommitmentResult {
                        info: self.get_written_commitment(caller, &id).await?,
                        replayed: true,
                    });
                }
                commitment.continue_counters(&earlier.commitment);
            }
            // Another caller may create the same at the same time, and it may have fired since:
            // write only over the version that was read.
            let precondition = known.map_or(Precondition::Absent, |info| {
                Precondition::Version(info.version)
            });
            let batch = Batch::new(scope.tenant.clone(), now)
                .with_principal(caller.principal().clone())
                .idempotent(idempotency.clone());
            let batch = sabotage!(
                "two-create-the-same-over-each-other",
                set_commitment(
                    batch.put(entry.clone(), admitted.clone()),
                    &admission,
                    &id,
                    &commitment,
                    record_ties.clone(),
                    precondition,
                ),
                set_commitment(
                    batch.put(entry.clone(), admitted.clone()),
                    &admission,
                    &id,
                    &commitment,
                    record_ties.clone(),
                    Precondition::None
                )
            );
            let batch = batch.emit(EventBody::CommitmentCreated(commitment_ref(
                &id,
                &commitment,
                Some(&entry),
            )));
            match self.parts.store.commit(batch).await {
                Ok(committed) => {
                    let id = committed
                        .outcomes
                        .iter()
                        .find_map(recorded_key)
                        .unwrap_or(id);
                    return Ok(CreateCommitmentResult {
                        info: self.get_written_commitment(caller, &id).await?,
                        replayed: committed.replayed,
                    });
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// The normal form of a predicate. Secrets are looked for in the original text: the normal form
    /// has no capitals, and many shapes of secrets do.
    async fn predicate_key(
        &self,
        tenant: &TenantId,
        predicate: &str,
    ) -> Result<String, EngineError> {
        let secrets = self.redaction_rules(tenant).await?;
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

    /// Builds the commitment that a caller described.
    async fn build_commitment(
        &self,
        tenant: &TenantId,
        scope: &Scope,
        new: &NewCommitment,
        text: &str,
        now: Timestamp,
    ) -> Result<Commitment, EngineError> {
        let rules = self
            .effective_commitment_rules(tenant, Some(&scope.memory_ref))
            .await?;
        let zone = new.zone.clone().unwrap_or(rules.zone);
        let clocks = schedule::parse_zone(&zone)?;
        let horizon_ms = self.parts.policy.horizon_ms_max;
        let (when, next_at, spans) = match (new.at, &new.every, &new.cron, &new.predicate) {
            (Some(at), None, None, None) => {
                check_instant("at", at, now, horizon_ms)?;
                (CommitmentTrigger::Once, Some(at), None)
            }
            (None, None, None, Some(predicate)) => {
                let key = self.predicate_key(tenant, predicate).await?;
                (CommitmentTrigger::Predicate { key, once: true }, None, None)
            }
            (None, None, None, None) => {
                let reading = InferInput {
                    text,
                    at: now,
                    zone: &clocks,
                    is_trusted: true,
                    horizon_ms,
                };
                let recognised = infer::infer_promises(&reading).into_iter().next();
                let no_time = Rejection::Invalid {
                    field: "text",
                    rule: "has no time in it; set at, every, cron or predicate",
                };
                let recognised = recognised.ok_or(no_time)?;
                if let PromiseVerdict::Refused(_) = recognised.verdict {
                    return Err(Rejection::too_far("text", horizon_ms).into());
                }
                let (when, next_at) = to_when(&recognised.condition, &zone);
                let span = |range: &std::ops::Range<usize>| [range.start, range.end];
                let sentence = span(&recognised.sentence);
                let cue = span(&recognised.cue);
                let words = span(&recognised.condition_words);
                (
                    when,
                    next_at,
                    Some(TextSpans {
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
                    CommitmentTrigger::Recurring {
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
        let rules = spans.is_some().then(|| infer::INFER_RULES.to_owned());
        Ok(Commitment {
            memory_ref: scope.memory_ref.as_str().to_owned(),
            state: CommitmentState::Armed,
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

    /// Confirms, cancels or snoozes a commitment.
    pub async fn change_commitment(
        &self,
        caller: &Caller,
        id: &str,
        change: CommitmentChange,
    ) -> Result<CommitmentInfo, EngineError> {
        sabotage!("anybody-confirms", caller.require(Permission::MemoryWrite)?);
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        for _ in 0..COMMIT_TRIES {
            let info = self.find_visible_commitment(caller, id).await?;
            let now = self.now_for(tenant).await?;
            let rules = self.redaction_rules(tenant).await?;
            let changed = match change {
                CommitmentChange::Confirm => {
                    info.commitment.confirm(now, policy.commitment_wait_ms)
                }
                CommitmentChange::Cancel => info.commitment.cancel(now),
                CommitmentChange::Snooze(until) => {
                    info.commitment.snooze(until, now, policy.horizon_ms_max)
                }
            };
            let next = changed.map_err(|refusal| match refusal {
                CommitmentError::WrongState(state) => EngineError::CommitmentState { state },
                CommitmentError::Rejected(rejection) => EngineError::Rejected(rejection),
            })?;
            let commitment_ref = CommitmentInfo {
                commitment: next.clone(),
                ..info.clone()
            }
            .to_ref();
            let event = if next.state.is_open() {
                EventBody::CommitmentChanged(commitment_ref)
            } else {
                EventBody::CommitmentEnded(commitment_ref)
            };
            let record_ties = ties_of(
                &next,
                info.ties.source.clone(),
                policy.commitment_retention_ms,
            );
            let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
            let batch = set_commitment(
                batch,
                &rules.admission(&policy, now),
                id,
                &next,
                record_ties,
                Precondition::Version(info.version),
            )
            .emit(event);
            match self.parts.store.commit(batch).await {
                Ok(_) => return self.get_written_commitment(caller, id).await,
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }
}

/// The key of the record that a commit wrote.
fn recorded_key(outcome: &ChangeOutcome) -> Option<String> {
    if let ChangeOutcome::Recorded { key, .. } = outcome {
        Some(key.clone())
    } else {
        None
    }
}

/// Digest of a request for a commitment, for its idempotency key.
fn commitment_digest(scope: &Scope, new: &NewCommitment) -> RequestDigest {
    let mut digest = RequestDigest::default();
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
