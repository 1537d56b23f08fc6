//! The position of the pass `embed` in a tenant: how far it has followed the event log, and how far
//! it has looked through all entries. It is stored under `log` in the record that says which model
//! serves; a version that does not know it drops it when it writes that record, and all entries
//! are looked through again.

use crate::stored::progress::{EmbedProgress, StoredEmbedPosition};
use remem_core::sabotage;
use remem_core::{
    EntryId, Event, EventBody, MemoryRef, ModelId, Record, Seq, StoredRecord, Timestamp,
};
use remem_store::RowCursor;

/// How often all entries are looked through, in milliseconds.
const LOOK_EVERY_MS: i64 = 24 * 3_600_000;

/// How far the vectors of a model have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EmbedPosition {
    pub model: ModelId,
    /// The entries of all events up to this one were seen with their vectors.
    pub seq: Seq,
    pub look: Look,
}

/// How far the look through all entries has come that goes beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// All entries before this position were seen with their vectors.
    At(Option<RowCursor>),
    /// The last look ended at this instant.
    Ended(Timestamp),
}

impl EmbedPosition {
    /// The position of a model at the start of a look: `head` is the newest event before it.
    pub fn start(model: ModelId, head: Seq) -> EmbedPosition {
        EmbedPosition {
            model,
            seq: head,
            look: Look::At(None),
        }
    }

    /// The stored position. `None` if all entries must be looked through from the start: there was
    /// no look for this model yet, or the last one was too long ago.
    pub fn from_record(
        record: Option<&Record>,
        model: ModelId,
        now: Timestamp,
    ) -> Option<EmbedPosition> {
        let log = EmbedProgress::read(record?)?.log?;
        let look = match log.looked_at {
            Some(at) => Look::Ended(at),
            None => Look::At(
                log.scope
                    .zip(log.row)
                    .map(|(scope, row)| RowCursor(scope, row)),
            ),
        };
        let position = EmbedPosition {
            model: log.model,
            seq: log.seq,
            look,
        };
        let is_recent = match look {
            Look::At(_) => true,
            Look::Ended(at) => sabotage!(
                "all-entries-are-looked-through-once-and-never-again",
                (0..LOOK_EVERY_MS).contains(&now.0.saturating_sub(at.0)),
                true
            ),
        };
        let is_same_model = sabotage!(
            "a-new-model-goes-on-where-the-old-one-was",
            position.model == model,
            true
        );
        (is_recent && is_same_model).then_some(EmbedPosition { model, ..position })
    }

    /// The form in which the record holds it.
    pub fn to_stored(&self) -> StoredEmbedPosition {
        let (at, looked_at) = match self.look {
            Look::At(at) => (at, None),
            Look::Ended(at) => (None, Some(at)),
        };
        StoredEmbedPosition {
            model: self.model,
            seq: self.seq,
            scope: at.map(|at| at.0),
            row: at.map(|at| at.1),
            looked_at,
        }
    }
}

/// The entry that may lack a vector because of this event: one that was written, or whose text has
/// changed, or that is live again.
pub(super) fn changed_entry(event: &Event) -> Option<(MemoryRef, EntryId)> {
    let (memory_ref, id) = match &event.body {
        EventBody::Written(written) => (&written.memory_ref, &written.memory_id),
        EventBody::Redacted(entry) => sabotage!(
            "an-entry-redacted-again-waits-for-its-vector",
            (&entry.memory_ref, &entry.memory_id),
            return None
        ),
        EventBody::Revived(entry) => (&entry.memory_ref, &entry.memory_id),
        _ => return None,
    };
    MemoryRef::parse(memory_ref).zip(EntryId::parse(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::RecordKind;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn stored(body: Value) -> Option<EmbedPosition> {
        let record = Record {
            kind: RecordKind::Progress,
            key: "embed".to_owned(),
            version: 1,
            at: NOW,
            body: body.as_object().cloned().unwrap_or_default(),
            links: Default::default(),
        };
        EmbedPosition::from_record(Some(&record), ModelId(7), NOW)
    }

    #[test]
    fn a_position_round_trips() {
        for look in [
            Look::At(None),
            Look::At(Some(RowCursor(0, 12))),
            Look::Ended(NOW.plus_ms(-5)),
        ] {
            let position = EmbedPosition {
                model: ModelId(7),
                seq: Seq(9),
                look,
            };
            let body = json!({"serving": 7, "held": null, "log": position.to_stored()});
            assert_eq!(stored(body), Some(position));
        }
    }

    #[test]
    fn all_entries_are_looked_through_after_an_earlier_version_or_model_or_a_day() {
        let ended = |model: i64, ago: i64| {
            let log = json!({"model": model, "seq": 9, "lookedAt": NOW.0 - ago});
            stored(json!({"serving": 7, "log": log})).is_some()
        };
        assert!(ended(7, LOOK_EVERY_MS - 1));
        assert!(!ended(7, LOOK_EVERY_MS), "a day has passed");
        assert!(!ended(7, -1), "the clock was wrong");
        assert!(!ended(8, 0), "another model");
        assert_eq!(stored(json!({"serving": 7, "held": null})), None);
        assert_eq!(EmbedPosition::from_record(None, ModelId(7), NOW), None);
    }
}
