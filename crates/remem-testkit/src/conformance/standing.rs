//! Entries that replace others: which texts are kept and for how long, what forgetting erases, what
//! comes back.

use super::memory::{Memory, about};
use super::runs::run;
use super::snapshots::{hold, release, seen_by};
use super::{NOON, admit, draft, id};
use futures_util::future::join_all;
use remem_core::{Batch, Draft, EventKind, Reason, Timestamp};
use remem_store::{EntryState, Outcome, ReadAt, Store, Work};

pub(super) async fn exercise(store: &dyn Store) {
    merging_keeps_the_text_and_adds_support(store).await;
    retiring_needs_both(store).await;
    superseding_keeps_the_text_and_adds_nothing(store).await;
    compacting_is_a_deletion(store).await;
    who_stands_for_others_takes_them_along(store).await;
    an_end_in_time_lets_go_as_well(store).await;
    forgetting_outranks_everything(store).await;
    what_was_deleted_does_not_come_back_by_forgetting(store).await;
    reviving_is_for_what_was_merged_into_nothing(store).await;
    runs_see_what_is_revived_as_they_did(store).await;
    a_revived_entry_still_ends(store).await;
    a_group_is_applied_in_order(store).await;
}

const SNAPSHOT_FREE: [&str; 0] = [];

async fn merging_keeps_the_text_and_adds_support(store: &dyn Store) {
    let m = Memory::new(store, "standing-merged");
    m.put(&["a", "b", "c"]).await;
    let revision = hold(store, &m.s, "run_1").await;
    let before = m.head().await;
    assert_eq!(m.retire("a", Reason::Merged, "b").await, Outcome::Removed);
    assert_eq!(
        m.head().await,
        (
            remem_core::Revision(before.0.0 + 1),
            remem_core::Seq(before.1.0 + 1)
        ),
        "one revision, one event"
    );
    let payload = r#"{"by":"b","memoryId":"a","memoryRef":"m","reason":"merged"}"#;
    let (kind, told) = m.last_event().await;
    let same =
        serde_json::from_str::<serde_json::Value>(&told).ok() == serde_json::from_str(payload).ok();
    assert!(kind == EventKind::Retired && same, "{told}");
    assert_eq!(m.live().await, ["b", "c"]);
    assert_eq!(
        m.seen(&seen_by(revision, &["run_1"])).await,
        ["a", "b", "c"],
        "a snapshot shows it"
    );
    let a = m.lineage("a").await;
    let b = m.lineage("b").await;
    assert_eq!(
        (a.state, a.replaced_by, a.support),
        (EntryState::Retired(Reason::Merged), Some(id("b")), 1)
    );
    assert_eq!(
        (b.state, b.replaced_by, b.support),
        (EntryState::Live, None, 2)
    );
    assert_eq!(
        (b.sources.len(), &b.sources[0].id, b.sources[0].state),
        (1, &id("a"), EntryState::Retired(Reason::Merged))
    );
    assert_eq!((a.derivatives.len(), &a.derivatives[0].id), (1, &id("b")));
    assert_eq!(m.retire("b", Reason::Merged, "c").await, Outcome::Removed);
    assert_eq!(m.lineage("c").await.support, 3, "support adds up");
    release(store, &m.s, "run_1").await;
    assert_eq!(
        m.ended().await,
        SNAPSHOT_FREE,
        "the text is kept without any snapshot"
    );
    assert_eq!(
        (m.erase("a").await, m.erase("b").await),
        (Outcome::Nothing, Outcome::Nothing),
        "nobody may erase it"
    );
    assert!(m.has_text("a").await && m.has_text("b").await);
    assert_eq!(
        m.delete("a").await,
        Outcome::Nothing,
        "it is not there to be deleted"
    );
    m.sound().await;
}

async fn retiring_needs_both(store: &dyn Store) {
    let m = Memory::new(store, "standing-both");
    m.put(&["a", "b", "gone"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word ends")
    };
    m.commit(m.batch().put(id("ends"), admit(&m.s, ends, NOON)))
        .await;
    m.delete("gone").await;
    let head = m.head().await;
    for reason in Reason::ALL {
        for (name, by) in [
            ("a", "a"),
            ("a", "gone"),
            ("gone", "a"),
            ("a", "never"),
            ("never", "a"),
        ] {
            assert_eq!(
                m.retire(name, reason, by).await,
                Outcome::Nothing,
                "{name} {reason:?} {by}"
            );
        }
        for (name, by) in [("a", "ends"), ("ends", "a")] {
            let late = Batch::new(m.s.tenant.clone(), NOON.plus_ms(10)).retire(
                m.memory_ref(),
                id(name),
                reason,
                id(by),
            );
            assert_eq!(
                m.commit(late).await,
                [Outcome::Nothing],
                "{name} {reason:?} {by}: time ran out"
            );
        }
    }
    assert_eq!(m.head().await, head, "nothing is no revision and no event");
    assert_eq!(
        (m.live().await, m.lineage("a").await.support),
        (vec!["a".to_owned(), "b".to_owned(), "ends".to_owned()], 1)
    );
    assert_eq!(
        m.retire("a", Reason::Superseded, "b").await,
        Outcome::Removed
    );
    assert_eq!(
        m.retire("a", Reason::Merged, "b").await,
        Outcome::Nothing,
        "it is gone already"
    );
    assert_eq!(
        (m.state("a").await, m.lineage("b").await.support),
        (EntryState::Retired(Reason::Superseded), 1)
    );
    m.sound().await;
}

async fn superseding_keeps_the_text_and_adds_nothing(store: &dyn Store) {
    let m = Memory::new(store, "standing-superseded");
    m.put(&["old", "new"]).await;
    let revision = hold(store, &m.s, "run_1").await;
    let own = m.batch().in_run(run("run_1")).retire(
        m.memory_ref(),
        id("old"),
        Reason::Superseded,
        id("new"),
    );
    assert_eq!(m.commit(own).await, [Outcome::Removed]);
    assert_eq!(
        m.seen(&seen_by(revision, &["run_1"])).await,
        ["new"],
        "the run that did it sees it no more"
    );
    assert_eq!(m.seen(&seen_by(revision, &[])).await, ["new", "old"]);
    release(store, &m.s, "run_1").await;
    let old = m.lineage("old").await;
    let new = m.lineage("new").await;
    assert_eq!(
        (old.state, old.replaced_by),
        (EntryState::Retired(Reason::Superseded), Some(id("new")))
    );
    assert_eq!(
        (new.support, new.sources.len(), old.derivatives.len()),
        (1, 0, 0),
        "it says something else"
    );
    assert!(m.has_text("old").await && m.ended().await.is_empty());
    m.sound().await;
}

async fn compacting_is_a_deletion(store: &dyn Store) {
    let m = Memory::new(store, "standing-compacted");
    m.put(&["a", "b", "gist", "below"]).await;
    m.retire("below", Reason::Merged, "a").await;
    m.retire("a", Reason::Compacted, "gist").await;
    assert!(!m.has_text("a").await, "nobody holds it");
    assert_eq!(
        (m.state("a").await, m.lineage("a").await.replaced_by),
        (EntryState::Retired(Reason::Compacted), Some(id("gist")))
    );
    assert_eq!(
        m.ended().await,
        ["below"],
        "what it stood for goes after it"
    );
    assert_eq!(m.purge().await, ["below"]);
    let revision = hold(store, &m.s, "run_1").await;
    m.retire("b", Reason::Compacted, "gist").await;
    assert_eq!(
        (m.ended().await.len(), m.erase("b").await),
        (0, Outcome::Nothing),
        "a run reads it"
    );
    assert_eq!(
        (m.live().await, m.seen(&seen_by(revision, &[])).await),
        (
            vec!["gist".to_owned()],
            vec!["b".to_owned(), "gist".to_owned()]
        )
    );
    release(store, &m.s, "run_1").await;
    assert_eq!(m.purge().await, ["b"]);
    assert!(m.has_text("gist").await && !m.has_text("b").await);
    assert_eq!(m.lineage("gist").await.support, 1);
    m.sound().await;
}

async fn who_stands_for_others_takes_them_along(store: &dyn Store) {
    let m = Memory::new(store, "standing-let-go");
    m.put(&["a", "b", "c", "d", "old"]).await;
    m.retire("old", Reason::Superseded, "b").await;
    m.retire("a", Reason::Merged, "b").await;
    m.retire("b", Reason::Merged, "c").await;
    let revision = hold(store, &m.s, "run_1").await;
    m.delete("c").await;
    assert_eq!(
        m.ended().await,
        SNAPSHOT_FREE,
        "c has its text for the run, so those it stands for have theirs"
    );
    assert!(m.has_text("a").await && m.has_text("b").await);
    assert_eq!(m.seen(&seen_by(revision, &[])).await, ["c", "d"]);
    release(store, &m.s, "run_1").await;
    assert_eq!(m.ended().await, ["c"]);
    let mut gone = m.purge().await;
    gone.sort();
    assert_eq!(gone, ["a", "b", "c", "old"], "down the whole chain");
    for name in ["a", "b", "c", "old"] {
        assert_eq!(
            (m.state(name).await, m.has_text(name).await),
            (EntryState::Deleted, false),
            "{name}"
        );
        assert_eq!(m.revive(name).await, Outcome::Nothing, "{name}");
    }
    assert_eq!(m.live().await, ["d"]);
    m.sound().await;
}

async fn an_end_in_time_lets_go_as_well(store: &dyn Store) {
    let m = Memory::new(store, "standing-expired");
    m.put(&["a"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word b")
    };
    m.commit(m.batch().put(id("b"), admit(&m.s, ends, NOON)))
        .await;
    m.retire("a", Reason::Merged, "b").await;
    let late = Batch::new(m.s.tenant.clone(), NOON.plus_ms(10)).expire(m.memory_ref(), id("b"));
    assert_eq!(m.commit(late).await, [Outcome::Removed]);
    assert_eq!(
        (m.revive("a").await, m.purge().await),
        (Outcome::Nothing, vec!["a".to_owned()])
    );
    m.sound().await;
}

async fn forgetting_outranks_everything(store: &dyn Store) {
    let m = Memory::new(store, "standing-forget");
    for name in [
        "live",
        "deleted",
        "merged",
        "superseded",
        "compacted",
        "stays",
    ] {
        m.put_about(name, &[about(1)], &[]).await;
    }
    let revision = hold(store, &m.s, "run_1").await;
    m.delete("deleted").await;
    m.retire("merged", Reason::Merged, "stays").await;
    m.retire("superseded", Reason::Superseded, "stays").await;
    m.retire("compacted", Reason::Compacted, "stays").await;
    assert_eq!(m.seen(&seen_by(revision, &[])).await.len(), 6);
    for (n, name) in ["live", "deleted", "merged", "superseded", "compacted"]
        .into_iter()
        .enumerate()
    {
        let by = m.lineage(name).await.replaced_by;
        assert_eq!(m.forget(name).await, Outcome::Removed, "{name}");
        assert_eq!(m.last_event().await.0, EventKind::Forgotten, "{name}");
        assert!(
            !m.has_text(name).await,
            "{name} is gone for everybody, though a run holds a snapshot"
        );
        assert_eq!(m.seen(&seen_by(revision, &[])).await.len(), 5 - n, "{name}");
        assert_eq!(
            (m.state(name).await, m.lineage(name).await.replaced_by),
            (EntryState::Forgotten, by),
            "{name}"
        );
        let head = m.head().await;
        assert_eq!(
            (m.forget(name).await, m.head().await),
            (Outcome::Nothing, head),
            "{name}: once"
        );
    }
    assert_eq!(
        (m.forget("never").await, m.live().await),
        (Outcome::Nothing, vec!["stays".to_owned()])
    );
    let trace = store.trace(&m.s.tenant, &about(1)).await.expect("read");
    assert_eq!(
        trace
            .entries
            .iter()
            .map(|e| e.id.as_str())
            .collect::<Vec<_>>(),
        ["stays"],
        "what it was about is forgotten with it"
    );
    m.delete("stays").await;
    release(store, &m.s, "run_1").await;
    m.purge().await;
    assert_eq!(
        store
            .trace(&m.s.tenant, &about(1))
            .await
            .expect("read")
            .entries
            .len(),
        1,
        "a skeleton keeps its subjects"
    );
    assert_eq!(
        m.forget("stays").await,
        Outcome::Nothing,
        "there is no text left"
    );
    assert!(
        store
            .trace(&m.s.tenant, &about(1))
            .await
            .expect("read")
            .entries
            .is_empty(),
        "and its subjects go all the same"
    );
    m.sound().await;
}

async fn what_was_deleted_does_not_come_back_by_forgetting(store: &dyn Store) {
    let m = Memory::new(store, "standing-deleted-forgotten");
    m.put(&["a", "b", "old", "kept", "of-kept"]).await;
    hold(store, &m.s, "run_1").await;
    m.retire("a", Reason::Merged, "b").await;
    m.retire("old", Reason::Superseded, "kept").await;
    m.retire("of-kept", Reason::Merged, "kept").await;
    m.delete("b").await;
    let batch = m
        .batch()
        .forget(m.memory_ref(), id("b"))
        .revive(m.memory_ref(), id("a"));
    assert_eq!(
        m.commit(batch).await,
        [Outcome::Removed, Outcome::Nothing],
        "a was deleted with b"
    );
    assert_eq!(
        (m.state("a").await, m.revive("a").await),
        (EntryState::Deleted, Outcome::Nothing)
    );
    assert_eq!(m.forget("kept").await, Outcome::Removed);
    assert_eq!(
        m.revive("old").await,
        Outcome::Nothing,
        "what was overtaken does not come back"
    );
    assert_eq!(
        (m.state("old").await, m.state("of-kept").await),
        (EntryState::Deleted, EntryState::Retired(Reason::Merged))
    );
    release(store, &m.s, "run_1").await;
    let mut gone = m.purge().await;
    gone.sort();
    assert_eq!(
        (gone, m.live().await),
        (vec!["a".to_owned(), "old".to_owned()], Vec::<String>::new())
    );
    assert_eq!(
        m.revive("of-kept").await,
        Outcome::Done,
        "whoever forgets decides later, too"
    );
    assert_eq!(m.live().await, ["of-kept"]);
    m.sound().await;
}

async fn reviving_is_for_what_was_merged_into_nothing(store: &dyn Store) {
    let m = Memory::new(store, "standing-revive");
    m.put(&["a", "b", "c", "d", "old", "gist", "compacted"])
        .await;
    for name in ["a", "never"] {
        assert_eq!(m.revive(name).await, Outcome::Nothing, "{name}");
    }
    m.retire("a", Reason::Merged, "b").await;
    m.retire("old", Reason::Superseded, "b").await;
    m.retire("compacted", Reason::Compacted, "gist").await;
    let head = m.head().await;
    assert_eq!(
        (
            m.revive("a").await,
            m.revive("old").await,
            m.revive("compacted").await
        ),
        (Outcome::Nothing, Outcome::Nothing, Outcome::Nothing)
    );
    assert_eq!(m.head().await, head);
    let batch = m
        .batch()
        .forget(m.memory_ref(), id("b"))
        .revive(m.memory_ref(), id("a"))
        .revive(m.memory_ref(), id("old"));
    assert_eq!(
        m.commit(batch).await,
        [Outcome::Removed, Outcome::Done, Outcome::Nothing]
    );
    assert_eq!(m.last_event().await.0, EventKind::Revived);
    assert_eq!(m.live().await, ["a", "c", "d", "gist"]);
    let a = m.lineage("a").await;
    assert_eq!(
        (a.state, a.replaced_by, a.support),
        (EntryState::Live, None, 1)
    );
    assert_eq!(m.revive("a").await, Outcome::Nothing, "it is there");
    // It can be merged again, and does not come back for the reason of the first time.
    m.retire("a", Reason::Merged, "c").await;
    assert_eq!(
        (m.revive("a").await, m.lineage("c").await.support),
        (Outcome::Nothing, 2)
    );
    m.retire("d", Reason::Merged, "c").await;
    m.forget("c").await;
    m.forget("d").await;
    assert_eq!(
        (m.revive("d").await, m.revive("a").await),
        (Outcome::Nothing, Outcome::Done),
        "later, and only what has a text"
    );
    m.delete("a").await;
    assert_eq!(
        (
            m.state("a").await,
            m.lineage("a").await.replaced_by,
            m.has_text("a").await
        ),
        (EntryState::Deleted, None, false)
    );
    assert_eq!(m.purge().await, ["old"]);
    m.sound().await;
}

async fn runs_see_what_is_revived_as_they_did(store: &dyn Store) {
    for early in [false, true] {
        let m = Memory::new(
            store,
            if early {
                "standing-revive-early"
            } else {
                "standing-revive-late"
            },
        );
        m.put(&["a", "b"]).await;
        let before = if early {
            hold(store, &m.s, "run_1").await
        } else {
            m.head().await.0
        };
        m.retire("a", Reason::Merged, "b").await;
        let between = hold(store, &m.s, "run_2").await;
        assert_eq!(m.seen(&seen_by(between, &[])).await, ["b"]);
        m.commit(
            m.batch()
                .forget(m.memory_ref(), id("b"))
                .revive(m.memory_ref(), id("a")),
        )
        .await;
        assert_eq!(m.live().await, ["a"]);
        if early {
            assert_eq!(
                m.seen(&seen_by(before, &["run_1"])).await,
                ["a"],
                "it was there when the run began, and is"
            );
        } else {
            assert_eq!(
                m.seen(&seen_by(between, &["run_2"])).await,
                SNAPSHOT_FREE,
                "it does not appear to a run that never saw it"
            );
        }
        let after = hold(store, &m.s, "run_3").await;
        assert_eq!(m.seen(&seen_by(after, &["run_3"])).await, ["a"]);
        for name in ["run_1", "run_2", "run_3"] {
            release(store, &m.s, name).await;
        }
        m.sound().await;
    }
}

async fn a_revived_entry_still_ends(store: &dyn Store) {
    let m = Memory::new(store, "standing-revive-ends");
    m.put(&["b"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word a")
    };
    m.commit(m.batch().put(id("a"), admit(&m.s, ends, NOON)))
        .await;
    m.retire("a", Reason::Merged, "b").await;
    let late = Timestamp(NOON.0 + 10);
    m.store
        .scrub(&m.s.tenant, NOON, false)
        .await
        .expect("scrubbed");
    assert!(
        store
            .expired(&m.s.tenant, late, 9)
            .await
            .expect("read")
            .is_empty()
    );
    m.commit(
        m.batch()
            .forget(m.memory_ref(), id("b"))
            .revive(m.memory_ref(), id("a")),
    )
    .await;
    assert_eq!(m.live().await, ["a"]);
    assert!(m.seen(&ReadAt::Now(late)).await.is_empty());
    assert_eq!(
        store.expired(&m.s.tenant, late, 9).await.expect("read"),
        [(m.memory_ref(), id("a"))]
    );
    assert!(
        store
            .due(Work::Purge, late)
            .await
            .expect("read")
            .contains(&m.s.tenant),
        "somebody is told of it"
    );
    m.sound().await;
}

/// Batches that wait share a transaction; each must see the effects of the ones before it.
async fn a_group_is_applied_in_order(store: &dyn Store) {
    let m = Memory::new(store, "standing-group");
    m.put(&["a", "b", "c", "d", "e", "x", "y"]).await;
    let of = || m.memory_ref();
    let retire = |name: &str, reason, by: &str| m.batch().retire(of(), id(name), reason, id(by));
    let batches = vec![
        m.batch(),
        // An entry that is merged, survives, comes back and is merged again.
        retire("a", Reason::Merged, "b"),
        retire("b", Reason::Merged, "c"),
        m.batch().sign(of(), id("c"), 1, vec![1]),
        m.batch().forget(of(), id("b")).revive(of(), id("a")),
        retire("a", Reason::Merged, "d"),
        m.batch().revive(of(), id("a")),
        m.batch()
            .sign(of(), id("d"), 1, vec![1])
            .sign(of(), id("a"), 1, vec![1]),
        // An entry that replaced another is deleted: the other one is no longer merged but deleted.
        retire("x", Reason::Merged, "y"),
        m.batch().delete(of(), id("y")),
        m.batch().revive(of(), id("x")),
        m.batch().erase(of(), id("x")),
        // A new entry that is merged into another at once.
        m.batch()
            .put(id("new"), admit(&m.s, draft("word new"), NOON))
            .retire(of(), id("e"), Reason::Compacted, id("new")),
        retire("new", Reason::Superseded, "d"),
        retire("d", Reason::Merged, "c"),
        retire("d", Reason::Merged, "a"),
    ];
    let answers = join_all(batches.into_iter().map(|batch| store.commit(batch))).await;
    let outcomes: Vec<Vec<Outcome>> = answers
        .into_iter()
        .map(|answer| answer.expect("applied").outcomes)
        .collect();
    let stored = |o: &Outcome| matches!(o, Outcome::Stored { .. });
    let removed = || vec![Outcome::Removed];
    let nothing = || vec![Outcome::Nothing];
    let done = || vec![Outcome::Done];
    assert_eq!(outcomes[..4], [vec![], removed(), removed(), done()]);
    assert_eq!(outcomes[4], [Outcome::Removed, Outcome::Done]);
    assert_eq!(
        (&outcomes[5], &outcomes[6]),
        (&removed(), &nothing()),
        "d has its text"
    );
    assert_eq!(outcomes[7], [Outcome::Done, Outcome::Nothing]);
    assert_eq!(
        outcomes[8..12],
        [removed(), removed(), nothing(), removed()]
    );
    assert!(stored(&outcomes[12][0]) && outcomes[12][1] == Outcome::Removed);
    assert_eq!(outcomes[13..], [removed(), removed(), nothing()]);
    assert_eq!(m.live().await, ["c"]);
    let c = m.lineage("c").await;
    assert_eq!(
        c.support,
        1 + 2 + 2,
        "itself, b with what was merged into it, and d with a"
    );
    for (name, state, by, text) in [
        ("a", EntryState::Retired(Reason::Merged), Some("d"), true),
        ("b", EntryState::Forgotten, Some("c"), false),
        ("d", EntryState::Retired(Reason::Merged), Some("c"), true),
        (
            "e",
            EntryState::Retired(Reason::Compacted),
            Some("new"),
            false,
        ),
        (
            "new",
            EntryState::Retired(Reason::Superseded),
            Some("d"),
            true,
        ),
        ("x", EntryState::Deleted, Some("y"), false),
        ("y", EntryState::Deleted, None, false),
    ] {
        let lineage = m.lineage(name).await;
        assert_eq!(
            (lineage.state, lineage.replaced_by, m.has_text(name).await),
            (state, by.map(id), text),
            "{name}"
        );
    }
    let signed = store.signatures(&m.s, None, 9).await.expect("read");
    assert_eq!(
        signed.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(),
        ["c"],
        "a signature goes with its entry"
    );
    m.sound().await;
}
