//! Promotion: decides whether a claim that was made in a session is stored beyond it. Three
//! conditions, each necessary: enough weight of evidence, sources in more than one thread, and
//! still true. May not count evidence (`trust`) and may not move anything.

use crate::sabotage;
use crate::trust::{Evidence, Trust};

/// The least weight of evidence that a claim needs. A memory may ask for more, never for less.
pub const UNITS_MIN: u32 = 4;
/// The least number of threads that a claim must appear in, unless the operator made it.
const THREADS_MIN: usize = 2;

/// The reason why a claim is not promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No source is trusted, and untrusted sources never suffice in any number.
    Untrusted,
    /// The claim is no longer true.
    NotCurrent,
    /// The weight of its sources is too small.
    TooWeak,
    /// All sources are in one thread.
    OneThread,
}

impl Held {
    /// The stable name of the reason, in snake case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Held::Untrusted => "untrusted",
            Held::NotCurrent => "not_current",
            Held::TooWeak => "too_weak",
            Held::OneThread => "one_thread",
        }
    }
}

/// Checks whether a claim may outlast its session. A `threshold` below [`UNITS_MIN`] counts as
/// that.
pub fn promotes(evidence: &Evidence, is_current: bool, threshold: u32) -> Result<(), Held> {
    if sabotage!(
        "untrusted-claims-are-promoted",
        evidence.is_untrusted() && !evidence.is_empty(),
        false
    ) {
        return Err(Held::Untrusted);
    }
    if !is_current {
        return Err(Held::NotCurrent);
    }
    if evidence.units()
        < sabotage!(
            "a-memory-asks-for-less-evidence",
            threshold.max(UNITS_MIN),
            threshold
        )
    {
        return Err(Held::TooWeak);
    }
    if sabotage!(
        "one-thread-corroborates-itself",
        evidence.threads() < THREADS_MIN,
        false
    ) && evidence.trust() != Trust::Operator
    {
        return Err(Held::OneThread);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evidence(list: &[(Trust, &str)]) -> Evidence {
        list.iter()
            .fold(Evidence::default(), |all, (trust, thread)| {
                all.union(&Evidence::of(*trust, thread, "x"))
            })
    }

    #[test]
    fn each_gate_holds_on_its_own() {
        for (list, is_current, threshold, expected) in [
            (&[(Trust::Operator, "a")][..], true, 4, Ok(())),
            (&[(Trust::Operator, "a")], false, 4, Err(Held::NotCurrent)),
            (&[(Trust::Operator, "a")], true, 5, Err(Held::TooWeak)),
            (&[(Trust::Tool, "a"), (Trust::Tool, "b")], true, 4, Ok(())),
            (
                &[(Trust::Tool, "a"), (Trust::Model, "b")],
                true,
                4,
                Err(Held::TooWeak),
            ),
            (
                &[(Trust::Action, "a"), (Trust::Model, "a")],
                true,
                4,
                Err(Held::OneThread),
            ),
            (
                &[(Trust::Action, "a"), (Trust::Model, "b")],
                true,
                4,
                Ok(()),
            ),
            (
                &[
                    (Trust::Model, "a"),
                    (Trust::Model, "b"),
                    (Trust::Model, "c"),
                ],
                true,
                4,
                Err(Held::TooWeak),
            ),
            (
                &[(Trust::Untrusted, "a"), (Trust::Untrusted, "b")],
                true,
                4,
                Err(Held::Untrusted),
            ),
            (&[], true, 4, Err(Held::TooWeak)),
            (
                &[(Trust::Model, "a"), (Trust::Model, "b")],
                true,
                0,
                Err(Held::TooWeak),
            ),
        ] {
            assert_eq!(
                promotes(&evidence(list), is_current, threshold),
                expected,
                "{list:?} {is_current} {threshold}"
            );
        }
    }

    #[test]
    fn names_are_distinct() {
        let names = [
            Held::Untrusted,
            Held::NotCurrent,
            Held::TooWeak,
            Held::OneThread,
        ]
        .map(Held::as_str);
        assert_eq!(
            names
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            4
        );
    }

    proptest! {
        #![proptest_config(crate::test_cases::config(64, 256))]

        #[test]
        fn inv_62_untrusted_sources_alone_never_promote(threads in prop::collection::vec(0..100u8, 1..60), threshold in 0..9u32) {
            let list: Vec<String> = threads.iter().map(u8::to_string).collect();
            let list: Vec<(Trust, &str)> = list.iter().map(|thread| (Trust::Untrusted, thread.as_str())).collect();
            prop_assert_eq!(promotes(&evidence(&list), true, threshold), Err(Held::Untrusted));
        }

        #[test]
        fn more_evidence_never_holds_a_claim_back(
            list in prop::collection::vec((0..5usize, 0..6u8), 0..12), more in prop::collection::vec((0..5usize, 0..6u8), 0..12)
        ) {
            let read = |list: &[(usize, u8)]| list.iter().fold(Evidence::default(), |all, (trust, thread)| {
                all.union(&Evidence::of(Trust::ALL[*trust], &thread.to_string(), "x"))
            });
            let some = read(&list);
            let all = read(&list).union(&read(&more));
            prop_assert!(promotes(&some, true, 4).is_err() || promotes(&all, true, 4).is_ok());
        }
    }
}
