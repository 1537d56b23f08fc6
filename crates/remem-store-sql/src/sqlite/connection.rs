//! Opens connections: version, pragmas (set and read back), migrations. Every connection is made
//! here before it is used.

use super::{identity, row_hash};
use remem_core::{sabotage, sabotage_sql};
use remem_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Older versions can corrupt a database in WAL mode when a checkpoint races with a writer.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// Marks our files, so that a foreign database is refused rather than migrated.
const APPLICATION_ID: i64 = 0x5265_6D65; // "Reme"
/// The time that one process waits for a lock of another.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// A numbered step of the schema; there are no steps back.
pub(super) struct Migration {
    pub name: &'static str,
    pub sql: &'static str,
}

pub(super) const TENANT_MIGRATIONS: [Migration; 13] = [
    Migration {
        name: "0001_memory",
        sql: include_str!("../../migrations/sqlite/0001_memory.sql"),
    },
    Migration {
        name: "0002_owner_and_lease",
        sql: include_str!("../../migrations/sqlite/0002_owner_and_lease.sql"),
    },
    Migration {
        name: "0003_record",
        sql: include_str!("../../migrations/sqlite/0003_record.sql"),
    },
    Migration {
        name: "0004_run",
        sql: include_str!("../../migrations/sqlite/0004_run.sql"),
    },
    Migration {
        name: "0005_lineage",
        sql: include_str!("../../migrations/sqlite/0005_lineage.sql"),
    },
    Migration {
        name: "0006_tie",
        sql: include_str!("../../migrations/sqlite/0006_tie.sql"),
    },
    Migration {
        name: "0007_workshop",
        sql: include_str!("../../migrations/sqlite/0007_workshop.sql"),
    },
    Migration {
        name: "0008_recall",
        sql: include_str!("../../migrations/sqlite/0008_recall.sql"),
    },
    Migration {
        name: "0009_action_text",
        sql: include_str!("../../migrations/sqlite/0009_action_text.sql"),
    },
    Migration {
        name: "0010_row_hash",
        sql: include_str!("../../migrations/sqlite/0010_row_hash.sql"),
    },
    Migration {
        name: "0011_named_tenant",
        sql: include_str!("../../migrations/sqlite/0011_named_tenant.sql"),
    },
    Migration {
        name: "0012_totals",
        sql: include_str!("../../migrations/sqlite/0012_totals.sql"),
    },
    Migration {
        name: "0013_standing",
        sql: include_str!("../../migrations/sqlite/0013_standing.sql"),
    },
];
pub(super) const HOST_MIGRATIONS: [Migration; 4] = [
    Migration {
        name: "0001_directory",
        sql: include_str!("../../migrations/sqlite-host/0001_directory.sql"),
    },
    Migration {
        name: "0002_principal",
        sql: include_str!("../../migrations/sqlite-host/0002_principal.sql"),
    },
    Migration {
        name: "0003_key_trust",
        sql: include_str!("../../migrations/sqlite-host/0003_key_trust.sql"),
    },
    Migration {
        name: "0004_row_hash",
        sql: include_str!("../../migrations/sqlite-host/0004_row_hash.sql"),
    },
];

#[derive(Debug, thiserror::Error)]
enum SqliteOpenError {
    #[error("SQLite {0} is too old: 3.51.3 or newer is needed")]
    Version(&'static str),
    #[error("pragma {0} did not take effect")]
    Pragma(&'static str),
    #[error("this file is not a Remembrancer database")]
    Foreign,
    #[error(
        "the database has schema version {found}, this remem knows up to {known}: use a newer remem"
    )]
    Newer { found: i64, known: i64 },
}

pub(super) fn check_version() -> Result<(), StoreError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(StoreError::Unavailable(Box::new(SqliteOpenError::Version(
            rusqlite::version(),
        ))));
    }
    Ok(())
}

/// Opens the one connection that writes a file; creates and migrates the file first.
pub(super) fn writer(path: &Path, migrations: &[Migration]) -> Result<Connection, StoreError> {
    let restricted = restrict_files(path);
    restricted.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests record its statements"))]
    let mut db = Connection::open(path).map_err(store_error)?;
    #[cfg(test)]
    super::statement_log::attach(&mut db, path);
    configure(&db)?;
    verify_pragma(&db, "journal_mode", "wal")?;
    migrate(&db, migrations)?;
    Ok(db)
}

/// Creates the file readable by its owner alone, or restricts an existing one, independent of the
/// mode of the folder is: SQLite gives its log and its shared memory the mode of the database.
/// Those that exist from before are restricted as well.
fn restrict_files(path: &Path) -> std::io::Result<()> {
    sabotage!(
        "others-read-the-database",
        match crate::private::new_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    );
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        sabotage!(
            "databases-of-before-stay-readable",
            crate::private::restrict_to_owner(Path::new(&name))?
        );
    }
    Ok(())
}

/// A connection that only reads, for all ordinary reads; it cannot read the bodies of records under
/// review. Its file exists: the writer was opened first.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let mut db = unrestricted_reader(path)?;
    sabotage!(
        "readers-see-what-is-under-review",
        db.authorizer(Some(deny_review_bodies))
            .map_err(store_error)?
    );
    Ok(db)
}

/// A read connection that may also read records under review, for the copy of a whole host and for
/// checks.
pub(super) fn unrestricted_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests record its statements"))]
    let mut db = Connection::open_with_flags(path, flags).map_err(store_error)?;
    #[cfg(test)]
    super::statement_log::attach(&mut db, path);
    configure(&db)?;
    verify_pragma(&db, "journal_mode", "wal")?;
    db.pragma_update(None, "query_only", true)
        .map_err(store_error)?;
    Ok(db)
}

/// Denies readers the bodies of records under review: readers serve everything that runs, and a
/// record under review must not take part in that. SQLite itself enforces it.
fn deny_review_bodies(access: AuthContext<'_>) -> Authorization {
    match access.action {
        AuthAction::Read {
            table_name: "review",
            column_name: "body",
        } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

/// A migrated database in process memory.
pub(super) fn in_memory(migrations: &[Migration]) -> Result<Connection, StoreError> {
    let db = Connection::open_in_memory().map_err(store_error)?;
    configure(&db)?;
    migrate(&db, migrations)?;
    Ok(db)
}

/// Sets up a connection: time-outs, functions, pragmas. Fails if a pragma did not take effect.
fn configure(db: &Connection) -> Result<(), StoreError> {
    db.busy_timeout(BUSY_WAIT).map_err(store_error)?;
    db.set_prepared_statement_cache_capacity(64);
    identity::register(db).map_err(store_error)?;
    row_hash::register(db).map_err(store_error)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
        .map_err(store_error)?;
    // With this flag plans depend on no parameter. Without it SQLite would parse a cached statement
    // again each time a parameter is bound that a partial index might depend on, which took a third
    // of the time of a search.
    db.set_db_config(
        DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG,
        sabotage!("a-kept-statement-is-parsed-again-and-again", true, false),
    )
    .map_err(store_error)?;
    // Setting the journal mode returns the new mode as a row, hence the query.
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .map_err(store_error)?;
    for (name, wanted) in PRAGMAS {
        let value = sabotage!(
            "freed-space-not-zeroed",
            wanted,
            if name == "secure_delete" { "0" } else { wanted }
        );
        db.pragma_update_and_check(None, name, value, |_| Ok(()))
            .or_else(ignore_no_rows)
            .map_err(store_error)?;
        verify_pragma(db, name, value)?;
    }
    Ok(())
}

/// synchronous=FULL (2): an acknowledged write survives power loss. secure_delete: freed space is
/// zeroed. temp_store=MEMORY (2): sorting never spills text into temporary files. The others limit
/// what a damaged or hostile file can do.
const PRAGMAS: [(&str, &str); 7] = [
    ("synchronous", "2"),
    ("foreign_keys", "1"),
    ("secure_delete", "1"),
    ("temp_store", "2"),
    ("trusted_schema", "0"),
    ("cell_size_check", "1"),
    ("wal_autocheckpoint", "4000"),
];

fn ignore_no_rows(error: rusqlite::Error) -> Result<(), rusqlite::Error> {
    if matches!(error, rusqlite::Error::QueryReturnedNoRows) {
        Ok(())
    } else {
        Err(error)
    }
}

fn verify_pragma(db: &Connection, name: &'static str, value: &str) -> Result<(), StoreError> {
    let found: rusqlite::types::Value = db
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(store_error)?;
    let found = match found {
        rusqlite::types::Value::Integer(n) => n.to_string(),
        rusqlite::types::Value::Text(text) => text,
        _ => String::new(),
    };
    if found == value {
        Ok(())
    } else {
        Err(StoreError::Unavailable(Box::new(SqliteOpenError::Pragma(
            name,
        ))))
    }
}

/// Brings the schema up to date, each step in its own transaction together with its number.
fn migrate(db: &Connection, migrations: &[Migration]) -> Result<(), StoreError> {
    let known = migrations.len() as i64;
    loop {
        db.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
        let step = migration_step(db, migrations, known);
        match step {
            Ok(true) => db.execute_batch("COMMIT").map_err(store_error)?,
            Ok(false) => return db.execute_batch("COMMIT").map_err(store_error),
            Err(error) => {
                // The first error is the one to report.
                let _ = db.execute_batch("ROLLBACK");
                return Err(error);
            }
        }
    }
}

/// Runs the next migration in the open transaction. Returns whether there was one to run.
fn migration_step(
    db: &Connection,
    migrations: &[Migration],
    known: i64,
) -> Result<bool, StoreError> {
    let version: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(store_error)?;
    let application: i64 = db
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(store_error)?;
    if version > 0 && application != APPLICATION_ID {
        return Err(StoreError::Unavailable(Box::new(SqliteOpenError::Foreign)));
    }
    if version > known {
        return Err(StoreError::Unavailable(Box::new(SqliteOpenError::Newer {
            found: version,
            known,
        })));
    }
    let Some(migration) = migrations.get(version as usize) else {
        return Ok(false);
    };
    db.execute_batch(sabotage_sql!(migration.sql))
        .map_err(store_error)?;
    db.pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(store_error)?;
    db.pragma_update(None, "user_version", version + 1)
        .map_err(store_error)?;
    tracing::debug!(migration = migration.name, "schema migrated");
    Ok(true)
}

/// Maps a database error to an error that the caller can act on. SQLite's messages name tables and
/// columns, never values.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged("the database file is malformed")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        _ => StoreError::Unavailable(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let db = writer(&path, &TENANT_MIGRATIONS).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
        drop(db);
        let error = writer(&path, &TENANT_MIGRATIONS).unwrap_err();
        let StoreError::Unavailable(source) = error else {
            panic!("{error:?}")
        };
        assert!(source.to_string().contains("newer remem"), "{source}");
    }

    #[test]
    fn a_foreign_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t(a); PRAGMA user_version = 1")
            .unwrap();
        assert!(matches!(
            writer(&path, &TENANT_MIGRATIONS),
            Err(StoreError::Unavailable(_))
        ));
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let _writer = writer(&path, &TENANT_MIGRATIONS).unwrap();
        assert!(
            reader(&path)
                .unwrap()
                .execute("DELETE FROM event", [])
                .is_err()
        );
    }

    #[test]
    fn a_reader_cannot_read_bodies_under_review() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let writer = writer(&path, &TENANT_MIGRATIONS).unwrap();
        writer
            .execute(
                "INSERT INTO review (tenant_id, kind, key, version, at, body) VALUES ('t', 'proposal', 'p', 1, 0, '{}')",
                [],
            )
            .unwrap();
        let reader = reader(&path).unwrap();
        for sql in [
            "SELECT body FROM review",
            "SELECT * FROM review",
            "SELECT 1 FROM review WHERE body LIKE '{%'",
        ] {
            assert!(writer.prepare(sql).is_ok(), "{sql}");
            let error = reader.prepare(sql).unwrap_err().to_string();
            assert!(error.contains("prohibited"), "{sql}: {error}");
        }
        let count: i64 = reader
            .query_row("SELECT count(*) FROM review WHERE key = 'p'", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(count, 1, "that there is something is no secret");
    }

    #[test]
    fn a_statement_is_never_reprepared_for_other_bindings() {
        let db = in_memory(&TENANT_MIGRATIONS).unwrap();
        // An index of `entry` holds only the persistent ones: without the guarantee a plan would
        // depend on the tier that is bound here.
        let sql = "SELECT count(*) FROM entry WHERE tenant_id = ? AND scope_id = ? AND rev_to IS NULL AND expires_at IS NULL AND tier = ?";
        let mut statement = db.prepare(sql).unwrap();
        for tier in ["persistent", "session", "persistent"] {
            let none: i64 = statement
                .query_row(("t", 1, tier), |row| row.get(0))
                .unwrap();
            assert_eq!(none, 0);
        }
        assert_eq!(
            statement.get_status(rusqlite::StatementStatus::RePrepare),
            0
        );
    }

    #[test]
    fn the_bundled_sqlite_version_is_supported() {
        check_version().unwrap();
    }
}
