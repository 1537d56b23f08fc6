//! The file of one tenant: a writer that commits in groups, and a bounded set of readers.

use super::connection::{self, TENANT_MIGRATIONS};
use super::group::{GroupCommit, WriterTask};
use super::row_hash::Backfill;
use super::{Location, maintain, run_blocking, verify};
use remem_core::{Batch, Revision, TenantId, Timestamp, sabotage};
use remem_store::{CommitResult, DueWork as StoreWork, StoreError};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The open file of a tenant.
pub(super) struct TenantFile {
    state: Arc<TenantState>,
    readers: Option<ReaderPool>,
    group: GroupCommit,
}

/// The part of a tenant's file that the writing thread and its callers share.
pub(super) struct TenantState {
    pub tenant: TenantId,
    pub writer: Mutex<Connection>,
    pub upkeep: Arc<Upkeep>,
    pub revision: watch::Sender<Revision>,
    /// The progress of the backfill of row hashes.
    pub backfill: Mutex<Backfill>,
    /// Increased to wake the passes when there is new work for them.
    pub wake: Arc<watch::Sender<u64>>,
}

/// Whether a pass has work in a tenant; outlives the open file, so that the file need not be opened
/// to find out.
pub(super) struct Upkeep {
    /// The earliest instant at which an entry may expire.
    pub next_expiry: AtomicI64,
    /// The earliest instant at which a record is due.
    pub next_due: AtomicI64,
    /// Text was erased since the journal was last truncated. True at first: the journal that an
    /// earlier process left behind may still hold text that it erased.
    pub needs_scrub: AtomicBool,
    /// Whether the last attempt to open the file failed.
    pub unopened: AtomicBool,
    /// Something in the file was found to be damaged since it was last checked.
    pub damaged: AtomicBool,
}

impl Default for Upkeep {
    fn default() -> Upkeep {
        Upkeep {
            next_expiry: AtomicI64::new(i64::MAX),
            next_due: AtomicI64::new(i64::MAX),
            needs_scrub: AtomicBool::new(true),
            unopened: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        }
    }
}

impl Upkeep {
    /// Whether the file cannot be opened, or damage was found in it since the last check.
    pub fn is_damaged(&self) -> bool {
        self.unopened.load(Ordering::Relaxed) || self.damaged.load(Ordering::Relaxed)
    }

    /// Remembers it if stored data was found to be damaged.
    fn note<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Damaged(_) | StoreError::DamagedRows(_)) = &done {
            sabotage!(
                "nobody-is-told-of-a-damaged-file",
                self.damaged.store(true, Ordering::Relaxed)
            );
        }
        done
    }

    pub fn has_work(&self, work: StoreWork, at: Timestamp) -> bool {
        match work {
            StoreWork::Purge => {
                self.next_expiry.load(Ordering::Relaxed) <= at.0
                    || self.needs_scrub.load(Ordering::Relaxed)
            }
            StoreWork::Records => self.next_due.load(Ordering::Relaxed) <= at.0,
        }
    }
}

/// The path of a tenant's file: its name with every byte but `a-z 0-9 _ -` escaped, so that names
/// that differ only in case stay apart on file systems that ignore case.
pub(super) fn tenant_path(folder: &Path, tenant: &TenantId) -> PathBuf {
    let mut name = String::new();
    for byte in tenant.as_str().bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("~{byte:02x}"));
        }
    }
    folder.join("tenants").join(sabotage!(
        "one-file-for-all-tenants",
        format!("{name}.db"),
        format!("all{}.db", name.len() * 0)
    ))
}

/// The read connections of a file: the idle ones, and a permit for each that may be open.
struct ReaderPool {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    /// Permits for connections that are opened for one long read.
    apart: Arc<Semaphore>,
}

/// The most long reads of one tenant at a time that have connections of their own.
const READS_APART_MAX: usize = 2;

/// Runs a query in a read transaction, so that all its statements see one commit.
fn in_read_transaction<T>(
    db: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    db.execute_batch("BEGIN").map_err(connection::store_error)?;
    let result = query(db)?;
    db.execute_batch("COMMIT")
        .map_err(connection::store_error)?;
    Ok(result)
}

impl TenantFile {
    /// Opens the tenant's file; creates it if it does not exist.
    pub fn open(
        location: &Location,
        connections: usize,
        tenant: TenantId,
        due: Arc<Upkeep>,
        wake: Arc<watch::Sender<u64>>,
    ) -> Result<TenantFile, StoreError> {
        let (writer, readers) = match location {
            Location::Folder(folder) => {
                let path = tenant_path(folder, &tenant);
                let writer = connection::writer(&path, &TENANT_MIGRATIONS)?;
                let readers = ReaderPool {
                    path,
                    idle: Arc::default(),
                    permits: Arc::new(Semaphore::new(connections)),
                    apart: Arc::new(Semaphore::new(READS_APART_MAX)),
                };
                (writer, Some(readers))
            }
            Location::Memory => (connection::in_memory(&TENANT_MIGRATIONS)?, None),
        };
        let start = maintain::load_state(&writer, &tenant)?;
        due.next_expiry.store(start.next_expiry, Ordering::Relaxed);
        due.next_due.store(start.next_due, Ordering::Relaxed);
        let state = Arc::new(TenantState {
            tenant,
            writer: Mutex::new(writer),
            upkeep: due,
            revision: watch::Sender::new(start.revision),
            backfill: Mutex::default(),
            wake,
        });
        Ok(TenantFile {
            group: GroupCommit::new(state.clone()),
            state,
            readers,
        })
    }

    #[cfg(test)]
    pub fn state(&self) -> &TenantState {
        &self.state
    }

    pub async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        self.state.upkeep.note(self.group.commit(batch).await)
    }

    pub async fn scrub(&self, keys_before: Timestamp, compact: bool) -> Result<(), StoreError> {
        let scrub = WriterTask::Scrub {
            keys_before,
            compact,
        };
        self.state.upkeep.note(self.group.run_task(scrub).await)
    }

    /// Checks the file on a separate connection, so that writers continue meanwhile.
    pub async fn verify(&self) -> Result<u64, StoreError> {
        let done = self.state.upkeep.note(self.verified().await);
        if done.is_ok() {
            self.state.upkeep.damaged.store(false, Ordering::Relaxed);
        }
        done
    }

    async fn verified(&self) -> Result<u64, StoreError> {
        let tenant = self.state.tenant.clone();
        let Some(readers) = &self.readers else {
            return self
                .write(move |db| verify::verify_tenant(db, &tenant))
                .await;
        };
        let path = readers.path.clone();
        run_blocking(move || {
            let db = connection::unrestricted_reader(&path)?;
            in_read_transaction(&db, |db| verify::verify_tenant(db, &tenant))
        })
        .await
    }

    /// Runs `work` on the writer's connection, after at most one group of commits.
    pub async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.state.upkeep.note(self.group.call(work).await)
    }

    pub fn watch(&self) -> watch::Receiver<Revision> {
        self.state.revision.subscribe()
    }

    /// Runs a query on a reader. Waiting is bounded by the number of readers, not by a queue of
    /// threads.
    pub async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.write(query).await;
        };
        let permit = acquire(&readers.permits).await?;
        let idle = readers.idle.clone();
        let path = readers.path.clone();
        let answer = run_blocking(move || {
            let _permit = permit;
            let idle_connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let db = match idle_connection {
                Some(db) => db,
                None => connection::reader(&path)?,
            };
            let result = in_read_transaction(&db, query);
            // A connection that failed is not used again: the next caller opens a fresh one.
            if result.is_ok() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
            }
            result
        })
        .await;
        self.state.upkeep.note(answer)
    }

    /// Runs a long query on a connection of its own, so that it keeps no reader from short ones.
    pub async fn read_apart<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.write(query).await;
        };
        let permits = sabotage!(
            "a-build-takes-a-reader-from-others",
            &readers.apart,
            &readers.permits
        );
        let permit = acquire(permits).await?;
        let path = readers.path.clone();
        let answer = run_blocking(move || {
            let _permit = permit;
            in_read_transaction(&connection::reader(&path)?, query)
        })
        .await;
        self.state.upkeep.note(answer)
    }
}

async fn acquire(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StoreError> {
    let permit = permits.clone().acquire_owned().await;
    permit.map_err(|e| StoreError::Unavailable(Box::new(e)))
}
