//! Writes: a stored entry can be read, a deleted one cannot, a batch is all or nothing.

use super::{NOON, admit, all, delete, draft, id, names, put, scope};
use remem_core::{Batch, Draft, Origin, PrincipalId, Revision, Timestamp};
use remem_store::{ChangeOutcome, Filter, Page, ReadAt, Store, StoreError};
use serde_json::json;

pub(super) async fn exercise(store: &dyn Store) {
    a_put_is_read_back_whole(store).await;
    a_deleted_id_is_not_reused(store).await;
    a_batch_is_all_or_nothing(store).await;
    concurrent_writers_get_distinct_revisions(store).await;
    an_import_keeps_ids_and_never_overwrites(store).await;
}

async fn a_put_is_read_back_whole(store: &dyn Store) {
    let s = scope("writes-whole", "m");
    let metadata = json!({"k": [1, {"deep": "ü"}]}).as_object().cloned();
    let d = Draft {
        tags: vec!["b".into(), "a".into()],
        metadata: metadata.clone(),
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("text with \u{0} and 'quotes' and 日本")
    };
    let admitted = admit(&s, d.clone(), NOON);
    let batch = Batch::new(s.tenant.clone(), NOON)
        .with_principal(PrincipalId::parse("key_1").expect("valid"))
        .put(id("e1"), admitted);
    let committed = store.commit(batch).await.expect("stored");
    assert_eq!(committed.revision, Revision(1));
    assert!(!committed.replayed);
    let entry = store
        .get(&s, &id("e1"), &ReadAt::Now(NOON))
        .await
        .expect("read")
        .expect("there");
    assert_eq!(entry.content, d.content);
    assert_eq!(entry.tags, ["b", "a"]);
    assert_eq!(entry.metadata, metadata);
    assert_eq!(
        (entry.created_at, entry.expires_at),
        (NOON, Some(NOON.plus_ms(10)))
    );
    assert_eq!((entry.visible.from, entry.visible.to), (Revision(1), None));
    assert_eq!(all(store, &s, &ReadAt::Now(NOON)).await, [entry]);
}

async fn a_deleted_id_is_not_reused(store: &dyn Store) {
    let s = scope("writes-delete", "m");
    put(
        store,
        &s,
        "e1",
        Draft {
            tags: vec!["t".into()],
            ..draft("alpha beta")
        },
        NOON,
    )
    .await;
    put(store, &s, "e2", draft("alpha"), NOON).await;
    let first = delete(store, &s, "e1", NOON).await;
    assert_eq!(
        (first.outcomes, first.revision),
        (vec![ChangeOutcome::Removed], Revision(3))
    );
    let again = delete(store, &s, "e1", NOON).await;
    assert_eq!(
        (again.outcomes, again.revision),
        (vec![ChangeOutcome::NoChange], Revision(3)),
        "nothing to do leaves the clock alone"
    );
    let now = ReadAt::Now(NOON);
    assert_eq!(store.get(&s, &id("e1"), &now).await.expect("read"), None);
    assert_eq!(names(&all(store, &s, &now).await), ["e2"]);
    let tagged = Filter {
        tags: vec!["t".into()],
        ..Filter::default()
    };
    assert!(
        store
            .list(
                &s,
                &tagged,
                &Page {
                    limit: 9,
                    after: None
                },
                &now
            )
            .await
            .expect("read")
            .is_empty()
    );
    assert_eq!(store.stats(&s, &now).await.expect("read").entries, 1);
    let origin = Some(Origin {
        id: id("e1"),
        created_at: None,
    });
    let back = Batch::new(s.tenant.clone(), NOON).put(
        id("e1"),
        admit(
            &s,
            Draft {
                origin,
                ..draft("back?")
            },
            NOON,
        ),
    );
    assert_eq!(
        store.commit(back).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "a deleted id is not brought back"
    );
    assert_eq!(
        delete(store, &scope("writes-delete", "elsewhere"), "e2", NOON)
            .await
            .outcomes,
        [ChangeOutcome::NoChange]
    );
}

async fn a_batch_is_all_or_nothing(store: &dyn Store) {
    let s = scope("writes-atomic", "m");
    let first = put(store, &s, "kept", draft("kept"), NOON).await;
    let stale = Batch::new(s.tenant.clone(), NOON)
        .put(id("lost"), admit(&s, draft("lost"), NOON))
        .delete(s.memory_ref.clone(), id("kept"))
        .expect_entry(
            s.memory_ref.clone(),
            id("kept"),
            Revision(first.revision.0 + 7),
        );
    assert!(matches!(
        store.commit(stale).await,
        Err(StoreError::Conflict)
    ));
    let missing = Batch::new(s.tenant.clone(), NOON)
        .put(id("lost"), admit(&s, draft("lost"), NOON))
        .expect_entry(s.memory_ref.clone(), id("never-was"), Revision(1));
    assert!(matches!(
        store.commit(missing).await,
        Err(StoreError::Conflict)
    ));
    assert_eq!(names(&all(store, &s, &ReadAt::Now(NOON)).await), ["kept"]);
    assert_eq!(
        store.head(&s.tenant).await.expect("read").seq.0,
        1,
        "a refused batch leaves no event"
    );
    let mut large = Batch::new(s.tenant.clone(), NOON).expect_entry(
        s.memory_ref.clone(),
        id("kept"),
        first.revision,
    );
    for n in 0..1_000 {
        large = large.put(
            id(&format!("n{n:04}")),
            admit(&s, draft(&format!("entry number {n}")), NOON),
        );
    }
    let committed = store.commit(large).await.expect("stored");
    assert_eq!(
        (committed.outcomes.len(), committed.revision),
        (1_000, Revision(2)),
        "one batch is one revision"
    );
    assert_eq!(all(store, &s, &ReadAt::Now(NOON)).await.len(), 1_001);
    // A batch that violates a constraint of the store fails alone: the other batches of its group
    // are stored.
    let clash = Batch::new(s.tenant.clone(), NOON)
        .put(id("kept"), admit(&s, draft("second of that name"), NOON));
    let fine = Batch::new(s.tenant.clone(), NOON).put(id("neighbour"), admit(&s, draft("x"), NOON));
    let (clash, fine) = tokio::join!(store.commit(clash), store.commit(fine));
    assert!(clash.is_err() && fine.is_ok());
}

async fn concurrent_writers_get_distinct_revisions(store: &dyn Store) {
    let s = scope("writes-many", "m");
    let writers = (0..8).map(|w| {
        let s = s.clone();
        async move {
            let mut revisions = Vec::new();
            for n in 0..25 {
                revisions.push(
                    put(
                        store,
                        &s,
                        &format!("w{w}-{n}"),
                        draft("same words for all"),
                        NOON,
                    )
                    .await
                    .revision
                    .0,
                );
            }
            assert!(
                revisions.is_sorted(),
                "a writer sees its own revisions grow"
            );
            revisions
        }
    });
    let mut revisions: Vec<u64> = join_all(writers).await.into_iter().flatten().collect();
    revisions.sort_unstable();
    assert_eq!(
        revisions,
        (1..=200).collect::<Vec<_>>(),
        "every commit has a revision of its own, without gaps"
    );
    assert_eq!(all(store, &s, &ReadAt::Now(NOON)).await.len(), 200);
    assert_eq!(
        store
            .verify(&s.tenant)
            .await
            .expect("the data agrees with its hashes"),
        400
    );
}

/// Polls all futures together on one task.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in pending.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        if pending.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, done)| done).collect()
}

async fn an_import_keeps_ids_and_never_overwrites(store: &dyn Store) {
    let s = scope("writes-import", "m");
    let import = |name: &str, text: &str, created_at: Option<Timestamp>| {
        let origin = Some(Origin {
            id: id(name),
            created_at,
        });
        Batch::new(s.tenant.clone(), NOON).put(
            id(name),
            admit(
                &s,
                Draft {
                    origin,
                    ..draft(text)
                },
                NOON,
            ),
        )
    };
    let old = Timestamp(5_000);
    let stored = store
        .commit(import("x", "first", Some(old)))
        .await
        .expect("stored");
    assert_eq!(
        stored.outcomes,
        [ChangeOutcome::Stored {
            id: id("x"),
            created_at: old
        }]
    );
    assert_eq!(
        store
            .commit(import("x", "second", None))
            .await
            .expect("answered")
            .outcomes,
        [ChangeOutcome::NoChange]
    );
    let future = store
        .commit(import("y", "y", Some(NOON.plus_ms(1))))
        .await
        .expect("stored");
    assert_eq!(
        future.outcomes,
        [ChangeOutcome::Stored {
            id: id("y"),
            created_at: NOON
        }],
        "nothing is written in the future"
    );
    let entries = all(store, &s, &ReadAt::Now(NOON)).await;
    assert_eq!(
        entries
            .iter()
            .map(|e| (e.id.as_str(), e.content.as_str()))
            .collect::<Vec<_>>(),
        [("y", "y"), ("x", "first")]
    );
}
