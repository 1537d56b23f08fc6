//! The one place where a commitment fires. The commitment's new state, the firing record of this
//! instant, the event and the started run are one commit. Its conditions are that the commitment is
//! unchanged and that the instant has no firing record. So a commitment fires once, whichever nodes
//! try and wherever one crashes.

use super::{CommitmentInfo, CommitmentRules, set_commitment, ties_of};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::runs::{NewRun, Run};
use crate::stored::firing::StoredFiring;
use remem_core::commitment::{CommitmentState, Delivery, EndedBy};
use remem_core::event::CommitmentFired;
use remem_core::sabotage;
use remem_core::{
    Batch, Commitment, EntryId, EventBody, Fence, HostText, MemoryRef, Policy, Precondition,
    PrincipalId, Record, RecordKind, RecordLinks, RunId, RunStatus, Scope, StoredRecord, TenantId,
    Timestamp,
};
use remem_store::{CommitResult, ReadAt, RecordLookup, StoreError};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Principal of runs that the host starts by itself.
pub(crate) const HOST: &str = "remembrancer";

/// Firing records examined at a time to find runs that have ended.
const EXAMINED_MAX: usize = 64;

/// The outcome of an attempt to fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FireOutcome {
    /// This attempt changed the commitment's state.
    Done,
    /// Another process was first, or the commitment has changed: nothing was done.
    NotDone,
    /// Too many runs of the memory have not ended: the commitment stays due.
    NoFreeRun,
    /// It has fired for this instant before: its text was deleted and written again, or a clock was
    /// set back.
    AlreadyFired,
}

/// A commitment that is to fire.
pub(crate) struct Firing<'a> {
    pub info: &'a CommitmentInfo,
    /// Its state after firing.
    pub next: Commitment,
    /// Identifies the firing: the same for every process that tries.
    pub instant: String,
    pub scheduled_at: Timestamp,
    pub fence: Option<Fence>,
}

/// How many runs of each memory may still be started, shared by everything that is fired together.
/// Nodes do not fire for one tenant at the same time, but an observation may come in between: the
/// limit can be exceeded by the number of concurrent observations.
#[derive(Default)]
pub(crate) struct RunQuota {
    free: tokio::sync::Mutex<HashMap<String, usize>>,
    /// The rules of each memory, read once.
    rules: tokio::sync::Mutex<HashMap<String, CommitmentRules>>,
}

/// The topic by which firing records are found whose runs may not have ended.
fn open_runs_topic(memory_ref: &str) -> String {
    format!(
        "runs/{}",
        &blake3::hash(memory_ref.as_bytes()).to_hex()[..32]
    )
}

/// What a firing's record is found by: when it may be deleted, and by its memory while the run that
/// it started may not have ended.
fn note_ties(policy: &Policy, now: Timestamp, started_for: Option<&MemoryRef>) -> RecordLinks {
    RecordLinks {
        due: Some(now.plus_ms(policy.commitment_retention_ms)),
        topic: started_for.map(|memory_ref| open_runs_topic(memory_ref.as_str())),
        source: None,
    }
}

impl Engine {
    /// Fires a commitment: commits its new state, the firing record, the event and the run.
    pub(crate) async fn fire(
        &self,
        tenant: &TenantId,
        firing: Firing<'_>,
        quota: &RunQuota,
    ) -> Result<FireOutcome, EngineError> {
        let Firing {
            info,
            mut next,
            instant,
            scheduled_at,
            fence,
        } = firing;
        let now = self.now_for(tenant).await?;
        let memory_ref = MemoryRef::parse(&next.memory_ref)
            .ok_or(StoreError::Damaged("a commitment names no memory"))?;
        let delivery = if next.delivery == Delivery::default() {
            self.memory_delivery(tenant, &memory_ref, quota).await?
        } else {
            next.delivery.clone()
        };
        let starts = delivery.workflow_id.is_some() || delivery.agent_id.is_some();
        if starts && !self.take_run(tenant, &next.memory_ref, quota).await? {
            return Ok(FireOutcome::NoFreeRun);
        }
        let policy = self.policy_for(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).fenced(fence);
        let reason = FireReason {
            id: &info.id,
            commitment: &next,
            source: info.source.as_ref(),
            scheduled_at,
        };
        let (batch, run) = if starts {
            self.add_run(&policy, tenant, delivery, &reason, batch)
                .await?
        } else {
            (batch, None)
        };
        let run_id = run.as_ref().map(|run| run.id.as_str().to_owned());
        if run_id.is_some() {
            next.last_run_id.clone_from(&run_id);
        }
        let event = EventBody::CommitmentFired(CommitmentFired {
            commitment_id: sabotage!(
                "a-fire-tells-what-was-meant",
                info.id.clone(),
                match info
                    .source
                    .as_ref()
                    .zip(remem_core::MemoryRef::parse(&next.memory_ref))
                {
                    Some((id, memory)) => self
                        .parts
                        .store
                        .get(&Scope::new(tenant.clone(), memory), id, &ReadAt::Now(now))
                        .await?
                        .map_or_else(|| info.id.clone(), |entry| entry.content),
                    None => info.id.clone(),
                }
            ),
            memory_ref: next.memory_ref.clone(),
            memory_id: info.source.as_ref().map(|id| id.as_str().to_owned()),
            condition: next.condition_kind().to_owned(),
            enqueued_run_id: run_id.clone(),
        });
        let note = StoredFiring {
            key: HostText::new(format!("{}/{instant}", info.id)),
            ties: note_ties(&policy, now, run_id.is_some().then_some(&memory_ref)),
            commitment_id: Some(HostText::new(&info.id)),
            memory_ref: Some(memory_ref),
            scheduled_at,
            fired_at: now,
            run_id: run_id.map(HostText::new),
            ..StoredFiring::default()
        };
        let rules = self.redaction_rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let version = sabotage!(
            "a-fire-does-not-ask-how-the-commitment-stands",
            Precondition::Version(info.version),
            Precondition::None
        );
        let record_ties = ties_of(
            &next,
            info.ties.source.clone(),
            policy.commitment_retention_ms,
        );
        let batch = set_commitment(batch, &admission, &info.id, &next, record_ties, version);
        let batch = batch.set_stored(
            &note,
            sabotage!(
                "a-fire-does-not-ask-for-notes",
                Precondition::Absent,
                Precondition::None
            ),
        );
        let batch = sabotage!(
            "a-fire-is-told-of-in-a-commit-of-its-own",
            batch.emit_outside_run(event),
            {
                let event_batch = Batch::new(tenant.clone(), now).emit_outside_run(event);
                self.parts.store.commit(event_batch).await?;
                batch
            }
        );
        match self.parts.store.commit(batch).await {
            Ok(committed) => {
                Ok(self.after_firing(tenant, policy, run, &next, scheduled_at, &committed))
            }
            Err(StoreError::Conflict) => self.conflict_outcome(tenant, info, &note).await,
            Err(other) => Err(other.into()),
        }
    }

    /// Finds out why a commit conflicted. A commitment that is unchanged and has a record for this
    /// instant would otherwise be tried without end.
    async fn conflict_outcome(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        note: &StoredFiring,
    ) -> Result<FireOutcome, EngineError> {
        let is_as_read = self
            .load_commitment(tenant, &info.id)
            .await?
            .is_some_and(|now| (now.version, &now.ties) == (info.version, &info.ties));
        let is_noted = is_as_read
            && self
                .parts
                .store
                .record(tenant, RecordKind::Firing, note.key.as_str())
                .await?
                .is_some();
        Ok(
            if sabotage!("a-noted-instant-is-tried-for-ever", is_noted, false) {
                FireOutcome::AlreadyFired
            } else {
                FireOutcome::NotDone
            },
        )
    }

    /// Queues the run, records the metrics and wakes the delivery after a commitment fired.
    fn after_firing(
        &self,
        tenant: &TenantId,
        policy: Policy,
        run: Option<Run>,
        next: &Commitment,
        scheduled_at: Timestamp,
        committed: &CommitResult,
    ) -> FireOutcome {
        if let Some(run) = run {
            self.queue_run(policy, tenant, &run, committed.revision);
        }
        metrics::counter!("remem_commitments_fired_total", "condition" => next.condition_kind())
            .increment(1);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a lag of centuries need not be exact"
        )]
        metrics::histogram!("remem_commitment_lag_seconds")
            .record((committed.at.0 - scheduled_at.0).max(0) as f64 / 1_000.0);
        self.notify_run_events(tenant);
        FireOutcome::Done
    }

    /// Adds the run to the batch. A run that cannot be started any more holds nothing up: the
    /// commitment fires without it.
    pub(crate) async fn add_run(
        &self,
        policy: &Policy,
        tenant: &TenantId,
        delivery: Delivery,
        fire_reason: &FireReason<'_>,
        batch: Batch,
    ) -> Result<(Batch, Option<Run>), EngineError> {
        let Some(host) = PrincipalId::parse(HOST) else {
            return Ok((batch, None));
        };
        let mut inputs = delivery.inputs;
        inputs.extend(fire_reason.to_inputs());
        let new = NewRun {
            workflow_id: delivery.workflow_id.unwrap_or_default(),
            agent_id: delivery.agent_id,
            inputs,
            tags: vec!["source:commitment".to_owned()],
            ..NewRun::default()
        };
        match self.prepare_run(tenant, &host, None, new).await {
            Ok(mut start) => {
                // The run gets the id of a commitment in one user's memory, so only that user may
                // see the run. It may access the tenant's memories as usual.
                sabotage!(
                    "a-fired-run-is-everybody-s",
                    start.state.only_for = fire_reason.owner()
                );
                let (batch, run) = self.add_run_start(policy, tenant, start, batch).await?;
                Ok((batch, Some(run)))
            }
            Err(
                reason @ (EngineError::UnknownWorkflow
                | EngineError::NotFound(_)
                | EngineError::Rejected(_)),
            ) => {
                tracing::warn!(tenant = %tenant, commitment = fire_reason.id, %reason, "what a commitment is to start cannot be started; it only tells");
                Ok((batch, None))
            }
            Err(other) => Err(other),
        }
    }

    /// The delivery that a memory's rules set for all its commitments. Read once for everything
    /// that shares the quota.
    async fn memory_delivery(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        quota: &RunQuota,
    ) -> Result<Delivery, EngineError> {
        let mut known = quota.rules.lock().await;
        if let Some(rules) = known.get(memory_ref.as_str()) {
            return Ok(rules.delivery.clone());
        }
        let rules = self
            .effective_commitment_rules(tenant, Some(memory_ref))
            .await?;
        let delivery = rules.delivery.clone();
        known.insert(memory_ref.as_str().to_owned(), rules);
        Ok(delivery)
    }

    /// Takes one run from the quota of a memory; returns whether there was one. The store is read
    /// once for everything that shares the quota.
    async fn take_run(
        &self,
        tenant: &TenantId,
        memory_ref: &str,
        quota: &RunQuota,
    ) -> Result<bool, EngineError> {
        let mut quota = quota.free.lock().await;
        if !quota.contains_key(memory_ref) {
            quota.insert(
                memory_ref.to_owned(),
                self.count_free_runs(tenant, memory_ref).await?,
            );
        }
        let free_runs = quota
            .get_mut(memory_ref)
            .filter(|free_runs| **free_runs > 0);
        Ok(free_runs.map(|free_runs| *free_runs -= 1).is_some())
    }

    /// How many runs may be started for this memory. Some of the recorded runs may have ended: they
    /// are checked when there seem to be too many, until some are found that have.
    async fn count_free_runs(
        &self,
        tenant: &TenantId,
        memory_ref: &str,
    ) -> Result<usize, EngineError> {
        let limit = self.parts.policy.commitment_runs_max;
        let tie = RecordLookup::Topic {
            topic: open_runs_topic(memory_ref),
            after: None,
        };
        let open = self
            .parts
            .store
            .records_by(
                tenant,
                RecordKind::Firing,
                &tie,
                u32::try_from(limit).unwrap_or(u32::MAX),
            )
            .await?;
        if open.len() < limit {
            return Ok(limit - open.len());
        }
        for page in open.chunks(EXAMINED_MAX) {
            let ended = self.release_ended_runs(tenant, page).await?;
            if sabotage!("runs-that-go-on-hide-ended-ones", ended > 0, true) {
                return Ok(ended);
            }
        }
        Ok(0)
    }

    /// Marks those of these firing records whose runs have ended; returns how many.
    async fn release_ended_runs(
        &self,
        tenant: &TenantId,
        notes: &[Record],
    ) -> Result<usize, EngineError> {
        let mut batch = Batch::new(tenant.clone(), self.now_for(tenant).await?);
        let mut ended = 0;
        for note in notes {
            let Some(firing) = StoredFiring::read(note) else {
                ended += 1;
                continue;
            };
            let run = firing.run_id.as_ref();
            let run = run.and_then(|run| RunId::parse(run.as_str()));
            let is_running = match &run {
                Some(run) => self
                    .load_run(tenant, run)
                    .await?
                    .is_some_and(|(run, _)| run.state.status == RunStatus::Running),
                None => false,
            };
            if !is_running {
                ended += 1;
                let version = Precondition::Version(note.version);
                let ties = RecordLinks {
                    topic: None,
                    ..note.links.clone()
                };
                batch = batch.set_stored(&StoredFiring { ties, ..firing }, version);
            }
        }
        if ended > 0 {
            match self.parts.store.commit(batch).await {
                Ok(_) | Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(ended)
    }

    /// Processes a commitment that is due: fires it, ends it, or deletes its record.
    pub(crate) async fn process_commitment(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        fence: Option<&Fence>,
        quota: &RunQuota,
    ) -> Result<FireOutcome, EngineError> {
        use remem_core::commitment::DueAction;
        let now = self.now_for(tenant).await?;
        let policy = &self.parts.policy;
        match info
            .commitment
            .due_action(now, policy.commitment_retention_ms)
        {
            DueAction::Wait => Ok(FireOutcome::NotDone),
            DueAction::Fire { instant, next } => {
                if sabotage!(
                    "what-has-expired-fires",
                    !self.source_is_live(tenant, info, now).await?,
                    false
                ) {
                    return self.cancel_without_source(tenant, info, fence).await;
                }
                let passed = Commitment {
                    fired: info.commitment.fired,
                    ..(*next).clone()
                };
                let firing = Firing {
                    info,
                    next: *next,
                    instant: format!("t{}", instant.0),
                    scheduled_at: instant,
                    fence: fence.cloned(),
                };
                match self.fire(tenant, firing, quota).await? {
                    FireOutcome::AlreadyFired => {
                        self.commit_state(tenant, info, &passed, fence).await
                    }
                    other => Ok(other),
                }
            }
            DueAction::GiveUp(ended) => self.commit_state(tenant, info, &ended, fence).await,
            DueAction::Delete => {
                let batch = Batch::new(tenant.clone(), now).fenced(fence.cloned());
                let batch = batch.delete_record(
                    RecordKind::Commitment,
                    info.id.clone(),
                    Precondition::Version(info.version),
                );
                outcome_of(self.parts.store.commit(batch).await)
            }
        }
    }

    /// Whether the commitment's source is still live. An expired entry no longer counts, even
    /// before the purge pass has removed it.
    pub(super) async fn source_is_live(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let Some((memory_ref, id)) = &info.ties.source else {
            return Ok(true);
        };
        let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
        Ok(self
            .parts
            .store
            .get(&scope, id, &ReadAt::Now(now))
            .await?
            .is_some())
    }

    /// Cancels a commitment whose source is no longer part of the memory. Otherwise it would stay
    /// due, and be processed again and again, until the text of the source is erased.
    pub(super) async fn cancel_without_source(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        fence: Option<&Fence>,
    ) -> Result<FireOutcome, EngineError> {
        let now = self.now_for(tenant).await?;
        let ended = info
            .commitment
            .end(CommitmentState::Cancelled, EndedBy::Source, now);
        sabotage!(
            "a-commitment-without-its-source-stays-due",
            self.commit_state(tenant, info, &ended, fence).await,
            {
                let _ = (ended, fence);
                Ok(FireOutcome::NotDone)
            }
        )
    }

    /// Writes a new state that the commitment reached without firing, with its event.
    async fn commit_state(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        next: &Commitment,
        fence: Option<&Fence>,
    ) -> Result<FireOutcome, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let batch = Batch::new(tenant.clone(), now).fenced(fence.cloned());
        let record_ties = ties_of(
            next,
            info.ties.source.clone(),
            policy.commitment_retention_ms,
        );
        let batch = set_commitment(
            batch,
            &rules.admission(&policy, now),
            &info.id,
            next,
            record_ties,
            Precondition::Version(info.version),
        );
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
        outcome_of(self.parts.store.commit(batch.emit(event)).await)
    }
}

/// The outcome that the result of a commit means.
fn outcome_of(committed: Result<CommitResult, StoreError>) -> Result<FireOutcome, EngineError> {
    match committed {
        Ok(_) => Ok(FireOutcome::Done),
        Err(StoreError::Conflict) => Ok(FireOutcome::NotDone),
        Err(other) => Err(other.into()),
    }
}

/// Why a run was started, as its inputs state it: ids, never the text of the commitment. That the
/// run can read in memory.
pub(crate) struct FireReason<'a> {
    pub id: &'a str,
    pub commitment: &'a Commitment,
    pub source: Option<&'a EntryId>,
    pub scheduled_at: Timestamp,
}

impl FireReason<'_> {
    /// The user whose memory the commitment belongs to, if it is one user's.
    fn owner(&self) -> Option<String> {
        MemoryRef::parse(&self.commitment.memory_ref)?
            .owner()
            .map(str::to_owned)
    }

    /// The reason as inputs of the run.
    fn to_inputs(&self) -> serde_json::Map<String, Value> {
        let names = json!({
            "commitmentId": self.id,
            "memoryRef": self.commitment.memory_ref,
            "memoryId": self.source.map(EntryId::as_str),
            "condition": self.commitment.condition_kind(),
            "scheduledAt": self.scheduled_at.rfc3339(),
        });
        if let Value::Object(map) = names {
            map
        } else {
            serde_json::Map::new()
        }
    }
}
