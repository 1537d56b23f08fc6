//! Records: named, versioned objects beside a tenant's memory, with their due time, topic and
//! source. Records under review (inert ones) are in a separate table, which no reader may read.

use super::apply::BatchWriter;
use super::connection::store_error;
use super::rows::scope_id;
use crate::stored::{prefix_end, record_table};
use remem_core::sabotage;
use remem_core::{
    Batch, Change, EntryId, MemoryRef, Precondition, Record, RecordKind, RecordLinks, RetireReason,
    TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, RecordLookup, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde_json::Value;

/// The current version of a record.
fn stored_version(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    key: &str,
) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(&format!(
        "SELECT version FROM {} WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3",
        record_table(kind)
    ))?
    .query_row(params![tenant.as_str(), kind.as_str(), key], |row| {
        row.get(0)
    })
    .optional()
}

/// Whether the record that a change writes satisfies its precondition and its source is current.
/// Other changes have none.
pub(super) fn preconditions_hold(
    db: &Connection,
    batch: &Batch,
    change: &Change,
) -> rusqlite::Result<bool> {
    let Change::SetRecord {
        kind,
        key,
        precondition,
        ties,
        ..
    } = change
    else {
        return Ok(true);
    };
    Ok(
        meets_precondition(db, batch.tenant(), *kind, key, precondition)?
            && sabotage!(
                "anything-is-tied-to-what-has-ended",
                source_is_current(db, batch, ties)?,
                true
            ),
    )
}

/// Whether a record satisfies a precondition.
pub(super) fn meets_precondition(
    db: &Connection,
    tenant: &TenantId,
    kind: RecordKind,
    key: &str,
    wanted: &Precondition,
) -> rusqlite::Result<bool> {
    Ok(match wanted {
        Precondition::None => true,
        Precondition::Absent => stored_version(db, tenant, kind, key)?.is_none(),
        Precondition::Version(expected) => {
            stored_version(db, tenant, kind, key)? == Some(*expected)
        }
    })
}

/// Whether the source entry of a record is current: nothing new is made from an entry that has
/// ended. An entry that the same batch puts is not stored yet, and counts as current.
fn source_is_current(db: &Connection, batch: &Batch, ties: &RecordLinks) -> rusqlite::Result<bool> {
    let Some((memory_ref, id)) = &ties.source else {
        return Ok(true);
    };
    if batch.stores_entry(memory_ref, id) {
        return Ok(true);
    }
    let Some(scope) = scope_id(db, batch.tenant(), memory_ref)? else {
        return Ok(false);
    };
    let sql = "SELECT rev_to IS NULL FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND erased_at IS NULL";
    let values = params![batch.tenant().as_str(), scope, id.as_str()];
    let live: Option<bool> = db
        .prepare_cached(sql)?
        .query_row(values, |row| row.get(0))
        .optional()?;
    Ok(live.is_some_and(|live| live || !ties.has_due_or_topic()))
}

impl BatchWriter<'_> {
    /// Writes a record, or deletes it. The version increases by one with each write; a new key
    /// begins at 1.
    pub(super) fn record(&mut self, change: &Change) -> rusqlite::Result<ChangeOutcome> {
        let Change::SetRecord {
            kind,
            key,
            body,
            ties,
            ..
        } = change
        else {
            return Ok(ChangeOutcome::NoChange);
        };
        let tenant = self.batch.tenant();
        let at = self.clock.at.max(self.batch.at());
        let table = record_table(*kind);
        self.due_changed |= kind.can_be_due();
        let Some(body) = body else {
            let sql =
                format!("DELETE FROM {table} WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3");
            let deleted = self.db.prepare_cached(&sql)?.execute(params![
                tenant.as_str(),
                kind.as_str(),
                key
            ])?;
            return Ok(if deleted == 1 {
                ChangeOutcome::Removed
            } else {
                ChangeOutcome::NoChange
            });
        };
        let body = serde_json::to_string(body.map()).unwrap_or_default();
        let due = ties.due.map(|at| at.0);
        let version = if kind.is_under_review() {
            let sql = "INSERT INTO review (tenant_id, kind, key, version, at, body, due) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6)
                       ON CONFLICT (tenant_id, kind, key) DO UPDATE SET version = version + 1, at = ?4, body = ?5, due = ?6 RETURNING version";
            let values = params![tenant.as_str(), kind.as_str(), key, at.0, body, due];
            self.db
                .prepare_cached(sql)?
                .query_row(values, |row| row.get(0))?
        } else {
            let source = ties
                .source
                .as_ref()
                .map(|(memory_ref, id)| self.row_of(memory_ref, id))
                .transpose()?
                .flatten();
            let sql = "INSERT INTO record (tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row)
                       VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (tenant_id, kind, key) DO UPDATE
                       SET version = version + 1, at = ?4, body = ?5, due = ?6, topic = ?7, source_scope = ?8, source_row = ?9
                       RETURNING version";
            let scope = source.map(|source_ids| source_ids.0);
            let row = source.map(|source_ids| source_ids.1);
            let values = params![
                tenant.as_str(),
                kind.as_str(),
                key,
                at.0,
                body,
                due,
                ties.topic,
                scope,
                row
            ];
            self.db
                .prepare_cached(sql)?
                .query_row(values, |row| row.get(0))?
        };
        Ok(ChangeOutcome::Recorded {
            key: key.clone(),
            version,
        })
    }

    /// Deletes the records that were made from a row, together with its text.
    pub(super) fn delete_records_of(&mut self, scope: i64, row: i64) -> rusqlite::Result<()> {
        let sql =
            "DELETE FROM record WHERE tenant_id = ?1 AND source_scope = ?2 AND source_row = ?3";
        let deleted = self.db.prepare_cached(sql)?.execute(params![
            self.batch.tenant().as_str(),
            scope,
            row
        ])?;
        self.due_changed |= deleted > 0;
        Ok(())
    }

    /// Handles the records made from a row that another row replaces: they move to the successor,
    /// or, if the row was superseded, they stay but lose due time and topic.
    pub(super) fn move_records(
        &mut self,
        scope: i64,
        row: i64,
        reason: RetireReason,
        by: i64,
    ) -> rusqlite::Result<()> {
        let sql = match reason {
            RetireReason::Superseded => {
                sabotage!(
                    "what-was-superseded-is-awaited",
                    "UPDATE record SET due = NULL, topic = NULL, version = version + 1
                 WHERE tenant_id = ?1 AND source_scope = ?2 AND source_row = ?3 AND ?4 IS NOT NULL",
                    "UPDATE record SET  version = version + 1
                 WHERE tenant_id = ?1 AND source_scope = ?2 AND source_row = ?3 AND ?4 IS NOT NULL"
                )
            }
            RetireReason::Merged | RetireReason::Compacted => {
                "UPDATE record SET source_row = ?4 WHERE tenant_id = ?1 AND source_scope = ?2 AND source_row = ?3"
            }
        };
        let changed = self.db.prepare_cached(sql)?.execute(params![
            self.batch.tenant().as_str(),
            scope,
            row,
            by
        ])?;
        self.due_changed |= changed > 0;
        Ok(())
    }
}

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
            let sql = format!(
                "SELECT {RECORD_COLUMNS} WHERE r.tenant_id = ?1 AND r.kind = ?2 AND r.topic = ?3 AND r.key > ?4 ORDER BY r.key LIMIT ?5"
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

fn columns_of(kind: RecordKind) -> &'static str {
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
