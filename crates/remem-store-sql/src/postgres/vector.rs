//! Counts of vectors, and the deletion of those of earlier models.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{get, get_u64};
use remem_core::{ModelId, TenantId};
use remem_store::{StoreError, VectorCounts};

impl Gate {
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
