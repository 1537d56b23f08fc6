//! Values that both stores write the same way: digests, permissions, and the outcomes of a repeated
//! request.

use remem_core::ledger::{ChangeOutcome, Refused};
use remem_core::{EntryId, Permission, RecordKind, Rejection, RuleId, Timestamp};
use remem_store::{RuleRange, StoreError};
use serde_json::{Value, json};

/// A short hash that detects a damaged text; it is stored only as long as the text.
pub(crate) fn content_hash(content: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(content);
    let mut short = [0; 16];
    short.copy_from_slice(&hash.as_bytes()[..16]);
    short
}

/// The permissions of a key as its row stores them: names with spaces between.
pub(crate) fn permissions_text(permissions: &[Permission]) -> String {
    let names: Vec<&str> = permissions.iter().map(|p| p.as_str()).collect();
    names.join(" ")
}

/// The error for the caller of a batch that was refused.
pub(crate) fn refused_error(refused: Refused) -> StoreError {
    match refused {
        Refused::Conflict => StoreError::Conflict,
        Refused::KeyMismatch => Rejection::IdempotencyMismatch.into(),
        Refused::UnreadableResult => StoreError::Damaged("an idempotency record cannot be read"),
    }
}

pub(crate) fn outcomes_to_stored(outcomes: &[ChangeOutcome]) -> String {
    let list: Vec<Value> = outcomes
        .iter()
        .map(|outcome| match outcome {
            ChangeOutcome::Stored { id, created_at } => json!([id.as_str(), created_at.0]),
            ChangeOutcome::Recorded { key, version } => json!({ "key": key, "version": version }),
            ChangeOutcome::Done => json!(2),
            ChangeOutcome::Removed => json!(1),
            ChangeOutcome::TextHeld => json!(3),
            ChangeOutcome::NoChange => json!(0),
        })
        .collect();
    Value::from(list).to_string()
}

pub(crate) fn outcomes_from_stored(text: &str) -> Option<Vec<ChangeOutcome>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    list.iter()
        .map(|value| match value {
            Value::Array(pair) => {
                let id = EntryId::parse(pair.first()?.as_str()?)?;
                Some(ChangeOutcome::Stored {
                    id,
                    created_at: Timestamp(pair.get(1)?.as_i64()?),
                })
            }
            Value::Object(record) => {
                let key = record
                    .get("key")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                Some(ChangeOutcome::Recorded {
                    key,
                    version: record.get("version")?.as_u64()?,
                })
            }
            Value::Number(n) if n.as_i64() == Some(2) => Some(ChangeOutcome::Done),
            Value::Number(n) if n.as_i64() == Some(1) => Some(ChangeOutcome::Removed),
            Value::Number(n) if n.as_i64() == Some(3) => Some(ChangeOutcome::TextHeld),
            Value::Number(_) => Some(ChangeOutcome::NoChange),
            _ => None,
        })
        .collect()
}

/// Refuses to read a kind of record that is under review: only the trait `Review` reads those, for
/// every caller.
pub(crate) fn refuse_inert(kind: RecordKind) -> Result<(), StoreError> {
    if kind.is_under_review() {
        Err(StoreError::Unavailable(
            "what is under review is not read here".into(),
        ))
    } else {
        Ok(())
    }
}

/// The world and the rule after which a range of rules begins; empty for the first ones.
pub(crate) fn rule_bounds(range: &RuleRange) -> (&str, &str) {
    match range {
        RuleRange::OfWorld(world, after) => {
            (world.as_str(), after.as_ref().map_or("", RuleId::as_str))
        }
        RuleRange::All(after) => after
            .as_ref()
            .map_or(("", ""), |(world, id)| (world.as_str(), id.as_str())),
    }
}

/// An upper bound, by bytes, of all texts that begin with `prefix`. No name holds the last
/// character.
pub(crate) fn prefix_end(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_outcomes_round_trip_through_storage() {
        let id = EntryId::parse("mem_\"1\"").unwrap();
        let recorded = ChangeOutcome::Recorded {
            key: "a/b".to_owned(),
            version: 7,
        };
        let outcomes = vec![
            ChangeOutcome::Stored {
                id,
                created_at: Timestamp(5),
            },
            recorded,
            ChangeOutcome::Done,
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange,
        ];
        assert_eq!(
            outcomes_from_stored(&outcomes_to_stored(&outcomes)),
            Some(outcomes)
        );
        assert_eq!(outcomes_from_stored("nonsense"), None);
    }
}
