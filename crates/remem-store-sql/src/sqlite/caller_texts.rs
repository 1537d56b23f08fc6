//! The names and references of actions, as the pass that looks for late secrets reads them.

use super::connection::store_error;
use remem_core::{ActionText, EntryId, MemoryRef, TenantId};
use remem_store::{EntryActions, RowCursor, StoreError};
use rusqlite::{Connection, params};

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

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
