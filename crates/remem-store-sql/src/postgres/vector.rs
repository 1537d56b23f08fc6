//! Stores, removes and counts vectors. Owns the table `vector`.

use super::gate::{Gate, Identity, Role, SqlCall, sql_call};
use super::load::GroupState;
use super::near::to_pgvector_text;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, get, get_u64, read_entry as entry_of};
use super::save::GroupWrites;
use remem_core::{Embedding, Entry, EntryId, MemoryRef, ModelId, TenantId};
use remem_store::{ChangeOutcome, RowCursor, StoreError, VectorCounts};
use std::collections::HashMap;

/// Stores the vector of an entry's text.
pub(super) fn embed(
    working: &GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): (&MemoryRef, &EntryId),
    scan: u64,
    model: ModelId,
    vector: &Embedding,
) -> ChangeOutcome {
    let found = working
        .entries
        .get(&(memory_ref.clone(), id.clone()))
        .filter(|entry| !entry.erased);
    let Some(entry) = found.filter(|_| working.vectors) else {
        return ChangeOutcome::NoChange;
    };
    let row_key = (entry.scope_id, entry.row_id);
    if writes.rewrites.contains_key(&row_key) {
        return ChangeOutcome::NoChange; // the group changes its text, or the rules that it was scanned with
    }
    writes.vectors.embed(row_key, scan, model, vector);
    ChangeOutcome::Done
}

/// The rows that a group writes to the table.
#[derive(Default)]
pub(super) struct VectorWrites {
    embedded: HashMap<(i64, i64, i64), (i64, Embedding)>,
    columns: VectorColumns,
    deleted: (Vec<i64>, Vec<i64>),
}

#[derive(Default)]
struct VectorColumns {
    scope: Vec<i64>,
    row: Vec<i64>,
    model: Vec<i64>,
    scan: Vec<i64>,
    bytes: Vec<Vec<u8>>,
    direction: Vec<String>,
}

impl VectorWrites {
    fn embed(&mut self, (scope, row): (i64, i64), scan: u64, model: ModelId, vector: &Embedding) {
        self.embedded
            .insert((scope, row, model.0), (scan.cast_signed(), vector.clone()));
    }

    /// Deletes the vectors of a row whose text is erased or changed.
    pub fn delete_vectors(&mut self, scope: i64, row: i64) {
        self.embedded
            .retain(|row_key, _| (row_key.0, row_key.1) != (scope, row));
        self.deleted.0.push(scope);
        self.deleted.1.push(row);
    }

    /// Turns the map into columns; afterwards only `statements` may be used.
    pub fn build_columns(&mut self) {
        for ((scope, row, model), (scan, vector)) in std::mem::take(&mut self.embedded) {
            let columns = &mut self.columns;
            columns.scope.push(scope);
            columns.row.push(row);
            columns.model.push(model);
            columns.scan.push(scan);
            columns.bytes.push(vector.to_bytes());
            columns.direction.push(to_pgvector_text(&vector));
        }
    }

    /// The statements, to be run after those that change entries.
    pub fn statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        add(
            !self.deleted.1.is_empty(),
            sql_call(DELETE_VECTORS, &[t, &self.deleted.0, &self.deleted.1]),
        );
        let c = &self.columns;
        add(
            !c.row.is_empty(),
            sql_call(
                EMBED,
                &[
                    t,
                    &c.scope,
                    &c.row,
                    &c.model,
                    &c.scan,
                    &c.bytes,
                    &c.direction,
                ],
            ),
        );
    }
}

/// Stores a vector only if its text is not erased and was scanned with the same rules.
const EMBED: &str = "INSERT INTO remem.vector (tenant_id, scope_id, row_id, model, tier, typology, dimensions, bytes, direction)
     SELECT $1, n.scope_id, n.row_id, n.model, e.tier, e.typology, length(n.bytes), n.bytes, n.direction::public.halfvec
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::text[])
       AS n (scope_id, row_id, model, scan, bytes, direction)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = n.scope_id AND e.row_id = n.row_id
     WHERE e.erased_at IS NULL AND e.scan = n.scan ON CONFLICT DO NOTHING";
const DELETE_VECTORS: &str =
    "DELETE FROM remem.vector v USING unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE v.tenant_id = $1 AND v.scope_id = o.scope_id AND v.row_id = o.row_id";

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
