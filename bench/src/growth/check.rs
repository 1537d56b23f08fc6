//! The bounds of growth: how much more an operation may cost in a large memory than in a small one.

use super::Growth;
use crate::table::{number, ratio};

/// How the cost of an operation may grow.
#[derive(Clone, Copy)]
pub enum GrowthBound {
    /// By a factor of 2, whatever the sizes: nothing in it depends on the number of entries.
    Constant,
    /// By a factor of 4 up to 50,000 entries: more entries hold the words that are looked up.
    Search,
    /// Shown and not judged.
    Unbounded,
}

/// The largest memory in which searches are judged.
const SEARCHED_MAX: usize = 50_000;

impl GrowthBound {
    /// The largest ratio of costs, and the largest size for which it is promised.
    fn limits(self) -> Option<(f64, usize)> {
        match self {
            GrowthBound::Constant => Some((2.0, usize::MAX)),
            GrowthBound::Search => Some((4.0, SEARCHED_MAX)),
            GrowthBound::Unbounded => None,
        }
    }
}

/// Lists the operations that cost more in a larger memory than their bound allows.
pub fn broken_bounds(store: &str, sizes: &[usize], growth: &[Growth]) -> Vec<String> {
    let broken = |growth: &Growth| {
        let (ratio_max, size_max) = growth.operation.bound.limits()?;
        let smallest = *growth.micros.first()?;
        let judged = sizes.iter().zip(&growth.micros);
        let (size, worst) = judged
            .filter(|&(&size, _)| size <= size_max)
            .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (*worst > smallest * ratio_max).then(|| {
            format!(
                "{store}: {} costs {} as much with {} entries as with {}; {} is allowed",
                growth.operation.name,
                ratio(*worst, smallest),
                number(*size as f64),
                number(sizes[0] as f64),
                ratio(ratio_max, 1.0)
            )
        })
    };
    growth.iter().filter_map(broken).collect()
}

#[cfg(test)]
mod tests {
    use super::super::operations::OPERATIONS;
    use super::*;

    fn broken(name: &str, sizes: &[usize], micros: &[f64]) -> bool {
        let operation = OPERATIONS.iter().find(|of| of.name == name).unwrap();
        let micros = micros.to_vec();
        !broken_bounds("SQLite", sizes, &[Growth { operation, micros }]).is_empty()
    }

    #[test]
    fn a_get_may_double_and_a_search_quadruple() {
        let sizes = [500, 50_000];
        assert!(!broken("get", &sizes, &[100.0, 200.0]));
        assert!(broken("get", &sizes, &[100.0, 201.0]));
        assert!(!broken("search, a question", &sizes, &[100.0, 400.0]));
        assert!(broken("search, a question", &sizes, &[100.0, 401.0]));
    }

    #[test]
    fn searches_are_judged_up_to_50_000_entries_and_gets_in_every_memory() {
        let sizes = [500, 50_000, 1_000_000];
        let micros = [100.0, 150.0, 900.0];
        assert!(!broken("search, a question", &sizes, &micros));
        assert!(broken("get", &sizes, &micros));
    }

    #[test]
    fn an_operation_without_a_bound_is_never_broken() {
        let sizes = [500, 50_000];
        assert!(!broken(
            "pass consolidate, nothing new",
            &sizes,
            &[1.0, 99.0]
        ));
    }
}
