//! Texts of callers that are stored beside entries: rules, and the names and references of actions.
//! Owns how these texts are read for the pass that looks for late secrets, replaced by it, and
//! erased with their entry. May not decide what a text must become.

use super::apply::BatchWriter;
use super::connection::store_error;
use remem_core::{
    ActionText, EntryId, MemoryRef, Revision, RuleId, RuleText, StoredText, TenantId, Timestamp,
    WorldId,
};
use remem_store::{ChangeOutcome, EntryActions, RowCursor, StoreError, WorldRule};
use rusqlite::{Connection, OptionalExtension, params};

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

/// Blanks the names and references of the actions of an entry when its text is erased; that actions
/// rested on the entry stays recorded. A number takes the place of a reference, since no two links
/// of an entry may be the same.
pub(crate) fn blank_action_texts(
    db: &Connection,
    tenant: &str,
    scope: i64,
    row: i64,
) -> rusqlite::Result<()> {
    let sql = "UPDATE action_link SET action = '', reference = o.number
               FROM (SELECT action, reference, CAST(row_number() OVER (ORDER BY action, reference) AS TEXT) AS number
                 FROM action_link WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3) AS o
               WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3
                 AND action_link.action = o.action AND action_link.reference = o.reference AND o.action <> ''";
    db.prepare_cached(sql)?
        .execute(params![tenant, scope, row])?;
    Ok(())
}

impl BatchWriter<'_> {
    /// Replaces the name and reference of an action, unless they changed since they were read.
    pub(super) fn relink(
        &mut self,
        (memory_ref, id): (&MemoryRef, &EntryId),
        was: &ActionText,
        action: &ActionText,
        before: Revision,
    ) -> rusqlite::Result<ChangeOutcome> {
        let Some(entry) = self.find(memory_ref, id, "true")? else {
            return Ok(ChangeOutcome::NoChange);
        };
        let sql = "UPDATE action_link SET action = ?6, reference = ?7
                   WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3 AND action = ?4 AND reference = ?5";
        let changed = self.db.prepare_cached(sql)?.execute(params![
            self.batch.tenant().as_str(),
            entry.scope,
            entry.row,
            was.action,
            was.reference,
            action.action,
            action.reference
        ])?;
        if changed == 0 {
            return Ok(ChangeOutcome::NoChange);
        }
        self.advance_revision(before);
        self.erased = true;
        Ok(ChangeOutcome::Done)
    }

    /// Replaces the text of a rule, unless it changed since it was read.
    pub(super) fn reword(
        &mut self,
        (world, id): (&WorldId, &RuleId),
        was: &StoredText,
        body: &RuleText,
        before: Revision,
    ) -> rusqlite::Result<ChangeOutcome> {
        let sql = "SELECT body FROM rule WHERE tenant_id = ?1 AND world = ?2 AND id = ?3";
        let names = params![self.batch.tenant().as_str(), world.as_str(), id.as_str()];
        let stored: Option<String> = self
            .db
            .prepare_cached(sql)?
            .query_row(names, |row| row.get(0))
            .optional()?;
        if stored.is_none_or(|stored| stored != was.0) {
            return Ok(ChangeOutcome::NoChange);
        }
        let outcome = self.rule(world, id, Some(body), before)?;
        self.erased = true;
        Ok(outcome)
    }
}

/// The rules of all worlds, in the order of world and id.
pub(super) fn all_rules(
    db: &Connection,
    tenant: &TenantId,
    after: Option<&(WorldId, RuleId)>,
    limit: u32,
) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
    let sql = "SELECT world, id, body, at FROM rule WHERE tenant_id = ?1 AND (world, id) > (?2, ?3) ORDER BY world, id LIMIT ?4";
    let after = after.map_or(("", ""), |(world, id)| (world.as_str(), id.as_str()));
    let rows: Vec<(String, String, String, i64)> = db
        .prepare_cached(sql)
        .and_then(|mut query| {
            let bound = params![tenant.as_str(), after.0, after.1, limit];
            query
                .query_map(bound, |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .map_err(store_error)?;
    rows.into_iter()
        .map(|(world, id, body, at)| {
            let rule = WorldRule {
                id: RuleId::parse(&id).ok_or(MALFORMED)?,
                body,
                at: Timestamp(at),
            };
            Ok((WorldId::parse(&world).ok_or(MALFORMED)?, rule))
        })
        .collect()
}

/// Entries with actions, and the names and references of these.
pub(super) fn linked(
    db: &Connection,
    tenant: &TenantId,
    after: Option<RowCursor>,
    limit: u32,
) -> Result<Vec<EntryActions>, StoreError> {
    let sql = "SELECT e.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, l.action, l.reference
               FROM (SELECT DISTINCT row_id FROM action_link WHERE row_id > ?2 ORDER BY row_id LIMIT ?3) w
               CROSS JOIN entry e ON e.row_id = w.row_id CROSS JOIN scope s ON s.scope_id = e.scope_id
               CROSS JOIN action_link l ON l.row_id = e.row_id
               WHERE e.tenant_id = ?1 AND s.tenant_id = ?1 AND l.tenant_id = ?1 ORDER BY e.row_id, l.action, l.reference";
    let mut query = db.prepare_cached(sql).map_err(store_error)?;
    let bound = params![tenant.as_str(), after.map_or(i64::MIN, |row| row.1), limit];
    let mut rows = query.query(bound).map_err(store_error)?;
    let mut linked_entries: Vec<EntryActions> = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let number: i64 = row.get(0).map_err(store_error)?;
        let action = ActionText {
            action: row.get(4).map_err(store_error)?,
            reference: row.get(5).map_err(store_error)?,
        };
        if let Some(last) = linked_entries
            .last_mut()
            .filter(|last| last.row.1 == number)
        {
            last.actions.push(action);
            continue;
        }
        let memory_ref: String = row.get(1).map_err(store_error)?;
        let id: String = row.get(2).map_err(store_error)?;
        linked_entries.push(EntryActions {
            row: RowCursor(0, number),
            memory_ref: MemoryRef::parse(&memory_ref).ok_or(MALFORMED)?,
            id: EntryId::parse(&id).ok_or(MALFORMED)?,
            is_erased: row.get(3).map_err(store_error)?,
            actions: vec![action],
        });
    }
    Ok(linked_entries)
}
