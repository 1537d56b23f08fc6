//! Writes a page of copied entries to the embedded store: loads those that are there, lets the
//! ledger say what becomes of them, and saves that. Runs inside the transaction of the page.

use super::connection::store_error;
use super::load::{entry_rows, load_clock, load_links};
use super::save::save;
use crate::rows::entry;
use remem_core::ledger::{self, EntryRow, MemoryRow, RowKey, RowNumbers, Working};
use remem_core::{MemoryRef, TenantId};
use remem_store::StoreError;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

pub(crate) fn put_entries(
    db: &Connection,
    tenant: &TenantId,
    page: Vec<(RowKey, EntryRow)>,
) -> Result<(), StoreError> {
    let mut working = load_target(db, tenant, &page)?;
    ledger::copy_entries(page, &mut working);
    // The clock is copied last.
    save(db, tenant, working.into_effects(), true).map_err(store_error)
}

fn load_target(
    db: &Connection,
    tenant: &TenantId,
    page: &[(RowKey, EntryRow)],
) -> Result<Working, StoreError> {
    let name = tenant.as_str();
    let last = "SELECT coalesce(max(row_id), 0) + 1 FROM entry";
    let next_row = db
        .query_row(last, [], |row| row.get(0))
        .map_err(store_error)?;
    let clock = load_clock(db, tenant)?;
    let mut working = Working::new(clock, RowNumbers::ByTenant(next_row));
    let sql = "SELECT memory_ref FROM scope WHERE tenant_id = ?1 AND scope_id = ?2";
    for scope in page
        .iter()
        .map(|(key, _)| key.scope)
        .collect::<BTreeSet<i64>>()
    {
        let memory_ref: String = db
            .prepare_cached(sql)
            .and_then(|mut query| query.query_row(params![name, scope], |row| row.get(0)))
            .map_err(store_error)?;
        let malformed = StoreError::Damaged("a name is malformed");
        let memory_ref = MemoryRef::parse(&memory_ref).ok_or(malformed)?;
        let memory = MemoryRow { scope, next_row: 0 };
        working.memories.load(memory_ref, memory);
    }
    let sql = format!(
        "SELECT {} FROM entry e WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.id = ?3",
        entry::select_list("e", "true")
    );
    for (source, row) in page {
        let values = params![name, source.scope, row.id.as_str()];
        for (key, stored) in entry_rows(db, &sql, values)? {
            for (link, row) in load_links(db, tenant, key)? {
                working.links.load(link, row);
            }
            working.load_row(key, stored);
        }
    }
    Ok(working)
}
