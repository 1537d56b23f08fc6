//! Applies batches to the state that `load` read, and collects the rows that `save` has to write.
//! No statement runs in between: the order of batches, not the database, decides what a later one
//! sees.

use super::load::{RecordRow, Repeat, Working};
use super::save::{NewRecord, RunPlace, Writes};
use super::{beside, entry, lineage, tie, vector, workshop};
use crate::stored::{outcomes_from_stored, outcomes_to_stored};
use remem_core::event::{Link, chain_hash};
use remem_core::sabotage;
use remem_core::{Batch, Change, EventBody, Precondition, RecordKind, Rejection, Revision, Seq};
use remem_store::{Committed, Outcome, StoreError};

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
    working: &mut Working,
    writes: &mut Writes<'a>,
) -> Result<Committed, StoreError> {
    if let Some(result) = replay(batch, working) {
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
            Change::Sign {
                memory_ref,
                id,
                pass,
                signature,
            } => lineage::sign(working, writes, (memory_ref, id), *pass, signature),
            Change::Embed {
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
            Change::End { memory_ref, id } => {
                workshop::end(batch, working, writes, (memory_ref, id), before)
            }
            Change::Strip {
                memory_ref,
                id,
                before: faded,
            } => workshop::strip(batch, working, writes, (memory_ref, id), *faded, before),
            Change::Strengthen {
                memory_ref,
                id,
                evidence,
            } => workshop::strengthen(batch, working, writes, (memory_ref, id), evidence, before),
            Change::Link {
                memory_ref,
                id,
                action,
            } => workshop::link(batch, working, writes, (memory_ref, id), action, before),
            Change::Relink {
                memory_ref,
                id,
                was,
                action,
            } => beside::relink(
                batch,
                working,
                writes,
                (memory_ref, id),
                (was, action),
                before,
            ),
            Change::Reword {
                world,
                id,
                was,
                body,
            } => beside::reword(batch, working, writes, (world, id), (was, body), before),
            Change::Rule { world, id, body } => {
                workshop::rule(batch, working, writes, (world, id), body.as_ref(), before)
            }
            Change::Hold => hold(batch, working, writes, before),
            Change::Release => release(batch, working, writes),
            Change::Record { .. } => record(batch, working, writes, change, before),
            Change::Emit { .. } => Outcome::Done,
        };
        if outcome != Outcome::Nothing
            && let Some(event) = change.event()
        {
            tick(batch, working, before);
            append(batch, working, writes, change, &event);
        }
        outcomes.push(outcome);
    }
    let committed = Committed {
        revision: working.clock.revision,
        at: working.clock.at,
        outcomes,
        replayed: false,
    };
    remember(batch, working, writes, &committed);
    Ok(committed)
}

/// Gives the batch its revision, at its first effect: a batch that changes nothing leaves the clock
/// alone.
pub(super) fn tick(batch: &Batch, working: &mut Working, before: Revision) -> Revision {
    let clock = &mut working.clock;
    if clock.revision == before {
        clock.revision = Revision(before.0 + 1);
        clock.at = clock.at.max(batch.at());
    }
    clock.revision
}

/// Opens a snapshot for the batch's run, at the revision that this commit makes.
fn hold(
    batch: &Batch,
    working: &mut Working,
    writes: &mut Writes<'_>,
    before: Revision,
) -> Outcome {
    let Some(run) = batch.run() else {
        return Outcome::Nothing;
    };
    let revision = tick(batch, working, before).0.cast_signed();
    if !working.snapshots.contains_key(run.as_str()) {
        working.snapshots.insert(run.as_str().to_owned(), revision);
        writes
            .held
            .insert(run.as_str().to_owned(), (revision, working.clock.at.0));
    }
    Outcome::Done
}

/// Closes the snapshot of the batch's run; removed texts that no other snapshot shows are due for
/// the purge pass.
fn release(batch: &Batch, working: &mut Working, writes: &mut Writes<'_>) -> Outcome {
    let Some(run) = batch.run() else {
        return Outcome::Nothing;
    };
    sabotage!(
        "postgres-a-hold-after-a-release-is-lost",
        working.snapshots.remove(run.as_str())
    );
    writes.held.remove(run.as_str());
    writes.released.push(run.as_str().to_owned());
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
    Outcome::Done
}

/// Writes a record, or deletes it. The version increases by one with each write; a new key begins
/// at 1.
fn record<'a>(
    batch: &Batch,
    working: &mut Working,
    writes: &mut Writes<'a>,
    change: &'a Change,
    before: Revision,
) -> Outcome {
    let Change::Record {
        kind,
        key,
        body,
        ties,
        ..
    } = change
    else {
        return Outcome::Nothing;
    };
    let record_key = (*kind, key.clone());
    let kind = *kind;
    writes.retied.changed |= kind.is_timed();
    let Some(body) = body else {
        if working.records.remove(&record_key).is_none() {
            return Outcome::Nothing;
        }
        if kind.is_revision() {
            tick(batch, working, before);
        }
        writes.unrecord(kind, key);
        return Outcome::Removed;
    };
    if kind.is_revision() {
        tick(batch, working, before);
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
        .insert(record_key, RecordRow { version, source });
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
    Outcome::Recorded {
        key: key.clone(),
        version,
    }
}

fn preconditions_hold(batch: &Batch, working: &Working) -> bool {
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
            let Change::Record {
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
                    tie::holds(working, batch, change),
                    true
                )
        })
}

/// Appends the event of a change to the tenant's log and to the chain.
fn append(
    batch: &Batch,
    working: &mut Working,
    writes: &mut Writes<'_>,
    change: &Change,
    body: &EventBody,
) {
    let kind = body.kind().as_str();
    let payload = body.payload().to_string();
    let recorded_at = change.recorded_at();
    let run = batch.run().filter(|_| !change.is_apart()).map(|run| {
        let length = working
            .run_lengths
            .entry(run.as_str().to_owned())
            .or_insert(0);
        *length += 1;
        RunPlace {
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
    let link = Link {
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

fn expectations_hold(batch: &Batch, working: &Working) -> bool {
    batch.expectations().iter().all(|expected| {
        let entry_key = (expected.memory_ref.clone(), expected.id.clone());
        working.entries.get(&entry_key).is_some_and(|entry| {
            entry.rev_to.is_none() && entry.rev_from == expected.written_at.0.cast_signed()
        })
    })
}

fn fence_holds(batch: &Batch, working: &Working) -> bool {
    batch
        .fence()
        .is_none_or(|fence| working.fences.get(fence.pass) == Some(&fence.number))
}

/// The result of an earlier batch with the same idempotency key, if there was one.
fn replay(batch: &Batch, working: &Working) -> Option<Result<Committed, StoreError>> {
    let key = batch.idempotency()?;
    let stored = working.repeats.get(&(key.operation.to_owned(), key.key))?;
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
    Some(Ok(Committed {
        revision: stored.revision,
        at: stored.at,
        outcomes,
        replayed: true,
    }))
}

/// Stores the result under the batch's idempotency key.
fn remember(batch: &Batch, working: &mut Working, writes: &mut Writes<'_>, committed: &Committed) {
    let Some(key) = batch.idempotency() else {
        return;
    };
    let stored = Repeat {
        body: key.body,
        at: committed.at.max(batch.at()),
        revision: committed.revision,
        outcomes: outcomes_to_stored(&committed.outcomes),
    };
    writes.repeat(key.operation, &key.key, &stored);
    working
        .repeats
        .insert((key.operation.to_owned(), key.key), stored);
}
