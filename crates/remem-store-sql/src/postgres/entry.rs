//! Changes of entries: put, rewrite, remove, erase. Postings and tags are added and removed here
//! too.

use super::apply::advance_revision;
use super::load::{GroupState, LoadedEntry, LoadedScope};
use super::save::{GroupWrites, NewEntry, NewText};
use super::{lineage, tie};
use crate::stored::content_hash;
use crate::terms;
use remem_core::sabotage;
use remem_core::{Admitted, Batch, EntryId, MemoryRef, Revision, Tier};
use remem_store::ChangeOutcome;
use serde_json::Value;

/// Stores a new entry. An imported entry whose id exists already is skipped.
pub(super) fn put<'a>(
    batch: &'a Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'a>,
    (id, admitted, sources): (&'a EntryId, &'a Admitted, &[(MemoryRef, EntryId)]),
    before: Revision,
) -> ChangeOutcome {
    let memory_ref = &admitted.scope().memory_ref;
    let entry_key = (memory_ref.clone(), id.clone());
    if admitted.origin().is_some() && working.entries.contains_key(&entry_key) {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let original = admitted.origin().and_then(|origin| origin.created_at);
    let created_at = original.map_or(working.clock.at, |t| t.min(working.clock.at));
    let content = admitted.content();
    let tags = admitted.tags().collect::<Vec<_>>();
    let words = terms::count_words(content);
    let scope = scope_or_create(working, memory_ref);
    let scope_id = scope.scope_id;
    let row_id = scope.next_row;
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
    let row = LoadedEntry {
        scope_id,
        row_id,
        rev_from: revision,
        rev_to: None,
        erased: false,
        created_at: created_at.0,
        expires_at,
        content: content.as_bytes().to_vec(),
        tags: tags_text,
        metadata: admitted.metadata().map(str::to_owned),
        reason: None,
        removed_by_run: None,
        support: 1,
        replaced_by: None,
        replacement_erased: false,
        stands_for_others: false,
        persistent: admitted.tier() == Tier::Persistent,
        valid_at: admitted.facets().valid_at.map(|at| at.0),
        invalid_at: admitted.facets().invalid_at.map(|at| at.0),
        ended_at: None,
        evidence: admitted.facets().evidence.to_text(),
        linked: false,
    };
    let made_from = sources
        .iter()
        .filter_map(|source| working.entries.get(source));
    made_from.for_each(|source| writes.link((scope_id, row_id), (source.scope_id, source.row_id)));
    admitted
        .subjects()
        .iter()
        .for_each(|subject| writes.subject(scope_id, row_id, subject));
    working.entries.insert(entry_key, row);
    ChangeOutcome::Stored {
        id: id.clone(),
        created_at,
    }
}

fn scope_or_create<'w>(working: &'w mut GroupState, memory_ref: &MemoryRef) -> &'w mut LoadedScope {
    let last_scope = &mut working.clock.scopes;
    let scope = working.scopes.entry(memory_ref.clone()).or_insert_with(|| {
        *last_scope += 1;
        LoadedScope {
            scope_id: *last_scope,
            documents: 0,
            words: 0,
            next_row: 1,
            changed: true,
            new: true,
        }
    });
    scope.changed = true;
    scope
}

/// Removes an entry. Its text is erased at once, unless a run reads a snapshot that shows it: then
/// the purge pass erases it when the last such run has ended. An expired text is erased even then.
pub(super) fn remove(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): (&MemoryRef, &EntryId),
    reason: &'static str,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let Some(entry) = working
        .entries
        .get(&entry_key)
        .filter(|entry| entry.rev_to.is_none())
    else {
        return ChangeOutcome::NoChange;
    };
    // A delete removes an entry that readers can still see; the purge pass removes one that has
    // expired.
    let ended = entry.expires_at.is_some_and(|end| end <= batch.at().0);
    if ended != (reason == "expired") {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let at = working.clock.at.0;
    let mut held = false;
    if let Some(entry) = working.entries.get_mut(&entry_key) {
        held = entry.linked;
        entry.mark_removed(batch, revision, at, if held { "held" } else { reason });
        writes.state(entry);
        let row = (entry.scope_id, entry.row_id);
        if held {
            sabotage!(
                "postgres-a-signature-outlives-its-text",
                writes.delete_signature(row.0, row.1)
            );
        }
        sabotage!(
            "postgres-records-outlive-their-source",
            tie::delete_records_of(working, writes, row)
        );
    }
    if held {
        return sabotage!(
            "postgres-a-delete-is-silent-about-what-is-held",
            ChangeOutcome::TextHeld,
            ChangeOutcome::Removed
        );
    }
    if sabotage!(
        "postgres-a-snapshot-outranks-time",
        sabotage!(
            "postgres-a-delete-erases-though-a-run-reads",
            reason == "expired",
            true
        ) || working.snapshots.values().all(|held| *held >= revision),
        working.snapshots.values().all(|held| *held >= revision)
    ) {
        erase(batch, working, writes, &entry_key, false);
    } else {
        working.first_ended = Some(
            working
                .first_ended
                .map_or(revision, |first| first.min(revision)),
        );
    }
    ChangeOutcome::Removed
}

/// Erases the text of an entry that was removed earlier, if no snapshot shows it any more.
pub(super) fn erase_ended(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): (&MemoryRef, &EntryId),
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let oldest = working
        .snapshots
        .values()
        .min()
        .copied()
        .unwrap_or(i64::MAX);
    let is_kept_for_snapshots = |entry: &LoadedEntry| {
        matches!(
            entry.reason.as_deref(),
            Some("deleted" | "compacted" | "closed")
        )
    };
    let is_erasable = |entry: &LoadedEntry| {
        !entry.erased
            && is_kept_for_snapshots(entry)
            && entry.rev_to.is_some_and(|end| {
                end <= sabotage!(
                    "postgres-text-is-erased-before-the-last-reader-has-gone",
                    oldest,
                    oldest.max(i64::MAX)
                )
            })
    };
    if !working.entries.get(&entry_key).is_some_and(is_erasable) {
        return ChangeOutcome::NoChange;
    }
    sabotage!(
        "postgres-text-stays-after-the-last-reader-has-gone",
        erase(batch, working, writes, &entry_key, false)
    );
    ChangeOutcome::Removed
}

/// Erases an entry's text everywhere: from the row (which remains without content), the tags, the
/// search index. The texts that were merged into it are erased with it, unless `spare_merged`.
pub(super) fn erase(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    entry_key: &(MemoryRef, EntryId),
    spare_merged: bool,
) {
    let Some(entry) = working.entries.get_mut(entry_key) else {
        return;
    };
    entry.erased = true;
    let row = (entry.scope_id, entry.row_id);
    if entry.linked {
        sabotage!(
            "postgres-what-actions-are-called-outlives-their-entry",
            writes.workshop.caller_texts.blank_action_texts(row)
        );
    }
    working.erased_rows.insert(row);
    sabotage!(
        "postgres-a-signature-outlives-its-text",
        writes.delete_signature(row.0, row.1)
    );
    sabotage!(
        "a-deleted-text-leaves-its-vector-in-the-database",
        writes.vectors.delete_vectors(row.0, row.1)
    );
    sabotage!(
        "postgres-records-outlive-their-source",
        tie::delete_records_of(working, writes, row)
    );
    let Some(entry) = working.entries.get_mut(entry_key) else {
        return;
    };
    let content = std::mem::take(&mut entry.content);
    let tags = std::mem::take(&mut entry.tags);
    let words = terms::count_words(&String::from_utf8_lossy(&content));
    if let Some(scope) = working.scopes.get_mut(&entry_key.0) {
        scope.documents -= 1;
        scope.words -= i64::from(words.total);
        scope.changed = true;
    }
    sabotage!(
        "postgres-deleted-text-stays-in-the-index",
        writes.delete_postings(entry.scope_id, entry.row_id, &words)
    );
    writes.delete_tags(
        entry.scope_id,
        entry.row_id,
        &tag_list(&tags),
        entry.created_at,
        entry_key.1.as_str(),
    );
    writes.erase(row.0, row.1, working.clock.at.max(batch.at()).0);
    if entry.stands_for_others {
        lineage::delete_replaced(working, writes, row, spare_merged);
    }
}

/// Replaces the text of an entry by its redacted form. If the text is unchanged, only the
/// fingerprint of the rules that it was scanned with (`scan`) is updated.
pub(super) fn rewrite(
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    id: &EntryId,
    admitted: &Admitted,
) -> ChangeOutcome {
    let entry_key = (admitted.scope().memory_ref.clone(), id.clone());
    let Some(entry) = working
        .entries
        .get_mut(&entry_key)
        .filter(|entry| !entry.erased)
    else {
        return ChangeOutcome::NoChange;
    };
    let tags: Vec<&str> = admitted.tags().collect();
    let content = admitted.content();
    let tags_text = Value::from(tags.clone()).to_string();
    let metadata = admitted.metadata();
    let facets = admitted.facets();
    let text = NewText {
        scan: admitted.redaction_fingerprint().cast_signed(),
        content: content.to_owned(),
        tags: tags_text.clone(),
        metadata: metadata.map(str::to_owned),
        world: Some(facets.world.as_str().to_owned()),
        slot: facets.slot.clone(),
        interaction: facets.interaction.as_ref().map(|id| id.as_str().to_owned()),
    };
    writes.rewrites.insert((entry.scope_id, entry.row_id), text);
    if (content.as_bytes(), &tags_text, metadata)
        == (
            entry.content.as_slice(),
            &entry.tags,
            entry.metadata.as_deref(),
        )
    {
        return ChangeOutcome::NoChange;
    }
    let old = terms::count_words(&String::from_utf8_lossy(&entry.content));
    let new = terms::count_words(content);
    writes.delete_signature(entry.scope_id, entry.row_id);
    writes.vectors.delete_vectors(entry.scope_id, entry.row_id);
    writes.reindex(
        entry.scope_id,
        entry.row_id,
        &old,
        &tag_list(&entry.tags),
        entry.created_at,
        id.as_str(),
    );
    writes.postings(entry.scope_id, entry.row_id, &new);
    writes.tags(
        entry.scope_id,
        entry.row_id,
        &tags,
        entry.created_at,
        id.as_str(),
    );
    entry.content = content.as_bytes().to_vec();
    entry.tags = tags_text;
    entry.metadata = metadata.map(str::to_owned);
    if let Some(scope) = working.scopes.get_mut(&entry_key.0) {
        scope.words += i64::from(new.total) - i64::from(old.total);
        scope.changed = true;
    }
    ChangeOutcome::Removed
}

fn tag_list(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}
