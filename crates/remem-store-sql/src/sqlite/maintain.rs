//! Upkeep of one file: its state when it is opened, and how erased text becomes physically gone.

use super::connection::store_error;
use super::load::load_clock;
use super::{record, snapshot, vector};
use remem_core::sabotage;
use remem_core::{Revision, TenantId, Timestamp};
use remem_store::StoreError;
use rusqlite::{Connection, params};

/// The state that a tenant's file loads when it is opened.
pub(super) struct LoadedState {
    pub revision: Revision,
    pub next_expiry: i64,
    pub next_due: i64,
}

/// Loads the state of a file that was just opened. Also checks that the file belongs to the tenant
/// that it is opened for: files can be copied and renamed by hand.
pub(super) fn load_state(db: &Connection, tenant: &TenantId) -> Result<LoadedState, StoreError> {
    let foreign = db
        .prepare("SELECT 1 FROM tenant_clock WHERE tenant_id <> ?1")
        .and_then(|mut query| query.exists([tenant.as_str()]))
        .map_err(store_error)?;
    if foreign {
        return Err(StoreError::Damaged("the file belongs to another tenant"));
    }
    let next_due = record::next_due(db, tenant).map_err(store_error)?;
    Ok(LoadedState {
        revision: load_clock(db, tenant)?.revision,
        next_expiry: next_expiry(db, tenant)?,
        next_due,
    })
}

/// The earliest instant at which an entry expires, or `i64::MAX`.
fn next_expiry(db: &Connection, tenant: &TenantId) -> Result<i64, StoreError> {
    let sql = "SELECT min(expires_at) FROM entry WHERE tenant_id = ?1 AND rev_to IS NULL AND expires_at IS NOT NULL";
    let earliest: Option<i64> = db
        .query_row(sql, [tenant.as_str()], |row| row.get(0))
        .map_err(store_error)?;
    Ok(earliest.unwrap_or(i64::MAX))
}

/// Makes erased text physically gone. The commit itself zeroes erased text in the database pages
/// (secure_delete, and so are vectors); what is left are the older page images in the write-ahead
/// log. Copying the log back into the database and truncating it removes them. Returns when the
/// next entry expires, and whether a run released text since the pass looked.
pub(super) fn scrub(
    db: &Connection,
    tenant: &TenantId,
    keys_before: Timestamp,
    compact: bool,
) -> Result<(i64, bool), StoreError> {
    db.execute(
        "DELETE FROM idempotency WHERE tenant_id = ?1 AND at < ?2",
        params![tenant.as_str(), keys_before.0],
    )
    .map_err(store_error)?;
    vector::trim_unindexed(db)?;
    if compact {
        db.execute_batch("VACUUM").map_err(store_error)?;
    }
    let busy: i64 = db
        .query_row(
            sabotage!(
                "log-not-cut-off",
                "PRAGMA wal_checkpoint(TRUNCATE)",
                "PRAGMA wal_checkpoint(PASSIVE)"
            ),
            [],
            |row| row.get(0),
        )
        .map_err(store_error)?;
    if busy != 0 {
        return Err(StoreError::Busy);
    }
    Ok((
        next_expiry(db, tenant)?,
        snapshot::has_erasable_text(db, tenant).map_err(store_error)?,
    ))
}
