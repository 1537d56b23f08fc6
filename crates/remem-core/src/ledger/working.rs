//! The state that the batches of a group are applied to, one after the other, so that a later one
//! sees an earlier one's effect. Holds what a store loaded; never asks for more.

use super::effects::Effects;
use super::row::{
    EntryName, EntryRow, LinkKey, LinkRow, MemoryRow, NewEvent, RecordKey, RecordRow, ResultKey,
    RowKey, RuleRow, SignatureRow, SnapshotRow, StoredResult, TenantClock, VectorRow,
};
use super::table::Table;
use crate::embedding::ModelId;
use crate::ids::{MemoryRef, Revision, RuleId, RunId, WorldId};
use std::collections::{BTreeSet, HashMap};

/// How a store numbers the rows of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowNumbers {
    /// Each memory counts its own rows (`MemoryRow::next_row`).
    ByMemory,
    /// The tenant's rows are counted together; this is the next number.
    ByTenant(i64),
}

/// The loaded rows of a tenant, and what the batches have made of them so far.
#[derive(Clone, Debug)]
pub struct Working {
    pub clock: TenantClock,
    pub row_numbers: RowNumbers,
    pub memories: Table<MemoryRef, MemoryRow>,
    pub entries: Table<RowKey, EntryRow>,
    /// The rows of the named entries.
    pub names: Table<EntryName, RowKey>,
    pub links: Table<LinkKey, LinkRow>,
    pub records: Table<RecordKey, RecordRow>,
    pub results: Table<ResultKey, StoredResult>,
    pub rules: Table<(WorldId, RuleId), RuleRow>,
    /// The stored rows that name a subject, of those that may end or come back.
    pub rows_with_subject: BTreeSet<RowKey>,
    /// All snapshots that runs hold, if the group needs them.
    pub snapshots: Table<RunId, SnapshotRow>,
    /// The number of events in each run's log.
    pub run_lengths: Table<RunId, u64>,
    /// The number of each lease.
    pub leases: HashMap<&'static str, u64>,
    /// The revision of the earliest removal of an entry whose text only waits for snapshots.
    pub first_removed: Option<Revision>,
    /// True if the store may have hidden rows of other users: what was not found may exist.
    pub hides_rows: bool,
    /// True if the store keeps vectors.
    pub stores_vectors: bool,

    /// What is written without being loaded. `None` deletes what is stored for the row.
    pub(super) signatures: Table<RowKey, Option<SignatureRow>>,
    pub(super) lineage: Table<(RowKey, RowKey), ()>,
    pub(super) subjects: Table<(RowKey, [u8; 32]), ()>,
    pub(super) forgotten: Table<RowKey, ()>,
    pub(super) vectors: Table<(RowKey, ModelId), VectorRow>,
    pub(super) vectors_deleted: Table<RowKey, ()>,
    pub(super) events: Vec<NewEvent>,
    /// True if texts wait to be erased that no snapshot protects.
    pub(super) has_erasable_text: bool,

    /// Rows that a row may replace, that may answer a slot, and records that may have been made
    /// from a row: candidates, which are checked before use.
    replaced: HashMap<RowKey, Vec<RowKey>>,
    answers: HashMap<(i64, String), Vec<RowKey>>,
    made_records: HashMap<RowKey, Vec<RecordKey>>,
    loaded_clock: TenantClock,
}

impl Working {
    /// A state in which only the clock is known.
    #[must_use]
    pub fn new(clock: TenantClock, row_numbers: RowNumbers) -> Working {
        Working {
            loaded_clock: clock.clone(),
            clock,
            row_numbers,
            memories: Table::default(),
            entries: Table::default(),
            names: Table::default(),
            links: Table::default(),
            records: Table::default(),
            results: Table::default(),
            rules: Table::default(),
            rows_with_subject: BTreeSet::new(),
            snapshots: Table::default(),
            run_lengths: Table::default(),
            leases: HashMap::new(),
            first_removed: None,
            hides_rows: false,
            stores_vectors: true,
            signatures: Table::default(),
            lineage: Table::default(),
            subjects: Table::default(),
            forgotten: Table::default(),
            vectors: Table::default(),
            vectors_deleted: Table::default(),
            events: Vec::new(),
            has_erasable_text: false,
            replaced: HashMap::new(),
            answers: HashMap::new(),
            made_records: HashMap::new(),
        }
    }

    /// Adds the row of an entry that a batch names.
    pub fn load_entry(&mut self, name: EntryName, key: RowKey, row: EntryRow) {
        self.names.load(name, key);
        self.load_row(key, row);
    }

    /// Adds a row that no batch names: one that replaces a named entry, or is replaced by it. All
    /// rows are loaded before the first batch is applied; one that comes with its text counts more
    /// than the same without.
    pub fn load_row(&mut self, key: RowKey, row: EntryRow) {
        self.note_replaced(key, row.replaced_by);
        self.note_answer(key, row.slot.as_deref());
        if row.text.is_some() {
            self.entries.reload(key, row);
        } else {
            self.entries.load(key, row);
        }
    }

    /// Adds a record that is stored.
    pub fn load_record(&mut self, key: RecordKey, row: RecordRow) {
        self.note_source(&key, row.source);
        self.records.load(key, row);
    }

    /// The row of a named entry.
    pub(super) fn entry(&self, name: &EntryName) -> Option<(RowKey, &EntryRow)> {
        let key = *self.names.get(name)?;
        Some((key, self.entries.get(&key)?))
    }

    pub(super) fn note_replaced(&mut self, key: RowKey, by: Option<i64>) {
        if let Some(row) = by {
            let by = RowKey {
                scope: key.scope,
                row,
            };
            self.replaced.entry(by).or_default().push(key);
        }
    }

    pub(super) fn note_answer(&mut self, key: RowKey, slot: Option<&str>) {
        if let Some(slot) = slot {
            let answers = self.answers.entry((key.scope, slot.to_owned()));
            answers.or_default().push(key);
        }
    }

    pub(super) fn note_source(&mut self, key: &RecordKey, source: Option<RowKey>) {
        if let Some(source) = source {
            self.made_records
                .entry(source)
                .or_default()
                .push(key.clone());
        }
    }

    /// The rows that this row replaces.
    pub(super) fn rows_replaced_by(&self, by: RowKey) -> Vec<RowKey> {
        let candidates = self.replaced.get(&by).map_or(&[][..], Vec::as_slice);
        let mut rows: Vec<RowKey> = candidates
            .iter()
            .filter(|key| {
                let row = self.entries.get(key);
                row.is_some_and(|row| row.replaced_by == Some(by.row))
            })
            .copied()
            .collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The known answers of a slot, ended ones included.
    pub(super) fn answers_of(&self, scope: i64, slot: &str) -> Vec<(RowKey, &EntryRow)> {
        let candidates = self.answers.get(&(scope, slot.to_owned()));
        let mut keys: Vec<RowKey> = candidates.cloned().unwrap_or_default();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter()
            .filter_map(|key| Some((key, self.entries.get(&key)?)))
            .filter(|(_, row)| row.slot.as_deref() == Some(slot))
            .collect()
    }

    /// The records that were made from this row.
    pub(super) fn records_made_from(&self, source: RowKey) -> Vec<RecordKey> {
        let candidates = self
            .made_records
            .get(&source)
            .map_or(&[][..], Vec::as_slice);
        let mut keys: Vec<RecordKey> = candidates
            .iter()
            .filter(|key| {
                let row = self.records.get(key);
                row.is_some_and(|row| row.source == Some(source))
            })
            .cloned()
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The links of a row, in the order of what they are called now.
    pub(super) fn links_of(&self, row: RowKey) -> Vec<(LinkKey, LinkRow)> {
        let first = LinkKey {
            row,
            action: String::new(),
            reference: String::new(),
        };
        let after = LinkKey {
            row: RowKey {
                scope: row.scope,
                row: row.row + 1,
            },
            ..first.clone()
        };
        let mut links: Vec<(LinkKey, LinkRow)> = self
            .links
            .range(first..=after)
            .filter(|(key, _)| key.row == row)
            .map(|(key, link)| (key.clone(), link.clone()))
            .collect();
        links.sort_unstable_by(|(_, a), (_, b)| {
            (&a.action, &a.reference).cmp(&(&b.action, &b.reference))
        });
        links
    }

    /// Returns true if an action rests on the entry.
    pub(super) fn is_linked(&self, row: RowKey) -> bool {
        !self.links_of(row).is_empty()
    }

    /// The oldest revision that a run may still read, if any run holds a snapshot.
    pub(super) fn oldest_snapshot(&self) -> Option<Revision> {
        let revisions = self.snapshots.iter().map(|(_, held)| held.revision);
        revisions.min()
    }

    /// Returns true if a run has a snapshot in which an entry that ended at this revision shows.
    pub(super) fn is_in_snapshot(&self, ended: Revision) -> bool {
        self.oldest_snapshot().is_some_and(|oldest| oldest < ended)
    }

    /// Ends a batch whose changes stay.
    pub(super) fn keep(&mut self) {
        self.each_table(TableStep::Keep);
    }

    /// Takes back all changes of the current batch.
    pub(super) fn revert(&mut self, clock: TenantClock, row_numbers: RowNumbers, events: usize) {
        self.each_table(TableStep::Revert);
        self.clock = clock;
        self.row_numbers = row_numbers;
        self.events.truncate(events);
    }

    fn each_table(&mut self, step: TableStep) {
        macro_rules! each {
            ($($table:ident)*) => {
                $(match step {
                    TableStep::Keep => self.$table.keep(),
                    TableStep::Revert => self.$table.revert(),
                })*
            };
        }
        each!(memories entries names links records results rules snapshots run_lengths
            signatures lineage subjects forgotten vectors vectors_deleted);
    }

    /// The rows that the group changed.
    #[must_use]
    pub fn into_effects(self) -> Effects {
        let clock = (self.clock != self.loaded_clock).then_some(self.clock.clone());
        Effects::of(self, clock)
    }
}

/// The end of a batch, as each table takes part in it.
#[derive(Clone, Copy)]
enum TableStep {
    Keep,
    Revert,
}
