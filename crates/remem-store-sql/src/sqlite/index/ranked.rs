//! Scored rows, returned best first in portions: most searches need the first few only, and sorting
//! the rest would cost more than finding them.

/// The least number of rows to sort at once: to find the best of the rest takes a walk over all of
/// it.
const SORTED_MIN: usize = 512;

/// Rows with their scores, sorted as far as needed.
#[derive(Default)]
pub(crate) struct RankedRows {
    rows: Vec<(i64, i64)>,
    /// The number of rows at the front that are in order, and better than all after them.
    sorted: usize,
    /// The number of those that were returned.
    returned: usize,
}

impl RankedRows {
    /// Takes unsorted pairs of score and row.
    pub fn new(rows: Vec<(i64, i64)>) -> RankedRows {
        RankedRows {
            rows,
            sorted: 0,
            returned: 0,
        }
    }

    /// The next best rows: by score, then the newer row. Empty at the end.
    pub fn next(&mut self, count: usize) -> &[(i64, i64)] {
        if self.returned + count > self.sorted {
            self.sort(count.max(SORTED_MIN));
        }
        let first = self.returned;
        self.returned = (first + count).min(self.sorted);
        &self.rows[first..self.returned]
    }

    /// Sorts the next `count` rows, after those that are in order.
    fn sort(&mut self, count: usize) {
        let rest = &mut self.rows[self.sorted..];
        let count = count.min(rest.len());
        let order = |a: &(i64, i64), b: &(i64, i64)| b.cmp(a);
        if count > 0 && count < rest.len() {
            rest.select_nth_unstable_by(count - 1, order);
        }
        rest[..count].sort_unstable_by(order);
        self.sorted += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        #[test]
        fn batches_concatenate_to_the_sorted_list(rows in prop::collection::vec((0i64..99, 0i64..50), 0..1_500), portions in prop::collection::vec(1usize..700, 60)) {
            let mut whole = rows.clone();
            whole.sort_unstable_by(|a, b| b.cmp(a));
            let mut best = RankedRows::new(rows);
            let mut got = Vec::new();
            for count in portions.into_iter().chain([1_500]) {
                got.extend_from_slice(best.next(count));
            }
            prop_assert_eq!(got, whole);
        }
    }
}
