//! Records that are found by due time, topic or source, that follow their source, and that are
//! under review.

use super::{NOON, admit, delete, draft, id, put, scope};
use remem_core::event::FileRef;
use remem_core::{
    Admission, Batch, EventBody, Policy, Precondition, RecordBody, RecordKind, RecordLinks,
    Redactor, RetireReason, RunId, Scope, Seq, Timestamp,
};
use remem_store::{ChangeOutcome, DueWork, RecordLookup, Review, ReviewCalls, Store, StoreError};
use serde_json::json;

const KIND: RecordKind = RecordKind::Commitment;

pub(super) async fn exercise(store: &dyn Store) {
    records_are_found_by_due_time(store).await;
    records_are_found_by_awaited_key(store).await;
    a_record_is_deleted_with_the_text_of_its_source(store).await;
    a_record_moves_to_the_successor_of_its_source(store).await;
    a_record_of_a_superseded_source_is_not_awaited(store).await;
    records_cannot_refer_to_ended_entries(store).await;
    a_batch_sees_earlier_ends_in_its_group(store).await;
    an_event_may_be_outside_the_run_of_its_batch(store).await;
    the_next_due_time_is_known(store).await;
}

pub(super) async fn exercise_review(store: &dyn Store, review: &dyn Review) {
    records_under_review_are_stored_apart(store, review).await;
}

fn body(text: &str) -> RecordBody {
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    };
    admission.redact_record(
        json!({ "text": text })
            .as_object()
            .cloned()
            .expect("an object"),
    )
}

fn from(s: &Scope, name: &str, due: i64, topic: &str) -> RecordLinks {
    RecordLinks {
        due: Some(Timestamp(due)),
        topic: Some(topic.to_owned()),
        source: Some((s.memory_ref.clone(), id(name))),
    }
}

fn set(s: &Scope, key: &str, precondition: Precondition, ties: RecordLinks) -> Batch {
    Batch::new(s.tenant.clone(), NOON).set_record_with_ties(
        KIND,
        key.to_owned(),
        precondition,
        body(key),
        ties,
    )
}

async fn tied(store: &dyn Store, s: &Scope, tie: RecordLookup) -> Vec<String> {
    let records = store
        .records_by(&s.tenant, KIND, &tie, 100)
        .await
        .expect("read");
    records.into_iter().map(|record| record.key).collect()
}

fn due(until: i64) -> RecordLookup {
    RecordLookup::Due {
        until: Timestamp(until),
        after: None,
    }
}

fn topic(topic: &str) -> RecordLookup {
    RecordLookup::Topic {
        topic: topic.to_owned(),
        after: None,
    }
}

async fn records_are_found_by_due_time(store: &dyn Store) {
    let s = scope("ties-due", "m");
    let other = scope("ties-due-other", "m");
    for (key, at) in [("b", 5), ("a", 5), ("c", 3), ("d", 9)] {
        store
            .commit(set(
                &s,
                key,
                Precondition::None,
                RecordLinks::due_at(Timestamp(at)),
            ))
            .await
            .expect("written");
    }
    store
        .commit(set(&s, "never", Precondition::None, RecordLinks::default()))
        .await
        .expect("written");
    assert_eq!(tied(store, &s, due(5)).await, ["c", "a", "b"]);
    let after = RecordLookup::Due {
        until: Timestamp(9),
        after: Some((Timestamp(5), "a".to_owned())),
    };
    assert_eq!(tied(store, &s, after).await, ["b", "d"]);
    assert_eq!(
        store
            .records_by(&s.tenant, KIND, &due(9), 1)
            .await
            .expect("read")
            .len(),
        1
    );
    assert!(
        tied(store, &other, due(9)).await.is_empty(),
        "nobody else's"
    );
    assert!(
        store
            .records_by(&s.tenant, RecordKind::Automation, &due(9), 9)
            .await
            .expect("read")
            .is_empty(),
        "no other kind's"
    );
    store
        .commit(set(
            &s,
            "c",
            Precondition::Version(1),
            RecordLinks::default(),
        ))
        .await
        .expect("written");
    assert_eq!(
        tied(store, &s, due(5)).await,
        ["a", "b"],
        "what is written without an instant has none any more"
    );
}

async fn records_are_found_by_awaited_key(store: &dyn Store) {
    let s = scope("ties-topic", "m");
    for (key, what) in [("b", "rain"), ("a", "rain"), ("c", "snow")] {
        let ties = RecordLinks {
            topic: Some(what.to_owned()),
            ..RecordLinks::default()
        };
        store
            .commit(set(&s, key, Precondition::None, ties))
            .await
            .expect("written");
    }
    assert_eq!(tied(store, &s, topic("rain")).await, ["a", "b"]);
    assert_eq!(
        tied(
            store,
            &s,
            RecordLookup::Topic {
                topic: "rain".to_owned(),
                after: Some("a".to_owned())
            }
        )
        .await,
        ["b"]
    );
    let found = store
        .record(&s.tenant, KIND, "a")
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        found.links,
        RecordLinks {
            topic: Some("rain".to_owned()),
            ..RecordLinks::default()
        },
        "kept as it was"
    );
    store
        .commit(Batch::new(s.tenant.clone(), NOON).delete_record(
            KIND,
            "a".to_owned(),
            Precondition::None,
        ))
        .await
        .expect("removed");
    assert_eq!(tied(store, &s, topic("rain")).await, ["b"]);
}

async fn a_record_is_deleted_with_the_text_of_its_source(store: &dyn Store) {
    let s = scope("ties-source", "m");
    for name in ["deleted", "forgotten", "kept"] {
        put(store, &s, name, draft(name), NOON).await;
    }
    let mut ends = draft("expired");
    ends.expires_at = Some(NOON.plus_ms(10));
    put(store, &s, "expired", ends, NOON).await;
    for name in ["deleted", "forgotten", "kept", "expired"] {
        store
            .commit(set(&s, name, Precondition::Absent, from(&s, name, 7, "t")))
            .await
            .expect("written");
    }
    let source = RecordLookup::Source(s.memory_ref.clone(), id("kept"));
    assert_eq!(tied(store, &s, source.clone()).await, ["kept"]);
    let sources = |names: &[&str]| {
        let names = names.iter().map(|name| (s.memory_ref.clone(), id(name)));
        RecordLookup::Sources(names.collect())
    };
    assert_eq!(
        tied(store, &s, sources(&["kept", "deleted", "never"])).await,
        ["deleted", "kept"]
    );
    assert!(tied(store, &s, sources(&[])).await.is_empty());
    delete(store, &s, "deleted", NOON).await;
    let batch = || Batch::new(s.tenant.clone(), NOON.plus_ms(20));
    store
        .commit(batch().forget(s.memory_ref.clone(), id("forgotten")))
        .await
        .expect("forgotten");
    store
        .commit(batch().expire(s.memory_ref.clone(), id("expired")))
        .await
        .expect("expired");
    assert_eq!(tied(store, &s, due(7)).await, ["kept"]);
    for gone in ["deleted", "forgotten", "expired"] {
        assert_eq!(
            store.record(&s.tenant, KIND, gone).await.expect("read"),
            None,
            "{gone}"
        );
        let stale = set(&s, gone, Precondition::Version(1), RecordLinks::default());
        assert!(
            matches!(store.commit(stale).await, Err(StoreError::Conflict)),
            "{gone}"
        );
    }
    let found = store
        .record(&s.tenant, KIND, "kept")
        .await
        .expect("read")
        .expect("there");
    assert_eq!(found.links, from(&s, "kept", 7, "t"));
}

async fn a_record_moves_to_the_successor_of_its_source(store: &dyn Store) {
    let s = scope("ties-follow", "m");
    for name in ["a", "b", "c"] {
        put(store, &s, name, draft(name), NOON).await;
    }
    store
        .commit(set(&s, "r", Precondition::Absent, from(&s, "a", 7, "t")))
        .await
        .expect("written");
    // Two steps in one batch: a record that moved once moves again.
    let retire = Batch::new(s.tenant.clone(), NOON).retire(
        s.memory_ref.clone(),
        id("a"),
        RetireReason::Merged,
        id("b"),
    );
    store
        .commit(retire.retire(
            s.memory_ref.clone(),
            id("b"),
            RetireReason::Compacted,
            id("c"),
        ))
        .await
        .expect("retired");
    let found = store
        .record(&s.tenant, KIND, "r")
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        (found.links, found.version),
        (from(&s, "c", 7, "t"), 1),
        "nobody who waits for it is disturbed"
    );
    // One step that erases the text of the source at once: the record has moved before.
    put(store, &s, "gist", draft("gist"), NOON).await;
    let compact = Batch::new(s.tenant.clone(), NOON).retire(
        s.memory_ref.clone(),
        id("c"),
        RetireReason::Compacted,
        id("gist"),
    );
    store.commit(compact).await.expect("retired");
    let found = store
        .record(&s.tenant, KIND, "r")
        .await
        .expect("read")
        .expect("it goes on with the gist");
    assert_eq!((found.links, found.version), (from(&s, "gist", 7, "t"), 1));
    let back = Batch::new(s.tenant.clone(), NOON).put(id("next"), admit(&s, draft("next"), NOON));
    store
        .commit(back.retire(
            s.memory_ref.clone(),
            id("gist"),
            RetireReason::Compacted,
            id("next"),
        ))
        .await
        .expect("retired");
    assert_eq!(
        tied(
            store,
            &s,
            RecordLookup::Source(s.memory_ref.clone(), id("next"))
        )
        .await,
        ["r"]
    );
    delete(store, &s, "next", NOON).await;
    assert_eq!(
        store.record(&s.tenant, KIND, "r").await.expect("read"),
        None
    );
}

async fn a_record_of_a_superseded_source_is_not_awaited(store: &dyn Store) {
    let s = scope("ties-superseded", "m");
    for name in ["old", "new"] {
        put(store, &s, name, draft(name), NOON).await;
    }
    store
        .commit(set(&s, "r", Precondition::Absent, from(&s, "old", 7, "t")))
        .await
        .expect("written");
    let retire = Batch::new(s.tenant.clone(), NOON).retire(
        s.memory_ref.clone(),
        id("old"),
        RetireReason::Superseded,
        id("new"),
    );
    store.commit(retire).await.expect("retired");
    assert!(
        tied(store, &s, due(7)).await.is_empty() && tied(store, &s, topic("t")).await.is_empty()
    );
    let found = store
        .record(&s.tenant, KIND, "r")
        .await
        .expect("read")
        .expect("there");
    let source = Some((s.memory_ref.clone(), id("old")));
    assert_eq!(
        (found.version, found.links),
        (
            2,
            RecordLinks {
                source: source.clone(),
                ..RecordLinks::default()
            }
        ),
        "whoever read it before is told"
    );
    assert!(matches!(
        store
            .commit(set(
                &s,
                "r",
                Precondition::Version(1),
                RecordLinks::default()
            ))
            .await,
        Err(StoreError::Conflict)
    ));
    let noted = set(
        &s,
        "r",
        Precondition::Version(2),
        RecordLinks {
            source,
            ..RecordLinks::default()
        },
    );
    store
        .commit(noted)
        .await
        .expect("that it ended can be noted");
    delete(store, &s, "new", NOON).await;
    let erase = Batch::new(s.tenant.clone(), NOON).erase(s.memory_ref.clone(), id("old"));
    store.commit(erase).await.expect("erased");
    assert_eq!(
        store.record(&s.tenant, KIND, "r").await.expect("read"),
        None,
        "it goes with the text at last"
    );
}

async fn records_cannot_refer_to_ended_entries(store: &dyn Store) {
    let s = scope("ties-ended", "m");
    put(store, &s, "gone", draft("x"), NOON).await;
    delete(store, &s, "gone", NOON).await;
    for name in ["gone", "never"] {
        for ties in [
            from(&s, name, 7, "t"),
            RecordLinks {
                source: Some((s.memory_ref.clone(), id(name))),
                ..RecordLinks::default()
            },
        ] {
            assert!(
                matches!(
                    store.commit(set(&s, "r", Precondition::None, ties)).await,
                    Err(StoreError::Conflict)
                ),
                "{name}"
            );
        }
    }
    let new = Batch::new(s.tenant.clone(), NOON).put(id("new"), admit(&s, draft("y"), NOON));
    let new = new.set_record_with_ties(
        KIND,
        "r".to_owned(),
        Precondition::Absent,
        body("r"),
        from(&s, "new", 7, "t"),
    );
    store
        .commit(new)
        .await
        .expect("an entry and what was made from it come together");
    assert_eq!(
        tied(
            store,
            &s,
            RecordLookup::Source(s.memory_ref.clone(), id("new"))
        )
        .await,
        ["r"]
    );
}

/// Commits that arrive together may share a transaction: the later one still sees the effects of
/// the earlier one.
async fn a_batch_sees_earlier_ends_in_its_group(store: &dyn Store) {
    let s = scope("ties-group", "m");
    for round in 0..20 {
        let name = format!("e{round}");
        let key = format!("r{round}");
        put(store, &s, &name, draft("x"), NOON).await;
        store
            .commit(set(&s, &key, Precondition::Absent, from(&s, &name, 7, "t")))
            .await
            .expect("written");
        let fire = set(&s, &key, Precondition::Version(1), from(&s, &name, 9, "t"));
        let gone = Batch::new(s.tenant.clone(), NOON).delete(s.memory_ref.clone(), id(&name));
        let (gone, fired) = if round % 2 == 0 {
            tokio::join!(store.commit(gone), store.commit(fire))
        } else {
            let (fired, gone) = tokio::join!(store.commit(fire), store.commit(gone));
            (gone, fired)
        };
        assert_eq!(gone.expect("deleted").outcomes, [ChangeOutcome::Removed]);
        assert!(matches!(fired, Ok(_) | Err(StoreError::Conflict)));
        assert_eq!(
            store.record(&s.tenant, KIND, &key).await.expect("read"),
            None,
            "round {round}"
        );
    }
}

async fn an_event_may_be_outside_the_run_of_its_batch(store: &dyn Store) {
    let s = scope("ties-apart", "m");
    let event = |path: &str| {
        EventBody::WorkspaceUpdated(FileRef {
            path: path.to_owned(),
            version: 1,
        })
    };
    let run = RunId::parse("run_1").expect("a name");
    let batch = Batch::new(s.tenant.clone(), NOON)
        .in_run(run.clone())
        .emit(event("own"))
        .emit_outside_run(event("apart"))
        .emit(event("own"));
    store.commit(batch).await.expect("written");
    let events = store.events(&s.tenant, Seq(0), 9).await.expect("read");
    let places: Vec<Option<u64>> = events
        .iter()
        .map(|event| event.run.as_ref().map(|run| run.seq))
        .collect();
    assert_eq!(places, [Some(0), None, Some(1)]);
    assert_eq!(
        store
            .run_events(&s.tenant, &run, 0, 9)
            .await
            .expect("read")
            .len(),
        2
    );
    assert_eq!(store.verify(&s.tenant).await.expect("sound"), 3);
}

async fn the_next_due_time_is_known(store: &dyn Store) {
    let s = scope("ties-next", "m");
    let is_due = async |at: i64| {
        store
            .tenants_with_work(DueWork::Records, Timestamp(at))
            .await
            .expect("read")
            .contains(&s.tenant)
    };
    put(store, &s, "e", draft("x"), NOON).await;
    assert!(!is_due(i64::MAX - 1).await);
    store
        .commit(set(&s, "r", Precondition::None, from(&s, "e", 7, "t")))
        .await
        .expect("written");
    assert!(!is_due(6).await && is_due(7).await);
    store
        .commit(set(
            &s,
            "r",
            Precondition::None,
            RecordLinks::due_at(Timestamp(9)),
        ))
        .await
        .expect("written");
    assert!(!is_due(8).await && is_due(9).await, "later is later");
    store
        .commit(set(&s, "r", Precondition::None, from(&s, "e", 5, "t")))
        .await
        .expect("written");
    assert!(is_due(5).await);
    delete(store, &s, "e", NOON).await;
    assert!(
        !is_due(i64::MAX - 1).await,
        "what went with its source is not due"
    );
    let gate = |due| {
        Batch::new(s.tenant.clone(), NOON).set_record_with_ties(
            RecordKind::Gate,
            "g".to_owned(),
            Precondition::None,
            body("g"),
            due,
        )
    };
    store
        .commit(gate(RecordLinks::due_at(Timestamp(4))))
        .await
        .expect("written");
    assert!(is_due(4).await, "what is under review counts, too");
    store
        .commit(gate(RecordLinks::default()))
        .await
        .expect("written");
    assert!(!is_due(i64::MAX - 1).await);
}

async fn records_under_review_are_stored_apart(store: &dyn Store, review: &dyn Review) {
    let s = scope("review", "m");
    let other = scope("review-other", "m");
    let write = |key: &str, precondition, text: &str| {
        Batch::new(s.tenant.clone(), NOON).set_record(
            RecordKind::Proposal,
            key.to_owned(),
            precondition,
            body(text),
        )
    };
    store
        .commit(write("p/1", Precondition::Absent, "one"))
        .await
        .expect("written");
    let second = store
        .commit(write("p/1", Precondition::Version(1), "two"))
        .await
        .expect("written");
    assert_eq!(
        second.outcomes,
        [ChangeOutcome::Recorded {
            key: "p/1".to_owned(),
            version: 2
        }]
    );
    assert!(matches!(
        store
            .commit(write("p/1", Precondition::Version(1), "late"))
            .await,
        Err(StoreError::Conflict)
    ));
    store
        .commit(write("p/2", Precondition::Absent, "other"))
        .await
        .expect("written");
    // The interface `Store` alone gives no access to records under review.
    assert!(
        store
            .record(&s.tenant, RecordKind::Proposal, "p/1")
            .await
            .is_err()
    );
    assert!(
        store
            .records(&s.tenant, RecordKind::Proposal, "", None, 9)
            .await
            .is_err()
    );
    assert!(
        store
            .records_by(&s.tenant, RecordKind::Gate, &due(9), 9)
            .await
            .is_err()
    );
    let found = review
        .review_record(&s.tenant, RecordKind::Proposal, "p/1")
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        (found.version, found.body["text"].as_str()),
        (2, Some("two"))
    );
    let keys = |records: Vec<remem_core::Record>| {
        records
            .into_iter()
            .map(|record| record.key)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(
            review
                .review_records(&s.tenant, RecordKind::Proposal, "p/", None, 9)
                .await
                .expect("read")
        ),
        ["p/1", "p/2"]
    );
    assert_eq!(
        keys(
            review
                .review_records(&s.tenant, RecordKind::Proposal, "p/", Some("p/1"), 9)
                .await
                .expect("read")
        ),
        ["p/2"]
    );
    assert!(
        review
            .review_records(&other.tenant, RecordKind::Proposal, "", None, 9)
            .await
            .expect("read")
            .is_empty(),
        "nobody else's"
    );
    let gate = Batch::new(s.tenant.clone(), NOON);
    let gate = gate.set_record_with_ties(
        RecordKind::Gate,
        "g".to_owned(),
        Precondition::Absent,
        body("g"),
        RecordLinks::due_at(Timestamp(4)),
    );
    store.commit(gate).await.expect("written");
    assert_eq!(
        keys(
            review
                .due_review_records(&s.tenant, RecordKind::Gate, Timestamp(4), 9)
                .await
                .expect("read")
        ),
        ["g"]
    );
    assert!(
        review
            .due_review_records(&s.tenant, RecordKind::Gate, Timestamp(3), 9)
            .await
            .expect("read")
            .is_empty()
    );
    let gone = Batch::new(s.tenant.clone(), NOON).delete_record(
        RecordKind::Proposal,
        "p/1".to_owned(),
        Precondition::Version(2),
    );
    assert_eq!(
        store.commit(gone).await.expect("removed").outcomes,
        [ChangeOutcome::Removed]
    );
    assert_eq!(
        review
            .review_record(&s.tenant, RecordKind::Proposal, "p/1")
            .await
            .expect("read"),
        None
    );
}
