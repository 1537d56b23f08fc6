//! The hashes of rows in the embedded store: the function that the triggers call, the check of
//! stored hashes, and the backfill, page by page, of rows that were written before rows had hashes.

use super::connection::store_error;
use super::identity;
use crate::row_hash::{BACKFILL_ROWS, HashedTable, SQLITE};
use remem_core::{Actor, sabotage};
use remem_store::{DamageReport, StoreError};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result, Row, params_from_iter};

/// The bytes of a digest that are stored after the byte of the format.
const DIGEST_BYTES: usize = 15;

/// Gives a connection `row_hash_of(format, column, …)`, which the triggers call.
pub(super) fn register(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_INNOCUOUS
        | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_hash_of", -1, flags, |args| {
        let format: u8 = args.get(0)?;
        let mut hasher = blake3::Hasher::new();
        for column in 1..args.len() {
            hash_value(&mut hasher, args.get_raw(column));
        }
        let mut hash = vec![format];
        hash.extend_from_slice(&hasher.finalize().as_bytes()[..DIGEST_BYTES]);
        Ok(hash)
    })
}

/// Hashes a value with its type and its length, so that no two different rows are hashed alike.
fn hash_value(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    let mut sized = |kind: u8, bytes: &[u8]| {
        hasher
            .update(&[kind])
            .update(&(bytes.len() as u64).to_le_bytes())
            .update(bytes);
    };
    match value {
        ValueRef::Null => sized(0, &[]),
        ValueRef::Integer(number) => sized(1, &number.to_le_bytes()),
        ValueRef::Real(number) => sized(2, &number.to_bits().to_le_bytes()),
        ValueRef::Text(bytes) => sized(3, bytes),
        ValueRef::Blob(bytes) => sized(4, bytes),
    }
}

/// SQL expression: the hash that a row should have, by the format that its stored hash names; NULL
/// for an unknown format.
fn expected_hash(hashed: &HashedTable) -> String {
    let formats = hashed.formats.iter().enumerate().map(|(n, columns)| {
        let format = n + 1;
        format!("WHEN x'{format:02x}' THEN row_hash_of({format}, {columns})")
    });
    format!(
        "CASE substr(row_hash, 1, 1) {} END",
        formats.collect::<Vec<_>>().join(" ")
    )
}

/// Compares every row of the tables with its hash. A row without a hash is damaged too, unless its
/// table is still to be backfilled.
pub(super) fn check(
    db: &Connection,
    tables: &[HashedTable],
    damages: &mut DamageReport,
) -> Result<()> {
    let pending = pending_tables(db)?;
    for hashed in tables {
        let HashedTable {
            table, row_label, ..
        } = hashed;
        let sql = format!(
            "SELECT {row_label}, row_hash IS NULL FROM {table} WHERE row_hash IS NULL OR row_hash IS NOT {}",
            expected_hash(hashed)
        );
        let mut query = db.prepare(&sql)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let is_unhashed: bool = row.get(1)?;
            if sabotage!(
                "a-row-without-its-hash-is-sound",
                !(is_unhashed && pending.iter().any(|name| name == table)),
                !is_unhashed
            ) {
                damages.table_mut(table).add(&row_name(row)?);
            }
        }
    }
    Ok(())
}

fn row_name(row: &Row<'_>) -> Result<String> {
    Ok(match row.get_ref(0)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(_) | ValueRef::Null => "?".to_owned(),
    })
}

/// Tables that still have rows from before there were hashes.
fn pending_tables(db: &Connection) -> Result<Vec<String>> {
    db.prepare_cached("SELECT name FROM hash_fill ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The number of a tenant's rows that have no hash yet.
pub(super) fn unhashed(db: &Connection) -> std::result::Result<u64, StoreError> {
    count_unhashed(db).map_err(store_error)
}

fn count_unhashed(db: &Connection) -> Result<u64> {
    let tables = &SQLITE;
    let mut count = 0;
    let pending = pending_tables(db)?;
    for hashed in tables
        .iter()
        .filter(|hashed| pending.iter().any(|name| name == hashed.table))
    {
        let sql = format!(
            "SELECT count(*) FROM {} WHERE row_hash IS NULL",
            hashed.table
        );
        count += db.query_row(&sql, [], |row| row.get::<_, u64>(0))?;
    }
    Ok(count)
}

/// The progress of the backfill of a file: the table, and the key of the last row that was looked
/// at. It is not stored: after a restart the rows that have a hash already are read over.
#[derive(Debug, Default)]
pub(super) struct Backfill {
    after: Option<(String, Vec<Value>)>,
    filled: u64,
}

/// Hashes up to `BACKFILL_ROWS` rows that have no hash, in one transaction. Returns whether more
/// are left.
pub(super) fn backfill(
    db: &Connection,
    tables: &[HashedTable],
    fill: &mut Backfill,
) -> std::result::Result<bool, StoreError> {
    let Some(name) = pending_tables(db).map_err(store_error)?.into_iter().next() else {
        return Ok(false);
    };
    db.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
    let hashed = tables.iter().find(|hashed| hashed.table == name);
    let page = identity::as_actor(&Actor::Host, || match hashed {
        Some(hashed) => backfill_page(db, hashed, fill),
        None => Ok(0),
    });
    let done = page.and_then(|rows| {
        if rows < u64::from(BACKFILL_ROWS) {
            db.execute("DELETE FROM hash_fill WHERE name = ?1", [&name])?;
            fill.after = None;
        }
        db.execute_batch("COMMIT").map(|()| rows)
    });
    match done {
        Ok(rows) => {
            fill.filled += rows;
            tracing::info!(
                table = name,
                rows,
                total = fill.filled,
                "hashes of older rows made"
            );
            pending_tables(db)
                .map(|left| !left.is_empty())
                .map_err(store_error)
        }
        Err(error) => {
            // The first error is the one to report.
            let _ = db.execute_batch("ROLLBACK");
            fill.after = None;
            Err(store_error(error))
        }
    }
}

/// Hashes the next page of rows of a table. Returns the number of rows.
fn backfill_page(db: &Connection, hashed: &HashedTable, fill: &mut Backfill) -> Result<u64> {
    let HashedTable { table, key, .. } = hashed;
    let keys = key.join(", ");
    let placeholders = vec!["?"; key.len()].join(", ");
    let after = match &fill.after {
        Some((name, after)) if name == table => after.clone(),
        _ => Vec::new(),
    };
    let after_condition = if after.is_empty() {
        String::new()
    } else {
        format!("({keys}) > ({placeholders}) AND")
    };
    let sql = format!(
        "SELECT {keys} FROM {table} WHERE {after_condition} row_hash IS NULL ORDER BY {keys} LIMIT {BACKFILL_ROWS}"
    );
    let unhashed_rows: Vec<Vec<Value>> = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(after), |row| {
            (0..key.len()).map(|column| row.get(column)).collect()
        })?
        .collect::<Result<_>>()?;
    let format = hashed.formats.len();
    let columns = hashed.formats.last().unwrap_or(&"");
    let sql = format!(
        "UPDATE {table} SET row_hash = row_hash_of({format}, {columns}) WHERE ({keys}) = ({placeholders})"
    );
    let mut update = db.prepare_cached(&sql)?;
    for row in &unhashed_rows {
        update.execute(params_from_iter(row))?;
    }
    let rows = unhashed_rows.len() as u64;
    if let Some(last) = unhashed_rows.into_iter().next_back() {
        fill.after = Some(((*table).to_owned(), last));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: HashedTable = HashedTable {
        table: "thing",
        key: &["id"],
        row_label: "id",
        formats: &["id, a"],
    };
    /// The same table after a step that added a column.
    const NEW: HashedTable = HashedTable {
        formats: &["id, a", "id, a, b"],
        ..OLD
    };

    fn triggers(format: u8, columns: &str) -> String {
        format!(
            "CREATE TRIGGER i AFTER INSERT ON thing BEGIN
               UPDATE thing SET row_hash = row_hash_of({format}, {columns}) WHERE id = NEW.id; END;
             CREATE TRIGGER u AFTER UPDATE OF id, a ON thing BEGIN
               UPDATE thing SET row_hash = row_hash_of({format}, {columns}) WHERE id = NEW.id; END;"
        )
    }

    /// The rows that the check calls damaged.
    fn damaged(db: &Connection) -> String {
        let mut damages = DamageReport::default();
        check(db, &[NEW], &mut damages).unwrap();
        damages.to_string()
    }

    #[test]
    fn adding_a_column_keeps_old_hashes_and_covers_new_writes() {
        let db = Connection::open_in_memory().unwrap();
        register(&db).unwrap();
        let old = "CREATE TABLE hash_fill (name TEXT PRIMARY KEY);
                   CREATE TABLE thing (id INTEGER PRIMARY KEY, a TEXT, row_hash BLOB);";
        db.execute_batch(old).unwrap();
        db.execute_batch(&triggers(1, "id, a")).unwrap();
        db.execute_batch("INSERT INTO thing (id, a) VALUES (1, 'x'), (2, 'y'), (3, 'z')")
            .unwrap();
        let step = "DROP TRIGGER i; DROP TRIGGER u; ALTER TABLE thing ADD COLUMN b TEXT";
        db.execute_batch(step).unwrap();
        db.execute_batch(&triggers(2, "id, a, b")).unwrap();
        assert_eq!(damaged(&db), "", "rows of before");
        let format = |id: u8| -> u8 {
            let sql = "SELECT row_hash FROM thing WHERE id = ?1";
            let hash: Vec<u8> = db.query_row(sql, [id], |row| row.get(0)).unwrap();
            hash[0]
        };
        db.execute_batch("UPDATE thing SET a = 'changed', b = 'new' WHERE id = 2")
            .unwrap();
        assert_eq!((format(1), format(2)), (1, 2));
        assert_eq!(damaged(&db), "");
        // Damage, past the triggers: of the new column, and of a row of the old format.
        db.execute_batch("UPDATE thing SET b = 'damage' WHERE id = 2")
            .unwrap();
        assert!(damaged(&db).contains("1 damaged (2)"), "{}", damaged(&db));
        db.execute_batch("DROP TRIGGER u; UPDATE thing SET a = 'damage' WHERE id = 1")
            .unwrap();
        assert!(damaged(&db).contains("2 damaged"), "{}", damaged(&db));
        let unknown = "UPDATE thing SET row_hash = x'03' || substr(row_hash, 2) WHERE id = 3";
        db.execute_batch(unknown).unwrap();
        assert!(damaged(&db).contains("3 damaged"), "{}", damaged(&db));
    }

    #[test]
    fn backfill_writes_hashes_of_the_newest_format() {
        let db = Connection::open_in_memory().unwrap();
        register(&db).unwrap();
        let rows = "CREATE TABLE hash_fill (name TEXT PRIMARY KEY);
                    INSERT INTO hash_fill VALUES ('thing');
                    CREATE TABLE thing (id INTEGER PRIMARY KEY, a TEXT, b TEXT, row_hash BLOB);
                    INSERT INTO thing (id, a, b) VALUES (1, 'x', 'y');";
        db.execute_batch(rows).unwrap();
        assert_eq!(damaged(&db), "", "it waits for its hash");
        while backfill(&db, &[NEW], &mut Backfill::default()).unwrap() {}
        let sql = "SELECT row_hash FROM thing";
        let hash: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(hash[0], 2);
        assert_eq!(damaged(&db), "");
    }
}
