//! The records that were made from entries, while a group is applied: they follow their source
//! entry when it is replaced, and are deleted with it. Owns the columns `source_scope` and
//! `source_row`, and `upkeep.next_due`.

use super::gate::{SqlCall, sql_call};
use super::load::GroupState;
use super::save::GroupWrites;
use remem_core::sabotage;
use remem_core::{Batch, Change, RecordLinks, RetireReason};
use std::collections::HashMap;

/// An entry: its memory and its row.
pub(super) type RowKey = (i64, i64);

/// Changes of records by their source; the group need not know the records' names.
#[derive(Default)]
pub(super) struct RecordChanges {
    /// Sources whose records are deleted.
    deleted: Vec<RowKey>,
    /// Sources whose records lose due time and topic.
    unscheduled: Vec<RowKey>,
    /// Sources that another row of the same memory replaces.
    moved: HashMap<RowKey, i64>,
    /// Whether the earliest due time of a record may have changed.
    pub due_changed: bool,
    columns: [(Vec<i64>, Vec<i64>); 3],
    moved_to: Vec<i64>,
}

/// The row of the entry that a record is to be made from; `Err` if that entry has ended.
pub(super) fn source_row(
    working: &GroupState,
    batch: &Batch,
    ties: &RecordLinks,
) -> Result<Option<RowKey>, ()> {
    let Some(source) = &ties.source else {
        return Ok(None);
    };
    let Some(entry) = working.entries.get(source) else {
        // An entry that the same batch puts is not stored yet when the preconditions are checked.
        return if batch.stores_entry(&source.0, &source.1) {
            Ok(None)
        } else {
            Err(())
        };
    };
    let is_current = !entry.erased && (entry.rev_to.is_none() || !ties.has_due_or_topic());
    if is_current {
        Ok(Some((entry.scope_id, entry.row_id)))
    } else {
        Err(())
    }
}

/// Whether the source entry of a record is current.
pub(super) fn source_is_current(working: &GroupState, batch: &Batch, change: &Change) -> bool {
    let Change::SetRecord { ties, .. } = change else {
        return true;
    };
    source_row(working, batch, ties).is_ok()
}

/// Deletes the records made from an entry that is removed or erased.
pub(super) fn delete_records_of(
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    row_key: RowKey,
) {
    working
        .records
        .retain(|_, record| record.source != Some(row_key));
    for record in writes.records.values_mut() {
        if record
            .as_ref()
            .is_some_and(|record| record.source == Some(row_key))
        {
            *record = None;
        }
    }
    writes.record_changes.delete_records_of(row_key);
}

/// Handles the records made from an entry that another row of the same memory replaces.
pub(super) fn move_records(
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    row_key: RowKey,
    reason: RetireReason,
    by: i64,
) {
    let new_records = writes
        .records
        .values_mut()
        .flatten()
        .filter(|record| record.source == Some(row_key));
    let loaded_records = working
        .records
        .values_mut()
        .filter(|record| record.source == Some(row_key));
    if reason == RetireReason::Superseded {
        for record in new_records {
            (record.due, record.topic) = (None, None);
            record.version += 1;
        }
        loaded_records.for_each(|record| record.version += 1);
    } else {
        new_records.for_each(|record| record.source = Some((row_key.0, by)));
        loaded_records.for_each(|record| record.source = Some((row_key.0, by)));
    }
    writes.record_changes.move_records(row_key, reason, by);
}

impl RecordChanges {
    fn delete_records_of(&mut self, row_key: RowKey) {
        // Records that moved to another source before, because their source was merged, are not
        // deleted with the text of the old one.
        if sabotage!(
            "postgres-records-go-with-the-text-of-a-gist-s-source",
            !self.moved.contains_key(&row_key),
            true
        ) {
            self.deleted.push(row_key);
        }
        // Records that moved to this source in the same group are deleted with it.
        let followed: Vec<RowKey> = self
            .moved
            .iter()
            .filter(|(from, to)| (from.0, **to) == row_key)
            .map(|(from, _)| *from)
            .collect();
        self.moved.retain(|from, to| (from.0, *to) != row_key);
        self.deleted.extend(followed);
    }

    fn move_records(&mut self, row_key: RowKey, reason: RetireReason, by: i64) {
        if reason == RetireReason::Superseded {
            self.unscheduled.extend(
                self.moved
                    .iter()
                    .filter(|(from, to)| (from.0, **to) == row_key)
                    .map(|(from, _)| *from),
            );
            if !self.moved.contains_key(&row_key) {
                self.unscheduled.push(row_key);
            }
            return;
        }
        self.moved
            .iter_mut()
            .filter(|(from, to)| (from.0, **to) == row_key)
            .for_each(|(_, to)| *to = by);
        self.moved.entry(row_key).or_insert(by);
    }

    /// Turns the lists into columns; afterwards only `statements` and `next_due` may be used.
    pub fn build_columns(&mut self) {
        self.due_changed |= !(self.deleted.is_empty() && self.unscheduled.is_empty());
        let split = |places: &[RowKey]| places.iter().copied().unzip();
        self.columns[0] = split(&self.deleted);
        self.columns[1] = split(&self.unscheduled);
        for (row_key, by) in std::mem::take(&mut self.moved) {
            self.columns[2].0.push(row_key.0);
            self.columns[2].1.push(row_key.1);
            self.moved_to.push(by);
        }
    }

    /// The statements, to be run before any record is written: they are about stored records.
    pub fn statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        let [deleted, unscheduled, moved] = &self.columns;
        add(
            !unscheduled.1.is_empty(),
            sql_call(UNSCHEDULE, &[t, &unscheduled.0, &unscheduled.1]),
        );
        add(
            !deleted.1.is_empty(),
            sql_call(DELETE_RECORDS, &[t, &deleted.0, &deleted.1]),
        );
        add(
            !moved.1.is_empty(),
            sql_call(MOVE, &[t, &moved.0, &moved.1, &self.moved_to]),
        );
    }

    /// The statement that stores when the next record is due, to be run after all records are
    /// written.
    pub fn next_due<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        add(self.due_changed, sql_call(NEXT_DUE, &[t]));
    }
}

const DELETE_RECORDS: &str = "DELETE FROM remem.record r USING unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE r.tenant_id = $1 AND r.source_scope = o.scope_id AND r.source_row = o.row_id AND r.source_row IS NOT NULL";
const UNSCHEDULE: &str = "UPDATE remem.record r SET due = NULL, topic = NULL, version = version + 1
     FROM (SELECT DISTINCT scope_id, row_id FROM unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)) o
     WHERE r.tenant_id = $1 AND r.source_scope = o.scope_id AND r.source_row = o.row_id AND r.source_row IS NOT NULL";
const MOVE: &str = "UPDATE remem.record r SET source_row = o.by
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS o (scope_id, row_id, by)
     WHERE r.tenant_id = $1 AND r.source_scope = o.scope_id AND r.source_row = o.row_id AND r.source_row IS NOT NULL";
const NEXT_DUE: &str = "INSERT INTO remem.upkeep AS u (tenant_id, next_expiry, next_due)
     SELECT $1, 9223372036854775807, least(
       coalesce((SELECT min(due) FROM remem.record WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807),
       coalesce((SELECT min(due) FROM remem.review WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807))
     ON CONFLICT (tenant_id) DO UPDATE SET next_due = excluded.next_due WHERE u.next_due <> excluded.next_due";
