//! Upkeep: expired and outdated entries, tenants that are due, old records, leases on passes.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, get, get_u64, read_entry};
use remem_core::{EntryId, Fence, MemoryRef, TenantId, Timestamp};
use remem_store::{DueWork, RescanPage, RowCursor, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

impl Gate {
    pub async fn expired(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let sql = "SELECT s.memory_ref, e.id FROM remem.entry e JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
                   WHERE e.tenant_id = $1 AND e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= $2
                   ORDER BY e.expires_at LIMIT $3";
        let params: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &at.0, &i64::from(limit)];
        self.entry_names(tenant, sql, &params).await
    }

    pub async fn ended(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let sql = "SELECT s.memory_ref, e.id FROM remem.entry e JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
                   WHERE e.tenant_id = $1 AND e.erased_at IS NULL AND e.removed_reason IN ('deleted', 'compacted', 'closed')
                     AND e.rev_to <= coalesce((SELECT min(revision) FROM remem.snapshot WHERE tenant_id = $1), 9223372036854775807)
                   ORDER BY e.rev_to LIMIT $2";
        self.entry_names(tenant, sql, &[&tenant.as_str(), &i64::from(limit)])
            .await
    }

    pub(super) async fn entry_names(
        &self,
        tenant: &TenantId,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let rows = self
            .read(Role::Worker, Identity::as_host(tenant), sql, params)
            .await?;
        rows.iter()
            .map(|row| {
                MemoryRef::parse(get(row, 0)?)
                    .zip(EntryId::parse(get(row, 1)?))
                    .ok_or(StoreError::Damaged("a name is malformed"))
            })
            .collect()
    }

    /// Entries that were scanned under other redaction rules than those with the fingerprint
    /// `scan`, memory by memory.
    pub async fn stale(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<RescanPage, StoreError> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, e.scope_id, e.row_id, s.memory_ref FROM remem.entry e
             JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
             WHERE e.tenant_id = $1 AND (e.scope_id, e.row_id) > ($2, $3) AND e.scan <> $4 AND e.erased_at IS NULL
             ORDER BY e.scope_id, e.row_id LIMIT $5"
        );
        let name = tenant.as_str();
        let after = after.unwrap_or(RowCursor(0, 0));
        let scan = scan.cast_signed();
        let limited = i64::from(limit);
        let statement = sql_call(&sql, &[&name, &after.0, &after.1, &scan, &limited]);
        let rows = self
            .read_in_order(Role::Worker, Identity::as_host(tenant), statement)
            .await?;
        let named = |row: &Row| {
            let memory_ref = MemoryRef::parse(get(row, ENTRY_WIDTH + 2)?)
                .ok_or(StoreError::Damaged("a name is malformed"))?;
            read_entry(row, &memory_ref)
        };
        let last = rows.last().filter(|_| rows.len() == limit as usize);
        let next = last
            .map(|row| {
                Ok::<_, StoreError>(RowCursor(
                    get(row, ENTRY_WIDTH)?,
                    get(row, ENTRY_WIDTH + 1)?,
                ))
            })
            .transpose()?;
        Ok(RescanPage {
            entries: rows.iter().map(named).collect::<Result<_, _>>()?,
            next,
        })
    }

    /// The tenants for which there is work, without the identity of any of them: read from a table
    /// that holds names and instants only.
    pub async fn due(&self, work: DueWork, at: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        let sql = match work {
            // Of all tenants.
            DueWork::Purge => {
                "SELECT tenant_id FROM remem.upkeep WHERE next_expiry <= $1 ORDER BY next_expiry LIMIT 1000"
            }
            // Of all tenants.
            DueWork::Records => {
                "SELECT tenant_id FROM remem.upkeep WHERE next_due <= $1 ORDER BY next_due LIMIT 1000"
            }
        };
        let rows = self
            .read(Role::Worker, Identity::host(), sql, &[&at.0])
            .await?;
        rows.iter()
            .map(|row| {
                TenantId::parse(get(row, 0)?)
                    .ok_or(StoreError::Damaged("a tenant's name is malformed"))
            })
            .collect()
    }

    /// Deletes old idempotency records and computes again when the tenant is due: at once if a run
    /// released text since the pass looked. The clock's lock keeps a commit from setting an earlier
    /// instant in between.
    pub async fn scrub(&self, tenant: &TenantId, keys_before: Timestamp) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let calls = vec![
            sql_call("DELETE FROM remem.idempotency WHERE tenant_id = $1 AND at < $2", &[&name, &keys_before.0]),
            sql_call("SELECT 1 FROM remem.tenant_clock WHERE tenant_id = $1 FOR NO KEY UPDATE", &[&name]),
            sql_call(
                "UPDATE remem.upkeep SET next_expiry = CASE
                   WHEN EXISTS (SELECT 1 FROM remem.entry WHERE tenant_id = $1 AND erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed') AND rev_to
                     <= coalesce((SELECT min(revision) FROM remem.snapshot WHERE tenant_id = $1), 9223372036854775807)) THEN 0
                   ELSE coalesce((SELECT min(expires_at) FROM remem.entry WHERE tenant_id = $1
                     AND rev_to IS NULL AND expires_at IS NOT NULL), 9223372036854775807) END WHERE tenant_id = $1",
                &[&name],
            ),
        ];
        self.write(Role::Worker, Identity::as_host(tenant), calls)
            .await?;
        Ok(())
    }

    /// Uses the database's clock, which all nodes share.
    pub async fn claim(
        &self,
        tenant: &TenantId,
        pass: &'static str,
        holder: &str,
        for_ms: u64,
    ) -> Result<Option<Fence>, StoreError> {
        let sql = "INSERT INTO remem.lease AS l (tenant_id, pass, holder, fence, until)
                     VALUES ($1, $2, $3, 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4)
                   ON CONFLICT (tenant_id, pass) DO UPDATE SET holder = excluded.holder, until = excluded.until,
                     fence = CASE WHEN l.holder = excluded.holder AND l.until > excluded.until - $4 THEN l.fence ELSE l.fence + 1 END
                   WHERE l.until <= excluded.until - $4 OR l.holder = excluded.holder
                   RETURNING fence";
        let name = tenant.as_str();
        let for_ms = i64::try_from(for_ms).unwrap_or(i64::MAX / 4);
        let results = self
            .write(
                Role::Worker,
                Identity::as_host(tenant),
                vec![sql_call(sql, &[&name, &pass, &holder, &for_ms])],
            )
            .await?;
        results
            .first()
            .and_then(|rows| rows.first())
            .map(|row| {
                Ok(Fence {
                    pass,
                    number: get_u64(row, 0)?,
                })
            })
            .transpose()
    }

    pub async fn release(&self, tenant: &TenantId, fence: &Fence) -> Result<(), StoreError> {
        let sql =
            "UPDATE remem.lease SET until = 0 WHERE tenant_id = $1 AND pass = $2 AND fence = $3";
        let name = tenant.as_str();
        let number = fence.number.cast_signed();
        self.write(
            Role::Worker,
            Identity::as_host(tenant),
            vec![sql_call(sql, &[&name, &fence.pass, &number])],
        )
        .await?;
        Ok(())
    }
}
