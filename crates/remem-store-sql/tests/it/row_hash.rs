//! Damage is found: if any bit of stored data changes, the check of both stores reports it. Rows of
//! versions without hashes get theirs page by page, also after an interruption.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::erasure::WITHOUT_HASHES;
use crate::tenant_isolation::populate_store;
use remem_core::{Batch, TenantId};
use remem_store::{Directory, Ledger, StoreError, Upkeep};
use remem_store_sql::copy::{CopyLocation, CopyOptions, copy};
use remem_store_sql::postgres::{PostgresTarget, backfill_hashes, migrate};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::SeededRandom;
use remem_testkit::cases;
use remem_testkit::conformance::{NOON, delete, id, scope};
use remem_testkit::postgres::{PASSWORD, TestDatabase};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use tokio_postgres::Client;

/// Tables that no check reads: docs/operations.md gives the reasons.
const UNCHECKED: [&str; 4] = ["unindexed", "sqlite_sequence", "schema_step", "hash_fill"];
const HOST: &str = "host.db";
const TENANT: &str = "tenants/a.db";

fn tenant() -> TenantId {
    TenantId::parse("a").unwrap()
}

/// A folder with rows in every table, not open.
async fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().into());
    let directory = SqliteDirectory::open(&location).unwrap();
    let store = SqliteStore::open(location, 1).unwrap();
    populate_store(&store, &directory, "a").await;
    folder
}

/// The result of the checks of a folder; a file that cannot be opened counts as damage.
async fn checked(folder: &Path) -> Result<u64, StoreError> {
    let location = Location::Folder(folder.into());
    let host = SqliteDirectory::open(&location)?.verify().await?;
    let store = SqliteStore::open(location, 1)?;
    Ok(host + store.verify(&tenant()).await?)
}

/// Another folder with the same files.
fn copied(folder: &Path) -> tempfile::TempDir {
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("tenants")).unwrap();
    for file in [HOST, TENANT] {
        std::fs::copy(folder.join(file), other.path().join(file)).unwrap();
    }
    other
}

/// A connection without the functions and checks that keep rows right.
fn raw(file: &Path) -> Connection {
    let db = Connection::open(file).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db.pragma_update(None, "ignore_check_constraints", true)
        .unwrap();
    db
}

fn tables(db: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut query = db.prepare(sql).unwrap();
    let names = query.query_map([], |row| row.get(0)).unwrap();
    names.collect::<Result<_, _>>().unwrap()
}

/// All values of a file, or `None` if it cannot be read.
fn dump(file: &Path) -> Option<BTreeSet<String>> {
    let db = Connection::open(file).ok()?;
    let mut rows = BTreeSet::new();
    let names =
        "SELECT name FROM sqlite_schema WHERE type = 'table' UNION ALL SELECT 'sqlite_schema'";
    let names: Vec<String> = db
        .prepare(names)
        .ok()?
        .query_map([], |row| row.get(0))
        .ok()?
        .collect::<Result<_, _>>()
        .ok()?;
    for table in names
        .iter()
        .filter(|name| !UNCHECKED.contains(&name.as_str()))
    {
        // The page numbers of tables are not values.
        let columns = if table == "sqlite_schema" {
            "type, name, sql"
        } else {
            "*"
        };
        let mut query = db.prepare(&format!("SELECT {columns} FROM {table}")).ok()?;
        let width = query.column_count();
        let mut found = query.query([]).ok()?;
        while let Some(row) = found.next().ok()? {
            let values: Vec<String> = (0..width)
                .map(|n| format!("{:?}", row.get_ref(n).unwrap()))
                .collect();
            rows.insert(format!("{table} {values:?}"));
        }
    }
    Some(rows)
}

fn flipped(value: &Value, random: &mut SeededRandom) -> Option<(&'static str, Value)> {
    let mut flip = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let at = random.index(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        Value::Blob(bytes)
    };
    match value {
        Value::Integer(number) => Some(("?", Value::Integer(number ^ (1 << random.below(64))))),
        Value::Text(text) if !text.is_empty() => Some(("CAST(? AS TEXT)", flip(text.as_bytes()))),
        Value::Blob(bytes) if !bytes.is_empty() => Some(("?", flip(bytes))),
        _ => None,
    }
}

/// Changes one bit of one value. `None`: the value that was chosen cannot be changed in this way.
fn change_a_value(folder: &Path, random: &mut SeededRandom) -> Option<String> {
    let file = if random.one_in(6) { HOST } else { TENANT };
    let db = raw(&folder.join(file));
    let names: Vec<String> = tables(&db)
        .into_iter()
        .filter(|name| !UNCHECKED.contains(&name.as_str()))
        .collect();
    let table = random.pick(&names);
    let mut query = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns: Vec<String> = query.column_names().map(str::to_owned).collect();
    let rows: Vec<Vec<Value>> = query
        .query_map([], |row| (0..columns.len()).map(|n| row.get(n)).collect())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(!rows.is_empty(), "{table} has rows");
    let row = &rows[random.index(rows.len())];
    let column = random.index(columns.len());
    let (mark, value) = flipped(&row[column], random)?;
    // A row is identified by all of its values.
    let known: Vec<String> = columns.iter().map(|c| format!("{c} IS ?")).collect();
    let name = &columns[column];
    let sql = format!(
        "UPDATE {table} SET {name} = {mark} WHERE {}",
        known.join(" AND ")
    );
    let params: Vec<&Value> = [&value].into_iter().chain(row).collect();
    let changed = db.execute(&sql, params_from_iter(params));
    (changed == Ok(1)).then(|| format!("{table}.{name} {:?} -> {value:?}", row[column]))
}

#[tokio::test]
async fn sqlite_detects_every_changed_value() {
    let folder = folder().await;
    checked(folder.path()).await.unwrap();
    let mut random = SeededRandom::fresh();
    let mut missed = Vec::new();
    let mut flips = 0;
    while flips < cases(60, 1_000) {
        let damaged = copied(folder.path());
        let Some(what) = change_a_value(damaged.path(), &mut random) else {
            continue;
        };
        flips += 1;
        if checked(damaged.path()).await.is_ok() {
            missed.push(what);
        }
    }
    assert!(missed.is_empty(), "of {flips}: {missed:#?}");
}

#[tokio::test]
async fn sqlite_detects_every_changed_column() {
    let folder = folder().await;
    let mut missed = Vec::new();
    for file in [HOST, TENANT] {
        let db = raw(&folder.path().join(file));
        for table in tables(&db) {
            if UNCHECKED.contains(&table.as_str()) {
                continue;
            }
            let sql = format!("SELECT name FROM pragma_table_info('{table}')");
            let mut query = db.prepare(&sql).unwrap();
            let columns = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
            for column in columns.map(Result::unwrap) {
                let damaged = copied(folder.path());
                let other = raw(&damaged.path().join(file));
                // Another value of the same type; NULL becomes a value.
                let sql = format!(
                    "UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'integer' THEN {column} + 1000
                       WHEN 'text' THEN {column} || 'x' WHEN 'blob' THEN CAST({column} || 'x' AS BLOB)
                       ELSE (SELECT CASE type WHEN 'INTEGER' THEN 0 WHEN 'TEXT' THEN '' ELSE x'' END
                         FROM pragma_table_info('{table}') WHERE name = '{column}') END"
                );
                assert!(other.execute(&sql, []).unwrap() > 0, "{table}.{column}");
                drop(other);
                if checked(damaged.path()).await.is_ok() {
                    missed.push(format!("{table}.{column}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[tokio::test]
async fn sqlite_detects_every_bit_flip_that_changes_a_value() {
    let folder = folder().await;
    let mut random = SeededRandom::fresh();
    let mut missed = Vec::new();
    let mut found = 0;
    for _ in 0..cases(60, 1_000) {
        let damaged = copied(folder.path());
        let file = if random.one_in(6) { HOST } else { TENANT };
        let path = damaged.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = random.index(bytes.len());
        let bit = random.below(8);
        bytes[at] ^= 1 << bit;
        std::fs::write(&path, bytes).unwrap();
        let before = dump(&folder.path().join(file));
        let after = dump(&path);
        if checked(damaged.path()).await.is_err() {
            found += 1;
        } else if before != after {
            let changed = before.iter().flatten().collect::<BTreeSet<_>>();
            let now = after.iter().flatten().collect::<BTreeSet<_>>();
            let rows: Vec<_> = changed.symmetric_difference(&now).collect();
            missed.push(format!("{file}, byte {at}, bit {bit}: {rows:#?}"));
        }
    }
    println!("{found} found, the others changed no value");
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(found > 0);
}

#[tokio::test]
async fn sqlite_detects_a_missing_trigger() {
    let folder = folder().await;
    raw(&folder.path().join(TENANT))
        .execute_batch("DROP TRIGGER z_entry_hash_change")
        .unwrap();
    let reported = checked(folder.path()).await.unwrap_err().to_string();
    assert!(
        reported.contains("schema: 1 damaged (trigger z_entry_hash_change)"),
        "{reported}"
    );
}

/// The chain covers an event's position in its run, and an event outside of runs has none.
#[tokio::test]
async fn sqlite_detects_a_partial_run_position_in_an_event() {
    for column in ["run_seq", "recorded_at"] {
        let folder = folder().await;
        let sql = format!("UPDATE event SET {column} = 0 WHERE seq = 1 AND {column} IS NULL");
        let changed = raw(&folder.path().join(TENANT)).execute(&sql, []);
        assert_eq!(changed, Ok(1));
        let reported = checked(folder.path()).await.unwrap_err().to_string();
        assert!(
            reported.contains("event: the chain breaks: 1 damaged"),
            "{reported}"
        );
    }
}

/// At the target every row gets a new hash, so damage must not be copied unnoticed.
#[tokio::test]
async fn copying_a_damaged_source_is_rejected() {
    for (file, sql, why) in [
        (
            TENANT,
            "UPDATE record SET body = '{\"a\":1}'",
            "tenant a is damaged",
        ),
        (HOST, "UPDATE api_key SET revoked_at = 1", "tenants or keys"),
    ] {
        let folder = folder().await;
        std::fs::write(folder.path().join("host.key"), [1; 32]).unwrap();
        raw(&folder.path().join(TENANT))
            .execute_batch("DELETE FROM snapshot") // a run would stop the copy
            .unwrap();
        assert!(raw(&folder.path().join(file)).execute(sql, []).unwrap() > 0);
        let to = tempfile::tempdir().unwrap();
        let copied = copy(
            CopyLocation::Folder(folder.path().into()),
            CopyLocation::Folder(to.path().join("new")),
            &CopyOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .await;
        let reported = copied.unwrap_err().to_string();
        assert!(reported.contains(why), "{reported}");
    }
}

/// The hash of an erased row is that of the row without its text: nothing that depends on the text
/// is left.
#[tokio::test]
async fn sqlite_erasing_an_entry_replaces_its_row_hash() {
    let folder = folder().await;
    let hash = || {
        let db = Connection::open(folder.path().join(TENANT)).unwrap();
        let sql = "SELECT hex(row_hash) FROM entry WHERE id = 'e1'";
        db.query_row(sql, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    let before = hash();
    let store = SqliteStore::open(Location::Folder(folder.path().into()), 1).unwrap();
    delete(&store, &scope("a", "notes"), "e1", NOON).await;
    let run = remem_core::RunId::parse("run_1").unwrap();
    let batch = || Batch::new(tenant(), NOON);
    store
        .commit(batch().in_run(run).release_snapshot())
        .await
        .unwrap();
    let s = scope("a", "notes");
    store
        .commit(batch().erase(s.memory_ref.clone(), id("e1")))
        .await
        .unwrap();
    assert_ne!(hash(), before);
    drop(store);
    checked(folder.path()).await.unwrap();
}

/// The same on PostgreSQL, where a trigger makes it.
#[tokio::test]
async fn postgres_erasing_an_entry_replaces_its_row_hash() {
    let (database, store) = database().await;
    let admin = database.admin().await;
    let hash = async || -> String {
        let sql =
            "SELECT encode(row_hash, 'hex') FROM remem.entry WHERE tenant_id = 'a' AND id = 'e1'";
        admin.query_one(sql, &[]).await.unwrap().get(0)
    };
    let before = hash().await;
    let s = scope("a", "notes");
    delete(&store, &s, "e1", NOON).await;
    let run = remem_core::RunId::parse("run_1").unwrap();
    let batch = || Batch::new(tenant(), NOON);
    store
        .commit(batch().in_run(run).release_snapshot())
        .await
        .unwrap();
    let erased = batch().erase(s.memory_ref.clone(), id("e1"));
    store.commit(erased).await.unwrap();
    assert_ne!(hash().await, before);
    store.verify(&tenant()).await.unwrap();
}

/// The steps of 0.1.0.
const OLD_STEPS: [&str; 8] = [
    include_str!("../../migrations/sqlite/0001_memory.sql"),
    include_str!("../../migrations/sqlite/0002_owner_and_lease.sql"),
    include_str!("../../migrations/sqlite/0003_record.sql"),
    include_str!("../../migrations/sqlite/0004_run.sql"),
    include_str!("../../migrations/sqlite/0005_lineage.sql"),
    include_str!("../../migrations/sqlite/0006_tie.sql"),
    include_str!("../../migrations/sqlite/0007_workshop.sql"),
    include_str!("../../migrations/sqlite/0008_recall.sql"),
];

/// Makes the tenant's file as a version without hashes would have left it, with many more records.
fn as_before(folder: &Path) {
    let today = folder.join(TENANT);
    let old = folder.join("old.db");
    let db = raw(&old);
    for step in OLD_STEPS {
        db.execute_batch(step).unwrap();
    }
    db.pragma_update(None, "application_id", 0x5265_6D65)
        .unwrap();
    db.pragma_update(None, "user_version", 8).unwrap();
    db.execute("ATTACH ?1 AS new", [today.to_str().unwrap()])
        .unwrap();
    for table in tables(&db).iter().filter(|name| *name != "sqlite_sequence") {
        let sql = format!("SELECT group_concat(name, ', ') FROM main.pragma_table_info('{table}')");
        let columns: String = db.query_row(&sql, [], |row| row.get(0)).unwrap();
        db.execute(
            &format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}"),
            [],
        )
        .unwrap();
    }
    db.execute_batch(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2500)
         INSERT INTO record (tenant_id, kind, key, version, at, body) SELECT 'a', 'file', 'f' || n, 1, 1, '{}' FROM n;
         DETACH new",
    )
    .unwrap();
    drop(db);
    std::fs::rename(old, today).unwrap();
}

#[tokio::test]
async fn sqlite_hash_backfill_resumes_after_a_restart() {
    let folder = folder().await;
    as_before(folder.path());
    let mut left = u64::MAX;
    let mut rounds = 0;
    while left > 0 {
        // A new process each time: finished pages stay, the progress is not stored.
        let store = SqliteStore::open(Location::Folder(folder.path().into()), 1).unwrap();
        let now = store.count_rows_without_hash(&tenant()).await.unwrap();
        assert!(now < left, "{now} of {left} are left");
        left = now;
        store.verify(&tenant()).await.unwrap();
        let due = store
            .tenants_with_work(remem_store::DueWork::Purge, NOON)
            .await
            .unwrap();
        assert!(!due.is_empty(), "the pass that fills is due");
        store
            .scrub(&tenant(), NOON.plus_ms(-1), false)
            .await
            .unwrap();
        rounds += 1;
    }
    assert!(rounds > 5, "{rounds}: a page at a time");
    checked(folder.path()).await.unwrap();
    raw(&folder.path().join(TENANT))
        .execute_batch("UPDATE record SET row_hash = NULL WHERE key = 'f7'")
        .unwrap();
    let reported = checked(folder.path()).await.unwrap_err().to_string();
    assert!(
        reported.contains("record: 1 damaged (file f7)"),
        "{reported}"
    );
}

/// A database with rows in every table of the tenant `a`.
async fn database() -> (TestDatabase, remem_store_sql::PostgresStore) {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    populate_store(&store, &store.directory(), "a").await;
    store.host_secret(&[1; 32]).await.unwrap();
    (database, store)
}

/// A connection as the superuser, without triggers and constraints.
async fn past_everything(database: &TestDatabase) -> Client {
    let admin = database.admin().await;
    let checks = "SET session_replication_role = replica;
         DO $$ DECLARE c record; BEGIN
           FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'remem'::regnamespace LOOP
             EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname);
           END LOOP; END $$";
    admin.batch_execute(checks).await.unwrap();
    admin
}

/// Table, column and type of every value in which a bit can change.
async fn columns(admin: &Client) -> Vec<(String, String, String)> {
    // A row whose tenant is changed is visible to the other tenant only: a check of one tenant at a
    // time cannot see it.
    let sql = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_class c
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
               WHERE c.relnamespace = 'remem'::regnamespace AND c.relkind = 'r' AND (a.attname <> 'tenant_id' OR c.relname = 'tenant')
               ORDER BY 1, 2";
    let rows = admin.query(sql, &[]).await.unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .filter(|(table, ..): &(String, _, _)| !UNCHECKED.contains(&table.as_str()))
        .collect()
}

/// The value with one bit changed; a second time it is the original value.
fn flip(column: &str, kind: &str, bit: u64) -> String {
    let of = |bytes: &str| {
        format!(
            "set_bit({bytes}, n, 1 - get_bit({bytes}, n)) FROM (SELECT {bit} % (8 * length({bytes})) AS n) AS place"
        )
    };
    match kind {
        "bigint" => format!("(SELECT {column} # (1::bigint << {}))", bit % 64),
        "integer" => format!("(SELECT {column} # (1 << {}))", bit % 32),
        "smallint" => format!("(SELECT {column} # (1 << {})::smallint)", bit % 15),
        "boolean" => format!("(SELECT NOT {column})"),
        "bytea" => format!("(SELECT {})", of(column)),
        "text" => {
            let bytes = format!("convert_to({column}, 'UTF8')");
            format!(
                "(SELECT convert_from(changed, 'UTF8') FROM (SELECT {} OFFSET 0) AS c)",
                of(&bytes).replacen(" FROM", " AS changed FROM", 1)
            )
        }
        other => format!("(SELECT {column}::text::{other})"),
    }
}

#[tokio::test]
async fn postgres_detects_every_changed_value() {
    let (database, store) = database().await;
    let admin = past_everything(&database).await;
    let directory = store.directory();
    let columns = columns(&admin).await;
    let mut random = SeededRandom::fresh();
    let mut missed = Vec::new();
    let mut flips = 0;
    let mut turn = 0;
    while flips < cases(columns.len() as u32, 1_000) {
        // Every column in turn.
        let (table, column, kind) = columns[turn % columns.len()].clone();
        turn += 1;
        let sql = format!("SELECT ctid::text FROM remem.{table} WHERE {column} IS NOT NULL");
        let rows = admin.query(&sql, &[]).await.unwrap();
        if rows.is_empty() || kind.ends_with("halfvec") {
            continue;
        }
        let row: String = rows[random.index(rows.len())].get(0);
        let to = flip(&column, &kind, random.below(1 << 20));
        let change = |row: &str| {
            format!(
                "UPDATE remem.{table} SET {column} = {to} WHERE ctid = '{row}' RETURNING ctid::text"
            )
        };
        // A value that is not valid text any more, or violates a key, cannot be written; another
        // bit can.
        let Ok(now) = admin.query_one(&change(&row), &[]).await else {
            continue;
        };
        flips += 1;
        let found = store.verify(&tenant()).await.is_err() || directory.verify().await.is_err();
        if !found {
            missed.push(format!("{table}.{column}: {to}"));
        }
        let now: String = now.get(0);
        admin.query_one(&change(&now), &[]).await.unwrap();
    }
    assert!(missed.is_empty(), "of {flips}: {missed:#?}");
    store.verify(&tenant()).await.unwrap();
    directory.verify().await.unwrap();
}

#[tokio::test]
async fn postgres_detects_a_direction_that_differs_from_its_vector() {
    let (database, store) = database().await;
    let admin = past_everything(&database).await;
    if !store.server().vectors {
        return;
    }
    let sql = "UPDATE remem.vector SET direction = (replace(direction::text, '127', '126'))::public.halfvec";
    assert_eq!(admin.execute(sql, &[]).await.unwrap(), 1);
    let reported = store.verify(&tenant()).await.unwrap_err().to_string();
    assert!(reported.contains("vector: 1 damaged"), "{reported}");
}

#[tokio::test]
async fn postgres_hash_backfill_resumes_after_a_crash() {
    let (database, store) = database().await;
    drop(store);
    let target = PostgresTarget::parse(&database.admin_url).unwrap();
    let many = "INSERT INTO remem.record (tenant_id, kind, key, version, at, body)
         SELECT 'a', 'file', 'f' || n, 1, 1, '{}' FROM generate_series(1, 2500) n";
    let admin = database.admin().await;
    admin
        .batch_execute(&format!("{WITHOUT_HASHES} {many}"))
        .await
        .unwrap();
    let migrated = migrate(&target, PASSWORD).await.unwrap();
    assert_eq!(
        migrated.applied,
        [
            "0004_row_hash",
            "0010_row_hash",
            "0011_named_tenant",
            "0012_totals",
            "0013_standing"
        ]
    );
    let store = database.open().await;
    let before = store.count_rows_without_hash(&tenant()).await.unwrap();
    assert!(before > 2_500, "{before}");
    store.verify(&tenant()).await.unwrap();
    let killed = tokio::spawn(async move {
        let killed = |reported: &remem_store_sql::postgres::BackfillProgress| {
            assert!(reported.table != "record", "killed after a page of records");
        };
        backfill_hashes(&target, &mut { killed }).await
    });
    assert!(killed.await.unwrap_err().is_panic());
    let between = store.count_rows_without_hash(&tenant()).await.unwrap();
    assert!(0 < between && between < before, "{between} of {before}");
    store.verify(&tenant()).await.unwrap();
    let target = PostgresTarget::parse(&database.admin_url).unwrap();
    let mut pages = 0;
    backfill_hashes(&target, &mut |_| pages += 1).await.unwrap();
    assert!(pages > 2);
    assert_eq!(store.count_rows_without_hash(&tenant()).await.unwrap(), 0);
    store.verify(&tenant()).await.unwrap();
    store.directory().verify().await.unwrap();
    let sql = "SET session_replication_role = replica; UPDATE remem.record SET row_hash = NULL WHERE key = 'f7'";
    admin.batch_execute(sql).await.unwrap();
    let reported = store.verify(&tenant()).await.unwrap_err().to_string();
    assert!(
        reported.contains("record: 1 damaged (file f7)"),
        "{reported}"
    );
}

/// A table without a decision on its check would never be checked.
#[tokio::test]
async fn the_operations_doc_lists_how_every_table_is_checked() {
    let text = include_str!("../../../../docs/operations.md");
    let (_, text) = text.split_once("| table | how it is checked |").unwrap();
    let documented: BTreeSet<&str> = text
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| {
            line.split('|')
                .nth(1)
                .unwrap()
                .split('`')
                .skip(1)
                .step_by(2)
        })
        .collect();
    let folder = folder().await;
    let mut found = BTreeSet::new();
    for file in [HOST, TENANT] {
        found.extend(tables(&raw(&folder.path().join(file))));
    }
    let database = TestDatabase::fresh().await;
    let sql = "SELECT relname::text FROM pg_class WHERE relnamespace = 'remem'::regnamespace AND relkind IN ('r', 'p')";
    let rows = database.admin().await.query(sql, &[]).await.unwrap();
    found.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(documented, found);
}
