//! Entries that take the place of others: retire, close, revive, and the answers of slots.

use super::apply::Applier;
use super::row::{EntryName, EntryRow, RowKey};
use super::{ChangeOutcome, EntryState, Refused};
use crate::batch::{ClosingReason, RetireReason};
use crate::entry::Typology;
use crate::ids::Timestamp;
use crate::sabotage;
use std::collections::BTreeSet;

impl Applier<'_> {
    /// Removes an entry in favour of another one of the same memory, `by`.
    pub(super) fn retire(
        &mut self,
        name: &EntryName,
        reason: RetireReason,
        by: &EntryName,
    ) -> ChangeOutcome {
        let at = self.batch.at();
        let live = |name: &EntryName| {
            let (key, row) = self.working.entry(name)?;
            row.is_live(at).then_some((key, row.support))
        };
        let (Some((key, support)), Some((successor, _))) = (live(name), live(by)) else {
            return ChangeOutcome::NoChange;
        };
        if key == successor {
            return ChangeOutcome::NoChange;
        }
        let revision = self.advance_revision();
        let held = !reason.keeps_text() && self.working.is_linked(key);
        let state = if held {
            EntryState::TextHeld
        } else {
            EntryState::Retired(reason)
        };
        self.mark_removed(key, state);
        self.set_successor(key, successor);
        self.working.delete_signature(key);
        sabotage!(
            "records-do-not-follow",
            self.move_records(key, reason, successor)
        );
        if reason == RetireReason::Merged {
            self.working
                .entries
                .update(&successor, |row| row.support += support);
            self.working.lineage.put((successor, key), ());
        }
        if sabotage!(
            "merged-text-goes-at-once",
            !held && !reason.keeps_text(),
            !held
        ) {
            self.erase_unless_read(key, revision, false);
        }
        ChangeOutcome::Removed
    }

    /// Closes an entry because its statement is over or untrue. Its successor may be put later in
    /// the batch.
    pub(super) fn close(
        &mut self,
        name: &EntryName,
        closing: ClosingReason,
        by: Option<EntryName>,
    ) -> ChangeOutcome {
        let at = self.batch.at();
        let live = self.working.entry(name).filter(|(_, row)| row.is_live(at));
        let Some((key, _)) = live else {
            return sabotage!(
                "a-late-answer-takes-no-time-from-what-is-over",
                self.close_earlier(name, closing),
                ChangeOutcome::NoChange
            );
        };
        self.advance_revision();
        if let ClosingReason::InvalidFrom(from) = closing {
            self.set_invalid_from(key, from);
            if from > self.working.clock.at {
                return ChangeOutcome::Done; // it holds until then
            }
        }
        self.mark_removed(key, closing.into());
        self.working.delete_signature(key);
        self.unschedule_records(key);
        if let Some(by) = by {
            match self.working.names.get(&by).copied() {
                Some(successor) => sabotage!(
                    "what-gave-way-outlives-what-took-its-place",
                    self.set_successor(key, successor),
                    self.successors.push((by, key))
                ),
                None => self.successors.push((by, key)),
            }
        }
        ChangeOutcome::Removed
    }

    /// Moves the end of a closed statement to an earlier time: a late answer may reveal that it
    /// was over before that.
    fn close_earlier(&mut self, name: &EntryName, closing: ClosingReason) -> ChangeOutcome {
        let ClosingReason::InvalidFrom(from) = closing else {
            return ChangeOutcome::NoChange;
        };
        let lasts_longer = |row: &EntryRow| {
            !row.is_erased()
                && row.state == EntryState::Invalidated
                && row.invalid_at.is_some_and(|end| end > from)
        };
        let Some((key, _)) = self
            .working
            .entry(name)
            .filter(|(_, row)| lasts_longer(row))
        else {
            return ChangeOutcome::NoChange;
        };
        self.advance_revision();
        self.set_invalid_from(key, from);
        ChangeOutcome::Done
    }

    /// Sets the time from which a statement is untrue.
    fn set_invalid_from(&mut self, key: RowKey, from: Timestamp) {
        self.working.entries.update(&key, |row| {
            row.valid_at = row.valid_at.or(Some(row.created_at.min(from)));
            row.invalid_at = Some(from);
        });
        if let Some(row) = self.working.entries.get(&key).cloned() {
            self.note_slot(key, &row);
        }
    }

    /// Notes which row replaces a removed one, unless that is known.
    pub(super) fn set_successor(&mut self, key: RowKey, successor: RowKey) {
        self.working.entries.update(&key, |row| {
            row.replaced_by = row.replaced_by.or(Some(successor.row));
        });
        self.working.note_replaced(key, Some(successor.row));
    }

    /// Makes a merged entry current again, after the entry that replaced it was erased. A run that
    /// began before the merge still sees it as it did; if there is no such run, the entry counts
    /// as new from now on, so that runs that began after the merge do not see it come back.
    pub(super) fn revive(&mut self, name: &EntryName) -> ChangeOutcome {
        let Some((key, row)) = self.working.entry(name) else {
            return ChangeOutcome::NoChange;
        };
        let replacement = row.replaced_by.map(|row| RowKey { row, ..key });
        let is_replacement_gone = sabotage!(
            "an-entry-comes-back-beside-the-one-that-stands-for-it",
            replacement
                .and_then(|by| self.working.entries.get(&by))
                .is_some_and(EntryRow::is_erased),
            replacement.is_some()
        );
        let may_return = sabotage!(
            "what-was-superseded-comes-back",
            row.state == EntryState::Retired(RetireReason::Merged)
                && !row.is_erased()
                && is_replacement_gone,
            row.state == EntryState::Retired(RetireReason::Superseded)
                || row.state == EntryState::Retired(RetireReason::Merged)
                    && !row.is_erased()
                    && is_replacement_gone
        );
        let (Some(end), true) = (row.visible_to, may_return) else {
            return ChangeOutcome::NoChange;
        };
        let is_read = self.working.is_in_snapshot(end);
        let revision = self.advance_revision();
        self.working.entries.update(&key, |row| {
            if !is_read {
                row.visible_from = revision;
            }
            row.visible_to = None;
            row.state = EntryState::Live;
            row.replaced_by = None;
            row.removed_by_run = None;
            row.ended_at = None;
        });
        if let Some(row) = self.working.entries.get(&key).cloned() {
            self.note_slot(key, &row);
        }
        ChangeOutcome::Done
    }

    /// Remembers that a batch changes an answer of a slot, if the entry is one.
    pub(super) fn note_slot(&mut self, key: RowKey, row: &EntryRow) {
        if let Some(slot) = &row.slot {
            let answers = self.answers.entry((key.scope, slot.clone()));
            answers.or_default().insert(key);
            self.working.note_answer(key, Some(slot));
        }
    }

    /// Whether each slot that the batch changed has at most one answer at any instant. Only changed
    /// answers can overlap others; all that they may overlap are loaded (`Wanted::slots`).
    pub(super) fn check_slots(&self) -> Result<(), Refused> {
        let is_free = |((scope, slot), changed): (&(i64, String), &BTreeSet<RowKey>)| {
            let answers = self.working.answers_of(*scope, slot);
            let mut of_batch = answers.iter().filter(|(key, _)| changed.contains(key));
            of_batch.all(|(key, row)| {
                let mut others = answers.iter().filter(|(other, _)| other != key);
                !others.any(|(_, other)| exclude_each_other(row, other))
            })
        };
        if self.answers.iter().all(is_free) {
            Ok(())
        } else {
            Err(Refused::Conflict)
        }
    }
}

/// Whether two answers of one slot may not both be there: two statements that are true at the same
/// instant, or two ways to do the same thing.
fn exclude_each_other(a: &EntryRow, b: &EntryRow) -> bool {
    if a.typology != b.typology {
        return false;
    }
    match a.typology {
        Typology::Episodic => false,
        Typology::Procedural => a.is_current() && b.is_current(),
        Typology::Semantic => states_something(a) && states_something(b) && overlap(a, b),
    }
}

/// Whether a statement takes a part of its slot's time. One that ended for another reason than the
/// end of its truth takes none, and an empty window overlaps nothing.
fn states_something(row: &EntryRow) -> bool {
    let counts = row.is_current()
        || sabotage!(
            "an-answer-that-is-over-leaves-its-time",
            row.state == EntryState::Invalidated,
            false
        );
    let is_empty = row.valid_at.is_some() && row.valid_at == row.invalid_at;
    !row.is_erased() && counts && !is_empty
}

fn overlap(a: &EntryRow, b: &EntryRow) -> bool {
    let begins_before_end = |a: &EntryRow, b: &EntryRow| {
        a.valid_at.is_none() || b.invalid_at.is_none() || a.valid_at < b.invalid_at
    };
    begins_before_end(a, b) && begins_before_end(b, a)
}
