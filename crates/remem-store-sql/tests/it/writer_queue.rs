//! The queue in front of a tenant's only writer on SQLite: leases are granted and records under
//! review are read while other tasks write without a pause.

#![allow(
    clippy::disallowed_methods,
    reason = "writers beside the claims are tasks of their own"
)]

use remem_core::{Batch, RecordKind};
use remem_store::{Leases, Ledger, ReviewCalls};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::NOON;
use remem_testkit::conformance::{admit, draft, id, scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

const WRITERS: usize = 16;
const BATCHES: usize = 60;
/// Entries in a batch: a commit takes longer than its writer needs to submit the next one.
const ENTRIES: usize = 10;
const CLAIMS: usize = 20;

/// The batches of one writer, made before any is committed, so that the queue is never empty.
fn batches(writer: usize) -> Vec<Batch> {
    let scope = scope("a", "m");
    let batch = |number: usize| {
        (0..ENTRIES).fold(Batch::new(scope.tenant.clone(), NOON), |batch, n| {
            let draft = draft(&format!("entry {n} of batch {number} of writer {writer}"));
            let name = format!("w{writer}-{number}-{n}");
            batch.put(id(&name), admit(&scope, draft, NOON))
        })
    };
    (0..BATCHES).map(batch).collect()
}

async fn claims_are_granted(location: Location) {
    let store = Arc::new(SqliteStore::open(location, 4).unwrap());
    let tenant = scope("a", "m").tenant;
    let committed = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for batches in (0..WRITERS).map(batches).collect::<Vec<_>>() {
        let store = store.clone();
        let committed = committed.clone();
        writers.spawn(async move {
            for batch in batches {
                store.commit(batch).await.unwrap();
                committed.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for n in 0..CLAIMS {
        let holder = format!("host-{n}");
        let fence = store
            .acquire_lease(&tenant, "purge", &holder, NOON, 1_000)
            .await;
        let fence = fence.unwrap().expect("the pass has no other holder");
        store.release_lease(&tenant, &fence).await.unwrap();
        let under_review = store
            .review_record(&tenant, RecordKind::Proposal, "p")
            .await;
        assert!(under_review.unwrap().is_none());
    }
    let meanwhile = committed.load(Ordering::SeqCst);
    writers.join_all().await;
    // Each claim, release and read waits for at most one group.
    assert!(
        meanwhile < WRITERS * BATCHES,
        "{CLAIMS} claims waited for all {meanwhile} batches"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_granted_while_writers_never_pause() {
    let folder = tempfile::tempdir().unwrap();
    claims_are_granted(Location::Folder(folder.path().into())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_granted_in_memory_while_writers_never_pause() {
    claims_are_granted(Location::Memory).await;
}
