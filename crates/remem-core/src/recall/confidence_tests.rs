//! The logistic table against the function, and the effect of each signal on the probability.

use super::*;
use crate::entry::{Entry, Facets, RevisionRange, Tier, Typology};
use crate::ids::{EntryId, MemoryRef, Revision, Timestamp};
use crate::recall::rank::rank_candidates;
use proptest::prelude::*;

fn signals(lexical: i64, cosine: Option<i64>, margin: i64) -> Signals {
    Signals {
        lexical,
        cosine,
        margin,
        size: 0,
        hits: 10,
    }
}

#[test]
fn signals_are_absolute_not_relative_to_the_best_hit() {
    let entry = |n: i64| Entry {
        id: EntryId::parse(&format!("e{n:02}")).unwrap(),
        memory_ref: MemoryRef::parse("m").unwrap(),
        content: String::new(),
        tags: vec![],
        metadata: None,
        created_at: Timestamp(n),
        expires_at: None,
        tier: Tier::Persistent,
        typology: Typology::Semantic,
        facets: Facets::default(),
        visible: RevisionRange {
            from: Revision(1),
            to: None,
        },
        redaction_fingerprint: 0,
    };
    let entries: Vec<Entry> = (0..12).map(entry).collect();
    let found = |count: usize, lexical: f64, cosine: Option<f64>| {
        let all = entries.iter().take(count).zip(0i32..);
        let all = all.map(|(entry, n)| RankCandidate {
            entry,
            lexical: lexical / f64::from(n + 1),
            cosine,
            typo: 0.25,
            support: 1,
            uses: 0,
        });
        let candidates: Vec<RankCandidate<'_>> = all.collect();
        let request = RankRequest {
            lexical_best_possible: 20.0,
            ..RankRequest::default()
        };
        Signals::of(
            &candidates,
            &rank_candidates(&candidates, &[], &request),
            &request,
        )
    };
    // The best hit of a list has the full score however weak it is; compared with the best possible
    // score, it has not.
    let weak = found(1, 2.0, None);
    assert_eq!(
        weak,
        Signals {
            lexical: 112_500,
            cosine: None,
            margin: 0,
            size: 100_000,
            hits: 1
        }
    );
    let strong = found(12, 18.0, Some(0.5));
    assert_eq!(
        (strong.lexical, strong.cosine, strong.hits),
        (912_500, Some(500_000), 12)
    );
    // Words: 0.55 for the best, of it (1.8 + 0.25) / 18.25 for the tenth. Meaning is the same for
    // both.
    assert!(
        (strong.margin - share_ppm(550_000 - 61_781, 550_000 + 450_000)).abs() < 10,
        "{strong:?}"
    );
    assert_eq!(found(0, 0.0, None), Signals::default());
}

#[test]
fn the_logistic_table_approximates_the_function() {
    for logit in -12_000i64..=12_000 {
        let exact = 1e6 / (1.0 + (-(logit as f64) / 1e3).exp());
        assert!((logistic(logit) as f64 - exact).abs() < 1_000.0, "{logit}");
    }
    assert_eq!(
        (
            logistic(0),
            logistic(-250),
            logistic(i64::MAX),
            logistic(-i64::MAX)
        ),
        (500_000, 437_823, 999_665, 335)
    );
}

#[test]
fn no_hits_means_not_relevant() {
    let nothing = Signals {
        hits: 0,
        ..signals(PPM, Some(PPM), PPM)
    };
    let eager = Calibration {
        threshold_ppm: 0,
        ..Calibration::default()
    };
    assert_eq!(
        relevance_verdict(&nothing, &eager),
        RelevanceVerdict {
            probability_ppm: 0,
            is_relevant: false
        }
    );
}

#[test]
fn strong_hits_are_relevant_and_weak_ones_are_not() {
    let judge = |signals: Signals| relevance_verdict(&signals, &Calibration::default()).is_relevant;
    assert!(
        judge(signals(800_000, Some(700_000), 500_000)) && judge(signals(800_000, None, 500_000))
    );
    assert!(
        !judge(signals(50_000, Some(150_000), 100_000)) && !judge(signals(50_000, None, 100_000))
    );
    let probability = confidence(&signals(300_000, Some(400_000), 0), &Calibration::default());
    for (threshold_ppm, relevant) in [(probability, true), (probability + 1, false)] {
        assert_eq!(
            relevance_verdict(
                &signals(300_000, Some(400_000), 0),
                &Calibration {
                    threshold_ppm,
                    ..Calibration::default()
                }
            )
            .is_relevant,
            relevant
        );
    }
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn confidence_is_monotonic_in_each_signal(a in 0..=PPM, b in 0..=PPM, cosine in prop::option::of(0..=PPM), margin in 0..=PPM) {
        let of = |lexical, cosine| confidence(&signals(lexical, cosine, margin), &Calibration::default());
        prop_assert!(of(a.min(b), cosine) <= of(a.max(b), cosine));
        prop_assert!(of(a, Some(a.min(b))) <= of(a, Some(a.max(b))));
        prop_assert!((0..=PPM).contains(&of(a, cosine)));
    }
}
