//! Statistics of memories. As of now they are the totals that commits keep, less the entries that
//! are part of a memory and not visible at the instant: expired ones that are not removed yet, and
//! statements outside of their validity windows. Indexes find these, so that the cost follows their
//! number and not that of all entries. At any other moment the entries are counted.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::rows::{StatementBuilder, boxed, scope_id};
use remem_core::{MemoryRef, Scope, TenantId, Timestamp, sabotage};
use remem_store::{MemoryStats, MemorySummary, ReadAt, StoreError};
use rusqlite::types::ToSql;
use rusqlite::{Connection, Row};

/// Current entries that have expired, by their index; each `?` is the instant.
const EXPIRED: (&str, &str) = (
    "entry_expiry",
    "e.expires_at IS NOT NULL AND e.expires_at <= ?",
);

/// Current entries outside of their validity windows that have not expired, each of them in one
/// part: those that are over, those that were written before they are true, and those that were
/// written after the instant.
const OUTSIDE_WINDOW: [(&str, &str); 3] = [
    (
        "entry_over",
        "e.invalid_at IS NOT NULL AND e.invalid_at <= ? AND (e.expires_at IS NULL OR e.expires_at > ?)",
    ),
    (
        "entry_later",
        "e.valid_at > ? AND e.valid_at > e.created_at AND (e.expires_at IS NULL OR e.expires_at > ?)",
    ),
    (
        "entry_list",
        "e.created_at > ? AND e.valid_at > ? AND e.valid_at <= e.created_at AND (e.expires_at IS NULL OR e.expires_at > ?)",
    ),
];

/// Whether the entry `e` names a subject.
const HAS_SUBJECT: &str = "EXISTS (SELECT 1 FROM entry_subject g
    WHERE g.tenant_id = e.tenant_id AND g.scope_id = e.scope_id AND g.row_id = e.row_id)";

pub(super) fn stats(
    db: &Connection,
    scope: &Scope,
    at: &ReadAt,
) -> Result<MemoryStats, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(MemoryStats::default());
    };
    let statement = match at {
        ReadAt::Now(now) => totals_statement(&scope.tenant, scope_id, *now),
        ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } => {
            count_statement(&scope.tenant, scope_id, at)
        }
    };
    let mut rows = statement.query(db, read_stats).map_err(store_error)?;
    Ok(rows.pop().unwrap_or_default())
}

fn read_stats(row: &Row<'_>) -> rusqlite::Result<MemoryStats> {
    Ok(MemoryStats {
        entries: row.get(0)?,
        content_bytes: row.get(1)?,
        oldest: row.get::<_, Option<i64>>(2)?.map(Timestamp),
        newest: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        expiring: row.get(4)?,
        with_subject: row.get(5)?,
    })
}

/// The statistics by the totals of the memory.
fn totals_statement(tenant: &TenantId, scope_id: i64, now: Timestamp) -> StatementBuilder {
    let at = ReadAt::Now(now);
    let mut statement =
        StatementBuilder::new("SELECT s.entries - h.entries, s.content_bytes - h.content_bytes");
    for order in ["e.created_at, e.id", "e.created_at DESC, e.id DESC"] {
        statement.push(
            ", (SELECT e.created_at FROM entry e INDEXED BY entry_list WHERE ",
            [],
        );
        statement.push_visible(tenant, scope_id, &at);
        statement.push(&format!(" ORDER BY {order} LIMIT 1)"), []);
    }
    statement.push(
        ", s.expiring - h.expiring, s.with_subject - h.with_subject
         FROM (SELECT * FROM scope WHERE tenant_id = ? AND scope_id = ?) s,
           (SELECT count(*) AS entries, coalesce(sum(bytes), 0) AS content_bytes, count(expires_at) AS expiring,
              coalesce(sum(has_subject), 0) AS with_subject FROM (",
        boxed([&tenant.as_str().to_owned(), &scope_id]),
    );
    let columns =
        format!("octet_length(e.content) AS bytes, e.expires_at, {HAS_SUBJECT} AS has_subject");
    push_hidden(
        &mut statement,
        &columns,
        &EXPIRED,
        tenant,
        Some(scope_id),
        now,
    );
    sabotage!("statements-outside-their-windows-count", {
        for part in &OUTSIDE_WINDOW {
            statement.push(" UNION ALL ", []);
            push_hidden(&mut statement, &columns, part, tenant, Some(scope_id), now);
        }
    });
    statement.push(")) h", []);
    statement
}

/// Adds the query for a part of the hidden entries: of this memory, or of the memory `s`.
fn push_hidden(
    statement: &mut StatementBuilder,
    columns: &str,
    (index, condition): &(&str, &str),
    tenant: &TenantId,
    scope_id: Option<i64>,
    now: Timestamp,
) {
    let scope = scope_id.map_or("s.scope_id", |_| "?");
    let ids = scope_id.map(|id| Box::new(id) as Box<dyn ToSql>);
    let tenant: Box<dyn ToSql> = Box::new(tenant.as_str().to_owned());
    let instants = condition.matches('?');
    let instants = instants.map(|_| Box::new(now.0) as Box<dyn ToSql>);
    let sql = format!(
        "SELECT {columns} FROM entry e INDEXED BY {index} WHERE e.tenant_id = ? AND e.scope_id = {scope} AND e.rev_to IS NULL AND {condition}"
    );
    let params = [tenant].into_iter().chain(ids).chain(instants);
    statement.push(&sql, params);
}

/// Counts the totals of all memories of a tenant.
pub(crate) fn count_totals(db: &Connection, tenant: &TenantId) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE scope SET (entries, content_bytes, expiring, with_subject) = (
           SELECT count(*), coalesce(sum(octet_length(e.content)), 0), count(e.expires_at), coalesce(sum({HAS_SUBJECT}), 0)
           FROM entry e INDEXED BY entry_list
           WHERE e.tenant_id = scope.tenant_id AND e.scope_id = scope.scope_id AND e.rev_to IS NULL)
         WHERE tenant_id = ?1"
    );
    db.execute(&sql, [tenant.as_str()]).map(|_| ())
}

/// The statistics by counting the entries.
fn count_statement(tenant: &TenantId, scope_id: i64, at: &ReadAt) -> StatementBuilder {
    let mut statement = StatementBuilder::new(format!(
        "SELECT count(*), coalesce(sum(octet_length(e.content)), 0), min(e.created_at), max(e.created_at), count(e.expires_at),
           coalesce(sum({HAS_SUBJECT}), 0) FROM entry e WHERE "
    ));
    statement.push_visible(tenant, scope_id, at);
    statement
}

pub(super) fn scopes(
    db: &Connection,
    tenant: &TenantId,
    after: Option<&MemoryRef>,
    limit: u32,
    at: &ReadAt,
) -> Result<Vec<MemorySummary>, StoreError> {
    let name = tenant.as_str().to_owned();
    let mut statement = StatementBuilder::new("");
    match at {
        ReadAt::Now(now) => push_list_by_totals(&mut statement, tenant, *now),
        ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } => {
            statement.push("SELECT s.memory_ref, s.scope_id", []);
        }
    }
    let after = after.map_or("", MemoryRef::as_str).to_owned();
    statement.push(
        &format!(
            " FROM scope s WHERE s.tenant_id = ? AND s.memory_ref > ? AND {} ORDER BY s.memory_ref LIMIT ?",
            visible_to_actor("s")
        ),
        boxed([&name, &after, &limit]),
    );
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let rows: Vec<(String, i64)> = statement.query(db, read).map_err(store_error)?;
    let summary = |(name, number): &(String, i64)| {
        let memory_ref =
            MemoryRef::parse(name).ok_or(StoreError::Damaged("a memory has a malformed name"))?;
        let entries = match at {
            ReadAt::Now(_) => number.cast_unsigned(),
            ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } => {
                let counted = count_statement(tenant, *number, at).query(db, read_stats);
                counted
                    .map_err(store_error)?
                    .pop()
                    .unwrap_or_default()
                    .entries
            }
        };
        Ok(MemorySummary {
            memory_ref,
            entries,
        })
    };
    rows.iter().map(summary).collect()
}

/// The names and numbers of entries of the memories `s`. Expired entries have an index of the whole
/// tenant, so they are counted once for all memories.
fn push_list_by_totals(statement: &mut StatementBuilder, tenant: &TenantId, now: Timestamp) {
    let (index, condition) = EXPIRED;
    statement.push(
        &format!(
            "WITH expired AS MATERIALIZED (SELECT e.scope_id, count(*) AS entries FROM entry e INDEXED BY {index}
               WHERE e.tenant_id = ? AND e.rev_to IS NULL AND {condition} GROUP BY e.scope_id)
             SELECT s.memory_ref, s.entries - coalesce((SELECT x.entries FROM expired x WHERE x.scope_id = s.scope_id), 0)"
        ),
        boxed([&tenant.as_str().to_owned(), &now.0]),
    );
    for part in &OUTSIDE_WINDOW {
        statement.push(" - (SELECT count(*) FROM (", []);
        push_hidden(statement, "1", part, tenant, None, now);
        statement.push("))", []);
    }
}
