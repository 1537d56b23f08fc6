//! Leases on passes: one row for each pass. They also exclude other processes that use the same
//! files.

use super::connection::store_error;
use remem_core::{Fence, TenantId, Timestamp};
use remem_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

/// Claims the lease on a pass, or extends it for its holder; `None` if another holder has it. The
/// fence increases with every new holder and after every interruption.
pub(super) fn claim(
    db: &Connection,
    tenant: &TenantId,
    pass: &'static str,
    holder: &str,
    now: Timestamp,
    for_ms: u64,
) -> Result<Option<Fence>, StoreError> {
    let until = now.plus_ms(i64::try_from(for_ms).unwrap_or(i64::MAX));
    let number = db
        .prepare_cached(
            "INSERT INTO lease (tenant_id, pass, holder, fence, until) VALUES (?1, ?2, ?3, 1, ?5)
             ON CONFLICT (tenant_id, pass) DO UPDATE SET holder = ?3, until = ?5,
               fence = CASE WHEN lease.holder = ?3 AND lease.until > ?4 THEN lease.fence ELSE lease.fence + 1 END
             WHERE lease.until <= ?4 OR lease.holder = ?3
             RETURNING fence",
        )
        .and_then(|mut claim| claim.query_row(params![tenant.as_str(), pass, holder, now.0, until.0], |row| row.get(0)).optional())
        .map_err(store_error)?;
    Ok(number.map(|number| Fence { pass, number }))
}

/// Ends the lease, if `fence` is still its number.
pub(super) fn release(db: &Connection, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
    db.prepare_cached(
        "UPDATE lease SET until = 0 WHERE tenant_id = ?1 AND pass = ?2 AND fence = ?3",
    )
    .and_then(|mut release| release.execute(params![tenant.as_str(), fence.pass, fence.number]))
    .map_err(store_error)?;
    Ok(())
}
