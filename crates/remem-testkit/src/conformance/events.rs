//! Events: one for each change, in order, without gaps, chained, and free of content.

use super::{NOON, delete, draft, id, put, scope};
use remem_core::event::{ChainLink, chain_hash};
use remem_core::{Draft, Event, EventBody, Revision, Seq};
use remem_store::{ReadAt, Store};

pub(super) async fn exercise(store: &dyn Store) {
    each_change_has_its_event(store).await;
    a_commit_wakes_waiting_readers(store).await;
}

async fn each_change_has_its_event(store: &dyn Store) {
    let s = scope("events-log", "m");
    let tags = vec!["source:chat".to_owned(), "private-tag".to_owned()];
    put(
        store,
        &s,
        "e1",
        Draft {
            tags,
            ..draft("canary-content")
        },
        NOON,
    )
    .await;
    put(store, &s, "e2", draft("canary-content"), NOON).await;
    delete(store, &s, "e1", NOON).await;
    delete(store, &s, "e1", NOON).await;
    let events = store.events(&s.tenant, Seq(0), 10).await.expect("read");
    let kinds: Vec<_> = events
        .iter()
        .map(|e| (e.seq.0, e.revision.0, e.body.kind().as_str()))
        .collect();
    assert_eq!(
        kinds,
        [
            (1, 1, "memory.written"),
            (2, 2, "memory.written"),
            (3, 3, "memory.deleted")
        ]
    );
    let EventBody::Written(written) = &events[0].body else {
        panic!("a put writes memory.written")
    };
    assert_eq!(
        (written.memory_ref.as_str(), written.memory_id.as_str()),
        ("m", "e1")
    );
    assert_eq!(written.tags, ["source:chat"], "only reserved tags show");
    let mut chain = [0; 32];
    for event in &events {
        let payload = event.body.payload().to_string();
        assert!(
            !payload.contains("canary") && !payload.contains("private-tag"),
            "events carry no content"
        );
        let Event {
            seq, revision, at, ..
        } = *event;
        chain = chain_hash(
            &chain,
            &ChainLink {
                seq,
                revision,
                at,
                run: None,
                kind: event.body.kind().as_str(),
                payload: &payload,
            },
        );
        assert_eq!(
            event.hash, chain,
            "event {} is chained to the one before",
            event.seq.0
        );
    }
    let page = store.events(&s.tenant, Seq(1), 1).await.expect("read");
    assert_eq!(page.iter().map(|e| e.seq.0).collect::<Vec<_>>(), [2]);
    assert_eq!(
        store.verify(&s.tenant).await.expect("sound"),
        4,
        "three events and one text"
    );
}

async fn a_commit_wakes_waiting_readers(store: &dyn Store) {
    let s = scope("events-wake", "m");
    put(store, &s, "e1", draft("x"), NOON).await;
    let mut watch = store.watch_commits(&s.tenant).await.expect("watched");
    assert_eq!(*watch.borrow_and_update(), Revision(1));
    put(store, &s, "e2", draft("x"), NOON).await;
    watch.changed().await.expect("the store is alive");
    assert_eq!(*watch.borrow(), Revision(2));
    // Read your writes: a waiter that was woken finds the entry.
    assert!(
        store
            .get(&s, &id("e2"), &ReadAt::Now(NOON))
            .await
            .expect("read")
            .is_some()
    );
}
