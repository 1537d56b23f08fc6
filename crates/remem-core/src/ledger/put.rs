//! New entries, and new forms of their texts.

use super::ChangeOutcome;
use super::EntryState;
use super::apply::Applier;
use super::row::{EntryName, EntryRow, EntryText, MemoryRow, RowKey};
use super::working::{RowNumbers, Working};
use crate::admission::Admitted;
use crate::batch::Batch;
use crate::ids::{EntryId, MemoryRef, Revision, Timestamp};
use crate::sabotage;
use std::sync::Arc;

impl Working {
    /// The key of the next row of a memory, which is created if it does not exist.
    pub(super) fn next_row(&mut self, memory_ref: &MemoryRef) -> RowKey {
        let mut memory = match self.memories.get(memory_ref) {
            Some(memory) => memory.clone(),
            None => {
                self.clock.memories += 1;
                MemoryRow {
                    scope: self.clock.memories,
                    next_row: 1,
                }
            }
        };
        let row = match &mut self.row_numbers {
            RowNumbers::ByMemory => {
                memory.next_row += 1;
                memory.next_row - 1
            }
            RowNumbers::ByTenant(next) => {
                *next += 1;
                *next - 1
            }
        };
        let scope = memory.scope;
        self.memories.put(memory_ref.clone(), memory);
        RowKey { scope, row }
    }
}

impl Applier<'_> {
    /// Stores a new entry. An imported entry whose id exists already is skipped.
    pub(super) fn put(
        &mut self,
        id: &EntryId,
        admitted: &Admitted,
        sources: &[EntryName],
    ) -> ChangeOutcome {
        let memory_ref = &admitted.scope().memory_ref;
        let name = (memory_ref.clone(), id.clone());
        if admitted.origin().is_some() && self.working.names.contains(&name) {
            return ChangeOutcome::NoChange;
        }
        let revision = self.advance_revision();
        let clock_at = self.working.clock.at;
        let original = admitted.origin().and_then(|origin| origin.created_at);
        let created_at = original.map_or(clock_at, |at| at.min(clock_at));
        let key = self.working.next_row(memory_ref);
        let sources: Vec<RowKey> = sources
            .iter()
            .filter_map(|source| self.working.names.get(source).copied())
            .filter(|source| *source != key)
            .collect();
        for source in sources {
            self.working.lineage.put((key, source), ());
        }
        for subject in admitted.subjects() {
            self.working.subjects.put((key, *subject.bytes()), ());
        }
        let row = new_row(self.batch, id, admitted, created_at, revision);
        self.note_slot(key, &row);
        self.working.entries.put(key, row);
        self.take_place(&name, key);
        self.working.names.put(name, key);
        ChangeOutcome::Stored {
            id: id.clone(),
            created_at,
        }
    }

    /// Gives closed entries their successor, now that it has a row.
    fn take_place(&mut self, name: &EntryName, key: RowKey) {
        for (successor, closed) in std::mem::take(&mut self.successors) {
            if successor == *name {
                self.set_successor(closed, key);
            } else {
                self.successors.push((successor, closed));
            }
        }
    }

    /// Replaces the text of an entry by its redacted form. If the text is unchanged, only the
    /// fingerprint of the rules that it was scanned with is updated, and names that lose a secret.
    pub(super) fn rewrite(&mut self, id: &EntryId, admitted: &Admitted) -> ChangeOutcome {
        let name = (admitted.scope().memory_ref.clone(), id.clone());
        let Some((key, row)) = self
            .working
            .entry(&name)
            .filter(|(_, row)| !row.is_erased())
        else {
            return ChangeOutcome::NoChange;
        };
        let text = text_of(admitted);
        let is_same = row.text.as_deref() == Some(&text);
        let facets = admitted.facets();
        let mut row = EntryRow {
            redaction_fingerprint: admitted.redaction_fingerprint(),
            ..row.clone()
        };
        sabotage!("late-secrets-stay-in-names-on-disk", {
            row.world = Some(facets.world.as_str().to_owned());
            row.slot.clone_from(&facets.slot);
            if let Some(interaction) = &facets.interaction {
                row.interaction = Some(interaction.as_str().to_owned());
            }
        });
        self.note_slot(key, &row);
        if is_same {
            self.working.entries.put(key, row);
            return ChangeOutcome::NoChange;
        }
        row.text = Some(Arc::new(text));
        self.working.entries.put(key, row);
        self.working.delete_signature(key);
        self.working.delete_vectors(key);
        ChangeOutcome::Removed
    }
}

fn text_of(admitted: &Admitted) -> EntryText {
    EntryText {
        content: admitted.content().to_owned(),
        tags: admitted.tags().map(str::to_owned).collect(),
        metadata: admitted.metadata().map(str::to_owned),
    }
}

fn new_row(
    batch: &Batch,
    id: &EntryId,
    admitted: &Admitted,
    created_at: Timestamp,
    revision: Revision,
) -> EntryRow {
    let facets = admitted.facets();
    EntryRow {
        id: id.clone(),
        tier: admitted.tier(),
        typology: admitted.typology(),
        text: Some(Arc::new(text_of(admitted))),
        created_at,
        expires_at: admitted.expires_at(),
        written_by: batch.principal().map(|name| name.as_str().to_owned()),
        written_by_run: batch.run().map(|run| run.as_str().to_owned()),
        redaction_fingerprint: admitted.redaction_fingerprint(),
        visible_from: revision,
        visible_to: None,
        state: EntryState::Live,
        removed_by_run: None,
        erased_at: None,
        owner: admitted.scope().memory_ref.owner().map(str::to_owned),
        replaced_by: None,
        support: 1,
        session: facets.session.as_ref().map(|id| id.as_str().to_owned()),
        interaction: facets.interaction.as_ref().map(|id| id.as_str().to_owned()),
        world: Some(facets.world.as_str().to_owned()),
        slot: facets.slot.clone(),
        valid_at: facets.valid_at,
        invalid_at: facets.invalid_at,
        ended_at: None,
        trust: facets.trust,
        evidence: facets.evidence.to_text(),
    }
}
