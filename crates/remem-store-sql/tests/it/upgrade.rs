//! Databases that earlier releases wrote, kept for good: each is upgraded, and must have the same
//! contents as before. `scripts/make-upgrade-fixtures` made them with the binary of that release; a
//! release adds its own, and none is ever made again.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::{EntryId, MemoryRef, RecordKind, Scope, TenantId, Timestamp};
use remem_store::{Directory, DueWork, ReadAt, Store, Upkeep};
use remem_store_sql::postgres::{PostgresTarget, backfill_hashes, migrate};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::conformance::all;
use remem_testkit::postgres::{PASSWORD, TestDatabase};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use tokio_postgres::Client;

/// The lists of the memory `notes`, by tenant: the contents of entries by id.
type ExpectedEntries = BTreeMap<String, BTreeMap<String, String>>;

/// The lineage of an entry that an earlier release made from others, and its sources.
type ExpectedLineage = (MemoryRef, EntryId, BTreeSet<String>);

/// What the host of a release answered, as the fixture records it. The tests of `remem` compare
/// the rest of it.
struct Expected {
    entries: ExpectedEntries,
    lineage: ExpectedLineage,
}

impl Expected {
    fn parse(answers: &[u8]) -> Expected {
        let mut answers: serde_json::Value = serde_json::from_slice(answers).unwrap();
        let lineage = &answers["host"]["lineage"];
        let text = |name: &str| lineage[name].as_str().unwrap();
        let sources = serde_json::from_value(lineage["sources"].clone()).unwrap();
        let memory_ref = MemoryRef::parse(text("memoryRef")).unwrap();
        let lineage = (memory_ref, EntryId::parse(text("id")).unwrap(), sources);
        let entries = serde_json::from_value(answers["entries"].take()).unwrap();
        Expected { entries, lineage }
    }
}

/// The rows of a table as texts, without the columns that upgrades add.
type TableRows = BTreeMap<String, BTreeSet<String>>;

fn fixture_path(release: &str, file: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    format!("{root}/tests/data/upgrade-{release}/{file}")
}

/// Runs a program of the system; returns its output.
fn run_program(program: &str, arguments: &[&str]) -> Vec<u8> {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}");
    done.stdout
}

fn tenants() -> [TenantId; 2] {
    ["default", "other"].map(|name| TenantId::parse(name).unwrap())
}

/// A time at which the entries with an expiry are gone.
const LATER: ReadAt = ReadAt::Now(Timestamp(4_000_000_000_000));

/// Checks that the stored host returns the same entries as when it was made.
async fn assert_answers(store: &dyn Store, directory: &dyn Directory, expected: &Expected) {
    for tenant in tenants() {
        let scope = Scope::new(tenant.clone(), MemoryRef::parse("notes").unwrap());
        let found: BTreeMap<String, String> = all(store, &scope, &LATER)
            .await
            .into_iter()
            .map(|entry| (entry.id.as_str().to_owned(), entry.content))
            .collect();
        assert_eq!(found, expected.entries[tenant.as_str()], "{tenant}");
        assert!(!found.is_empty());
        assert!(!directory.keys(&tenant).await.unwrap().is_empty());
    }
    let keys = directory.keys(&tenants()[0]).await.unwrap();
    let revoked = keys.iter().filter(|key| key.revoked_at.is_some()).count();
    assert_eq!((keys.len() > revoked, revoked), (true, 1));
    for kind in RecordKind::ALL
        .into_iter()
        .filter(|kind| !kind.is_under_review())
    {
        let found = store.records(&tenants()[0], kind, "", None, 1000).await;
        assert!(!found.unwrap().is_empty(), "a record of the kind {kind:?}");
    }
    let (memory_ref, id, sources) = &expected.lineage;
    let scope = Scope::new(tenants()[0].clone(), memory_ref.clone());
    let lineage = store.lineage(&scope, id).await.unwrap().unwrap();
    let found: BTreeSet<String> = lineage
        .sources
        .iter()
        .map(|source| source.id.as_str().to_owned())
        .collect();
    assert_eq!(&found, sources);
}

/// The rows of every table, column by column: only the columns of `like` if it is given.
fn sqlite_rows(
    file: &Path,
    like: Option<&BTreeMap<String, String>>,
) -> (TableRows, BTreeMap<String, String>) {
    let db = Connection::open(file).unwrap();
    let sql = "SELECT m.name, group_concat('quote(' || i.name || ')', ' || '' '' || ') FROM sqlite_schema m, pragma_table_info(m.name) i
               WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' GROUP BY m.name";
    let own: BTreeMap<String, String> = db
        .prepare(sql)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let columns = like.cloned().unwrap_or(own);
    let mut rows = TableRows::new();
    for (table, columns) in &columns {
        let mut query = db
            .prepare(&format!("SELECT {columns} FROM {table}"))
            .unwrap();
        let found = query.query_map([], |row| row.get(0)).unwrap();
        rows.insert(table.clone(), found.collect::<Result<_, _>>().unwrap());
    }
    (rows, columns)
}

#[tokio::test]
async fn upgrading_a_0_1_0_folder_preserves_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let archive = fixture_path("0.1.0", "sqlite.tar.gz");
    run_program(
        "tar",
        &["-xzf", &archive, "-C", folder.path().to_str().unwrap()],
    );
    let answers = std::fs::read(folder.path().join("answers.json")).unwrap();
    let expected = Expected::parse(&answers);
    let files = ["host.db", "tenants/default.db", "tenants/other.db"];
    let files = files.map(|file| folder.path().join(file));
    let before: Vec<_> = files.iter().map(|file| sqlite_rows(file, None)).collect();
    let rows: usize = before[1].0.values().map(BTreeSet::len).sum();
    assert!(rows > 100, "{rows} rows were kept");

    let location = Location::Folder(folder.path().into());
    let directory = SqliteDirectory::open(&location).unwrap();
    directory.verify().await.unwrap();
    let mut turns = 0;
    let mut left = u64::MAX;
    while left > 0 {
        // Each time as if the process before had been killed.
        let store = SqliteStore::open(location.clone(), 1).unwrap();
        left = 0;
        for tenant in tenants() {
            store.verify(&tenant).await.unwrap();
            left += store.count_rows_without_hash(&tenant).await.unwrap();
            store.scrub(&tenant, Timestamp(0), false).await.unwrap();
        }
        turns += 1;
        assert!(turns < 100, "it comes to an end");
    }
    assert!(turns > 3, "a table at a time");
    for (file, (rows, columns)) in files.iter().zip(&before) {
        assert_eq!(
            &sqlite_rows(file, Some(columns)).0,
            rows,
            "{}",
            file.display()
        );
    }
    let store = SqliteStore::open(location, 1).unwrap();
    assert_answers(&store, &directory, &expected).await;
    for tenant in tenants() {
        store.verify(&tenant).await.unwrap();
    }
    assert!(
        store
            .tenants_with_work(DueWork::Purge, Timestamp(0))
            .await
            .is_ok()
    );
}

/// The same for a database, as the superuser, from whom no policy hides a row.
async fn postgres_rows(
    admin: &Client,
    like: Option<&BTreeMap<String, String>>,
) -> (TableRows, BTreeMap<String, String>) {
    let sql = "SELECT c.relname::text, 'ROW(' || string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) || ')::text'
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               WHERE c.relnamespace = 'remem'::regnamespace AND c.relkind = 'r' AND c.relname <> 'schema_step' GROUP BY 1";
    let own = admin.query(sql, &[]).await.unwrap();
    let own = own.iter().map(|row| (row.get(0), row.get(1))).collect();
    let columns: BTreeMap<String, String> = like.cloned().unwrap_or(own);
    let mut rows = TableRows::new();
    for (table, columns) in &columns {
        let found = admin
            .query(&format!("SELECT {columns} FROM remem.{table}"), &[])
            .await;
        rows.insert(
            table.clone(),
            found.unwrap().iter().map(|row| row.get(0)).collect(),
        );
    }
    (rows, columns)
}

/// A stored dump in a new database, owned as `remem migrate` would have it.
async fn restore(database: &TestDatabase, release: &str) -> Expected {
    let dump = run_program("gzip", &["-dc", &fixture_path(release, "postgres.sql.gz")]);
    let dump = String::from_utf8(dump).unwrap();
    let (answers, dump) = dump.strip_prefix("-- ").unwrap().split_once('\n').unwrap();
    database.restore(dump).await;
    Expected::parse(answers.as_bytes())
}

#[tokio::test]
async fn upgrading_a_0_1_0_database_preserves_all_rows() {
    let database = TestDatabase::empty().await;
    let expected = restore(&database, "0.1.0").await;
    let admin = database.admin().await;
    let before = postgres_rows(&admin, None).await;
    let rows: usize = before.0.values().map(BTreeSet::len).sum();
    assert!(rows > 100, "{rows} rows were kept");

    let target = PostgresTarget::parse(&database.admin_url).unwrap();
    let migrated = migrate(&target, PASSWORD).await.unwrap();
    assert!(migrated.applied.contains(&"0010_row_hash"));
    let store = database.open().await;
    for tenant in tenants() {
        store.verify(&tenant).await.unwrap();
        assert!(store.count_rows_without_hash(&tenant).await.unwrap() > 0);
    }
    // Killed after a few pages, and run again.
    let killed = tokio::spawn(async move {
        let mut pages = 0;
        let kill = &mut |_: &remem_store_sql::postgres::BackfillProgress| {
            pages += 1;
            assert!(pages < 9, "killed in the middle");
        };
        backfill_hashes(&target, kill).await
    });
    assert!(killed.await.unwrap_err().is_panic());
    let target = PostgresTarget::parse(&database.admin_url).unwrap();
    assert!(backfill_hashes(&target, &mut |_| {}).await.unwrap() > 0);
    assert_eq!(backfill_hashes(&target, &mut |_| {}).await.unwrap(), 0);
    for tenant in tenants() {
        store.verify(&tenant).await.unwrap();
        assert_eq!(store.count_rows_without_hash(&tenant).await.unwrap(), 0);
    }
    let directory = store.directory();
    directory.verify().await.unwrap();
    assert_eq!(postgres_rows(&admin, Some(&before.1)).await.0, before.0);
    assert_answers(&store, &directory, &expected).await;
}
