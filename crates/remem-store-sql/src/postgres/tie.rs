//! What records are tied to, while a group is applied: those that were made from an entry go where
//! it goes. Owns the columns `source_scope` and `source_row`, and `upkeep.next_due`.

use super::gate::{Call, call};
use super::load::Working;
use super::save::Writes;
use remem_core::sabotage;
use remem_core::{Batch, Change, Reason, Ties};
use std::collections::HashMap;

/// An entry: its memory and its row.
pub(super) type Place = (i64, i64);

/// What becomes of records whose names the group need not know.
#[derive(Default)]
pub(super) struct Retied {
    /// Sources whose records go.
    gone: Vec<Place>,
    /// Sources whose records are awaited no more.
    silenced: Vec<Place>,
    /// Sources that another row of their memory stands for.
    moved: HashMap<Place, i64>,
    /// The next record may be due at another time than before.
    pub changed: bool,
    columns: [(Vec<i64>, Vec<i64>); 3],
    moved_to: Vec<i64>,
}

/// The place of the entry that a record is to be tied to; `Err` if it may not be.
pub(super) fn source(working: &Working, batch: &Batch, ties: &Ties) -> Result<Option<Place>, ()> {
    let Some(source) = &ties.source else {
        return Ok(None);
    };
    let Some(entry) = working.entries.get(source) else {
        // What the batch itself puts is not there yet when its conditions are looked at.
        return if batch.puts(&source.0, &source.1) {
            Ok(None)
        } else {
            Err(())
        };
    };
    let may = !entry.erased && (entry.rev_to.is_none() || !ties.is_awaited());
    if may {
        Ok(Some((entry.scope_id, entry.row_id)))
    } else {
        Err(())
    }
}

/// Whether the source of a record is as it must be.
pub(super) fn holds(working: &Working, batch: &Batch, change: &Change) -> bool {
    let Change::Record { ties, .. } = change else {
        return true;
    };
    source(working, batch, ties).is_ok()
}

/// The entry is gone, or its text is.
pub(super) fn untie(working: &mut Working, writes: &mut Writes<'_>, place: Place) {
    working
        .records
        .retain(|_, record| record.source != Some(place));
    for record in writes.records.values_mut() {
        if record
            .as_ref()
            .is_some_and(|record| record.source == Some(place))
        {
            *record = None;
        }
    }
    writes.retied.untie(place);
}

/// Another row of the same memory stands for it.
pub(super) fn retie(
    working: &mut Working,
    writes: &mut Writes<'_>,
    place: Place,
    reason: Reason,
    by: i64,
) {
    let written = writes
        .records
        .values_mut()
        .flatten()
        .filter(|record| record.source == Some(place));
    let known = working
        .records
        .values_mut()
        .filter(|record| record.source == Some(place));
    if reason == Reason::Superseded {
        for record in written {
            (record.due, record.topic) = (None, None);
            record.version += 1;
        }
        known.for_each(|record| record.version += 1);
    } else {
        written.for_each(|record| record.source = Some((place.0, by)));
        known.for_each(|record| record.source = Some((place.0, by)));
    }
    writes.retied.retie(place, reason, by);
}

impl Retied {
    fn untie(&mut self, place: Place) {
        // What has followed elsewhere before, because the text of a gist's source goes, is not this
        // one's any more.
        if sabotage!(
            "postgres-records-go-with-the-text-of-a-gist-s-source",
            !self.moved.contains_key(&place),
            true
        ) {
            self.gone.push(place);
        }
        // What was to follow to this one goes with it.
        let followed: Vec<Place> = self
            .moved
            .iter()
            .filter(|(from, to)| (from.0, **to) == place)
            .map(|(from, _)| *from)
            .collect();
        self.moved.retain(|from, to| (from.0, *to) != place);
        self.gone.extend(followed);
    }

    fn retie(&mut self, place: Place, reason: Reason, by: i64) {
        if reason == Reason::Superseded {
            self.silenced.extend(
                self.moved
                    .iter()
                    .filter(|(from, to)| (from.0, **to) == place)
                    .map(|(from, _)| *from),
            );
            if !self.moved.contains_key(&place) {
                self.silenced.push(place);
            }
            return;
        }
        self.moved
            .iter_mut()
            .filter(|(from, to)| (from.0, **to) == place)
            .for_each(|(_, to)| *to = by);
        self.moved.entry(place).or_insert(by);
    }

    /// Turns lists into columns; afterwards only `calls` and `next` are asked.
    pub fn seal(&mut self) {
        self.changed |= !(self.gone.is_empty() && self.silenced.is_empty());
        let split = |places: &[Place]| places.iter().copied().unzip();
        self.columns[0] = split(&self.gone);
        self.columns[1] = split(&self.silenced);
        for (place, by) in std::mem::take(&mut self.moved) {
            self.columns[2].0.push(place.0);
            self.columns[2].1.push(place.1);
            self.moved_to.push(by);
        }
    }

    /// The statements, before any record is written: they are about what is there.
    pub fn calls<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, Call<'a>)) {
        let [gone, silenced, moved] = &self.columns;
        add(
            !silenced.1.is_empty(),
            call(SILENCE, &[t, &silenced.0, &silenced.1]),
        );
        add(!gone.1.is_empty(), call(UNTIE, &[t, &gone.0, &gone.1]));
        add(
            !moved.1.is_empty(),
            call(MOVE, &[t, &moved.0, &moved.1, &self.moved_to]),
        );
    }

    /// The statement that notes when the next record is due, after all of them are written.
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
