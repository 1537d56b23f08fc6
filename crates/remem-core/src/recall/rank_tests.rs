//! Orders, neighbour bonuses and caps by example; sums, independence of the input's order and
//! monotony as properties.

use super::*;
use crate::entry::{Facets, RevisionRange};
use crate::ids::{InteractionId, MemoryRef, Revision, SessionId};
use proptest::prelude::*;
use serde_json::json;

const MINUTE_MS: i64 = 60_000;
const NOW: Timestamp = Timestamp(1_000 * HOUR_MS);

fn entry(id: &str, minutes: i64, session: &str) -> Entry {
    Entry {
        id: EntryId::parse(id).unwrap(),
        memory_ref: MemoryRef::parse("m").unwrap(),
        content: String::new(),
        tags: vec![],
        metadata: None,
        created_at: Timestamp(NOW.0 + minutes * MINUTE_MS),
        expires_at: None,
        tier: Tier::Persistent,
        typology: Typology::Semantic,
        facets: Facets {
            session: SessionId::parse(session),
            ..Facets::default()
        },
        visible: RevisionRange {
            from: Revision(1),
            to: None,
        },
        redaction_fingerprint: 0,
    }
}

fn found(entry: &Entry, lexical: f64, cosine: Option<f64>) -> RankCandidate<'_> {
    RankCandidate {
        entry,
        lexical,
        cosine,
        typo: 0.0,
        support: 1,
        uses: 0,
    }
}

fn bare() -> RankRequest {
    let weights = Weights {
        recency: 0,
        tier: 0,
        corroboration: 0,
        usage: 0,
        ..Weights::default()
    };
    RankRequest {
        now: NOW,
        weights,
        ..RankRequest::default()
    }
}

fn scores(hits: &[Ranked<'_>]) -> Vec<(String, i64)> {
    hits.iter()
        .map(|hit| (hit.entry.id.to_string(), hit.score))
        .collect()
}

fn expected_scores(rows: &[(&str, i64)]) -> Vec<(String, i64)> {
    rows.iter()
        .map(|(id, score)| ((*id).to_owned(), *score))
        .collect()
}

#[test]
fn lexical_and_vector_scores_are_fused() {
    let a = entry("a", 0, "");
    let b = entry("b", 1, "");
    let c = entry("c", 2, "");
    let with = [
        found(&a, 8.0, Some(0.2)),
        found(&b, 4.0, Some(0.8)),
        found(&c, 0.0, Some(-0.5)),
    ];
    // 0.55 * 8/8 + 0.45 * 0.2/0.8; 0.55 * 4/8 + 0.45; nothing.
    assert_eq!(
        scores(&rank_candidates(&with, &[], &bare())),
        expected_scores(&[("b", 725_000), ("a", 662_500), ("c", 0)])
    );
    let without = [found(&a, 8.0, None), found(&b, 4.0, None)];
    assert_eq!(
        scores(&rank_candidates(&without, &[], &bare())),
        expected_scores(&[("a", 1_000_000), ("b", 500_000)])
    );
    // Spelling corrections are on the same scale: 6/8 and 2/8 of 8; 4/8.
    let misspelt = [
        RankCandidate {
            typo: 2.0,
            ..found(&a, 6.0, None)
        },
        RankCandidate {
            typo: 4.0,
            ..found(&b, 0.0, None)
        },
    ];
    let parts: Vec<ScorePartsPpm> = rank_candidates(&misspelt, &[], &bare())
        .iter()
        .map(|hit| hit.parts)
        .collect();
    assert_eq!(
        parts[0],
        ScorePartsPpm {
            lexical: 750_000,
            typo: 250_000,
            ..ScorePartsPpm::default()
        }
    );
    assert_eq!(
        parts[1],
        ScorePartsPpm {
            typo: 500_000,
            ..ScorePartsPpm::default()
        }
    );
    for odd in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let hits = rank_candidates(
            &[found(&a, odd, Some(odd)), found(&b, 1.0, Some(odd))],
            &[],
            &bare(),
        );
        assert!(
            hits.iter().all(|hit| (0..=PPM).contains(&hit.score)),
            "{odd}"
        );
    }
}

#[test]
fn ties_are_broken_by_newest_then_greatest_id() {
    let a = entry("a", 5, "");
    let b = entry("b", 0, "");
    let c = entry("c", 0, "");
    let hits = rank_candidates(
        &[
            found(&b, 1.0, None),
            found(&a, 1.0, None),
            found(&c, 1.0, None),
        ],
        &[],
        &bare(),
    );
    assert_eq!(
        hits.iter()
            .map(|hit| hit.entry.id.as_str())
            .collect::<Vec<_>>(),
        ["a", "c", "b"]
    );
}

#[test]
fn neighbours_of_a_candidate_are_lifted_in_both_directions() {
    let a = entry("a", 0, "s");
    let b = entry("b", 30, "s");
    let c = entry("c", 31, "s");
    let one = Neighbour {
        candidate_id: &a.id,
        entry: &b,
    };
    let other = Neighbour {
        candidate_id: &b.id,
        entry: &c,
    };
    let candidates = [found(&a, 10.0, None), found(&b, 5.0, None)];
    // b gets 0.4 of a, a gets 0.4 of b, c is beside b alone.
    let expected = expected_scores(&[("a", 1_200_000), ("b", 900_000), ("c", 200_000)]);
    assert_eq!(
        scores(&rank_candidates(&candidates, &[one, other], &bare())),
        expected
    );
    let turned = Neighbour {
        candidate_id: &b.id,
        entry: &a,
    };
    assert_eq!(
        scores(&rank_candidates(&candidates, &[other, turned], &bare())),
        expected,
        "a pair is a pair from either end"
    );
    let twice = [
        one,
        other,
        turned,
        Neighbour {
            candidate_id: &a.id,
            entry: &c,
        },
        Neighbour {
            candidate_id: &a.id,
            entry: &a,
        },
    ];
    assert_eq!(
        scores(&rank_candidates(&candidates, &twice, &bare())),
        expected,
        "31 minutes are too long, and nothing stands beside itself"
    );
    let unknown = EntryId::parse("z").unwrap();
    assert_eq!(
        rank_candidates(
            &candidates,
            &[Neighbour {
                candidate_id: &unknown,
                entry: &c
            }],
            &bare()
        )
        .len(),
        2
    );
}

#[test]
fn lifting_does_not_cross_sessions_or_threads() {
    let a = entry("a", 0, "s");
    let mut thread = entry("t", 1, "s");
    thread.facets.interaction = InteractionId::parse("thread");
    for other in [entry("b", 1, "other"), entry("b", 1, ""), thread] {
        for pair in [
            Neighbour {
                candidate_id: &a.id,
                entry: &other,
            },
            Neighbour {
                candidate_id: &other.id,
                entry: &a,
            },
        ] {
            assert_eq!(
                scores(&rank_candidates(&[found(&a, 1.0, None)], &[pair], &bare())),
                expected_scores(&[("a", 1_000_000)])
            );
            let both = rank_candidates(
                &[found(&a, 1.0, None), found(&other, 1.0, None)],
                &[pair],
                &bare(),
            );
            assert!(both.iter().all(|hit| hit.parts.context == 0));
        }
    }
}

#[test]
fn only_top_candidates_lift_and_lift_survives_a_rank_change() {
    let entries: Vec<Entry> = (0..34i32)
        .map(|n| entry(&format!("e{n:02}"), i64::from(n), "s"))
        .collect();
    let last = LIFTING_CANDIDATES_MAX - 1;
    let next = LIFTING_CANDIDATES_MAX;
    let late = entry("n", 62, "s");
    let lift_of = |candidates: &[RankCandidate<'_>], pair: Neighbour<'_>, id: &str| {
        let hits = rank_candidates(candidates, &[pair], &bare());
        hits.iter()
            .find(|hit| hit.entry.id.as_str() == id)
            .map(|hit| hit.parts.context)
    };
    let ranked: Vec<RankCandidate<'_>> = entries
        .iter()
        .zip(0i32..)
        .map(|(entry, n)| found(entry, f64::from(100 - n), None))
        .collect();
    assert_eq!(
        lift_of(
            &ranked,
            Neighbour {
                candidate_id: &entries[last].id,
                entry: &late
            },
            "n"
        ),
        None,
        "31 minutes later"
    );
    let near = entry("n", 32, "s");
    assert_eq!(
        lift_of(
            &ranked,
            Neighbour {
                candidate_id: &entries[last].id,
                entry: &near
            },
            "n"
        ),
        Some(276_000),
        "the last that lifts"
    );
    assert_eq!(
        lift_of(
            &ranked,
            Neighbour {
                candidate_id: &entries[next].id,
                entry: &near
            },
            "n"
        ),
        None,
        "the next"
    );
    let pair = Neighbour {
        candidate_id: &entries[last].id,
        entry: &entries[next],
    };
    assert_eq!(lift_of(&ranked, pair, "e32"), Some(276_000));
    let mut ahead = ranked.clone();
    ahead[next].lexical = 69.5;
    assert_eq!(
        lift_of(&ahead, pair, "e32"),
        Some(276_000),
        "the last of all others, still"
    );
}

#[test]
fn bonuses_are_capped_for_any_weights() {
    let request = RankRequest {
        now: NOW,
        ..RankRequest::default()
    };
    let with = |entry: &Entry, support: u64, uses: u64| {
        rank_candidates(
            &[RankCandidate {
                support,
                uses,
                ..found(entry, 1.0, None)
            }],
            &[],
            &request,
        )[0]
        .parts
    };
    let of = |entry: &Entry, support: u64| with(entry, support, 0);
    let fresh = entry("a", 0, "");
    let all = ScorePartsPpm {
        lexical: PPM,
        recency: 15_000,
        tier: 15_000,
        corroboration: 15_000,
        usage: 15_000,
        ..ScorePartsPpm::default()
    };
    assert_eq!(with(&fresh, u64::MAX, u64::MAX), all);
    assert_eq!(
        [1, 2, 3, 4, 32].map(|n| of(&fresh, n).corroboration),
        [0, 3_000, 3_000, 6_000, 15_000]
    );
    assert_eq!(
        [0, 1, 2, 3, 31].map(|n| with(&fresh, 1, n).usage),
        [0, 3_000, 3_000, 6_000, 15_000]
    );
    assert_eq!(
        [Tier::Session, Tier::Interaction].map(|tier| of(
            &Entry {
                tier,
                ..fresh.clone()
            },
            1
        )
        .tier),
        [7_500, 0]
    );
    let episode = |hours: i64| Entry {
        typology: Typology::Episodic,
        ..entry("a", -hours * 60, "")
    };
    assert_eq!(
        [-5, 0, 1, 139, 3_000].map(|hours| of(&episode(hours), 1).recency),
        [15_000, 15_000, 14_925, 7_473, 0]
    );
    assert_eq!(
        of(
            &Entry {
                typology: Typology::Procedural,
                ..episode(3_000)
            },
            1
        )
        .recency,
        15_000
    );
    let greedy = Weights {
        recency: PPM,
        tier: PPM,
        corroboration: PPM,
        usage: PPM,
        ..Weights::default()
    };
    let hit = rank_candidates(
        &[RankCandidate {
            support: 99,
            uses: 99,
            ..found(&fresh, 1.0, None)
        }],
        &[],
        &RankRequest {
            weights: greedy,
            ..request.clone()
        },
    )[0];
    assert_eq!(hit.score, PPM + BONUSES_MAX, "no weights make more of them");
}

#[test]
fn a_requested_time_range_replaces_recency() {
    let when = Some(Timestamp(NOW.0 - 10 * HOUR_MS)..Timestamp(NOW.0 - 5 * HOUR_MS));
    let request = RankRequest {
        now: NOW,
        time_range: when,
        ..RankRequest::default()
    };
    let of = |entry: &Entry| {
        rank_candidates(&[found(entry, 1.0, None)], &[], &request)[0]
            .parts
            .recency
    };
    assert_eq!(
        [-7, -10, -11, -4].map(|hours| of(&entry("a", hours * 60, ""))),
        [15_000, 15_000, 14_925, 14_925]
    );
    let mut late = entry("a", 0, "");
    late.facets.valid_at = Some(Timestamp(NOW.0 - 7 * HOUR_MS));
    assert_eq!(of(&late), 15_000, "written later, true then");
}

#[test]
fn hits_per_source_are_capped() {
    let mut entries: Vec<Entry> = (0..4).map(|n| entry(&format!("s{n}"), n, "s")).collect();
    entries.extend((0..3).map(|n| entry(&format!("n{n}"), n, "")));
    let mut named: Vec<Entry> = (0..3)
        .map(|n| entry(&format!("m{n}"), n, if n == 0 { "s" } else { "t" }))
        .collect();
    for one in &mut named {
        // Named like the session, and still another source.
        one.metadata = json!({"source": "s"}).as_object().cloned();
    }
    entries.extend(named);
    let candidates: Vec<RankCandidate<'_>> = entries
        .iter()
        .map(|entry| found(entry, 1.0, None))
        .collect();
    let ids = |per_source| {
        let hits = rank_candidates(
            &candidates,
            &[],
            &RankRequest {
                per_source,
                ..bare()
            },
        );
        let mut ids: Vec<String> = hits.iter().map(|hit| hit.entry.id.to_string()).collect();
        ids.sort();
        ids.join(" ")
    };
    assert_eq!(ids(Some(2)), "m1 m2 n0 n1 n2 s2 s3");
    assert_eq!(ids(Some(1)), "m2 n0 n1 n2 s3");
    assert_eq!(ids(None).split(' ').count(), 10);
}

#[derive(Clone, Debug)]
struct RankRow {
    minutes: i64,
    session: u8,
    tier: usize,
    typology: usize,
    lexical: f64,
    cosine: Option<f64>,
    typo: f64,
    support: u64,
    uses: u64,
    found: bool,
}

fn any_rows() -> impl Strategy<Value = Vec<RankRow>> {
    let signals = (
        0.0..20.0f64,
        prop::option::of(-1.0..1.0f64),
        0.0..9.0f64,
        (0u64..40, 0u64..40),
        any::<bool>(),
    );
    let one = (-90i64..0, 0u8..2, 0usize..3, 0usize..3, signals);
    prop::collection::vec(one, 1..90).prop_map(|rows| {
        let row = |(
            minutes,
            session,
            tier,
            typology,
            (lexical, cosine, typo, (support, uses), found),
        )| RankRow {
            minutes,
            session,
            tier,
            typology,
            lexical,
            cosine,
            typo,
            support,
            uses,
            found,
        };
        rows.into_iter().map(row).collect()
    })
}

fn entries_of(rows: &[RankRow]) -> Vec<Entry> {
    let made = rows.iter().enumerate().map(|(n, row)| Entry {
        tier: Tier::ALL[row.tier],
        typology: Typology::ALL[row.typology],
        ..entry(
            &format!("e{n}"),
            row.minutes,
            ["s", "t"][usize::from(row.session)],
        )
    });
    made.collect()
}

fn candidates_of<'a>(rows: &[RankRow], entries: &'a [Entry]) -> Vec<RankCandidate<'a>> {
    let all = rows.iter().zip(entries).filter(|(row, _)| row.found);
    let made = all.map(|(row, entry)| {
        let RankRow {
            lexical,
            cosine,
            typo,
            support,
            uses,
            ..
        } = *row;
        RankCandidate {
            entry,
            lexical,
            cosine,
            typo,
            support,
            uses,
        }
    });
    made.collect()
}

fn pairs_of(entries: &[Entry]) -> Vec<Neighbour<'_>> {
    entries
        .windows(2)
        .map(|pair| Neighbour {
            candidate_id: &pair[0].id,
            entry: &pair[1],
        })
        .collect()
}

fn asked(per_source: Option<u32>) -> RankRequest {
    RankRequest {
        now: NOW,
        per_source,
        ..RankRequest::default()
    }
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn parts_sum_to_the_score_and_bonuses_stay_small(rows in any_rows()) {
        let entries = entries_of(&rows);
        let candidates = candidates_of(&rows, &entries);
        let words = |one: &RankCandidate<'_>| one.lexical + one.typo;
        let most = candidates.iter().map(words).fold(0.0, f64::max);
        let near = candidates.iter().filter_map(|one| one.cosine).fold(0.0, f64::max);
        for hit in rank_candidates(&candidates, &pairs_of(&entries), &asked(None)) {
            let ScorePartsPpm { lexical, meaning, typo, context, recency, tier, corroboration, usage } = hit.parts;
            let all = [lexical, meaning, typo, context, recency, tier, corroboration, usage];
            prop_assert!(all.iter().all(|part| *part >= 0));
            prop_assert_eq!(all.iter().sum::<i64>(), hit.score);
            prop_assert!((recency + tier + corroboration + usage) * 100 <= hit.score * 6);
            // The formula in floats says the same, up to rounding.
            let Some(one) = candidates.iter().find(|one| one.entry.id == hit.entry.id) else { continue };
            let w = if candidates.iter().any(|one| one.cosine.is_some()) { 0.45 } else { 0.0 };
            let cosine = if near > 0.0 { one.cosine.unwrap_or(0.0).max(0.0) / near } else { 0.0 };
            let fused = (1.0 - w) * words(one) / most.max(1e-9) + w * cosine;
            // A tiny best makes the rounding of its parts large.
            if most > 0.01 && (near > 0.01 || near <= 0.0) {
                let sum = lexical + typo + meaning;
                prop_assert!((sum as f64 / 1e6 - fused).abs() < 2e-4, "{} {}", sum, fused);
            }
        }
    }

    #[test]
    fn ranking_does_not_depend_on_input_order(rows in any_rows(), turn in 0usize..90, cap in prop::option::of(1u32..5)) {
        let entries = entries_of(&rows);
        let mut candidates = candidates_of(&rows, &entries);
        let mut pairs = pairs_of(&entries);
        pairs.extend(entries.windows(2).map(|pair| Neighbour { candidate_id: &pair[1].id, entry: &pair[0] }));
        let before = rank_candidates(&candidates, &pairs, &asked(cap));
        let ordered = |a: &Ranked<'_>, b: &Ranked<'_>| (a.score, a.entry.created_at, &a.entry.id) > (b.score, b.entry.created_at, &b.entry.id);
        prop_assert!(before.windows(2).all(|pair| ordered(&pair[0], &pair[1])), "a total order");
        let c = candidates.len().max(1);
        let p = pairs.len().max(1);
        candidates.reverse();
        candidates.rotate_left(turn % c);
        pairs.rotate_left(turn % p);
        pairs.reverse();
        // A pair is known from the candidate alone; and given twice it is no more.
        let found = |pair: &Neighbour<'_>| candidates.iter().any(|one| one.entry.id == *pair.candidate_id);
        let repeated: Vec<Neighbour<'_>> = pairs.iter().filter(|pair| found(pair)).flat_map(|pair| [*pair, *pair]).collect();
        prop_assert_eq!(&rank_candidates(&candidates, &repeated, &asked(cap)), &before);
    }

    #[test]
    fn the_score_is_monotonic_in_each_signal(rows in any_rows(), at in 0usize..90, more in 0.0..1.0f64) {
        let entries = entries_of(&rows);
        let candidates = candidates_of(&rows, &entries);
        if candidates.is_empty() {
            return Ok(());
        }
        let at = at % candidates.len();
        let score = |candidates: &[RankCandidate<'_>]| {
            let hits = rank_candidates(candidates, &pairs_of(&entries), &asked(None));
            hits.iter().find(|hit| hit.entry.id == candidates[at].entry.id).map(|hit| hit.score).unwrap()
        };
        let before = score(&candidates);
        let words = |one: &RankCandidate<'_>| one.lexical + one.typo;
        let room = candidates.iter().map(words).fold(0.0, f64::max) - words(&candidates[at]);
        let mut lexical = candidates.clone();
        lexical[at].lexical += room * more;
        prop_assert!(score(&lexical) >= before);
        let mut meant = candidates.clone();
        meant[at].typo += room * more;
        prop_assert!(score(&meant) >= before);
        let near = candidates.iter().filter_map(|one| one.cosine).fold(-1.0, f64::max);
        let mut meaning = candidates.clone();
        if let Some(cosine) = &mut meaning[at].cosine {
            *cosine += (near - *cosine) * more;
        }
        prop_assert!(score(&meaning) >= before);
    }
}
