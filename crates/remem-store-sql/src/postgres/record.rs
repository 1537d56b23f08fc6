//! Records: named, versioned objects beside a tenant's memory.

use super::gate::{Gate, Identity, Role, call};
use super::rows::{get, get_u64};
use crate::stored::after_prefix;
use remem_core::{Record, RecordKind, TenantId, Timestamp};
use remem_store::StoreError;
use serde_json::Value;
use tokio_postgres::Row;

impl Gate {
    pub async fn record(&self, tenant: &TenantId, kind: RecordKind, key: &str) -> Result<Option<Record>, StoreError> {
        let sql = "SELECT key, version, at, body FROM remem.record WHERE tenant_id = $1 AND kind = $2 AND key = $3";
        let rows = self.read(Role::App, Identity::tenant(tenant), sql, &[&tenant.as_str(), &kind.as_str(), &key]).await?;
        rows.first().map(|row| record(row, kind)).transpose()
    }

    pub async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let sql = "SELECT key, version, at, body FROM remem.record WHERE tenant_id = $1 AND kind = $2 AND key >= $3 AND key > $4
                   AND key < $5 ORDER BY key LIMIT $6";
        let (name, kind_name, after, end, limit) =
            (tenant.as_str(), kind.as_str(), after.unwrap_or(""), after_prefix(prefix), i64::from(limit));
        let asked = call(sql, &[&name, &kind_name, &prefix, &after, &end, &limit]);
        let rows = self.read_in_order(Role::App, Identity::tenant(tenant), asked).await?;
        rows.iter().map(|row| record(row, kind)).collect()
    }
}

fn record(row: &Row, kind: RecordKind) -> Result<Record, StoreError> {
    let Ok(Value::Object(body)) = serde_json::from_str(get(row, 3)?) else { return Err(StoreError::Damaged("a record cannot be read")) };
    Ok(Record { kind, key: get(row, 0)?, version: get_u64(row, 1)?, at: Timestamp(get(row, 2)?), body })
}
