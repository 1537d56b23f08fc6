//! The store conformance suite on SQLite in memory, on SQLite files with eight connections, and on
//! PostgreSQL.

use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance;
use remem_testkit::postgres::TestDatabase;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_in_memory() {
    let store = SqliteStore::open(Location::Memory, 1).unwrap();
    conformance::exercise(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_files_with_eight_connections() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Location::Folder(folder.path().into()), 8).unwrap();
    conformance::exercise(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres() {
    let store = TestDatabase::fresh().await.open().await;
    conformance::exercise(&store).await;
}

/// With a single connection, each transaction uses the session that the one before left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_with_one_connection() {
    let database = TestDatabase::fresh().await;
    let store = remem_store_sql::PostgresStore::open(database.options(1))
        .await
        .unwrap();
    conformance::exercise(&store).await;
}
