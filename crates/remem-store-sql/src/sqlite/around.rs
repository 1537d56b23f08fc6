//! The neighbours of entries in the order of `list`.

use super::connection::store_error;
use super::rows::{StatementBuilder, VisiblePart, boxed, read_entry, scope_id};
use crate::rows::entry;
use remem_core::sabotage;
use remem_core::{Entry, EntryId, Scope};
use remem_store::{Neighbours, ReadAt, StoreError};
use rusqlite::Connection;
use rusqlite::types::ToSql;
use std::collections::HashMap;

/// The number of entries that one statement finds the neighbours of, and of rows that one reads.
const CHUNK: usize = 32;

/// The entries before and after each of these, up to `reach` on each side, in the order of `list`.
/// In a snapshot only entries that are still current count as neighbours.
pub(super) fn around(
    db: &Connection,
    scope: &Scope,
    ids: &[EntryId],
    reach: u32,
    at: &ReadAt,
) -> Result<Vec<Neighbours>, StoreError> {
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let mut neighbours = Vec::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        neighbours
            .extend(chunk_neighbours(db, scope, scope_id, ids, reach, at).map_err(store_error)?);
    }
    Ok(neighbours)
}

/// The neighbours of a chunk of entries, in two statements however many there are: one finds the
/// rows beside each entry, one reads those rows.
fn chunk_neighbours(
    db: &Connection,
    scope: &Scope,
    scope_id: i64,
    ids: &[EntryId],
    reach: u32,
    at: &ReadAt,
) -> rusqlite::Result<Vec<Neighbours>> {
    let statement = neighbour_rows_statement(scope, scope_id, ids, reach, at);
    let rows = |text: Option<String>| -> Vec<i64> {
        text.iter()
            .flat_map(|text| text.split(','))
            .filter_map(|row| row.parse().ok())
            .collect()
    };
    let sides = statement.query(db, |row| {
        Ok((
            row.get::<_, String>(0)?,
            (rows(row.get(1)?), rows(row.get(2)?)),
        ))
    })?;
    let sides: HashMap<String, (Vec<i64>, Vec<i64>)> = sides.into_iter().collect();
    let mut beside: Vec<i64> = sides
        .values()
        .flat_map(|(before, after)| before.iter().chain(after))
        .copied()
        .collect();
    beside.sort_unstable();
    beside.dedup();
    let mut entries = HashMap::with_capacity(beside.len());
    for rows in beside.chunks(CHUNK) {
        entries.extend(entries_of_rows(db, scope, scope_id, rows, at)?);
    }
    let shown = |rows: &[i64]| {
        let mut side: Vec<Entry> = rows
            .iter()
            .filter_map(|row| entries.get(row).cloned())
            .collect();
        side.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        side
    };
    let neighbours_of = |id: &EntryId| {
        let (before, after) = sides.get(id.as_str())?;
        Some(Neighbours {
            id: id.clone(),
            before: shown(before).into_iter().rev().collect(),
            after: shown(after),
        })
    };
    Ok(ids.iter().filter_map(neighbours_of).collect())
}

/// The statement that finds the rows beside each entry.
fn neighbour_rows_statement(
    scope: &Scope,
    scope_id: i64,
    ids: &[EntryId],
    reach: u32,
    at: &ReadAt,
) -> StatementBuilder {
    let mut statement = StatementBuilder::new("SELECT o.id");
    for (sign, order) in [("<", "DESC"), (">", "ASC")] {
        statement.push(", (SELECT group_concat(row_id) FROM (SELECT e.row_id FROM entry e INDEXED BY entry_list WHERE ", []);
        statement.push_visible_part(&scope.tenant, scope_id, at, VisiblePart::Current);
        // Without the signs `+` SQLite searches the index by time alone: it would read all entries
        // of one import, which have the same time.
        statement.push(
            &sabotage!(
                "neighbours-are-looked-for-by-time-alone",
                format!(" AND (e.created_at, e.id) {sign} (+o.created_at, +o.id)"),
                format!(" AND (e.created_at, e.id) {sign} (o.created_at,o.id)")
            ),
            [],
        );
        statement.push(
            &format!(" ORDER BY e.created_at {order}, e.id {order} LIMIT ?))"),
            boxed([&reach]),
        );
    }
    let padded = ids
        .iter()
        .map(EntryId::as_str)
        .chain(std::iter::repeat(""))
        .take(CHUNK);
    statement.push(" FROM (SELECT e.id, e.created_at FROM entry e WHERE ", []);
    statement.push_visible(&scope.tenant, scope_id, at);
    let placeholders = ["?"; CHUNK].join(", ");
    statement.push(
        &format!(" AND e.id IN ({placeholders})) o"),
        padded.map(|id| Box::new(id.to_owned()) as Box<dyn ToSql>),
    );
    statement
}

/// Reads the current entries of these rows.
fn entries_of_rows(
    db: &Connection,
    scope: &Scope,
    scope_id: i64,
    rows: &[i64],
    at: &ReadAt,
) -> rusqlite::Result<Vec<(i64, Entry)>> {
    let placeholders = ["?"; CHUNK].join(", ");
    let padded = rows
        .iter()
        .copied()
        .chain(std::iter::repeat(-1))
        .take(CHUNK);
    let mut statement = StatementBuilder::new(format!(
        "SELECT {}, e.row_id FROM entry e NOT INDEXED WHERE e.row_id IN ({placeholders}) AND ",
        *entry::WITH_TEXT
    ));
    statement
        .params
        .extend(padded.map(|row| Box::new(row) as Box<dyn ToSql>));
    statement.push_visible_part(&scope.tenant, scope_id, at, VisiblePart::Current);
    statement.query(db, |row| {
        Ok((row.get(entry::WIDTH)?, read_entry(row, &scope.memory_ref)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection::{TENANT_MIGRATIONS, in_memory};
    use remem_core::{MemoryRef, TenantId, Timestamp};

    fn plan(db: &Connection, statement: &StatementBuilder) -> Vec<String> {
        let mut explained = db
            .prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql))
            .unwrap();
        let lines = explained
            .query_map(rusqlite::params_from_iter(statement.params.iter()), |row| {
                row.get(3)
            })
            .unwrap();
        lines.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn neighbours_are_read_from_the_list_index() {
        let db = in_memory(&TENANT_MIGRATIONS).unwrap();
        let scope = Scope::new(
            TenantId::parse("t").unwrap(),
            MemoryRef::parse("m").unwrap(),
        );
        let ids = [EntryId::parse("a").unwrap()];
        let plan = plan(
            &db,
            &neighbour_rows_statement(&scope, 1, &ids, 1, &ReadAt::Now(Timestamp(5))),
        );
        for side in ["(created_at,id)<(?,?)", "(created_at,id)>(?,?)"] {
            let line =
                format!("SEARCH e USING INDEX entry_list (tenant_id=? AND scope_id=? AND {side})");
            assert!(plan.contains(&line), "{plan:#?}");
        }
        assert!(
            !plan
                .iter()
                .any(|line| line.contains("TEMP B-TREE") || line.starts_with("SCAN e")),
            "{plan:#?}"
        );
    }
}
