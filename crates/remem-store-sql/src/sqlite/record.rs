//! Reads of records: named, versioned objects beside a tenant's memory, with their due time, topic
//! and source. Records under review (inert ones) are in a separate table, which no reader may read.

use super::connection::store_error;
use super::rows::scope_id;
use crate::stored::prefix_end;
use remem_core::{EntryId, MemoryRef, Record, RecordKind, RecordLinks, TenantId, Timestamp};
use remem_store::{RecordLookup, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde_json::Value;

/// The earliest due time of any record of the tenant, or `i64::MAX`.
pub(super) fn next_due(db: &Connection, tenant: &TenantId) -> rusqlite::Result<i64> {
    let sql = "SELECT min((SELECT coalesce(min(due), ?2) FROM record WHERE tenant_id = ?1 AND due IS NOT NULL),
                 (SELECT coalesce(min(due), ?2) FROM review WHERE tenant_id = ?1 AND due IS NOT NULL))";
    db.prepare_cached(sql)?
        .query_row(params![tenant.as_str(), i64::MAX], |row| row.get(0))
}

const RECORD_COLUMNS: &str =
    "r.key, r.version, r.at, r.body, r.due, r.topic, s.memory_ref, e.id FROM record r
    LEFT JOIN entry e ON e.tenant_id = r.tenant_id AND e.row_id = r.source_row
    LEFT JOIN scope s ON s.tenant_id = r.tenant_id AND s.scope_id = r.source_scope";

pub(super) fn get(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    key: &str,
) -> Result<Option<Record>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.key = ?3",
        columns_of(kind)
    );
    let values = params![tenant.as_str(), kind.as_str(), key];
    db.prepare_cached(&sql)
        .and_then(|mut query| {
            query
                .query_row(values, |row| read_record(row, kind))
                .optional()
        })
        .map_err(store_error)
}

pub(super) fn list(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.key >= ?3 AND r.key > ?4 AND r.key < ?5 ORDER BY r.key LIMIT ?6",
        columns_of(kind)
    );
    let end = prefix_end(prefix);
    query_records(
        db,
        kind,
        &sql,
        params![
            tenant.as_str(),
            kind.as_str(),
            prefix,
            after.unwrap_or(""),
            end,
            limit
        ],
    )
}

/// Records that are due by `until`, the earliest first, from either table: the columns used are the
/// same in both.
pub(super) fn due(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    until: Timestamp,
    after: Option<&(Timestamp, String)>,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let sql = format!(
        "SELECT {} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.due IS NOT NULL AND r.due <= ?3 AND (r.due, r.key) > (?4, ?5)
         ORDER BY r.due, r.key LIMIT ?6",
        columns_of(kind)
    );
    let (instant, key) = after.map_or((i64::MIN, ""), |(at, key)| (at.0, key.as_str()));
    query_records(
        db,
        kind,
        &sql,
        params![tenant.as_str(), kind.as_str(), until.0, instant, key, limit],
    )
}

/// Records by due time, by topic or by source entry.
pub(super) fn tied(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    tie: &RecordLookup,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    match tie {
        RecordLookup::Due { until, after } => due(db, tenant, kind, *until, after.as_ref(), limit),
        RecordLookup::Topic { topic, after } => {
            // Else SQLite would walk all records of the kind, in the order of their keys.
            let columns =
                RECORD_COLUMNS.replacen("record r", "record r INDEXED BY record_topic", 1);
            let sql = format!(
                "SELECT {columns} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.topic = ?3 AND r.key > ?4 ORDER BY r.key LIMIT ?5"
            );
            query_records(
                db,
                kind,
                &sql,
                params![
                    tenant.as_str(),
                    kind.as_str(),
                    topic,
                    after.as_deref().unwrap_or(""),
                    limit
                ],
            )
        }
        RecordLookup::Source(memory_ref, id) => {
            records_of_source(db, tenant, kind, (memory_ref, id), limit)
        }
        RecordLookup::Sources(entries) => {
            let sql = format!(
                "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row)
                   IN (SELECT i.scope_id, i.row_id FROM json_each(?3) w
                     CROSS JOIN scope o ON o.tenant_id = ?1 AND o.memory_ref = json_extract(w.value, '$[0]')
                     CROSS JOIN entry i ON i.tenant_id = ?1 AND i.scope_id = o.scope_id AND i.id = json_extract(w.value, '$[1]'))
                 ORDER BY r.key LIMIT ?4"
            );
            let names: Vec<[&str; 2]> = entries
                .iter()
                .map(|(memory_ref, id)| [memory_ref.as_str(), id.as_str()])
                .collect();
            let names = serde_json::json!(names).to_string();
            query_records(
                db,
                kind,
                &sql,
                params![tenant.as_str(), kind.as_str(), names, limit],
            )
        }
    }
}

/// Records that were made from an entry.
fn records_of_source(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    (memory_ref, id): (&MemoryRef, &EntryId),
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let Some(scope) = scope_id(db, tenant, memory_ref).map_err(store_error)? else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.source_scope = ?3 AND r.source_row =
           (SELECT row_id FROM entry WHERE tenant_id = ?1 AND scope_id = ?3 AND id = ?4) ORDER BY r.key LIMIT ?5"
    );
    query_records(
        db,
        kind,
        &sql,
        params![tenant.as_str(), kind.as_str(), scope, id.as_str(), limit],
    )
}

/// The beginning of a statement.
fn columns_of(kind: RecordKind) -> &'static str {
    // The tenant is bound by what follows.
    if kind.is_under_review() {
        "r.key, r.version, r.at, r.body, r.due, NULL, NULL, NULL FROM review r"
    } else {
        RECORD_COLUMNS
    }
}

fn query_records(
    db: &Connection,
    kind: RecordKind,
    sql: &str,
    values: impl Params,
) -> Result<Vec<Record>, StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut query| {
            query
                .query_map(values, |row| read_record(row, kind))?
                .collect()
        })
        .map_err(store_error)
}

fn read_record(row: &Row<'_>, kind: RecordKind) -> rusqlite::Result<Record> {
    let body: String = row.get(3)?;
    let unreadable =
        || rusqlite::Error::InvalidColumnType(3, String::new(), rusqlite::types::Type::Text);
    let Ok(Value::Object(body)) = serde_json::from_str(&body) else {
        return Err(unreadable());
    };
    let memory_ref: Option<String> = row.get(6)?;
    let id: Option<String> = row.get(7)?;
    let source = memory_ref
        .as_deref()
        .and_then(MemoryRef::parse)
        .zip(id.as_deref().and_then(EntryId::parse));
    let ties = RecordLinks {
        due: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        topic: row.get(5)?,
        source,
    };
    Ok(Record {
        kind,
        key: row.get(0)?,
        version: row.get(1)?,
        at: Timestamp(row.get(2)?),
        body,
        links: ties,
    })
}
