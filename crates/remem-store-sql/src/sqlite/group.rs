//! Group commit: writers that arrive while a commit is being flushed to disk share the next one.
//!
//! Whoever finds no leader becomes it (on a blocking thread), takes everything that waits, applies it in one
//! transaction, and answers each only after the flush. No batch waits for a timer: an idle tenant commits at once.
//! Batches are checked before they write, so an ordinary refusal never undoes its neighbours; should a statement fail
//! all the same, the group is rolled back and its batches are tried one by one.

use super::apply::{self, Clock};
use super::connection::failed;
use super::maintain;
use super::tenant::State;
use remem_core::{Batch, Timestamp};
use remem_store::{Committed, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Batches in one transaction.
const GROUP_BATCHES_MAX: usize = 512;
/// Changes in one transaction, so that a group of large batches still commits in a fraction of a second.
const GROUP_CHANGES_MAX: usize = 4_096;
/// Batches that may wait; beyond that writers are told to come back.
const WAITING_MAX: usize = 16_384;

pub(super) struct Group {
    queue: Arc<Mutex<Queue>>,
    state: Arc<State>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    led: bool,
}

enum Job {
    Commit(Batch, Answer<Committed>),
    Work(Work, Answer<()>),
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something else that needs the writer between two groups.
pub(super) enum Work {
    Scrub { keys_before: Timestamp, compact: bool },
}

impl Group {
    pub fn new(state: Arc<State>) -> Group {
        Group { queue: Arc::default(), state }
    }

    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job::Commit(batch, answer))?;
        answered.await.unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
    }

    pub async fn run(&self, work: Work) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job::Work(work, answer))?;
        answered.await.unwrap_or_else(|e| Err(StoreError::Unavailable(Box::new(e))))
    }

    fn submit(&self, job: Job) -> Result<(), StoreError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        queue.waiting.push_back(job);
        if !queue.led {
            queue.led = true;
            let leader = Leader { queue: self.queue.clone(), state: self.state.clone() };
            tokio::task::spawn_blocking(move || leader.lead());
        }
        Ok(())
    }
}

struct Leader {
    queue: Arc<Mutex<Queue>>,
    state: Arc<State>,
}

/// A leader that panics must not leave writers waiting for it: they are told, and the next one leads.
impl Drop for Leader {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.led = false;
            queue.waiting.clear();
        }
    }
}

impl Leader {
    fn lead(self) {
        let db = self.state.writer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (group, work) = self.next();
            if group.is_empty() && work.is_none() {
                return;
            }
            if !group.is_empty() {
                metrics::histogram!("remem_commit_group_batches").record(group.len() as f64);
                commit_group(&db, &self.state, group);
            }
            if let Some((Work::Scrub { keys_before, compact }, answer)) = work {
                // Cleared first: text erased while the journal is cut off asks for another cut.
                self.state.due.scrub.store(false, Ordering::Relaxed);
                let done = maintain::scrub(&db, &self.state.tenant, keys_before, compact);
                match &done {
                    // Only this thread moves the mark, so a put cannot lower it in between.
                    Ok(next_expiry) => self.state.due.next_expiry.store(*next_expiry, Ordering::Relaxed),
                    Err(_) => self.state.due.scrub.store(true, Ordering::Relaxed),
                }
                let done = done.map(|_| ());
                let _ = answer.send(done); // the caller may be gone; the work is done all the same
            }
        }
    }

    /// Takes what waits, up to a group, stopping at the first job of another kind. Steps down in the same critical
    /// section that sees the queue empty, so no job can slip in between and wait for nobody.
    fn next(&self) -> (Vec<Waiting>, Option<(Work, Answer<()>)>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut group, mut changes) = (Vec::new(), 0);
        while group.len() < GROUP_BATCHES_MAX && changes < GROUP_CHANGES_MAX {
            match queue.waiting.pop_front() {
                Some(Job::Commit(batch, answer)) => {
                    changes += batch.changes().len();
                    group.push(Waiting { batch, answer });
                }
                Some(Job::Work(work, answer)) => return (group, Some((work, answer))),
                None => break,
            }
        }
        if group.is_empty() {
            queue.led = false;
        }
        (group, None)
    }
}

struct Waiting {
    batch: Batch,
    answer: Answer<Committed>,
}

fn commit_group(db: &Connection, state: &State, mut group: Vec<Waiting>) {
    let results = match transaction(db, state, group.iter().map(|w| &w.batch)) {
        Ok(results) => results,
        Err(error) if group.len() > 1 && concerns_one_batch(&error) => {
            for waiting in group {
                commit_group(db, state, vec![waiting]);
            }
            return;
        }
        Err(error) => {
            let first = group.remove(0);
            for waiting in group {
                let _ = waiting.answer.send(Err(same(&error)));
            }
            let _ = first.answer.send(Err(failed(error)));
            return;
        }
    };
    for (waiting, result) in group.into_iter().zip(results) {
        let _ = waiting.answer.send(result); // the caller may be gone; the write stands
    }
}

fn same(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        _ => StoreError::Unavailable("the group's transaction failed".into()),
    }
}

fn concerns_one_batch(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch))
}

/// Applies the batches in one transaction and flushes it. An error means that none of them is known to be applied.
fn transaction<'a>(
    db: &Connection,
    state: &State,
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<Vec<Result<Committed, StoreError>>, rusqlite::Error> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let applied = apply_all(db, state, batches).and_then(|applied| db.execute_batch("COMMIT").map(|()| applied));
    match applied {
        Ok(applied) => {
            state.due.next_expiry.fetch_min(applied.next_expiry, Ordering::Relaxed);
            if applied.erased {
                state.due.scrub.store(true, Ordering::Relaxed);
            }
            state.revision.send_replace(applied.clock.revision);
            Ok(applied.results)
        }
        Err(error) => {
            if !db.is_autocommit() {
                // If this fails too, the next BEGIN says so.
                let _ = db.execute_batch("ROLLBACK");
            }
            Err(error)
        }
    }
}

struct Applied {
    clock: Clock,
    results: Vec<Result<Committed, StoreError>>,
    next_expiry: i64,
    erased: bool,
}

fn apply_all<'a>(db: &Connection, state: &State, batches: impl Iterator<Item = &'a Batch>) -> Result<Applied, rusqlite::Error> {
    let mut clock = Clock::load(db, &state.tenant)?;
    let loaded = clock.clone();
    let (mut results, mut next_expiry, mut erased) = (Vec::new(), i64::MAX, false);
    for batch in batches {
        let mut applying = apply::Applying { db, batch, clock: &mut clock, next_expiry: i64::MAX, erased: false };
        results.push(applying.run()?);
        next_expiry = next_expiry.min(applying.next_expiry);
        erased |= applying.erased;
    }
    if clock != loaded {
        clock.save(db, &state.tenant)?;
    }
    Ok(Applied { clock, results, next_expiry, erased })
}
