//! Statements of one slot in any order of arrival, through the rulings of
//! `remem_core::conflict` and the batches that apply them, on a real store: at every instant it has
//! the same answer as the rulings by themselves, and it loses no row. A failure prints its seed;
//! rerun it with `REMEM_TEST_SEED=<seed>`.

use remem_core::conflict::{
    SlotPlacement, SlotWindow, ValidityWindow, as_of, place_in_slot, retract,
};
use remem_core::{
    Actor, Batch, ClosingReason, Draft, EntryId, Evidence, Facets, Scope, Tier, Timestamp, Trust,
};
use remem_store::{EntryState, Filter, Page, ReadAt, Store};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance::{NOON, admit, id, scope};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{SeededRandom, cases};

const STATEMENTS: u64 = 40;
/// The windows of statements lie in this span around the time of writing.
const SPAN: u64 = 60;
const SLOT: &str = "colour";

/// The windows by the rulings alone.
#[derive(Default)]
struct WindowModel(Vec<SlotWindow<EntryId>>);

impl WindowModel {
    fn close(&mut self, id: &EntryId, at: Timestamp) {
        self.0
            .iter_mut()
            .filter(|row| &row.id == id)
            .for_each(|row| row.window.to = Some(at));
    }

    fn put(&mut self, id: EntryId, window: ValidityWindow) {
        self.0.push(SlotWindow { id, window });
    }
}

/// The windows in the store.
async fn stored(store: &dyn Store, s: &Scope) -> Vec<SlotWindow<EntryId>> {
    let answers = store.slot_history(s, SLOT, 1_000).await.unwrap();
    let placed = answers
        .into_iter()
        .filter(|answer| matches!(answer.state, EntryState::Live | EntryState::Invalidated));
    let window = |facets: Facets, created_at, value| ValidityWindow {
        from: facets.valid_at.unwrap_or(created_at),
        to: facets.invalid_at,
        trust: facets.trust,
        created_at,
        value,
    };
    placed
        .map(|answer| SlotWindow {
            id: answer.entry.id,
            window: window(
                answer.entry.facets,
                answer.entry.created_at,
                answer.entry.content,
            ),
        })
        .collect()
}

fn draft(window: &ValidityWindow, slot: bool) -> Draft {
    let facets = Facets {
        slot: slot.then(|| SLOT.to_owned()),
        valid_at: Some(window.from),
        invalid_at: window.to,
        trust: window.trust,
        ..Facets::default()
    };
    Draft {
        content: window.value.clone(),
        facets,
        ..Draft::default()
    }
}

/// Makes the batch that applies a ruling, and applies it to the model.
fn apply_ruling(
    mut batch: Batch,
    s: &Scope,
    model: &mut WindowModel,
    name: EntryId,
    new: ValidityWindow,
    placing: SlotPlacement<EntryId>,
) -> Batch {
    let memory = || s.memory_ref.clone();
    let at = batch.at();
    match placing {
        SlotPlacement::Same(row) => {
            batch.set_evidence(memory(), row, Evidence::of(new.trust, name.as_str(), "o"))
        }
        SlotPlacement::WithoutSlot(_) => batch.put(name, admit(s, draft(&new, false), at)),
        SlotPlacement::InsertEmpty(_) => {
            let lost = ValidityWindow {
                to: Some(new.from),
                ..new
            };
            model.put(name.clone(), lost.clone());
            batch.put(name, admit(s, draft(&lost, true), at))
        }
        SlotPlacement::Insert { to, close } => {
            for (row, end) in close {
                model.close(&row, end);
                batch = batch.close(
                    memory(),
                    row,
                    ClosingReason::InvalidFrom(end),
                    Some(name.clone()),
                );
            }
            let stands = ValidityWindow { to, ..new };
            model.put(name.clone(), stands.clone());
            batch.put(name, admit(s, draft(&stands, true), at))
        }
    }
}

async fn persistent_rows(store: &dyn Store, s: &Scope) -> u64 {
    let counts = store
        .retention_counts(&s.tenant, &Actor::Host, None)
        .await
        .unwrap();
    counts
        .iter()
        .filter(|count| count.tier == Tier::Persistent)
        .map(|count| count.entries)
        .sum()
}

async fn matches_rulings(store: &dyn Store, random: &mut SeededRandom, tenant: &str) {
    let s = scope(tenant, "m");
    let mut model = WindowModel::default();
    let mut now = NOON;
    let mut rows = 0;
    for n in 0..STATEMENTS {
        now = now.plus_ms(random.below(3) as i64);
        let from = NOON.plus_ms(random.below(SPAN) as i64 - 30);
        let to = (random.below(4) == 0).then(|| from.plus_ms(1 + random.below(20) as i64));
        // An untrusted statement gets no slot (see `Admission::admit`), so that slots hold all
        // others.
        let trust =
            [Trust::Model, Trust::Tool, Trust::Action, Trust::Operator][random.below(4) as usize];
        let batch = Batch::new(s.tenant.clone(), now);
        let before = stored(store, &s).await;
        let batch = if random.below(8) == 0 {
            let Some(row) = retract(from, trust, &before) else {
                continue;
            };
            model.close(&row, from);
            batch.close(
                s.memory_ref.clone(),
                row,
                ClosingReason::InvalidFrom(from),
                None,
            )
        } else {
            let new = ValidityWindow {
                from,
                to,
                trust,
                created_at: now,
                value: format!("value {}", random.below(5)),
            };
            let placing = place_in_slot(&new, &before);
            apply_ruling(batch, &s, &mut model, id(&format!("e{n}")), new, placing)
        };
        store
            .commit(batch)
            .await
            .unwrap_or_else(|error| panic!("statement {n}: {error:?}"));
        let after = persistent_rows(store, &s).await;
        assert!(after >= rows, "inv_44: {rows} rows, then {after}");
        rows = after;
        if n % 8 == 7 || n + 1 == STATEMENTS {
            compare(store, &s, &model, now).await;
        }
    }
}

async fn compare(store: &dyn Store, s: &Scope, model: &WindowModel, now: Timestamp) {
    let kept = stored(store, s).await;
    for (n, one) in kept.iter().enumerate() {
        assert!(
            one.window.to.is_none_or(|to| one.window.from <= to),
            "inv_41: {one:?}"
        );
        for other in &kept[n + 1..] {
            let a = &one.window;
            let b = &other.window;
            let apart = a.is_empty()
                || b.is_empty()
                || a.to.is_some_and(|to| to <= b.from)
                || b.to.is_some_and(|to| to <= a.from);
            assert!(apart, "inv_40: {one:?} {other:?}");
        }
    }
    let page = Page {
        limit: 1_000,
        after: None,
    };
    for ms in -35..=(SPAN as i64 + 5) {
        let then = NOON.plus_ms(ms);
        let entries = store
            .list(
                s,
                &Filter::default(),
                &page,
                &ReadAt::AsOf { then, at: now },
            )
            .await
            .unwrap();
        let held: Vec<&EntryId> = entries
            .iter()
            .filter(|entry| entry.facets.slot.is_some())
            .map(|entry| &entry.id)
            .collect();
        assert!(held.len() <= 1, "inv_45: {held:?} at {ms}");
        assert_eq!(
            held.first().copied(),
            as_of(then, &model.0).map(|row| &row.id),
            "as of {ms}"
        );
    }
    let live = store
        .list(s, &Filter::default(), &page, &ReadAt::Now(now))
        .await
        .unwrap();
    let live: Vec<&EntryId> = live
        .iter()
        .filter(|entry| entry.facets.slot.is_some())
        .map(|entry| &entry.id)
        .collect();
    let expected: Vec<&EntryId> = as_of(now, &model.0)
        .map(|row| &row.id)
        .into_iter()
        .collect();
    assert_eq!(live, expected, "inv_46: what is so now is what is read now");
}

#[tokio::test]
async fn inv_40_41_44_45_windows_match_the_model_sqlite() {
    let store = SqliteStore::open(Location::Memory, 1).unwrap();
    let mut random = SeededRandom::fresh();
    for n in 0..cases(10, 40) {
        matches_rulings(&store, &mut random, &format!("t{n}")).await;
    }
}

#[tokio::test]
async fn inv_40_41_44_45_windows_match_the_model_postgres() {
    let store = TestDatabase::fresh().await.open().await;
    let mut random = SeededRandom::fresh();
    for n in 0..cases(2, 6) {
        matches_rulings(&store, &mut random, &format!("t{n}")).await;
    }
}
