//! Conflict: which of several answers to one slot is valid when. Facts have validity windows, of
//! which no two of one slot overlap; procedures supersede one another, and one is active. Both keep
//! what they replace. This file decides only: it says which windows to close and how far the new
//! one reaches, and the caller writes the rows.
//!
//! An untrusted answer never takes time from a trusted one, whichever of the two arrives first.

use crate::ids::Timestamp;
use crate::sabotage;
use crate::trust::Trust;

/// The time in which a statement is said to be true, `[from, to)`, and the attributes that decide
/// conflicts.
#[derive(Clone, PartialEq, Eq)]
pub struct ValidityWindow {
    /// The first instant at which it is true.
    pub from: Timestamp,
    /// The end, if it is known. A window that ends where it begins was never true.
    pub to: Option<Timestamp>,
    /// The trust of its best source.
    pub trust: Trust,
    pub created_at: Timestamp,
    /// The statement in its normal form; two windows with the same value say the same.
    pub value: String,
}

impl ValidityWindow {
    /// Returns true if the statement is true at an instant.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }

    /// Returns true if the statement is true at no instant: an answer that lost a conflict.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }

    fn is_untrusted(&self) -> bool {
        self.trust == Trust::Untrusted
    }

    /// Returns true if the window overlaps `[from, to)`.
    fn overlaps(&self, from: Timestamp, to: Option<Timestamp>) -> bool {
        !self.is_empty()
            && to.is_none_or(|to| from < to && self.from < to)
            && self.to.is_none_or(|end| from < end)
    }
}

// The statement stays out of logs.
impl std::fmt::Debug for ValidityWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Window({}..{:?}, {})",
            self.from.0,
            self.to.map(|to| to.0),
            self.trust.as_str()
        )
    }
}

/// A stored window with the id of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotWindow<I> {
    pub id: I,
    pub window: ValidityWindow,
}

/// The decision about a new window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotPlacement<I> {
    /// The row already says the same: it takes the new evidence, and its trust becomes that of its
    /// best source.
    Same(I),
    /// The new window is stored from its start to `to`, after the rows in `close` were ended at the
    /// given instants. A row that is ended at its own start has lost.
    Insert {
        /// The end of the new window.
        to: Option<Timestamp>,
        /// The rows that end, and when. No row becomes true at an instant at which it was not.
        close: Vec<(I, Timestamp)>,
    },
    /// The row began at the same instant and wins: the new window is stored empty, ending at its
    /// start.
    InsertEmpty(I),
    /// The new window is untrusted and the row is trusted: the new one is stored without a slot,
    /// where it contradicts nothing.
    WithoutSlot(I),
}

/// Decides how a new window is placed among those of its slot, which are given in any order.
#[must_use]
pub fn place_in_slot<I: Clone + Ord>(
    new: &ValidityWindow,
    windows: &[SlotWindow<I>],
) -> SlotPlacement<I> {
    let start = new.from;
    let bound = latest_end(new, windows);
    if let Some(row) = windows.iter().find(|row| row.window.contains(start)) {
        let old = &row.window;
        // A trusted answer must not be merged into an untrusted row that other answers have cut
        // short: the trusted one would end too early as well.
        let as_long = new.is_untrusted() || !old.is_untrusted() || old.to == bound;
        if sabotage!(
            "vouching-keeps-what-others-cut-short",
            old.value == new.value && as_long,
            old.value == new.value
        ) {
            return SlotPlacement::Same(row.id.clone());
        }
        if sabotage!(
            "untrusted-answers-end-trusted-ones",
            new.is_untrusted() && !old.is_untrusted(),
            false
        ) {
            return SlotPlacement::WithoutSlot(row.id.clone());
        }
        if old.from == start && !wins_tie(new, old) {
            return SlotPlacement::InsertEmpty(row.id.clone());
        }
    }
    let to = bound
        .into_iter()
        .chain(new.to.map(|to| to.max(start)))
        .min();
    let mut close: Vec<(I, Timestamp)> = windows
        .iter()
        .filter(|row| row.window.overlaps(start, to))
        .map(|row| (row.id.clone(), start.max(row.window.from)))
        .collect();
    close.sort();
    SlotPlacement::Insert { to, close }
}

/// The latest end that a new window may have: the start of the next window, or the end of the one
/// that holds now (its successor or a retraction ended it). Untrusted windows do not bound a
/// trusted one.
fn latest_end<I>(new: &ValidityWindow, windows: &[SlotWindow<I>]) -> Option<Timestamp> {
    let windows = windows
        .iter()
        .map(|row| &row.window)
        .filter(|window| !window.is_empty());
    let binding = windows.filter(|window| {
        sabotage!(
            "untrusted-answers-that-came-first-cut-trusted-ones-short",
            new.is_untrusted() || !window.is_untrusted(),
            true
        )
    });
    let end = |window: &ValidityWindow| match window.contains(new.from) {
        true => window.to,
        false => sabotage!(
            "a-late-answer-overrides-its-successors",
            Some(window.from).filter(|from| *from > new.from),
            None
        ),
    };
    binding.filter_map(end).min()
}

/// Decides between two windows that begin at one instant: the better trusted wins, then the newer.
/// The value is the last resort, so that the order of arrival decides nothing.
fn wins_tie(new: &ValidityWindow, old: &ValidityWindow) -> bool {
    (new.trust, new.created_at, &new.value) > (old.trust, old.created_at, &old.value)
}

/// The row that ends at `at` because the statement is taken back, without a successor. An untrusted
/// caller can take back untrusted statements only.
#[must_use]
pub fn retract<I: Clone>(at: Timestamp, trust: Trust, windows: &[SlotWindow<I>]) -> Option<I> {
    let row = as_of(at, windows)?;
    let may = sabotage!(
        "anybody-takes-a-fact-back",
        trust != Trust::Untrusted || row.window.is_untrusted(),
        trust >= Trust::Untrusted
    );
    may.then(|| row.id.clone())
}

/// The row that is true at an instant.
#[must_use]
pub fn as_of<I>(at: Timestamp, windows: &[SlotWindow<I>]) -> Option<&SlotWindow<I>> {
    windows.iter().find(|row| row.window.contains(at))
}

/// The procedure of a slot that is in force now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveProcedure<I> {
    pub id: I,
    /// The instant at which it was stated.
    pub at: Timestamp,
    /// The trust of its best source.
    pub trust: Trust,
}

/// The decision about a new procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Succession<I> {
    /// It becomes active; there was none before.
    First,
    /// It becomes active, and the row is superseded by it.
    Supersedes(I),
    /// It is older than the row: it is stored as superseded by the row.
    SupersededBy(I),
    /// It is untrusted and the row is trusted: it is stored without a slot.
    WithoutSlot(I),
}

/// Decides which of two procedures of one slot is active: the newer one. At one instant the better
/// trusted one wins, then the one that arrives now.
#[must_use]
pub fn supersede<I>(
    at: Timestamp,
    trust: Trust,
    active: Option<ActiveProcedure<I>>,
) -> Succession<I> {
    let Some(active) = active else {
        return Succession::First;
    };
    match (trust == Trust::Untrusted, active.trust == Trust::Untrusted) {
        (true, false) => sabotage!(
            "untrusted-procedures-supersede",
            Succession::WithoutSlot(active.id),
            Succession::Supersedes(active.id)
        ),
        (false, true) => Succession::Supersedes(active.id),
        _ if (at, trust) >= (active.at, active.trust) => Succession::Supersedes(active.id),
        _ => Succession::SupersededBy(active.id),
    }
}

#[cfg(test)]
#[path = "conflict_tests.rs"]
mod tests;
