//! Group commit: writers that arrive while a commit is being flushed to disk share the next one.
//!
//! The leader (see `queue`) runs on a blocking thread, applies a group in one transaction, and
//! answers each batch only after the flush. Batches are checked before they write, so an ordinary
//! refusal never undoes its neighbours; should a statement fail all the same, the group is rolled
//! back and its batches are committed one by one.

use super::apply::{self, Clock};
use super::connection::failed;
use super::tenant::State;
use super::{identity, maintain, record, row_hash, workshop};
use crate::queue::{Job, Leading, Queue, Waiting, hear, tell};
use crate::row_hash::SQLITE;
use remem_core::sabotage;
use remem_core::{Batch, Timestamp};
use remem_store::{Committed, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::sync::oneshot;

/// The writer of a tenant's file: a queue of jobs and the state that its leader works on.
pub(super) struct Group {
    queue: Arc<Queue<Work>>,
    state: Arc<State>,
}

/// A task that needs the writer between two groups.
pub(super) enum Work {
    Scrub {
        keys_before: Timestamp,
        compact: bool,
    },
    /// A function that sends its result to its caller by itself.
    Call(Box<dyn FnOnce(&Connection) + Send>),
}

impl Group {
    pub fn new(state: Arc<State>) -> Group {
        Group {
            queue: Arc::default(),
            state,
        }
    }

    /// Queues a batch and waits until it is flushed to disk or refused.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let (reply, result) = oneshot::channel();
        self.submit(Job::Commit(Waiting::new(batch, reply)))?;
        hear(result).await
    }

    /// Queues a task and waits until it is done.
    pub async fn run(&self, work: Work) -> Result<(), StoreError> {
        let (reply, result) = oneshot::channel();
        self.submit(Job::Work(work, reply))?;
        hear(result).await
    }

    /// Calls a function on the writer's connection, after at most one group.
    pub async fn call<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let call = Box::new(move |db: &Connection| tell(reply, function(db)));
        self.run(Work::Call(call)).await?;
        hear(result).await
    }

    fn submit(&self, job: Job<Work>) -> Result<(), StoreError> {
        if self.queue.submit(job)? {
            let queue = self.queue.clone();
            let state = self.state.clone();
            tokio::task::spawn_blocking(move || lead(&queue, &state));
        }
        Ok(())
    }
}

/// Works through the queue until it is empty; runs on a blocking thread.
fn lead(queue: &Queue<Work>, state: &State) {
    let mut guard = Leading { queue, done: false };
    let db = state.writer.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(step) = queue.next() {
        if let Some((work, reply)) = step.work {
            tell(reply, run(&db, state, work));
        }
        if !step.group.is_empty() {
            metrics::histogram!("remem_commit_group_batches").record(step.group.len() as f64);
            commit_group(&db, state, step.group);
        }
    }
    guard.done = true;
}

fn run(db: &Connection, state: &State, work: Work) -> Result<(), StoreError> {
    match work {
        Work::Scrub {
            keys_before,
            compact,
        } => scrub(db, state, keys_before, compact),
        Work::Call(call) => {
            call(db);
            Ok(())
        }
    }
}

/// Runs one step of the scrub (see `maintain::scrub`) and updates what the passes look at.
fn scrub(
    db: &Connection,
    state: &State,
    keys_before: Timestamp,
    compact: bool,
) -> Result<(), StoreError> {
    // Cleared first: text that is erased while the journal is truncated needs another truncation.
    state.due.scrub.store(false, Ordering::Relaxed);
    let done = fill(db, state).and_then(|more| {
        maintain::scrub(db, &state.tenant, keys_before, compact)
            .map(|(next_expiry, held)| (next_expiry, held || more))
    });
    match &done {
        // Only this thread moves this time, so a put cannot lower it in between.
        Ok((next_expiry, more)) => {
            state.due.next_expiry.store(*next_expiry, Ordering::Relaxed);
            sabotage!(
                "a-scrub-hides-what-a-run-let-go-of",
                state.due.scrub.fetch_or(*more, Ordering::Relaxed)
            );
        }
        Err(_) => state.due.scrub.store(true, Ordering::Relaxed),
    }
    done.map(|_| ())
}

/// Hashes a page of rows that were written before rows had a hash. Returns whether more are left.
fn fill(db: &Connection, state: &State) -> Result<bool, StoreError> {
    let mut fill = state.fill.lock().unwrap_or_else(PoisonError::into_inner);
    row_hash::fill(db, &SQLITE, &mut fill)
}

/// Commits a group and answers its callers. If one batch made the transaction fail, each batch is
/// committed by itself.
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
                tell(waiting.answer, Err(same(&error)));
            }
            let refused = workshop::refusal(db, &first.batch, &error);
            tell(first.answer, Err(refused.unwrap_or_else(|| failed(error))));
            return;
        }
    };
    for (waiting, result) in group.into_iter().zip(results) {
        tell(waiting.answer, result);
    }
}

/// The error for the other batches of a failed group: `rusqlite::Error` cannot be cloned.
fn same(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged("the database file is malformed")
        }
        _ => StoreError::Unavailable("the group's transaction failed".into()),
    }
}

/// Whether another group might succeed without the batch that caused this error.
fn concerns_one_batch(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

/// Applies the batches in one transaction and flushes it. An error means that none of them is known
/// to be applied.
fn transaction<'a>(
    db: &Connection,
    state: &State,
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<Vec<Result<Committed, StoreError>>, rusqlite::Error> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let applied = apply_all(db, state, batches).and_then(|applied| {
        db.execute_batch(sabotage!(
            "acknowledged-before-the-flush",
            "COMMIT",
            "ROLLBACK"
        ))
        .map(|()| applied)
    });
    match applied {
        Ok(applied) => {
            state
                .due
                .next_expiry
                .fetch_min(applied.next_expiry, Ordering::Relaxed);
            if let Some(next_due) = applied.next_due
                && next_due < state.due.next_due.swap(next_due, Ordering::Relaxed)
            {
                // Passes are woken only if something is due earlier than they know.
                state.wake.send_modify(|count| *count += 1);
            }
            if applied.erased && !state.due.scrub.swap(true, Ordering::Relaxed) {
                state.wake.send_modify(|count| *count += 1);
            }
            state.revision.send_replace(applied.clock.revision);
            Ok(applied.results)
        }
        Err(error) => {
            if !db.is_autocommit() {
                // If this fails too, the next BEGIN reports it.
                let _ = db.execute_batch("ROLLBACK");
            }
            Err(error)
        }
    }
}

/// The outcome of a group, before its commit.
struct Applied {
    clock: Clock,
    results: Vec<Result<Committed, StoreError>>,
    next_expiry: i64,
    erased: bool,
    /// The earliest due time of a record, if it may have changed.
    next_due: Option<i64>,
}

fn apply_all<'a>(
    db: &Connection,
    state: &State,
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<Applied, rusqlite::Error> {
    let mut clock = Clock::load(db, &state.tenant)?;
    let loaded = clock.clone();
    let mut results = Vec::new();
    let mut next_expiry = i64::MAX;
    let mut erased = false;
    let mut due_changed = false;
    for batch in batches {
        let mut applying = apply::Applying {
            db,
            batch,
            clock: &mut clock,
            next_expiry: i64::MAX,
            erased: false,
            retied: false,
            successors: Vec::new(),
        };
        results.push(identity::acting(&batch.actor(), || applying.run())?);
        next_expiry = next_expiry.min(applying.next_expiry);
        erased |= applying.erased;
        due_changed |= applying.retied;
    }
    if clock != loaded {
        clock.save(db, &state.tenant)?;
    }
    let next_due = if due_changed {
        Some(record::next_due(db, &state.tenant)?)
    } else {
        None
    };
    Ok(Applied {
        clock,
        results,
        next_expiry,
        erased,
        next_due,
    })
}
