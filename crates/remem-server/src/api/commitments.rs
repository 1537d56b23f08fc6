//! The part of the memory API for commitments, observations and heartbeats.

use super::{LocalApi, engine_failure, invalid_field};
use async_trait::async_trait;
use remem_core::Timestamp;
use remem_core::commitment::CommitmentState;
use remem_core::recall::fence;
use remem_engine::commitments::{
    CommitmentChange, CommitmentInfo, CommitmentQuery, CommitmentRules, Explanation, NewCommitment,
    NewCommitmentRules,
};
use remem_engine::heartbeats::{Heartbeat, NewHeartbeat};
use remem_wire::Failure;
use remem_wire::commitment::{
    CommitmentCreate, CommitmentDoc, CommitmentList, CommitmentRulesDoc, CommitmentRulesPut,
    CommitmentSnooze, CommitmentWhy, CommitmentsQuery, FireDoc, FireList, FiresQuery, Observation,
    ObservationAnswer,
};
use remem_wire::heartbeat::{HeartbeatDoc, HeartbeatList, HeartbeatPut};
use remem_wire::time::Instant;

/// The answer to a request to create a commitment.
#[derive(Clone, Debug)]
pub struct CreatedCommitment {
    pub commitment: CommitmentDoc,
    /// Whether an earlier request had created this commitment already.
    pub replayed: bool,
}

/// Commitments, observations and heartbeats, on behalf of one caller.
#[async_trait]
pub trait CommitmentApi: Send + Sync {
    /// Returns a page of commitments, the one that happens next first.
    async fn commitments(&self, query: CommitmentsQuery) -> Result<CommitmentList, Failure>;
    /// Returns one commitment by its id.
    async fn commitment(&self, id: &str) -> Result<CommitmentDoc, Failure>;
    /// Returns a commitment with the words that it was read from and the version of the rules.
    async fn explain_commitment(&self, id: &str) -> Result<CommitmentWhy, Failure>;
    /// Returns a page of the times that a commitment fired at, oldest first.
    async fn commitment_fires(&self, id: &str, query: FiresQuery) -> Result<FireList, Failure>;
    /// Creates a commitment and stores its text as an entry of the memory.
    async fn create_commitment(
        &self,
        memory_ref: &str,
        new: CommitmentCreate,
        key: Option<&str>,
    ) -> Result<CreatedCommitment, Failure>;
    /// Arms a pending commitment, which waits to be confirmed.
    async fn confirm_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure>;
    /// Cancels a commitment, so that it never fires again.
    async fn cancel_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure>;
    /// Postpones a commitment to another time; a pending one becomes armed.
    async fn snooze_commitment(
        &self,
        id: &str,
        snooze: CommitmentSnooze,
    ) -> Result<CommitmentDoc, Failure>;
    /// Reports an observation to the commitments of a memory; those that wait for it fire.
    async fn observe(
        &self,
        memory_ref: &str,
        observation: Observation,
    ) -> Result<ObservationAnswer, Failure>;
    /// Returns the rules by which commitments are recognised in the texts of a memory, or, without
    /// a `memory_ref`, of every memory that has no rules of its own.
    async fn commitment_rules(
        &self,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRulesDoc, Failure>;
    /// Sets the rules of a memory, or, without a `memory_ref`, of every memory without its own.
    async fn put_commitment_rules(
        &self,
        memory_ref: Option<&str>,
        put: CommitmentRulesPut,
    ) -> Result<CommitmentRulesDoc, Failure>;
    /// Returns the heartbeats of the caller's tenant.
    async fn heartbeats(&self) -> Result<HeartbeatList, Failure>;
    /// Returns one heartbeat and the result of its last check.
    async fn heartbeat(&self, id: &str) -> Result<HeartbeatDoc, Failure>;
    /// Creates or replaces a heartbeat.
    async fn put_heartbeat(&self, id: &str, put: HeartbeatPut) -> Result<HeartbeatDoc, Failure>;
    /// Removes a heartbeat by its id.
    async fn remove_heartbeat(&self, id: &str) -> Result<(), Failure>;
}

#[async_trait]
impl CommitmentApi for LocalApi {
    async fn commitments(&self, query: CommitmentsQuery) -> Result<CommitmentList, Failure> {
        let CommitmentsQuery {
            memory_ref,
            state,
            cursor: after,
            limit,
        } = query;
        let unknown = || {
            invalid_field(
                "state",
                "must be pending, armed, done, cancelled or expired",
            )
        };
        let state = state
            .map(|state| CommitmentState::parse(&state).ok_or_else(unknown))
            .transpose()?;
        let query = CommitmentQuery {
            memory_ref,
            state,
            cursor: after,
            limit,
        };
        let page = self
            .engine
            .list_commitments(&self.caller, &query)
            .await
            .map_err(engine_failure)?;
        let (explained, next_cursor) = self
            .engine
            .explain_page(&self.caller, page)
            .await
            .map_err(engine_failure)?;
        Ok(CommitmentList {
            commitments: explained.into_iter().map(commitment_doc).collect(),
            next_cursor,
        })
    }

    async fn commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.engine
            .explain_commitment(&self.caller, id)
            .await
            .map(commitment_doc)
            .map_err(engine_failure)
    }

    async fn explain_commitment(&self, id: &str) -> Result<CommitmentWhy, Failure> {
        let found = self
            .engine
            .explain_commitment(&self.caller, id)
            .await
            .map_err(engine_failure)?;
        let rules = found.info.commitment.rules.clone();
        let words = found.words.clone();
        let [sentence, cue, condition_words] =
            words.map_or([None, None, None], |words| words.map(Some));
        Ok(CommitmentWhy {
            commitment: commitment_doc(found),
            rules,
            sentence,
            cue,
            condition_words,
        })
    }

    async fn commitment_fires(&self, id: &str, query: FiresQuery) -> Result<FireList, Failure> {
        let notes = self
            .engine
            .list_firings(&self.caller, id, query.after.as_deref(), query.limit)
            .await
            .map_err(engine_failure)?;
        let fires = notes.into_iter().map(|note| FireDoc {
            instant: note.instant,
            scheduled_at: Instant(note.scheduled_at),
            fired_at: Instant(note.fired_at),
            run_id: note.run_id,
        });
        Ok(FireList {
            fires: fires.collect(),
        })
    }

    async fn create_commitment(
        &self,
        memory_ref: &str,
        new: CommitmentCreate,
        key: Option<&str>,
    ) -> Result<CreatedCommitment, Failure> {
        let CommitmentCreate {
            text,
            at,
            every,
            cron,
            predicate,
            zone,
            delivery,
            subjects,
        } = new;
        let at = at.map(|at| at.0);
        let delivery = delivery.into();
        let new = NewCommitment {
            text,
            at,
            every,
            cron,
            predicate,
            zone,
            delivery,
            subjects,
        };
        let created = self
            .engine
            .create_commitment(&self.caller, memory_ref, new, key)
            .await
            .map_err(engine_failure)?;
        Ok(CreatedCommitment {
            commitment: self.explained(created.info).await?,
            replayed: created.replayed,
        })
    }

    async fn confirm_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.change_commitment(id, CommitmentChange::Confirm).await
    }

    async fn cancel_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.change_commitment(id, CommitmentChange::Cancel).await
    }

    async fn snooze_commitment(
        &self,
        id: &str,
        snooze: CommitmentSnooze,
    ) -> Result<CommitmentDoc, Failure> {
        self.change_commitment(id, CommitmentChange::Snooze(snooze.until.0))
            .await
    }

    async fn observe(
        &self,
        memory_ref: &str,
        observation: Observation,
    ) -> Result<ObservationAnswer, Failure> {
        let Observation { key, value } = observation;
        let observed = self
            .engine
            .observe(&self.caller, memory_ref, &key, value)
            .await
            .map_err(engine_failure)?;
        Ok(ObservationAnswer {
            key: observed.key,
            matched: observed.matched,
            fired: observed.fired,
        })
    }

    async fn commitment_rules(
        &self,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRulesDoc, Failure> {
        self.engine
            .get_commitment_rules(&self.caller, memory_ref)
            .await
            .map(rules_doc)
            .map_err(engine_failure)
    }

    async fn put_commitment_rules(
        &self,
        memory_ref: Option<&str>,
        put: CommitmentRulesPut,
    ) -> Result<CommitmentRulesDoc, Failure> {
        let new = NewCommitmentRules {
            arm: put.arm,
            zone: put.zone,
            delivery: put.delivery.into(),
        };
        self.engine
            .put_commitment_rules(&self.caller, memory_ref, new)
            .await
            .map(rules_doc)
            .map_err(engine_failure)
    }

    async fn heartbeats(&self) -> Result<HeartbeatList, Failure> {
        let heartbeats = self
            .engine
            .list_heartbeats(&self.caller)
            .await
            .map_err(engine_failure)?;
        Ok(HeartbeatList {
            heartbeats: heartbeats.into_iter().map(heartbeat_doc).collect(),
        })
    }

    async fn heartbeat(&self, id: &str) -> Result<HeartbeatDoc, Failure> {
        self.engine
            .get_heartbeat(&self.caller, id)
            .await
            .map(heartbeat_doc)
            .map_err(engine_failure)
    }

    async fn put_heartbeat(&self, id: &str, put: HeartbeatPut) -> Result<HeartbeatDoc, Failure> {
        let HeartbeatPut {
            memory_ref,
            key,
            tag,
            every_seconds,
            enabled,
        } = put;
        let new = NewHeartbeat {
            memory_ref,
            key,
            tag,
            every_seconds,
            enabled: enabled.unwrap_or(true),
        };
        self.engine
            .put_heartbeat(&self.caller, id, new)
            .await
            .map(heartbeat_doc)
            .map_err(engine_failure)
    }

    async fn remove_heartbeat(&self, id: &str) -> Result<(), Failure> {
        self.engine
            .remove_heartbeat(&self.caller, id)
            .await
            .map_err(engine_failure)
    }
}

impl LocalApi {
    async fn change_commitment(
        &self,
        id: &str,
        change: CommitmentChange,
    ) -> Result<CommitmentDoc, Failure> {
        let changed = self
            .engine
            .change_commitment(&self.caller, id, change)
            .await
            .map_err(engine_failure)?;
        self.explained(changed).await
    }

    /// Converts a commitment; its text is read from the entry that it was recognised in.
    async fn explained(&self, info: CommitmentInfo) -> Result<CommitmentDoc, Failure> {
        self.engine
            .explain(&self.caller, info)
            .await
            .map(commitment_doc)
            .map_err(engine_failure)
    }
}

/// Converts an explained commitment. The text of one that was recognised is its sentence; the text
/// of one that a caller created is the whole entry.
fn commitment_doc(found: Explanation) -> CommitmentDoc {
    let Explanation { info, entry, words } = found;
    let untrusted = entry.as_ref().is_some_and(fence::is_untrusted);
    let text = words
        .map(|[sentence, ..]| sentence)
        .or_else(|| entry.map(|entry| entry.content));
    CommitmentDoc {
        untrusted,
        ..CommitmentDoc::new(info.id, info.commitment, info.source.as_ref(), text)
    }
}

fn rules_doc(rules: CommitmentRules) -> CommitmentRulesDoc {
    let CommitmentRules {
        memory_ref,
        arm,
        zone,
        delivery,
    } = rules;
    CommitmentRulesDoc {
        memory_ref,
        arm: arm.as_str().to_owned(),
        zone,
        delivery: delivery.into(),
    }
}

fn heartbeat_doc(heartbeat: Heartbeat) -> HeartbeatDoc {
    HeartbeatDoc {
        id: heartbeat.id,
        memory_ref: heartbeat.memory_ref,
        key: heartbeat.key,
        tag: heartbeat.tag,
        every_seconds: u32::try_from(heartbeat.every_ms / 1_000).unwrap_or(u32::MAX),
        enabled: heartbeat.enabled,
        holds: heartbeat.holds,
        last_status: heartbeat.last_status,
        last_at: heartbeat.last_at.map(|ms| Instant(Timestamp(ms))),
    }
}
