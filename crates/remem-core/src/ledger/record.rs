//! Records, and how they follow the entries that they were made from: they move with a merge, lose
//! their due time when the entry is superseded, and are deleted with its text.

use super::ChangeOutcome;
use super::apply::Applier;
use super::row::{RecordRow, RowKey};
use crate::batch::{Change, RetireReason};
use crate::record::{Precondition, RecordBody, RecordKind, RecordLinks};
use crate::sabotage;

impl Applier<'_> {
    /// Whether the preconditions on records hold, and the sources of written records are current.
    pub(super) fn preconditions_hold(&self) -> bool {
        let expected = self.batch.record_expectations().iter();
        let holds = |change: &Change| match change {
            Change::SetRecord {
                kind,
                key,
                precondition,
                ties,
                ..
            } => {
                self.meets(*kind, key, *precondition)
                    && sabotage!(
                        "anything-is-tied-to-what-has-ended",
                        self.source_is_current(ties),
                        true
                    )
            }
            _ => true,
        };
        expected
            .into_iter()
            .all(|expected| self.meets(expected.kind, &expected.key, expected.precondition))
            && self.batch.changes().iter().all(holds)
    }

    fn meets(&self, kind: RecordKind, key: &str, wanted: Precondition) -> bool {
        let record = self.working.records.get(&(kind, key.to_owned()));
        match wanted {
            Precondition::None => true,
            Precondition::Absent => record.is_none(),
            Precondition::Version(version) => {
                record.is_some_and(|record| record.version == version)
            }
        }
    }

    /// Whether the source entry of a record is current: nothing new is made from an entry that has
    /// ended. An entry that the same batch puts is not stored yet, and counts as current.
    fn source_is_current(&self, ties: &RecordLinks) -> bool {
        let Some(source) = &ties.source else {
            return true;
        };
        match self.working.entry(source) {
            Some((_, row)) => !row.is_erased() && (row.is_current() || !ties.has_due_or_topic()),
            None => self.batch.stores_entry(&source.0, &source.1),
        }
    }

    /// Writes a record, or deletes it. The version increases by one with each write; a new key
    /// begins at 1.
    pub(super) fn set_record(
        &mut self,
        kind: RecordKind,
        key: &str,
        body: Option<&RecordBody>,
        ties: &RecordLinks,
    ) -> ChangeOutcome {
        let name = (kind, key.to_owned());
        let stored = self.working.records.get(&name);
        let version = stored.map_or(0, |record| record.version) + 1;
        if body.is_none() && stored.is_none() {
            return ChangeOutcome::NoChange;
        }
        if kind.makes_revision() {
            self.advance_revision();
        }
        let Some(body) = body else {
            self.working.records.remove(&name);
            return ChangeOutcome::Removed;
        };
        let source = ties.source.as_ref();
        let source = source.and_then(|source| self.working.names.get(source).copied());
        let text = serde_json::to_string(body.map()).unwrap_or_default();
        let record = RecordRow {
            version,
            due: ties.due,
            topic: ties.topic.clone(),
            source,
            written: Some((text.into(), self.now())),
        };
        self.working.note_source(&name, source);
        self.working.records.put(name, record);
        ChangeOutcome::Recorded {
            key: key.to_owned(),
            version,
        }
    }

    /// Deletes the records that were made from an entry that is removed or erased.
    pub(super) fn delete_records_made_from(&mut self, source: RowKey) {
        for key in self.working.records_made_from(source) {
            self.working.records.remove(&key);
        }
    }

    /// Handles the records made from an entry that another one replaces.
    pub(super) fn move_records(&mut self, source: RowKey, reason: RetireReason, to: RowKey) {
        if reason == RetireReason::Superseded {
            return self.unschedule_records(source);
        }
        for key in self.working.records_made_from(source) {
            self.working.note_source(&key, Some(to));
            self.working
                .records
                .update(&key, |record| record.source = Some(to));
        }
    }

    /// Takes due time and topic from the records made from an entry that is superseded.
    pub(super) fn unschedule_records(&mut self, source: RowKey) {
        for key in self.working.records_made_from(source) {
            self.working.records.update(&key, |record| {
                sabotage!("what-was-superseded-is-awaited", {
                    record.due = None;
                    record.topic = None;
                });
                record.version += 1;
            });
        }
    }
}
