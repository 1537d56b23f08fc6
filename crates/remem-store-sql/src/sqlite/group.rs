//! Group commit: writers that arrive while a commit is being flushed to disk share the next one.
//!
//! The leader (see `queue`) runs on a blocking thread, applies a group in one transaction, and
//! answers each batch only after the flush. Batches are checked before they write, so an ordinary
//! refusal never undoes its neighbours; should a constraint of the schema refuse one all the same,
//! the group is applied again, each batch at a savepoint of its own.

use super::connection::store_error;
use super::load::load;
use super::save::save;
use super::tenant::TenantState;
use super::{identity, maintain, record, row_hash, workshop};
use crate::queue::{
    LeaderGuard, PendingCommit, Queue, WriterJob, await_reply, send_reply, split_by_actor,
};
use crate::row_hash::SQLITE;
use crate::stored::refused_error;
use remem_core::ledger::{self, Wanted};
use remem_core::sabotage;
use remem_core::{Batch, Revision, TenantId, Timestamp};
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

/// Commits a group and answers its callers.
fn commit_group(db: &Connection, state: &TenantState, group: Vec<PendingCommit>) {
    let batches: Vec<&Batch> = group.iter().map(|waiting| &waiting.batch).collect();
    let results = match in_transaction(db, state, || apply_together(db, state, &batches)) {
        Ok(results) => results,
        // The batches that a constraint does not concern must not wait for one flush each.
        Err(error) if concerns_one_batch(&error) => {
            match in_transaction(db, state, || apply_apart(db, state, &batches)) {
                Ok(results) => results,
                Err(error) => batches.iter().map(|_| Err(group_error(&error))).collect(),
            }
        }
        Err(error) => batches.iter().map(|_| Err(group_error(&error))).collect(),
    };
    for (waiting, result) in group.into_iter().zip(results) {
        send_reply(waiting.reply, result);
    }
}

/// An error that spoils a transaction.
enum GroupError {
    /// A statement was refused, or could not run.
    Sql(rusqlite::Error),
    /// Stored rows cannot be read.
    Store(StoreError),
}

impl From<rusqlite::Error> for GroupError {
    fn from(error: rusqlite::Error) -> GroupError {
        GroupError::Sql(error)
    }
}

/// The error for one caller: errors cannot be cloned, so each caller gets one of the same kind.
fn group_error(error: &GroupError) -> StoreError {
    match error {
        GroupError::Store(StoreError::Damaged(what)) => StoreError::Damaged(what),
        GroupError::Store(StoreError::Busy) => StoreError::Busy,
        GroupError::Store(StoreError::Full) => StoreError::Full,
        GroupError::Store(_) => StoreError::Unavailable("the group's transaction failed".into()),
        GroupError::Sql(error) => sql_error(error),
    }
}

fn sql_error(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged("the database file is malformed")
        }
        _ => StoreError::Unavailable("the group's transaction failed".into()),
    }
}

/// Whether the other batches of the group might succeed without the one that caused this error.
fn concerns_one_batch(error: &GroupError) -> bool {
    matches!(error, GroupError::Sql(error) if is_constraint(error))
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

type Results = Vec<Result<CommitResult, StoreError>>;

/// Runs `work` in a transaction and flushes it. An error means that nothing of it is known to be
/// applied.
fn in_transaction(
    db: &Connection,
    state: &TenantState,
    work: impl FnOnce() -> Result<AppliedGroup, GroupError>,
) -> Result<Results, GroupError> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let applied = work().and_then(|applied| {
        db.execute_batch(sabotage!(
            "acknowledged-before-the-flush",
            "COMMIT",
            "ROLLBACK"
        ))?;
        Ok(applied)
    });
    match applied {
        Ok(applied) => {
            applied.announce(state);
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
    revision: Option<Revision>,
    results: Results,
    next_expiry: i64,
    /// Text was erased, or can be erased now: the tenant needs a scrub.
    erased: bool,
    /// The earliest due time of a record may have changed.
    due_changed: bool,
    /// The earliest due time of a record, if it may have changed.
    next_due: Option<i64>,
}

impl Default for AppliedGroup {
    fn default() -> AppliedGroup {
        AppliedGroup {
            revision: None,
            results: Vec::new(),
            next_expiry: i64::MAX,
            erased: false,
            due_changed: false,
            next_due: None,
        }
    }
}

impl AppliedGroup {
    /// Updates what the passes and the readers of this process watch.
    fn announce(&self, state: &TenantState) {
        let upkeep = &state.upkeep;
        upkeep
            .next_expiry
            .fetch_min(self.next_expiry, Ordering::Relaxed);
        if let Some(next_due) = self.next_due
            && next_due < upkeep.next_due.swap(next_due, Ordering::Relaxed)
        {
            // Passes are woken only if something is due earlier than they know.
            state.wake.send_modify(|count| *count += 1);
        }
        if self.erased && !upkeep.needs_scrub.swap(true, Ordering::Relaxed) {
            state.wake.send_modify(|count| *count += 1);
        }
        if let Some(revision) = self.revision {
            state.revision.send_replace(revision);
        }
    }

    /// Loads what some batches of one actor need, applies them, and saves the effects.
    fn add(
        &mut self,
        db: &Connection,
        tenant: &TenantId,
        part: &[&Batch],
    ) -> Result<(), GroupError> {
        let wanted = Wanted::of(part);
        let mut working = load(db, tenant, &wanted).map_err(GroupError::Store)?;
        let results = part
            .iter()
            .map(|batch| ledger::apply(batch, &mut working).map_err(refused_error));
        self.results.extend(results.collect::<Results>());
        self.revision = Some(working.clock.revision);
        let effects = working.into_effects();
        let next_expiry = effects.next_expiry.map_or(i64::MAX, |at| at.0);
        self.next_expiry = self.next_expiry.min(next_expiry);
        self.erased |= effects.erased_text || effects.has_erasable_text;
        self.due_changed |= effects.due_changed;
        save(db, tenant, effects, part.len() == 1)?;
        Ok(())
    }

    fn finish(mut self, db: &Connection, tenant: &TenantId) -> Result<AppliedGroup, GroupError> {
        if self.due_changed {
            self.next_due = Some(record::next_due(db, tenant)?);
        }
        Ok(self)
    }
}

/// Applies the batches one actor after the other: a part of a transaction has one identity.
fn apply_together(
    db: &Connection,
    state: &TenantState,
    batches: &[&Batch],
) -> Result<AppliedGroup, GroupError> {
    let mut applied = AppliedGroup::default();
    for (actor, part) in split_by_actor(batches.to_vec(), |batch| *batch) {
        identity::as_actor(&actor, || applied.add(db, &state.tenant, &part))?;
    }
    applied.finish(db, &state.tenant)
}

/// Applies each batch so that a constraint which refuses it takes back nothing but that batch.
fn apply_apart(
    db: &Connection,
    state: &TenantState,
    batches: &[&Batch],
) -> Result<AppliedGroup, GroupError> {
    let mut applied = AppliedGroup::default();
    for batch in batches {
        db.execute_batch(sabotage!(
            "a-refused-batch-costs-the-others-a-flush-each",
            "SAVEPOINT batch",
            "COMMIT; BEGIN IMMEDIATE; SAVEPOINT batch"
        ))?;
        let done = applied.results.len();
        let outcome =
            identity::as_actor(&batch.actor(), || applied.add(db, &state.tenant, &[batch]));
        match outcome {
            Ok(()) => {}
            Err(GroupError::Sql(error)) if is_constraint(&error) => {
                db.execute_batch("ROLLBACK TO batch")?;
                applied.results.truncate(done);
                let refused = workshop::constraint_error(db, batch, &error);
                applied
                    .results
                    .push(Err(refused.unwrap_or_else(|| store_error(error))));
            }
            Err(error) => return Err(error),
        }
        db.execute_batch("RELEASE batch")?;
    }
    applied.finish(db, &state.tenant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::Location;
    use crate::sqlite::tenant::TenantFile;
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use remem_core::{
        Admission, Draft, Facets, Policy, Redactor, Rejection, RuleId, Typology, WorldId,
    };
    use remem_testkit::conformance::{NOON, admit, draft, id, scope};
    use std::sync::atomic::AtomicUsize;

    /// The most batches in a group (see `queue`).
    const GROUP: usize = 512;
    const RULE: &str = "Every change to a published rule needs a second reviewer who did not write it, and is announced a week before it takes effect.";

    fn batch() -> Batch {
        Batch::new(scope("t", "m").tenant, NOON)
    }

    /// A batch that only a trigger of the schema refuses.
    fn restating(world: &WorldId) -> Batch {
        let facets = Facets {
            world: world.clone(),
            ..Facets::default()
        };
        let copy = Draft {
            typology: Typology::Semantic,
            facets,
            ..draft(RULE)
        };
        batch().put(id("copy"), admit(&scope("t", "m"), copy, NOON))
    }

    fn rule(world: &WorldId) -> Batch {
        let admission = Admission {
            policy: &Policy::default(),
            redactor: &Redactor::empty(),
            redaction_fingerprint: 1,
            now: NOON,
        };
        let text = admission.admit_rule(RULE).unwrap();
        batch().set_rule(world.clone(), RuleId::parse("r").unwrap(), Some(text))
    }

    #[tokio::test]
    async fn a_refused_batch_costs_its_group_no_flush() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tenants")).unwrap();
        let location = Location::Folder(folder.path().to_owned());
        let tenant = scope("t", "m").tenant;
        let file = TenantFile::open(&location, 1, tenant, Arc::default(), Arc::default()).unwrap();
        let world = WorldId::parse("w").unwrap();
        file.commit(rule(&world)).await.unwrap();
        let flushes = Arc::new(AtomicUsize::new(0));
        let counted = flushes.clone();
        let mut commits = join_all((0..GROUP).map(|n| {
            let text = draft(&format!("entry {n}"));
            let plain = || batch().put(id(&format!("e{n}")), admit(&scope("t", "m"), text, NOON));
            file.commit(if n == 100 { restating(&world) } else { plain() })
        }));
        // While the writer is held, the batches become one group.
        {
            let mut writer = file.state().writer.lock().unwrap();
            let count = move || {
                counted.fetch_add(1, Ordering::SeqCst);
                false
            };
            writer.commit_hook(Some(count)).unwrap();
            assert!((&mut commits).now_or_never().is_none());
        }
        for (n, result) in commits.await.into_iter().enumerate() {
            match result {
                Ok(_) => assert_ne!(n, 100),
                Err(error) => assert!(
                    n == 100
                        && matches!(error, StoreError::Rejected(Rejection::ShadowsRule { .. })),
                    "{n}: {error:?}"
                ),
            }
        }
        assert_eq!(flushes.load(Ordering::SeqCst), 1);
    }
}
