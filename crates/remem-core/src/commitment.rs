//! The commitment: a reminder for an agent, at a time or when a condition becomes true. Decides how
//! its state may change and when it fires; it reads no clock, searches no entry and starts nothing.
//!
//! A commitment holds no sentence. The text stays in the entry that it was read from, and only the
//! positions of the words are stored. The exception is the key of a predicate, which has to be
//! compared; a store deletes the record together with the entry's text.

use crate::ids::Timestamp;
use crate::rejection::Rejection;
use crate::sabotage;
use crate::schedule::Timing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The state of a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitmentState {
    /// It waits for a confirmation.
    Pending,
    /// It waits for its time or condition, and will fire.
    Armed,
    /// It has fired and will not fire again.
    Done,
    /// It was cancelled or never confirmed, or the entry that it was read from is outdated.
    Cancelled,
    /// Its condition did not come true in time.
    Expired,
}

impl CommitmentState {
    /// All states, in the order of their declaration.
    pub const ALL: [CommitmentState; 5] = [
        CommitmentState::Pending,
        CommitmentState::Armed,
        CommitmentState::Done,
        CommitmentState::Cancelled,
        CommitmentState::Expired,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CommitmentState::Pending => "pending",
            CommitmentState::Armed => "armed",
            CommitmentState::Done => "done",
            CommitmentState::Cancelled => "cancelled",
            CommitmentState::Expired => "expired",
        }
    }

    /// The state with this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<CommitmentState> {
        CommitmentState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Returns true if it may still fire.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, CommitmentState::Pending | CommitmentState::Armed)
    }
}

/// The time or condition that a commitment waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "kind"
)]
pub enum CommitmentTrigger {
    /// A single instant, which is in `next_at`.
    Once,
    /// A repeated time: an interval or a cron line.
    Recurring {
        /// An ISO 8601 duration that is counted from the anchor, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<String>,
        /// … or a cron line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cron: Option<String>,
        /// The time zone in which the rule is read.
        zone: String,
        /// The instant that intervals are counted from, in milliseconds.
        anchor: i64,
    },
    /// A condition that becomes true.
    Predicate {
        /// The normal form of the predicate.
        key: String,
        /// True if it fires the first time only.
        once: bool,
    },
}

/// Positions of words in the text of the entry, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSpans {
    /// The sentence that holds the commitment.
    pub sentence: [usize; 2],
    /// The words that ask or promise.
    pub cue: [usize; 2],
    /// The words that say when.
    pub condition: [usize; 2],
}

/// The run that a commitment starts when it fires. Without a workflow or an agent it only sends an
/// event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The workflow to run, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// … or the agent to invoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The inputs of the run, beside the names of commitment, memory and entry.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// The reason why a commitment ended without having fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// A caller cancelled it.
    Caller,
    /// The entry that it was read from is outdated.
    Source,
    /// No confirmation came in time.
    Unconfirmed,
    /// Its condition did not come true in time.
    Time,
}

/// A commitment, as its record holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commitment {
    /// The memory it belongs to.
    pub memory_ref: String,
    pub state: CommitmentState,
    pub when: CommitmentTrigger,
    /// The next instant to fire, in milliseconds, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<i64>,
    /// The instant at which it is given up because it is unconfirmed or its condition is still
    /// false.
    pub give_up_at: i64,
    /// The version of the rules that recognised it in a text; absent if a caller gave the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// The confidence that the text was meant as a commitment, from 0 to 100.
    pub confidence: u8,
    /// The positions of the words in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<TextSpans>,
    /// The run that it starts.
    #[serde(default)]
    pub delivery: Delivery,
    pub created_at: i64,
    pub updated_at: i64,
    /// The last observed value of its predicate, if there was an observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// The number of times that its predicate has come true.
    #[serde(default)]
    pub epoch: u64,
    /// The number of times that it has fired.
    #[serde(default)]
    pub fired: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<i64>,
    /// The run that was started when it last fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// The reason why it ended without firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}

/// The reason why an operation on a commitment is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitmentError {
    /// The commitment is in a state that does not allow the operation.
    WrongState(CommitmentState),
    /// An argument of the operation is invalid.
    Rejected(Rejection),
}

impl From<Rejection> for CommitmentError {
    fn from(rejection: Rejection) -> CommitmentError {
        CommitmentError::Rejected(rejection)
    }
}

/// The action that is due for a commitment.
#[derive(Clone, Debug, PartialEq)]
pub enum DueAction {
    /// It fires for this instant; `next` is its state afterwards.
    Fire {
        /// The scheduled instant, which is the same on every node.
        instant: Timestamp,
        /// The commitment after it has fired.
        next: Box<Commitment>,
    },
    /// It is given up; the value is its state afterwards.
    GiveUp(Box<Commitment>),
    /// It ended so long ago that its record is deleted.
    Delete,
    /// It is not due yet.
    Wait,
}

impl Commitment {
    /// The body of its record.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// Reads the body of a record; `None` if this version does not know its form.
    #[must_use]
    pub fn from_map(map: Map<String, Value>) -> Option<Commitment> {
        serde_json::from_value(Value::Object(map)).ok()
    }

    /// The kind of its condition, `time` or `predicate`, in the protocol's words.
    #[must_use]
    pub fn condition_kind(&self) -> &'static str {
        if matches!(self.when, CommitmentTrigger::Predicate { .. }) {
            "predicate"
        } else {
            "time"
        }
    }

    /// The instant at which the next action is due: it fires, is given up, or is deleted
    /// `retention_ms` after its end.
    #[must_use]
    pub fn due_at(&self, retention_ms: i64) -> Timestamp {
        Timestamp(match self.state {
            CommitmentState::Armed => self.next_at.unwrap_or(self.give_up_at),
            CommitmentState::Pending => self.give_up_at,
            CommitmentState::Done | CommitmentState::Cancelled | CommitmentState::Expired => {
                self.updated_at.saturating_add(retention_ms)
            }
        })
    }

    /// The key of the predicate that it waits for now.
    #[must_use]
    pub fn awaited_predicate(&self) -> Option<&str> {
        match &self.when {
            CommitmentTrigger::Predicate { key, .. } if self.state == CommitmentState::Armed => {
                Some(key)
            }
            _ => None,
        }
    }

    /// The action that is due at `now`. If several instants were missed, it fires once, for the
    /// latest.
    #[must_use]
    pub fn due_action(&self, now: Timestamp, retention_ms: i64) -> DueAction {
        if self.due_at(retention_ms) > now {
            return DueAction::Wait;
        }
        match (self.state, self.next_at) {
            (CommitmentState::Armed, Some(next_at)) => self.fire_action(Timestamp(next_at), now),
            (CommitmentState::Armed, None) => DueAction::GiveUp(Box::new(self.end(
                CommitmentState::Expired,
                EndedBy::Time,
                now,
            ))),
            (CommitmentState::Pending, _) => DueAction::GiveUp(Box::new(self.end(
                CommitmentState::Cancelled,
                EndedBy::Unconfirmed,
                now,
            ))),
            (CommitmentState::Done | CommitmentState::Cancelled | CommitmentState::Expired, _) => {
                DueAction::Delete
            }
        }
    }

    fn fire_action(&self, due: Timestamp, now: Timestamp) -> DueAction {
        let timing = self.timing();
        let anchor = self.anchor();
        let latest = timing
            .as_ref()
            .and_then(|timing| {
                timing.latest(
                    anchor,
                    due,
                    sabotage!("missed-ticks-are-fired-for-as-if-they-were-new", now, due),
                )
            })
            .unwrap_or(due);
        let next_at = timing
            .and_then(|timing| timing.next(anchor, now))
            .map(|at| at.0);
        let stays = next_at.is_some()
            || matches!(self.when, CommitmentTrigger::Predicate { once: false, .. });
        let state = if stays {
            CommitmentState::Armed
        } else {
            CommitmentState::Done
        };
        let next = Commitment {
            state,
            next_at,
            updated_at: now.0,
            fired: self.fired + 1,
            last_fired_at: Some(latest.0),
            ..self.clone()
        };
        DueAction::Fire {
            instant: latest,
            next: Box::new(next),
        }
    }

    fn timing(&self) -> Option<Timing> {
        let CommitmentTrigger::Recurring {
            every, cron, zone, ..
        } = &self.when
        else {
            return None;
        };
        Timing::parse(every.as_deref(), cron.as_deref(), zone).ok()
    }

    fn anchor(&self) -> Timestamp {
        if let CommitmentTrigger::Recurring { anchor, .. } = &self.when {
            Timestamp(*anchor)
        } else {
            Timestamp(0)
        }
    }

    /// The commitment after an observation of its predicate, and whether it fires now. `None` if
    /// the observation changes nothing. A commitment fires when its predicate becomes true, not
    /// while it stays true.
    #[must_use]
    pub fn after_observation(&self, holds: bool, now: Timestamp) -> Option<(Commitment, bool)> {
        let CommitmentTrigger::Predicate { once, .. } = &self.when else {
            return None;
        };
        if self.state != CommitmentState::Armed || self.holds == Some(holds) {
            return None;
        }
        let mut next = Commitment {
            holds: Some(holds),
            updated_at: now.0,
            ..self.clone()
        };
        if holds {
            next.epoch += 1;
            next.fired += 1;
            next.last_fired_at = Some(now.0);
            next.state = if *once {
                CommitmentState::Done
            } else {
                CommitmentState::Armed
            };
        }
        Some((next, holds))
    }

    /// The commitment after its predicate has come true while it could not fire: it is due from now
    /// on.
    #[must_use]
    pub fn due_after_observation(&self, now: Timestamp) -> Commitment {
        Commitment {
            holds: Some(true),
            epoch: self.epoch + 1,
            next_at: Some(now.0),
            updated_at: now.0,
            ..self.clone()
        }
    }

    /// Confirms a pending commitment, so that it will fire.
    pub fn confirm(&self, now: Timestamp, wait_ms: i64) -> Result<Commitment, CommitmentError> {
        if self.state != CommitmentState::Pending {
            return Err(CommitmentError::WrongState(self.state));
        }
        if self.next_at.is_some_and(|at| at <= now.0) {
            let rule = "is in the past; snooze it to a later time";
            return Err(Rejection::Invalid {
                field: "commitment",
                rule,
            }
            .into());
        }
        Ok(Commitment {
            state: CommitmentState::Armed,
            give_up_at: now.plus_ms(wait_ms).0,
            updated_at: now.0,
            ..self.clone()
        })
    }

    /// Cancels a commitment that is still open.
    pub fn cancel(&self, now: Timestamp) -> Result<Commitment, CommitmentError> {
        if !self.state.is_open() {
            return Err(CommitmentError::WrongState(self.state));
        }
        Ok(self.end(CommitmentState::Cancelled, EndedBy::Caller, now))
    }

    /// Moves a commitment to another time. One that repeats follows its own rule afterwards.
    pub fn snooze(
        &self,
        until: Timestamp,
        now: Timestamp,
        horizon_ms: i64,
    ) -> Result<Commitment, CommitmentError> {
        if !self.state.is_open() {
            return Err(CommitmentError::WrongState(self.state));
        }
        if self.condition_kind() != "time" {
            return Err(Rejection::Invalid {
                field: "commitment",
                rule: "must be waiting for a time to be snoozed",
            }
            .into());
        }
        check_instant("until", until, now, horizon_ms)?;
        let give_up_at = self.give_up_at.max(until.0);
        Ok(Commitment {
            state: CommitmentState::Armed,
            next_at: Some(until.0),
            give_up_at,
            updated_at: now.0,
            ..self.clone()
        })
    }

    /// Continues the counters of an ended commitment with the same name, which this one replaces.
    /// Ids of fired runs and events are made from the counters, so they must never repeat.
    pub fn continue_counters(&mut self, earlier: &Commitment) {
        self.epoch = earlier.epoch;
        self.fired = earlier.fired;
    }

    /// The commitment after it ended without firing.
    #[must_use]
    pub fn end(&self, state: CommitmentState, by: EndedBy, now: Timestamp) -> Commitment {
        Commitment {
            state,
            next_at: None,
            ended_by: Some(by),
            updated_at: now.0,
            ..self.clone()
        }
    }
}

/// Checks that an instant is in the future, and not too far.
pub fn check_instant(
    field: &'static str,
    at: Timestamp,
    now: Timestamp,
    horizon_ms: i64,
) -> Result<(), Rejection> {
    if at <= now {
        return Err(Rejection::Invalid {
            field,
            rule: "must be in the future",
        });
    }
    if at.0 - now.0 > horizon_ms {
        return Err(Rejection::too_far(field, horizon_ms));
    }
    Ok(())
}

/// The topic under which records that wait for a predicate are found.
#[must_use]
pub fn predicate_topic(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex()[..32].to_owned()
}

#[cfg(test)]
#[path = "commitment_tests.rs"]
mod tests;
