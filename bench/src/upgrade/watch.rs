//! Watches a store while it is upgraded: how large it gets, and for how long tables of a database
//! are locked. Says once in a while that the upgrade goes on.

use crate::database::SqlSession;
use crate::host;
use crate::table::mib;
use anyhow::anyhow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(100);
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The locks of a migration on tables of this database that keep others from reading or writing.
const LOCKS: &str = "SELECT
    count(*) FILTER (WHERE mode = 'AccessExclusiveLock'),
    count(*) FILTER (WHERE mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock'))
  FROM pg_locks JOIN pg_class ON pg_class.oid = relation AND relkind IN ('r', 'p')
  WHERE granted AND locktype = 'relation' AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The store that a watch looks at.
pub enum Meter {
    /// A folder with the files of the embedded store.
    Folder(PathBuf),
    /// A database, by the URL of a superuser.
    Database(String),
}

impl Meter {
    /// The bytes on disk; of a database without the log of the server.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        match self {
            Meter::Folder(folder) => host::bytes_below(folder),
            Meter::Database(url) => database_bytes(&SqlSession::open(url)?),
        }
    }
}

fn database_bytes(session: &SqlSession) -> anyhow::Result<u64> {
    let rows = session.query("SELECT pg_database_size(current_database())", &[])?;
    Ok(rows
        .first()
        .map_or(0, |row| row.get::<_, i64>(0))
        .cast_unsigned())
}

/// What a watch has seen of an upgrade.
#[derive(Default)]
pub struct Watched {
    pub bytes_max: u64,
    /// How long a table could not be read, or not be written, as seen every tenth of a second.
    pub unreadable: Duration,
    pub unwritable: Duration,
}

/// A thread that looks at a store until it is ended.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Watched>>,
}

impl Watch {
    pub fn start(meter: Meter) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || watch(&meter, &asked));
        Watch { stop, thread }
    }

    pub fn end(self) -> anyhow::Result<Watched> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread
            .join()
            .map_err(|_| anyhow!("the watch panicked"))?
    }
}

fn watch(meter: &Meter, stop: &AtomicBool) -> anyhow::Result<Watched> {
    let session = match meter {
        Meter::Folder(_) => None,
        Meter::Database(url) => Some(SqlSession::open(url)?),
    };
    let mut watched = Watched::default();
    let begun = Instant::now();
    let mut reported = begun;
    let mut looked = begun;
    while !stop.load(Ordering::SeqCst) {
        let bytes = match &session {
            // A file may be removed while the folder is read.
            None => meter.bytes().unwrap_or_default(),
            Some(session) => {
                let rows = session.query(LOCKS, &[])?;
                let locks = |at| rows.first().map_or(0, |row| row.get::<_, i64>(at));
                let since = looked.elapsed();
                watched.unreadable += if locks(0) > 0 { since } else { Duration::ZERO };
                watched.unwritable += if locks(1) > 0 { since } else { Duration::ZERO };
                database_bytes(session)?
            }
        };
        looked = Instant::now();
        watched.bytes_max = watched.bytes_max.max(bytes);
        if reported.elapsed() > PROGRESS_EVERY {
            reported = Instant::now();
            eprintln!("{} s, {}", begun.elapsed().as_secs(), mib(bytes));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(watched)
}
