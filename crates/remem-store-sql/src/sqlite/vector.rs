//! Counts of vectors, and the deletion of those of earlier models. Owns the upkeep of the
//! table `unindexed`.

use super::connection::store_error;
use remem_core::{ModelId, TenantId};
use remem_store::{StoreError, VectorCounts};
use rusqlite::{Connection, params};

/// The most rows of `unindexed` that are kept: an index that missed more changes than these is
/// rebuilt.
const UNINDEXED_ROWS_MAX: i64 = 100_000;

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
