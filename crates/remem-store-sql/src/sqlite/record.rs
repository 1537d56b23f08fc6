//! Reads of records: named, versioned objects beside a tenant's memory, with their due time, topic
//! and source. Records under review (inert ones) are in a separate table, which no reader may read.

use super::connection::store_error;
use super::rows::{StatementBuilder, boxed, json_names, scope_id};
use crate::stored::prefix_end;
use remem_core::{EntryId, MemoryRef, Record, RecordKind, RecordLinks, TenantId, Timestamp};
use remem_store::{RecordLookup, StoreError};
use rusqlite::{Connection, Row, params};
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

/// Records of a kind, by the table that holds it.
pub(super) fn records(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    lookup: &RecordLookup,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let name = tenant.as_str().to_owned();
    // Else SQLite would walk all records of the kind, in the order of their keys.
    let columns = match lookup {
        RecordLookup::Topic { .. } => {
            RECORD_COLUMNS.replacen("record r", "record r INDEXED BY record_topic", 1)
        }
        RecordLookup::Sources(_) => {
            RECORD_COLUMNS.replacen("record r", "record r INDEXED BY record_source", 1)
        }
        _ => columns_of(kind).to_owned(),
    };
    let mut statement = StatementBuilder::new(format!("SELECT {columns}"));
    let key = boxed([&name, &kind.as_str()]);
    statement.push(" WHERE r.tenant_id = ? AND r.kind = ?", key);
    match lookup {
        RecordLookup::Name(name) => statement.push(" AND r.key = ?", boxed([name])),
        RecordLookup::Names { prefix, after } => {
            let named = " AND r.key >= ? AND r.key > ? AND r.key < ? ORDER BY r.key";
            let after = after.clone().unwrap_or_default();
            statement.push(named, boxed([prefix, &after, &prefix_end(prefix)]));
        }
        RecordLookup::Due { until, after } => {
            let due = " AND r.due IS NOT NULL AND r.due <= ? AND (r.due, r.key) > (?, ?) ORDER BY r.due, r.key";
            let (at, name) = after
                .clone()
                .unwrap_or((Timestamp(i64::MIN), String::new()));
            statement.push(due, boxed([&until.0, &at.0, &name]));
        }
        RecordLookup::Topic { topic, after } => {
            let waiting = " AND r.topic = ? AND r.key > ? ORDER BY r.key";
            statement.push(waiting, boxed([topic, &after.clone().unwrap_or_default()]));
        }
        RecordLookup::Source(memory_ref, id) => {
            let Some(scope) = scope_id(db, tenant, memory_ref).map_err(store_error)? else {
                return Ok(Vec::new());
            };
            let made = " AND r.source_scope = ? AND r.source_row =
               (SELECT row_id FROM entry WHERE tenant_id = ? AND scope_id = ? AND id = ?) ORDER BY r.key";
            let id = id.as_str().to_owned();
            statement.push(made, boxed([&scope, &name, &scope, &id]));
        }
        RecordLookup::Sources(entries) => {
            let made = " AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row)
               IN (SELECT i.scope_id, i.row_id FROM json_each(?) w
                 CROSS JOIN scope o ON o.tenant_id = ?1 AND o.memory_ref = json_extract(w.value, '$[0]')
                 CROSS JOIN entry i ON i.tenant_id = ?1 AND i.scope_id = o.scope_id AND i.id = json_extract(w.value, '$[1]'))
               ORDER BY r.key";
            statement.push(made, boxed([&json_names(entries)]));
        }
    }
    statement.push(" LIMIT ?", boxed([&limit]));
    statement
        .query(db, |row| read_record(row, kind))
        .map_err(store_error)
}

/// The columns and the table of a kind of record.
fn columns_of(kind: RecordKind) -> &'static str {
    // The tenant is bound by what follows.
    if kind.is_under_review() {
        "r.key, r.version, r.at, r.body, r.due, NULL, NULL, NULL FROM review r"
    } else {
        RECORD_COLUMNS
    }
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
