//! Changes of entries: put, rewrite, remove, erase. The rows of the tag index are written and
//! removed here too.

use super::apply::BatchWriter;
use super::beside;
use super::rows::{scope_id, scope_id_or_create};
use super::snapshot;
use crate::stored::content_hash;
use remem_core::sabotage;
use remem_core::{Admitted, EntryId, MemoryRef, Revision, RunId, Timestamp};
use remem_store::ChangeOutcome;
use rusqlite::{OptionalExtension, Row, ToSql, params};
use serde_json::Value;

/// The fields of an entry that are needed to remove it from the indexes.
pub(super) struct IndexedEntry {
    pub row: i64,
    pub scope: i64,
    tags: String,
    created_at: i64,
}

impl BatchWriter<'_> {
    /// Stores a new entry. An imported entry whose id exists already is skipped.
    pub(super) fn put(
        &mut self,
        id: &EntryId,
        admitted: &Admitted,
        sources: &[(MemoryRef, EntryId)],
        before: Revision,
    ) -> rusqlite::Result<ChangeOutcome> {
        let tenant = self.batch.tenant();
        let scope = scope_id_or_create(self.db, tenant, &admitted.scope().memory_ref)?;
        if admitted.origin().is_some() && self.exists(scope, id)? {
            return Ok(ChangeOutcome::NoChange);
        }
        let revision = self.advance_revision(before);
        let original = admitted.origin().and_then(|origin| origin.created_at);
        let created_at = original.map_or(self.clock.at, |t| t.min(self.clock.at));
        let tags: Vec<&str> = admitted.tags().collect();
        let facets = admitted.facets();
        self.db
            .prepare_cached(
                "INSERT INTO entry (tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at,
                   written_by, written_by_run, scan, content_hash, rev_from, owner, session, interaction, world, slot, valid_at, invalid_at,
                   trust, evidence)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
            )?
            .execute(params![
                tenant.as_str(),
                scope,
                id.as_str(),
                admitted.tier().as_str(),
                admitted.typology().as_str(),
                admitted.content(),
                Value::from(tags.clone()).to_string(),
                admitted.metadata(),
                created_at.0,
                admitted.expires_at().map(|t| t.0),
                self.batch.principal().map(|p| p.as_str()),
                self.batch.run().map(|r| r.as_str()),
                admitted.redaction_fingerprint().cast_signed(),
                content_hash(admitted.content().as_bytes()),
                revision.0,
                admitted.scope().memory_ref.owner(),
                facets.session.as_ref().map(|id| id.as_str()),
                facets.interaction.as_ref().map(|id| id.as_str()),
                facets.world.as_str(),
                facets.slot,
                facets.valid_at.map(|at| at.0),
                facets.invalid_at.map(|at| at.0),
                facets.trust.as_str(),
                facets.evidence.to_text(),
            ])?;
        let row = self.db.last_insert_rowid();
        self.insert_tags(scope, id, &tags, created_at)?;
        self.store_sources(scope, row, sources, admitted.subjects())?;
        if let Some(end) = admitted.expires_at() {
            self.next_expiry = self.next_expiry.min(end.0);
        }
        Ok(ChangeOutcome::Stored {
            id: id.clone(),
            created_at,
        })
    }

    /// Adds the entry to the index of tags.
    fn insert_tags(
        &self,
        scope: i64,
        id: &EntryId,
        tags: &[&str],
        created_at: Timestamp,
    ) -> rusqlite::Result<()> {
        for tag in tags {
            self.db
                .prepare_cached("INSERT INTO entry_tag (tenant_id, scope_id, tag, created_at, id) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![self.batch.tenant().as_str(), scope, tag, created_at.0, id.as_str()])?;
        }
        Ok(())
    }

    /// Whether the scope has a row of this id, an erased one included.
    fn exists(&self, scope: i64, id: &EntryId) -> rusqlite::Result<bool> {
        self.db
            .prepare_cached(
                "SELECT 1 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3",
            )?
            .exists(params![self.batch.tenant().as_str(), scope, id.as_str()])
    }

    /// Removes an entry. Its text is erased at once, unless a run reads a snapshot that shows it:
    /// then the purge pass erases it when the last such run has ended. An expired text is erased
    /// even then.
    pub(super) fn remove(
        &mut self,
        memory_ref: &MemoryRef,
        id: &EntryId,
        reason: &str,
        before: Revision,
    ) -> rusqlite::Result<ChangeOutcome> {
        // A delete removes an entry that readers can still see; the purge pass removes one that has
        // expired.
        let condition = if reason == "expired" {
            "expires_at <= :at"
        } else {
            "(expires_at IS NULL OR expires_at > :at)"
        };
        let Some(entry) = self.find(memory_ref, id, &format!("rev_to IS NULL AND {condition}"))?
        else {
            return Ok(ChangeOutcome::NoChange);
        };
        let revision = self.advance_revision(before);
        let held = self.has_actions(entry.row)?;
        self.mark_removed(entry.row, revision, if held { "held" } else { reason })?;
        sabotage!(
            "records-outlive-their-source",
            self.delete_records_of(entry.scope, entry.row)?
        );
        if held {
            sabotage!(
                "a-signature-outlives-its-text",
                self.delete_signature(entry.scope, entry.row)?
            );
        } else if sabotage!(
            "a-snapshot-outranks-time",
            sabotage!(
                "a-delete-erases-though-a-run-reads",
                reason == "expired",
                true
            ) || !snapshot::is_in_snapshot(self.db, self.batch.tenant(), revision)?,
            !snapshot::is_in_snapshot(self.db, self.batch.tenant(), revision)?
        ) {
            self.erase(id, &entry, false)?;
        }
        Ok(sabotage!(
            "a-delete-is-silent-about-what-is-held",
            if held {
                ChangeOutcome::TextHeld
            } else {
                ChangeOutcome::Removed
            },
            ChangeOutcome::Removed
        ))
    }

    /// Marks a row as removed at this revision; the text stays.
    pub(super) fn mark_removed(
        &self,
        row: i64,
        revision: Revision,
        reason: &str,
    ) -> rusqlite::Result<()> {
        let sql = "UPDATE entry SET rev_to = ?3, removed_reason = ?4, removed_by_run = ?5, ended_at = ?6 WHERE tenant_id = ?1 AND row_id = ?2";
        let tenant = self.batch.tenant().as_str();
        let run = self.batch.run().map(RunId::as_str);
        self.db
            .prepare_cached(sql)?
            .execute(params![
                tenant,
                row,
                revision.0,
                reason,
                run,
                self.clock.at.0
            ])
            .map(|_| ())
    }

    /// Erases the text of an entry that was removed earlier, if no snapshot shows it any more.
    pub(super) fn erase_ended(
        &mut self,
        memory_ref: &MemoryRef,
        id: &EntryId,
    ) -> rusqlite::Result<ChangeOutcome> {
        let erasable = format!(
            "{} AND {}",
            snapshot::REMOVED_WITH_TEXT,
            snapshot::IN_NO_SNAPSHOT
        );
        let condition = sabotage!(
            "text-is-erased-before-the-last-reader-has-gone",
            erasable.as_str(),
            snapshot::REMOVED_WITH_TEXT
        );
        let Some(entry) = self.find(memory_ref, id, condition)? else {
            return Ok(ChangeOutcome::NoChange);
        };
        sabotage!(
            "text-stays-after-the-last-reader-has-gone",
            self.erase(id, &entry, false)?
        );
        Ok(ChangeOutcome::Removed)
    }

    /// Replaces the text of an entry by its redacted form. If the text is unchanged, only the
    /// fingerprint of the rules that it was scanned with (`scan`) is updated.
    pub(super) fn rewrite(
        &mut self,
        id: &EntryId,
        admitted: &Admitted,
    ) -> rusqlite::Result<ChangeOutcome> {
        let tenant = self.batch.tenant().as_str();
        let Some(old) = self.find(&admitted.scope().memory_ref, id, "erased_at IS NULL")? else {
            return Ok(ChangeOutcome::NoChange);
        };
        let tags: Vec<&str> = admitted.tags().collect();
        let tags_text = Value::from(tags.clone()).to_string();
        let sql = "UPDATE entry SET scan = ?3, content = ?4, tags = ?5, metadata = ?6, content_hash = ?7
                   WHERE tenant_id = ?1 AND row_id = ?2 AND (content, tags, metadata) IS NOT (?4, ?5, ?6)";
        let hash = content_hash(admitted.content().as_bytes());
        let scan = admitted.redaction_fingerprint().cast_signed();
        sabotage!(
            "late-secrets-stay-in-names-on-disk",
            self.replace_names(old.row, admitted)?
        );
        let values = params![
            tenant,
            old.row,
            scan,
            admitted.content(),
            tags_text,
            admitted.metadata(),
            hash
        ];
        if self.db.prepare_cached(sql)?.execute(values)? == 0 {
            let sql = "UPDATE entry SET scan = ?3 WHERE tenant_id = ?1 AND row_id = ?2";
            self.db
                .prepare_cached(sql)?
                .execute(params![tenant, old.row, scan])?;
            return Ok(ChangeOutcome::NoChange);
        }
        self.remove_from_indexes(id, &old)?;
        self.delete_signature(old.scope, old.row)?;
        self.insert_tags(old.scope, id, &tags, Timestamp(old.created_at))?;
        self.erased = true;
        Ok(ChangeOutcome::Removed)
    }

    /// Replaces the names beside a text (world, slot, chat thread), which change only to lose a
    /// secret.
    fn replace_names(&mut self, row: i64, admitted: &Admitted) -> rusqlite::Result<()> {
        let sql = "UPDATE entry SET world = ?3, slot = ?4, interaction = coalesce(?5, interaction)
                   WHERE tenant_id = ?1 AND row_id = ?2 AND (coalesce(world, '-'), slot, interaction) IS NOT (?3, ?4, coalesce(?5, interaction))";
        let facets = admitted.facets();
        let changed = self.db.prepare_cached(sql)?.execute(params![
            self.batch.tenant().as_str(),
            row,
            facets.world.as_str(),
            facets.slot,
            facets.interaction.as_ref().map(|id| id.as_str()),
        ])?;
        self.erased |= changed > 0;
        Ok(())
    }

    /// The row of an entry that satisfies an SQL condition; `:at` in it is the time of the batch.
    pub(super) fn find(
        &self,
        memory_ref: &MemoryRef,
        id: &EntryId,
        condition: &str,
    ) -> rusqlite::Result<Option<IndexedEntry>> {
        let tenant = self.batch.tenant();
        let Some(scope) = scope_id(self.db, tenant, memory_ref)? else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT row_id, tags, created_at FROM entry
             WHERE tenant_id = :tenant AND scope_id = :scope AND id = :id AND {condition}"
        );
        let indexed = |row: &Row<'_>| {
            Ok(IndexedEntry {
                row: row.get(0)?,
                scope,
                tags: row.get(1)?,
                created_at: row.get(2)?,
            })
        };
        let tenant = tenant.as_str();
        let id = id.as_str();
        let at = self.batch.at().0;
        let values: [(&str, &dyn ToSql); 4] = [
            (":tenant", &tenant),
            (":scope", &scope),
            (":id", &id),
            (":at", &at),
        ];
        let used = if condition.contains(":at") { 4 } else { 3 };
        self.db
            .prepare_cached(&sql)?
            .query_row(&values[..used], indexed)
            .optional()
    }

    /// Erases an entry's text everywhere: from the row (which remains without content), the tags,
    /// the search index. The texts that were merged into it are erased with it, unless
    /// `spare_merged`.
    pub(super) fn erase(
        &mut self,
        id: &EntryId,
        entry: &IndexedEntry,
        spare_merged: bool,
    ) -> rusqlite::Result<()> {
        sabotage!(
            "deleted-text-stays-in-the-index",
            self.remove_from_indexes(id, entry)?
        );
        sabotage!(
            "a-signature-outlives-its-text",
            self.delete_signature(entry.scope, entry.row)?
        );
        sabotage!(
            "records-outlive-their-source",
            self.delete_records_of(entry.scope, entry.row)?
        );
        sabotage!(
            "nobody-is-let-go",
            self.delete_replaced(entry.scope, entry.row, spare_merged)?
        );
        let sql = "UPDATE entry SET content = '', tags = '[]', metadata = NULL, content_hash = NULL, erased_at = ?3
                   WHERE tenant_id = ?1 AND row_id = ?2";
        let at = self.clock.at.max(self.batch.at());
        self.db.prepare_cached(sql)?.execute(params![
            self.batch.tenant().as_str(),
            entry.row,
            at.0
        ])?;
        sabotage!(
            "what-actions-are-called-outlives-their-entry",
            beside::blank_action_texts(
                self.db,
                self.batch.tenant().as_str(),
                entry.scope,
                entry.row
            )?
        );
        self.erased = true;
        Ok(())
    }

    /// Removes the entry's tags and vectors.
    fn remove_from_indexes(&self, id: &EntryId, entry: &IndexedEntry) -> rusqlite::Result<()> {
        sabotage!(
            "a-deleted-text-leaves-its-vector",
            self.delete_vectors(entry.scope, entry.row)?
        );
        let sql = "DELETE FROM entry_tag WHERE tenant_id = ?1 AND scope_id = ?2 AND tag = ?3 AND created_at = ?4 AND id = ?5";
        for tag in serde_json::from_str::<Vec<String>>(&entry.tags).unwrap_or_default() {
            self.db.prepare_cached(sql)?.execute(params![
                self.batch.tenant().as_str(),
                entry.scope,
                tag,
                entry.created_at,
                id.as_str()
            ])?;
        }
        Ok(())
    }
}
