//! Records: named, versioned objects beside a tenant's memory.

use super::connection::failed;
use crate::stored::after_prefix;
use remem_core::{Precondition, Record, RecordBody, RecordKind, TenantId, Timestamp};
use remem_store::{Outcome, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

fn version(db: &Connection, tenant: &TenantId, kind: RecordKind, key: &str) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached("SELECT version FROM record WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3")?
        .query_row(params![tenant.as_str(), kind.as_str(), key], |row| row.get(0))
        .optional()
}

pub(super) fn holds(db: &Connection, tenant: &TenantId, kind: RecordKind, key: &str, precondition: Precondition) -> rusqlite::Result<bool> {
    match precondition {
        Precondition::None => Ok(true),
        Precondition::Absent => Ok(version(db, tenant, kind, key)?.is_none()),
        Precondition::Version(expected) => Ok(version(db, tenant, kind, key)? == Some(expected)),
    }
}

/// Writes a record, or takes it away. Its next version counts from the one that is there; a name that is free begins at 1.
pub(super) fn write(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    key: &str,
    body: Option<&RecordBody>,
    at: Timestamp,
) -> rusqlite::Result<Outcome> {
    let Some(body) = body else {
        let gone = db.prepare_cached("DELETE FROM record WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3")?.execute(params![
            tenant.as_str(),
            kind.as_str(),
            key
        ])?;
        return Ok(if gone == 1 { Outcome::Removed } else { Outcome::Nothing });
    };
    let version = db
        .prepare_cached(
            "INSERT INTO record (tenant_id, kind, key, version, at, body) VALUES (?1, ?2, ?3, 1, ?4, ?5)
             ON CONFLICT (tenant_id, kind, key) DO UPDATE SET version = version + 1, at = ?4, body = ?5 RETURNING version",
        )?
        .query_row(params![tenant.as_str(), kind.as_str(), key, at.0, serde_json::to_string(body.map()).unwrap_or_default()], |row| {
            row.get(0)
        })?;
    Ok(Outcome::Recorded { key: key.to_owned(), version })
}

pub(super) fn get(db: &Connection, tenant: &TenantId, kind: RecordKind, key: &str) -> Result<Option<Record>, StoreError> {
    db.prepare_cached("SELECT key, version, at, body FROM record WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3")
        .and_then(|mut query| query.query_row(params![tenant.as_str(), kind.as_str(), key], |row| record(row, kind)).optional())
        .map_err(failed)
}

pub(super) fn list(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let sql = "SELECT key, version, at, body FROM record WHERE tenant_id = ?1 AND kind = ?2 AND key >= ?3 AND key > ?4 AND key < ?5
               ORDER BY key LIMIT ?6";
    let end = after_prefix(prefix);
    let params = params![tenant.as_str(), kind.as_str(), prefix, after.unwrap_or(""), end, limit];
    db.prepare_cached(sql).and_then(|mut query| query.query_map(params, |row| record(row, kind))?.collect()).map_err(failed)
}

fn record(row: &Row<'_>, kind: RecordKind) -> rusqlite::Result<Record> {
    let body: String = row.get(3)?;
    let unreadable = || rusqlite::Error::InvalidColumnType(3, String::new(), rusqlite::types::Type::Text);
    let Ok(Value::Object(body)) = serde_json::from_str(&body) else { return Err(unreadable()) };
    Ok(Record { kind, key: row.get(0)?, version: row.get(1)?, at: Timestamp(row.get(2)?), body })
}
