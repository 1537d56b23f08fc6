//! Conflict: what becomes of a new answer to a question that was answered before. Facts have
//! windows of time, of which no two of one slot overlap; procedures follow one another, and one is
//! active. Both keep what they replace. Decides only: a ruling says which windows to close and
//! where the new one stands, and whoever has the rows carries it out.
//!
//! What nobody vouches for never takes time from what somebody does, whichever of the two arrives
//! first.

use crate::ids::Timestamp;
use crate::sabotage;
use crate::trust::Trust;

/// When something is said to be so: `[from, to)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Window {
    /// Since when.
    pub from: Timestamp,
    /// Until when, if that is known. A window that ends where it begins was never so.
    pub to: Option<Timestamp>,
    /// How far its best source is believed.
    pub trust: Trust,
    /// When it was written down.
    pub created_at: Timestamp,
    /// What is said, in the normal form by which two say the same.
    pub value: String,
}

impl Window {
    /// Whether it holds at an instant.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }

    /// Whether it holds at no instant: an answer that lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }

    fn is_untrusted(&self) -> bool {
        self.trust == Trust::Untrusted
    }

    /// Whether it holds at some instant of `[from, to)`.
    fn meets(&self, from: Timestamp, to: Option<Timestamp>) -> bool {
        !self.is_empty()
            && to.is_none_or(|to| from < to && self.from < to)
            && self.to.is_none_or(|end| from < end)
    }
}

// What is said stays out of logs.
impl std::fmt::Debug for Window {
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

/// A window that is written down, under the name of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<I> {
    /// The row.
    pub id: I,
    /// When it holds.
    pub window: Window,
}

/// What becomes of a new window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing<I> {
    /// The row says it already: it takes the new evidence, and its trust is that of its best
    /// source.
    Same(I),
    /// It stands from its start to `to`, after the rows in `close` were ended at the instants
    /// beside them. A row that is ended at its own start has lost.
    Stands {
        /// Its end.
        to: Option<Timestamp>,
        /// Which rows end, and when. None begins to hold at an instant at which it did not.
        close: Vec<(I, Timestamp)>,
    },
    /// The row began at the same instant and is better: the new one is kept with an empty window at
    /// its start.
    Loses(I),
    /// Nobody vouches for it, and the row is trusted: it is kept without a slot, where it
    /// contradicts nothing.
    Apart(I),
}

/// Decides where a new window stands among those of its slot, given in any order.
#[must_use]
pub fn resolve<I: Clone + Ord>(new: &Window, windows: &[Placed<I>]) -> Placing<I> {
    let start = new.from;
    let bound = bound(new, windows);
    if let Some(row) = windows.iter().find(|row| row.window.contains(start)) {
        let old = &row.window;
        // To vouch for an answer that others cut short would cut short what is vouched for.
        let as_long = new.is_untrusted() || !old.is_untrusted() || old.to == bound;
        if sabotage!(
            "vouching-keeps-what-others-cut-short",
            old.value == new.value && as_long,
            old.value == new.value
        ) {
            return Placing::Same(row.id.clone());
        }
        if sabotage!(
            "untrusted-answers-end-trusted-ones",
            new.is_untrusted() && !old.is_untrusted(),
            false
        ) {
            return Placing::Apart(row.id.clone());
        }
        if old.from == start && !beats(new, old) {
            return Placing::Loses(row.id.clone());
        }
    }
    let to = bound
        .into_iter()
        .chain(new.to.map(|to| to.max(start)))
        .min();
    let mut close: Vec<(I, Timestamp)> = windows
        .iter()
        .filter(|row| row.window.meets(start, to))
        .map(|row| (row.id.clone(), start.max(row.window.from)))
        .collect();
    close.sort();
    Placing::Stands { to, close }
}

/// How far a new window may reach: to where the next one begins, or where the present one ends
/// (something ended it: its successor, or somebody who took it back). Untrusted windows bound no
/// trusted one.
fn bound<I>(new: &Window, windows: &[Placed<I>]) -> Option<Timestamp> {
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
    let end = |window: &Window| match window.contains(new.from) {
        true => window.to,
        false => sabotage!(
            "a-late-answer-overrides-its-successors",
            Some(window.from).filter(|from| *from > new.from),
            None
        ),
    };
    binding.filter_map(end).min()
}

/// Of two that begin at one instant: the better believed, then the newer. The value is the last
/// resort, so that the order of arrival decides nothing.
fn beats(new: &Window, old: &Window) -> bool {
    (new.trust, new.created_at, &new.value) > (old.trust, old.created_at, &old.value)
}

/// The row that ends at `at`, without a successor, because somebody took it back. Whom nobody
/// vouches for can take back only what nobody vouches for.
#[must_use]
pub fn retract<I: Clone>(at: Timestamp, trust: Trust, windows: &[Placed<I>]) -> Option<I> {
    let row = as_of(at, windows)?;
    let may = sabotage!(
        "anybody-takes-a-fact-back",
        trust != Trust::Untrusted || row.window.is_untrusted(),
        trust >= Trust::Untrusted
    );
    may.then(|| row.id.clone())
}

/// The one that holds at an instant.
#[must_use]
pub fn as_of<I>(at: Timestamp, windows: &[Placed<I>]) -> Option<&Placed<I>> {
    windows.iter().find(|row| row.window.contains(at))
}

/// The procedure that is followed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active<I> {
    /// The row.
    pub id: I,
    /// When it was stated.
    pub at: Timestamp,
    /// How far its best source is believed.
    pub trust: Trust,
}

/// What becomes of a new procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Succession<I> {
    /// It is active; there was none.
    First,
    /// It is active, and the row is superseded by it.
    Supersedes(I),
    /// It is older than the row: written down as superseded by it.
    Superseded(I),
    /// Nobody vouches for it, and the row is trusted: kept without a slot.
    Apart(I),
}

/// Decides which of two procedures of one slot is active. At one instant the better believed is,
/// then the one that arrives.
#[must_use]
pub fn succeed<I>(at: Timestamp, trust: Trust, active: Option<Active<I>>) -> Succession<I> {
    let Some(active) = active else {
        return Succession::First;
    };
    match (trust == Trust::Untrusted, active.trust == Trust::Untrusted) {
        (true, false) => sabotage!(
            "untrusted-procedures-supersede",
            Succession::Apart(active.id),
            Succession::Supersedes(active.id)
        ),
        (false, true) => Succession::Supersedes(active.id),
        _ if (at, trust) >= (active.at, active.trust) => Succession::Supersedes(active.id),
        _ => Succession::Superseded(active.id),
    }
}

#[cfg(test)]
#[path = "conflict_tests.rs"]
mod tests;
