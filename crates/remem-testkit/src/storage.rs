//! The store that a test runs on: SQLite in process memory, or a private PostgreSQL database when
//! `REMEM_TEST_STORE=postgres`. The same tests run on both.

use crate::postgres::TestDatabase;
use remem_store::{Directory, Review, Store};
use remem_store_sql::postgres::{PostgresOptions, PostgresStore};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use std::sync::Arc;

/// A store behind each of its interfaces.
#[derive(Clone)]
pub struct TestStorage {
    /// Entries, events and records of memories.
    pub store: Arc<dyn Store>,
    /// Proposals that are under review.
    pub review: Arc<dyn Review>,
    /// Tenants and their keys.
    pub directory: Arc<dyn Directory>,
}

/// Whether this run tests PostgreSQL.
#[must_use]
pub fn is_postgres() -> bool {
    std::env::var("REMEM_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// Opens an empty store of the kind that the environment chooses.
pub async fn open() -> TestStorage {
    if is_postgres() {
        postgres().await
    } else {
        sqlite(Location::Memory)
    }
}

/// Opens SQLite at a location; its directory is in process memory.
#[must_use]
pub fn sqlite(location: Location) -> TestStorage {
    let store = Arc::new(SqliteStore::open(location, 1).unwrap());
    TestStorage {
        store: store.clone(),
        review: store,
        directory: Arc::new(SqliteDirectory::open(&Location::Memory).unwrap()),
    }
}

async fn postgres() -> TestStorage {
    let options = PostgresOptions {
        // The clock of the test is used, not that of the machine.
        local_ms: || 0,
        ..TestDatabase::fresh().await.options(4)
    };
    let store = PostgresStore::open(options).await.unwrap();
    let directory = Arc::new(store.directory());
    let store = Arc::new(store);
    TestStorage {
        store: store.clone(),
        review: store,
        directory,
    }
}
