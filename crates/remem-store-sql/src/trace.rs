//! Pages of the entries that carry a subject: which of the rows that a store read belong to a page,
//! and where the next one begins. It reads nothing itself.

use remem_core::sabotage;
use remem_core::{EntryId, MemoryRef};
use remem_store::{RowCursor, SubjectTrace, TracePosition, TracedEntry};

/// An entry that carries a subject, with the position of its row.
pub type TracedRow = (RowCursor, TracedEntry);

/// The rows of one page, and the position of the next.
pub struct TracePage {
    pub rows: Vec<TracedRow>,
    next: Option<TracePosition>,
}

impl TracePage {
    /// Puts a page together. What the subject was given to comes with the last of everything that
    /// was made from it: a caller that erases page by page finds the rest through it until then.
    pub fn new(
        after: TracePosition,
        limit: u32,
        given: Vec<TracedRow>,
        derived: Vec<TracedRow>,
    ) -> TracePage {
        let is_full = |rows: &[TracedRow]| rows.len() >= limit as usize;
        let last = |rows: &[TracedRow]| rows.last().map(|(row, _)| *row);
        if sabotage!(
            "a-page-takes-what-leads-to-the-next",
            is_full(&derived),
            false
        ) {
            let next = TracePosition {
                derived: last(&derived),
                ..after
            };
            return TracePage {
                rows: derived,
                next: Some(next),
            };
        }
        let next = is_full(&given).then(|| TracePosition {
            given: last(&given),
            derived: None,
        });
        let rows = [derived, given].concat();
        TracePage { rows, next }
    }

    /// The page as the store returns it.
    pub fn into_trace(self, merged_survivors: Vec<(MemoryRef, EntryId, EntryId)>) -> SubjectTrace {
        SubjectTrace {
            entries: self.rows.into_iter().map(|(_, entry)| entry).collect(),
            merged_survivors,
            next: self.next,
        }
    }
}
