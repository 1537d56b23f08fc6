//! Upkeep: tenants that are due, old records, leases on passes.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{get, get_u64};
use remem_core::{Fence, TenantId, Timestamp};
use remem_store::{DueWork, StoreError};

impl Gate {
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
