//! Records: named, versioned objects beside a tenant's memory. Records under review (inert ones)
//! are in a separate table, which only the reviewer's role may read.

use super::gate::{Gate, Identity, Role, SqlCall, sql_call};
use super::rows::{get, get_u64};
use crate::stored::{content_hash, prefix_end};
use remem_core::{EntryId, MemoryRef, Record, RecordKind, RecordLinks, TenantId, Timestamp};
use remem_store::{RecordLookup, StoreError};
use serde_json::Value;
use tokio_postgres::Row;

// The tenant is bound by those who use these columns.
const RECORD_COLUMNS: &str = "r.key, r.version, r.at, r.body, r.due, r.topic, s.memory_ref, e.id FROM remem.record r
     LEFT JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = r.source_scope
     LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = r.source_scope AND e.row_id = r.source_row";
// The tenant is bound likewise.
const INERT_COLUMNS: &str =
    "r.key, r.version, r.at, r.body, r.due, NULL::text, NULL::text, NULL::text FROM remem.review r";

fn columns_of(kind: RecordKind) -> &'static str {
    if kind.is_under_review() {
        INERT_COLUMNS
    } else {
        RECORD_COLUMNS
    }
}

fn role_for(kind: RecordKind) -> Role {
    if kind.is_under_review() {
        Role::Reviewer
    } else {
        Role::App
    }
}

impl Gate {
    pub async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        let sql = format!(
            "SELECT {} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.key = $3",
            columns_of(kind)
        );
        let rows = self
            .read(
                role_for(kind),
                Identity::as_host(tenant),
                &sql,
                &[&tenant.as_str(), &kind.as_str(), &key],
            )
            .await?;
        rows.first().map(|row| read_record(row, kind)).transpose()
    }

    pub async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let sql = format!(
            "SELECT {} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.key >= $3 AND r.key > $4 AND r.key < $5 ORDER BY r.key LIMIT $6",
            columns_of(kind)
        );
        let name = tenant.as_str();
        let kind_name = kind.as_str();
        let after = after.unwrap_or("");
        let end = prefix_end(prefix);
        let limit = i64::from(limit);
        self.query_records(
            tenant,
            kind,
            sql_call(&sql, &[&name, &kind_name, &prefix, &after, &end, &limit]),
        )
        .await
    }

    pub async fn tied(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        tie: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let name = tenant.as_str();
        let kind_name = kind.as_str();
        let limit = i64::from(limit);
        match tie {
            RecordLookup::Due { until, after } => {
                let sql = format!(
                    "SELECT {} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.due IS NOT NULL AND r.due <= $3 AND (r.due, r.key) > ($4, $5)
                     ORDER BY r.due, r.key LIMIT $6",
                    columns_of(kind)
                );
                let (at, key) = after
                    .as_ref()
                    .map_or((i64::MIN, ""), |(at, key)| (at.0, key.as_str()));
                self.query_records(
                    tenant,
                    kind,
                    sql_call(&sql, &[&name, &kind_name, &until.0, &at, &key, &limit]),
                )
                .await
            }
            RecordLookup::Topic { topic, after } => {
                let sql = format!(
                    "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.topic = $3 AND r.key > $4 ORDER BY r.key LIMIT $5"
                );
                let after = after.as_deref().unwrap_or("");
                self.query_records(
                    tenant,
                    kind,
                    sql_call(&sql, &[&name, &kind_name, topic, &after, &limit]),
                )
                .await
            }
            RecordLookup::Source(memory_ref, id) => {
                let sql = format!(
                    "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row) =
                       (SELECT i.scope_id, i.row_id FROM remem.scope o JOIN remem.entry i ON i.tenant_id = $1 AND i.scope_id = o.scope_id
                          AND i.id_hash = $4 WHERE o.tenant_id = $1 AND o.memory_ref = $3) ORDER BY r.key LIMIT $5"
                );
                let memory_ref = memory_ref.as_str();
                let hash = content_hash(id.as_str().as_bytes()).to_vec();
                self.query_records(
                    tenant,
                    kind,
                    sql_call(&sql, &[&name, &kind_name, &memory_ref, &hash, &limit]),
                )
                .await
            }
            RecordLookup::Sources(entries) => {
                let sql = format!(
                    "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = $1 AND r.kind = $2 AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row)
                       IN (SELECT i.scope_id, i.row_id FROM unnest($3::text[], $4::bytea[]) AS w (memory_ref, id_hash)
                         JOIN remem.scope o ON o.tenant_id = $1 AND o.memory_ref = w.memory_ref
                         JOIN remem.entry i ON i.tenant_id = $1 AND i.scope_id = o.scope_id AND i.id_hash = w.id_hash)
                     ORDER BY r.key LIMIT $5"
                );
                let (memories, hashes): (Vec<&str>, Vec<Vec<u8>>) = entries
                    .iter()
                    .map(|(memory_ref, id)| {
                        let hash = content_hash(id.as_str().as_bytes()).to_vec();
                        (memory_ref.as_str(), hash)
                    })
                    .unzip();
                self.query_records(
                    tenant,
                    kind,
                    sql_call(&sql, &[&name, &kind_name, &memories, &hashes, &limit]),
                )
                .await
            }
        }
    }

    async fn query_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        statement: SqlCall<'_>,
    ) -> Result<Vec<Record>, StoreError> {
        let rows = self
            .read_in_order(role_for(kind), Identity::as_host(tenant), statement)
            .await?;
        rows.iter().map(|row| read_record(row, kind)).collect()
    }
}

fn read_record(row: &Row, kind: RecordKind) -> Result<Record, StoreError> {
    let Ok(Value::Object(body)) = serde_json::from_str(get(row, 3)?) else {
        return Err(StoreError::Damaged("a record cannot be read"));
    };
    let memory_ref: Option<&str> = get(row, 6)?;
    let id: Option<&str> = get(row, 7)?;
    let source = memory_ref
        .and_then(MemoryRef::parse)
        .zip(id.and_then(EntryId::parse));
    let ties = RecordLinks {
        due: get::<Option<i64>>(row, 4)?.map(Timestamp),
        topic: get(row, 5)?,
        source,
    };
    Ok(Record {
        kind,
        key: get(row, 0)?,
        version: get_u64(row, 1)?,
        at: Timestamp(get(row, 2)?),
        body,
        links: ties,
    })
}
