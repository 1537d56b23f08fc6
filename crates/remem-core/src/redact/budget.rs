//! Owns the count of bytes that the search of one text has read, and the limits on it. It does
//! not decide what happens to a stretch that did not fit; `layers` does, and replaces it.

use crate::sabotage;

/// Bytes examined for one text, decoded ones included: at most this many times its length, plus
/// `TEXT_EXTRA` for short texts. Ordinary text stays far below it.
const TEXT_FACTOR: usize = 64;
const TEXT_EXTRA: usize = 64 * 1024;
/// Bytes examined for one reading of a text and everything nested in it: at most this many times
/// its own length, plus `READING_EXTRA`. Each notation of escapes can be nested in each, three
/// deep, for twenty-one times; base64 in base64 in base64 is eleven.
const READING_FACTOR: usize = 32;
const READING_EXTRA: usize = 4 * 1024;
/// Bytes of unpacked data examined for one text, with everything that they decode to. Plain text of
/// fifteen megabytes fits, or eight that have some escapes.
const UNPACKED_MAX: usize = 16 << 20;

/// The number of bytes that may still be examined for one text. Text and data unpacked from it are
/// counted apart, so that neither uses up the other's share.
pub(super) struct ScanBudget {
    text: ByteCount,
    unpacked: ByteCount,
    is_unpacking: bool,
}

struct ByteCount {
    used: usize,
    limit: usize,
}

impl ScanBudget {
    /// The budget of a text that is `bytes` long.
    pub(super) fn for_text(bytes: usize) -> ScanBudget {
        let limit = bytes.saturating_mul(TEXT_FACTOR).saturating_add(TEXT_EXTRA);
        ScanBudget {
            text: ByteCount { used: 0, limit },
            unpacked: ByteCount {
                used: 0,
                limit: sabotage!("unpacked-data-has-no-budget", UNPACKED_MAX, usize::MAX),
            },
            is_unpacking: false,
        }
    }

    /// Counts bytes that are about to be examined. Returns false when they do not fit: then nothing
    /// is counted, so a shorter stretch behind them may still fit.
    pub(super) fn try_charge(&mut self, bytes: usize) -> bool {
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

    /// Limits a reading of `bytes` bytes to its own allowance until `end_reading` gets the outer
    /// limit that this returns.
    pub(super) fn begin_reading(&mut self, bytes: usize) -> usize {
        let own = bytes
            .saturating_mul(READING_FACTOR)
            .saturating_add(READING_EXTRA);
        let outer = self.text.limit;
        self.text.limit = outer.min(self.text.used.saturating_add(own));
        outer
    }

    /// Restores the limit that `begin_reading` returned.
    pub(super) fn end_reading(&mut self, outer: usize) {
        self.text.limit = outer;
    }

    /// Counts examined bytes as unpacked data until `end_unpacking` gets the outer state that this
    /// returns.
    pub(super) fn begin_unpacking(&mut self) -> bool {
        std::mem::replace(&mut self.is_unpacking, true)
    }

    /// Restores the state that `begin_unpacking` returned, so that leaving nested packed data keeps
    /// counting as unpacked until the outermost packed data ends.
    pub(super) fn end_unpacking(&mut self, outer: bool) {
        self.is_unpacking = outer;
    }

    /// The number of bytes examined so far.
    pub(super) fn used(&self) -> usize {
        self.text.used.saturating_add(self.unpacked.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_charge_consumes_no_budget() {
        let mut budget = ScanBudget::for_text(1000);
        let outer = budget.begin_reading(100);
        assert!(!budget.try_charge(READING_FACTOR * 100 + READING_EXTRA + 1));
        assert_eq!(budget.used(), 0);
        assert!(budget.try_charge(READING_FACTOR * 100));
        budget.end_reading(outer);
        assert!(budget.try_charge(READING_FACTOR * 500));
    }

    #[test]
    fn unpacked_data_has_a_budget_of_its_own() {
        let mut budget = ScanBudget::for_text(8);
        let outer = budget.begin_unpacking();
        assert!(budget.try_charge(UNPACKED_MAX) && !budget.try_charge(1));
        budget.end_unpacking(outer);
        assert!(budget.try_charge(TEXT_EXTRA));
        assert_eq!(budget.used(), UNPACKED_MAX + TEXT_EXTRA);
    }
}
