//! The rows that a group of batches changed, by key, once for the whole group: what a store saves.

use super::row::{
    EntryRow, EntryText, LinkKey, LinkRow, MemoryRow, NewEvent, RecordKey, RecordRow, ResultKey,
    RowKey, RuleRow, SignatureRow, SnapshotRow, StoredResult, TenantClock, VectorRow,
};
use super::table::{RowChange, Table};
use super::totals::{self, MemoryTotals};
use super::working::Working;
use crate::embedding::ModelId;
use crate::ids::{MemoryRef, RuleId, RunId, Timestamp, WorldId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything that a group changed.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The clock, if any batch moved it.
    pub clock: Option<TenantClock>,
    /// Memories that are new, or whose next row has another number.
    pub memories: Vec<(MemoryRef, RowChange<MemoryRow>)>,
    /// Entries that are new or have changed, in the order of their rows.
    pub entries: Vec<EntryChange>,
    /// The changes of what the entries of a memory add up to, by the memory's number.
    pub totals: BTreeMap<i64, MemoryTotals>,
    /// Sources of entries: a row, and one that its text was made from.
    pub lineage: Vec<(RowKey, RowKey)>,
    /// Subjects of new entries.
    pub subjects: Vec<(RowKey, [u8; 32])>,
    /// Rows that lose all of their subjects.
    pub forgotten: Vec<RowKey>,
    /// Signatures by row, with the number of the pass; `None` deletes what is stored.
    pub signatures: Vec<(RowKey, Option<SignatureRow>)>,
    /// Rows that lose all of their stored vectors, before new ones are stored.
    pub vectors_deleted: Vec<RowKey>,
    pub vectors: Vec<(RowKey, ModelId, VectorRow)>,
    pub records: Vec<(RecordKey, RowChange<RecordRow>)>,
    pub links: Vec<(LinkKey, RowChange<LinkRow>)>,
    pub rules: Vec<((WorldId, RuleId), RowChange<RuleRow>)>,
    pub snapshots: Vec<(RunId, RowChange<SnapshotRow>)>,
    pub events: Vec<NewEvent>,
    pub results: Vec<(ResultKey, StoredResult)>,
    /// The earliest expiry of an entry that is new or came back.
    pub next_expiry: Option<Timestamp>,
    /// True if the earliest due time of a record may have changed.
    pub due_changed: bool,
    /// True if stored text was erased or replaced, so that its traces have to be removed, too.
    pub erased_text: bool,
    /// True if there may be removed entries whose text can be erased now.
    pub has_erasable_text: bool,
}

/// An entry that is new or has changed.
#[derive(Clone, Debug)]
pub struct EntryChange {
    pub key: RowKey,
    /// The entry as it was loaded; `None` for a new one.
    pub before: Option<EntryRow>,
    pub after: EntryRow,
}

/// The texts of an entry before and after a group, for the indexes that a store keeps.
#[derive(Clone, Debug)]
pub struct IndexChange<'a> {
    pub key: RowKey,
    pub entry: &'a EntryRow,
    /// The indexed text that goes.
    pub old: Option<&'a EntryText>,
    /// The text that has to be indexed.
    pub new: Option<&'a EntryText>,
}

impl EntryChange {
    /// Returns true if the group stored the entry.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Returns true if the group erased the text of a stored entry.
    #[must_use]
    pub fn erases(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| !before.is_erased()) && self.after.is_erased()
    }

    /// Returns true if the group replaced the text of a stored entry, its names, or the
    /// fingerprint of the rules that it was scanned with.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        self.before.as_ref().is_some_and(|before| {
            let after = &self.after;
            !after.is_erased()
                && (before.redaction_fingerprint != after.redaction_fingerprint
                    || before.text != after.text
                    || before.world != after.world
                    || before.slot != after.slot
                    || before.interaction != after.interaction)
        })
    }

    /// Returns true if the group changed anything but text and names of a stored entry.
    #[must_use]
    pub fn changes_state(&self) -> bool {
        self.before.as_ref().is_some_and(|before| {
            let after = &self.after;
            before.visible_from != after.visible_from
                || before.visible_to != after.visible_to
                || before.state != after.state
                || before.removed_by_run != after.removed_by_run
                || before.replaced_by != after.replaced_by
                || before.support != after.support
                || before.valid_at != after.valid_at
                || before.invalid_at != after.invalid_at
                || before.ended_at != after.ended_at
                || before.evidence != after.evidence
        })
    }

    /// The change of what is indexed, if there is one.
    #[must_use]
    pub fn index_change(&self) -> Option<IndexChange<'_>> {
        let before = self.before.as_ref().and_then(|row| row.text.as_ref());
        let after = self.after.text.as_ref();
        let is_same = match (before, after) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
            (None, None) => true,
            _ => false,
        };
        (!is_same).then_some(IndexChange {
            key: self.key,
            entry: &self.after,
            old: before.map(Arc::as_ref),
            new: after.map(Arc::as_ref),
        })
    }
}

impl Effects {
    pub(super) fn of(working: Working, clock: Option<TenantClock>) -> Effects {
        let entries: Vec<EntryChange> = working
            .entries
            .into_changes()
            .filter_map(|(key, change)| match change {
                RowChange::Inserted(after) => Some((key, None, after)),
                RowChange::Updated { before, after } => Some((key, Some(before), after)),
                RowChange::Deleted(_) => None,
            })
            .map(|(key, before, after)| EntryChange { key, before, after })
            .collect();
        let records: Vec<_> = working.records.into_changes().collect();
        let links: Vec<_> = working.links.into_changes().collect();
        let rules: Vec<_> = working.rules.into_changes().collect();
        let subjects = keys(working.subjects);
        let forgotten = keys(working.forgotten);
        let had_subject = |key: RowKey| working.rows_with_subject.contains(&key);
        let new_subjects: BTreeSet<RowKey> = subjects.iter().map(|(key, _)| *key).collect();
        let has_subject = |key: RowKey| {
            new_subjects.contains(&key)
                || had_subject(key) && forgotten.binary_search(&key).is_err()
        };
        let totals = totals::changes(&entries, had_subject, has_subject);
        Effects {
            clock,
            memories: working.memories.into_changes().collect(),
            next_expiry: next_expiry(&entries),
            due_changed: records.iter().any(|(key, change)| {
                key.0.can_be_due() && due_of(change.after()) != due_of(before(change))
            }),
            erased_text: entries.iter().any(loses_text)
                || links.iter().any(|(_, change)| before(change).is_some())
                || rules.iter().any(|(_, change)| before(change).is_some()),
            has_erasable_text: working.has_erasable_text,
            entries,
            totals,
            lineage: keys(working.lineage),
            subjects,
            forgotten,
            signatures: inserted(working.signatures),
            vectors_deleted: keys(working.vectors_deleted),
            vectors: inserted(working.vectors)
                .into_iter()
                .map(|((key, model), vector)| (key, model, vector))
                .collect(),
            records,
            links,
            rules,
            snapshots: working.snapshots.into_changes().collect(),
            events: working.events,
            results: inserted(working.results),
        }
    }
}

fn before<V>(change: &RowChange<V>) -> Option<&V> {
    match change {
        RowChange::Inserted(_) => None,
        RowChange::Updated { before, .. } | RowChange::Deleted(before) => Some(before),
    }
}

fn due_of(record: Option<&RecordRow>) -> Option<Timestamp> {
    record.and_then(|record| record.due)
}

/// Whether text or a name of a stored entry is gone.
fn loses_text(change: &EntryChange) -> bool {
    let after = &change.after;
    let other_names = |before: &EntryRow| {
        (&before.world, &before.slot, &before.interaction)
            != (&after.world, &after.slot, &after.interaction)
    };
    change.before.as_ref().is_some_and(other_names)
        || change
            .index_change()
            .is_some_and(|change| change.old.is_some())
}

/// The earliest expiry of the entries that are part of a memory from now on.
fn next_expiry(entries: &[EntryChange]) -> Option<Timestamp> {
    let is_current = |row: &EntryRow| row.is_current();
    let came = entries.iter().filter(|change| {
        is_current(&change.after) && !change.before.as_ref().is_some_and(is_current)
    });
    came.filter_map(|change| change.after.expires_at).min()
}

/// The rows of a table that is only written.
fn inserted<K: Ord + Clone, V: Clone + PartialEq>(table: Table<K, V>) -> Vec<(K, V)> {
    table
        .into_changes()
        .filter_map(|(key, change)| match change {
            RowChange::Inserted(row) => Some((key, row)),
            _ => None,
        })
        .collect()
}

fn keys<K: Ord + Clone>(table: Table<K, ()>) -> Vec<K> {
    inserted(table).into_iter().map(|(key, ())| key).collect()
}
