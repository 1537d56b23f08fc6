//! The commitment: something that an agent is to be reminded of, at a time or when something
//! becomes true. Decides what may happen to one and when it fires; it reads no clock, finds no
//! entry and starts nothing.
//!
//! It holds no sentence: what was meant stays in the entry it was read from, and only the places of
//! the words are kept. The exception is the key of a predicate, which has to be compared; a store
//! takes the record away with the entry's text.

use crate::ids::Timestamp;
use crate::rejection::Rejection;
use crate::sabotage;
use crate::schedule::Timing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a commitment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits for somebody to confirm it.
    Pending,
    /// It will fire.
    Armed,
    /// It has fired, and will not again.
    Done,
    /// It was taken back, or what it was read from was.
    Cancelled,
    /// It waited too long.
    Expired,
}

impl State {
    /// Every state.
    pub const ALL: [State; 5] = [
        State::Pending,
        State::Armed,
        State::Done,
        State::Cancelled,
        State::Expired,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Armed => "armed",
            State::Done => "done",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it may still fire.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, State::Pending | State::Armed)
    }
}

/// What a commitment waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "kind"
)]
pub enum When {
    /// An instant.
    Once,
    /// Instant after instant.
    Recurring {
        /// An ISO 8601 duration, counted from the anchor, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<String>,
        /// … or a cron line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cron: Option<String>,
        /// By whose clocks.
        zone: String,
        /// What distances are counted from.
        anchor: i64,
    },
    /// That something becomes true.
    Predicate {
        /// Its normal form.
        key: String,
        /// Whether it fires the first time only.
        once: bool,
    },
}

/// Places of words in the text of the entry, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// The sentence.
    pub sentence: [usize; 2],
    /// The words that ask or promise.
    pub cue: [usize; 2],
    /// The words that tell when.
    pub condition: [usize; 2],
}

/// What a commitment starts when it fires. Without a workflow or an agent it only tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The workflow to run, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// … or the agent to call upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What the run is given beside the names of commitment, memory and entry.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// Why one ended without having fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// A caller took it back.
    Caller,
    /// What it was read from is outdated.
    Source,
    /// Nobody confirmed it in time.
    Unconfirmed,
    /// What it waited for did not come true in time.
    Time,
}

/// A commitment, as its record holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commitment {
    /// The memory it belongs to.
    pub memory_ref: String,
    /// How it stands.
    pub state: State,
    /// What it waits for.
    pub when: When,
    /// The next instant, in milliseconds, of one that waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<i64>,
    /// When it is given up: unconfirmed, or without its predicate.
    pub give_up_at: i64,
    /// The version of the rules that read it out of a text; absent if a caller said when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// 0 to 100.
    pub confidence: u8,
    /// Where the words are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<Spans>,
    /// What it starts.
    #[serde(default)]
    pub delivery: Delivery,
    /// When it was made.
    pub created_at: i64,
    /// When it was last changed.
    pub updated_at: i64,
    /// Whether its predicate held when somebody last looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// How often its predicate has come true.
    #[serde(default)]
    pub epoch: u64,
    /// How often it has fired.
    #[serde(default)]
    pub fired: u64,
    /// When it last fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<i64>,
    /// The run that came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// Why it ended without firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}

/// Why something cannot be done with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not as it stands.
    State(State),
    /// Not like this.
    Rejected(Rejection),
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        Refusal::Rejected(rejection)
    }
}

/// What is to be done about a commitment that is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It fires for this instant, and stands so afterwards.
    Fire {
        /// The scheduled instant, which is the same on every node.
        instant: Timestamp,
        /// Afterwards.
        next: Box<Commitment>,
    },
    /// It is given up.
    GiveUp(Box<Commitment>),
    /// It ended long ago.
    Forget,
    /// Nothing yet.
    Wait,
}

impl Commitment {
    /// As a record's content.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// From a record's content; `None` if this version does not know it.
    #[must_use]
    pub fn from_map(map: Map<String, Value>) -> Option<Commitment> {
        serde_json::from_value(Value::Object(map)).ok()
    }

    /// `time` or `predicate`, in the protocol's words.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        if matches!(self.when, When::Predicate { .. }) {
            "predicate"
        } else {
            "time"
        }
    }

    /// When something is to be done about it: it fires, is given up, or is forgotten `retention_ms`
    /// after its end.
    #[must_use]
    pub fn due(&self, retention_ms: i64) -> Timestamp {
        Timestamp(match self.state {
            State::Armed => self.next_at.unwrap_or(self.give_up_at),
            State::Pending => self.give_up_at,
            State::Done | State::Cancelled | State::Expired => {
                self.updated_at.saturating_add(retention_ms)
            }
        })
    }

    /// The predicate that it waits for now.
    #[must_use]
    pub fn awaits(&self) -> Option<&str> {
        match &self.when {
            When::Predicate { key, .. } if self.state == State::Armed => Some(key),
            _ => None,
        }
    }

    /// What is to be done about it at `now`. However many instants were missed, it fires once, for
    /// the latest.
    #[must_use]
    pub fn step(&self, now: Timestamp, retention_ms: i64) -> Step {
        if self.due(retention_ms) > now {
            return Step::Wait;
        }
        match (self.state, self.next_at) {
            (State::Armed, Some(next_at)) => self.fire_at(Timestamp(next_at), now),
            (State::Armed, None) => {
                Step::GiveUp(Box::new(self.ended(State::Expired, EndedBy::Time, now)))
            }
            (State::Pending, _) => Step::GiveUp(Box::new(self.ended(
                State::Cancelled,
                EndedBy::Unconfirmed,
                now,
            ))),
            (State::Done | State::Cancelled | State::Expired, _) => Step::Forget,
        }
    }

    fn fire_at(&self, due: Timestamp, now: Timestamp) -> Step {
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
        let stays = next_at.is_some() || matches!(self.when, When::Predicate { once: false, .. });
        let state = if stays { State::Armed } else { State::Done };
        let next = Commitment {
            state,
            next_at,
            updated_at: now.0,
            fired: self.fired + 1,
            last_fired_at: Some(latest.0),
            ..self.clone()
        };
        Step::Fire {
            instant: latest,
            next: Box::new(next),
        }
    }

    fn timing(&self) -> Option<Timing> {
        let When::Recurring {
            every, cron, zone, ..
        } = &self.when
        else {
            return None;
        };
        Timing::parse(every.as_deref(), cron.as_deref(), zone).ok()
    }

    fn anchor(&self) -> Timestamp {
        if let When::Recurring { anchor, .. } = &self.when {
            Timestamp(*anchor)
        } else {
            Timestamp(0)
        }
    }

    /// What an observation of its predicate makes of it: nothing, if it says what was known; and
    /// whether it fires, which it does when the predicate comes true, not while it stays so.
    #[must_use]
    pub fn observe(&self, holds: bool, now: Timestamp) -> Option<(Commitment, bool)> {
        let When::Predicate { once, .. } = &self.when else {
            return None;
        };
        if self.state != State::Armed || self.holds == Some(holds) {
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
            next.state = if *once { State::Done } else { State::Armed };
        }
        Some((next, holds))
    }

    /// Its predicate has come true, but it cannot fire yet: it is due from now on.
    #[must_use]
    pub fn deferred(&self, now: Timestamp) -> Commitment {
        Commitment {
            holds: Some(true),
            epoch: self.epoch + 1,
            next_at: Some(now.0),
            updated_at: now.0,
            ..self.clone()
        }
    }

    /// Somebody says that it is meant.
    pub fn confirm(&self, now: Timestamp, wait_ms: i64) -> Result<Commitment, Refusal> {
        if self.state != State::Pending {
            return Err(Refusal::State(self.state));
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
            state: State::Armed,
            give_up_at: now.plus_ms(wait_ms).0,
            updated_at: now.0,
            ..self.clone()
        })
    }

    /// Somebody takes it back.
    pub fn cancel(&self, now: Timestamp) -> Result<Commitment, Refusal> {
        if !self.state.is_open() {
            return Err(Refusal::State(self.state));
        }
        Ok(self.ended(State::Cancelled, EndedBy::Caller, now))
    }

    /// Somebody wants it at another time. One that repeats goes on by its rule afterwards.
    pub fn snooze(
        &self,
        until: Timestamp,
        now: Timestamp,
        horizon_ms: i64,
    ) -> Result<Commitment, Refusal> {
        if !self.state.is_open() {
            return Err(Refusal::State(self.state));
        }
        if self.condition() != "time" {
            return Err(Rejection::Invalid {
                field: "commitment",
                rule: "must be waiting for a time to be snoozed",
            }
            .into());
        }
        check_instant("until", until, now, horizon_ms)?;
        let give_up_at = self.give_up_at.max(until.0);
        Ok(Commitment {
            state: State::Armed,
            next_at: Some(until.0),
            give_up_at,
            updated_at: now.0,
            ..self.clone()
        })
    }

    /// Takes the place of one of the same name that has ended. It counts on from there: what it
    /// fires for must never be named like what the earlier one fired for.
    pub fn follow(&mut self, earlier: &Commitment) {
        self.epoch = earlier.epoch;
        self.fired = earlier.fired;
    }

    /// Ends it without firing.
    #[must_use]
    pub fn ended(&self, state: State, by: EndedBy, now: Timestamp) -> Commitment {
        Commitment {
            state,
            next_at: None,
            ended_by: Some(by),
            updated_at: now.0,
            ..self.clone()
        }
    }
}

/// An instant that something can be set to: ahead, and not too far.
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

/// What records that wait for a predicate are found by.
#[must_use]
pub fn topic(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex()[..32].to_owned()
}

#[cfg(test)]
#[path = "commitment_tests.rs"]
mod tests;
