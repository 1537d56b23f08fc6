//! Statistics of memories, each in one statement. As of now they are the totals that commits keep,
//! less the entries that are part of a memory and not visible at the instant: expired ones that are
//! not removed yet, and statements outside of their validity windows. Indexes find these, so that
//! the cost follows their number and not that of all entries. At any other moment the entries are
//! counted.

use super::gate::{Gate, Identity};
use super::read::{ONE_SCOPE, memory_statement};
use super::rows::{Param, StatementBuilder, get, get_u64};
use remem_core::{Actor, MemoryRef, Scope, TenantId, Timestamp, sabotage};
use remem_store::{MemoryStats, MemorySummary, ReadAt, StoreError};
use tokio_postgres::Row;

/// Current entries that have expired; each `?` is the instant. Their index is the whole tenant's,
/// so they are counted once for all memories.
const EXPIRED: &str = "e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= ?";

/// Current entries outside of their validity windows that have not expired, each of them in one
/// part: those that are over, those that were written before they are true, and those that were
/// written after the instant.
const OUTSIDE_WINDOW: [&str; 3] = [
    "e.invalid_at IS NOT NULL AND e.invalid_at <= ?",
    "e.valid_at > ? AND e.valid_at > e.created_at",
    "e.created_at > ? AND e.valid_at > ? AND e.valid_at <= e.created_at",
];

/// Whether the entry `e` names a subject.
const HAS_SUBJECT: &str = "EXISTS (SELECT 1 FROM remem.entry_subject g
    WHERE g.tenant_id = $1 AND g.scope_id = e.scope_id AND g.row_id = e.row_id)";

impl Gate {
    pub async fn stats(&self, scope: &Scope, at: &ReadAt) -> Result<MemoryStats, StoreError> {
        let statement = match at {
            ReadAt::Now(now) => totals_statement(scope, at, *now),
            ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } => count_statement(scope, at),
        };
        let rows = self.query(Identity::of_scope(scope), &statement).await?;
        let stats = rows.first().map(read_stats).transpose()?;
        Ok(stats.unwrap_or_default())
    }

    pub async fn scopes(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        after: Option<&MemoryRef>,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<MemorySummary>, StoreError> {
        let mut statement = StatementBuilder::new("");
        statement.params.push(Param::Text(tenant.as_str()));
        match at {
            ReadAt::Now(now) => push_list_by_totals(&mut statement, *now),
            ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } => {
                statement.push(
                    "SELECT s.memory_ref, (SELECT count(*) FROM remem.entry e WHERE ",
                    [],
                );
                statement.push_visible(tenant.as_str(), "s.scope_id", at);
                statement.push(")", []);
            }
        }
        statement.push(
            " FROM remem.scope s WHERE s.tenant_id = $1 AND s.memory_ref > ? ORDER BY s.memory_ref LIMIT ?",
            [
                Param::Text(after.map_or("", MemoryRef::as_str)),
                Param::Number(limit.into()),
            ],
        );
        let rows = self
            .query(Identity::as_actor(tenant, actor), &statement)
            .await?;
        let summary = |row: &Row| {
            let memory_ref = MemoryRef::parse(get(row, 0)?)
                .ok_or(StoreError::Damaged("a memory has a malformed name"))?;
            let entries = get_u64(row, 1)?;
            Ok(MemorySummary {
                memory_ref,
                entries,
            })
        };
        rows.iter().map(summary).collect()
    }
}

fn read_stats(row: &Row) -> Result<MemoryStats, StoreError> {
    Ok(MemoryStats {
        entries: get_u64(row, 0)?,
        content_bytes: get_u64(row, 1)?,
        oldest: get::<Option<i64>>(row, 2)?.map(Timestamp),
        newest: get::<Option<i64>>(row, 3)?.map(Timestamp),
        expiring: get_u64(row, 4)?,
        with_subject: get_u64(row, 5)?,
    })
}

/// The statistics by the totals of the memory. OFFSET 0 keeps the planner from reading the memory
/// instead of the few entries of an index.
fn totals_statement<'a>(scope: &'a Scope, at: &'a ReadAt, now: Timestamp) -> StatementBuilder<'a> {
    let tenant = scope.tenant.as_str();
    let mut statement = memory_statement(
        "SELECT s.entries - h.entries, s.content_bytes - h.content_bytes",
        scope,
    );
    for order in [
        "e.created_at, left(e.id, 100)",
        "e.created_at DESC, left(e.id, 100) DESC",
    ] {
        statement.push(", (SELECT e.created_at FROM remem.entry e WHERE ", []);
        statement.push_visible(tenant, ONE_SCOPE, at);
        statement.push(&format!(" ORDER BY {order} LIMIT 1)"), []);
    }
    statement.push(
        &format!(
            ", s.expiring - h.expiring, s.with_subject - h.with_subject FROM remem.scope s,
             (SELECT count(*) AS entries, coalesce(sum(octet_length(e.content)), 0)::bigint AS content_bytes,
                count(e.expires_at) AS expiring, count(*) FILTER (WHERE {HAS_SUBJECT}) AS with_subject
              FROM (SELECT e.* FROM (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND {EXPIRED} OFFSET 0) e
                    WHERE e.scope_id = {ONE_SCOPE}"
        ),
        [Param::Number(now.0)],
    );
    sabotage!("postgres-statements-outside-their-windows-count", {
        for condition in OUTSIDE_WINDOW {
            statement.push(" UNION ALL ", []);
            push_outside_window(&mut statement, "e.*", condition, ONE_SCOPE, now);
        }
    });
    statement.push(") e) h WHERE s.tenant_id = $1 AND s.memory_ref = $2", []);
    statement
}

/// Adds the query for a part of the entries of a memory that are outside of their windows.
fn push_outside_window(
    statement: &mut StatementBuilder<'_>,
    columns: &str,
    condition: &str,
    scope_id: &str,
    now: Timestamp,
) {
    let sql = format!(
        "SELECT {columns} FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = {scope_id} AND e.rev_to IS NULL
           AND {condition} AND (e.expires_at IS NULL OR e.expires_at > ?)"
    );
    let instants = sql.matches('?').map(|_| Param::Number(now.0));
    let instants: Vec<Param<'_>> = instants.collect();
    statement.push(&sql, instants);
}

/// The names and numbers of entries of the memories `s`.
fn push_list_by_totals(statement: &mut StatementBuilder<'_>, now: Timestamp) {
    statement.push(
        &format!(
            "WITH expired AS MATERIALIZED (SELECT e.scope_id, count(*) AS entries FROM remem.entry e
               WHERE e.tenant_id = $1 AND {EXPIRED} GROUP BY e.scope_id)
             SELECT s.memory_ref, s.entries - coalesce((SELECT x.entries FROM expired x WHERE x.scope_id = s.scope_id), 0)"
        ),
        [Param::Number(now.0)],
    );
    for condition in OUTSIDE_WINDOW {
        statement.push(" - (SELECT count(*) FROM (", []);
        push_outside_window(statement, "1", condition, "s.scope_id", now);
        statement.push(") e)", []);
    }
}

/// The statistics by counting the entries.
fn count_statement<'a>(scope: &'a Scope, at: &'a ReadAt) -> StatementBuilder<'a> {
    let mut statement = memory_statement(
        "SELECT count(*), coalesce(sum(octet_length(e.content)), 0)::bigint, min(e.created_at), max(e.created_at), count(e.expires_at),
           count(g.row_id)",
        scope,
    );
    let subjects = format!(
        " FROM remem.entry e LEFT JOIN (SELECT DISTINCT row_id FROM remem.entry_subject
           WHERE tenant_id = $1 AND scope_id = {ONE_SCOPE}) g ON g.row_id = e.row_id WHERE "
    );
    statement.push(&subjects, []);
    statement.push_visible(scope.tenant.as_str(), ONE_SCOPE, at);
    statement
}
