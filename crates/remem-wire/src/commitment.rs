//! Wire types of commitments, their rules, their firings and observations. Nothing here decides
//! anything; the text of a commitment is read from memory as it is now.

use crate::time::Instant;
use remem_core::commitment::{Commitment, CommitmentTrigger, Delivery};
use remem_core::{EntryId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Run that is started when a commitment fires. Without a workflow or an agent a firing is an event
/// alone.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDoc {
    /// Id of the workflow to run; at most one of `workflowId` and `agentId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Id of the agent to call; at most one of `workflowId` and `agentId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Further inputs of the run, beside the ids of commitment, memory and entry.
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

fn starts_nothing(delivery: &DeliveryDoc) -> bool {
    *delivery == DeliveryDoc::default()
}

/// Request to create a commitment. At most one of `at`, `every`, `cron` and `predicate` is set;
/// without one, the condition is read from the text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentCreate {
    /// Text of the commitment, which becomes an entry of the memory.
    pub text: String,
    /// Time at which the commitment fires, once (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    /// Interval after which the commitment fires again and again: an ISO 8601 duration of one
    /// minute or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Cron expression of five fields that sets the times of firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Statement that fires the commitment when it becomes true, such as "the invoice has cleared".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Name of the time zone that times are read in, such as `Europe/Berlin`; the memory's zone if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Run that is started on firing; that of the memory's rules if absent.
    #[serde(default, skip_serializing_if = "starts_nothing")]
    pub delivery: DeliveryDoc,
    /// Persons or things that the commitment is about, so that it can be forgotten by them: at most
    /// 32, of 256 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

/// A commitment: a promise that fires at a time, or when a statement comes true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentDoc {
    /// Unique id of the commitment.
    pub id: String,
    /// Name of the memory that the commitment belongs to.
    pub memory_ref: String,
    /// Id of the entry that the commitment was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<String>,
    /// Text of the commitment, as the entry reads now; absent if the entry can no longer be read,
    /// or not with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// True if the entry that the commitment was read from has an untrusted source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// State of the commitment: `pending`, `armed`, `done`, `cancelled` or `expired`.
    pub state: String,
    /// Kind of the condition: `time` or `predicate`.
    pub condition: String,
    /// Time of the next firing (RFC 3339); absent unless the commitment waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Instant>,
    /// Interval of a repeating commitment, an ISO 8601 duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Cron expression of a repeating commitment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Name of the time zone that a repeating commitment follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Normal form of the statement that the commitment waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Time at which the commitment is dropped if it is not confirmed, or if its statement does not
    /// come true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up_at: Option<Instant>,
    /// True if the condition was read from a text; false if a caller set it.
    pub inferred: bool,
    /// Confidence of that reading, from 0 to 100.
    pub confidence: u8,
    /// Run that is started on firing; absent if none is.
    #[serde(default, skip_serializing_if = "starts_nothing")]
    pub delivery: DeliveryDoc,
    /// Number of times that the commitment has fired.
    pub fired: u64,
    /// Time that the latest firing was due (RFC 3339); absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired_at: Option<Instant>,
    /// Id of the run that the latest firing started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_id: Option<String>,
    /// Reason that the commitment ended without firing: `caller`, `source`, `unconfirmed` or
    /// `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Time the commitment was created (RFC 3339).
    pub created_at: Instant,
    /// Time of the latest change (RFC 3339).
    pub updated_at: Instant,
}

impl CommitmentDoc {
    /// Describes the commitment of this id, with the entry that it was read from and the text of
    /// that.
    #[must_use]
    pub fn new(
        id: String,
        commitment: Commitment,
        source: Option<&EntryId>,
        text: Option<String>,
    ) -> CommitmentDoc {
        let at = |ms: i64| Instant(Timestamp(ms));
        let condition = commitment.condition_kind().to_owned();
        let has_deadline = commitment.state.is_open()
            && (commitment.next_at.is_none() || commitment.state.as_str() == "pending");
        let (every, cron, zone, predicate) = match commitment.when {
            CommitmentTrigger::Once => (None, None, None, None),
            CommitmentTrigger::Recurring {
                every, cron, zone, ..
            } => (every, cron, Some(zone), None),
            CommitmentTrigger::Predicate { key, .. } => (None, None, None, Some(key)),
        };
        let ended_by_name = |by| {
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
            give_up_at: has_deadline.then(|| at(commitment.give_up_at)),
            inferred: commitment.rules.is_some(),
            confidence: commitment.confidence,
            delivery: commitment.delivery.into(),
            fired: commitment.fired,
            last_fired_at: commitment.last_fired_at.map(at),
            last_run_id: commitment.last_run_id,
            ended_by: commitment.ended_by.and_then(ended_by_name),
            created_at: at(commitment.created_at),
            updated_at: at(commitment.updated_at),
        }
    }
}

/// Query parameters of the list of commitments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CommitmentsQuery {
    /// Only commitments of this memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// Only commitments in this state: `pending`, `armed`, `done`, `cancelled` or `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Cursor of the page: the `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of commitments per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of commitments, in the order of the next firing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentList {
    /// Commitments on this page; may be empty on a page that is not the last.
    pub commitments: Vec<CommitmentDoc>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Explanation of a commitment: the rules and the words that led to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentWhy {
    /// Commitment that is explained.
    pub commitment: CommitmentDoc,
    /// Version of the rules that read the commitment; absent if a caller set the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Sentence that the commitment was read from, as the entry reads now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Words of the sentence that ask or promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cue: Option<String>,
    /// Words of the sentence that name the time or the statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_words: Option<String>,
}

/// Query parameters of the list of a commitment's firings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FiresQuery {
    /// Only firings after this one: the `instant` of the last firing of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Number of firings per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One firing of a commitment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireDoc {
    /// Identifier of the firing, unique within the commitment.
    pub instant: String,
    /// Time that the firing was due (RFC 3339).
    pub scheduled_at: Instant,
    /// Time that the commitment fired (RFC 3339).
    pub fired_at: Instant,
    /// Id of the run that was started; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// The firings of a commitment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FireList {
    /// Firings on this page, oldest first.
    pub fires: Vec<FireDoc>,
}

/// Request to postpone a commitment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentSnooze {
    /// Time at which the commitment fires instead (RFC 3339).
    pub until: Instant,
}

/// Observation of a statement that commitments may wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observation {
    /// Statement that was observed, such as "the invoice has cleared"; at most 400 characters.
    pub key: String,
    /// True if the statement holds now, false if it does not.
    pub value: bool,
}

/// Effect of an observation on the commitments of the memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservationAnswer {
    /// Normal form of the statement, by which commitments are compared.
    pub key: String,
    /// Number of commitments in the memory that waited for the statement.
    pub matched: u64,
    /// Ids of the commitments that fired.
    pub fired: Vec<String>,
}

/// Rules for reading commitments from the entries of a memory. A field that is absent is reset to
/// its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentRulesPut {
    /// Treatment of a promise that is found: `auto` (armed at once if it is clear; the default),
    /// `confirm` (always pending) or `off` (entries are not read).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// Name of the time zone that times are read in; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Run that is started when a commitment without a delivery of its own fires.
    #[serde(default, skip_serializing_if = "starts_nothing")]
    pub delivery: DeliveryDoc,
}

/// Rules for reading commitments from the entries of a memory, as they are in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentRulesDoc {
    /// Name of the memory that the rules belong to; absent for the rules of all memories without
    /// their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// Treatment of a promise that is found: `auto`, `confirm` or `off`.
    pub arm: String,
    /// Name of the time zone that times are read in.
    pub zone: String,
    /// Run that is started when a commitment without a delivery of its own fires.
    #[serde(default, skip_serializing_if = "starts_nothing")]
    pub delivery: DeliveryDoc,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_and_invalid_instants_are_rejected() {
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
