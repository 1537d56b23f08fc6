//! What the entries of a memory add up to, so that statistics need not count them: the rows that
//! are part of it, expired or not. A commit says by how much it changes the totals of each memory.

use super::effects::EntryChange;
use super::row::{EntryRow, RowKey};
use crate::sabotage;
use std::collections::BTreeMap;

/// The totals of the current entries of a memory, or a change of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// The number of entries.
    pub entries: i64,
    /// The bytes of their texts.
    pub content_bytes: i64,
    /// The number of entries that expire at some time.
    pub expiring: i64,
    /// The number of entries that name a subject.
    pub with_subject: i64,
}

impl MemoryTotals {
    /// What a row adds to the totals of its memory.
    fn of(row: &EntryRow, has_subject: bool) -> MemoryTotals {
        if !row.is_current() {
            return MemoryTotals::default();
        }
        let text = row.text.as_ref();
        MemoryTotals {
            entries: 1,
            content_bytes: text.map_or(0, |text| text.content.len() as i64),
            expiring: i64::from(row.expires_at.is_some()),
            with_subject: i64::from(has_subject),
        }
    }

    fn add(&mut self, sign: i64, other: MemoryTotals) {
        self.entries += sign * other.entries;
        self.content_bytes += sign * other.content_bytes;
        self.expiring += sign * other.expiring;
        self.with_subject += sign * other.with_subject;
    }
}

/// The changes of the totals, by the number of the memory. A row that becomes part of its memory,
/// or ceases to be, was loaded with its text (`EntryNeed::Neighbourhood`); the text of another one
/// is the same before and after, known or not.
pub(super) fn changes(
    entries: &[EntryChange],
    had_subject: impl Fn(RowKey) -> bool,
    has_subject: impl Fn(RowKey) -> bool,
) -> BTreeMap<i64, MemoryTotals> {
    let mut totals: BTreeMap<i64, MemoryTotals> = BTreeMap::new();
    for change in entries {
        let total = totals.entry(change.key.scope).or_default();
        if let Some(before) = &change.before {
            let gone = MemoryTotals::of(before, had_subject(change.key));
            sabotage!("totals-only-grow", total.add(-1, gone));
        }
        total.add(1, MemoryTotals::of(&change.after, has_subject(change.key)));
    }
    totals.retain(|_, total| *total != MemoryTotals::default());
    totals
}
