//! Reads of lineage: signatures, sources and derivatives of entries, and all entries that carry a
//! subject.

use super::connection::store_error;
use super::entries::eligible;
use super::rows::scope_id;
use crate::trace::{TracePage, TracedRow};
use remem_core::sabotage;
use remem_core::{EntryId, MemoryRef, Scope, Subject, TenantId, Timestamp};
use remem_store::{
    EntryState, Lineage, RelatedEntry, RowCursor, StoreError, StoredSignature, SubjectTrace,
    TracePosition, TracedEntry,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

/// The signatures of eligible entries, in the order of their rows.
pub(super) fn signatures(
    db: &Connection,
    scope: &Scope,
    after: Option<RowCursor>,
    limit: u32,
) -> Result<Vec<StoredSignature>, StoreError> {
    let sql = format!(
        "SELECT g.row_id, e.id, e.created_at, e.typology, g.pass, g.signature, e.trust FROM signature g
         CROSS JOIN entry e ON e.tenant_id = g.tenant_id AND e.row_id = g.row_id
         WHERE g.tenant_id = ?1 AND g.scope_id = ?2 AND g.row_id > ?3 AND {} ORDER BY g.row_id LIMIT ?4",
        eligible()
    );
    let Some(scope_row) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let signed = |row: &Row<'_>| {
        let id: String = row.get(1)?;
        let typology: String = row.get(3)?;
        let trust: String = row.get(6)?;
        let unreadable = |column| {
            rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text)
        };
        Ok(StoredSignature {
            row: RowCursor(0, row.get(0)?),
            id: EntryId::parse(&id).ok_or_else(|| unreadable(1))?,
            created_at: Timestamp(row.get(2)?),
            typology: typology.parse().map_err(|_| unreadable(3))?,
            pass: row.get(4)?,
            signature: row.get(5)?,
            trust: trust.parse().map_err(|_| unreadable(6))?,
        })
    };
    let params = params![
        scope.tenant.as_str(),
        scope_row,
        after.map_or(0, |row| row.1),
        limit
    ];
    db.prepare_cached(&sql)
        .and_then(|mut query| query.query_map(params, signed)?.collect())
        .map_err(store_error)
}

/// The state of an entry, its sources and the entries made from it, removed ones included.
pub(super) fn lineage(
    db: &Connection,
    scope: &Scope,
    id: &EntryId,
) -> Result<Option<Lineage>, StoreError> {
    let Some(scope_row) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(None);
    };
    let sql = "SELECT e.row_id, e.removed_reason, e.support, (SELECT r.id FROM entry r WHERE r.tenant_id = e.tenant_id
                 AND r.row_id = e.replaced_by) FROM entry e WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.id = ?3";
    let values = params![scope.tenant.as_str(), scope_row, id.as_str()];
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let row = db
        .prepare_cached(sql)
        .and_then(|mut query| query.query_row(values, read).optional())
        .map_err(store_error)?;
    let Some((row, reason, support, by)): Option<(i64, Option<String>, u64, Option<String>)> = row
    else {
        return Ok(None);
    };
    let related = |own: &str, other: &str| {
        let sql = format!(
            "SELECT s.memory_ref, e.id, e.removed_reason FROM lineage l CROSS JOIN entry e ON e.tenant_id = l.tenant_id AND e.row_id = l.{other}
             JOIN scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
             WHERE l.tenant_id = ?1 AND {own} ORDER BY e.created_at, e.id, s.memory_ref"
        );
        relatives(db, &sql, params![scope.tenant.as_str(), scope_row, row])
    };
    Ok(Some(Lineage {
        state: parse_state(reason.as_deref())?,
        replaced_by: by
            .as_deref()
            .map(|id| EntryId::parse(id).ok_or(MALFORMED))
            .transpose()?,
        support,
        sources: related("l.scope_id = ?2 AND l.row_id = ?3", "source_row")?,
        derivatives: related("l.source_scope = ?2 AND l.source_row = ?3", "row_id")?,
    }))
}

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

fn parse_state(reason: Option<&str>) -> Result<EntryState, StoreError> {
    EntryState::from_stored(reason).ok_or(StoreError::Damaged(
        "an entry ended for a reason that nobody knows",
    ))
}

fn relatives(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<RelatedEntry>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(String, String, Option<String>)> = db
        .prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, read)?.collect())
        .map_err(store_error)?;
    let relative = |(memory_ref, id, reason): &(String, String, Option<String>)| {
        let (memory_ref, id) = MemoryRef::parse(memory_ref)
            .zip(EntryId::parse(id))
            .ok_or(MALFORMED)?;
        Ok(RelatedEntry {
            memory_ref,
            id,
            state: parse_state(reason.as_deref())?,
        })
    };
    rows.iter().map(relative).collect()
}

/// Entries that a subject was given to, in the order of their rows.
const GIVEN: &str = "SELECT g.scope_id, g.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, e.content_hash, TRUE
    FROM (SELECT scope_id, row_id FROM entry_subject WHERE tenant_id = ?1 AND subject = ?2 AND (scope_id, row_id) > (?3, ?4)
      ORDER BY scope_id, row_id LIMIT ?5) g
    CROSS JOIN entry e ON e.tenant_id = ?1 AND e.row_id = g.row_id CROSS JOIN scope s ON s.tenant_id = ?1 AND s.scope_id = g.scope_id
    ORDER BY g.scope_id, g.row_id";

/// Everything that was made from some rows, step by step, without what the subject was given to as
/// well. `UNION` ends cycles: an entry that was made from another may be merged into it later.
/// `CROSS JOIN`, here and below, makes SQLite look up the few rows that are needed, rather than
/// begin with all that were ever merged.
const DERIVED: &str = "WITH RECURSIVE given (scope_id, row_id) AS (
      SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?3)),
    carrying (scope_id, row_id) AS (
      SELECT scope_id, row_id FROM given
      UNION SELECT l.scope_id, l.row_id FROM carrying c CROSS JOIN lineage l
        ON l.tenant_id = ?1 AND l.source_scope = c.scope_id AND l.source_row = c.row_id)
    SELECT c.scope_id, c.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, e.content_hash, FALSE
    FROM (SELECT scope_id, row_id FROM carrying w WHERE (scope_id, row_id) > (?4, ?5) AND NOT EXISTS (SELECT 1 FROM entry_subject g
        WHERE g.tenant_id = ?1 AND g.subject = ?2 AND g.scope_id = w.scope_id AND g.row_id = w.row_id)
      ORDER BY scope_id, row_id LIMIT ?6) c
    CROSS JOIN entry e ON e.tenant_id = ?1 AND e.row_id = c.row_id CROSS JOIN scope s ON s.tenant_id = ?1 AND s.scope_id = c.scope_id
    ORDER BY c.scope_id, c.row_id";

/// Entries that were merged into some rows without carrying the subject: neither was it given to
/// them, nor to anything that they were made from.
const MERGED_SURVIVORS: &str = "WITH RECURSIVE merged (scope_id, row_id, by_row) AS MATERIALIZED (
      SELECT m.scope_id, m.row_id, m.replaced_by FROM json_each(?3) w CROSS JOIN entry m
        ON m.tenant_id = ?1 AND m.scope_id = json_extract(w.value, '$[0]') AND m.replaced_by = json_extract(w.value, '$[1]')
        AND m.erased_at IS NULL WHERE m.removed_reason = 'merged'),
    above (origin, scope_id, row_id) AS (
      SELECT row_id, scope_id, row_id FROM merged
      UNION SELECT a.origin, l.source_scope, l.source_row FROM above a CROSS JOIN lineage l
        ON l.tenant_id = ?1 AND l.scope_id = a.scope_id AND l.row_id = a.row_id)
    SELECT s.memory_ref, m.id, e.id FROM merged c
    CROSS JOIN entry m ON m.tenant_id = ?1 AND m.row_id = c.row_id CROSS JOIN entry e ON e.tenant_id = ?1 AND e.row_id = c.by_row
    CROSS JOIN scope s ON s.tenant_id = ?1 AND s.scope_id = c.scope_id
    WHERE c.row_id NOT IN (SELECT a.origin FROM above a CROSS JOIN entry_subject g
      ON g.tenant_id = ?1 AND g.subject = ?2 AND g.scope_id = a.scope_id AND g.row_id = a.row_id)
    ORDER BY c.scope_id, c.row_id";

/// A page of the entries that carry a subject, and the entries merged into them that do not.
pub(super) fn trace(
    db: &Connection,
    tenant: &TenantId,
    subject: &Subject,
    after: TracePosition,
    limit: u32,
) -> Result<SubjectTrace, StoreError> {
    let tenant = tenant.as_str();
    let subject = subject.bytes();
    let begin = after.given.unwrap_or(RowCursor(i64::MIN, 0));
    let values = params![tenant, subject, begin.0, begin.1, limit];
    let given = traced_rows(db, GIVEN, values)?;
    let derived_sql = sabotage!(
        "a-trace-goes-one-step",
        DERIVED,
        &DERIVED.replace(
            // The tenant is bound by the rest of the statement.
            "FROM carrying c CROSS JOIN lineage",
            "FROM given c CROSS JOIN lineage"
        )
    );
    let begin = after.derived.unwrap_or(RowCursor(i64::MIN, 0));
    let rows = json_rows(&given);
    let values = params![tenant, subject, rows, begin.0, begin.1, limit];
    let derived = traced_rows(db, derived_sql, values)?;
    let page = TracePage::new(after, limit, given, derived);
    let rows = json_rows(&page.rows);
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found: Vec<(String, String, String)> = db
        .prepare_cached(MERGED_SURVIVORS)
        .and_then(|mut query| {
            query
                .query_map(params![tenant, subject, rows], read)?
                .collect()
        })
        .map_err(store_error)?;
    let named = |(memory_ref, id, by): &(String, String, String)| {
        let (memory_ref, id) = MemoryRef::parse(memory_ref)
            .zip(EntryId::parse(id))
            .ok_or(MALFORMED)?;
        Ok((memory_ref, id, EntryId::parse(by).ok_or(MALFORMED)?))
    };
    Ok(page.into_trace(found.iter().map(named).collect::<Result<_, StoreError>>()?))
}

/// Runs a statement that returns traced entries.
fn traced_rows(
    db: &Connection,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<TracedRow>, StoreError> {
    let read = |row: &Row<'_>| {
        let memory_ref: String = row.get(2)?;
        let id: String = row.get(3)?;
        let unreadable =
            || rusqlite::Error::InvalidColumnType(0, String::new(), rusqlite::types::Type::Text);
        let (memory_ref, id) = MemoryRef::parse(&memory_ref)
            .zip(EntryId::parse(&id))
            .ok_or_else(unreadable)?;
        let entry = TracedEntry {
            memory_ref,
            id,
            direct: row.get(6)?,
            erased: row.get(4)?,
            content_hash: row.get(5)?,
        };
        Ok((RowCursor(row.get(0)?, row.get(1)?), entry))
    };
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_map(values, read)?.collect())
        .map_err(store_error)
}

/// Rows as the JSON text that the statements above take.
fn json_rows(rows: &[TracedRow]) -> String {
    let pairs: Vec<[i64; 2]> = rows.iter().map(|(row, _)| [row.0, row.1]).collect();
    serde_json::json!(pairs).to_string()
}
