//! The content of the directory in process memory, and the checks that keep it current.
//!
//! Every request looks up a key. The content is read from the file only when SQLite reports that
//! another connection changed it (of this process, or of a command that runs beside the server).
//! Each lookup is answered after a check that began when the lookup had begun, so a revoked key
//! stops working at once. Whatever touches the file runs on blocking threads; lookups that arrive
//! during a check share the next one, and none waits for a change to be flushed.

use super::connection::store_error;
use super::{directory, run_blocking};
use crate::queue::{ReplySender, await_reply, send_reply};
use remem_core::{TenantId, sabotage};
use remem_store::{KeyHash, KeyRecord, StoreError, TenantRecord};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The state of the file that a content was read from: SQLite's `data_version`, and the number of
/// changes that this process had made. In process memory, where one connection does everything,
/// `data_version` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryVersion {
    data_version: i64,
    own_changes: u64,
}

/// The tenants and keys of a host at one moment.
pub(super) struct CachedDirectory {
    pub version: DirectoryVersion,
    pub tenants: BTreeMap<TenantId, TenantRecord>,
    pub keys: HashMap<KeyHash, KeyRecord>,
}

/// The file of the directory, with its content.
pub(super) struct DirectoryFile {
    writer: Mutex<Connection>,
    /// The connection of the checks; `None` in process memory.
    reader: Option<Mutex<Connection>>,
    own_changes: AtomicU64,
    cached: Mutex<Option<Arc<CachedDirectory>>>,
    lookups: Mutex<WaitingLookups>,
    /// How often the content was read from the file.
    #[cfg(test)]
    pub loads: AtomicU64,
}

/// The lookups that wait for the next check, and whether a thread makes checks.
#[derive(Default)]
struct WaitingLookups {
    replies: Vec<ReplySender<Arc<CachedDirectory>>>,
    has_checker: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DirectoryFile {
    pub fn new(writer: Connection, reader: Option<Connection>) -> DirectoryFile {
        DirectoryFile {
            writer: Mutex::new(writer),
            reader: reader.map(Mutex::new),
            own_changes: AtomicU64::new(0),
            cached: Mutex::default(),
            lookups: Mutex::default(),
            #[cfg(test)]
            loads: AtomicU64::new(0),
        }
    }

    /// The content of the file, as a check found it that began after this call.
    pub async fn content(self: &Arc<DirectoryFile>) -> Result<Arc<CachedDirectory>, StoreError> {
        let (reply, result) = oneshot::channel();
        let has_checker = {
            let mut lookups = lock(&self.lookups);
            lookups.replies.push(reply);
            std::mem::replace(&mut lookups.has_checker, true)
        };
        if !has_checker {
            let checker = Checker {
                file: self.clone(),
                finished: false,
            };
            tokio::task::spawn_blocking(move || checker.run());
        }
        await_reply(result).await
    }

    /// Calls `work` with the connection that changes the file.
    pub async fn write<T, F>(self: &Arc<DirectoryFile>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let file = self.clone();
        let write = move || {
            let db = lock(&file.writer);
            let done = work(&db);
            file.own_changes.fetch_add(1, Ordering::SeqCst);
            done
        };
        sabotage!(
            "the-directory-is-changed-on-async-threads",
            run_blocking(write).await,
            write()
        )
    }

    /// Reads the content if the file has changed since it was read.
    fn check(&self) -> Result<Arc<CachedDirectory>, StoreError> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        let db = lock(sabotage!("lookups-wait-for-a-change", reader, &self.writer));
        let data_version = db
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(store_error)?;
        let version = DirectoryVersion {
            data_version,
            own_changes: self.own_changes.load(Ordering::SeqCst),
        };
        let mut cached = lock(&self.cached);
        if let Some(known) = &*cached
            && sabotage!("a-directory-is-read-once", known.version == version, true)
        {
            return Ok(known.clone());
        }
        #[cfg(test)]
        self.loads.fetch_add(1, Ordering::SeqCst);
        let loaded = Arc::new(directory::load(&db, version).map_err(store_error)?);
        *cached = Some(loaded.clone());
        Ok(loaded)
    }
}

/// The task that makes checks. If it ends early, by a panic or with its runtime, the lookups that
/// wait get an error, and the next one starts another task.
struct Checker {
    file: Arc<DirectoryFile>,
    finished: bool,
}

impl Checker {
    /// Makes checks until no lookup waits. A lookup that arrives during a check gets the next one.
    fn run(mut self) {
        while let Some(replies) = self.next_lookups() {
            let checked = self.file.check();
            for reply in replies {
                send_reply(reply, checked.as_ref().map(Arc::clone).map_err(same_error));
            }
        }
        self.finished = true;
    }

    /// The lookups that wait. A checker that gets `None` has stepped down.
    fn next_lookups(&self) -> Option<Vec<ReplySender<Arc<CachedDirectory>>>> {
        let mut lookups = lock(&self.file.lookups);
        lookups.has_checker = !lookups.replies.is_empty();
        let replies = std::mem::take(&mut lookups.replies);
        (!replies.is_empty()).then_some(replies)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        if !self.finished {
            *lock(&self.file.lookups) = WaitingLookups::default();
        }
    }
}

/// The same error for another lookup: errors cannot be cloned.
fn same_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Damaged(what) => StoreError::Damaged(what),
        StoreError::Busy => StoreError::Busy,
        StoreError::Full => StoreError::Full,
        StoreError::Unavailable(source) => StoreError::Unavailable(source.to_string().into()),
        other => StoreError::Unavailable(other.to_string().into()),
    }
}
