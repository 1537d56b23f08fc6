//! What the entries of a memory add up to, after each kind of change.

use super::*;
use crate::batch::{ClosingReason, RetireReason};
use crate::ledger::MemoryTotals;
use crate::{Facets, Subject};
use std::collections::BTreeSet;

/// A stored memory: its rows, those that name a subject, and the totals that commits added up.
struct Stored {
    ledger: Ledger,
    named: BTreeSet<RowKey>,
    totals: MemoryTotals,
}

impl Stored {
    /// Commits a group, adds its change of the totals, and compares them with the rows.
    fn commit(&mut self, group: impl IntoIterator<Item = Batch>) {
        self.ledger.reload();
        self.ledger.0.rows_with_subject = self.named.clone();
        for batch in group {
            self.ledger.commit(batch);
        }
        let effects = self.ledger.0.clone().into_effects();
        self.named
            .extend(effects.subjects.iter().map(|(key, _)| *key));
        self.named.retain(|key| !effects.forgotten.contains(key));
        for change in effects.totals.values() {
            self.totals.entries += change.entries;
            self.totals.content_bytes += change.content_bytes;
            self.totals.expiring += change.expiring;
            self.totals.with_subject += change.with_subject;
        }
        assert_eq!(self.totals, self.counted());
    }

    fn counted(&self) -> MemoryTotals {
        let mut counted = MemoryTotals::default();
        let rows = self.ledger.0.entries.iter();
        for (key, row) in rows.filter(|(_, row)| row.is_current()) {
            counted.entries += 1;
            counted.content_bytes += row.text.as_ref().unwrap().content.len() as i64;
            counted.expiring += i64::from(row.expires_at.is_some());
            counted.with_subject += i64::from(self.named.contains(key));
        }
        counted
    }
}

fn put(entry: &str, content: &str, ends: Option<i64>, subjects: &[&str]) -> Batch {
    let subjects = subjects
        .iter()
        .map(|name| Subject::of(&[1; 32], name).unwrap());
    let draft = Draft {
        content: content.into(),
        expires_at: ends.map(|ms| Timestamp(NOON.0 + ms)),
        subjects: subjects.collect(),
        facets: Facets {
            valid_at: Some(Timestamp(1)),
            ..Facets::default()
        },
        ..Draft::default()
    };
    batch().put(id(entry), admit(draft, 1))
}

#[test]
fn totals_follow_every_kind_of_change() {
    let mut stored = Stored {
        ledger: Ledger::new(),
        named: BTreeSet::new(),
        totals: MemoryTotals::default(),
    };
    let puts = [
        put("a", "one", None, &["ada", "bob"]),
        put("b", "three", Some(10), &["ada"]),
        put("c", "fourteen bytes", Some(20), &[]),
        put("d", "d", None, &["bob"]),
        put("e", "ee", None, &[]),
        put("f", "fff", None, &["ada"]),
    ];
    stored.commit(puts);
    assert_eq!(stored.totals.entries, 6);
    assert_eq!(stored.totals.content_bytes, 28);
    assert_eq!(stored.totals.expiring, 2);
    assert_eq!(stored.totals.with_subject, 4);
    stored.commit([batch().rewrite(id("c"), text("other"))]);
    stored.commit([batch().delete(memory(), id("c"))]);
    let later = Batch::new(tenant(), Timestamp(NOON.0 + 10));
    stored.commit([later.expire(memory(), id("b"))]);
    stored.commit([batch().retire(memory(), id("d"), RetireReason::Merged, id("a"))]);
    assert_eq!(stored.totals.with_subject, 2, "a and f");
    let forgotten = batch().forget(memory(), id("a"));
    stored.commit([forgotten, batch().revive(memory(), id("d"))]);
    assert_eq!(stored.totals.with_subject, 2, "d came back");
    let from = ClosingReason::InvalidFrom(Timestamp(500));
    stored.commit([batch().close(memory(), id("e"), from, None)]);
    stored.commit([batch().forget(memory(), id("e"))]);
    let came_and_went = put("g", "g", None, &["bob"]);
    stored.commit([came_and_went, batch().delete(memory(), id("g"))]);
    assert_eq!(stored.totals.entries, 2);
}

#[test]
fn a_refused_batch_adds_nothing() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.reload();
    let refused =
        put("new", "new", None, &["ada"]).expect_entry(memory(), id("no"), crate::Revision(1));
    assert_eq!(ledger.try_commit(refused), Err(Refused::Conflict));
    assert!(ledger.effects().totals.is_empty());
}
