//! Several nodes over one database: commits of one tenant take turns at its clock.

#![allow(
    clippy::disallowed_methods,
    reason = "writers on two nodes are tasks of their own"
)]

use remem_core::{Batch, Revision};
use remem_store::Ledger;
use remem_testkit::conformance::{admit, draft, id, scope};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{NOON, wait_until};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Without the lock one of two commits at a time would violate a key, and its caller would get an
/// error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_commits_on_two_nodes_all_succeed() {
    let database = TestDatabase::fresh().await;
    let mut writers = JoinSet::new();
    for node in 0..2 {
        let store = Arc::new(database.open().await);
        for writer in 0..4 {
            let store = store.clone();
            writers.spawn(async move {
                let scope = scope("a", "m");
                let mut revisions: Vec<Revision> = Vec::new();
                for n in 0..25 {
                    let name = format!("n{node}w{writer}e{n}");
                    let entry = admit(&scope, draft(&name), NOON);
                    let batch = Batch::new(scope.tenant.clone(), NOON).put(id(&name), entry);
                    revisions.push(store.commit(batch).await.unwrap().revision);
                }
                revisions
            });
        }
    }
    let revisions: BTreeSet<Revision> = writers.join_all().await.into_iter().flatten().collect();
    assert_eq!(
        revisions.len(),
        200,
        "every commit has a revision of its own"
    );
}

/// Another node holds the clock: the commit waits, and counts from what that node left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_commit_takes_the_revision_after_the_other() {
    let database = TestDatabase::fresh().await;
    let store = Arc::new(database.open().await);
    let scope = scope("a", "m");
    let batch = |name: &str| {
        let entry = admit(&scope, draft(name), NOON);
        Batch::new(scope.tenant.clone(), NOON).put(id(name), entry)
    };
    let first = store.commit(batch("first")).await.unwrap();

    let other = database.admin().await;
    let advance = "BEGIN; UPDATE remem.tenant_clock SET revision = revision + 1";
    other.batch_execute(advance).await.unwrap();
    let commit = tokio::spawn({
        let store = store.clone();
        let second = batch("second");
        async move { store.commit(second).await.unwrap() }
    });
    let waiting = "SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let observer = database.admin().await;
    wait_until("the commit waits for the clock", || async {
        !observer.query(waiting, &[]).await.unwrap().is_empty()
    })
    .await;
    other.batch_execute("COMMIT").await.unwrap();
    let second = commit.await.unwrap();
    assert_eq!(second.revision.0, first.revision.0 + 2);
}
