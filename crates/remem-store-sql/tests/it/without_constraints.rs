//! The ledger decides by itself which answers of a slot may be there: the same answers are refused
//! when the databases do not check windows any more.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::{Admitted, Batch, ClosingReason, Draft, Facets, RetireReason, Scope, Timestamp};
use remem_store::{Store, StoreError};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance::{NOON, admit, draft, id, put, scope};
use remem_testkit::postgres::TestDatabase;
use rusqlite::Connection;

fn batch(s: &Scope) -> Batch {
    Batch::new(s.tenant.clone(), NOON)
}

fn admitted(s: &Scope, from: i64, to: Option<i64>) -> Admitted {
    let facets = Facets {
        slot: Some("question".into()),
        valid_at: Some(Timestamp(from)),
        invalid_at: to.map(Timestamp),
        ..Facets::default()
    };
    let draft = Draft {
        facets,
        ..draft("an answer")
    };
    admit(s, draft, NOON)
}

fn answer(s: &Scope, name: &str, from: i64, to: Option<i64>) -> Batch {
    batch(s).put(id(name), admitted(s, from, to))
}

async fn assert_refused(store: &dyn Store, batch: Batch) {
    let refused = store.commit(batch).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
}

async fn assert_slots_have_one_answer(store: &dyn Store, s: &Scope) {
    let memory = || s.memory_ref.clone();
    let close = |name: &str, from: i64| {
        let from = ClosingReason::InvalidFrom(Timestamp(from));
        batch(s).close(memory(), id(name), from, None)
    };
    store.commit(answer(s, "over", 100, None)).await.unwrap();
    store.commit(close("over", 200)).await.unwrap();
    assert_refused(store, answer(s, "within", 150, Some(160))).await;
    assert_refused(store, answer(s, "around", 50, None)).await;
    store
        .commit(answer(s, "next", 200, Some(300)))
        .await
        .unwrap();
    assert_refused(store, answer(s, "again", 299, Some(301))).await;

    put(store, s, "by", draft("by"), NOON).await;
    let merge = batch(s).retire(memory(), id("next"), RetireReason::Merged, id("by"));
    store.commit(merge).await.unwrap();
    store
        .commit(answer(s, "other", 250, Some(300)))
        .await
        .unwrap();
    let forget = batch(s).forget(memory(), id("by"));
    assert_refused(store, forget.revive(memory(), id("next"))).await;

    store.commit(answer(s, "last", 300, None)).await.unwrap();
    assert_refused(store, close("other", 301)).await;
    let swapped = close("other", 270).put(id("between"), admitted(s, 270, Some(300)));
    store.commit(swapped).await.unwrap();
}

#[tokio::test]
async fn sqlite_slots_have_one_answer_at_any_instant() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("slots", "m");
    let location = Location::Folder(folder.path().into());
    let store = SqliteStore::open(location.clone(), 1).unwrap();
    put(&store, &s, "first", draft("first"), NOON).await;
    drop(store);
    Connection::open(folder.path().join("tenants/slots.db"))
        .unwrap()
        .execute_batch("DROP TRIGGER one_truth_put; DROP TRIGGER one_truth_change")
        .unwrap();
    let store = SqliteStore::open(location, 1).unwrap();
    assert_slots_have_one_answer(&store, &s).await;
}

#[tokio::test]
async fn postgres_slots_have_one_answer_at_any_instant() {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    let admin = database.admin().await;
    let drop = "ALTER TABLE remem.entry DROP CONSTRAINT one_truth_per_slot";
    admin.batch_execute(drop).await.unwrap();
    assert_slots_have_one_answer(&store, &scope("slots", "m")).await;
}
