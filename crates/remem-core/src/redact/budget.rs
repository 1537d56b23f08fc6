//! Owns the count of bytes that the search of one text has looked at, and the limits on it. It may
//! not decide what becomes of a stretch that did not fit; `layers` does, and replaces it.

use crate::sabotage;

/// Bytes looked at for one text, decoded ones included: so many times its length, and a little more
/// for short ones. Ordinary text stays far below it.
const TEXT_FACTOR: usize = 64;
const TEXT_EXTRA: usize = 64 * 1024;
/// Bytes looked at for one reading of a text and all that it holds: so many times its own length.
/// Each notation of escapes can be nested in each, three deep, for twenty-one times; base64 in
/// base64 in base64 is eleven.
const READING_FACTOR: usize = 32;
const READING_EXTRA: usize = 4 * 1024;
/// Bytes of unpacked data looked at for one text, with all that they decode to. Plain text of
/// fifteen megabytes fits, or eight that have some escapes.
const UNPACKED_MAX: usize = 16 << 20;

/// What may still be looked at. Text and what was unpacked from it are counted apart, so that
/// neither takes from the other.
pub(super) struct Budget {
    text: Count,
    unpacked: Count,
    is_unpacking: bool,
}

struct Count {
    used: usize,
    limit: usize,
}

impl Budget {
    /// The budget of a text of so many bytes.
    pub(super) fn of(bytes: usize) -> Budget {
        let limit = bytes.saturating_mul(TEXT_FACTOR).saturating_add(TEXT_EXTRA);
        Budget {
            text: Count { used: 0, limit },
            unpacked: Count {
                used: 0,
                limit: sabotage!("unpacked-data-has-no-budget", UNPACKED_MAX, usize::MAX),
            },
            is_unpacking: false,
        }
    }

    /// Counts bytes that are about to be looked at. False when they do not fit: then nothing is
    /// counted, and what stands behind them still has its chance.
    pub(super) fn afford(&mut self, bytes: usize) -> bool {
        let count = if self.is_unpacking {
            &mut self.unpacked
        } else {
            &mut self.text
        };
        let used = count.used.saturating_add(bytes);
        if used > count.limit {
            return false;
        }
        count.used = used;
        true
    }

    /// Charges a reading of so many bytes to itself until `end_reading` gets what this returns.
    pub(super) fn begin_reading(&mut self, bytes: usize) -> usize {
        let own = bytes
            .saturating_mul(READING_FACTOR)
            .saturating_add(READING_EXTRA);
        let outer = self.text.limit;
        self.text.limit = outer.min(self.text.used.saturating_add(own));
        outer
    }

    /// The limit is again that of the text as a whole.
    pub(super) fn end_reading(&mut self, outer: usize) {
        self.text.limit = outer;
    }

    /// Counts as unpacked data what is looked at until `end_unpacking` gets what this returns.
    pub(super) fn begin_unpacking(&mut self) -> bool {
        std::mem::replace(&mut self.is_unpacking, true)
    }

    /// Data inside packed data ends where the outermost does.
    pub(super) fn end_unpacking(&mut self, outer: bool) {
        self.is_unpacking = outer;
    }

    /// Bytes looked at so far.
    pub(super) fn used(&self) -> usize {
        self.text.used.saturating_add(self.unpacked.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_costs_nothing() {
        let mut budget = Budget::of(1000);
        let outer = budget.begin_reading(100);
        assert!(!budget.afford(READING_FACTOR * 100 + READING_EXTRA + 1));
        assert_eq!(budget.used(), 0);
        assert!(budget.afford(READING_FACTOR * 100));
        budget.end_reading(outer);
        assert!(budget.afford(READING_FACTOR * 500));
    }

    #[test]
    fn unpacked_data_takes_nothing_from_the_text() {
        let mut budget = Budget::of(8);
        let outer = budget.begin_unpacking();
        assert!(budget.afford(UNPACKED_MAX) && !budget.afford(1));
        budget.end_unpacking(outer);
        assert!(budget.afford(TEXT_EXTRA));
        assert_eq!(budget.used(), UNPACKED_MAX + TEXT_EXTRA);
    }
}
