//! Delete, expiry, the end of a session, forgetting, and what becomes of the texts.

use super::*;
use crate::batch::RetireReason;
use crate::{Facets, Subject, Tier, Typology};

fn expiring(entry: &str, end: i64) -> Batch {
    let draft = Draft {
        content: entry.into(),
        expires_at: Some(Timestamp(end)),
        ..Draft::default()
    };
    batch().put(id(entry), admit(draft, 1))
}

#[test]
fn a_deleted_text_is_erased_at_once_and_only_once() {
    let mut ledger = Ledger::with(&["e"]);
    let delete = || batch().delete(memory(), id("e"));
    assert_eq!(ledger.commit(delete()), [ChangeOutcome::Removed]);
    assert_eq!(ledger.state("e"), EntryState::Deleted);
    assert!(ledger.is_erased("e") && ledger.row("e").text.is_none());
    assert_eq!(ledger.commit(delete()), [ChangeOutcome::NoChange]);
}

#[test]
fn a_text_that_a_run_reads_waits_for_its_end_unless_it_expired() {
    let mut ledger = Ledger::with(&["deleted"]);
    ledger.commit(expiring("expired", NOON.0 + 1));
    ledger.commit(in_run("r").hold_snapshot());
    ledger.commit(batch().delete(memory(), id("deleted")));
    assert!(!ledger.is_erased("deleted"));
    let later = Batch::new(tenant(), Timestamp(NOON.0 + 1));
    ledger.commit(later.expire(memory(), id("expired")));
    assert!(ledger.is_erased("expired"), "time outranks snapshots");
    let erase = || batch().erase(memory(), id("deleted"));
    assert_eq!(ledger.commit(erase()), [ChangeOutcome::NoChange]);
    ledger.commit(in_run("r").release_snapshot());
    assert_eq!(ledger.commit(erase()), [ChangeOutcome::Removed]);
    assert!(ledger.is_erased("deleted"));
    assert!(ledger.effects().has_erasable_text, "the release says so");
}

#[test]
fn a_delete_takes_what_readers_see_and_an_expiry_what_they_do_not() {
    let mut ledger = Ledger::new();
    ledger.commit(expiring("e", NOON.0 + 10));
    let at = |ms| Batch::new(tenant(), Timestamp(ms));
    let expire = |ms| at(ms).expire(memory(), id("e"));
    assert_eq!(ledger.commit(expire(NOON.0 + 9)), [ChangeOutcome::NoChange]);
    let delete = at(NOON.0 + 10).delete(memory(), id("e"));
    assert_eq!(ledger.commit(delete), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(expire(NOON.0 + 10)), [ChangeOutcome::Removed]);
}

#[test]
fn a_text_with_a_linked_action_is_held_until_it_is_forgotten() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.commit_record("c", "e");
    ledger.commit(batch().link_action(memory(), id("e"), "told Ada".into(), "ref".into()));
    let deleted = ledger.commit(batch().delete(memory(), id("e")));
    assert_eq!(deleted, [ChangeOutcome::TextHeld]);
    assert_eq!(ledger.state("e"), EntryState::TextHeld);
    assert!(!ledger.is_erased("e"));
    assert_eq!(ledger.record("c"), None, "what was made from it goes");
    ledger.reload();
    ledger.commit(batch().forget(memory(), id("e")));
    assert!(ledger.is_erased("e"));
    let (_, link) = ledger.0.links.iter().next().unwrap();
    assert_eq!((&*link.action, &*link.reference), ("", "1"));
    assert!(ledger.effects().erased_text);
}

#[test]
fn the_end_of_a_session_takes_what_is_neither_persistent_nor_linked() {
    let turn = |entry: &str| {
        let facets = Facets {
            session: crate::SessionId::parse("s"),
            ..Facets::default()
        };
        let draft = Draft {
            content: entry.into(),
            tier: Tier::Session,
            typology: Typology::Episodic,
            facets,
            ..Draft::default()
        };
        batch().put(id(entry), admit(draft, 1))
    };
    let mut ledger = Ledger::with(&["kept"]);
    ledger.commit(turn("turn"));
    ledger.commit(turn("linked"));
    ledger.commit(batch().link_action(memory(), id("linked"), "a".into(), "r".into()));
    let ends = ["kept", "turn", "linked"]
        .into_iter()
        .fold(batch(), |batch, entry| {
            batch.end_with_session(memory(), id(entry))
        });
    assert_eq!(
        ledger.commit(ends),
        [
            ChangeOutcome::NoChange,
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange
        ]
    );
    assert!(ledger.is_erased("turn"));
}

#[test]
fn forgetting_takes_subjects_and_outranks_snapshots() {
    let mut ledger = Ledger::new();
    let subject = Subject::of(&[1; 32], "ada").unwrap();
    let draft = Draft {
        content: "about Ada".into(),
        subjects: vec![subject],
        ..Draft::default()
    };
    ledger.commit(batch().put(id("e"), admit(draft, 1)));
    ledger.commit(in_run("r").hold_snapshot());
    assert_eq!(ledger.0.subjects.iter().count(), 1);
    let forget = || batch().forget(memory(), id("e"));
    assert_eq!(ledger.commit(forget()), [ChangeOutcome::Removed]);
    assert!(ledger.is_erased("e"));
    assert_eq!(ledger.commit(forget()), [ChangeOutcome::NoChange]);
    let key = ledger.key("e");
    let effects = ledger.effects();
    assert_eq!(effects.subjects, []);
    assert_eq!(effects.forgotten, [key]);
}

#[test]
fn texts_that_an_erased_entry_replaced_are_released() {
    for (reason, released) in [
        (RetireReason::Merged, true),
        (RetireReason::Superseded, true),
    ] {
        let mut ledger = Ledger::with(&["old", "new"]);
        ledger.commit(batch().retire(memory(), id("old"), reason, id("new")));
        assert_eq!(ledger.state("old"), EntryState::Retired(reason));
        assert!(!ledger.is_erased("old"), "its text is kept");
        ledger.commit(batch().delete(memory(), id("new")));
        let state = ledger.state("old");
        assert_eq!(state == EntryState::Deleted, released, "{reason:?}");
        assert!(ledger.effects().has_erasable_text);
    }
}

#[test]
fn history_is_erased_once_it_is_older_than_its_retention() {
    let mut ledger = Ledger::new();
    let facets = Facets {
        valid_at: Some(Timestamp(1)),
        invalid_at: Some(Timestamp(500)),
        ..Facets::default()
    };
    let draft = Draft {
        content: "it was so".into(),
        facets,
        ..Draft::default()
    };
    ledger.commit(batch().put(id("e"), admit(draft, 1)));
    let strip = |before| batch().erase_history(memory(), id("e"), Timestamp(before));
    assert_eq!(ledger.commit(strip(500)), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(strip(501)), [ChangeOutcome::Removed]);
    assert_eq!(ledger.state("e"), EntryState::Invalidated);
    assert!(ledger.is_erased("e"));
}
