//! The end of entries: delete, expiry, the end of a session, forgetting, and the erasure of texts.

use super::apply::Applier;
use super::row::{EntryName, EntryRow, RowKey};
use super::{ChangeOutcome, EntryState};
use crate::batch::RetireReason;
use crate::entry::Tier;
use crate::ids::{Revision, RunId, Timestamp};
use crate::sabotage;

impl Applier<'_> {
    /// Removes an entry. Its text is erased at once, unless a run reads a snapshot that shows it:
    /// then the purge pass erases it when the last such run has ended. An expired text is erased
    /// even then. If an action rests on the entry, the text is kept.
    pub(super) fn remove(&mut self, name: &EntryName, state: EntryState) -> ChangeOutcome {
        let Some((key, row)) = self.working.entry(name) else {
            return ChangeOutcome::NoChange;
        };
        // A delete removes an entry that readers can still see; the purge pass removes one that
        // has expired.
        let has_expired = row.expires_at.is_some_and(|end| end <= self.batch.at());
        if !row.is_current() || has_expired != (state == EntryState::Expired) {
            return ChangeOutcome::NoChange;
        }
        let revision = self.advance_revision();
        let held = self.working.is_linked(key);
        self.mark_removed(key, if held { EntryState::TextHeld } else { state });
        sabotage!(
            "records-outlive-their-source",
            self.delete_records_made_from(key)
        );
        if held {
            sabotage!(
                "a-signature-outlives-its-text",
                self.working.delete_signature(key)
            );
            return sabotage!(
                "a-delete-is-silent-about-what-is-held",
                ChangeOutcome::TextHeld,
                ChangeOutcome::Removed
            );
        }
        let outranks_snapshots = sabotage!(
            "a-snapshot-outranks-time",
            sabotage!(
                "a-delete-erases-though-a-run-reads",
                state == EntryState::Expired,
                true
            ),
            false
        );
        self.erase_unless_read(key, revision, outranks_snapshots);
        ChangeOutcome::Removed
    }

    /// Removes an entry of a session that has ended, unless an action rests on it.
    pub(super) fn end_with_session(&mut self, name: &EntryName) -> ChangeOutcome {
        let ends = |row: &EntryRow| row.is_current() && row.tier != Tier::Persistent;
        let Some((key, _)) = self.working.entry(name).filter(|(_, row)| ends(row)) else {
            return ChangeOutcome::NoChange;
        };
        if sabotage!("linked-turns-end", self.working.is_linked(key), false) {
            return ChangeOutcome::NoChange;
        }
        let revision = self.advance_revision();
        self.mark_removed(key, EntryState::Ended);
        self.delete_records_made_from(key);
        self.erase_unless_read(key, revision, false);
        ChangeOutcome::Removed
    }

    /// Erases a statement whose validity ended before an instant, unless an action rests on it. A
    /// statement that was already over when it was written is still part of its memory, for
    /// queries about the past; it ends with its text.
    pub(super) fn erase_history(&mut self, name: &EntryName, before: Timestamp) -> ChangeOutcome {
        let Some((key, row)) = self.working.entry(name) else {
            return ChangeOutcome::NoChange;
        };
        let is_readable = match row.visible_to {
            None => false,
            Some(end) => row.state != EntryState::Invalidated || self.working.is_in_snapshot(end),
        };
        let is_over = row.invalid_at.is_some_and(|end| end < before);
        let is_current = row.is_current();
        if row.is_erased() || !is_over || is_readable || self.working.is_linked(key) {
            return ChangeOutcome::NoChange;
        }
        self.advance_revision();
        if is_current {
            self.mark_removed(key, EntryState::Invalidated);
        }
        self.erase(key, false);
        ChangeOutcome::Removed
    }

    /// Erases the text of an entry that was removed earlier, if no snapshot shows it any more.
    pub(super) fn erase_removed(&mut self, name: &EntryName) -> ChangeOutcome {
        let Some((key, row)) = self.working.entry(name) else {
            return ChangeOutcome::NoChange;
        };
        let is_read = sabotage!(
            "text-is-erased-before-the-last-reader-has-gone",
            row.visible_to
                .is_none_or(|end| self.working.is_in_snapshot(end)),
            false
        );
        if row.is_erased() || !row.state.loses_text() || is_read {
            return ChangeOutcome::NoChange;
        }
        sabotage!(
            "text-stays-after-the-last-reader-has-gone",
            self.erase(key, false)
        );
        ChangeOutcome::Removed
    }

    /// Erases an entry for a forgotten subject, with its subjects, even if a snapshot shows it.
    pub(super) fn forget(&mut self, name: &EntryName) -> ChangeOutcome {
        let Some((key, row)) = self.working.entry(name) else {
            return ChangeOutcome::NoChange;
        };
        let state = row.state;
        let is_erased = row.is_erased();
        sabotage!("forgetting-leaves-subjects", self.delete_subjects(key));
        if is_erased {
            return ChangeOutcome::NoChange;
        }
        let revision = self.advance_revision();
        let at = self.working.clock.at;
        self.working.entries.update(&key, |row| {
            row.visible_to = row.visible_to.or(Some(revision));
            row.ended_at = row.ended_at.or(Some(at));
            row.state = EntryState::Forgotten;
        });
        // If this entry was deleted, the texts that were merged into it were meant as well: they
        // do not come back because this entry is now forgotten, too.
        let spare_merged = sabotage!(
            "what-was-deleted-comes-back-by-forgetting",
            matches!(
                state,
                EntryState::Live
                    | EntryState::Retired(RetireReason::Merged | RetireReason::Superseded)
                    | EntryState::Invalidated
                    | EntryState::TextHeld
            ),
            true
        );
        if sabotage!(
            "forgetting-waits-for-a-snapshot",
            true,
            !self.working.is_in_snapshot(revision)
        ) {
            self.erase(key, spare_merged);
        }
        ChangeOutcome::Removed
    }

    /// Marks an entry as removed at the revision of the batch; its text stays.
    pub(super) fn mark_removed(&mut self, key: RowKey, state: EntryState) {
        let revision = self.advance_revision();
        let at = self.working.clock.at;
        let run = self.batch.run().map(RunId::as_str);
        self.working.entries.update(&key, |row| {
            row.visible_to = Some(revision);
            row.ended_at = Some(at);
            row.state = state;
            row.removed_by_run = run.map(str::to_owned);
        });
    }

    /// Erases the text of an entry that ends with this revision, unless a run reads a snapshot
    /// that shows it; then it waits for the purge pass.
    pub(super) fn erase_unless_read(
        &mut self,
        key: RowKey,
        revision: Revision,
        outranks_snapshots: bool,
    ) {
        if outranks_snapshots || !self.working.is_in_snapshot(revision) {
            self.erase(key, false);
        } else {
            let first = self.working.first_removed.unwrap_or(revision);
            self.working.first_removed = Some(first.min(revision));
        }
    }

    /// Erases an entry's text everywhere: the row remains without it. The texts that were merged
    /// into the entry are erased with it, unless `spare_merged`.
    pub(super) fn erase(&mut self, key: RowKey, spare_merged: bool) {
        let at = self.now();
        self.working.entries.update(&key, |row| {
            row.text = None;
            row.erased_at = Some(at);
        });
        sabotage!(
            "a-signature-outlives-its-text",
            self.working.delete_signature(key)
        );
        sabotage!(
            "a-deleted-text-leaves-its-vector",
            self.working.delete_vectors(key)
        );
        sabotage!(
            "records-outlive-their-source",
            self.delete_records_made_from(key)
        );
        sabotage!(
            "what-actions-are-called-outlives-their-entry",
            self.working.blank_links(key)
        );
        sabotage!("nobody-is-let-go", self.release_replaced(key, spare_merged));
    }

    /// Marks the texts that a row replaced as deleted, since its own text is gone and they are not
    /// needed any more; the purge pass erases them. With `spare_merged` the entries that were
    /// merged into it are left: the caller that forgets an entry revives each of them or forgets
    /// it, too.
    fn release_replaced(&mut self, by: RowKey, spare_merged: bool) {
        for key in self.working.rows_replaced_by(by) {
            let Some(row) = self.working.entries.get(&key) else {
                continue;
            };
            let is_released = match row.state {
                EntryState::Retired(RetireReason::Superseded) => true,
                EntryState::Retired(RetireReason::Merged) => !spare_merged,
                _ => false,
            };
            if is_released && !row.is_erased() && !self.working.is_linked(key) {
                self.working
                    .entries
                    .update(&key, |row| row.state = EntryState::Deleted);
                self.working.has_erasable_text = true;
            }
        }
    }

    fn delete_subjects(&mut self, key: RowKey) {
        let range = (key, [0; 32])..=(key, [u8::MAX; 32]);
        let new: Vec<_> = self.working.subjects.range(range).collect();
        let new: Vec<(RowKey, [u8; 32])> = new.into_iter().map(|(key, ())| *key).collect();
        for subject in new {
            self.working.subjects.remove(&subject);
        }
        self.working.forgotten.put(key, ());
    }
}
