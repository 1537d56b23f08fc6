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
pub enum PromotionBlock {
    /// No source is trusted, and untrusted sources never suffice in any number.
    Untrusted,
    /// The claim is no longer true.
    NotCurrent,
    /// The weight of its sources is too small.
    TooWeak,
    /// All sources are in one thread.
    OneThread,
}

impl PromotionBlock {
    /// The stable name of the reason, in snake case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PromotionBlock::Untrusted => "untrusted",
            PromotionBlock::NotCurrent => "not_current",
            PromotionBlock::TooWeak => "too_weak",
            PromotionBlock::OneThread => "one_thread",
        }
    }
}

/// Checks whether a claim may outlast its session. A `threshold` below [`UNITS_MIN`] counts as
/// that.
pub fn check_promotion(
    evidence: &Evidence,
    is_current: bool,
    threshold: u32,
) -> Result<(), PromotionBlock> {
    if sabotage!(
        "untrusted-claims-are-promoted",
        evidence.is_untrusted() && !evidence.is_empty(),
        false
    ) {
        return Err(PromotionBlock::Untrusted);
    }
    if !is_current {
        return Err(PromotionBlock::NotCurrent);
    }
    if evidence.units()
        < sabotage!(
            "a-memory-asks-for-less-evidence",
            threshold.max(UNITS_MIN),
            threshold
        )
    {
        return Err(PromotionBlock::TooWeak);
    }
    if sabotage!(
        "one-thread-corroborates-itself",
        evidence.threads() < THREADS_MIN,
        false
    ) && evidence.trust() != Trust::Operator
    {
        return Err(PromotionBlock::OneThread);
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
    fn each_promotion_gate_blocks_on_its_own() {
        for (list, is_current, threshold, expected) in [
            (&[(Trust::Operator, "a")][..], true, 4, Ok(())),
            (
                &[(Trust::Operator, "a")],
                false,
                4,
                Err(PromotionBlock::NotCurrent),
            ),
            (
                &[(Trust::Operator, "a")],
                true,
                5,
                Err(PromotionBlock::TooWeak),
            ),
            (&[(Trust::Tool, "a"), (Trust::Tool, "b")], true, 4, Ok(())),
            (
                &[(Trust::Tool, "a"), (Trust::Model, "b")],
                true,
                4,
                Err(PromotionBlock::TooWeak),
            ),
            (
                &[(Trust::Action, "a"), (Trust::Model, "a")],
                true,
                4,
                Err(PromotionBlock::OneThread),
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
                Err(PromotionBlock::TooWeak),
            ),
            (
                &[(Trust::Untrusted, "a"), (Trust::Untrusted, "b")],
                true,
                4,
                Err(PromotionBlock::Untrusted),
            ),
            (&[], true, 4, Err(PromotionBlock::TooWeak)),
            (
                &[(Trust::Model, "a"), (Trust::Model, "b")],
                true,
                0,
                Err(PromotionBlock::TooWeak),
            ),
        ] {
            assert_eq!(
                check_promotion(&evidence(list), is_current, threshold),
                expected,
                "{list:?} {is_current} {threshold}"
            );
        }
    }

    #[test]
    fn promotion_block_names_are_distinct() {
        let names = [
            PromotionBlock::Untrusted,
            PromotionBlock::NotCurrent,
            PromotionBlock::TooWeak,
            PromotionBlock::OneThread,
        ]
        .map(PromotionBlock::as_str);
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
        fn inv_62_untrusted_evidence_alone_never_promotes(threads in prop::collection::vec(0..100u8, 1..60), threshold in 0..9u32) {
            let list: Vec<String> = threads.iter().map(u8::to_string).collect();
            let list: Vec<(Trust, &str)> = list.iter().map(|thread| (Trust::Untrusted, thread.as_str())).collect();
            prop_assert_eq!(check_promotion(&evidence(&list), true, threshold), Err(PromotionBlock::Untrusted));
        }

        #[test]
        fn more_evidence_never_blocks_a_promotion(
            list in prop::collection::vec((0..5usize, 0..6u8), 0..12), more in prop::collection::vec((0..5usize, 0..6u8), 0..12)
        ) {
            let read = |list: &[(usize, u8)]| list.iter().fold(Evidence::default(), |all, (trust, thread)| {
                all.union(&Evidence::of(Trust::ALL[*trust], &thread.to_string(), "x"))
            });
            let some = read(&list);
            let all = read(&list).union(&read(&more));
            prop_assert!(check_promotion(&some, true, 4).is_err() || check_promotion(&all, true, 4).is_ok());
        }
    }
}
