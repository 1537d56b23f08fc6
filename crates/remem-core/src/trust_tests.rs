//! Evidence as a set: additions that count, additions that do not, and the bounds of untrusted
//! sources.

use super::*;
use proptest::prelude::*;

fn sources(list: &[(Trust, u8, u8)]) -> Evidence {
    let one = |&(trust, thread, origin): &(Trust, u8, u8)| {
        Evidence::of(trust, &format!("t{thread}"), &format!("o{origin}"))
    };
    list.iter()
        .map(one)
        .fold(Evidence::default(), |all, one| all.union(&one))
}

fn any_trust() -> impl Strategy<Value = Trust> {
    (0..Trust::ALL.len()).prop_map(|at| Trust::ALL[at])
}

fn any_sources(most: usize) -> impl Strategy<Value = Vec<(Trust, u8, u8)>> {
    prop::collection::vec((any_trust(), 0..12u8, 0..4u8), 0..most)
}

#[test]
fn trust_levels_are_ordered_and_names_round_trip() {
    assert!(Trust::ALL.is_sorted() && Trust::ALL.windows(2).all(|pair| pair[0] != pair[1]));
    for trust in Trust::ALL {
        assert_eq!(trust.as_str().parse(), Ok(trust));
    }
    assert_eq!("nobody".parse::<Trust>(), Err(UnknownName));
    assert_eq!(Trust::default(), Trust::Model);
    assert_eq!(Trust::Operator.weaker(Trust::Untrusted), Trust::Untrusted);
    assert_eq!(Trust::Tool.weaker(Trust::Action), Trust::Tool);
    assert_eq!(
        Trust::ALL
            .map(Trust::letter)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len(),
        5
    );
}

#[test]
fn evidence_units_follow_the_table() {
    for (list, units, threads) in [
        (&[][..], 0, 0),
        (&[(Trust::Operator, 1, 1)], 4, 1),
        (&[(Trust::Action, 1, 1)], 3, 1),
        (&[(Trust::Tool, 1, 1)], 2, 1),
        (&[(Trust::Model, 1, 1)], 1, 1),
        (&[(Trust::Untrusted, 1, 1)], 1, 1),
        (
            &[
                (Trust::Untrusted, 1, 1),
                (Trust::Untrusted, 2, 1),
                (Trust::Untrusted, 3, 1),
            ],
            2,
            3,
        ),
        (&[(Trust::Tool, 1, 1), (Trust::Tool, 2, 1)], 4, 2),
        (&[(Trust::Tool, 1, 1), (Trust::Model, 1, 1)], 3, 1),
    ] {
        assert_eq!(
            (sources(list).units(), sources(list).threads()),
            (units, threads),
            "{list:?}"
        );
    }
}

#[test]
fn inv_63_one_source_kind_per_thread_counts_once() {
    let once = sources(&[(Trust::Tool, 1, 1)]);
    let many = sources(&[
        (Trust::Tool, 1, 1),
        (Trust::Tool, 1, 2),
        (Trust::Tool, 1, 3),
    ]);
    assert_eq!(
        (many.units(), many.threads(), many.len()),
        (once.units(), once.threads(), once.len())
    );
}

#[test]
fn a_claim_has_the_trust_of_its_best_source() {
    assert_eq!(
        sources(&[(Trust::Untrusted, 1, 1), (Trust::Tool, 2, 1)]).trust(),
        Trust::Tool
    );
    assert!(sources(&[(Trust::Untrusted, 1, 1), (Trust::Untrusted, 2, 1)]).is_untrusted());
    assert!(!sources(&[(Trust::Untrusted, 1, 1), (Trust::Model, 2, 1)]).is_untrusted());
    assert!(
        Evidence::default().is_untrusted(),
        "what rests on nothing is not to be believed"
    );
}

#[test]
fn the_stored_form_of_evidence_is_stable() {
    // What was stored must be read as the same source by every later version.
    assert_eq!(
        Evidence::of(Trust::Operator, "thread", "operator").to_text(),
        "o:81394223eac657eb.b2e3b292c91d757a"
    );
    assert_ne!(digest("thread", "x"), digest("origin", "x"));
}

#[test]
fn malformed_evidence_is_rejected() {
    let a = "o:0000000000000001.0000000000000002";
    let b = "t:0000000000000001.0000000000000002";
    let c = "t:0000000000000001.0000000000000003";
    let d = "T:0000000000000001.0000000000000003";
    let long = (0..33)
        .map(|n| format!("m:{n:016x}.{n:016x}"))
        .collect::<Vec<_>>()
        .join(",");
    for bad in [
        format!("{b},{a}"),
        format!("{a},{a}"),
        format!("{b},{c}"),
        d.to_owned(),
        format!("{a},"),
        a[..30].to_owned(),
        a.replace('1', "A"),
        a.replace('1', "+"),
        a.replace('o', "x"),
        "remember the milk".to_owned(),
        long,
    ] {
        assert_eq!(Evidence::from_text(&bad), None, "{bad}");
    }
    assert!(Evidence::from_text(&format!("{a},{b}")).is_some());
    assert_eq!(Evidence::from_text(""), Some(Evidence::default()));
}

#[test]
fn evidence_keeps_no_readable_source_text() {
    let evidence = Evidence::of(
        Trust::Tool,
        "quarterly numbers",
        "https://example.com/salaries",
    );
    for shown in [evidence.to_text(), format!("{evidence:?}")] {
        assert!(
            !shown.contains("quarter") && !shown.contains("example"),
            "{shown}"
        );
    }
}

#[test]
fn the_strongest_sources_are_kept_at_the_limit() {
    let models: Vec<(Trust, u8, u8)> = (0..60).map(|n| (Trust::Model, n, 0)).collect();
    let strong = sources(&[(Trust::Operator, 200, 0), (Trust::Tool, 201, 0)]);
    let all = sources(&models).union(&strong);
    assert_eq!(all.len(), Evidence::SOURCES_MAX);
    assert_eq!(all.units(), 4 + 2 + 30);
    assert_eq!(all, strong.union(&sources(&models)));
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn union_is_commutative_associative_and_idempotent(a in any_sources(30), b in any_sources(30), c in any_sources(30)) {
        let a = sources(&a);
        let b = sources(&b);
        let c = sources(&c);
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.union(&Evidence::default()), a);
    }

    #[test]
    fn inv_63_repeated_sources_add_no_units(list in any_sources(30), again in any_sources(30)) {
        let evidence = sources(&list);
        let repeated = again.iter().filter(|(trust, thread, _)| list.iter().any(|(t, h, _)| (t, h) == (trust, thread)));
        let grown = repeated.fold(evidence.clone(), |all, one| all.union(&sources(&[*one])));
        prop_assert_eq!(grown.units(), evidence.units());
        prop_assert_eq!(grown.threads(), evidence.threads());
    }

    #[test]
    fn inv_62_untrusted_sources_have_at_most_two_units(list in prop::collection::vec((0..200u8, 0..9u8), 0..80)) {
        let list: Vec<(Trust, u8, u8)> = list.into_iter().map(|(thread, origin)| (Trust::Untrusted, thread, origin)).collect();
        prop_assert!(sources(&list).units() <= 2);
    }

    #[test]
    fn evidence_round_trips_through_text(list in any_sources(80)) {
        let evidence = sources(&list);
        prop_assert!(evidence.len() <= Evidence::SOURCES_MAX);
        prop_assert_eq!(Evidence::from_text(&evidence.to_text()), Some(evidence));
    }
}
