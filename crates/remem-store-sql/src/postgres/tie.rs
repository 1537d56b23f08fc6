//! The records that were made from entries, while a group is applied: they follow their source
//! entry when it is replaced, and are deleted with it. Owns the columns `source_scope` and
//! `source_row`, and `upkeep.next_due`.

use super::gate::{Call, call};
use super::load::Working;
use super::save::Writes;
use remem_core::sabotage;
use remem_core::{Batch, Change, Reason, Ties};
use std::collections::HashMap;

/// An entry: its memory and its row.
pub(super) type Place = (i64, i64);

/// Changes of records by their source; the group need not know the records' names.
#[derive(Default)]
pub(super) struct Retied {
    /// Sources whose records are deleted.
    gone: Vec<Place>,
    /// Sources whose records lose due time and topic.
    silenced: Vec<Place>,
    /// Sources that another row of the same memory replaces.
    moved: HashMap<Place, i64>,
    /// Whether the earliest due time of a record may have changed.
    pub changed: bool,
    columns: [(Vec<i64>, Vec<i64>); 3],
    moved_to: Vec<i64>,
}

/// The row of the entry that a record is to be made from; `Err` if that entry has ended.
pub(super) fn source(working: &Working, batch: &Batch, ties: &Ties) -> Result<Option<Place>, ()> {
    let Some(source) = &ties.source else {
        return Ok(None);
    };
    let Some(entry) = working.entries.get(source) else {
        // An entry that the same batch puts is not stored yet when the preconditions are checked.
        return if batch.puts(&source.0, &source.1) {
            Ok(None)
        } else {
            Err(())
        };
    };
    let is_current = !entry.erased && (entry.rev_to.is_none() || !ties.is_awaited());
    if is_current {
        Ok(Some((entry.scope_id, entry.row_id)))
    } else {
        Err(())
    }
}

/// Whether the source entry of a record is current.
pub(super) fn holds(working: &Working, batch: &Batch, change: &Change) -> bool {
    let Change::Record { ties, .. } = change else {
        return true;
    };
    source(working, batch, ties).is_ok()
}

/// Deletes the records made from an entry that is removed or erased.
pub(super) fn untie(working: &mut Working, writes: &mut Writes<'_>, row_key: Place) {
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
    writes.retied.untie(row_key);
}

/// Handles the records made from an entry that another row of the same memory replaces.
pub(super) fn retie(
    working: &mut Working,
    writes: &mut Writes<'_>,
    row_key: Place,
    reason: Reason,
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
    if reason == Reason::Superseded {
        for record in new_records {
            (record.due, record.topic) = (None, None);
            record.version += 1;
        }
        loaded_records.for_each(|record| record.version += 1);
    } else {
        new_records.for_each(|record| record.source = Some((row_key.0, by)));
        loaded_records.for_each(|record| record.source = Some((row_key.0, by)));
    }
    writes.retied.retie(row_key, reason, by);
}

impl Retied {
    fn untie(&mut self, row_key: Place) {
        // Records that moved to another source before, because their source was merged, are not
        // deleted with the text of the old one.
        if sabotage!(
            "postgres-records-go-with-the-text-of-a-gist-s-source",
            !self.moved.contains_key(&row_key),
            true
        ) {
            self.gone.push(row_key);
        }
        // Records that moved to this source in the same group are deleted with it.
        let followed: Vec<Place> = self
            .moved
            .iter()
            .filter(|(from, to)| (from.0, **to) == row_key)
            .map(|(from, _)| *from)
            .collect();
        self.moved.retain(|from, to| (from.0, *to) != row_key);
        self.gone.extend(followed);
    }

    fn retie(&mut self, row_key: Place, reason: Reason, by: i64) {
        if reason == Reason::Superseded {
            self.silenced.extend(
                self.moved
                    .iter()
                    .filter(|(from, to)| (from.0, **to) == row_key)
                    .map(|(from, _)| *from),
            );
            if !self.moved.contains_key(&row_key) {
                self.silenced.push(row_key);
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
    pub fn seal(&mut self) {
        self.changed |= !(self.gone.is_empty() && self.silenced.is_empty());
        let split = |places: &[Place]| places.iter().copied().unzip();
        self.columns[0] = split(&self.gone);
        self.columns[1] = split(&self.silenced);
        for (row_key, by) in std::mem::take(&mut self.moved) {
            self.columns[2].0.push(row_key.0);
            self.columns[2].1.push(row_key.1);
            self.moved_to.push(by);
        }
    }

    /// The statements, to be run before any record is written: they are about stored records.
    pub fn calls<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, Call<'a>)) {
        let [deleted, unscheduled, moved] = &self.columns;
        add(
            !unscheduled.1.is_empty(),
            call(SILENCE, &[t, &unscheduled.0, &unscheduled.1]),
        );
        add(
            !deleted.1.is_empty(),
            call(UNTIE, &[t, &deleted.0, &deleted.1]),
        );
        add(
            !moved.1.is_empty(),
            call(MOVE, &[t, &moved.0, &moved.1, &self.moved_to]),
        );
    }

    /// The statement that stores when the next record is due, to be run after all records are
    /// written.
    pub fn next<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, Call<'a>)) {
        add(self.changed, call(NEXT_DUE, &[t]));
    }
}

const UNTIE: &str = "DELETE FROM remem.record r USING unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE r.tenant_id = $1 AND r.source_scope = o.scope_id AND r.source_row = o.row_id AND r.source_row IS NOT NULL";
const SILENCE: &str = "UPDATE remem.record r SET due = NULL, topic = NULL, version = version + 1
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
