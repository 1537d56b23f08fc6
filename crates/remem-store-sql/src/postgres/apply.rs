//! Applies batches to what `load` read, and collects what `save` has to write. No statement runs in between: the order of
//! batches, not the database, decides what a later one sees.

use super::load::{EntryRow, Repeat, ScopeRow, Working};
use super::save::{NewEntry, Writes};
use crate::stored::{content_hash, outcomes_from_stored, outcomes_to_stored};
use crate::terms;
use remem_core::event::chain_hash;
use remem_core::{Admitted, Batch, Change, EntryId, EventBody, MemoryRef, Precondition, RecordBody, RecordKind, Rejection, Revision, Seq};
use remem_store::{Committed, Outcome, StoreError};
use serde_json::Value;

/// How many characters of an id the ordered indexes hold.
pub(super) const ID_HEAD_CHARS: usize = 100;

pub(super) fn id_head(id: &str) -> &str {
    id.char_indices().nth(ID_HEAD_CHARS).map_or(id, |(end, _)| &id[..end])
}

/// Applies one batch. A refused one changes nothing: everything is checked first.
pub(super) fn apply<'a>(batch: &'a Batch, working: &mut Working, writes: &mut Writes<'a>) -> Result<Committed, StoreError> {
    if let Some(answer) = replay(batch, working) {
        return answer;
    }
    if !expectations_hold(batch, working) || !fence_holds(batch, working) || !preconditions_hold(batch, working) {
        return Err(StoreError::Conflict);
    }
    let before = working.clock.revision;
    let mut outcomes = Vec::with_capacity(batch.changes().len());
    for change in batch.changes() {
        let outcome = match change {
            Change::Put { id, admitted } => put(batch, working, writes, id, admitted, before),
            Change::Delete { memory_ref, id } => remove(batch, working, writes, (memory_ref, id), "deleted", before),
            Change::Expire { memory_ref, id } => remove(batch, working, writes, (memory_ref, id), "expired", before),
            Change::Record { kind, key, body, .. } => record(batch, working, writes, (*kind, key), body.as_ref(), before),
            Change::Emit(_) => Outcome::Emitted,
        };
        if outcome != Outcome::Nothing
            && let Some(event) = change.event()
        {
            tick(batch, working, before);
            append(batch, working, writes, &event);
        }
        outcomes.push(outcome);
    }
    let committed = Committed { revision: working.clock.revision, at: working.clock.at, outcomes, replayed: false };
    remember(batch, working, writes, &committed);
    Ok(committed)
}

/// The batch becomes a revision with its first effect: one that changes nothing leaves the clock alone.
fn tick(batch: &Batch, working: &mut Working, before: Revision) -> Revision {
    let clock = &mut working.clock;
    if clock.revision == before {
        clock.revision = Revision(before.0 + 1);
        clock.at = clock.at.max(batch.at());
    }
    clock.revision
}

fn put<'a>(
    batch: &'a Batch,
    working: &mut Working,
    writes: &mut Writes<'a>,
    id: &'a EntryId,
    admitted: &'a Admitted,
    before: Revision,
) -> Outcome {
    let memory_ref = &admitted.scope().memory_ref;
    let place = (memory_ref.clone(), id.clone());
    if admitted.origin().is_some() && working.entries.contains_key(&place) {
        return Outcome::Nothing;
    }
    let revision = tick(batch, working, before).0.cast_signed();
    let given = admitted.origin().and_then(|origin| origin.created_at);
    let created_at = given.map_or(working.clock.at, |t| t.min(working.clock.at));
    let (content, tags) = (admitted.content(), admitted.tags().collect::<Vec<_>>());
    let words = terms::words(content);
    let scope = scope_or_create(working, memory_ref);
    let (scope_id, row_id) = (scope.scope_id, scope.next_row);
    scope.next_row += 1;
    scope.documents += 1;
    scope.words += i64::from(words.total);
    let tags_text = Value::from(tags.clone()).to_string();
    let expires_at = admitted.expires_at().map(|t| t.0);
    writes.postings(scope_id, row_id, &words);
    writes.tags(scope_id, row_id, &tags, created_at.0, id.as_str());
    writes.next_expiry = writes.next_expiry.min(expires_at.unwrap_or(i64::MAX));
    writes.entries.push(NewEntry {
        scope_id,
        row_id,
        id: id.as_str(),
        id_hash: content_hash(id.as_str().as_bytes()),
        admitted,
        tags: tags_text.clone(),
        created_at: created_at.0,
        written_by: batch.principal().map(|p| p.as_str()),
        written_by_run: batch.run().map(|r| r.as_str()),
        revision,
    });
    let row = EntryRow {
        scope_id,
        row_id,
        rev_from: revision,
        removed: false,
        created_at: created_at.0,
        expires_at,
        content: content.as_bytes().to_vec(),
        tags: tags_text,
    };
    working.entries.insert(place, row);
    Outcome::Stored { id: id.clone(), created_at }
}

fn scope_or_create<'w>(working: &'w mut Working, memory_ref: &MemoryRef) -> &'w mut ScopeRow {
    let next_scope = &mut working.next_scope;
    let scope = working.scopes.entry(memory_ref.clone()).or_insert_with(|| {
        *next_scope += 1;
        ScopeRow { scope_id: *next_scope - 1, documents: 0, words: 0, next_row: 1, changed: true, new: true }
    });
    scope.changed = true;
    scope
}

/// Takes an entry away and erases its text everywhere: the row (which stays as a skeleton), its tags, the index.
fn remove(
    batch: &Batch,
    working: &mut Working,
    writes: &mut Writes<'_>,
    (memory_ref, id): (&MemoryRef, &EntryId),
    reason: &'static str,
    before: Revision,
) -> Outcome {
    let place = (memory_ref.clone(), id.clone());
    let Some(entry) = working.entries.get_mut(&place).filter(|entry| !entry.removed) else { return Outcome::Nothing };
    // Deleting ends what a reader could still see; the purge pass ends what none can see any more.
    let ended = entry.expires_at.is_some_and(|end| end <= batch.at().0);
    if ended != (reason == "expired") {
        return Outcome::Nothing;
    }
    entry.removed = true;
    let (scope_id, row_id, created_at) = (entry.scope_id, entry.row_id, entry.created_at);
    let (content, tags) = (std::mem::take(&mut entry.content), std::mem::take(&mut entry.tags));
    let words = terms::words(&String::from_utf8_lossy(&content));
    let revision = tick(batch, working, before).0.cast_signed();
    if let Some(scope) = working.scopes.get_mut(memory_ref) {
        scope.documents -= 1;
        scope.words -= i64::from(words.total);
        scope.changed = true;
    }
    writes.unpost(scope_id, row_id, &words);
    writes.untag(scope_id, row_id, &serde_json::from_str::<Vec<String>>(&tags).unwrap_or_default(), created_at, id.as_str());
    writes.removal(scope_id, row_id, revision, reason, working.clock.at.0);
    Outcome::Removed
}

/// Writes a record, or takes it away. Its next version counts from the one that is there; a name that is free begins at 1.
fn record<'a>(
    batch: &Batch,
    working: &mut Working,
    writes: &mut Writes<'a>,
    (kind, key): (RecordKind, &'a str),
    body: Option<&'a RecordBody>,
    before: Revision,
) -> Outcome {
    let place = (kind, key.to_owned());
    let Some(body) = body else {
        if working.records.remove(&place).is_none() {
            return Outcome::Nothing;
        }
        tick(batch, working, before);
        writes.unrecord(kind, key);
        return Outcome::Removed;
    };
    tick(batch, working, before);
    let version = working.records.get(&place).copied().unwrap_or(0) + 1;
    working.records.insert(place, version);
    writes.record(kind, key, version, working.clock.at.0, body);
    Outcome::Recorded { version }
}

fn preconditions_hold(batch: &Batch, working: &Working) -> bool {
    batch.changes().iter().all(|change| {
        let Change::Record { kind, key, precondition, .. } = change else { return true };
        let version = working.records.get(&(*kind, key.clone()));
        match precondition {
            Precondition::None => true,
            Precondition::Absent => version.is_none(),
            Precondition::Version(expected) => version == Some(expected),
        }
    })
}

fn append(batch: &Batch, working: &mut Working, writes: &mut Writes<'_>, body: &EventBody) {
    let (kind, payload) = (body.kind().as_str(), body.payload().to_string());
    let clock = &mut working.clock;
    clock.seq = Seq(clock.seq.0 + 1);
    clock.chain = chain_hash(&clock.chain, clock.seq, clock.revision, clock.at, kind, &payload);
    writes.event(clock, batch.run().map(|r| r.as_str().to_owned()), kind, payload);
}

fn expectations_hold(batch: &Batch, working: &Working) -> bool {
    batch.expectations().iter().all(|expected| {
        let place = (expected.memory_ref.clone(), expected.id.clone());
        working.entries.get(&place).is_some_and(|entry| !entry.removed && entry.rev_from == expected.written_at.0.cast_signed())
    })
}

fn fence_holds(batch: &Batch, working: &Working) -> bool {
    batch.fence().is_none_or(|fence| working.fences.get(fence.pass) == Some(&fence.number))
}

fn replay(batch: &Batch, working: &Working) -> Option<Result<Committed, StoreError>> {
    let key = batch.idempotency()?;
    let found = working.repeats.get(&(key.operation.to_owned(), key.key))?;
    if found.body != key.body {
        return Some(Err(Rejection::IdempotencyMismatch.into()));
    }
    let Some(outcomes) = outcomes_from_stored(&found.outcomes) else {
        return Some(Err(StoreError::Damaged("an idempotency record cannot be read")));
    };
    Some(Ok(Committed { revision: found.revision, at: found.at, outcomes, replayed: true }))
}

fn remember(batch: &Batch, working: &mut Working, writes: &mut Writes<'_>, committed: &Committed) {
    let Some(key) = batch.idempotency() else { return };
    let repeat = Repeat {
        body: key.body,
        at: committed.at.max(batch.at()),
        revision: committed.revision,
        outcomes: outcomes_to_stored(&committed.outcomes),
    };
    writes.repeat(key.operation, &key.key, &repeat);
    working.repeats.insert((key.operation.to_owned(), key.key), repeat);
}
