//! The faults come when they were planned, and have the effects that were planned.

use super::FaultStore;
use crate::conformance::{NOON, admit, all, draft, id, scope};
use crate::storage;
use remem_core::Batch;
use remem_store::{Ledger, ReadAt, StoreError};
use remem_store_sql::Location;

fn without_faults() -> FaultStore {
    FaultStore::new(storage::sqlite(Location::Memory).store)
}

async fn put(store: &FaultStore, name: &str) -> Result<(), StoreError> {
    let scope = scope("t", "m");
    let admitted = admit(&scope, draft("text"), NOON);
    let batch = Batch::new(scope.tenant, NOON).put(id(name), admitted);
    store.commit(batch).await.map(drop)
}

async fn stored(store: &FaultStore) -> usize {
    let inner = store.inner().as_ref();
    all(inner, &scope("t", "m"), &ReadAt::Now(NOON)).await.len()
}

#[tokio::test]
async fn a_crash_lasts_until_the_restart() {
    for (after, expected) in [(false, 1), (true, 2)] {
        let store = without_faults();
        store.crash_at(1, after);
        put(&store, "a").await.unwrap();
        assert!(!store.has_crashed());
        put(&store, "b").await.unwrap_err();
        put(&store, "c").await.unwrap_err();
        assert!(store.has_crashed());
        assert_eq!(stored(&store).await, expected);
        assert_eq!(store.injected(), 2);
        store.restart();
        put(&store, "d").await.unwrap();
    }
}

#[tokio::test]
async fn fail_at_fails_exactly_one_call() {
    for (after, expected) in [(false, 2), (true, 3)] {
        let store = without_faults();
        store.fail_at(1, after);
        put(&store, "a").await.unwrap();
        put(&store, "b").await.unwrap_err();
        put(&store, "c").await.unwrap();
        assert_eq!(stored(&store).await, expected);
    }
}

#[tokio::test]
async fn a_seed_fails_the_same_calls_each_time() {
    let outcomes = async |seed| {
        let store = FaultStore::failing(storage::sqlite(Location::Memory).store, seed, 64);
        let mut failed = Vec::new();
        for n in 0..100 {
            failed.push(put(&store, &format!("e{n}")).await.is_err());
        }
        assert_eq!(
            store.injected(),
            failed.iter().filter(|failed| **failed).count() as u64
        );
        failed
    };
    let first = outcomes(1).await;
    assert_eq!(first, outcomes(1).await);
    assert_ne!(first, outcomes(2).await);
    let failures = first.iter().filter(|failed| **failed).count();
    assert!((10..40).contains(&failures), "{failures} of 100 failed");
}
