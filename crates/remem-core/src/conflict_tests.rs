//! Validity windows and successions, checked against a reference: a plain table from millisecond to
//! the last statement.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const DOMAIN: i64 = 40;

fn window(from: i64, value: &str, trust: Trust) -> ValidityWindow {
    ValidityWindow {
        from: Timestamp(from),
        to: None,
        trust,
        created_at: Timestamp(1_000),
        value: value.to_owned(),
    }
}

/// The rows of one slot, as a store would have them.
#[derive(Default)]
struct SlotModel {
    slot: Vec<SlotWindow<usize>>,
    /// Windows that are stored without a slot.
    without_slot: Vec<ValidityWindow>,
    same: usize,
    count: usize,
}

impl SlotModel {
    fn put(&mut self, new: &ValidityWindow) -> SlotPlacement<usize> {
        let placing = place_in_slot(new, &self.slot);
        self.count += 1;
        let mut placed = new.clone();
        match &placing {
            SlotPlacement::Same(id) => {
                let row = self.slot.iter_mut().find(|row| row.id == *id).unwrap();
                row.window.trust = row.window.trust.max(new.trust);
                self.same += 1;
            }
            SlotPlacement::WithoutSlot(_) => self.without_slot.push(placed),
            SlotPlacement::InsertEmpty(_) => {
                placed.to = Some(placed.from);
                self.slot.push(SlotWindow {
                    id: self.count,
                    window: placed,
                });
            }
            SlotPlacement::Insert { to, close } => {
                for (id, at) in close {
                    let row = self.slot.iter_mut().find(|row| row.id == *id).unwrap();
                    assert!(
                        row.window.to.is_none_or(|to| *at <= to),
                        "a close never makes a window longer"
                    );
                    row.window.to = Some(*at);
                }
                placed.to = *to;
                self.slot.push(SlotWindow {
                    id: self.count,
                    window: placed,
                });
            }
        }
        placing
    }

    fn end(&mut self, at: i64, trust: Trust) -> Option<usize> {
        let id = retract(Timestamp(at), trust, &self.slot)?;
        self.slot
            .iter_mut()
            .find(|row| row.id == id)
            .unwrap()
            .window
            .to = Some(Timestamp(at));
        Some(id)
    }

    fn table(&self) -> Vec<Option<String>> {
        (0..DOMAIN)
            .map(|at| as_of(Timestamp(at), &self.slot).map(|row| row.window.value.clone()))
            .collect()
    }

    fn holders(&self, at: i64, only: impl Fn(&ValidityWindow) -> bool) -> usize {
        self.slot
            .iter()
            .filter(|row| only(&row.window) && row.window.contains(Timestamp(at)))
            .count()
    }
}

/// The last statement for every millisecond.
fn reference(said: &[(i64, String)]) -> Vec<Option<String>> {
    let by_time: BTreeMap<i64, &String> = said.iter().map(|(from, value)| (*from, value)).collect();
    (0..DOMAIN)
        .map(|at| {
            by_time
                .range(..=at)
                .next_back()
                .map(|(_, value)| (*value).clone())
        })
        .collect()
}

fn replay(said: &[(i64, String)]) -> SlotModel {
    let mut rows = SlotModel::default();
    said.iter()
        .for_each(|(from, value)| drop(rows.put(&window(*from, value, Trust::Tool))));
    rows
}

#[test]
fn the_first_answer_in_a_slot_is_open_ended() {
    assert_eq!(
        place_in_slot::<usize>(&window(5, "a", Trust::Tool), &[]),
        SlotPlacement::Insert {
            to: None,
            close: vec![]
        }
    );
}

#[test]
fn a_newer_answer_closes_the_current_one() {
    let mut rows = replay(&[(5, "a".into())]);
    assert_eq!(
        rows.put(&window(9, "b", Trust::Model)),
        SlotPlacement::Insert {
            to: None,
            close: vec![(1, Timestamp(9))]
        }
    );
    assert_eq!(
        rows.put(&window(12, "b", Trust::Model)),
        SlotPlacement::Same(2)
    );
}

#[test]
fn inv_41_a_late_answer_is_inserted_already_closed() {
    let mut rows = replay(&[(20, "new".into())]);
    assert_eq!(
        rows.put(&window(5, "old", Trust::Tool)),
        SlotPlacement::Insert {
            to: Some(Timestamp(20)),
            close: vec![]
        }
    );
    assert_eq!(
        rows.put(&window(10, "mid", Trust::Tool)),
        SlotPlacement::Insert {
            to: Some(Timestamp(20)),
            close: vec![(2, Timestamp(10))]
        }
    );
    assert!(
        rows.slot
            .iter()
            .all(|row| row.window.to.is_none_or(|to| row.window.from <= to))
    );
}

#[test]
fn at_equal_starts_higher_trust_wins_then_the_newer_entry() {
    let rows = [SlotWindow {
        id: 1,
        window: window(5, "a", Trust::Tool),
    }];
    let wins = SlotPlacement::Insert {
        to: None,
        close: vec![(1, Timestamp(5))],
    };
    assert_eq!(place_in_slot(&window(5, "b", Trust::Operator), &rows), wins);
    assert_eq!(
        place_in_slot(&window(5, "b", Trust::Model), &rows),
        SlotPlacement::InsertEmpty(1)
    );
    let at = |created_at: i64, value: &str| ValidityWindow {
        created_at: Timestamp(created_at),
        ..window(5, value, Trust::Tool)
    };
    assert_eq!(place_in_slot(&at(1_001, "b"), &rows), wins);
    assert_eq!(
        place_in_slot(&at(999, "b"), &rows),
        SlotPlacement::InsertEmpty(1)
    );
    // Everything else is equal: the same one wins, whichever came first.
    assert_eq!(place_in_slot(&at(1_000, "b"), &rows), wins);
    assert_eq!(
        place_in_slot(&at(1_000, "A"), &rows),
        SlotPlacement::InsertEmpty(1)
    );
}

#[test]
fn an_empty_window_does_not_block_a_later_insert() {
    let mut rows = replay(&[(5, "b".into()), (5, "a".into())]);
    assert!(rows.slot[1].window.is_empty());
    assert_eq!(
        rows.put(&window(5, "a", Trust::Operator)),
        SlotPlacement::Insert {
            to: None,
            close: vec![(1, Timestamp(5))]
        }
    );
    assert_eq!(rows.holders(5, |_| true), 1);
}

#[test]
fn untrusted_answers_never_shorten_trusted_ones() {
    let mut rows = replay(&[(5, "a".into())]);
    for start in [5, 6, 39] {
        assert_eq!(
            rows.put(&window(start, "x", Trust::Untrusted)),
            SlotPlacement::WithoutSlot(1)
        );
    }
    assert_eq!(
        rows.put(&window(7, "a", Trust::Untrusted)),
        SlotPlacement::Same(1)
    );
    // Before the trusted one begins, an untrusted one takes no time from it.
    assert_eq!(
        rows.put(&window(1, "x", Trust::Untrusted)),
        SlotPlacement::Insert {
            to: Some(Timestamp(5)),
            close: vec![]
        }
    );
}

#[test]
fn earlier_untrusted_answers_do_not_bound_a_trusted_one() {
    let mut rows = SlotModel::default();
    rows.put(&window(3, "x", Trust::Untrusted));
    rows.put(&window(9, "y", Trust::Untrusted));
    assert_eq!(
        rows.put(&window(1, "a", Trust::Tool)),
        SlotPlacement::Insert {
            to: None,
            close: vec![(1, Timestamp(3)), (2, Timestamp(9))]
        }
    );
    assert_eq!(rows.table()[1..], vec![Some("a".to_owned()); 39]);
    assert_eq!(rows.slot.len(), 3, "all are kept");
}

#[test]
fn a_trusted_repeat_of_a_closed_answer_is_open_ended() {
    let mut rows = SlotModel::default();
    rows.put(&window(3, "a", Trust::Untrusted));
    assert_eq!(
        place_in_slot(&window(5, "a", Trust::Tool), &rows.slot),
        SlotPlacement::Same(1)
    );
    rows.put(&window(8, "x", Trust::Untrusted));
    assert_eq!(
        rows.put(&window(5, "a", Trust::Tool)),
        SlotPlacement::Insert {
            to: None,
            close: vec![(1, Timestamp(5)), (2, Timestamp(8))]
        }
    );
    assert_eq!(rows.table()[3..], vec![Some("a".to_owned()); 37]);
}

#[test]
fn an_explicit_end_is_kept() {
    let with_end = ValidityWindow {
        to: Some(Timestamp(8)),
        ..window(5, "b", Trust::Tool)
    };
    let rows = [
        SlotWindow {
            id: 1,
            window: window(1, "a", Trust::Tool),
        },
        SlotWindow {
            id: 2,
            window: window(30, "c", Trust::Tool),
        },
    ];
    assert_eq!(
        place_in_slot(&with_end, &rows[1..]),
        SlotPlacement::Insert {
            to: Some(Timestamp(8)),
            close: vec![]
        }
    );
    assert_eq!(
        place_in_slot(&with_end, &rows[..1]),
        SlotPlacement::Insert {
            to: Some(Timestamp(8)),
            close: vec![(1, Timestamp(5))]
        }
    );
    // An end before the start counts as an end at the start, so it bounds nothing earlier.
    let never = ValidityWindow {
        to: Some(Timestamp(2)),
        ..with_end
    };
    assert_eq!(
        place_in_slot(&never, &rows[1..]),
        SlotPlacement::Insert {
            to: Some(Timestamp(5)),
            close: vec![]
        }
    );
}

#[test]
fn a_retracted_answer_ends_without_a_successor() {
    let mut rows = replay(&[(5, "a".into()), (20, "b".into())]);
    assert_eq!(rows.end(3, Trust::Operator), None, "nothing holds yet");
    assert_eq!(rows.end(12, Trust::Untrusted), None);
    assert_eq!(rows.end(12, Trust::Operator), Some(1));
    assert_eq!(as_of(Timestamp(15), &rows.slot), None);
    // A late answer ends where its predecessor was taken back, and one in the gap where the next
    // begins.
    assert_eq!(
        rows.put(&window(8, "c", Trust::Tool)),
        SlotPlacement::Insert {
            to: Some(Timestamp(12)),
            close: vec![(1, Timestamp(8))]
        }
    );
    assert_eq!(
        rows.put(&window(14, "d", Trust::Tool)),
        SlotPlacement::Insert {
            to: Some(Timestamp(20)),
            close: vec![]
        }
    );
}

#[test]
fn debug_output_omits_the_value() {
    let row = SlotWindow {
        id: 1,
        window: window(5, "the secret plan", Trust::Tool),
    };
    assert!(!format!("{row:?}").contains("secret"));
}

/// A procedure: when it was stated, its trust, and the procedure that superseded it.
struct Procedure {
    at: Timestamp,
    trust: Trust,
    superseded_by: Option<usize>,
    slotted: bool,
}

fn procedures(list: &[(i64, Trust)]) -> Vec<Procedure> {
    let mut rows: Vec<Procedure> = Vec::new();
    for (at, trust) in list {
        let id = rows.len();
        let active = rows
            .iter()
            .position(|row| row.slotted && row.superseded_by.is_none());
        let known = active.map(|id| ActiveProcedure {
            id,
            at: rows[id].at,
            trust: rows[id].trust,
        });
        let mut new = Procedure {
            at: Timestamp(*at),
            trust: *trust,
            superseded_by: None,
            slotted: true,
        };
        match supersede(Timestamp(*at), *trust, known) {
            Succession::First => {}
            Succession::Supersedes(old) => rows[old].superseded_by = Some(id),
            Succession::SupersededBy(by) => new.superseded_by = Some(by),
            Succession::WithoutSlot(_) => new.slotted = false,
        }
        rows.push(new);
    }
    rows
}

#[test]
fn procedures_supersede_by_time_and_trust() {
    let active = |at: i64, trust: Trust| {
        Some(ActiveProcedure {
            id: 7,
            at: Timestamp(at),
            trust,
        })
    };
    for (at, trust, before, expected) in [
        (5, Trust::Model, None, Succession::First),
        (
            5,
            Trust::Model,
            active(4, Trust::Operator),
            Succession::Supersedes(7),
        ),
        (
            5,
            Trust::Operator,
            active(6, Trust::Model),
            Succession::SupersededBy(7),
        ),
        (
            5,
            Trust::Model,
            active(5, Trust::Operator),
            Succession::SupersededBy(7),
        ),
        (
            5,
            Trust::Operator,
            active(5, Trust::Model),
            Succession::Supersedes(7),
        ),
        (
            5,
            Trust::Tool,
            active(5, Trust::Tool),
            Succession::Supersedes(7),
        ),
        (
            9,
            Trust::Untrusted,
            active(5, Trust::Model),
            Succession::WithoutSlot(7),
        ),
        (9, Trust::Untrusted, None, Succession::First),
        (
            9,
            Trust::Untrusted,
            active(5, Trust::Untrusted),
            Succession::Supersedes(7),
        ),
        (
            1,
            Trust::Model,
            active(5, Trust::Untrusted),
            Succession::Supersedes(7),
        ),
    ] {
        assert_eq!(
            supersede(Timestamp(at), trust, before.clone()),
            expected,
            "{at} {trust:?} {before:?}"
        );
    }
}

fn any_trust() -> impl Strategy<Value = Trust> {
    (0..Trust::ALL.len()).prop_map(|at| Trust::ALL[at])
}

/// Operations of both kinds: a statement (sometimes with an end), or a retraction.
fn steps() -> impl Strategy<Value = Vec<(i64, Option<i64>, u8, Trust, bool)>> {
    let end = prop_oneof![3 => Just(None), 1 => (0..12i64).prop_map(Some)];
    prop::collection::vec(
        (
            0..DOMAIN,
            end,
            0..4u8,
            any_trust(),
            prop::bool::weighted(0.15),
        ),
        0..30,
    )
}

fn walk(
    steps: &[(i64, Option<i64>, u8, Trust, bool)],
    mut look: impl FnMut(&SlotModel, &SlotModel),
) -> SlotModel {
    let mut rows = SlotModel::default();
    for (nth, (at, lasts, value, trust, ends)) in steps.iter().enumerate() {
        let before = SlotModel {
            slot: rows.slot.clone(),
            without_slot: rows.without_slot.clone(),
            same: rows.same,
            count: rows.count,
        };
        let created_at = Timestamp(nth as i64);
        let to = lasts.map(|lasts| Timestamp(at + lasts));
        match ends {
            true => drop(rows.end(*at, *trust)),
            false => drop(rows.put(&ValidityWindow {
                created_at,
                to,
                ..window(*at, &format!("v{value}"), *trust)
            })),
        }
        look(&before, &rows);
    }
    rows
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn inv_40_windows_stay_disjoint(steps in steps()) {
        let rows = walk(&steps, |_, _| {});
        for at in -1..2 * DOMAIN {
            // INV-45: a read at one instant gets one answer at most.
            prop_assert!(rows.holders(at, |_| true) <= 1, "two rows hold at {at}");
        }
        for row in &rows.slot {
            prop_assert!(row.window.to.is_none_or(|to| row.window.from <= to), "INV-41");
        }
    }

    #[test]
    fn inv_44_no_answer_is_ever_dropped(steps in steps()) {
        let rows = walk(&steps, |before, after| {
            assert!(after.slot.len() >= before.slot.len() && after.without_slot.len() >= before.without_slot.len());
            for (old, new) in before.slot.iter().zip(&after.slot) {
                assert_eq!((old.id, old.window.from, &old.window.value), (new.id, new.window.from, &new.window.value));
            }
        });
        prop_assert_eq!(rows.slot.len() + rows.without_slot.len() + rows.same, rows.count);
    }

    #[test]
    fn inv_45_as_of_returns_the_latest_answer(said in prop::collection::vec((0..DOMAIN, 0..3u8), 0..20)) {
        let mut said: Vec<(i64, String)> = said.into_iter().map(|(from, value)| (from, value.to_string())).collect();
        said.sort();
        said.dedup_by_key(|(from, _)| *from);
        prop_assert_eq!(replay(&said).table(), reference(&said));
    }

    #[test]
    fn inv_41_order_of_arrival_does_not_matter(
        starts in prop::collection::btree_set(0..DOMAIN, 0..14), order in any::<prop::sample::Index>(), seed in any::<u64>()
    ) {
        let mut said: Vec<(i64, String)> = starts.iter().map(|from| (*from, format!("v{from}"))).collect();
        let expected = reference(&said);
        shuffle(&mut said, seed ^ order.index(usize::MAX) as u64);
        let rows = replay(&said);
        prop_assert_eq!(rows.table(), expected);
        let ends: BTreeSet<Option<Timestamp>> = rows.slot.iter().map(|row| row.window.to).collect();
        prop_assert_eq!(ends.len(), said.len(), "each ends where its successor begins");
    }

    #[test]
    fn inv_62_untrusted_answers_never_displace_trusted_ones(steps in steps()) {
        let trusted = |window: &ValidityWindow| window.trust != Trust::Untrusted;
        let mut step = 0;
        walk(&steps, |before, after| {
            let vouched = steps[step].3 != Trust::Untrusted;
            step += 1;
            for at in 0..DOMAIN {
                assert!(vouched || after.holders(at, trusted) >= before.holders(at, trusted), "lost {at}");
            }
        });
        // Without the untrusted steps, the trusted rows hold at the very same instants.
        let alone: Vec<_> = steps.iter().filter(|step| step.3 != Trust::Untrusted).copied().collect();
        let unique = |list: &[(i64, Option<i64>, u8, Trust, bool)]| list.iter().all(|step| !step.4);
        if unique(&steps) {
            let all = walk(&distinct(&steps), |_, _| {});
            let alone = walk(&distinct(&alone), |_, _| {});
            for at in 0..DOMAIN {
                prop_assert_eq!(all.holders(at, trusted), alone.holders(at, trusted), "at {}", at);
            }
        }
    }

    #[test]
    fn inv_42_at_most_one_procedure_is_active(list in prop::collection::vec((0..20i64, any_trust()), 1..40)) {
        let rows = procedures(&list);
        prop_assert_eq!(rows.iter().filter(|row| row.slotted && row.superseded_by.is_none()).count(), 1);
        let trusted = rows.iter().any(|row| row.trust != Trust::Untrusted);
        let active = rows.iter().find(|row| row.slotted && row.superseded_by.is_none()).unwrap();
        prop_assert!(!trusted || active.trust != Trust::Untrusted);
        // The active one is the newest of those that may be active.
        let best = rows.iter().filter(|row| !trusted || row.trust != Trust::Untrusted).map(|row| (row.at, row.trust)).max();
        prop_assert_eq!(Some((active.at, active.trust)), best);
    }

    #[test]
    fn inv_43_supersession_chains_terminate(list in prop::collection::vec((0..20i64, any_trust()), 1..40)) {
        let rows = procedures(&list);
        for start in 0..rows.len() {
            let mut at = start;
            let mut steps = 0;
            while let Some(next) = rows[at].superseded_by {
                (at, steps) = (next, steps + 1);
                prop_assert!(steps <= rows.len(), "a circle");
            }
            prop_assert!(rows[at].slotted || at == start);
        }
    }
}

/// The same steps with a value of their own each, so that no two say the same.
fn distinct(
    steps: &[(i64, Option<i64>, u8, Trust, bool)],
) -> Vec<(i64, Option<i64>, u8, Trust, bool)> {
    let mut seen = 0;
    let value = |step: &(i64, Option<i64>, u8, Trust, bool)| {
        seen += 1;
        (step.0, None, seen, step.3, step.4)
    };
    steps.iter().map(value).collect()
}

fn shuffle<T>(list: &mut [T], mut seed: u64) {
    for at in (1..list.len()).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        list.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
