//! Observations: somebody has seen that something is so, or not. What waits for it fires when it
//! comes true, once each time.

use super::CommitmentInfo;
use super::fire::{Fired, Firing, Rooms};
use super::{set, ties};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::commitment::topic;
use remem_core::sabotage;
use remem_core::{
    Batch, MemoryRef, Permission, Precondition, RecordKind, Rejection, TenantId, infer,
};
use remem_store::{StoreError, Tie};

/// What an observation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The normal form of what was observed.
    pub key: String,
    /// Commitments that wait for it.
    pub matched: u64,
    /// Those that fired.
    pub fired: Vec<String>,
}

/// Another node may observe the same at the same time.
const TRIES: u32 = 16;
const PAGE: u32 = 500;
/// Longer texts are no key.
const KEY_CHARS_MAX: usize = 400;

impl Engine {
    /// Tells what has been seen to the commitments of a memory that wait for it.
    pub async fn observe(
        &self,
        caller: &Caller,
        memory_ref: &str,
        key: &str,
        holds: bool,
    ) -> Result<Observed, EngineError> {
        sabotage!("anybody-observes", caller.require(Permission::MemoryWrite)?);
        let scope = caller.scope_to_write(memory_ref)?;
        let secrets = self.rules(caller.tenant()).await?;
        remem_core::admission::check_name(secrets.redactor(), "key", key)?;
        let shape = Rejection::Invalid {
            field: "key",
            rule: "must be a short statement, such as \"invoice cleared\"",
        };
        let key = Some(key)
            .filter(|key| key.chars().count() <= KEY_CHARS_MAX)
            .and_then(infer::observation_key)
            .ok_or(shape)?;
        self.tell(caller.tenant(), &scope.memory_ref, key, holds)
            .await
    }

    /// The same for whoever looks on behalf of the host. Should it fail midway, it can be repeated:
    /// who was told knows it.
    pub(crate) async fn tell(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        key: String,
        holds: bool,
    ) -> Result<Observed, EngineError> {
        let mut observed = Observed {
            key: key.clone(),
            ..Observed::default()
        };
        let mut after = None;
        loop {
            let tie = Tie::Topic {
                topic: topic(&key),
                after: after.clone(),
            };
            let page = self
                .parts
                .store
                .tied(tenant, RecordKind::Commitment, &tie, PAGE)
                .await?;
            let full = page.len() == PAGE as usize;
            after = page.last().map(|record| record.key.clone());
            for record in page {
                let info = CommitmentInfo::read(record)?;
                if info.commitment.memory_ref != memory_ref.as_str()
                    || info.commitment.awaits() != Some(key.as_str())
                {
                    continue;
                }
                observed.matched += 1;
                if self.tell_one(tenant, info.clone(), holds).await? {
                    observed.fired.push(info.id);
                }
            }
            if !full {
                return Ok(observed);
            }
        }
    }

    async fn tell_one(
        &self,
        tenant: &TenantId,
        mut info: CommitmentInfo,
        holds: bool,
    ) -> Result<bool, EngineError> {
        for _ in 0..TRIES {
            let now = self.now_for(tenant).await?;
            let Some((next, fires)) = info.commitment.observe(holds, now) else {
                return Ok(false);
            };
            if sabotage!("a-predicate-outlives-the-time-of-its-text", fires, false)
                && !self.source_stands(tenant, &info, now).await?
            {
                self.end_with_source(tenant, &info, None).await?;
                return Ok(false);
            }
            let done = if fires {
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
                    &Rooms::default(),
                )
                .await?
            } else {
                self.note(tenant, &info, &next).await?
            };
            match done {
                Fired::Now => return Ok(fires),
                // Nobody will tell of it again: it becomes due, and is fired when there is room.
                Fired::Held => {
                    if self
                        .note(
                            tenant,
                            &info,
                            &sabotage!(
                                "what-came-true-without-room-is-lost",
                                info.commitment.deferred(now),
                                info.commitment.clone()
                            ),
                        )
                        .await?
                        == Fired::Now
                    {
                        return Ok(false);
                    }
                }
                // The same was promised, and fired, before: counting goes on from there.
                Fired::Before => {
                    info.commitment.epoch = self.last_epoch(tenant, &info.id).await?;
                    continue;
                }
                Fired::Elsewhere => {}
            }
            let Some(again) = self.load_commitment(tenant, &info.id).await? else {
                return Ok(false);
            };
            info = again;
        }
        Err(StoreError::Busy.into())
    }

    /// How often a predicate of this name has come true, as far as notes tell.
    async fn last_epoch(&self, tenant: &TenantId, id: &str) -> Result<u64, EngineError> {
        let prefix = format!("{id}/p");
        let mut after = None;
        let mut last = 0;
        loop {
            let page = self
                .parts
                .store
                .records(tenant, RecordKind::Fire, &prefix, after.as_deref(), PAGE)
                .await?;
            let numbers = page
                .iter()
                .filter_map(|note| note.key.strip_prefix(&prefix)?.parse::<u64>().ok());
            last = numbers.max().unwrap_or(0).max(last);
            after = page.last().map(|note| note.key.clone());
            if page.len() < PAGE as usize {
                return Ok(last);
            }
        }
    }

    /// What was seen, without firing.
    async fn note(
        &self,
        tenant: &TenantId,
        info: &CommitmentInfo,
        next: &remem_core::Commitment,
    ) -> Result<Fired, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let rules = self.rules(tenant).await?;
        let place = ties(
            next,
            info.ties.source.clone(),
            policy.commitment_retention_ms,
        );
        let batch = Batch::new(tenant.clone(), now);
        let batch = set(
            batch,
            &rules.admission(&policy, now),
            &info.id,
            next,
            place,
            Precondition::Version(info.version),
        );
        match self.parts.store.commit(batch).await {
            Ok(_) => Ok(Fired::Now),
            Err(StoreError::Conflict) => Ok(Fired::Elsewhere),
            Err(other) => Err(other.into()),
        }
    }
}
