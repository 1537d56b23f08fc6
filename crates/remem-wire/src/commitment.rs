//! Commitments on the wire: what an agent is to be reminded of, how promises are read, what was
//! observed. It may not decide anything; the words of a promise come from memory as it is now.

use crate::time::Instant;
use remem_core::commitment::{Commitment, Delivery, When};
use remem_core::{EntryId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is started when a commitment fires. Without a workflow or an agent it only tells.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDoc {
    /// The workflow to run, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// … or the agent to call upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What the run is given beside the names of commitment, memory and entry.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
}

impl From<DeliveryDoc> for Delivery {
    fn from(doc: DeliveryDoc) -> Delivery {
        Delivery {
            workflow_id: doc.workflow_id,
            agent_id: doc.agent_id,
            inputs: doc.inputs,
        }
    }
}

impl From<Delivery> for DeliveryDoc {
    fn from(delivery: Delivery) -> DeliveryDoc {
        DeliveryDoc {
            workflow_id: delivery.workflow_id,
            agent_id: delivery.agent_id,
            inputs: delivery.inputs,
        }
    }
}

fn is_silent(delivery: &DeliveryDoc) -> bool {
    *delivery == DeliveryDoc::default()
}

/// What to be reminded of, and when: one of `at`, `every`, `cron` and `predicate`, or none if the
/// text tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentCreate {
    /// What is meant; it becomes an entry of the memory.
    pub text: String,
    /// At this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Again and again after this distance, an ISO 8601 duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// As this cron line says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// When this becomes true, such as "the invoice has cleared".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// By whose clocks: the name of a time zone; the memory's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What is started; what the memory's rules say if absent.
    #[serde(default, skip_serializing_if = "is_silent")]
    pub delivery: DeliveryDoc,
    /// Whom or what it is about, so that it can be forgotten by that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

/// A commitment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentDoc {
    /// Its name.
    pub id: String,
    /// The memory it belongs to.
    pub memory_ref: String,
    /// The entry it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// What was meant, as memory has it now; absent if it cannot be read any more, or not by this
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Nobody vouches for the text that it was made from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// `pending`, `armed`, `done`, `cancelled` or `expired`.
    pub state: String,
    /// `time` or `predicate`.
    pub condition: String,
    /// When it fires next, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Instant>,
    /// The distance, if it repeats by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The cron line, if it repeats by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// By whose clocks it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The normal form of what has to become true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// When it is given up, if nobody confirms it or nothing comes true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up_at: Option<Instant>,
    /// Whether it was read out of a text; otherwise a caller said when.
    pub inferred: bool,
    /// 0 to 100: how sure that reading is.
    pub confidence: u8,
    /// What it starts.
    #[serde(default, skip_serializing_if = "is_silent")]
    pub delivery: DeliveryDoc,
    /// How often it has fired.
    pub fired: u64,
    /// What it last fired for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Instant>,
    /// The run that came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// Why it ended without firing: `caller`, `source`, `unconfirmed` or `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// When it was made.
    pub created_at: Instant,
    /// When it was last changed.
    pub updated_at: Instant,
}

impl CommitmentDoc {
    /// The commitment of that name, made from that entry.
    #[must_use]
    pub fn new(
        id: String,
        commitment: Commitment,
        source: Option<&EntryId>,
        text: Option<String>,
    ) -> CommitmentDoc {
        let at = |ms: i64| Instant(Timestamp(ms));
        let condition = commitment.condition().to_owned();
        let waits = commitment.state.is_open()
            && (commitment.next_at.is_none() || commitment.state.as_str() == "pending");
        let (every, cron, zone, predicate) = match commitment.when {
            When::Once => (None, None, None, None),
            When::Recurring {
                every, cron, zone, ..
            } => (every, cron, Some(zone), None),
            When::Predicate { key, .. } => (None, None, None, Some(key)),
        };
        let word = |by| {
            serde_json::to_value(by)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
        };
        CommitmentDoc {
            id,
            memory_ref: commitment.memory_ref,
            memory_id: source.map(|source| source.as_str().to_owned()),
            text,
            untrusted: false,
            state: commitment.state.as_str().to_owned(),
            condition,
            next_at: commitment.next_at.map(at),
            every,
            cron,
            zone,
            predicate,
            give_up_at: waits.then(|| at(commitment.give_up_at)),
            inferred: commitment.rules.is_some(),
            confidence: commitment.confidence,
            delivery: commitment.delivery.into(),
            fired: commitment.fired,
            last_fired_at: commitment.last_fired_at.map(at),
            last_run_id: commitment.last_run_id,
            ended_by: commitment.ended_by.and_then(word),
            created_at: at(commitment.created_at),
            updated_at: at(commitment.updated_at),
        }
    }
}

/// Which commitments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CommitmentsQuery {
    /// Of this memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// In this state: pending, armed, done, cancelled or expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The nextCursor of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many; 100 if absent, 0 for as many as the host gives at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Commitments, in the order of what happens next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentList {
    /// They.
    pub commitments: Vec<CommitmentDoc>,
    /// Where the next page begins, if there is one. A page may be empty and still have a next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Why there is a commitment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentWhy {
    /// The commitment.
    pub commitment: CommitmentDoc,
    /// The version of the rules that read it; absent if a caller said when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// The sentence it was read from, as memory has it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// The words of it that ask or promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cue: Option<String>,
    /// The words of it that tell when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_words: Option<String>,
}

/// Which fires of a commitment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FiresQuery {
    /// The `instant` of the last fire of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// That a commitment fired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireDoc {
    /// What it fired for: unique for the commitment.
    pub instant: String,
    /// When it should have fired.
    pub scheduled_at: Instant,
    /// When it did.
    pub fired_at: Instant,
    /// The run that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// Fires of a commitment, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireList {
    /// They.
    pub fires: Vec<FireDoc>,
}

/// When instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentSnooze {
    /// Then.
    pub until: Instant,
}

/// What somebody has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observation {
    /// What can be so, such as "the invoice has cleared".
    pub key: String,
    /// Whether it is so.
    pub value: bool,
}

/// What an observation did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservationAnswer {
    /// The normal form of what was observed: what commitments are compared by.
    pub key: String,
    /// How many commitments of the memory waited for it.
    pub matched: u64,
    /// Those that fired.
    pub fired: Vec<String>,
}

/// How promises are read out of a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentRulesPut {
    /// What becomes of a promise: `auto` (the default), `confirm` or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// By whose clocks times are meant: the name of a time zone; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What is started when one fires that says nothing else.
    #[serde(default, skip_serializing_if = "is_silent")]
    pub delivery: DeliveryDoc,
}

/// How promises are read out of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentRulesDoc {
    /// Whose rules they are; absent for those of all memories without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// What becomes of a promise: `auto`, `confirm` or `off`.
    pub arm: String,
    /// By whose clocks times are meant.
    pub zone: String,
    /// What is started when one fires that says nothing else.
    #[serde(default, skip_serializing_if = "is_silent")]
    pub delivery: DeliveryDoc,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_new_one_has_known_fields_and_instants() {
        let new: CommitmentCreate =
            serde_json::from_value(json!({"text": "x", "at": "2026-11-20T09:00:00+01:00"}))
                .unwrap();
        assert_eq!(
            serde_json::to_value(&new).unwrap(),
            json!({"text": "x", "at": "2026-11-20T08:00:00.000Z"})
        );
        for bad in [
            json!({}),
            json!({"text": "x", "when": 1}),
            json!({"text": "x", "at": "soon"}),
            json!({"text": "x", "delivery": {"x": 1}}),
        ] {
            assert!(serde_json::from_value::<CommitmentCreate>(bad).is_err());
        }
        assert!(
            serde_json::from_value::<Observation>(json!({"key": "x"})).is_err(),
            "an observation says whether it is so"
        );
    }
}
