//! The storage of a test's host: its data directory, or, when
//! `REMEM_TEST_STORE=postgres`, in a database of its own on the server that `scripts/test` started.
//! The same tests run on both.

use super::{files, remem, run};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether this run is about PostgreSQL.
pub fn is_postgres() -> bool {
    std::env::var("REMEM_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// The superuser's URL of the server for tests.
pub fn server_url() -> String {
    std::env::var("REMEM_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("this test needs a PostgreSQL server: run `scripts/test`, or set REMEM_TEST_POSTGRES to what `scripts/postgres start DIR` prints")
    })
}

/// A new, prepared database on that server; answers the application's URL.
pub fn new_database(server: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "b{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::SeqCst)
    );
    psql(server, &format!("CREATE DATABASE {name}"));
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    let migrated =
        run(remem().args(["migrate", "--database", &format!("{place}/{name}")])).exits(0);
    migrated.stdout.trim().to_owned()
}

/// The same database as the superuser of the server.
pub fn as_superuser(server: &str, app_url: &str) -> String {
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    format!(
        "{place}/{}",
        app_url.rsplit_once('/').expect("a URL with a database").1
    )
}

/// Runs SQL; answers its rows, columns separated by `|`.
pub fn psql(url: &str, sql: &str) -> String {
    let output = Command::new("psql")
        .args(["-XqAt", "-v", "ON_ERROR_STOP=1", url, "-c", sql])
        .output();
    let output = output.expect("psql is there: `scripts/postgres install`");
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The database that belongs to a data directory; made when it is first asked for.
pub fn database_of(dir: &Path) -> Option<String> {
    static MADE: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);
    if !is_postgres() {
        return None;
    }
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    Some(
        made.entry(dir.to_owned())
            .or_insert_with(|| new_database(&server_url()))
            .clone(),
    )
}

/// `remem --data-dir DIR`, on the directory's database where this run is about one.
pub fn remem_on(dir: &Path) -> Command {
    let mut command = remem();
    command.arg("--data-dir").arg(dir);
    if let Some(url) = database_of(dir) {
        command.args(["--database", &url]);
    }
    command
}

/// Everything that the host of a data directory has stored, as raw bytes on the disk: its
/// files, and where it keeps memory in a database, that database's files and the server's log as
/// well.
pub fn stored(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = files::all(dir);
    if let Some(url) = database_of(dir) {
        let server = server_url();
        psql(&as_superuser(&server, &url), "CHECKPOINT");
        let oid = psql(
            &as_superuser(&server, &url),
            "SELECT oid FROM pg_database WHERE datname = current_database()",
        );
        let home = PathBuf::from(psql(&server, "SHOW data_directory").trim());
        let tables = files::all(&home.join("base").join(oid.trim()));
        assert!(!tables.is_empty(), "the server's files can be read");
        found.extend(tables);
    }
    found
}
