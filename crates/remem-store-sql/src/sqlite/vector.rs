//! Reads and counts of vectors, and the deletion of those of earlier models. Owns the upkeep of the
//! table `unindexed`.

use super::connection::store_error;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, read_entry};
use remem_core::{Entry, EntryId, MemoryRef, ModelId, TenantId};
use remem_store::{RowCursor, StoreError, VectorCounts};
use rusqlite::{Connection, Params, Row, params};
use std::collections::BTreeSet;

/// The most rows of `unindexed` that are kept: an index that missed more changes than these is
/// rebuilt.
const UNINDEXED_ROWS_MAX: i64 = 100_000;

/// Entries without a vector of this model, in the order of their rows.
pub(super) fn unembedded(
    db: &Connection,
    tenant: &TenantId,
    model: ModelId,
    after: Option<RowCursor>,
    limit: u32,
) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
    // NOT INDEXED: in the order of rows, from where the last page ended. Rows from an index by
    // tenant would have to be sorted for every page.
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, e.row_id, s.memory_ref FROM entry e NOT INDEXED JOIN scope s ON s.scope_id = e.scope_id
         WHERE e.tenant_id = ?1 AND e.row_id > ?2 AND e.erased_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.row_id = e.row_id AND v.model = ?3) ORDER BY e.row_id LIMIT ?4"
    );
    let after = after.map_or(0, |cursor| cursor.1);
    query_entries(db, &sql, params![tenant.as_str(), after, model.0, limit])
}

/// Those of the named entries that have a text and no vector of this model.
pub(super) fn named_unembedded(
    db: &Connection,
    tenant: &TenantId,
    model: ModelId,
    names: &[(MemoryRef, EntryId)],
) -> Result<Vec<Entry>, StoreError> {
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, e.row_id, s.memory_ref FROM scope s CROSS JOIN entry e ON e.tenant_id = s.tenant_id AND e.scope_id = s.scope_id
         WHERE s.tenant_id = ?1 AND s.memory_ref = ?2 AND e.id = ?3 AND e.erased_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.row_id = e.row_id AND v.model = ?4)"
    );
    let mut found = Vec::new();
    for (memory_ref, id) in names.iter().collect::<BTreeSet<_>>() {
        let name = params![tenant.as_str(), memory_ref.as_str(), id.as_str(), model.0];
        let entries = query_entries(db, &sql, name)?;
        found.extend(entries.into_iter().map(|(_, entry)| entry));
    }
    Ok(found)
}

/// Runs a query that selects entries, their rows and the names of their memories.
fn query_entries(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
    let read_row = |row: &Row<'_>| {
        let name: String = row.get(ENTRY_WIDTH + 1)?;
        let unreadable = || {
            rusqlite::Error::InvalidColumnType(
                ENTRY_WIDTH + 1,
                String::new(),
                rusqlite::types::Type::Text,
            )
        };
        Ok((
            RowCursor(0, row.get(ENTRY_WIDTH)?),
            read_entry(row, &MemoryRef::parse(&name).ok_or_else(unreadable)?)?,
        ))
    };
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, read_row)?.collect())
        .map_err(store_error)
}

/// The number of texts, and of vectors of each model.
pub(super) fn counts(db: &Connection, tenant: &TenantId) -> Result<VectorCounts, StoreError> {
    let texts = "SELECT count(*) FROM entry WHERE tenant_id = ?1 AND erased_at IS NULL";
    let texts = db
        .prepare_cached(texts)
        .and_then(|mut query| query.query_row([tenant.as_str()], |row| row.get(0)))
        .map_err(store_error)?;
    let sql =
        "SELECT model, count(*) FROM vector WHERE tenant_id = ?1 GROUP BY model ORDER BY model";
    let models = db
        .prepare_cached(sql)
        .and_then(|mut query| {
            query
                .query_map([tenant.as_str()], |row| {
                    Ok((ModelId(row.get(0)?), row.get(1)?))
                })?
                .collect()
        })
        .map_err(store_error)?;
    Ok(VectorCounts { texts, models })
}

/// Deletes at most `limit` vectors of models other than `keep`. Runs on the writer's connection.
pub(super) fn discard_vectors(
    db: &Connection,
    tenant: &TenantId,
    keep: &[ModelId],
    limit: u32,
) -> Result<u64, StoreError> {
    let models: Vec<i64> = counts(db, tenant)?
        .models
        .into_iter()
        .map(|(model, _)| model)
        .filter(|m| !keep.contains(m))
        .map(|m| m.0)
        .collect();
    let mut deleted = 0;
    for model in models {
        let sql = "DELETE FROM vector WHERE n IN (SELECT n FROM vector WHERE tenant_id = ?1 AND model = ?2 LIMIT ?3)";
        deleted += db
            .execute(
                sql,
                params![tenant.as_str(), model, i64::from(limit) - deleted as i64],
            )
            .map_err(store_error)?;
        if deleted >= limit as usize {
            break;
        }
    }
    Ok(deleted as u64)
}

/// Deletes old rows of `unindexed`.
pub(super) fn trim_unindexed(db: &Connection) -> Result<(), StoreError> {
    let sql = "DELETE FROM unindexed WHERE n <= (SELECT max(n) FROM unindexed) - ?1";
    db.execute(sql, params![UNINDEXED_ROWS_MAX])
        .map(|_| ())
        .map_err(store_error)
}
