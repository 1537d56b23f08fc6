//! Queries: events, clocks; and the conditions of a filter.

use super::connection::store_error;
use super::rows::{StatementBuilder, boxed};
use remem_core::{Event, EventBody, Revision, RunId, RunPosition, Seq, TenantId, Timestamp};
use remem_store::{EventRange, Filter, StoreError, TenantHead};
use rusqlite::{Connection, OptionalExtension, Row};

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
    use rusqlite::{Params, params};

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
