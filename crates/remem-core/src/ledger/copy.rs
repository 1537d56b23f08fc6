//! Entries that are copied from another store: the target's rows become the same as the source's,
//! whatever was done to them since an earlier copy.

use super::EntryState;
use super::row::{EntryRow, RowKey};
use super::working::Working;
use crate::batch::RetireReason;
use crate::ids::{EntryId, MemoryRef};
use std::collections::HashMap;

/// Makes the loaded entries equal to a page of the source's, and adds those that are not there.
/// The keys are those of the source; memories have the same numbers on both sides, rows have not.
///
/// A new or changed entry has neither slot nor successor afterwards: they are copied when all
/// entries are, since a window may have moved to where another one is that moves only with a later
/// page. An entry that the target has erased stays erased.
pub fn copy_entries(page: Vec<(RowKey, EntryRow)>, working: &mut Working) {
    let named = |(key, row): (&RowKey, &EntryRow)| ((key.scope, row.id.clone()), *key);
    let known: HashMap<(i64, EntryId), RowKey> = working.entries.iter().map(named).collect();
    let numbered = working.memories.iter();
    let memories: HashMap<i64, MemoryRef> = numbered
        .map(|(memory_ref, memory)| (memory.scope, memory_ref.clone()))
        .collect();
    for (source, row) in page {
        match known.get(&(source.scope, row.id.clone())) {
            Some(key) => working.change_copied(*key, row),
            None => {
                let Some(memory_ref) = memories.get(&source.scope) else {
                    continue; // memories are copied before their entries
                };
                let key = working.next_row(memory_ref);
                let row = EntryRow {
                    slot: None,
                    replaced_by: None,
                    ..row
                };
                working.entries.put(key, row);
            }
        }
    }
}

impl Working {
    fn change_copied(&mut self, key: RowKey, row: EntryRow) {
        let superseded = EntryState::Retired(RetireReason::Superseded);
        let Some(old) = self.entries.get(&key).filter(|old| !old.is_erased()) else {
            return;
        };
        let old = old.clone();
        // The successor of a superseded entry is final.
        let is_final = old.state == superseded && row.state == superseded;
        let row = EntryRow {
            slot: None,
            replaced_by: old.replaced_by.filter(|_| is_final),
            ..row
        };
        let unplaced = EntryRow {
            slot: None,
            replaced_by: row.replaced_by,
            ..old.clone()
        };
        if unplaced == row {
            return;
        }
        let is_same_text =
            old.text == row.text && old.redaction_fingerprint == row.redaction_fingerprint;
        if !is_same_text {
            self.delete_signature(key); // a pass computes it again
            self.delete_vectors(key);
        }
        if row.is_erased() {
            self.blank_links(key);
        }
        self.entries.put(key, row);
    }
}
