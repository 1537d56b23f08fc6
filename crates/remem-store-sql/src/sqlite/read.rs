//! Queries: statistics, memories, events, clocks; and the conditions of a filter.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::rows::{StatementBuilder, boxed, scope_id};
use remem_core::{
    Event, EventBody, MemoryRef, Revision, RunId, RunPosition, Scope, Seq, TenantId, Timestamp,
};
use remem_store::{EventRange, Filter, MemoryStats, MemorySummary, ReadAt, StoreError, TenantHead};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Adds the condition that `e` has each of these tags.
pub(super) fn push_tags(statement: &mut StatementBuilder, tags: &[String]) {
    for tag in tags {
        let sql = " AND EXISTS (SELECT 1 FROM entry_tag x WHERE x.tenant_id = e.tenant_id AND x.scope_id = e.scope_id
                     AND x.tag = ? AND x.created_at = e.created_at AND x.id = e.id)";
        statement.push(sql, boxed([tag]));
    }
}

/// Adds the conditions on tier, kind, session, chat thread and trust of `e`.
pub(super) fn push_attributes(statement: &mut StatementBuilder, filter: &Filter) {
    if let Some(names) = filter.trust_names() {
        statement.push(&format!(" AND e.trust IN ({names})"), boxed([]));
    }
    let wanted = [
        ("tier", filter.tier.map(|tier| tier.as_str())),
        (
            "typology",
            filter.typology.map(|typology| typology.as_str()),
        ),
        ("session", filter.session.as_ref().map(|id| id.as_str())),
        (
            "interaction",
            filter.interaction.as_ref().map(|id| id.as_str()),
        ),
    ];
    for (column, value) in wanted
        .into_iter()
        .filter_map(|(column, value)| Some((column, value?)))
    {
        statement.push(&format!(" AND e.{column} = ?"), boxed([&value.to_owned()]));
    }
}

/// Adds the conditions on the time of creation.
pub(super) fn push_created(statement: &mut StatementBuilder, filter: &Filter, of: &str) {
    if let Some(from) = filter.created_from {
        statement.push(&format!(" AND {of}.created_at >= ?"), boxed([&from.0]));
    }
    if let Some(to) = filter.created_to {
        statement.push(&format!(" AND {of}.created_at < ?"), boxed([&to.0]));
    }
}

pub(super) fn stats(
    db: &Connection,
    scope: &Scope,
    at: &ReadAt,
) -> Result<MemoryStats, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(MemoryStats::default());
    };
    let columns = "count(*), coalesce(sum(octet_length(e.content)), 0), min(e.created_at), max(e.created_at), count(e.expires_at), count(g.row_id)";
    let mut statement = StatementBuilder::new(format!("SELECT {columns} FROM entry e "));
    statement.push(
        "LEFT JOIN (SELECT DISTINCT row_id FROM entry_subject WHERE tenant_id = ? AND scope_id = ?) g ON g.row_id = e.row_id WHERE ",
        boxed([&scope.tenant.as_str().to_owned(), &scope_id]),
    );
    statement.push_visible(&scope.tenant, scope_id, at);
    let rows = statement.query(db, |row| {
        Ok(MemoryStats {
            entries: row.get(0)?,
            content_bytes: row.get(1)?,
            oldest: row.get::<_, Option<i64>>(2)?.map(Timestamp),
            newest: row.get::<_, Option<i64>>(3)?.map(Timestamp),
            expiring: row.get(4)?,
            with_subject: row.get(5)?,
        })
    });
    Ok(rows.map_err(store_error)?.pop().unwrap_or_default())
}

pub(super) fn scopes(
    db: &Connection,
    tenant: &TenantId,
    after: Option<&MemoryRef>,
    limit: u32,
    at: &ReadAt,
) -> Result<Vec<MemorySummary>, StoreError> {
    let mut query = db
        .prepare_cached(&format!(
            "SELECT scope_id, memory_ref FROM scope WHERE tenant_id = ?1 AND memory_ref > ?2 AND {} ORDER BY memory_ref LIMIT ?3",
            visible_to_actor("scope")
        ))
        .map_err(store_error)?;
    let named = query
        .query_map(
            params![tenant.as_str(), after.map_or("", MemoryRef::as_str), limit],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .and_then(Iterator::collect::<rusqlite::Result<Vec<(i64, String)>>>)
        .map_err(store_error)?;
    let mut summaries = Vec::with_capacity(named.len());
    for (scope_id, name) in named {
        let mut statement = StatementBuilder::new("SELECT count(*) FROM entry e WHERE ");
        statement.push_visible(tenant, scope_id, at);
        let entries = statement
            .query(db, |row| row.get(0))
            .map_err(store_error)?
            .pop()
            .unwrap_or(0);
        let memory_ref =
            MemoryRef::parse(&name).ok_or(StoreError::Damaged("a memory has a malformed name"))?;
        summaries.push(MemorySummary {
            memory_ref,
            entries,
        });
    }
    Ok(summaries)
}

/// The revision, the number of the last event and the time of the last commit.
pub(super) fn head(db: &Connection, tenant: &TenantId) -> Result<TenantHead, StoreError> {
    let stored = db
        .prepare_cached("SELECT revision, seq, at FROM tenant_clock WHERE tenant_id = ?1")
        .and_then(|mut query| {
            query
                .query_row([tenant.as_str()], |row| {
                    Ok(TenantHead {
                        revision: Revision(row.get(0)?),
                        seq: Seq(row.get(1)?),
                        at: Timestamp(row.get(2)?),
                    })
                })
                .optional()
        })
        .map_err(store_error)?;
    Ok(stored.unwrap_or_default())
}

const EVENT_COLUMNS: &str = "seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash";

pub(super) fn events(
    db: &Connection,
    tenant: &TenantId,
    range: &EventRange,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    let sql = events_sql(range);
    let name = tenant.as_str();
    let values = match range {
        EventRange::After(seq) => boxed([&name.to_owned(), &seq.0, &limit]),
        EventRange::OfRun(run, from) => {
            boxed([&name.to_owned(), &run.as_str().to_owned(), from, &limit])
        }
    };
    db.prepare_cached(&sql)
        .and_then(|mut query| {
            query
                .query_map(rusqlite::params_from_iter(values), event)?
                .collect()
        })
        .map_err(store_error)
}

fn events_sql(range: &EventRange) -> String {
    let part = match range {
        EventRange::After(_) => "seq > ? ORDER BY seq",
        EventRange::OfRun(..) => "run_id = ? AND run_seq >= ? ORDER BY run_seq",
    };
    format!("SELECT {EVENT_COLUMNS} FROM event WHERE tenant_id = ? AND {part} LIMIT ?")
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let run: Option<String> = row.get(3)?;
    let run_seq: Option<u64> = row.get(4)?;
    let recorded_at: Option<i64> = row.get(5)?;
    let kind: String = row.get(6)?;
    let payload: String = row.get(7)?;
    let unreadable =
        || rusqlite::Error::InvalidColumnType(7, String::new(), rusqlite::types::Type::Text);
    let run = run.as_deref().and_then(RunId::parse).zip(run_seq);
    Ok(Event {
        seq: Seq(row.get(0)?),
        revision: Revision(row.get(1)?),
        at: Timestamp(row.get(2)?),
        run: run.map(|(id, seq)| RunPosition {
            id,
            seq,
            recorded_at: recorded_at.map(Timestamp),
        }),
        body: EventBody::from_stored(&kind, &payload).ok_or_else(unreadable)?,
        hash: row.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection;
    use rusqlite::Params;

    fn plan(sql: &str, params: impl Params) -> Vec<String> {
        let db = connection::in_memory(&connection::TENANT_MIGRATIONS).expect("a database");
        let mut query = db
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .expect("a statement");
        query
            .query_map(params, |row| row.get(3))
            .expect("a plan")
            .collect::<rusqlite::Result<_>>()
            .expect("text")
    }

    #[test]
    fn run_events_are_read_through_their_index() {
        let range = EventRange::OfRun(RunId::parse("run_1").expect("a name"), 0);
        let plan = plan(&events_sql(&range), params!["t", "run_1", 0, 100]);
        assert!(
            plan.len() == 1
                && plan[0].contains("INDEX event_run (tenant_id=? AND run_id=? AND run_seq>?)"),
            "{plan:?}"
        );
    }
}
