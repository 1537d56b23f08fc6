//! Applies one batch inside the group's transaction: checks everything first, then writes the
//! changes and their events.

use super::rows::scope_id;
use super::{record, snapshot};
use crate::stored::{outcomes_from_stored, outcomes_to_stored};
use remem_core::event::{ChainLink, chain_hash};
use remem_core::sabotage;
use remem_core::{
    Batch, Change, EntryId, EventBody, MemoryRef, Rejection, Revision, RunId, Seq, TenantId,
    Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

/// The revision, event number, time and event chain of a tenant while a transaction runs; saved
/// once at its end.
#[derive(Clone, PartialEq)]
pub(super) struct TenantClock {
    pub revision: Revision,
    pub seq: Seq,
    pub at: Timestamp,
    pub chain: [u8; 32],
}

impl TenantClock {
    pub fn load(db: &Connection, tenant: &TenantId) -> rusqlite::Result<TenantClock> {
        let mut query = db.prepare_cached(
            "SELECT revision, seq, at, chain FROM tenant_clock WHERE tenant_id = ?1",
        )?;
        let stored = query
            .query_row([tenant.as_str()], |row| {
                Ok(TenantClock {
                    revision: Revision(row.get(0)?),
                    seq: Seq(row.get(1)?),
                    at: Timestamp(row.get(2)?),
                    chain: row.get(3)?,
                })
            })
            .optional()?;
        Ok(stored.unwrap_or(TenantClock {
            revision: Revision(0),
            seq: Seq(0),
            at: Timestamp(0),
            chain: [0; 32],
        }))
    }

    pub fn save(&self, db: &Connection, tenant: &TenantId) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO tenant_clock (tenant_id, revision, seq, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant_id) DO UPDATE SET revision = ?2, seq = ?3, at = ?4, chain = ?5",
        )?
        .execute(params![tenant.as_str(), self.revision.0, self.seq.0, self.at.0, self.chain])?;
        Ok(())
    }
}

/// The application of one batch.
pub(super) struct BatchWriter<'a> {
    pub db: &'a Connection,
    pub batch: &'a Batch,
    pub clock: &'a mut TenantClock,
    /// The earliest expiry among the entries that the batch put.
    pub next_expiry: i64,
    /// Text was erased, or can be erased now: the tenant needs a scrub.
    pub erased: bool,
    /// The earliest due time of a record may have changed.
    pub due_changed: bool,
    /// Closed rows whose successor is put later in the batch.
    pub successors: Vec<(i64, &'a MemoryRef, &'a EntryId)>,
}

impl<'a> BatchWriter<'a> {
    /// Applies the batch. The inner result is that of the batch alone; the outer one is a statement
    /// that failed, which spoils the whole transaction.
    pub fn run(&mut self) -> rusqlite::Result<Result<CommitResult, StoreError>> {
        if let Some(result) = self.earlier_result()? {
            return Ok(result);
        }
        if sabotage!(
            "leases-do-not-fence",
            sabotage!("expectations-ignored", !self.expectations_hold()?, false)
                || !self.fence_holds()?,
            !self.expectations_hold()?
        ) || !self.preconditions_hold()?
        {
            return Ok(Err(StoreError::Conflict));
        }
        let before = self.clock.revision;
        let mut outcomes = Vec::with_capacity(self.batch.changes().len());
        let batch: &'a Batch = self.batch;
        for change in batch.changes() {
            let outcome = self.apply_change(change, before)?;
            if sabotage!(
                "a-change-without-its-event",
                outcome != ChangeOutcome::NoChange,
                outcome == ChangeOutcome::Removed
            ) && let Some(event) = change.event()
            {
                self.advance_revision(before);
                self.append_event(change, &event)?;
            }
            outcomes.push(outcome);
        }
        self.set_successors()?;
        let committed = CommitResult {
            revision: self.clock.revision,
            at: self.clock.at,
            outcomes,
            replayed: false,
        };
        self.store_result(&committed)?;
        Ok(Ok(committed))
    }

    /// Gives the batch its revision, at its first effect: a batch that changes nothing leaves the
    /// clock alone. `before` is the revision before the batch.
    pub(super) fn advance_revision(&mut self, before: Revision) -> Revision {
        if self.clock.revision == before {
            self.clock.revision = Revision(before.0 + 1);
            self.clock.at = self.clock.at.max(self.batch.at());
        }
        self.clock.revision
    }

    /// Applies one change of the batch.
    fn apply_change(
        &mut self,
        change: &'a Change,
        before: Revision,
    ) -> rusqlite::Result<ChangeOutcome> {
        match change {
            Change::Put {
                id,
                admitted,
                sources,
                ..
            } => self.put(id, admitted, sources, before),
            Change::Rewrite { id, admitted } => self.rewrite(id, admitted),
            Change::Delete { memory_ref, id } => self.remove(memory_ref, id, "deleted", before),
            Change::Expire { memory_ref, id } => self.remove(memory_ref, id, "expired", before),
            Change::Erase { memory_ref, id } => self.erase_ended(memory_ref, id),
            Change::Retire {
                memory_ref,
                id,
                reason,
                by,
            } => self.retire(memory_ref, id, *reason, by, before),
            Change::Forget { memory_ref, id } => self.forget(memory_ref, id, before),
            Change::Revive { memory_ref, id } => self.revive(memory_ref, id, before),
            Change::StoreSignature {
                memory_ref,
                id,
                pass,
                signature,
            } => self.sign(memory_ref, id, *pass, signature),
            Change::StoreEmbedding {
                memory_ref,
                id,
                scan,
                model,
                vector,
            } => self.embed((memory_ref, id), *scan, *model, vector),
            Change::Close {
                memory_ref,
                id,
                closing,
                by,
            } => self.close((memory_ref, id), *closing, by.as_ref(), before),
            Change::EndWithSession { memory_ref, id } => self.end(memory_ref, id, before),
            Change::EraseHistory {
                memory_ref,
                id,
                before: faded,
            } => self.strip(memory_ref, id, *faded, before),
            Change::SetEvidence {
                memory_ref,
                id,
                evidence,
            } => self.strengthen(memory_ref, id, evidence, before),
            Change::LinkAction {
                memory_ref,
                id,
                action,
            } => self.link_action((memory_ref, id), action, before),
            Change::RewriteAction {
                memory_ref,
                id,
                expected: was,
                action,
            } => self.relink((memory_ref, id), was, action, before),
            Change::RewriteRule {
                world,
                id,
                expected: was,
                body,
            } => self.reword((world, id), was, body, before),
            Change::SetRule { world, id, body } => self.rule(world, id, body.as_ref(), before),
            Change::HoldSnapshot => {
                let revision = self.advance_revision(before);
                snapshot::open_snapshot(self.db, self.batch, revision, self.clock.at)?;
                Ok(ChangeOutcome::Done)
            }
            Change::ReleaseSnapshot if self.batch.run().is_none() => Ok(ChangeOutcome::NoChange),
            Change::ReleaseSnapshot => {
                snapshot::close_snapshot(self.db, self.batch)?;
                sabotage!(
                    "nobody-is-told-that-a-run-let-go",
                    self.erased |= snapshot::has_erasable_text(self.db, self.batch.tenant())?
                );
                Ok(ChangeOutcome::Done)
            }
            Change::SetRecord { kind, .. } => {
                let outcome = self.record(change)?;
                if sabotage!(
                    "a-change-without-its-event",
                    outcome != ChangeOutcome::NoChange,
                    outcome == ChangeOutcome::Removed
                ) && kind.makes_revision()
                {
                    self.advance_revision(before);
                }
                Ok(outcome)
            }
            Change::Emit { .. } => Ok(ChangeOutcome::Done),
        }
    }

    /// Appends the event of a change to the tenant's log and to the chain.
    fn append_event(&mut self, change: &Change, body: &EventBody) -> rusqlite::Result<()> {
        let kind = body.kind().as_str();
        let payload = body.payload().to_string();
        let recorded_at = change.recorded_at();
        let run = self
            .batch
            .run()
            .filter(|_| !change.is_outside_run())
            .map(RunId::as_str);
        let run_seq = run.map(|run| self.next_run_seq(run)).transpose()?;
        let clock = &mut *self.clock;
        clock.seq = Seq(clock.seq.0 + 1);
        let run_link = run.zip(run_seq).map(|(run, seq)| (run, seq, recorded_at));
        let link = ChainLink {
            seq: clock.seq,
            revision: clock.revision,
            at: clock.at,
            run: sabotage!(
                "the-chain-does-not-cover-the-run",
                run_link,
                run_link.filter(|_| false)
            ),
            kind,
            payload: &payload,
        };
        clock.chain = chain_hash(&sabotage!("broken-chain", clock.chain, [0; 32]), &link);
        self.db
            .prepare_cached(
                "INSERT INTO event (tenant_id, seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                self.batch.tenant().as_str(),
                clock.seq.0,
                clock.revision.0,
                clock.at.0,
                run,
                run_seq,
                // Outside of a run the chain would not cover this time.
                run.and(recorded_at).map(|at| at.0),
                kind,
                payload,
                clock.chain,
            ])?;
        Ok(())
    }

    /// The next position in the run's log, which has its own numbers: gapless, independent of what
    /// else the tenant does meanwhile.
    fn next_run_seq(&self, run: &str) -> rusqlite::Result<u64> {
        self.db
            .prepare_cached(sabotage!("a-run-s-log-has-gaps", "SELECT coalesce(max(run_seq) + 1, 0) FROM event WHERE tenant_id = ?1 AND run_id = ?2", "SELECT coalesce(max(run_seq) + 2, 0) FROM event WHERE tenant_id = ?1 AND run_id = ?2"))?
            .query_row(params![self.batch.tenant().as_str(), run], |row| row.get(0))
    }

    /// Whether each entry that the batch expects is current and was written at the expected
    /// revision.
    fn expectations_hold(&self) -> rusqlite::Result<bool> {
        for expected in self.batch.expectations() {
            let Some(scope) = scope_id(self.db, self.batch.tenant(), &expected.memory_ref)? else {
                return Ok(false);
            };
            let holds = self
                .db
                .prepare_cached(
                    "SELECT 1 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND rev_from = ?4 AND rev_to IS NULL",
                )?
                .exists(params![self.batch.tenant().as_str(), scope, expected.id.as_str(), expected.written_at.0])?;
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the preconditions on records hold.
    fn preconditions_hold(&self) -> rusqlite::Result<bool> {
        for change in self.batch.changes() {
            if !record::preconditions_hold(self.db, self.batch, change)? {
                return Ok(false);
            }
        }
        for expected in self.batch.record_expectations() {
            if !record::meets_precondition(
                self.db,
                self.batch.tenant(),
                expected.kind,
                &expected.key,
                &expected.precondition,
            )? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the batch's lease still has the number that the batch carries.
    fn fence_holds(&self) -> rusqlite::Result<bool> {
        let Some(fence) = self.batch.fence() else {
            return Ok(true);
        };
        self.db
            .prepare_cached(
                "SELECT 1 FROM lease WHERE tenant_id = ?1 AND pass = ?2 AND fence = ?3",
            )?
            .exists(params![
                self.batch.tenant().as_str(),
                fence.pass,
                fence.number
            ])
    }

    /// The result of an earlier batch with the same idempotency key, if there was one.
    fn earlier_result(&self) -> rusqlite::Result<Option<Result<CommitResult, StoreError>>> {
        let Some(key) = self.batch.idempotency() else {
            return Ok(None);
        };
        let stored: Option<([u8; 32], i64, u64, String)> = self
            .db
            .prepare_cached("SELECT body, at, revision, outcomes FROM idempotency WHERE tenant_id = ?1 AND operation = ?2 AND key = ?3")?
            .query_row(params![self.batch.tenant().as_str(), key.operation, key.key], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((body, at, revision, outcomes)) = stored else {
            return Ok(None);
        };
        if sabotage!("any-body-for-a-key", body != key.body, false) {
            return Ok(Some(Err(Rejection::IdempotencyMismatch.into())));
        }
        let Some(outcomes) = outcomes_from_stored(&outcomes) else {
            return Ok(Some(Err(StoreError::Damaged(
                "an idempotency record cannot be read",
            ))));
        };
        Ok(Some(Ok(CommitResult {
            revision: Revision(revision),
            at: Timestamp(at),
            outcomes,
            replayed: true,
        })))
    }

    /// Stores the result under the batch's idempotency key.
    fn store_result(&self, committed: &CommitResult) -> rusqlite::Result<()> {
        let Some(key) = self.batch.idempotency() else {
            return Ok(());
        };
        self.db
            .prepare_cached(
                "INSERT INTO idempotency (tenant_id, operation, key, body, at, revision, outcomes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.batch.tenant().as_str(),
                key.operation,
                key.key,
                key.body,
                committed.at.0.max(self.batch.at().0),
                committed.revision.0,
                outcomes_to_stored(&committed.outcomes),
            ])?;
        Ok(())
    }
}
