//! The snapshots that runs hold.

use super::ChangeOutcome;
use super::apply::Applier;
use super::row::SnapshotRow;
use crate::sabotage;

impl Applier<'_> {
    /// Holds a snapshot for the batch's run, at the revision that this commit makes. One that the
    /// run holds already stays.
    pub(super) fn hold_snapshot(&mut self) -> ChangeOutcome {
        let Some(run) = self.batch.run() else {
            return ChangeOutcome::NoChange;
        };
        let revision = self.advance_revision();
        if !self.working.snapshots.contains(run) {
            let at = self.working.clock.at;
            let snapshot = SnapshotRow { revision, at };
            self.working.snapshots.put(run.clone(), snapshot);
        }
        ChangeOutcome::Done
    }

    /// Releases the snapshot of the batch's run. Removed texts that no other snapshot shows are
    /// due for the purge pass.
    pub(super) fn release_snapshot(&mut self) -> ChangeOutcome {
        let Some(run) = self.batch.run() else {
            return ChangeOutcome::NoChange;
        };
        sabotage!(
            "a-hold-after-a-release-is-lost",
            self.working.snapshots.remove(run)
        );
        let oldest = self.working.oldest_snapshot();
        let is_free = |removed| oldest.is_none_or(|oldest| removed <= oldest);
        // Entries of other users may be hidden: to look for them once too often does no harm.
        let may_erase = self.working.hides_rows || self.working.first_removed.is_some_and(is_free);
        sabotage!(
            "nobody-is-told-that-a-run-let-go",
            self.working.has_erasable_text |= may_erase
        );
        ChangeOutcome::Done
    }
}
