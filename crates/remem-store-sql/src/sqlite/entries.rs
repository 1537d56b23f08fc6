//! The one statement that reads entries: what a query selects decides its condition, its order and
//! whether texts are read.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::read::{push_attributes, push_created, push_tags};
use super::rows::{StatementBuilder, VisiblePart, boxed, json_names, scope_id};
use super::snapshot::{IN_NO_SNAPSHOT, REMOVED_WITH_TEXT, UNPROTECTED_UNTIL};
use crate::rows::entry;
use remem_core::{EntryId, MemoryRef, Scope, TenantId, Timestamp, Trust, Typology, sabotage};
use remem_store::{
    EntryQuery, EntrySelection, Filter, FoundEntry, ListPosition, MemoryEntries, ReadAt, RowCursor,
    StoreError, TenantEntries,
};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// SQL condition: the entries that consolidation may read. (Entries with an expiry are left to
/// it; entries of a slot or with a validity window are replaced by the next answer.)
pub(super) fn eligible() -> &'static str {
    sabotage!(
        "consolidation-takes-what-will-end",
        "e.rev_to IS NULL AND e.expires_at IS NULL AND e.tier = 'persistent' AND e.slot IS NULL AND e.valid_at IS NULL AND e.invalid_at IS NULL",
        "e.rev_to IS NULL AND e.tier = 'persistent' AND e.slot IS NULL AND e.valid_at IS NULL AND e.invalid_at IS NULL"
    )
}

/// The memory of each entry, for a query of a whole tenant.
const OF_TENANT: &str = "JOIN scope s ON s.scope_id = e.scope_id WHERE e.tenant_id = ?";

/// Runs a query. In one file, the number of a row is its whole position.
pub(super) fn entries(db: &Connection, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError> {
    let mut found = match &query.selection {
        EntrySelection::OfMemory(scope, entries) => of_memory(db, scope, entries, query.limit)?,
        EntrySelection::OfTenant(tenant, TenantEntries::Named { names, at }) => {
            named(db, tenant, names, at)?
        }
        EntrySelection::OfTenant(tenant, entries) => {
            let statement = tenant_statement(tenant, entries, query.limit);
            statement.read(db, |row| {
                if entries.has_texts() {
                    entry::read_found(row, None)
                } else {
                    entry::read_name(row)
                }
            })?
        }
    };
    found.iter_mut().for_each(|found| found.row.0 = 0);
    Ok(found)
}

fn of_memory(
    db: &Connection,
    scope: &Scope,
    entries: &MemoryEntries,
    limit: u32,
) -> Result<Vec<FoundEntry>, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let place = ResolvedScope { scope, scope_id };
    if let MemoryEntries::Standing {
        typology,
        filter,
        at,
    } = entries
    {
        return standing(db, &place, *typology, (filter, at), limit);
    }
    let mut found = memory_statement(&place, entries, limit)
        .read(db, |row| entry::read_found(row, Some(&scope.memory_ref)))?;
    if let MemoryEntries::OfSlot(_) = entries {
        found.reverse(); // the newest ones were wanted, the oldest of them comes first
    }
    Ok(found)
}

/// Those of the named entries that are live.
fn named(
    db: &Connection,
    tenant: &TenantId,
    names: &[(MemoryRef, EntryId)],
    at: &ReadAt,
) -> Result<Vec<FoundEntry>, StoreError> {
    let mut found = Vec::new();
    for (memory_ref, id) in names.iter().collect::<BTreeSet<_>>() {
        let scope = Scope::new(tenant.clone(), memory_ref.clone()).as_host();
        let named = MemoryEntries::Named {
            id: id.clone(),
            at: at.clone(),
        };
        found.extend(of_memory(db, &scope, &named, 1)?);
    }
    Ok(found)
}

/// Procedures or answers to slots: those of each trust in the order of their own index, the most
/// trusted ones first, until there are enough.
fn standing(
    db: &Connection,
    place: &ResolvedScope<'_>,
    typology: Typology,
    (filter, at): (&Filter, &ReadAt),
    limit: u32,
) -> Result<Vec<FoundEntry>, StoreError> {
    let other_conditions = Filter {
        trust_at_least: None,
        ..filter.clone()
    };
    let mut found = Vec::new();
    for trust in filter.trusts_downwards() {
        let list = List {
            place,
            filter: &other_conditions,
            standing: Some((typology, trust)),
            after: None,
            at,
            limit: limit - found.len() as u32,
        };
        let memory_ref = &place.scope.memory_ref;
        let of_trust =
            list_statement(&list).read(db, |row| entry::read_found(row, Some(memory_ref)));
        found.extend(of_trust?);
        if found.len() >= limit as usize {
            break;
        }
    }
    Ok(found)
}

/// A scope, and the row id under which the database knows it.
struct ResolvedScope<'a> {
    scope: &'a Scope,
    scope_id: i64,
}

/// A statement that selects whole entries: the columns of the entry, the name of its memory if
/// that is not known, and the entry that replaced it if the statement is about a slot.
fn whole_entries(memory_ref: &str, replaced_by: &str) -> StatementBuilder {
    StatementBuilder::new(format!(
        "SELECT {}, {memory_ref} AS of_memory, {replaced_by} AS replacement ",
        *entry::WITH_TEXT
    ))
}

fn memory_statement(
    place: &ResolvedScope<'_>,
    entries: &MemoryEntries,
    limit: u32,
) -> StatementBuilder {
    let tenant = &place.scope.tenant;
    let key = || boxed([&tenant.as_str().to_owned(), &place.scope_id]);
    let mut statement = whole_entries("NULL", "NULL");
    match entries {
        MemoryEntries::Live { filter, after, at } => {
            return list_statement(&List {
                place,
                filter,
                standing: None,
                after: after.as_ref(),
                at,
                limit,
            });
        }
        // One list for each trust: see `standing`.
        MemoryEntries::Standing { .. } => {}
        MemoryEntries::Named { id, at } => {
            statement.push("FROM entry e WHERE ", []);
            statement.push_visible(tenant, place.scope_id, at);
            statement.push(" AND e.id = ?", boxed([&id.as_str().to_owned()]));
        }
        MemoryEntries::OfSlot(slot) => {
            let replaced_by = "(SELECT r.id FROM entry r WHERE r.row_id = e.replaced_by)";
            statement = whole_entries("NULL", replaced_by);
            statement.push(
                "FROM entry e WHERE e.tenant_id = ? AND e.scope_id = ?",
                key(),
            );
            statement.push(
                " AND e.slot = ? AND e.erased_at IS NULL AND ",
                boxed([slot]),
            );
            statement.push(&visible_to_actor("e"), []);
            let newest =
                " ORDER BY coalesce(e.valid_at, e.created_at) DESC, e.created_at DESC, e.id DESC";
            statement.push(newest, []);
        }
        MemoryEntries::WithoutSignature { after } => {
            let without = "FROM entry e INDEXED BY entry_eligible WHERE NOT EXISTS (SELECT 1 FROM signature g
               WHERE g.tenant_id = e.tenant_id AND g.scope_id = e.scope_id AND g.row_id = e.row_id) AND e.row_id > ?";
            statement.push(without, boxed([&row_after(*after)]));
            statement.push(" AND e.tenant_id = ? AND e.scope_id = ?", key());
            statement.push(&format!(" AND {} ORDER BY e.row_id", eligible()), []);
        }
        MemoryEntries::AtRows(rows) => {
            let rows = serde_json::Value::from_iter(rows.iter().map(|row| row.1)).to_string();
            let wanted = "FROM (SELECT DISTINCT value AS row_id FROM json_each(?)) w CROSS JOIN entry e ON e.row_id = w.row_id";
            statement.push(wanted, boxed([&rows]));
            statement.push(" WHERE e.tenant_id = ? AND e.scope_id = ?", key());
            statement.push(&format!(" AND {} ORDER BY e.row_id", eligible()), []);
        }
    }
    statement.push(" LIMIT ?", boxed([&limit]));
    statement
}

fn tenant_statement(tenant: &TenantId, entries: &TenantEntries, limit: u32) -> StatementBuilder {
    let name = tenant.as_str().to_owned();
    let mut statement = if entries.has_texts() {
        whole_entries("s.memory_ref", "NULL")
    } else {
        StatementBuilder::new(format!("SELECT {}, ", entry::NAME))
    };
    match entries {
        // Each name is looked up by a statement of its own: see `named`.
        TenantEntries::Named { .. } => {}
        TenantEntries::NamedWithoutVector { names, model } => {
            let from = "FROM json_each(?) w CROSS JOIN scope s ON s.memory_ref = json_extract(w.value, '$[0]')
               CROSS JOIN entry e ON e.tenant_id = s.tenant_id AND e.scope_id = s.scope_id AND e.id = json_extract(w.value, '$[1]')
               WHERE s.tenant_id = ?";
            statement.push(from, boxed([&json_names(names), &name]));
            let without = " AND e.erased_at IS NULL AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.row_id = e.row_id AND v.model = ?)";
            statement.push(without, boxed([&model.0]));
        }
        // NOT INDEXED: in the order of rows, from where the last page ended. Rows from an index by
        // tenant would have to be sorted for every page.
        TenantEntries::WithoutVector { model, after } => {
            let in_order = format!("FROM entry e NOT INDEXED {OF_TENANT}");
            statement.push(&in_order, boxed([&name]));
            let without = " AND e.row_id > ? AND e.erased_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.row_id = e.row_id AND v.model = ?) ORDER BY e.row_id";
            statement.push(without, boxed([&row_after(*after), &model.0]));
        }
        // The tenant is bound by `OF_TENANT`, here and below.
        TenantEntries::ToRescan { scan, after } => {
            let in_order = format!("FROM entry e NOT INDEXED {OF_TENANT}");
            statement.push(&in_order, boxed([&name]));
            let stale =
                " AND e.row_id > ? AND e.scan <> ? AND e.erased_at IS NULL ORDER BY e.row_id";
            statement.push(stale, boxed([&row_after(*after), &scan.cast_signed()]));
        }
        // The tenant is bound by `OF_TENANT`, likewise.
        TenantEntries::Expired(at) => {
            statement.push(&format!("NULL FROM entry e {OF_TENANT}"), boxed([&name]));
            let expired = " AND e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= ? ORDER BY e.expires_at";
            statement.push(expired, boxed([&at.0]));
        }
        TenantEntries::Erasable => {
            let from = format!("NULL FROM entry e INDEXED BY entry_spent CROSS {OF_TENANT}");
            statement.push(&from, boxed([&name]));
            let removed = format!(
                " AND {REMOVED_WITH_TEXT} AND e.rev_to <= {UNPROTECTED_UNTIL} ORDER BY e.rev_to"
            );
            statement.push(&removed, []);
        }
        // The tenant is bound by `OF_TENANT`.
        TenantEntries::EndedStatements { before, after } => {
            let from = format!("e.invalid_at FROM entry e INDEXED BY entry_faded {OF_TENANT}");
            statement.push(&from, boxed([&name]));
            let (since, row) = after.unwrap_or((Timestamp(i64::MIN), RowCursor(0, i64::MIN)));
            let ended = " AND e.invalid_at IS NOT NULL AND e.erased_at IS NULL AND e.invalid_at < ?
               AND e.invalid_at >= ? AND (e.invalid_at > ? OR e.row_id > ?)";
            statement.push(ended, boxed([&before.0, &since.0, &since.0, &row.1]));
            let unused = format!(
                " AND (e.rev_to IS NULL OR (e.removed_reason = 'invalidated' AND {IN_NO_SNAPSHOT}))
               AND NOT EXISTS (SELECT 1 FROM action_link l WHERE l.tenant_id = e.tenant_id AND l.row_id = e.row_id) ORDER BY e.invalid_at, e.row_id"
            );
            statement.push(&unused, []);
        }
    }
    statement.push(" LIMIT ?", boxed([&limit]));
    statement
}

fn row_after(after: Option<RowCursor>) -> i64 {
    after.map_or(0, |row| row.1)
}

/// A page of the live entries of a memory, newest first.
struct List<'a> {
    place: &'a ResolvedScope<'a>,
    filter: &'a Filter,
    /// Only entries that stand until further notice, of this kind and trust.
    standing: Option<(Typology, Trust)>,
    after: Option<&'a ListPosition>,
    at: &'a ReadAt,
    limit: u32,
}

/// Lists a page of entries. A snapshot is read in two parts, each in the order of its own index:
/// the entries that are still current, and those that were removed since.
fn list_statement(list: &List<'_>) -> StatementBuilder {
    let mut statement = StatementBuilder::new("");
    if let ReadAt::Snapshot { .. } | ReadAt::AsOf { .. } = list.at {
        statement.push("SELECT * FROM (", []);
        push_list(&mut statement, list, VisiblePart::Current);
        statement.push(") UNION ALL SELECT * FROM (", []);
        push_list(&mut statement, list, VisiblePart::Ended);
        let order = ") ORDER BY created_at DESC, id DESC LIMIT ?";
        statement.push(order, boxed([&list.limit]));
    } else {
        push_list(&mut statement, list, VisiblePart::Current);
    }
    statement
}

fn push_list(statement: &mut StatementBuilder, list: &List<'_>, part: VisiblePart) {
    let tenant = &list.place.scope.tenant;
    let scope_id = list.place.scope_id;
    let filter = list.filter;
    statement.push(&whole_entries("NULL", "NULL").sql, []);
    if let (Some(session), VisiblePart::Current) = (&filter.session, part) {
        statement.push("FROM entry e INDEXED BY entry_session WHERE ", []);
        statement.push_visible_part(tenant, scope_id, list.at, part);
        statement.push(" AND e.session = ?", boxed([&session.as_str().to_owned()]));
        push_tags(statement, &filter.tags);
        push_standing(statement, list.standing);
        push_order_and_page(statement, list, "e");
        return;
    }
    // With a tag, walk the tag's own index in order and fetch each entry; CROSS JOIN keeps that
    // order of loops. Removed entries are few: they are read one by one, by an index that
    // SQLite would not choose without statistics.
    let order = match filter.tags.split_first() {
        _ if part == VisiblePart::Ended => {
            statement.push("FROM entry e INDEXED BY entry_ended WHERE ", []);
            statement.push_visible_part(tenant, scope_id, list.at, part);
            push_tags(statement, &filter.tags);
            "e"
        }
        None if list.standing.is_some() => {
            statement.push("FROM entry e INDEXED BY entry_standing WHERE ", []);
            statement.push_visible_part(tenant, scope_id, list.at, part);
            "e"
        }
        Some((first, rest)) => {
            statement.push("FROM entry_tag g CROSS JOIN entry e ON e.tenant_id = g.tenant_id AND e.scope_id = g.scope_id AND e.id = g.id ", []);
            let key = boxed([&tenant.as_str().to_owned(), &scope_id, first]);
            statement.push(
                "WHERE g.tenant_id = ? AND g.scope_id = ? AND g.tag = ? AND ",
                key,
            );
            statement.push_visible_part(tenant, scope_id, list.at, part);
            push_tags(statement, rest);
            "g"
        }
        None => {
            statement.push("FROM entry e WHERE ", []);
            statement.push_visible_part(tenant, scope_id, list.at, part);
            "e"
        }
    };
    push_standing(statement, list.standing);
    push_order_and_page(statement, list, order);
}

/// Adds the condition on what stands until further notice. Its values are part of the text, or the
/// partial index would not fit.
fn push_standing(statement: &mut StatementBuilder, standing: Option<(Typology, Trust)>) {
    if let Some((typology, trust)) = standing {
        statement.push(&entry::standing_condition(typology, trust), []);
    }
}

/// The conditions and the order that are the same for all ways to list.
fn push_order_and_page(statement: &mut StatementBuilder, list: &List<'_>, order: &str) {
    push_created(statement, list.filter, order);
    push_attributes(statement, list.filter);
    if let Some(after) = list.after {
        let position = boxed([&after.created_at.0, &after.id.as_str().to_owned()]);
        let condition = format!(" AND ({order}.created_at, {order}.id) < (?, ?)");
        statement.push(&condition, position);
    }
    let newest = format!(" ORDER BY {order}.created_at DESC, {order}.id DESC LIMIT ?");
    statement.push(&newest, boxed([&list.limit]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection;
    use remem_core::{ModelId, Revision, RunId};

    fn plan(statement: &StatementBuilder) -> Vec<String> {
        let db = connection::in_memory(&connection::TENANT_MIGRATIONS).expect("a database");
        let mut query = db
            .prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql))
            .expect("a statement");
        query
            .query_map(rusqlite::params_from_iter(statement.params.iter()), |row| {
                row.get(3)
            })
            .expect("a plan")
            .collect::<rusqlite::Result<_>>()
            .expect("text")
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
            let live = MemoryEntries::Live {
                filter,
                after: None,
                at: at.clone(),
            };
            let place = ResolvedScope {
                scope: &scope,
                scope_id: 1,
            };
            let plan = plan(&memory_statement(&place, &live, 20));
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

    /// A recall reads what stands in the order of its own index, and nothing else of the memory.
    #[test]
    fn standing_entries_are_read_through_their_own_index() {
        let scope = Scope::new(
            TenantId::parse("t").expect("a name"),
            MemoryRef::parse("m").expect("a name"),
        );
        for typology in [Typology::Procedural, Typology::Semantic] {
            let place = ResolvedScope {
                scope: &scope,
                scope_id: 1,
            };
            let statement = list_statement(&List {
                place: &place,
                filter: &Filter::default(),
                standing: Some((typology, Trust::Tool)),
                after: None,
                at: &ReadAt::Now(Timestamp(1)),
                limit: 64,
            });
            let plan = plan(&statement);
            let by = "INDEX entry_standing (tenant_id=? AND scope_id=? AND typology=? AND trust=?)";
            assert_eq!(plan.len(), 1, "no sorting: {plan:?}");
            assert!(
                plan[0].starts_with("SEARCH e USING") && plan[0].ends_with(by),
                "{plan:?}"
            );
        }
    }

    /// The pages of a pass come from an index, or in the order of rows, and are never sorted.
    #[test]
    fn passes_read_pages_through_their_indexes() {
        let tenant = TenantId::parse("t").expect("a name");
        let ended = TenantEntries::EndedStatements {
            before: Timestamp(9),
            after: None,
        };
        let model = ModelId(1);
        let pages = [
            (TenantEntries::Expired(Timestamp(9)), "INDEX entry_expiry"),
            (TenantEntries::Erasable, "INDEX entry_spent"),
            (ended, "INDEX entry_faded"),
            (
                TenantEntries::WithoutVector { model, after: None },
                "INTEGER PRIMARY KEY (rowid>?)",
            ),
            (
                TenantEntries::ToRescan {
                    scan: 1,
                    after: None,
                },
                "INTEGER PRIMARY KEY (rowid>?)",
            ),
        ];
        for (entries, index) in pages {
            let statement = tenant_statement(&tenant, &entries, 20);
            let plan = plan(&statement).join("\n");
            assert!(plan.contains(&format!("SEARCH e USING {index}")), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
            let has_text = statement.sql.contains("e.content");
            assert_eq!(has_text, entries.has_texts(), "{}", statement.sql);
        }
    }
}
