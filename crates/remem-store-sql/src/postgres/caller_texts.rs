//! The names and references of actions, as the pass that looks for late secrets reads them.

use super::gate::{Gate, Identity, Role};
use super::rows::get;
use remem_core::{ActionText, EntryId, MemoryRef, TenantId};
use remem_store::{EntryActions, RowCursor, StoreError};

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

const LINKED: &str = "SELECT e.scope_id, e.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, l.action, l.reference
     FROM (SELECT DISTINCT k.scope_id, k.row_id FROM remem.action_link k
       WHERE k.tenant_id = $1 AND (k.scope_id, k.row_id) > ($2, $3) ORDER BY k.scope_id, k.row_id LIMIT $4) AS w
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.row_id = w.row_id
     JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = w.scope_id
     JOIN remem.action_link l ON l.tenant_id = $1 AND l.scope_id = w.scope_id AND l.row_id = w.row_id
     ORDER BY e.scope_id, e.row_id, l.action, l.reference";

impl Gate {
    pub async fn linked(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError> {
        let after = after.unwrap_or(RowCursor(0, 0));
        let t = tenant.as_str();
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::Worker,
                Identity::as_host(tenant),
                LINKED,
                &[&t, &after.0, &after.1, &limit],
            )
            .await?;
        let mut linked_entries: Vec<EntryActions> = Vec::new();
        for row in &rows {
            let cursor = RowCursor(get(row, 0)?, get(row, 1)?);
            let action = ActionText {
                action: get(row, 5)?,
                reference: get(row, 6)?,
            };
            if let Some(last) = linked_entries.last_mut().filter(|last| last.row == cursor) {
                last.actions.push(action);
                continue;
            }
            linked_entries.push(EntryActions {
                row: cursor,
                memory_ref: MemoryRef::parse(get(row, 2)?).ok_or(MALFORMED)?,
                id: EntryId::parse(get(row, 3)?).ok_or(MALFORMED)?,
                is_erased: get(row, 4)?,
                actions: vec![action],
            });
        }
        Ok(linked_entries)
    }
}
