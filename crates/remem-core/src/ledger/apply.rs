//! Applies one batch: checks its conditions first, then makes its changes and their events, all or
//! none of them.

use super::row::{EntryName, NewEvent, RowKey, StoredResult, TenantClock};
use super::working::{RowNumbers, Working};
use super::{ChangeOutcome, CommitResult, EntryState, Refused};
use crate::batch::{Batch, Change};
use crate::event::{ChainLink, EventBody, chain_hash};
use crate::ids::{EntryId, MemoryRef, Revision, RunId, Seq, Timestamp};
use crate::sabotage;
use std::collections::{BTreeMap, BTreeSet};

/// Applies a batch to the loaded rows. A refused batch changes nothing.
pub fn apply(batch: &Batch, working: &mut Working) -> Result<CommitResult, Refused> {
    if let Some(result) = earlier_result(batch, working) {
        return result;
    }
    let mut applier = Applier::new(batch, working);
    if !applier.conditions_hold() {
        return Err(Refused::Conflict);
    }
    let outcomes = applier.change_all();
    let committed = CommitResult {
        revision: applier.working.clock.revision,
        at: applier.working.clock.at,
        outcomes,
        replayed: false,
    };
    applier.store_result(&committed);
    match applier.check_slots() {
        Ok(()) => {
            applier.working.keep();
            Ok(committed)
        }
        Err(refused) => {
            let Applier { working, start, .. } = applier;
            working.revert(start.clock, start.row_numbers, start.events);
            Err(refused)
        }
    }
}

/// The result of an earlier batch with the same idempotency key, if there was one.
fn earlier_result(batch: &Batch, working: &Working) -> Option<Result<CommitResult, Refused>> {
    let key = batch.idempotency()?;
    let stored = working.results.get(&(key.operation.to_owned(), key.key))?;
    if sabotage!("any-body-for-a-key", stored.body != key.body, false) {
        return Some(Err(Refused::KeyMismatch));
    }
    let Some(outcomes) = stored.outcomes.clone() else {
        return Some(Err(Refused::UnreadableResult));
    };
    Some(Ok(CommitResult {
        revision: stored.revision,
        at: stored.at,
        outcomes,
        replayed: true,
    }))
}

/// The application of one batch.
pub(super) struct Applier<'a> {
    pub batch: &'a Batch,
    pub working: &'a mut Working,
    /// Closed rows whose successor is put later in the batch, by the successor's name.
    pub successors: Vec<(EntryName, RowKey)>,
    /// The answers that the batch changed, by memory and slot.
    pub answers: BTreeMap<(i64, String), BTreeSet<RowKey>>,
    start: Start,
}

/// The parts of the state that are no tables, as the batch found them.
struct Start {
    clock: TenantClock,
    row_numbers: RowNumbers,
    events: usize,
}

impl<'a> Applier<'a> {
    fn new(batch: &'a Batch, working: &'a mut Working) -> Applier<'a> {
        let start = Start {
            clock: working.clock.clone(),
            row_numbers: working.row_numbers,
            events: working.events.len(),
        };
        Applier {
            batch,
            working,
            successors: Vec::new(),
            answers: BTreeMap::new(),
            start,
        }
    }

    fn conditions_hold(&self) -> bool {
        sabotage!("expectations-ignored", self.expectations_hold(), true)
            && sabotage!("leases-do-not-fence", self.lease_holds(), true)
            && self.preconditions_hold()
    }

    /// Whether each entry that the batch expects is current and was written at the expected
    /// revision.
    fn expectations_hold(&self) -> bool {
        self.batch.expectations().iter().all(|expected| {
            let name = (expected.memory_ref.clone(), expected.id.clone());
            let found = self.working.entry(&name);
            found
                .is_some_and(|(_, row)| row.is_current() && row.visible_from == expected.written_at)
        })
    }

    /// Whether the lease of the batch still has the number that the batch carries.
    fn lease_holds(&self) -> bool {
        self.batch
            .fence()
            .is_none_or(|fence| self.working.leases.get(fence.pass) == Some(&fence.number))
    }

    fn change_all(&mut self) -> Vec<ChangeOutcome> {
        let mut outcomes = Vec::with_capacity(self.batch.changes().len());
        for change in self.batch.changes() {
            let outcome = self.change(change);
            if sabotage!(
                "a-change-without-its-event",
                outcome != ChangeOutcome::NoChange,
                outcome == ChangeOutcome::Removed
            ) && let Some(event) = change.event()
            {
                self.advance_revision();
                self.append_event(change, &event);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    fn change(&mut self, change: &Change) -> ChangeOutcome {
        match change {
            Change::Put {
                id,
                admitted,
                sources,
                ..
            } => self.put(id, admitted, sources),
            Change::Rewrite { id, admitted } => self.rewrite(id, admitted),
            Change::Delete { memory_ref, id } => {
                self.remove(&name(memory_ref, id), EntryState::Deleted)
            }
            Change::Expire { memory_ref, id } => {
                self.remove(&name(memory_ref, id), EntryState::Expired)
            }
            Change::Erase { memory_ref, id } => self.erase_removed(&name(memory_ref, id)),
            Change::EndWithSession { memory_ref, id } => {
                self.end_with_session(&name(memory_ref, id))
            }
            Change::EraseHistory {
                memory_ref,
                id,
                before,
            } => self.erase_history(&name(memory_ref, id), *before),
            Change::Forget { memory_ref, id } => self.forget(&name(memory_ref, id)),
            Change::Revive { memory_ref, id } => self.revive(&name(memory_ref, id)),
            Change::Retire {
                memory_ref,
                id,
                reason,
                by,
            } => self.retire(&name(memory_ref, id), *reason, &name(memory_ref, by)),
            Change::Close {
                memory_ref,
                id,
                closing,
                by,
            } => {
                let by = by.as_ref().map(|by| name(memory_ref, by));
                self.close(&name(memory_ref, id), *closing, by)
            }
            Change::SetEvidence {
                memory_ref,
                id,
                evidence,
            } => self.set_evidence(&name(memory_ref, id), evidence),
            Change::StoreSignature {
                memory_ref,
                id,
                pass,
                signature,
            } => self.store_signature(&name(memory_ref, id), *pass, signature),
            Change::StoreEmbedding {
                memory_ref,
                id,
                scan,
                model,
                vector,
            } => self.store_embedding(&name(memory_ref, id), *scan, *model, vector),
            Change::LinkAction {
                memory_ref,
                id,
                action,
            } => self.link_action(&name(memory_ref, id), action),
            Change::RewriteAction {
                memory_ref,
                id,
                expected,
                action,
            } => self.rewrite_action(&name(memory_ref, id), expected, action),
            Change::SetRule { world, id, body } => self.set_rule(world, id, body.as_ref()),
            Change::RewriteRule {
                world,
                id,
                expected,
                body,
            } => self.rewrite_rule(world, id, expected, body),
            Change::HoldSnapshot => self.hold_snapshot(),
            Change::ReleaseSnapshot => self.release_snapshot(),
            Change::SetRecord {
                kind,
                key,
                body,
                ties,
                ..
            } => self.set_record(*kind, key, body.as_ref(), ties),
            Change::Emit { .. } => ChangeOutcome::Done,
        }
    }

    /// Gives the batch its revision, at its first effect: a batch that changes nothing leaves the
    /// clock alone.
    pub fn advance_revision(&mut self) -> Revision {
        let clock = &mut self.working.clock;
        if clock.revision == self.start.clock.revision {
            clock.revision = Revision(clock.revision.0 + 1);
            clock.at = clock.at.max(self.batch.at());
        }
        clock.revision
    }

    /// The instant of an effect that makes no revision: never before the clock.
    pub fn now(&self) -> Timestamp {
        self.working.clock.at.max(self.batch.at())
    }

    /// Appends the event of a change to the tenant's log and to the chain.
    fn append_event(&mut self, change: &Change, body: &EventBody) {
        let kind = body.kind().as_str();
        let payload = body.payload().to_string();
        let run = self.batch.run().filter(|_| !change.is_outside_run());
        let run = run.map(|run| (run.clone(), self.next_run_seq(run), change.recorded_at()));
        let clock = &mut self.working.clock;
        clock.seq = Seq(clock.seq.0 + 1);
        let position = run.as_ref().map(|(id, seq, at)| (id.as_str(), *seq, *at));
        let link = ChainLink {
            seq: clock.seq,
            revision: clock.revision,
            at: clock.at,
            run: sabotage!(
                "the-chain-does-not-cover-the-run",
                position,
                position.filter(|_| false)
            ),
            kind,
            payload: &payload,
        };
        clock.chain = chain_hash(&sabotage!("broken-chain", clock.chain, [0; 32]), &link);
        self.working.events.push(NewEvent {
            seq: clock.seq,
            revision: clock.revision,
            at: clock.at,
            run,
            kind,
            payload,
            hash: clock.chain,
        });
    }

    /// The next position in a run's log, which has its own numbers: without gaps, independent of
    /// what else the tenant does meanwhile.
    fn next_run_seq(&mut self, run: &RunId) -> u64 {
        let lengths = &mut self.working.run_lengths;
        let next = lengths.get(run).copied().unwrap_or(0);
        let step = sabotage!("a-run-s-log-has-gaps", 1, 2);
        lengths.put(run.clone(), next + step);
        next
    }

    /// Stores the result under the batch's idempotency key.
    fn store_result(&mut self, committed: &CommitResult) {
        let Some(key) = self.batch.idempotency() else {
            return;
        };
        let result = StoredResult {
            body: key.body,
            at: committed.at.max(self.batch.at()),
            revision: committed.revision,
            outcomes: Some(committed.outcomes.clone()),
        };
        let key = (key.operation.to_owned(), key.key);
        self.working.results.put(key, result);
    }
}

fn name(memory_ref: &MemoryRef, id: &EntryId) -> EntryName {
    (memory_ref.clone(), id.clone())
}
