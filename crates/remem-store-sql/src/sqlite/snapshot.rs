//! The snapshots that runs hold, and the removed texts that must not be erased while they do.

use super::connection::store_error;
use remem_core::{Revision, RunId, TenantId, Timestamp};
use remem_store::{Snapshot, StoreError};
use rusqlite::Connection;

/// SQL condition: an entry `e` that was removed, whose text is still stored, and whose reason of
/// removal does not keep the text (see `Reason::keeps_text`).
pub(super) const REMOVED_WITH_TEXT: &str =
    "e.erased_at IS NULL AND e.removed_reason IN ('deleted', 'compacted', 'closed')";

/// SQL condition on a removed entry: no open snapshot is older than its end, so no run can read it.
pub(super) const IN_NO_SNAPSHOT: &str = "NOT EXISTS (SELECT 1 FROM snapshot h WHERE h.tenant_id = e.tenant_id AND h.revision < e.rev_to)";

/// SQL expression: the last revision whose removed entries no open snapshot can read. One value for
/// the statement, whose first parameter is the tenant, so that an index finds these entries among all that runs still protect.
pub(super) const UNPROTECTED_UNTIL: &str =
    "coalesce((SELECT min(revision) FROM snapshot WHERE tenant_id = ?1), 9223372036854775807)";

/// Whether there are removed texts that no snapshot protects any more.
pub(super) fn has_erasable_text(db: &Connection, tenant: &TenantId) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM entry e INDEXED BY entry_spent
         WHERE e.tenant_id = ?1 AND {REMOVED_WITH_TEXT} AND e.rev_to <= {UNPROTECTED_UNTIL} LIMIT 1"
    );
    db.prepare_cached(&sql)?.exists([tenant.as_str()])
}

/// The open snapshots, oldest revision first.
pub(super) fn list(db: &Connection, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
    let rows = db
        .prepare_cached("SELECT run_id, revision, at FROM snapshot WHERE tenant_id = ?1 ORDER BY revision, run_id")
        .and_then(|mut query| {
            query.query_map([tenant.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(store_error)?;
    rows.into_iter()
        .map(|(run, revision, at): (String, u64, i64)| {
            let run = RunId::parse(&run).ok_or(StoreError::Damaged("a name is malformed"))?;
            Ok(Snapshot {
                run,
                revision: Revision(revision),
                at: Timestamp(at),
            })
        })
        .collect()
}
