//! Leases: one holder at a time, extended by its holder, taken over after their end; a batch of the
//! old holder is refused afterwards.

use super::{NOON, all, draft, id, put, scope};
use remem_core::{Batch, Fence, Scope, Timestamp};
use remem_store::{ReadAt, Store, StoreError};
use std::time::Duration;

pub(super) async fn exercise(store: &dyn Store) {
    a_lease_has_one_holder(store).await;
    an_expired_lease_is_taken_over_and_fenced(store).await;
}

const LONG_MS: u64 = 600_000;

async fn claim(store: &dyn Store, s: &Scope, pass: &'static str, holder: &str) -> Option<Fence> {
    store
        .acquire_lease(&s.tenant, pass, holder, NOON, LONG_MS)
        .await
        .expect("answered")
}

async fn a_lease_has_one_holder(store: &dyn Store) {
    let s = scope("leases-one", "m");
    let first = claim(store, &s, "purge", "a").await.expect("free");
    assert_eq!(claim(store, &s, "purge", "b").await, None, "taken");
    assert_eq!(
        claim(store, &s, "purge", "a").await,
        Some(first.clone()),
        "prolonged, by the same right"
    );
    assert!(
        claim(store, &s, "other", "b").await.is_some(),
        "another pass is another lease"
    );
    assert!(
        claim(store, &scope("leases-other", "m"), "purge", "b")
            .await
            .is_some(),
        "so is another tenant"
    );
    store
        .release_lease(&s.tenant, &first)
        .await
        .expect("given back");
    let second = claim(store, &s, "purge", "b").await.expect("free again");
    assert!(
        second.number > first.number,
        "each change of hands has a larger number"
    );
    store
        .release_lease(&s.tenant, &first)
        .await
        .expect("answered");
    assert_eq!(
        claim(store, &s, "purge", "c").await,
        None,
        "who lost a lease cannot give it back"
    );
}

async fn an_expired_lease_is_taken_over_and_fenced(store: &dyn Store) {
    let s = scope("leases-fence", "m");
    put(store, &s, "e1", draft("x"), NOON).await;
    put(store, &s, "e2", draft("x"), NOON).await;
    let delete = |name: &str, fence: &Fence| {
        Batch::new(s.tenant.clone(), NOON)
            .fenced(Some(fence.clone()))
            .delete(s.memory_ref.clone(), id(name))
    };
    let old = store
        .acquire_lease(&s.tenant, "purge", "paused", NOON, 1)
        .await
        .expect("answered")
        .expect("free");
    // The store may use its own clock, so try until the millisecond has passed there.
    let mut now = NOON;
    let new = loop {
        now = Timestamp(now.0 + 1);
        if let Some(fence) = store
            .acquire_lease(&s.tenant, "purge", "successor", now, LONG_MS)
            .await
            .expect("answered")
        {
            break fence;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(
        matches!(
            store.commit(delete("e1", &old)).await,
            Err(StoreError::Conflict)
        ),
        "decided before the pause, too late now"
    );
    store
        .commit(delete("e2", &new))
        .await
        .expect("the holder may write");
    let never = Fence {
        pass: "never-claimed",
        number: 1,
    };
    assert!(matches!(
        store.commit(delete("e1", &never)).await,
        Err(StoreError::Conflict)
    ));
    assert_eq!(
        super::names(&all(store, &s, &ReadAt::Now(NOON)).await),
        ["e1"]
    );
}
