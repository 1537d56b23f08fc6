//! Databases that earlier releases wrote, as a host opens them. They have stand-ins for records that
//! are made only under rare conditions, with bodies that no host writes: those are left out here.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections"
)]

use crate::postgres::{PASSWORD, TestDatabase};
use crate::storage::TestStorage;
use remem_store_sql::postgres::{PostgresOptions, PostgresStore, PostgresTarget, migrate};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const RARE: &str = "DELETE FROM record WHERE key = 'rare/1'; DELETE FROM review WHERE key = 'rare'";

fn kept(release: &str, file: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    format!("{root}/../remem-store-sql/tests/data/upgrade-{release}/{file}")
}

fn reported(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The kept folder of a release, unpacked. Its vault key was not kept, so that its secrets go, too.
#[must_use]
pub fn folder(release: &str, folder: &Path) -> TestStorage {
    let archive = kept(release, "sqlite.tar.gz");
    reported("tar", &["-xzf", &archive, "-C", folder.to_str().unwrap()]);
    let db = Connection::open(folder.join("tenants/default.db")).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    db.execute_batch(RARE).unwrap();
    db.execute_batch("DELETE FROM record WHERE kind = 'secret'")
        .unwrap();
    drop(db);
    let location = Location::Folder(folder.into());
    let directory = SqliteDirectory::open(&location).unwrap();
    let store = Arc::new(SqliteStore::open(location, 2).unwrap());
    TestStorage {
        store: store.clone(),
        review: store,
        directory: Arc::new(directory),
    }
}

/// The kept database of a release, migrated.
pub async fn database(release: &str) -> TestStorage {
    let database = TestDatabase::empty().await;
    let dump = reported("gzip", &["-dc", &kept(release, "postgres.sql.gz")]);
    database.restore(&dump).await;
    let admin = database.admin().await;
    let rare = format!("SET search_path = remem; {RARE}; RESET search_path");
    admin.batch_execute(&rare).await.unwrap();
    let target = PostgresTarget::parse(&database.admin_url).unwrap();
    migrate(&target, PASSWORD).await.unwrap();
    let options = PostgresOptions {
        local_ms: || 0,
        ..database.options(4)
    };
    let store = Arc::new(PostgresStore::open(options).await.unwrap());
    TestStorage {
        directory: Arc::new(store.directory()),
        store: store.clone(),
        review: store,
    }
}
