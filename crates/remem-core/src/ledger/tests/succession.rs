//! Entries that take the place of others.

use super::*;
use crate::batch::{ClosingReason, RetireReason};
use crate::{Facets, Typology};

fn answer(entry: &str, typology: Typology, from: Option<i64>, to: Option<i64>) -> Batch {
    let facets = Facets {
        slot: Some("question".into()),
        valid_at: from.map(Timestamp),
        invalid_at: to.map(Timestamp),
        ..Facets::default()
    };
    let draft = Draft {
        content: entry.into(),
        typology,
        facets,
        ..Draft::default()
    };
    batch().put(id(entry), admit(draft, 1))
}

#[test]
fn a_merge_adds_up_support_and_keeps_the_text() {
    let mut ledger = Ledger::with(&["a", "b", "c"]);
    let merge =
        |from: &str, to: &str| batch().retire(memory(), id(from), RetireReason::Merged, id(to));
    ledger.commit(merge("a", "b"));
    ledger.commit(merge("b", "c"));
    assert_eq!(ledger.row("c").support, 3);
    assert_eq!(ledger.row("b").replaced_by, Some(ledger.key("c").row));
    assert!(!ledger.is_erased("a") && !ledger.is_erased("b"));
    assert_eq!(ledger.commit(merge("a", "c")), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(merge("c", "c")), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.effects().lineage.len(), 2);
}

#[test]
fn a_compacted_text_is_erased() {
    let mut ledger = Ledger::with(&["long", "digest"]);
    ledger.commit(batch().retire(memory(), id("long"), RetireReason::Compacted, id("digest")));
    assert!(ledger.is_erased("long"));
}

#[test]
fn a_merged_entry_returns_once_its_replacement_is_erased() {
    let mut ledger = Ledger::with(&["merged", "by"]);
    ledger.commit(batch().retire(memory(), id("merged"), RetireReason::Merged, id("by")));
    let revive = || batch().revive(memory(), id("merged"));
    assert_eq!(ledger.commit(revive()), [ChangeOutcome::NoChange]);
    ledger.commit(batch().forget(memory(), id("by")));
    assert_eq!(
        ledger.state("merged"),
        EntryState::Retired(RetireReason::Merged),
        "forgetting spares what was merged"
    );
    assert_eq!(ledger.commit(revive()), [ChangeOutcome::Done]);
    let row = ledger.row("merged");
    assert!(row.is_current() && row.replaced_by.is_none());
    assert_eq!(row.visible_from, ledger.0.clock.revision, "as a new entry");
}

#[test]
fn a_superseded_entry_does_not_return() {
    let mut ledger = Ledger::with(&["old", "new"]);
    ledger.commit(batch().retire(memory(), id("old"), RetireReason::Superseded, id("new")));
    ledger.commit(batch().forget(memory(), id("new")));
    let revived = ledger.commit(batch().revive(memory(), id("old")));
    assert_eq!(revived, [ChangeOutcome::NoChange]);
}

#[test]
fn a_closed_answer_gets_its_successor_even_if_that_is_put_later() {
    let mut ledger = Ledger::new();
    ledger.commit(answer("first", Typology::Semantic, Some(1), None));
    let from = ClosingReason::InvalidFrom(Timestamp(500));
    let close = batch().close(memory(), id("first"), from, Some(id("second")));
    let facets = Facets {
        slot: Some("question".into()),
        valid_at: Some(Timestamp(500)),
        ..Facets::default()
    };
    let draft = Draft {
        content: "second".into(),
        facets,
        ..Draft::default()
    };
    ledger.commit(close.put(id("second"), admit(draft, 1)));
    let first = ledger.row("first");
    assert_eq!(first.state, EntryState::Invalidated);
    assert_eq!(first.invalid_at, Some(Timestamp(500)));
    assert_eq!(first.replaced_by, Some(ledger.key("second").row));
}

#[test]
fn a_late_answer_shortens_what_is_over_and_never_lengthens_it() {
    let mut ledger = Ledger::with(&["e"]);
    let close = |from| {
        let from = ClosingReason::InvalidFrom(Timestamp(from));
        batch().close(memory(), id("e"), from, None)
    };
    ledger.commit(close(500));
    assert_eq!(ledger.commit(close(600)), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(close(400)), [ChangeOutcome::Done]);
    assert_eq!(ledger.row("e").invalid_at, Some(Timestamp(400)));
}

#[test]
fn a_statement_that_ends_in_the_future_stays_until_then() {
    let mut ledger = Ledger::with(&["e"]);
    let from = ClosingReason::InvalidFrom(Timestamp(NOON.0 + 1));
    ledger.commit(batch().close(memory(), id("e"), from, None));
    assert!(ledger.row("e").is_current());
}

#[test]
fn a_slot_has_one_answer_at_any_instant() {
    let mut ledger = Ledger::new();
    ledger.commit(answer("first", Typology::Semantic, Some(1), Some(10)));
    ledger.commit(answer("next", Typology::Semantic, Some(10), None));
    ledger.commit(answer("empty", Typology::Semantic, Some(5), Some(5)));
    ledger.commit(answer("how", Typology::Procedural, None, None));
    let clock = ledger.0.clock.clone();
    for (n, (typology, from, to)) in [
        (Typology::Semantic, Some(9), Some(11)),
        (Typology::Semantic, None, None),
        (Typology::Procedural, None, None),
    ]
    .into_iter()
    .enumerate()
    {
        let other = answer(&format!("other{n}"), typology, from, to);
        assert_eq!(ledger.try_commit(other), Err(Refused::Conflict), "{n}");
    }
    assert_eq!(ledger.0.clock, clock, "a refused batch changes nothing");
    assert_eq!(ledger.effects().entries.len(), 4);
}

/// A ledger with an answer that was true from 100 to 200, and is over.
fn with_closed_answer() -> Ledger {
    let mut ledger = Ledger::new();
    ledger.commit(answer("over", Typology::Semantic, Some(100), None));
    let from = ClosingReason::InvalidFrom(Timestamp(200));
    ledger.commit(batch().close(memory(), id("over"), from, None));
    assert!(!ledger.row("over").is_current());
    ledger
}

#[test]
fn an_answer_that_is_over_keeps_its_time() {
    let mut ledger = with_closed_answer();
    let late = |from, to| answer("late", Typology::Semantic, from, to);
    for (from, to) in [(Some(150), Some(160)), (Some(199), None), (None, None)] {
        assert_eq!(ledger.try_commit(late(from, to)), Err(Refused::Conflict));
    }
    ledger.commit(late(Some(200), None));
}

#[test]
fn an_answer_may_not_return_or_last_longer_where_another_one_is() {
    let mut ledger = with_closed_answer();
    ledger.commit(answer("next", Typology::Semantic, Some(200), Some(300)));
    ledger.commit(batch().put(id("by"), text("by")));
    ledger.commit(batch().retire(memory(), id("next"), RetireReason::Merged, id("by")));
    ledger.commit(answer("other", Typology::Semantic, Some(250), Some(300)));
    let forget = batch().forget(memory(), id("by"));
    let revive = forget.revive(memory(), id("next"));
    assert_eq!(ledger.try_commit(revive), Err(Refused::Conflict));
    ledger.commit(answer("last", Typology::Semantic, Some(300), None));
    let until = ClosingReason::InvalidFrom(Timestamp(301));
    let longer = batch().close(memory(), id("other"), until, None);
    assert_eq!(ledger.try_commit(longer), Err(Refused::Conflict));
}
