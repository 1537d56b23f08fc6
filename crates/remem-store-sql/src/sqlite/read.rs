//! Queries: get, list, events, clocks.

use super::connection::store_error;
use super::rows::{ENTRY_COLUMNS, StatementBuilder, VisiblePart, boxed, read_entry, scope_id};
use crate::rows::entry::standing_condition;
use remem_core::{
    Entry, EntryId, Event, EventBody, MemoryRef, Revision, RunId, RunPosition, Scope, Seq,
    TenantId, Timestamp, Trust, Typology,
};
use remem_store::{Filter, Page, ReadAt, StoreError, TenantHead};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use std::collections::BTreeSet;

pub(super) fn get(
    db: &Connection,
    scope: &Scope,
    id: &EntryId,
    at: &ReadAt,
) -> Result<Option<Entry>, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(None);
    };
    let mut statement =
        StatementBuilder::new(format!("SELECT {ENTRY_COLUMNS} FROM entry e WHERE "));
    statement.push_visible(&scope.tenant, scope_id, at);
    statement.push(" AND e.id = ?", boxed([&id.as_str().to_owned()]));
    Ok(statement
        .query(db, |row| read_entry(row, &scope.memory_ref))
        .map_err(store_error)?
        .pop())
}

/// Those of the named entries that are live.
pub(super) fn named(
    db: &Connection,
    tenant: &TenantId,
    names: &[(MemoryRef, EntryId)],
    at: &ReadAt,
) -> Result<Vec<Entry>, StoreError> {
    let mut found = Vec::new();
    for (memory_ref, id) in names.iter().collect::<BTreeSet<_>>() {
        let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
        found.extend(get(db, &scope, id, at)?);
    }
    Ok(found)
}

/// Lists a page of entries, newest first. A snapshot is read in two parts, each in the order of its
/// own index: the entries that are still current, and those that were removed since.
pub(super) fn list(
    db: &Connection,
    scope: &Scope,
    filter: &Filter,
    page: &Page,
    at: &ReadAt,
) -> Result<Vec<Entry>, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let resolved = ResolvedScope {
        scope,
        scope_id,
        standing: None,
    };
    list_statement(&resolved, filter, page, at)
        .query(db, |row| read_entry(row, &scope.memory_ref))
        .map_err(store_error)
}

/// Procedures or answers to slots: those of each trust in the order of their own index, the most
/// trusted ones first, until there are enough.
pub(super) fn standing(
    db: &Connection,
    scope: &Scope,
    typology: Typology,
    filter: &Filter,
    limit: u32,
    at: &ReadAt,
) -> Result<Vec<Entry>, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let other_conditions = Filter {
        trust_at_least: None,
        ..filter.clone()
    };
    let mut found = Vec::new();
    for trust in filter.trusts_downwards() {
        let resolved = ResolvedScope {
            scope,
            scope_id,
            standing: Some((typology, trust)),
        };
        let page = Page {
            limit: limit - found.len() as u32,
            after: None,
        };
        let entries = list_statement(&resolved, &other_conditions, &page, at)
            .query(db, |row| read_entry(row, &scope.memory_ref))
            .map_err(store_error)?;
        found.extend(entries);
        if found.len() >= limit as usize {
            break;
        }
    }
    Ok(found)
}

fn list_statement(
    resolved: &ResolvedScope<'_>,
    filter: &Filter,
    page: &Page,
    at: &ReadAt,
) -> StatementBuilder {
    let mut statement = StatementBuilder::new("");
    if let ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } = at {
        statement.push("SELECT * FROM (", []);
        push_list(
            &mut statement,
            resolved,
            filter,
            page,
            at,
            VisiblePart::Current,
        );
        statement.push(") UNION ALL SELECT * FROM (", []);
        push_list(
            &mut statement,
            resolved,
            filter,
            page,
            at,
            VisiblePart::Ended,
        );
        statement.push(
            ") ORDER BY created_at DESC, id DESC LIMIT ?",
            boxed([&page.limit]),
        );
    } else {
        push_list(
            &mut statement,
            resolved,
            filter,
            page,
            at,
            VisiblePart::Current,
        );
    }
    statement
}

/// A scope, and the row id under which the database knows it.
struct ResolvedScope<'a> {
    scope: &'a Scope,
    scope_id: i64,
    /// Only entries that stand until further notice, of this kind and trust.
    standing: Option<(Typology, Trust)>,
}

fn push_list(
    statement: &mut StatementBuilder,
    resolved: &ResolvedScope<'_>,
    filter: &Filter,
    page: &Page,
    at: &ReadAt,
    part: VisiblePart,
) {
    let tenant = &resolved.scope.tenant;
    let scope_id = resolved.scope_id;
    statement.push(&format!("SELECT {ENTRY_COLUMNS} FROM "), []);
    if let (Some(session), VisiblePart::Current) = (&filter.session, part) {
        statement.push("entry e INDEXED BY entry_session WHERE ", []);
        statement.push_visible_part(tenant, scope_id, at, part);
        statement.push(" AND e.session = ?", boxed([&session.as_str().to_owned()]));
        push_tags(statement, &filter.tags);
        push_standing(statement, resolved.standing);
        push_order_and_page(statement, filter, page, "e");
        return;
    }
    // With a tag, walk the tag's own index in order and fetch each entry; CROSS JOIN keeps that
    // order of loops. Removed entries are few: they are read one by one, by an index that
    // SQLite would not choose without statistics.
    let order = match filter.tags.split_first() {
        _ if part == VisiblePart::Ended => {
            statement.push("entry e INDEXED BY entry_ended WHERE ", []);
            statement.push_visible_part(tenant, scope_id, at, part);
            push_tags(statement, &filter.tags);
            "e"
        }
        None if resolved.standing.is_some() => {
            statement.push("entry e INDEXED BY entry_standing WHERE ", []);
            statement.push_visible_part(tenant, scope_id, at, part);
            "e"
        }
        Some((first, rest)) => {
            statement.push("entry_tag g CROSS JOIN entry e ON e.tenant_id = g.tenant_id AND e.scope_id = g.scope_id AND e.id = g.id ", []);
            let key = boxed([&tenant.as_str().to_owned(), &scope_id, first]);
            statement.push(
                "WHERE g.tenant_id = ? AND g.scope_id = ? AND g.tag = ? AND ",
                key,
            );
            statement.push_visible_part(tenant, scope_id, at, part);
            push_tags(statement, rest);
            "g"
        }
        None => {
            statement.push("entry e WHERE ", []);
            statement.push_visible_part(tenant, scope_id, at, part);
            "e"
        }
    };
    push_standing(statement, resolved.standing);
    push_order_and_page(statement, filter, page, order);
}

/// Adds the condition on what stands until further notice. Its values are part of the text, or the
/// partial index would not fit.
fn push_standing(statement: &mut StatementBuilder, standing: Option<(Typology, Trust)>) {
    if let Some((typology, trust)) = standing {
        statement.push(&standing_condition(typology, trust), []);
    }
}

/// The conditions and the order that are the same for all ways to list.
fn push_order_and_page(
    statement: &mut StatementBuilder,
    filter: &Filter,
    page: &Page,
    order: &str,
) {
    push_created(statement, filter, order);
    push_attributes(statement, filter);
    if let Some(after) = &page.after {
        let position = boxed([&after.created_at.0, &after.id.as_str().to_owned()]);
        statement.push(
            &format!(" AND ({order}.created_at, {order}.id) < (?, ?)"),
            position,
        );
    }
    statement.push(
        &format!(" ORDER BY {order}.created_at DESC, {order}.id DESC LIMIT ?"),
        boxed([&page.limit]),
    );
}

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
    after: Seq,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    let sql = format!(
        "SELECT {EVENT_COLUMNS} FROM event WHERE tenant_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    );
    events_of(db, &sql, params![tenant.as_str(), after.0, limit])
}

pub(super) fn run_events(
    db: &Connection,
    tenant: &TenantId,
    run: &RunId,
    from: u64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    events_of(
        db,
        &run_events_sql(),
        params![tenant.as_str(), run.as_str(), from, limit],
    )
}

fn run_events_sql() -> String {
    format!(
        "SELECT {EVENT_COLUMNS} FROM event WHERE tenant_id = ?1 AND run_id = ?2 AND run_seq >= ?3 ORDER BY run_seq LIMIT ?4"
    )
}

fn events_of(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<Event>, StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, event)?.collect())
        .map_err(store_error)
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
    use remem_core::MemoryRef;

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

    /// A recall reads what stands in the order of its own index, and nothing else of the memory.
    #[test]
    fn standing_entries_are_read_through_their_own_index() {
        let scope = Scope::new(
            TenantId::parse("t").expect("a name"),
            MemoryRef::parse("m").expect("a name"),
        );
        for typology in [Typology::Procedural, Typology::Semantic] {
            let resolved = ResolvedScope {
                scope: &scope,
                scope_id: 1,
                standing: Some((typology, Trust::Tool)),
            };
            let page = Page {
                limit: 64,
                after: None,
            };
            let at = ReadAt::Now(Timestamp(1));
            let statement = list_statement(&resolved, &Filter::default(), &page, &at);
            let plan = plan(
                &statement.sql,
                rusqlite::params_from_iter(statement.params.iter()),
            );
            let by = "INDEX entry_standing (tenant_id=? AND scope_id=? AND typology=? AND trust=?)";
            assert_eq!(plan.len(), 1, "no sorting: {plan:?}");
            assert!(
                plan[0].starts_with("SEARCH e USING") && plan[0].ends_with(by),
                "{plan:?}"
            );
        }
    }

    /// Each part of a snapshot is read in the order of its index; only the removed entries, which
    /// are few, are sorted.
    #[test]
    fn a_snapshot_list_uses_two_indexes() {
        let scope = Scope::new(
            TenantId::parse("t").expect("a name"),
            MemoryRef::parse("m").expect("a name"),
        );
        let own_runs = vec![RunId::parse("run_1").expect("a name")];
        let at = ReadAt::Snapshot {
            revision: Revision(1),
            at: Timestamp(1),
            since: Timestamp(1),
            own_runs,
        };
        for (tags, there) in [
            (vec![], "INDEX entry_list"),
            (vec!["x".to_owned(), "y".to_owned()], "SEARCH g USING"),
        ] {
            let filter = Filter {
                tags,
                ..Filter::default()
            };
            let page = Page {
                limit: 20,
                after: None,
            };
            let statement = list_statement(
                &ResolvedScope {
                    scope: &scope,
                    scope_id: 1,
                    standing: None,
                },
                &filter,
                &page,
                &at,
            );
            let plan = plan(
                &statement.sql,
                rusqlite::params_from_iter(statement.params.iter()),
            );
            let text = plan.join("\n");
            assert!(
                text.contains(there)
                    && text.contains("INDEX entry_ended (tenant_id=? AND rev_to>?)"),
                "{text}"
            );
            // The current entries come in the order of their index; pages may be sorted, the memory
            // may not.
            let inner = plan
                .iter()
                .skip_while(|line| !line.contains(there))
                .take_while(|line| !line.starts_with("SCAN (subquery"));
            assert!(
                inner.clone().count() > 0
                    && inner.clone().all(|line| !line.contains("TEMP B-TREE")),
                "{text}"
            );
            assert!(
                !text.contains("SCAN e") && !text.contains("SCAN g"),
                "{text}"
            );
        }
    }

    #[test]
    fn run_events_are_read_through_their_index() {
        let plan = plan(&run_events_sql(), params!["t", "run_1", 0, 100]);
        assert!(
            plan.len() == 1
                && plan[0].contains("INDEX event_run (tenant_id=? AND run_id=? AND run_seq>?)"),
            "{plan:?}"
        );
    }
}
