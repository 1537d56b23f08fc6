//! Records and the entries that they were made from.

use super::*;
use crate::batch::RetireReason;
use crate::record::Precondition;

fn write(precondition: Precondition) -> Batch {
    batch().set_record(RecordKind::Run, "r".into(), precondition, empty_body())
}

#[test]
fn a_record_is_written_only_in_the_state_that_is_asked_for() {
    let mut ledger = Ledger::new();
    let stale = write(Precondition::Version(1));
    assert_eq!(ledger.try_commit(stale), Err(Refused::Conflict));
    let version = |ledger: &mut Ledger, precondition| {
        let ChangeOutcome::Recorded { version, .. } = ledger.commit(write(precondition))[0] else {
            panic!("a record");
        };
        version
    };
    assert_eq!(version(&mut ledger, Precondition::Absent), 1);
    assert_eq!(version(&mut ledger, Precondition::Version(1)), 2);
    assert_eq!(version(&mut ledger, Precondition::None), 3);
    let absent = write(Precondition::Absent);
    assert_eq!(ledger.try_commit(absent), Err(Refused::Conflict));
}

#[test]
fn records_follow_a_merge_and_rest_after_a_supersession() {
    let mut ledger = Ledger::with(&["old", "merged", "new"]);
    ledger.commit_record("of old", "old");
    ledger.commit_record("of merged", "merged");
    ledger.commit(batch().retire(memory(), id("merged"), RetireReason::Merged, id("new")));
    ledger.commit(batch().retire(memory(), id("old"), RetireReason::Superseded, id("new")));
    assert_eq!(
        ledger.record("of merged"),
        Some((Some(ledger.key("new")), true))
    );
    assert_eq!(
        ledger.record("of old"),
        Some((Some(ledger.key("old")), false))
    );
    ledger.commit(batch().delete(memory(), id("new")));
    assert_eq!(
        ledger.record("of merged"),
        None,
        "it went with its new source"
    );
}

#[test]
fn nothing_new_is_made_from_an_entry_that_has_ended() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.commit(batch().delete(memory(), id("e")));
    let ties = || RecordLinks {
        source: Some(name("e")),
        ..RecordLinks::default()
    };
    let none = Precondition::None;
    let kind = RecordKind::Commitment;
    let late = batch().set_record_with_ties(kind, "c".into(), none, empty_body(), ties());
    assert_eq!(ledger.try_commit(late), Err(Refused::Conflict));
}

#[test]
fn a_change_of_due_times_is_reported() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.commit_record("c", "e");
    ledger.reload();
    let unchanged = ledger.0.clone();
    assert!(!unchanged.into_effects().due_changed);
    ledger.commit(batch().delete(memory(), id("e")));
    assert!(ledger.effects().due_changed);
}
