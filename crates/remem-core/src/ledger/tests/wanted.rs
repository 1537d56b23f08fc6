//! What has to be loaded for a group.

use super::*;
use crate::ledger::{EntryNeed, Wanted, weight};

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
