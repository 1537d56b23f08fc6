//! The two schemas correspond: every table that both stores have, has the same columns, of matching
//! types, nullable in both or in neither. Intended differences are listed here with the reason.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::ShapePolicy;
use remem_store::{Directory, TenantRecord};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::conformance::{NOON, draft, put, scope};
use remem_testkit::postgres::TestDatabase;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The type of a column and whether it may be NULL, by table and column.
type SchemaColumns = BTreeMap<(String, String), (String, bool)>;

/// The differences between the stores: table, column (`*` is the whole table), and reason.
const DIFFERENT: [(&str, &str, &str); 25] = [
    // Differences of search indexes.
    (
        "posting",
        "*",
        "PostgreSQL's index of words: policies switch off GIN, so it is an ordinary table",
    ),
    (
        "unindexed",
        "*",
        "what SQLite's indexes, which are in memory, have to hear of",
    ),
    (
        "sqlite_sequence",
        "*",
        "SQLite's own, for numbers that are never used again",
    ),
    ("vector", "n", "likewise: where an index in memory reads on"),
    (
        "vector",
        "tier",
        "PostgreSQL's indexes are for one kind of entry each",
    ),
    ("vector", "typology", "likewise"),
    (
        "vector",
        "dimensions",
        "likewise, and for one number of components",
    ),
    ("vector", "direction", "the bytes as pgvector takes them"),
    (
        "scope",
        "documents",
        "counts for ranking that SQLite's index in memory keeps by itself",
    ),
    ("scope", "words", "likewise"),
    (
        "rule",
        "size",
        "how many trigrams it has: what pg_trgm's index looks for, SQLite compares itself",
    ),
    ("rule", "trigrams", "likewise"),
    (
        "retention",
        "state",
        "worked out by a view, which has no type in SQLite",
    ),
    // Differences of ids and numbers.
    (
        "scope",
        "next_row",
        "rows are counted inside the memory; SQLite counts inside the file, which is the tenant's",
    ),
    (
        "entry",
        "id_hash",
        "an index of PostgreSQL takes 2,700 bytes, an id may be longer",
    ),
    (
        "entry_tag",
        "id_head",
        "likewise: the first characters of the id, for the order; the row decides",
    ),
    ("entry_tag", "row_id", "likewise"),
    ("entry_tag", "id", "in SQLite, the id itself"),
    (
        "tenant_clock",
        "scopes",
        "the last number of a memory; SQLite counts inside the file, which is the tenant's",
    ),
    (
        "entry",
        "content",
        "bytea, because a text of PostgreSQL cannot hold U+0000",
    ),
    // Differences due to many nodes and many tenants in one database.
    (
        "scope",
        "owner_key",
        "carries the owner into foreign keys; in SQLite no policy has to be kept",
    ),
    ("entry", "owner_key", "likewise"),
    (
        "upkeep",
        "*",
        "which tenants are due; SQLite asks the files it knows",
    ),
    (
        "host_secret",
        "*",
        "shared by the nodes; beside SQLite it is a file",
    ),
    ("schema_step", "*", "SQLite has user_version"),
];

/// Whether a listed table and column match this one.
fn means((table, column): (&str, &str), key: &(String, String)) -> bool {
    table
        .strip_suffix('*')
        .map_or(table == key.0, |prefix| key.0.starts_with(prefix))
        && (column == "*" || column == key.1)
}

/// A type of either store as the name that both have in common.
fn common(kind: &str) -> &'static str {
    match kind.to_ascii_lowercase().as_str() {
        "text" => "text",
        "bytea" | "blob" => "bytes",
        "bigint" | "integer" | "smallint" => "integer",
        "boolean" => "boolean",
        "halfvec" | "user-defined" => "vector",
        other if other.starts_with("timestamp") => "instant",
        other => panic!("a type that this test does not know: {other:?}"),
    }
}

async fn in_postgres() -> SchemaColumns {
    let database = TestDatabase::fresh().await;
    let sql = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull
               FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped";
    let rows = database.admin().await.query(sql, &[]).await.unwrap();
    rows.iter()
        .map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3))))
        .collect()
}

/// Reads the files that the store made, not the scripts.
async fn in_sqlite() -> SchemaColumns {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().into());
    let directory = SqliteDirectory::open(&location).unwrap();
    let s = scope("twin", "m");
    directory
        .put_tenant(&TenantRecord {
            id: s.tenant.clone(),
            created_at: NOON,
            shapes: ShapePolicy::Off,
        })
        .await
        .unwrap();
    put(
        &SqliteStore::open(location, 1).unwrap(),
        &s,
        "e1",
        draft("a text"),
        NOON,
    )
    .await;
    let mut columns = SchemaColumns::new();
    for file in ["host.db", "tenants/twin.db"] {
        columns.extend(of_file(&folder.path().join(file)));
    }
    columns
}

fn of_file(file: &Path) -> SchemaColumns {
    let db = Connection::open(file).unwrap();
    // A key of SQLite that numbers the rows is declared without NOT NULL and never NULL.
    let sql = "SELECT m.name, i.name, i.type, i.\"notnull\" = 0 AND i.pk = 0 FROM sqlite_schema m, pragma_table_info(m.name) i
               WHERE m.type IN ('table', 'view')";
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| {
            Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?)))
        })
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn every_table_has_the_same_columns_in_both_stores() {
    let sqlite = in_sqlite().await;
    let postgres = in_postgres().await;
    assert!(
        sqlite.len() > 60 && postgres.len() > 60,
        "{} and {} columns were read",
        sqlite.len(),
        postgres.len()
    );
    let mut compared = BTreeSet::new();
    for key in sqlite
        .keys()
        .chain(postgres.keys())
        .collect::<BTreeSet<_>>()
    {
        if DIFFERENT
            .iter()
            .any(|(table, column, _)| means((table, column), key))
        {
            continue;
        }
        let (table, column) = key;
        let shown =
            |columns: &SchemaColumns| columns.get(key).map(|(kind, null)| (common(kind), *null));
        assert_eq!(
            shown(&sqlite),
            shown(&postgres),
            "{table}.{column}: type, and whether it may be NULL, in SQLite and in PostgreSQL"
        );
        compared.insert(table.as_str());
    }
    let shared = [
        "action_link",
        "api_key",
        "entry",
        "entry_subject",
        "entry_tag",
        "event",
        "hash_fill",
        "idempotency",
        "lease",
        "lineage",
        "record",
        "retention",
        "review",
        "rule",
        "scope",
        "signature",
        "snapshot",
        "tenant",
        "tenant_clock",
        "vector",
    ];
    assert_eq!(compared.into_iter().collect::<Vec<_>>(), shared);
}

/// An exception that is no longer true would hide the next difference.
#[tokio::test]
async fn every_listed_schema_difference_still_exists() {
    let sqlite = in_sqlite().await;
    let postgres = in_postgres().await;
    for (table, column, why) in DIFFERENT {
        let of = |columns: &SchemaColumns| -> Vec<(String, &str, bool)> {
            let found = columns
                .iter()
                .filter(|(key, _)| means((table, column), key));
            // The columns of a virtual table have no type.
            found
                .map(|((_, name), (kind, null))| {
                    (
                        name.clone(),
                        if kind.is_empty() { "any" } else { common(kind) },
                        *null,
                    )
                })
                .collect()
        };
        assert_ne!(
            of(&sqlite),
            of(&postgres),
            "{table}.{column} is listed ({why}), and the same in both"
        );
    }
}
