//! What has to be loaded for a group.

use super::*;
use crate::batch::ClosingReason;
use crate::ledger::{EntryNeed, MovingAnswer, SlotWindow, Wanted, weight};
use crate::{Facets, Typology};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_strongest_need_of_a_group_counts() {
    let reads = batch().expect_entry(memory(), id("e"), crate::Revision(1));
    let rewrites = batch().rewrite(id("e"), text("e"));
    let deletes = batch().delete(memory(), id("e"));
    let need = |group: &[&Batch]| Wanted::of(group).entries[&name("e")];
    assert_eq!(need(&[&reads]), EntryNeed::Row);
    assert_eq!(need(&[&rewrites, &reads]), EntryNeed::Text);
    assert_eq!(need(&[&deletes, &rewrites]), EntryNeed::Neighbourhood);
}

#[test]
fn a_plain_put_needs_its_memory_and_nothing_else() {
    let put = batch().put(id("e"), text("e"));
    let expected = Wanted {
        memories: [memory()].into(),
        puts: true,
        ..Wanted::default()
    };
    assert_eq!(Wanted::of(&[&put]), expected);
}

#[test]
fn a_batch_weighs_the_texts_that_it_brings_and_loads() {
    let put = batch().put(id("e"), text("12345"));
    assert_eq!(weight(&put), 5);
    assert!(weight(&batch().delete(memory(), id("e"))) > 1_000);
}

#[test]
fn an_answer_needs_those_that_it_may_overlap() {
    let facets = Facets {
        slot: Some("question".into()),
        valid_at: Some(Timestamp(1)),
        invalid_at: Some(Timestamp(5)),
        ..Facets::default()
    };
    let draft = Draft {
        content: "answer".into(),
        facets,
        ..Draft::default()
    };
    let put = batch().put(id("new"), admit(draft.clone(), 1));
    let until = Timestamp(9);
    let close = batch().close(memory(), id("old"), ClosingReason::InvalidFrom(until), None);
    let rewrite = batch().rewrite(id("e"), admit(draft, 1));
    let wanted = Wanted::of(&[&put, &close, &rewrite]);
    let window = SlotWindow {
        typology: Typology::Semantic,
        from: Some(Timestamp(1)),
        to: Some(Timestamp(5)),
    };
    let slot = (memory(), "question".to_owned());
    assert_eq!(wanted.slots, BTreeMap::from([(slot, [window].into())]));
    let moving = |entry: &str, until, slot: Option<&str>| MovingAnswer {
        name: name(entry),
        until,
        slot: slot.map(str::to_owned),
    };
    let expected = [
        moving("old", Some(until), None),
        moving("e", None, Some("question")),
    ];
    assert_eq!(wanted.moving, BTreeSet::from(expected));
    assert_eq!(wanted.answers_max(), 3, "two can make room");
}
