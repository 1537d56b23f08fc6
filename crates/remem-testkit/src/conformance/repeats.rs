//! Repeats: the same key and body return the first result, another body is refused, other keys are
//! independent.

use super::{NOON, admit, all, draft, id, scope};
use remem_core::{Batch, Idempotency, Rejection, Scope};
use remem_store::{ChangeOutcome, ReadAt, Store, StoreError};

pub(super) async fn exercise(store: &dyn Store) {
    a_repeated_batch_returns_the_first_result(store).await;
    keys_belong_to_tenant_and_operation(store).await;
    old_keys_are_dropped(store).await;
}

fn keyed(s: &Scope, name: &str, operation: &'static str, key: u8, body: u8) -> Batch {
    let idempotency = Idempotency {
        operation,
        key: [key; 32],
        body: [body; 32],
    };
    Batch::new(s.tenant.clone(), NOON)
        .idempotent(Some(idempotency))
        .put(id(name), admit(s, draft("x"), NOON))
}

async fn a_repeated_batch_returns_the_first_result(store: &dyn Store) {
    let s = scope("repeats-same", "m");
    let first = store
        .commit(keyed(&s, "first", "put", 1, 1))
        .await
        .expect("stored");
    // The retry makes a new id; the one that was stored counts.
    let second = store
        .commit(keyed(&s, "second", "put", 1, 1))
        .await
        .expect("answered");
    assert!(second.replayed && !first.replayed);
    assert_eq!(
        (&second.outcomes, second.revision, second.at),
        (&first.outcomes, first.revision, first.at)
    );
    let other = store.commit(keyed(&s, "third", "put", 1, 2)).await;
    assert!(matches!(
        other,
        Err(StoreError::Rejected(Rejection::IdempotencyMismatch))
    ));
    // Two retries at once, in one group: still one entry.
    let (a, b) = tokio::join!(
        store.commit(keyed(&s, "a", "put", 2, 1)),
        store.commit(keyed(&s, "b", "put", 2, 1))
    );
    assert_eq!(a.expect("answered").outcomes, b.expect("answered").outcomes);
    assert_eq!(all(store, &s, &ReadAt::Now(NOON)).await.len(), 2);
    let gone = |key| {
        let idempotency = Idempotency {
            operation: "delete",
            key: [key; 32],
            body: [0; 32],
        };
        Batch::new(s.tenant.clone(), NOON)
            .idempotent(Some(idempotency))
            .delete(s.memory_ref.clone(), id("first"))
    };
    assert_eq!(
        store.commit(gone(1)).await.expect("answered").outcomes,
        [ChangeOutcome::Removed]
    );
    assert_eq!(
        store.commit(gone(1)).await.expect("answered").outcomes,
        [ChangeOutcome::Removed],
        "a repeated delete says the same"
    );
    assert_eq!(
        store.commit(gone(2)).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "a new delete finds nothing"
    );
}

async fn keys_belong_to_tenant_and_operation(store: &dyn Store) {
    let a = scope("repeats-a", "m");
    let b = scope("repeats-b", "m");
    assert!(
        !store
            .commit(keyed(&a, "e", "put", 1, 1))
            .await
            .expect("stored")
            .replayed
    );
    assert!(
        !store
            .commit(keyed(&b, "e", "put", 1, 2))
            .await
            .expect("another tenant")
            .replayed
    );
    assert!(
        !store
            .commit(keyed(&a, "f", "import", 1, 2))
            .await
            .expect("another operation")
            .replayed
    );
}

async fn old_keys_are_dropped(store: &dyn Store) {
    let s = scope("repeats-old", "m");
    store
        .commit(keyed(&s, "e", "put", 1, 1))
        .await
        .expect("stored");
    store.scrub(&s.tenant, NOON, false).await.expect("scrubbed");
    assert!(
        store
            .commit(keyed(&s, "f", "put", 1, 1))
            .await
            .expect("answered")
            .replayed,
        "young keys stay"
    );
    store
        .scrub(&s.tenant, NOON.plus_ms(1), true)
        .await
        .expect("scrubbed");
    assert!(
        !store
            .commit(keyed(&s, "f", "put", 1, 1))
            .await
            .expect("stored")
            .replayed,
        "old ones are new again"
    );
}
