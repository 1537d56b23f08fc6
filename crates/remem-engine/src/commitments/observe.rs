//! Observations: a caller or a text reports that a statement has become true, or false. The
//! commitments that wait for it fire when it becomes true, once each time.

use super::CommitmentInfo;
use super::firing::{FireOutcome, Firing, RunQuota};
use super::{set_commitment, ties_of};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::commitment::predicate_topic;
use remem_core::sabotage;
use remem_core::{
    Batch, MemoryRef, Permission, Precondition, RecordKind, Rejection, TenantId, infer,
};
use remem_store::{RecordLookup, StoreError};

/// The result of an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservationResult {
    /// The normal form of the statement that was observed.
    pub key: String,
    /// Number of commitments that wait for the statement.
    pub matched: u64,
    /// Ids of the commitments that fired.
    pub fired: Vec<String>,
}

/// How often a conflicting commit is retried: another node may report the same at the same time.
const COMMIT_TRIES: u32 = 16;
/// Records read with one query.
const PAGE_SIZE: u32 = 500;
/// Longest text of a statement that can be observed.
const KEY_CHARS_MAX: usize = 400;

impl Engine {
    /// Reports to the commitments of a memory whether a statement holds; those that wait for it
    /// fire.
    pub async fn observe(
        &self,
        caller: &Caller,
        memory_ref: &str,
        key: &str,
        holds: bool,
    ) -> Result<ObservationResult, EngineError> {
        sabotage!("anybody-observes", caller.require(Permission::MemoryWrite)?);
        let scope = caller.scope_to_write(memory_ref)?;
        let secrets = self.redaction_rules(caller.tenant()).await?;
        remem_core::admission::check_name(secrets.redactor(), "key", key)?;
        let malformed = Rejection::Invalid {
            field: "key",
            rule: "must be a short statement, such as \"invoice cleared\"",
        };
        let key = Some(key)
            .filter(|key| key.chars().count() <= KEY_CHARS_MAX)
            .and_then(infer::observation_key)
            .ok_or(malformed)?;
        self.report_observation(caller.tenant(), &scope.memory_ref, key, holds)
            .await
    }

    /// Reports an observation on behalf of the host. If it fails midway it can be repeated: a
    /// commitment ignores an observation that it has had already.
    pub(crate) async fn report_observation(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        key: String,
        holds: bool,
    ) -> Result<ObservationResult, EngineError> {
        let mut result = ObservationResult {
            key: key.clone(),
            ..ObservationResult::default()
        };
        let mut after = None;
        loop {
            let tie = RecordLookup::Topic {
                topic: predicate_topic(&key),
                after: after.clone(),
            };
            let page = self
                .parts
                .store
                .records_by(tenant, RecordKind::Commitment, &tie, PAGE_SIZE)
                .await?;
            let full = page.len() == PAGE_SIZE as usize;
            after = page.last().map(|record| record.key.clone());
            for record in page {
                let info = CommitmentInfo::from_record(record)?;
                if info.commitment.memory_ref != memory_ref.as_str()
                    || info.commitment.awaited_predicate() != Some(key.as_str())
                {
                    continue;
                }
                result.matched += 1;
                if self.apply_observation(tenant, info.clone(), holds).await? {
                    result.fired.push(info.id);
                }
            }
            if !full {
                return Ok(result);
            }
        }
    }

    /// Applies an observation to one commitment; returns whether it fired.
    async fn apply_observation(
        &self,
        tenant: &TenantId,
        mut info: CommitmentInfo,
        holds: bool,
    ) -> Result<bool, EngineError> {
        for _ in 0..COMMIT_TRIES {
            let now = self.now_for(tenant).await?;
            let Some((next, fires)) = info.commitment.after_observation(holds, now) else {
                return Ok(false);
            };
            if sabotage!("a-predicate-outlives-the-time-of-its-text", fires, false)
                && !self.source_is_live(tenant, &info, now).await?
            {
                self.cancel_without_source(tenant, &info, None).await?;
                return Ok(false);
            }
            let outcome = if fires {
                let instant = format!("p{}", next.epoch);
                self.fire(
                    tenant,
                    Firing {
                        info: &info,
                        next,
                        instant,
                        scheduled_at: now,
                        fence: None,
                    },
                    &RunQuota::default(),
                )
                .await?
            } else {
                self.store_state(tenant, &info, &next).await?
            };
            match outcome {
                FireOutcome::Done => return Ok(fires),
                // The observation will not be repeated, so the commitment becomes due now, and
                // fires when a run may be started.
                FireOutcome::NoFreeRun => {
                    if self
                        .store_state(
                            tenant,
                            &info,
                            &sabotage!(
                                "what-came-true-without-room-is-lost",
                                info.commitment.due_after_observation(now),
                                info.commitment.clone()
                            ),
                        )
                        .await?
                        == FireOutcome::Done
                    {
                        return Ok(false);
                    }
                }
                // An equal commitment has fired before under this id: continue its count.
                FireOutcome::AlreadyFired => {
                    info.commitment.epoch = self.last_epoch(tenant, &info.id).await?;
                    continue;
                }
                FireOutcome::NotDone => {}
            }
            let Some(reloaded) = self.load_commitment(tenant, &info.id).await? else {
                return Ok(false);
            };
            info = reloaded;
        }
        Err(StoreError::Busy.into())
    }

    /// How often a predicate with this id has become true, according to the firing records.
    async fn last_epoch(&self, tenant: &TenantId, id: &str) -> Result<u64, EngineError> {
        let prefix = format!("{id}/p");
        let mut after = None;
        let mut last = 0;
        loop {
            let page = self
                .parts
                .store
                .records(
                    tenant,
                    RecordKind::Firing,
                    &prefix,
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            let numbers = page
                .iter()
                .filter_map(|record| record.key.strip_prefix(&prefix)?.parse::<u64>().ok());
            last = numbers.max().unwrap_or(0).max(last);
            after = page.last().map(|record| record.key.clone());
            if page.len() < PAGE_SIZE as usize {
                return Ok(last);
            }
        }
    }

    /// Stores the state after an observation that did not fire the commitment.
    async fn store_state(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        next: &remem_core::Commitment,
    ) -> Result<FireOutcome, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let record_ties = ties_of(
            next,
            info.ties.source.clone(),
            policy.commitment_retention_ms,
        );
        let batch = Batch::new(tenant.clone(), now);
        let batch = set_commitment(
            batch,
            &rules.admission(&policy, now),
            &info.id,
            next,
            record_ties,
            Precondition::Version(info.version),
        );
        match self.parts.store.commit(batch).await {
            Ok(_) => Ok(FireOutcome::Done),
            Err(StoreError::Conflict) => Ok(FireOutcome::NotDone),
            Err(other) => Err(other.into()),
        }
    }
}
