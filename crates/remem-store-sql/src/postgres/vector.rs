//! Reads and counts of vectors, and the deletion of those of earlier models.

use super::gate::{Gate, Identity, Role, sql_call};
use super::read::named_entries_statement;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, Param, get, get_u64, read_entry as entry_of};
use remem_core::{Entry, EntryId, MemoryRef, ModelId, TenantId};
use remem_store::{RowCursor, StoreError, VectorCounts};

impl Gate {
    pub async fn unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        if !self.vectors {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, e.scope_id, e.row_id, s.memory_ref FROM remem.entry e
               JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
             WHERE e.tenant_id = $1 AND (e.scope_id, e.row_id) > ($2, $3) AND e.erased_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM remem.vector v WHERE v.tenant_id = $1 AND v.scope_id = e.scope_id AND v.row_id = e.row_id
                 AND v.model = $4) ORDER BY e.scope_id, e.row_id LIMIT $5"
        );
        let name = tenant.as_str();
        let after = after.unwrap_or(RowCursor(0, 0));
        let limit = i64::from(limit);
        let statement = sql_call(&sql, &[&name, &after.0, &after.1, &model.0, &limit]);
        let rows = self
            .read_in_order(Role::Worker, Identity::as_host(tenant), statement)
            .await?;
        let read_row = |row: &tokio_postgres::Row| {
            let memory_ref = MemoryRef::parse(get(row, ENTRY_WIDTH + 2)?)
                .ok_or(StoreError::Damaged("a memory's name cannot be read"))?;
            Ok((
                RowCursor(get(row, ENTRY_WIDTH)?, get(row, ENTRY_WIDTH + 1)?),
                entry_of(row, &memory_ref)?,
            ))
        };
        rows.iter().map(read_row).collect()
    }

    pub async fn named_unembedded(
        &self,
        tenant: &TenantId,
        model: ModelId,
        names: &[(MemoryRef, EntryId)],
    ) -> Result<Vec<Entry>, StoreError> {
        if !self.vectors {
            return Ok(Vec::new());
        }
        let mut statement = named_entries_statement(tenant, names);
        statement.push(
            "e.erased_at IS NULL AND NOT EXISTS (SELECT 1 FROM remem.vector v WHERE v.tenant_id = e.tenant_id
               AND v.scope_id = e.scope_id AND v.row_id = e.row_id AND v.model = ?)",
            [Param::Number(model.0)],
        );
        self.read_named(tenant, &statement).await
    }

    pub async fn vector_counts(&self, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
        let name = tenant.as_str();
        let sql = "SELECT NULL::bigint, coalesce(sum(documents), 0)::bigint FROM remem.scope WHERE tenant_id = $1
                   UNION ALL SELECT model, count(*) FROM remem.vector WHERE tenant_id = $1 GROUP BY model ORDER BY 1 NULLS FIRST";
        let rows = self
            .read(Role::Worker, Identity::as_host(tenant), sql, &[&name])
            .await?;
        let mut counts = VectorCounts::default();
        for row in &rows {
            match get::<Option<i64>>(row, 0)? {
                None => counts.texts = get_u64(row, 1)?,
                Some(model) => counts.models.push((ModelId(model), get_u64(row, 1)?)),
            }
        }
        Ok(counts)
    }

    pub async fn discard_vectors(
        &self,
        tenant: &TenantId,
        keep: &[ModelId],
        limit: u32,
    ) -> Result<u64, StoreError> {
        let name = tenant.as_str();
        let keep = keep.iter().map(|model| model.0).collect::<Vec<i64>>();
        let limit = i64::from(limit);
        let sql = "WITH gone AS (DELETE FROM remem.vector v USING (SELECT scope_id, row_id, model FROM remem.vector
                     WHERE tenant_id = $1 AND model <> ALL($2) LIMIT $3) o
                     WHERE v.tenant_id = $1 AND v.scope_id = o.scope_id AND v.row_id = o.row_id AND v.model = o.model RETURNING 1)
                   SELECT count(*) FROM gone";
        let rows = self
            .write(
                Role::App,
                Identity::as_host(tenant),
                vec![sql_call(sql, &[&name, &keep, &limit])],
            )
            .await?;
        rows.first()
            .and_then(|rows| rows.first())
            .map_or(Ok(0), |row| get_u64(row, 0))
    }
}
