//! Properties of whole plans: idempotence, no trap merged, equality with comparing all pairs, the
//! cap, and slots.

use super::corpus::{CorpusEntry, CorpusRandom, corpus, plan, plan_entry, survivors};
use super::plan::CANDIDATES_MAX;
use super::*;
use crate::ids::Timestamp;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

proptest! {
    #![proptest_config(crate::test_cases::config(24, 96))]

    #[test]
    fn planning_is_idempotent_and_independent_of_input_order(seed: u64, count in 2usize..120) {
        let mut entries = corpus(seed, count);
        let (decisions, _) = plan(&entries, |_| true);
        CorpusRandom(seed).shuffle(&mut entries);
        prop_assert_eq!(&plan(&entries, |_| true).0, &decisions);
        let left = survivors(&entries, &decisions);
        prop_assert_eq!(plan(&left, |_| true).0, vec![]);
        prop_assert_eq!(plan(&left, |_| false), (vec![], 0));
    }

    #[test]
    fn only_equal_facts_merge_and_only_equal_slots_supersede(seed: u64, count in 2usize..120) {
        let entries = corpus(seed, count);
        let by_row: HashMap<u64, &CorpusEntry> = entries.iter().map(|one| (one.row, one)).collect();
        for decision in plan(&entries, |_| true).0 {
            match decision {
                Decision::Merge { member, leader } => prop_assert_eq!(&by_row[&member].fact, &by_row[&leader].fact),
                Decision::Supersede { old, by } => {
                    let old = slot::parse_slot(&by_row[&old].item.text);
                    let by = slot::parse_slot(&by_row[&by].item.text);
                    prop_assert!(old.is_some() && old.as_ref().map(|s| &s.key) == by.as_ref().map(|s| &s.key) && old != by);
                }
            }
        }
    }

    #[test]
    fn after_incremental_passes_a_full_plan_decides_nothing(seed: u64, count in 2..CANDIDATES_MAX, slices in 1usize..6) {
        let mut arriving = corpus(seed, count);
        CorpusRandom(seed).shuffle(&mut arriving);
        let mut live: Vec<CorpusEntry> = Vec::new();
        for slice in arriving.chunks(count.div_ceil(slices)) {
            let fresh: HashSet<u64> = slice.iter().map(|one| one.row).collect();
            live.extend_from_slice(slice);
            let (decisions, _) = plan(&live, |one| fresh.contains(&one.row));
            live = survivors(&live, &decisions);
        }
        prop_assert_eq!(plan(&live, |_| true).0, vec![]);
    }
}

/// Leader clustering that compares every entry with every leader.
fn all_pairs(entries: &[CorpusEntry]) -> Vec<Decision> {
    let mut order: Vec<&CorpusEntry> = entries.iter().collect();
    order.sort_by_key(|one| {
        std::cmp::Reverse((one.created_at, plan_entry(one, true).order, one.row))
    });
    let mut leaders: Vec<&CorpusEntry> = Vec::new();
    let mut decisions = Vec::new();
    for one in order {
        let mut best: Option<(&CorpusEntry, (u64, u64))> = None;
        for leader in &leaders {
            if let Some(alike) = may_merge(&one.item, &leader.item)
                && best.is_none_or(|(_, best)| alike.0 * best.1 > best.0 * alike.1)
            {
                best = Some((leader, alike));
            }
        }
        match best {
            Some((leader, _)) => decisions.push(Decision::Merge {
                member: one.row,
                leader: leader.row,
            }),
            None => leaders.push(one),
        }
    }
    decisions
}

// Seeds are fixed: that two texts of similarity 0.85 share a bucket is likely (99.8 %), not
// certain.
#[test]
fn a_plan_equals_comparing_all_pairs() {
    let mut merges = 0;
    for seed in 0..6 {
        let entries: Vec<CorpusEntry> = corpus(seed, 100)
            .into_iter()
            .filter(|one| one.signature.slot == 0)
            .collect();
        let expected = all_pairs(&entries);
        merges += expected.len();
        assert_eq!(plan(&entries, |_| true).0, expected, "seed {seed}");
    }
    assert!(
        merges > 60,
        "only {merges} merges: the corpora show nothing"
    );
}

fn corpus_entry(row: u64, created_at: i64, item: MergeItem) -> CorpusEntry {
    CorpusEntry {
        row,
        created_at,
        fact: item.text.clone(),
        signature: Signature::of(&item),
        item,
    }
}

/// Entries of one text of which none can replace another, because each has a tag of its own.
fn crowd(count: u64) -> Vec<CorpusEntry> {
    let text = "The meter in the cellar of the old mill showed 12 units when the inspector from the water board came by";
    let item = |row: u64| MergeItem {
        tags: vec![format!("visit-{}", row - u64::from(row % 5 == 4))],
        ..MergeItem::plain(text)
    };
    let signature = Signature::of(&item(0));
    (0..count)
        .map(|row| CorpusEntry {
            row,
            created_at: row as i64,
            fact: text.to_owned(),
            item: item(row),
            signature,
        })
        .collect()
}

#[test]
fn a_large_cluster_respects_the_candidate_cap_and_is_idempotent() {
    // Every fifth has the tag of the one before and can be merged, if it is among the 64 that are
    // compared.
    let crowd = crowd(2_000);
    let (decisions, comparisons) = plan(&crowd, |_| true);
    assert!(
        comparisons <= CANDIDATES_MAX as u64 * 2_000 && comparisons > 60 * 2_000,
        "{comparisons}"
    );
    assert!((10..400).contains(&decisions.len()), "{}", decisions.len());
    let left = survivors(&crowd, &decisions);
    assert_eq!(plan(&left, |_| true).0, vec![]);
}

#[test]
fn texts_that_differ_only_in_a_number_are_never_compared() {
    let numbered = |row: u64| {
        let number = row - u64::from(row % 5 == 4);
        corpus_entry(
            row,
            row as i64,
            MergeItem::plain(format!(
                "The meter in the cellar of the old mill showed {number} units when the inspector came by"
            )),
        )
    };
    let all: Vec<CorpusEntry> = (0..2_000).map(numbered).collect();
    let (decisions, comparisons) = plan(&all, |_| true);
    assert_eq!((decisions.len(), comparisons), (400, 400));
    assert_eq!(plan(&survivors(&all, &decisions), |_| true), (vec![], 0));
}

#[test]
fn a_fresh_entry_in_a_large_cluster_reads_a_bounded_text_count() {
    let mut planner = Planner::new();
    crowd(1_000)
        .iter()
        .for_each(|one| planner.add(plan_entry(one, one.row == 500)));
    assert_eq!(
        planner.into_merge_phase().text_count(),
        2 * CANDIDATES_MAX + 1,
        "its own, the newest, and those next after it"
    );
}

#[test]
fn the_newest_wording_survives_whichever_entry_is_fresh() {
    let old = corpus_entry(
        1,
        1,
        MergeItem::plain("The boat leaves at noon from the small pier behind the church"),
    );
    let new = corpus_entry(
        2,
        2,
        MergeItem::plain("the boat leaves at noon, from the small pier behind the church"),
    );
    let both = [old, new];
    let merged = vec![Decision::Merge {
        member: 1,
        leader: 2,
    }];
    for fresh in [1, 2] {
        assert_eq!(plan(&both, |one| one.row == fresh).0, merged);
    }
    assert_eq!(plan(&both, |_| false).0, vec![]);
}

#[test]
fn only_candidate_texts_are_requested_and_may_be_missing() {
    let boat = |row, end: &str| {
        corpus_entry(
            row,
            row as i64,
            MergeItem::plain(format!(
                "The boat leaves at noon from the small pier behind the church{end}"
            )),
        )
    };
    let all = [
        boat(1, ""),
        boat(2, "."),
        boat(3, "!"),
        corpus_entry(4, 4, MergeItem::plain("Goats climb better than sheep do")),
    ];
    let mut planner = Planner::with_capacity(4);
    all.iter()
        .for_each(|one| planner.add(plan_entry(one, true)));
    let mut cover = planner.into_merge_phase();
    assert_eq!(
        (cover.next_rows(2), cover.next_rows(5), cover.next_rows(5)),
        (vec![3, 2], vec![1], vec![])
    );
    cover.provide(1, Some(all[0].item.clone()));
    cover.provide(4, Some(all[3].item.clone()));
    assert_eq!(cover.take_decisions(), vec![]);
    cover.provide(3, None);
    cover.provide(2, Some(all[1].item.clone()));
    assert_eq!(
        cover.take_decisions(),
        vec![Decision::Merge {
            member: 1,
            leader: 2
        }]
    );
    assert!(cover.is_done());
}

#[test]
fn entries_of_different_classes_never_merge_or_supersede() {
    let text = MergeItem::plain("The boat leaves at noon from the small pier behind the church");
    let role = MergeItem::plain("Nadia's role is cook");
    let decided = |classes: [u32; 2], items: [&MergeItem; 2]| {
        let mut planner = Planner::new();
        for (row, (class, item)) in classes.into_iter().zip(items).enumerate() {
            planner.add(PlanEntry {
                class,
                ..plan_entry(&corpus_entry(row as u64, 0, item.clone()), true)
            });
        }
        planner
            .into_merge_phase()
            .run(|row| Some(items[row as usize].clone()))
            .len()
    };
    assert_eq!(
        (
            decided([0, 1], [&text, &text]),
            decided([1, 1], [&text, &text]),
            decided([0, 0], [&text, &text])
        ),
        (0, 1, 1)
    );
    assert_eq!(
        (
            decided([0, 1], [&role, &role]),
            decided([3, 3], [&role, &role])
        ),
        (0, 1)
    );
}

#[test]
fn the_newest_value_of_a_slot_supersedes_older_ones() {
    let tagged = |text: &str, tag: &str| MergeItem {
        tags: vec![tag.to_owned()],
        ..MergeItem::plain(text)
    };
    let all = [
        corpus_entry(1, 1, MergeItem::plain("Nadia's role is cook")),
        corpus_entry(2, 2, MergeItem::plain("Nadia's role is pilot")),
        corpus_entry(3, 3, tagged("Nadia's role is now the pilot", "hr")),
        corpus_entry(4, 4, tagged("Nadia's role is pilot", "hr")),
        corpus_entry(5, 5, MergeItem::plain("Nadia's role is pilot.")),
        corpus_entry(6, 6, MergeItem::plain("Emil's role is cook")),
    ];
    // Entry 4 is kept by its tag: nothing found by "hr" may be lost.
    let expected = vec![
        Decision::Merge {
            member: 3,
            leader: 4,
        },
        Decision::Merge {
            member: 2,
            leader: 5,
        },
        Decision::Supersede { old: 1, by: 5 },
    ];
    assert_eq!(plan(&all, |_| true).0, expected);
    assert_eq!(
        plan(&all[..2], |one| one.row == 1).0,
        vec![Decision::Supersede { old: 1, by: 2 }],
        "a late arrival"
    );
}

#[test]
fn ids_break_ties_between_equal_timestamps() {
    assert!(
        order_key("0190b6a1-0000-7000-8000-000000000000")
            < order_key("0190b6a1-0001-7000-8000-000000000000")
    );
    assert!(
        order_key("alpha") < order_key("beta")
            && order_key("b") < order_key("ba")
            && order_key("äö") > order_key("z")
    );
    let same = Timestamp(7);
    let item = MergeItem::plain("The boat leaves at noon from the small pier behind the church");
    let mut planner = Planner::new();
    for (row, id) in [(1, "b"), (2, "a")] {
        let signature = Signature::of(&item);
        planner.add(PlanEntry {
            row,
            created_at: same,
            order: order_key(id),
            class: 0,
            trust: crate::trust::Trust::Model,
            fresh: true,
            signature,
        });
    }
    assert_eq!(
        planner.into_merge_phase().run(|_| Some(item.clone())),
        vec![Decision::Merge {
            member: 2,
            leader: 1
        }]
    );
}

#[test]
fn a_cluster_entry_takes_112_bytes() {
    assert_eq!(size_of::<super::plan::ClusterEntry>(), 112);
}
