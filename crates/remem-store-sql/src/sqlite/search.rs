//! Lexical search: the tenant's own FTS5 index, entered through the memory's key.

use super::connection::failed;
use super::read::{push_cell, push_created, push_tags};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, Statement, boxed, entry, scope_id};
use remem_core::Scope;
use remem_store::{Candidate, Filter, Probe, ReadAt, StoreError};
use rusqlite::Connection;

pub(super) fn candidates(
    db: &Connection,
    scope: &Scope,
    probe: &Probe,
    filter: &Filter,
    limit: u32,
    at: &ReadAt,
) -> Result<Vec<Candidate>, StoreError> {
    let Probe::Lexical { terms } = probe;
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(failed)? else { return Ok(Vec::new()) };
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = Statement::new(format!(
        "SELECT {ENTRY_COLUMNS}, bm25(entry_fts, 0.0, 1.0) AS badness FROM entry_fts JOIN entry e ON e.row_id = entry_fts.rowid
         WHERE entry_fts MATCH ? AND "
    ));
    statement.params.extend(boxed([&expression(scope_id, terms)]));
    statement.push_live(&scope.tenant, scope_id, at);
    push_tags(&mut statement, &filter.tags);
    push_created(&mut statement, filter, "e");
    push_cell(&mut statement, filter);
    statement.push(" ORDER BY badness, e.created_at DESC, e.id DESC LIMIT ?", boxed([&limit]));
    statement
        .query(db, |row| Ok(Candidate { entry: entry(row, &scope.memory_ref)?, score: -row.get::<_, f64>(ENTRY_WIDTH)? }))
        .map_err(failed)
}

/// Every term is a quoted string: nothing that a caller types is syntax.
fn expression(scope_id: i64, terms: &[String]) -> String {
    let quoted: Vec<String> = terms.iter().map(|term| format!("\"{}\"", term.replace(['"', '\0'], " "))).collect();
    format!("scope_key : \"s{scope_id}\" AND content : ({})", quoted.join(" OR "))
}
