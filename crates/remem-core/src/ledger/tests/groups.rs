//! Several batches, repeated batches, and batches that are refused.

use super::*;
use crate::event::{ChainLink, chain_hash};
use crate::{Fence, Idempotency, Seq};

#[test]
fn a_repeated_batch_gets_the_answer_of_the_first() {
    let mut ledger = Ledger::new();
    let idempotent = |body| {
        let key = Idempotency {
            operation: "put",
            key: [1; 32],
            body: [body; 32],
        };
        batch().idempotent(Some(key)).put(id("e"), text("e"))
    };
    let first = ledger.try_commit(idempotent(7)).unwrap();
    let again = ledger.try_commit(idempotent(7)).unwrap();
    assert!(again.replayed && !first.replayed);
    assert_eq!(first.outcomes, again.outcomes);
    assert_eq!(ledger.try_commit(idempotent(8)), Err(Refused::KeyMismatch));
    assert_eq!(ledger.effects().entries.len(), 1);
}

#[test]
fn a_batch_that_changes_nothing_leaves_the_clock_alone() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.reload();
    ledger.commit(batch().delete(memory(), id("unknown")));
    let effects = ledger.effects();
    assert!(effects.clock.is_none() && effects.events.is_empty());
}

#[test]
fn time_never_runs_back_and_each_event_is_chained_to_the_one_before() {
    let mut ledger = Ledger::with(&["a"]);
    let earlier = Batch::new(tenant(), Timestamp(1));
    let committed = ledger
        .try_commit(earlier.put(id("b"), text("b")).put(id("c"), text("c")))
        .unwrap();
    assert_eq!(committed.at, NOON);
    let events = ledger.effects().events;
    assert_eq!(events.len(), 3);
    let mut chain = [0; 32];
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event.seq, Seq(n as u64 + 1));
        let link = ChainLink {
            seq: event.seq,
            revision: event.revision,
            at: event.at,
            run: None,
            kind: event.kind,
            payload: &event.payload,
        };
        chain = chain_hash(&chain, &link);
        assert_eq!(event.hash, chain);
    }
}

#[test]
fn a_lease_that_was_taken_over_and_a_changed_entry_refuse_a_batch() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.0.leases.insert("pass", 2);
    let fenced = |number| {
        let fence = Fence {
            pass: "pass",
            number,
        };
        batch().fenced(Some(fence)).delete(memory(), id("e"))
    };
    assert_eq!(ledger.try_commit(fenced(1)), Err(Refused::Conflict));
    let written_at = ledger.row("e").visible_from;
    let expecting = |revision| batch().expect_entry(memory(), id("e"), revision);
    let later = crate::Revision(written_at.0 + 1);
    let wrong = expecting(later).put(id("x"), text("x"));
    assert_eq!(ledger.try_commit(wrong), Err(Refused::Conflict));
    assert!(ledger.try_commit(expecting(written_at)).is_ok());
    assert!(ledger.try_commit(fenced(2)).is_ok());
}

#[test]
fn an_entry_that_comes_and_goes_in_a_group_is_saved_without_its_text() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.commit(batch().delete(memory(), id("e")));
    let effects = ledger.effects();
    let change = &effects.entries[0];
    assert!(change.is_new() && change.after.text.is_none());
    assert!(change.index_change().is_none(), "it was never indexed");
}

#[test]
fn rows_are_numbered_by_memory_or_by_tenant() {
    let elsewhere = MemoryRef::parse("other").unwrap();
    for (numbers, expected) in [
        (RowNumbers::ByTenant(1), [(1, 1), (2, 2), (1, 3)]),
        (RowNumbers::ByMemory, [(1, 1), (2, 1), (1, 2)]),
    ] {
        let mut working = Working::new(TenantClock::default(), numbers);
        let keys = [memory(), elsewhere.clone(), memory()].map(|name| {
            let key = working.next_row(&name);
            (key.scope, key.row)
        });
        assert_eq!(keys, expected, "{numbers:?}");
    }
}

#[test]
fn a_release_wakes_the_purge_pass_if_rows_may_be_hidden() {
    for hides_rows in [false, true] {
        let mut ledger = Ledger::new();
        ledger.0.hides_rows = hides_rows;
        ledger.commit(in_run("r").hold_snapshot());
        ledger.commit(in_run("r").release_snapshot());
        assert_eq!(ledger.effects().has_erasable_text, hides_rows);
    }
}
