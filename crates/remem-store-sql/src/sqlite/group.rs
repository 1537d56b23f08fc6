//! Group commit: writers that arrive while a commit is being flushed to disk share the next one.
//!
//! The leader (see `queue`) runs on a blocking thread, applies a group in one transaction, and
//! answers each batch only after the flush. Batches are checked before they write, so an ordinary
//! refusal never undoes its neighbours; should a statement fail all the same, the group is rolled
//! back and its batches are committed one by one.

use super::apply::{self, TenantClock};
use super::connection::store_error;
use super::tenant::TenantState;
use super::{identity, maintain, record, row_hash, workshop};
use crate::queue::{LeaderGuard, PendingCommit, Queue, WriterJob, await_reply, send_reply};
use crate::row_hash::SQLITE;
use remem_core::sabotage;
use remem_core::{Batch, Timestamp};
use remem_store::{CommitResult, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::sync::oneshot;

/// The writer of a tenant's file: a queue of jobs and the state that its leader works on.
pub(super) struct GroupCommit {
    queue: Arc<Queue<WriterTask>>,
    state: Arc<TenantState>,
}

/// A task that needs the writer between two groups.
pub(super) enum WriterTask {
    Scrub {
        keys_before: Timestamp,
        compact: bool,
    },
    /// A function that sends its result to its caller by itself.
    Call(Box<dyn FnOnce(&Connection) + Send>),
}

impl GroupCommit {
    pub fn new(state: Arc<TenantState>) -> GroupCommit {
        GroupCommit {
            queue: Arc::default(),
            state,
        }
    }

    /// Queues a batch and waits until it is flushed to disk or refused.
    pub async fn commit(&self, batch: Batch) -> Result<CommitResult, StoreError> {
        let (reply, result) = oneshot::channel();
        self.submit(WriterJob::Commit(PendingCommit::new(batch, reply)))?;
        await_reply(result).await
    }

    /// Queues a task and waits until it is done.
    pub async fn run_task(&self, work: WriterTask) -> Result<(), StoreError> {
        let (reply, result) = oneshot::channel();
        self.submit(WriterJob::Task(work, reply))?;
        await_reply(result).await
    }

    /// Calls a function on the writer's connection, after at most one group.
    pub async fn call<T, F>(&self, function: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let call = Box::new(move |db: &Connection| send_reply(reply, function(db)));
        self.run_task(WriterTask::Call(call)).await?;
        await_reply(result).await
    }

    fn submit(&self, job: WriterJob<WriterTask>) -> Result<(), StoreError> {
        if self.queue.submit(job)? {
            let queue = self.queue.clone();
            let state = self.state.clone();
            tokio::task::spawn_blocking(move || run_leader(&queue, &state));
        }
        Ok(())
    }
}

/// Works through the queue until it is empty; runs on a blocking thread.
fn run_leader(queue: &Queue<WriterTask>, state: &TenantState) {
    let mut guard = LeaderGuard {
        queue,
        finished: false,
    };
    let db = state.writer.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(step) = queue.next() {
        if let Some((work, reply)) = step.task {
            send_reply(reply, run_task_now(&db, state, work));
        }
        if !step.group.is_empty() {
            metrics::histogram!("remem_commit_group_batches").record(step.group.len() as f64);
            commit_group(&db, state, step.group);
        }
    }
    guard.finished = true;
}

fn run_task_now(db: &Connection, state: &TenantState, work: WriterTask) -> Result<(), StoreError> {
    match work {
        WriterTask::Scrub {
            keys_before,
            compact,
        } => scrub(db, state, keys_before, compact),
        WriterTask::Call(call) => {
            call(db);
            Ok(())
        }
    }
}

/// Runs one step of the scrub (see `maintain::scrub`) and updates what the passes read.
fn scrub(
    db: &Connection,
    state: &TenantState,
    keys_before: Timestamp,
    compact: bool,
) -> Result<(), StoreError> {
    // Cleared first: text that is erased while the journal is truncated needs another truncation.
    state.upkeep.needs_scrub.store(false, Ordering::Relaxed);
    let done = backfill_hashes(db, state).and_then(|more| {
        maintain::scrub(db, &state.tenant, keys_before, compact)
            .map(|(next_expiry, held)| (next_expiry, held || more))
    });
    match &done {
        // Only this thread moves this time, so a put cannot lower it in between.
        Ok((next_expiry, more)) => {
            state
                .upkeep
                .next_expiry
                .store(*next_expiry, Ordering::Relaxed);
            sabotage!(
                "a-scrub-hides-what-a-run-let-go-of",
                state.upkeep.needs_scrub.fetch_or(*more, Ordering::Relaxed)
            );
        }
        Err(_) => state.upkeep.needs_scrub.store(true, Ordering::Relaxed),
    }
    done.map(|_| ())
}

/// Hashes a page of rows that were written before rows had a hash. Returns whether more are left.
fn backfill_hashes(db: &Connection, state: &TenantState) -> Result<bool, StoreError> {
    let mut fill = state
        .backfill
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    row_hash::backfill(db, &SQLITE, &mut fill)
}

/// Commits a group and answers its callers. If one batch made the transaction fail, each batch is
/// committed by itself.
fn commit_group(db: &Connection, state: &TenantState, mut group: Vec<PendingCommit>) {
    let results = match commit_together(db, state, group.iter().map(|w| &w.batch)) {
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
                send_reply(waiting.reply, Err(group_error(&error)));
            }
            let refused = workshop::constraint_error(db, &first.batch, &error);
            send_reply(
                first.reply,
                Err(refused.unwrap_or_else(|| store_error(error))),
            );
            return;
        }
    };
    for (waiting, result) in group.into_iter().zip(results) {
        send_reply(waiting.reply, result);
    }
}

/// The error for the other batches of a failed group: `rusqlite::Error` cannot be cloned.
fn group_error(error: &rusqlite::Error) -> StoreError {
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
fn commit_together<'a>(
    db: &Connection,
    state: &TenantState,
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<Vec<Result<CommitResult, StoreError>>, rusqlite::Error> {
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
                .upkeep
                .next_expiry
                .fetch_min(applied.next_expiry, Ordering::Relaxed);
            if let Some(next_due) = applied.next_due
                && next_due < state.upkeep.next_due.swap(next_due, Ordering::Relaxed)
            {
                // Passes are woken only if something is due earlier than they know.
                state.wake.send_modify(|count| *count += 1);
            }
            if applied.erased && !state.upkeep.needs_scrub.swap(true, Ordering::Relaxed) {
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
struct AppliedGroup {
    clock: TenantClock,
    results: Vec<Result<CommitResult, StoreError>>,
    next_expiry: i64,
    erased: bool,
    /// The earliest due time of a record, if it may have changed.
    next_due: Option<i64>,
}

fn apply_all<'a>(
    db: &Connection,
    state: &TenantState,
    batches: impl Iterator<Item = &'a Batch>,
) -> Result<AppliedGroup, rusqlite::Error> {
    let mut clock = TenantClock::load(db, &state.tenant)?;
    let loaded = clock.clone();
    let mut results = Vec::new();
    let mut next_expiry = i64::MAX;
    let mut erased = false;
    let mut due_changed = false;
    for batch in batches {
        let mut applying = apply::BatchWriter {
            db,
            batch,
            clock: &mut clock,
            next_expiry: i64::MAX,
            erased: false,
            due_changed: false,
            successors: Vec::new(),
        };
        results.push(identity::as_actor(&batch.actor(), || applying.run())?);
        next_expiry = next_expiry.min(applying.next_expiry);
        erased |= applying.erased;
        due_changed |= applying.due_changed;
    }
    if clock != loaded {
        clock.save(db, &state.tenant)?;
    }
    let next_due = if due_changed {
        Some(record::next_due(db, &state.tenant)?)
    } else {
        None
    };
    Ok(AppliedGroup {
        clock,
        results,
        next_expiry,
        erased,
        next_due,
    })
}
