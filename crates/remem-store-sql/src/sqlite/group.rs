//! Group commit: writers that arrive while a commit is being flushed to disk share the next one.
//!
//! The leader (see `queue`) runs on a blocking thread, applies a group in one transaction, and
//! answers each batch only after the flush. Batches are checked before they write, so an ordinary
//! refusal never undoes its neighbours; should a statement fail all the same, the group is rolled
//! back and its batches are tried one by one.

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

pub(super) struct Group {
    queue: Arc<Queue<Work>>,
    state: Arc<State>,
}

/// Something else that needs the writer between two groups.
pub(super) enum Work {
    Scrub {
        keys_before: Timestamp,
        compact: bool,
    },
    /// A function that hands its result on by itself.
    Call(Box<dyn FnOnce(&Connection) + Send>),
}

impl Group {
    pub fn new(state: Arc<State>) -> Group {
        Group {
            queue: Arc::default(),
            state,
        }
    }

    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job::Commit(Waiting::new(batch, answer)))?;
        hear(answered).await
    }

    pub async fn run(&self, work: Work) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job::Work(work, answer))?;
        hear(answered).await
    }

    /// Calls a function on the writer's connection, after at most one group.
    pub async fn call<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, replied) = oneshot::channel();
        let call = Box::new(move |db: &Connection| tell(reply, function(db)));
        self.run(Work::Call(call)).await?;
        hear(replied).await
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

fn lead(queue: &Queue<Work>, state: &State) {
    let mut leading = Leading { queue, done: false };
    let db = state.writer.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(turn) = queue.next() {
        if let Some((work, answer)) = turn.work {
            tell(answer, run(&db, state, work));
        }
        if !turn.group.is_empty() {
            metrics::histogram!("remem_commit_group_batches").record(turn.group.len() as f64);
            commit_group(&db, state, turn.group);
        }
    }
    leading.done = true;
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

fn scrub(
    db: &Connection,
    state: &State,
    keys_before: Timestamp,
    compact: bool,
) -> Result<(), StoreError> {
    // Cleared first: text erased while the journal is cut off asks for another cut.
    state.due.scrub.store(false, Ordering::Relaxed);
    let done = fill(db, state).and_then(|more| {
        maintain::scrub(db, &state.tenant, keys_before, compact)
            .map(|(next_expiry, held)| (next_expiry, held || more))
    });
    match &done {
        // Only this thread moves the mark, so a put cannot lower it in between.
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

/// A page of rows that were written before rows had a hash. Answers whether more are left.
fn fill(db: &Connection, state: &State) -> Result<bool, StoreError> {
    let mut fill = state.fill.lock().unwrap_or_else(PoisonError::into_inner);
    row_hash::fill(db, &SQLITE, &mut fill)
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
                state.wake.send_modify(|rung| *rung += 1);
            }
            if applied.erased && !state.due.scrub.swap(true, Ordering::Relaxed) {
                state.wake.send_modify(|rung| *rung += 1);
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
    /// If it may have changed.
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
    let mut retied = false;
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
        retied |= applying.retied;
    }
    if clock != loaded {
        clock.save(db, &state.tenant)?;
    }
    let next_due = if retied {
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
