//! Entries that replace others: which texts are kept and for how long, what forgetting erases, what
//! comes back.

use super::memory::{MemoryFixture, subject};
use super::runs::run;
use super::snapshots::{close_snapshot, open_snapshot, snapshot_at};
use super::{NOON, admit, draft, id};
use futures_util::future::join_all;
use remem_core::{Batch, Draft, EventKind, RetireReason, Timestamp};
use remem_store::{ChangeOutcome, DueWork, EntryState, ReadAt, Store, TracePosition};

pub(super) async fn exercise(store: &dyn Store) {
    merging_keeps_the_text_and_adds_support(store).await;
    retiring_needs_both_entries_live(store).await;
    superseding_keeps_the_text_and_adds_nothing(store).await;
    compacting_is_a_deletion(store).await;
    ending_a_digest_ends_what_it_replaced(store).await;
    expiry_of_a_digest_ends_what_it_replaced(store).await;
    forgetting_overrides_every_other_end(store).await;
    forgetting_does_not_revive_deleted_entries(store).await;
    only_entries_merged_into_an_ended_one_are_revived(store).await;
    snapshots_see_revived_entries_unchanged(store).await;
    a_revived_entry_keeps_its_expiry(store).await;
    a_group_is_applied_in_order(store).await;
}

const SNAPSHOT_FREE: [&str; 0] = [];

async fn merging_keeps_the_text_and_adds_support(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-merged");
    m.put(&["a", "b", "c"]).await;
    let revision = open_snapshot(store, &m.s, "run_1").await;
    let before = m.head().await;
    assert_eq!(
        m.retire("a", RetireReason::Merged, "b").await,
        ChangeOutcome::Removed
    );
    assert_eq!(
        m.head().await,
        (
            remem_core::Revision(before.0.0 + 1),
            remem_core::Seq(before.1.0 + 1)
        ),
        "one revision, one event"
    );
    let payload = r#"{"by":"b","memoryId":"a","memoryRef":"m","reason":"merged"}"#;
    let (kind, reported) = m.last_event().await;
    let same = serde_json::from_str::<serde_json::Value>(&reported).ok()
        == serde_json::from_str(payload).ok();
    assert!(kind == EventKind::Retired && same, "{reported}");
    assert_eq!(m.live().await, ["b", "c"]);
    assert_eq!(
        m.visible(&snapshot_at(revision, &["run_1"])).await,
        ["a", "b", "c"],
        "a snapshot shows it"
    );
    let a = m.lineage("a").await;
    let b = m.lineage("b").await;
    assert_eq!(
        (a.state, a.replaced_by, a.support),
        (EntryState::Retired(RetireReason::Merged), Some(id("b")), 1)
    );
    assert_eq!(
        (b.state, b.replaced_by, b.support),
        (EntryState::Live, None, 2)
    );
    assert_eq!(
        (b.sources.len(), &b.sources[0].id, b.sources[0].state),
        (1, &id("a"), EntryState::Retired(RetireReason::Merged))
    );
    assert_eq!((a.derivatives.len(), &a.derivatives[0].id), (1, &id("b")));
    assert_eq!(
        m.retire("b", RetireReason::Merged, "c").await,
        ChangeOutcome::Removed
    );
    assert_eq!(m.lineage("c").await.support, 3, "support adds up");
    close_snapshot(store, &m.s, "run_1").await;
    assert_eq!(
        m.ended().await,
        SNAPSHOT_FREE,
        "the text is kept without any snapshot"
    );
    assert_eq!(
        (m.erase("a").await, m.erase("b").await),
        (ChangeOutcome::NoChange, ChangeOutcome::NoChange),
        "nobody may erase it"
    );
    assert!(m.has_text("a").await && m.has_text("b").await);
    assert_eq!(
        m.delete("a").await,
        ChangeOutcome::NoChange,
        "it is not there to be deleted"
    );
    m.verify().await;
}

async fn retiring_needs_both_entries_live(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-both");
    m.put(&["a", "b", "gone"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word ends")
    };
    m.commit(m.batch().put(id("ends"), admit(&m.s, ends, NOON)))
        .await;
    m.delete("gone").await;
    let head = m.head().await;
    for reason in RetireReason::ALL {
        for (name, by) in [
            ("a", "a"),
            ("a", "gone"),
            ("gone", "a"),
            ("a", "never"),
            ("never", "a"),
        ] {
            assert_eq!(
                m.retire(name, reason, by).await,
                ChangeOutcome::NoChange,
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
                [ChangeOutcome::NoChange],
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
        m.retire("a", RetireReason::Superseded, "b").await,
        ChangeOutcome::Removed
    );
    assert_eq!(
        m.retire("a", RetireReason::Merged, "b").await,
        ChangeOutcome::NoChange,
        "it is gone already"
    );
    assert_eq!(
        (m.state("a").await, m.lineage("b").await.support),
        (EntryState::Retired(RetireReason::Superseded), 1)
    );
    m.verify().await;
}

async fn superseding_keeps_the_text_and_adds_nothing(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-superseded");
    m.put(&["old", "new"]).await;
    let revision = open_snapshot(store, &m.s, "run_1").await;
    let own = m.batch().in_run(run("run_1")).retire(
        m.memory_ref(),
        id("old"),
        RetireReason::Superseded,
        id("new"),
    );
    assert_eq!(m.commit(own).await, [ChangeOutcome::Removed]);
    assert_eq!(
        m.visible(&snapshot_at(revision, &["run_1"])).await,
        ["new"],
        "the run that did it sees it no more"
    );
    assert_eq!(m.visible(&snapshot_at(revision, &[])).await, ["new", "old"]);
    close_snapshot(store, &m.s, "run_1").await;
    let old = m.lineage("old").await;
    let new = m.lineage("new").await;
    assert_eq!(
        (old.state, old.replaced_by),
        (
            EntryState::Retired(RetireReason::Superseded),
            Some(id("new"))
        )
    );
    assert_eq!(
        (new.support, new.sources.len(), old.derivatives.len()),
        (1, 0, 0),
        "it says something else"
    );
    assert!(m.has_text("old").await && m.ended().await.is_empty());
    m.verify().await;
}

async fn compacting_is_a_deletion(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-compacted");
    m.put(&["a", "b", "gist", "below"]).await;
    m.retire("below", RetireReason::Merged, "a").await;
    m.retire("a", RetireReason::Compacted, "gist").await;
    assert!(!m.has_text("a").await, "nobody holds it");
    assert_eq!(
        (m.state("a").await, m.lineage("a").await.replaced_by),
        (
            EntryState::Retired(RetireReason::Compacted),
            Some(id("gist"))
        )
    );
    assert_eq!(
        m.ended().await,
        ["below"],
        "what it stood for goes after it"
    );
    assert_eq!(m.purge().await, ["below"]);
    let revision = open_snapshot(store, &m.s, "run_1").await;
    m.retire("b", RetireReason::Compacted, "gist").await;
    assert_eq!(
        (m.ended().await.len(), m.erase("b").await),
        (0, ChangeOutcome::NoChange),
        "a run reads it"
    );
    assert_eq!(
        (m.live().await, m.visible(&snapshot_at(revision, &[])).await),
        (
            vec!["gist".to_owned()],
            vec!["b".to_owned(), "gist".to_owned()]
        )
    );
    close_snapshot(store, &m.s, "run_1").await;
    assert_eq!(m.purge().await, ["b"]);
    assert!(m.has_text("gist").await && !m.has_text("b").await);
    assert_eq!(m.lineage("gist").await.support, 1);
    m.verify().await;
}

async fn ending_a_digest_ends_what_it_replaced(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-let-go");
    m.put(&["a", "b", "c", "d", "old"]).await;
    m.retire("old", RetireReason::Superseded, "b").await;
    m.retire("a", RetireReason::Merged, "b").await;
    m.retire("b", RetireReason::Merged, "c").await;
    let revision = open_snapshot(store, &m.s, "run_1").await;
    m.delete("c").await;
    assert_eq!(
        m.ended().await,
        SNAPSHOT_FREE,
        "c has its text for the run, so those it stands for have theirs"
    );
    assert!(m.has_text("a").await && m.has_text("b").await);
    assert_eq!(m.visible(&snapshot_at(revision, &[])).await, ["c", "d"]);
    close_snapshot(store, &m.s, "run_1").await;
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
        assert_eq!(m.revive(name).await, ChangeOutcome::NoChange, "{name}");
    }
    assert_eq!(m.live().await, ["d"]);
    m.verify().await;
}

async fn expiry_of_a_digest_ends_what_it_replaced(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-expired");
    m.put(&["a"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word b")
    };
    m.commit(m.batch().put(id("b"), admit(&m.s, ends, NOON)))
        .await;
    m.retire("a", RetireReason::Merged, "b").await;
    let late = Batch::new(m.s.tenant.clone(), NOON.plus_ms(10)).expire(m.memory_ref(), id("b"));
    assert_eq!(m.commit(late).await, [ChangeOutcome::Removed]);
    assert_eq!(
        (m.revive("a").await, m.purge().await),
        (ChangeOutcome::NoChange, vec!["a".to_owned()])
    );
    m.verify().await;
}

async fn forgetting_overrides_every_other_end(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-forget");
    for name in [
        "live",
        "deleted",
        "merged",
        "superseded",
        "compacted",
        "stays",
    ] {
        m.put_about(name, &[subject(1)], &[]).await;
    }
    let revision = open_snapshot(store, &m.s, "run_1").await;
    m.delete("deleted").await;
    m.retire("merged", RetireReason::Merged, "stays").await;
    m.retire("superseded", RetireReason::Superseded, "stays")
        .await;
    m.retire("compacted", RetireReason::Compacted, "stays")
        .await;
    assert_eq!(m.visible(&snapshot_at(revision, &[])).await.len(), 6);
    for (n, name) in ["live", "deleted", "merged", "superseded", "compacted"]
        .into_iter()
        .enumerate()
    {
        let by = m.lineage(name).await.replaced_by;
        assert_eq!(m.forget(name).await, ChangeOutcome::Removed, "{name}");
        assert_eq!(m.last_event().await.0, EventKind::Forgotten, "{name}");
        assert!(
            !m.has_text(name).await,
            "{name} is gone for everybody, though a run holds a snapshot"
        );
        assert_eq!(
            m.visible(&snapshot_at(revision, &[])).await.len(),
            5 - n,
            "{name}"
        );
        assert_eq!(
            (m.state(name).await, m.lineage(name).await.replaced_by),
            (EntryState::Forgotten, by),
            "{name}"
        );
        let head = m.head().await;
        assert_eq!(
            (m.forget(name).await, m.head().await),
            (ChangeOutcome::NoChange, head),
            "{name}: once"
        );
    }
    assert_eq!(
        (m.forget("never").await, m.live().await),
        (ChangeOutcome::NoChange, vec!["stays".to_owned()])
    );
    let trace = store
        .trace_subject(&m.s.tenant, &subject(1), TracePosition::default(), 100)
        .await
        .expect("read");
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
    close_snapshot(store, &m.s, "run_1").await;
    m.purge().await;
    assert_eq!(
        store
            .trace_subject(&m.s.tenant, &subject(1), TracePosition::default(), 100)
            .await
            .expect("read")
            .entries
            .len(),
        1,
        "a skeleton keeps its subjects"
    );
    assert_eq!(
        m.forget("stays").await,
        ChangeOutcome::NoChange,
        "there is no text left"
    );
    assert!(
        store
            .trace_subject(&m.s.tenant, &subject(1), TracePosition::default(), 100)
            .await
            .expect("read")
            .entries
            .is_empty(),
        "and its subjects go all the same"
    );
    m.verify().await;
}

async fn forgetting_does_not_revive_deleted_entries(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-deleted-forgotten");
    m.put(&["a", "b", "old", "kept", "of-kept"]).await;
    open_snapshot(store, &m.s, "run_1").await;
    m.retire("a", RetireReason::Merged, "b").await;
    m.retire("old", RetireReason::Superseded, "kept").await;
    m.retire("of-kept", RetireReason::Merged, "kept").await;
    m.delete("b").await;
    let batch = m
        .batch()
        .forget(m.memory_ref(), id("b"))
        .revive(m.memory_ref(), id("a"));
    assert_eq!(
        m.commit(batch).await,
        [ChangeOutcome::Removed, ChangeOutcome::NoChange],
        "a was deleted with b"
    );
    assert_eq!(
        (m.state("a").await, m.revive("a").await),
        (EntryState::Deleted, ChangeOutcome::NoChange)
    );
    assert_eq!(m.forget("kept").await, ChangeOutcome::Removed);
    assert_eq!(
        m.revive("old").await,
        ChangeOutcome::NoChange,
        "what was overtaken does not come back"
    );
    assert_eq!(
        (m.state("old").await, m.state("of-kept").await),
        (
            EntryState::Deleted,
            EntryState::Retired(RetireReason::Merged)
        )
    );
    close_snapshot(store, &m.s, "run_1").await;
    let mut gone = m.purge().await;
    gone.sort();
    assert_eq!(
        (gone, m.live().await),
        (vec!["a".to_owned(), "old".to_owned()], Vec::<String>::new())
    );
    assert_eq!(
        m.revive("of-kept").await,
        ChangeOutcome::Done,
        "whoever forgets decides later, too"
    );
    assert_eq!(m.live().await, ["of-kept"]);
    m.verify().await;
}

async fn only_entries_merged_into_an_ended_one_are_revived(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-revive");
    m.put(&["a", "b", "c", "d", "old", "gist", "compacted"])
        .await;
    for name in ["a", "never"] {
        assert_eq!(m.revive(name).await, ChangeOutcome::NoChange, "{name}");
    }
    m.retire("a", RetireReason::Merged, "b").await;
    m.retire("old", RetireReason::Superseded, "b").await;
    m.retire("compacted", RetireReason::Compacted, "gist").await;
    let head = m.head().await;
    assert_eq!(
        (
            m.revive("a").await,
            m.revive("old").await,
            m.revive("compacted").await
        ),
        (
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange
        )
    );
    assert_eq!(m.head().await, head);
    let batch = m
        .batch()
        .forget(m.memory_ref(), id("b"))
        .revive(m.memory_ref(), id("a"))
        .revive(m.memory_ref(), id("old"));
    assert_eq!(
        m.commit(batch).await,
        [
            ChangeOutcome::Removed,
            ChangeOutcome::Done,
            ChangeOutcome::NoChange
        ]
    );
    assert_eq!(m.last_event().await.0, EventKind::Revived);
    assert_eq!(m.live().await, ["a", "c", "d", "gist"]);
    let a = m.lineage("a").await;
    assert_eq!(
        (a.state, a.replaced_by, a.support),
        (EntryState::Live, None, 1)
    );
    assert_eq!(m.revive("a").await, ChangeOutcome::NoChange, "it is there");
    // It can be merged again, and does not come back for the reason of the first time.
    m.retire("a", RetireReason::Merged, "c").await;
    assert_eq!(
        (m.revive("a").await, m.lineage("c").await.support),
        (ChangeOutcome::NoChange, 2)
    );
    m.retire("d", RetireReason::Merged, "c").await;
    m.forget("c").await;
    m.forget("d").await;
    assert_eq!(
        (m.revive("d").await, m.revive("a").await),
        (ChangeOutcome::NoChange, ChangeOutcome::Done),
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
    m.verify().await;
}

async fn snapshots_see_revived_entries_unchanged(store: &dyn Store) {
    for early in [false, true] {
        let m = MemoryFixture::new(
            store,
            if early {
                "standing-revive-early"
            } else {
                "standing-revive-late"
            },
        );
        m.put(&["a", "b"]).await;
        let before = if early {
            open_snapshot(store, &m.s, "run_1").await
        } else {
            m.head().await.0
        };
        m.retire("a", RetireReason::Merged, "b").await;
        let between = open_snapshot(store, &m.s, "run_2").await;
        assert_eq!(m.visible(&snapshot_at(between, &[])).await, ["b"]);
        m.commit(
            m.batch()
                .forget(m.memory_ref(), id("b"))
                .revive(m.memory_ref(), id("a")),
        )
        .await;
        assert_eq!(m.live().await, ["a"]);
        if early {
            assert_eq!(
                m.visible(&snapshot_at(before, &["run_1"])).await,
                ["a"],
                "it was there when the run began, and is"
            );
        } else {
            assert_eq!(
                m.visible(&snapshot_at(between, &["run_2"])).await,
                SNAPSHOT_FREE,
                "it does not appear to a run that never saw it"
            );
        }
        let after = open_snapshot(store, &m.s, "run_3").await;
        assert_eq!(m.visible(&snapshot_at(after, &["run_3"])).await, ["a"]);
        for name in ["run_1", "run_2", "run_3"] {
            close_snapshot(store, &m.s, name).await;
        }
        m.verify().await;
    }
}

async fn a_revived_entry_keeps_its_expiry(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-revive-ends");
    m.put(&["b"]).await;
    let ends = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("word a")
    };
    m.commit(m.batch().put(id("a"), admit(&m.s, ends, NOON)))
        .await;
    m.retire("a", RetireReason::Merged, "b").await;
    let late = Timestamp(NOON.0 + 10);
    m.store
        .scrub(&m.s.tenant, NOON, false)
        .await
        .expect("scrubbed");
    assert!(
        store
            .expired_entries(&m.s.tenant, late, 9)
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
    assert!(m.visible(&ReadAt::Now(late)).await.is_empty());
    assert_eq!(
        store
            .expired_entries(&m.s.tenant, late, 9)
            .await
            .expect("read"),
        [(m.memory_ref(), id("a"))]
    );
    assert!(
        store
            .tenants_with_work(DueWork::Purge, late)
            .await
            .expect("read")
            .contains(&m.s.tenant),
        "somebody is told of it"
    );
    m.verify().await;
}

/// Batches that wait share a transaction; each must see the effects of the ones before it.
async fn a_group_is_applied_in_order(store: &dyn Store) {
    let m = MemoryFixture::new(store, "standing-group");
    m.put(&["a", "b", "c", "d", "e", "x", "y"]).await;
    let of = || m.memory_ref();
    let retire = |name: &str, reason, by: &str| m.batch().retire(of(), id(name), reason, id(by));
    let batches = vec![
        m.batch(),
        // An entry that is merged, survives, comes back and is merged again.
        retire("a", RetireReason::Merged, "b"),
        retire("b", RetireReason::Merged, "c"),
        m.batch().store_signature(of(), id("c"), 1, vec![1]),
        m.batch().forget(of(), id("b")).revive(of(), id("a")),
        retire("a", RetireReason::Merged, "d"),
        m.batch().revive(of(), id("a")),
        m.batch()
            .store_signature(of(), id("d"), 1, vec![1])
            .store_signature(of(), id("a"), 1, vec![1]),
        // An entry that replaced another is deleted: the other one is no longer merged but deleted.
        retire("x", RetireReason::Merged, "y"),
        m.batch().delete(of(), id("y")),
        m.batch().revive(of(), id("x")),
        m.batch().erase(of(), id("x")),
        // A new entry that is merged into another at once.
        m.batch()
            .put(id("new"), admit(&m.s, draft("word new"), NOON))
            .retire(of(), id("e"), RetireReason::Compacted, id("new")),
        retire("new", RetireReason::Superseded, "d"),
        retire("d", RetireReason::Merged, "c"),
        retire("d", RetireReason::Merged, "a"),
    ];
    let answers = join_all(batches.into_iter().map(|batch| store.commit(batch))).await;
    let outcomes: Vec<Vec<ChangeOutcome>> = answers
        .into_iter()
        .map(|answer| answer.expect("applied").outcomes)
        .collect();
    let stored = |o: &ChangeOutcome| matches!(o, ChangeOutcome::Stored { .. });
    let removed = || vec![ChangeOutcome::Removed];
    let nothing = || vec![ChangeOutcome::NoChange];
    let done = || vec![ChangeOutcome::Done];
    assert_eq!(outcomes[..4], [vec![], removed(), removed(), done()]);
    assert_eq!(outcomes[4], [ChangeOutcome::Removed, ChangeOutcome::Done]);
    assert_eq!(
        (&outcomes[5], &outcomes[6]),
        (&removed(), &nothing()),
        "d has its text"
    );
    assert_eq!(outcomes[7], [ChangeOutcome::Done, ChangeOutcome::NoChange]);
    assert_eq!(
        outcomes[8..12],
        [removed(), removed(), nothing(), removed()]
    );
    assert!(stored(&outcomes[12][0]) && outcomes[12][1] == ChangeOutcome::Removed);
    assert_eq!(outcomes[13..], [removed(), removed(), nothing()]);
    assert_eq!(m.live().await, ["c"]);
    let c = m.lineage("c").await;
    assert_eq!(
        c.support,
        1 + 2 + 2,
        "itself, b with what was merged into it, and d with a"
    );
    for (name, state, by, text) in [
        (
            "a",
            EntryState::Retired(RetireReason::Merged),
            Some("d"),
            true,
        ),
        ("b", EntryState::Forgotten, Some("c"), false),
        (
            "d",
            EntryState::Retired(RetireReason::Merged),
            Some("c"),
            true,
        ),
        (
            "e",
            EntryState::Retired(RetireReason::Compacted),
            Some("new"),
            false,
        ),
        (
            "new",
            EntryState::Retired(RetireReason::Superseded),
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
    m.verify().await;
}
