//! Upkeep of one file: finds expired and outdated entries, and makes erased text physically gone.

use super::connection::store_error;
use super::load::load_clock;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, read_entry};
use super::{record, snapshot, vector};
use remem_core::sabotage;
use remem_core::{Entry, EntryId, MemoryRef, Revision, TenantId, Timestamp};
use remem_store::{RescanPage, RowCursor, StoreError};
use rusqlite::{Connection, Params, Row, params};

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

/// Entries whose retention has ended, the earliest first.
pub(super) fn expired(
    db: &Connection,
    tenant: &TenantId,
    at: Timestamp,
    limit: u32,
) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
    let sql = "SELECT s.memory_ref, e.id FROM entry e JOIN scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
               WHERE e.tenant_id = ?1 AND e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= ?2
               ORDER BY e.expires_at LIMIT ?3";
    entry_names(db, sql, params![tenant.as_str(), at.0, limit])
}

/// Runs a query for pairs of a memory's name and an entry's id.
pub(super) fn entry_names(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
    let rows = db
        .prepare_cached(sql)
        .and_then(|mut query| {
            query
                .query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(store_error)?;
    rows.iter()
        .map(|(memory_ref, id): &(String, String)| {
            MemoryRef::parse(memory_ref)
                .zip(EntryId::parse(id))
                .ok_or(StoreError::Damaged("a name is malformed"))
        })
        .collect()
}

/// Entries that were scanned under other redaction rules than those with the fingerprint `scan`, in
/// the order of their rows.
pub(super) fn stale(
    db: &Connection,
    tenant: &TenantId,
    scan: u64,
    after: Option<RowCursor>,
    limit: u32,
) -> Result<RescanPage, StoreError> {
    // NOT INDEXED: in the order of rows, from where the last page ended (see `vector::unembedded`).
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, e.row_id, s.memory_ref FROM entry e NOT INDEXED JOIN scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
         WHERE e.tenant_id = ?1 AND e.row_id > ?2 AND e.scan <> ?3 AND e.erased_at IS NULL ORDER BY e.row_id LIMIT ?4"
    );
    let params = params![
        tenant.as_str(),
        after.map_or(0, |row| row.1),
        scan.cast_signed(),
        limit
    ];
    let read_row = |row: &Row<'_>| {
        let last: i64 = row.get(ENTRY_WIDTH)?;
        let name: String = row.get(ENTRY_WIDTH + 1)?;
        let unreadable = || {
            rusqlite::Error::InvalidColumnType(
                ENTRY_WIDTH + 1,
                String::new(),
                rusqlite::types::Type::Text,
            )
        };
        Ok((
            last,
            read_entry(row, &MemoryRef::parse(&name).ok_or_else(unreadable)?)?,
        ))
    };
    let rows: Vec<(i64, Entry)> = db
        .prepare_cached(&sql)
        .and_then(|mut query| query.query_map(params, read_row)?.collect())
        .map_err(store_error)?;
    let next = rows
        .last()
        .filter(|_| rows.len() == limit as usize)
        .map(|(last, _)| RowCursor(0, *last));
    Ok(RescanPage {
        entries: rows.into_iter().map(|(_, entry)| entry).collect(),
        next,
    })
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
