//! The store conformance suite on SQLite: in memory, and on files with eight connections.

use remem_store::conformance;
use remem_store_sql::{Location, SqliteStore};

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
