//! What a store has to load before a group of batches can be applied: the rows that the batches
//! name, and their neighbourhood. Computed from the batches alone.

use super::row::{EntryName, RecordKey};
use crate::admission::Admitted;
use crate::batch::{Batch, Change, ClosingReason};
use crate::entry::Typology;
use crate::ids::{EntryId, MemoryRef, RuleId, RunId, Timestamp, WorldId};
use std::collections::{BTreeMap, BTreeSet};

/// How much of an entry a group needs; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryNeed {
    /// Its row without the text.
    Row,
    /// Its row with the text.
    Text,
    /// Everything that goes or changes when it ends: its text, whether it names a subject, the
    /// entries that it replaced, the one that replaced it, its links, and the records made from it.
    Neighbourhood,
}

/// The time of a slot that a new answer of this kind takes. `None` is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotWindow {
    pub typology: Typology,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// A stored answer that may take time of a slot that it does not take yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovingAnswer {
    pub name: EntryName,
    /// The instant until which it takes the time, if that is later than what is stored.
    pub until: Option<Timestamp>,
    /// The slot, if it is not the stored one.
    pub slot: Option<String>,
}

/// The rows that a group of batches needs. A row that does not exist, or that the actor may not
/// see, is simply not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The memories, by name.
    pub memories: BTreeSet<MemoryRef>,
    /// The entries, by name.
    pub entries: BTreeMap<EntryName, EntryNeed>,
    /// The stored results, by operation and digest of the idempotency key.
    pub results: BTreeSet<(&'static str, [u8; 32])>,
    /// The records, by kind and name, those under review included.
    pub records: BTreeSet<RecordKey>,
    /// The leases whose numbers are compared, by pass.
    pub leases: BTreeSet<&'static str>,
    /// The runs whose logs grow.
    pub runs: BTreeSet<RunId>,
    /// The windows that new answers take, by memory and slot: stored answers that may not be there
    /// at the same time are needed, those that are over included. Not all of them: of each window
    /// `answers_max` are enough.
    pub slots: BTreeMap<(MemoryRef, String), BTreeSet<SlotWindow>>,
    /// Stored answers that move: likewise.
    pub moving: BTreeSet<MovingAnswer>,
    /// The rules of worlds.
    pub rules: BTreeSet<(WorldId, RuleId)>,
    /// True if entries are put, so that the store has to say which row numbers are free.
    pub puts: bool,
    /// True if texts may go: all snapshots, and the revision of the earliest removal of an entry
    /// that still has its text (`Working::first_removed`).
    pub snapshots: bool,
}

/// The bytes that a removed entry counts when groups are cut: its text has to be loaded.
const REMOVED_ENTRY_BYTES: usize = 16 * 1024;

/// The approximate number of bytes that have to be held in memory to apply a batch.
#[must_use]
pub fn weight(batch: &Batch) -> usize {
    let of = |change: &Change| match change {
        Change::Put { admitted, .. } => admitted.content().len(),
        Change::Rewrite { admitted, .. } => admitted.content().len() + REMOVED_ENTRY_BYTES,
        Change::SetRecord {
            body: Some(body), ..
        } => body.approximate_bytes(),
        Change::StoreEmbedding { vector, .. } => vector.components().len(),
        change if ends_entry(change) => REMOVED_ENTRY_BYTES,
        _ => 0,
    };
    batch.changes().iter().map(of).sum()
}

/// Returns true if the change may take the text of an entry.
fn ends_entry(change: &Change) -> bool {
    matches!(
        change,
        Change::Delete { .. }
            | Change::Expire { .. }
            | Change::Erase { .. }
            | Change::Retire { .. }
            | Change::Forget { .. }
            | Change::Revive { .. }
            | Change::Close { .. }
            | Change::EndWithSession { .. }
            | Change::EraseHistory { .. }
    )
}

impl Wanted {
    /// The rows that these batches need.
    #[must_use]
    pub fn of(group: &[&Batch]) -> Wanted {
        let mut wanted = Wanted::default();
        for batch in group {
            wanted.add_batch(batch);
        }
        wanted
    }

    fn add_batch(&mut self, batch: &Batch) {
        for change in batch.changes() {
            self.memories.extend(change.memory_ref().cloned());
            self.add_change(change);
        }
        for expected in batch.expectations() {
            self.memories.insert(expected.memory_ref.clone());
            self.add_entry(&expected.memory_ref, &expected.id, EntryNeed::Row);
        }
        let records = batch.record_expectations().iter();
        self.records
            .extend(records.map(|expected| (expected.kind, expected.key.clone())));
        let key = batch.idempotency();
        self.results.extend(key.map(|key| (key.operation, key.key)));
        self.leases.extend(batch.fence().map(|fence| fence.pass));
        self.runs.extend(batch.run().cloned());
    }

    fn add_change(&mut self, change: &Change) {
        match change {
            Change::Put {
                id,
                admitted,
                sources,
                ..
            } => {
                self.puts = true;
                self.add_slot(admitted);
                if admitted.origin().is_some() {
                    self.add_entry(&admitted.scope().memory_ref, id, EntryNeed::Row);
                }
                for (memory_ref, source) in sources {
                    self.add_entry(memory_ref, source, EntryNeed::Row);
                }
            }
            Change::Rewrite { id, admitted } => {
                self.add_entry(&admitted.scope().memory_ref, id, EntryNeed::Text);
                if let Some(slot) = &admitted.facets().slot {
                    let name = (admitted.scope().memory_ref.clone(), id.clone());
                    self.moving.insert(MovingAnswer {
                        name,
                        until: None,
                        slot: Some(slot.clone()),
                    });
                }
            }
            Change::SetEvidence { memory_ref, id, .. }
            | Change::StoreSignature { memory_ref, id, .. }
            | Change::StoreEmbedding { memory_ref, id, .. } => {
                self.add_entry(memory_ref, id, EntryNeed::Row);
            }
            Change::LinkAction { memory_ref, id, .. }
            | Change::RewriteAction { memory_ref, id, .. } => {
                self.add_entry(memory_ref, id, EntryNeed::Neighbourhood);
            }
            Change::SetRule { world, id, .. } | Change::RewriteRule { world, id, .. } => {
                self.rules.insert((world.clone(), id.clone()));
            }
            Change::SetRecord {
                kind, key, ties, ..
            } => {
                self.records.insert((*kind, key.clone()));
                if let Some((memory_ref, id)) = &ties.source {
                    self.add_entry(memory_ref, id, EntryNeed::Row);
                }
            }
            Change::HoldSnapshot | Change::ReleaseSnapshot => self.snapshots = true,
            Change::Emit { .. } => {}
            Change::Retire {
                memory_ref, id, by, ..
            } => {
                self.add_ending(memory_ref, id);
                self.add_entry(memory_ref, by, EntryNeed::Row);
            }
            Change::Close {
                memory_ref,
                id,
                closing,
                by,
            } => {
                self.add_ending(memory_ref, id);
                if let ClosingReason::InvalidFrom(from) = closing {
                    self.add_moving(memory_ref, id, Some(*from));
                }
                if let Some(by) = by {
                    self.add_entry(memory_ref, by, EntryNeed::Row);
                }
            }
            Change::Revive { memory_ref, id } => {
                self.add_ending(memory_ref, id);
                self.add_moving(memory_ref, id, None);
            }
            Change::Delete { memory_ref, id }
            | Change::Expire { memory_ref, id }
            | Change::Erase { memory_ref, id }
            | Change::Forget { memory_ref, id }
            | Change::EndWithSession { memory_ref, id }
            | Change::EraseHistory { memory_ref, id, .. } => self.add_ending(memory_ref, id),
        }
    }

    /// A new answer. Episodic entries share their slots.
    fn add_slot(&mut self, admitted: &Admitted) {
        let facets = admitted.facets();
        let typology = admitted.typology();
        let Some(slot) = facets
            .slot
            .clone()
            .filter(|_| typology != Typology::Episodic)
        else {
            return;
        };
        let window = SlotWindow {
            typology,
            from: facets.valid_at,
            to: facets.invalid_at,
        };
        let memory_ref = admitted.scope().memory_ref.clone();
        let windows = self.slots.entry((memory_ref, slot)).or_default();
        windows.insert(window);
    }

    fn add_moving(&mut self, memory_ref: &MemoryRef, id: &EntryId, until: Option<Timestamp>) {
        let name = (memory_ref.clone(), id.clone());
        self.moving.insert(MovingAnswer {
            name,
            until,
            slot: None,
        });
    }

    /// The number of stored answers that suffice for each window: only entries that the group names
    /// can make room, so that one of more than these stands in the way whatever the group does.
    #[must_use]
    pub fn answers_max(&self) -> u32 {
        u32::try_from(self.entries.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }

    /// An entry that may end.
    fn add_ending(&mut self, memory_ref: &MemoryRef, id: &EntryId) {
        self.snapshots = true;
        self.add_entry(memory_ref, id, EntryNeed::Neighbourhood);
    }

    fn add_entry(&mut self, memory_ref: &MemoryRef, id: &EntryId, need: EntryNeed) {
        self.memories.insert(memory_ref.clone());
        let known = self
            .entries
            .entry((memory_ref.clone(), id.clone()))
            .or_insert(need);
        *known = (*known).max(need);
    }
}
