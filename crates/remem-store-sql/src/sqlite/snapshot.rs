//! The snapshots that runs hold, and the removed texts that must not be erased while they do.

use super::connection::store_error;
use super::maintain::entry_names;
use remem_core::{EntryId, MemoryRef, Revision, RunId, TenantId, Timestamp};
use remem_store::{Snapshot, StoreError};
use rusqlite::{Connection, params};

/// SQL condition: an entry that was removed, whose text is still stored, and whose reason of
/// removal does not keep the text (see `Reason::keeps_text`).
pub(super) const REMOVED_WITH_TEXT: &str =
    "erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed')";

/// SQL condition on a removed entry: no open snapshot is older than its end, so no run can read it.
pub(super) const IN_NO_SNAPSHOT: &str = "NOT EXISTS (SELECT 1 FROM snapshot s WHERE s.tenant_id = entry.tenant_id AND s.revision < entry.rev_to)";

/// SQL expression: the last revision whose removed entries no open snapshot can read. One value for
/// the statement, so that an index finds these entries among all that runs still protect.
const UNPROTECTED_UNTIL: &str =
    "coalesce((SELECT min(revision) FROM snapshot WHERE tenant_id = ?1), 9223372036854775807)";

/// Whether there are removed texts that no snapshot protects any more.
pub(super) fn has_erasable_text(db: &Connection, tenant: &TenantId) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM entry INDEXED BY entry_spent
         WHERE tenant_id = ?1 AND {REMOVED_WITH_TEXT} AND rev_to <= {UNPROTECTED_UNTIL} LIMIT 1"
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

/// Removed entries whose text may be erased, in the order of their removal.
pub(super) fn ended(
    db: &Connection,
    tenant: &TenantId,
    limit: u32,
) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
    let sql = format!(
        "SELECT scope.memory_ref, entry.id FROM entry INDEXED BY entry_spent CROSS JOIN scope ON scope.tenant_id = entry.tenant_id AND scope.scope_id = entry.scope_id
         WHERE entry.tenant_id = ?1 AND {REMOVED_WITH_TEXT} AND entry.rev_to <= {UNPROTECTED_UNTIL} ORDER BY entry.rev_to LIMIT ?2"
    );
    entry_names(db, &sql, params![tenant.as_str(), limit])
}
