//! Applies batches to the state that `load` read, and collects the rows that `save` has to write.
//! No statement runs in between: the order of batches, not the database, decides what a later one
//! sees.

use super::load::{GroupState, LoadedRecord, StoredResult};
use super::save::{EventRun, GroupWrites, NewRecord};
use super::{caller_texts, entry, lineage, tie, vector, workshop};
use crate::stored::{outcomes_from_stored, outcomes_to_stored};
use remem_core::event::{ChainLink, chain_hash};
use remem_core::sabotage;
use remem_core::{Batch, Change, EventBody, Precondition, RecordKind, Rejection, Revision, Seq};
use remem_store::{ChangeOutcome, CommitResult, StoreError};

/// The number of characters of an id that the ordered indexes hold.
pub(super) const ID_HEAD_CHARS: usize = 100;

pub(super) fn id_head(id: &str) -> &str {
    id.char_indices()
        .nth(ID_HEAD_CHARS)
        .map_or(id, |(end, _)| &id[..end])
}

/// Applies one batch. A refused batch changes nothing: everything is checked first.
pub(super) fn apply<'a>(
    batch: &'a Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'a>,
) -> Result<CommitResult, StoreError> {
    if let Some(result) = earlier_result(batch, working) {
        return result;
    }
    if sabotage!(
        "postgres-leases-do-not-fence",
        sabotage!(
            "postgres-expectations-ignored",
            !expectations_hold(batch, working),
            false
        ) || !fence_holds(batch, working),
        !expectations_hold(batch, working)
    ) || !preconditions_hold(batch, working)
    {
        return Err(StoreError::Conflict);
    }
    let before = working.clock.revision;
    let mut outcomes = Vec::with_capacity(batch.changes().len());
    for change in batch.changes() {
        let outcome = match change {
            Change::Put {
                id,
                admitted,
                sources,
                ..
            } => entry::put(batch, working, writes, (id, admitted, sources), before),
            Change::Rewrite { id, admitted } => entry::rewrite(working, writes, id, admitted),
            Change::Delete { memory_ref, id } => {
                entry::remove(batch, working, writes, (memory_ref, id), "deleted", before)
            }
            Change::Expire { memory_ref, id } => {
                entry::remove(batch, working, writes, (memory_ref, id), "expired", before)
            }
            Change::Erase { memory_ref, id } => {
                entry::erase_ended(batch, working, writes, (memory_ref, id))
            }
            Change::Retire {
                memory_ref,
                id,
                reason,
                by,
            } => lineage::retire(
                batch,
                working,
                writes,
                (memory_ref, id),
                (*reason, by),
                before,
            ),
            Change::Forget { memory_ref, id } => {
                lineage::forget(batch, working, writes, (memory_ref, id), before)
            }
            Change::Revive { memory_ref, id } => {
                lineage::revive(batch, working, writes, (memory_ref, id), before)
            }
            Change::StoreSignature {
                memory_ref,
                id,
                pass,
                signature,
            } => lineage::sign(working, writes, (memory_ref, id), *pass, signature),
            Change::StoreEmbedding {
                memory_ref,
                id,
                scan,
                model,
                vector,
            } => vector::embed(working, writes, (memory_ref, id), *scan, *model, vector),
            Change::Close {
                memory_ref,
                id,
                closing,
                by,
            } => workshop::close(
                batch,
                working,
                writes,
                (memory_ref, id),
                (*closing, by.as_ref()),
                before,
            ),
            Change::EndWithSession { memory_ref, id } => {
                workshop::end(batch, working, writes, (memory_ref, id), before)
            }
            Change::EraseHistory {
                memory_ref,
                id,
                before: faded,
            } => workshop::strip(batch, working, writes, (memory_ref, id), *faded, before),
            Change::SetEvidence {
                memory_ref,
                id,
                evidence,
            } => workshop::strengthen(batch, working, writes, (memory_ref, id), evidence, before),
            Change::LinkAction {
                memory_ref,
                id,
                action,
            } => workshop::link(batch, working, writes, (memory_ref, id), action, before),
            Change::RewriteAction {
                memory_ref,
                id,
                expected: was,
                action,
            } => caller_texts::relink(
                batch,
                working,
                writes,
                (memory_ref, id),
                (was, action),
                before,
            ),
            Change::RewriteRule {
                world,
                id,
                expected: was,
                body,
            } => caller_texts::reword(batch, working, writes, (world, id), (was, body), before),
            Change::SetRule { world, id, body } => {
                workshop::rule(batch, working, writes, (world, id), body.as_ref(), before)
            }
            Change::HoldSnapshot => open_snapshot(batch, working, writes, before),
            Change::ReleaseSnapshot => close_snapshot(batch, working, writes),
            Change::SetRecord { .. } => write_record(batch, working, writes, change, before),
            Change::Emit { .. } => ChangeOutcome::Done,
        };
        if outcome != ChangeOutcome::NoChange
            && let Some(event) = change.event()
        {
            advance_revision(batch, working, before);
            append_event(batch, working, writes, change, &event);
        }
        outcomes.push(outcome);
    }
    let committed = CommitResult {
        revision: working.clock.revision,
        at: working.clock.at,
        outcomes,
        replayed: false,
    };
    store_result(batch, working, writes, &committed);
    Ok(committed)
}

/// Gives the batch its revision, at its first effect: a batch that changes nothing leaves the clock
/// alone.
pub(super) fn advance_revision(
    batch: &Batch,
    working: &mut GroupState,
    before: Revision,
) -> Revision {
    let clock = &mut working.clock;
    if clock.revision == before {
        clock.revision = Revision(before.0 + 1);
        clock.at = clock.at.max(batch.at());
    }
    clock.revision
}

/// Opens a snapshot for the batch's run, at the revision that this commit makes.
fn open_snapshot(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    before: Revision,
) -> ChangeOutcome {
    let Some(run) = batch.run() else {
        return ChangeOutcome::NoChange;
    };
    let revision = advance_revision(batch, working, before).0.cast_signed();
    if !working.snapshots.contains_key(run.as_str()) {
        working.snapshots.insert(run.as_str().to_owned(), revision);
        writes
            .opened_snapshots
            .insert(run.as_str().to_owned(), (revision, working.clock.at.0));
    }
    ChangeOutcome::Done
}

/// Closes the snapshot of the batch's run; removed texts that no other snapshot shows are due for
/// the purge pass.
fn close_snapshot(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
) -> ChangeOutcome {
    let Some(run) = batch.run() else {
        return ChangeOutcome::NoChange;
    };
    sabotage!(
        "postgres-a-hold-after-a-release-is-lost",
        working.snapshots.remove(run.as_str())
    );
    writes.opened_snapshots.remove(run.as_str());
    writes.closed_snapshots.push(run.as_str().to_owned());
    let oldest = working
        .snapshots
        .values()
        .min()
        .copied()
        .unwrap_or(i64::MAX);
    if working.first_ended.is_some_and(|end| end <= oldest) {
        sabotage!(
            "postgres-nobody-is-told-that-a-run-let-go",
            writes.next_expiry = 0
        ); // at once, by any node's clock
    }
    ChangeOutcome::Done
}

/// Writes a record, or deletes it. The version increases by one with each write; a new key begins
/// at 1.
fn write_record<'a>(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'a>,
    change: &'a Change,
    before: Revision,
) -> ChangeOutcome {
    let Change::SetRecord {
        kind,
        key,
        body,
        ties,
        ..
    } = change
    else {
        return ChangeOutcome::NoChange;
    };
    let record_key = (*kind, key.clone());
    let kind = *kind;
    writes.record_changes.due_changed |= kind.can_be_due();
    let Some(body) = body else {
        if working.records.remove(&record_key).is_none() {
            return ChangeOutcome::NoChange;
        }
        if kind.makes_revision() {
            advance_revision(batch, working, before);
        }
        writes.delete_record(kind, key);
        return ChangeOutcome::Removed;
    };
    if kind.makes_revision() {
        advance_revision(batch, working, before);
    }
    let version = working
        .records
        .get(&record_key)
        .map_or(0, |record| record.version)
        + 1;
    // That the source is current was checked before; this batch itself may have removed it since.
    let source = ties
        .source
        .as_ref()
        .and_then(|source| working.entries.get(source))
        .map(|entry| (entry.scope_id, entry.row_id));
    working
        .records
        .insert(record_key, LoadedRecord { version, source });
    writes.record(
        kind,
        key,
        NewRecord::of(
            version,
            working.clock.at.max(batch.at()),
            body,
            ties,
            source,
        ),
    );
    ChangeOutcome::Recorded {
        key: key.clone(),
        version,
    }
}

fn preconditions_hold(batch: &Batch, working: &GroupState) -> bool {
    let meets = |kind: RecordKind, key: &String, wanted: &Precondition| {
        let version = working
            .records
            .get(&(kind, key.clone()))
            .map(|record| record.version);
        match wanted {
            Precondition::None => true,
            Precondition::Absent => version.is_none(),
            Precondition::Version(expected) => version == Some(*expected),
        }
    };
    batch
        .record_expectations()
        .iter()
        .all(|expected| meets(expected.kind, &expected.key, &expected.precondition))
        && batch.changes().iter().all(|change| {
            let Change::SetRecord {
                kind,
                key,
                precondition,
                ..
            } = change
            else {
                return true;
            };
            meets(*kind, key, precondition)
                && sabotage!(
                    "postgres-anything-is-tied-to-what-has-ended",
                    tie::source_is_current(working, batch, change),
                    true
                )
        })
}

/// Appends the event of a change to the tenant's log and to the chain.
fn append_event(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    change: &Change,
    body: &EventBody,
) {
    let kind = body.kind().as_str();
    let payload = body.payload().to_string();
    let recorded_at = change.recorded_at();
    let run = batch.run().filter(|_| !change.is_outside_run()).map(|run| {
        let length = working
            .run_lengths
            .entry(run.as_str().to_owned())
            .or_insert(0);
        *length += 1;
        EventRun {
            id: run.as_str().to_owned(),
            seq: *length - 1,
            recorded_at: recorded_at.map(|at| at.0),
        }
    });
    let clock = &mut working.clock;
    clock.seq = Seq(clock.seq.0 + 1);
    let link = run
        .as_ref()
        .map(|run| (run.id.as_str(), run.seq, recorded_at));
    let link = ChainLink {
        seq: clock.seq,
        revision: clock.revision,
        at: clock.at,
        run: sabotage!(
            "postgres-the-chain-does-not-cover-the-run",
            link,
            link.filter(|_| false)
        ),
        kind,
        payload: &payload,
    };
    clock.chain = chain_hash(&clock.chain, &link);
    writes.event(clock, run, kind, payload);
}

fn expectations_hold(batch: &Batch, working: &GroupState) -> bool {
    batch.expectations().iter().all(|expected| {
        let entry_key = (expected.memory_ref.clone(), expected.id.clone());
        working.entries.get(&entry_key).is_some_and(|entry| {
            entry.rev_to.is_none() && entry.rev_from == expected.written_at.0.cast_signed()
        })
    })
}

fn fence_holds(batch: &Batch, working: &GroupState) -> bool {
    batch
        .fence()
        .is_none_or(|fence| working.fences.get(fence.pass) == Some(&fence.number))
}

/// The result of an earlier batch with the same idempotency key, if there was one.
fn earlier_result(batch: &Batch, working: &GroupState) -> Option<Result<CommitResult, StoreError>> {
    let key = batch.idempotency()?;
    let stored = working
        .stored_results
        .get(&(key.operation.to_owned(), key.key))?;
    if sabotage!(
        "postgres-any-body-for-a-key",
        stored.body != key.body,
        false
    ) {
        return Some(Err(Rejection::IdempotencyMismatch.into()));
    }
    let Some(outcomes) = outcomes_from_stored(&stored.outcomes) else {
        return Some(Err(StoreError::Damaged(
            "an idempotency record cannot be read",
        )));
    };
    Some(Ok(CommitResult {
        revision: stored.revision,
        at: stored.at,
        outcomes,
        replayed: true,
    }))
}

/// Stores the result under the batch's idempotency key.
fn store_result(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    committed: &CommitResult,
) {
    let Some(key) = batch.idempotency() else {
        return;
    };
    let stored = StoredResult {
        body: key.body,
        at: committed.at.max(batch.at()),
        revision: committed.revision,
        outcomes: outcomes_to_stored(&committed.outcomes),
    };
    writes.stored_result(key.operation, &key.key, &stored);
    working
        .stored_results
        .insert((key.operation.to_owned(), key.key), stored);
}
