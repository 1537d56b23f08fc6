//! Writes pages of copied rows (see `crate::copy`). A page of entries is one transaction that loads
//! those that are there, lets the ledger say what becomes of them, and saves that by the statements
//! of a commit. Two copies that run at once lock each other out, page by page.

use super::arrays::ArrayCall;
use super::gate::{Gate, Identity, Role, SqlCall, TripError, sql_call};
use super::load::{NO_CHAIN, PostgresRow, START_CLOCK, read_link};
use super::rows::get;
use super::save::Saving;
use crate::copy::table::{CopiedRow, CopiedTable};
use crate::rows::{ColumnType, Value, entry};
use crate::stored::content_hash;
use remem_core::ledger::{self, EntryRow, MemoryRow, RowKey, RowNumbers, TenantClock, Working};
use remem_core::{MemoryRef, TenantId};
use remem_store::StoreError;
use std::sync::LazyLock;
use tokio_postgres::types::ToSql;

/// Plans are made for each execution, because tables that are being filled outgrow cached ones;
/// large pages may need long.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '5min'; SET LOCAL idle_in_transaction_session_timeout = '5min';
     SET LOCAL lock_timeout = '5min'; SET LOCAL plan_cache_mode = force_custom_plan";
const LOCK_COPY: &str = "SELECT pg_advisory_xact_lock(hashtextextended('remem copy ' || $1, 0))";
const MEMORIES: &str = "SELECT memory_ref, scope_id, next_row FROM remem.scope WHERE tenant_id = $1 AND scope_id = ANY($2)";
static ENTRIES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM unnest($2::bigint[], $3::bytea[]) AS w (scope_id, id_hash)
         JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash",
        entry::select_list("e", "true")
    )
});
const LINKS: &str = "SELECT l.scope_id, l.row_id, l.action, l.reference FROM unnest($2::bigint[], $3::bytea[]) AS w (scope_id, id_hash)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     JOIN remem.action_link l ON l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id";

/// Copies a page of entries.
pub(crate) async fn put_entries(
    gate: &Gate,
    tenant: &TenantId,
    page: Vec<(RowKey, EntryRow)>,
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let hash = |row: &EntryRow| content_hash(row.id.as_str().as_bytes()).to_vec();
    let scopes: Vec<i64> = page.iter().map(|(key, _)| key.scope).collect();
    let hashes: Vec<Vec<u8>> = page.iter().map(|(_, row)| hash(row)).collect();
    let calls = vec![
        sql_call(LOCK_COPY, &[&name]),
        sql_call(MEMORIES, &[&name, &scopes]),
        sql_call(&ENTRIES, &[&name, &scopes, &hashes]),
        sql_call(LINKS, &[&name, &scopes, &hashes]),
        sql_call(START_CLOCK, &[&name, &NO_CHAIN]),
    ];
    let (transaction, results) = gate
        .open(BEGIN, Role::App, Identity::as_host(tenant), calls)
        .await?;
    // The clock is copied last; until then it stands where it starts.
    let mut working = Working::new(TenantClock::default(), RowNumbers::ByMemory);
    for row in &results[1] {
        let malformed = StoreError::Damaged("a name is malformed");
        let memory_ref = MemoryRef::parse(get(row, 0)?).ok_or(malformed)?;
        let memory = MemoryRow {
            scope: get(row, 1)?,
            next_row: get(row, 2)?,
        };
        working.memories.load(memory_ref, memory);
    }
    for row in &results[2] {
        let (key, row) = entry::read_row(&mut PostgresRow::new(row))?;
        working.load_row(key, row);
    }
    for row in &results[3] {
        let (key, link) = read_link(row)?;
        working.links.load(key, link);
    }
    ledger::copy_entries(page, &mut working);
    let saving = Saving::of(working.into_effects(), true);
    let arrays = saving.arrays();
    let committed = transaction.commit(saving.calls(&name, &arrays)).await;
    committed.map_err(TripError::into_store).map(|_| ())
}

/// Copies a page of rows of a table.
pub(crate) async fn put_page(
    gate: &Gate,
    tenant: &TenantId,
    table: &CopiedTable,
    mut page: Vec<CopiedRow>,
) -> Result<(), StoreError> {
    for row in &mut page {
        let values = row.values.iter_mut().zip(&table.columns);
        for (value, _) in values.filter(|(_, column)| column.is_entry()) {
            if let Value::Text(id) = value {
                let hash = id.as_ref().map(|id| content_hash(id.as_bytes()).to_vec());
                *value = Value::Bytes(hash.map(Into::into));
            }
        }
    }
    let kinds: Vec<ColumnType> = table
        .columns
        .iter()
        .map(|column| {
            if column.is_entry() {
                ColumnType::Bytes
            } else {
                column.kind()
            }
        })
        .collect();
    let sql = table.put_page_sql();
    let rows = page.iter().map(|row| row.values.as_slice());
    let arrays = ArrayCall::of_values(&sql, &kinds, rows);
    let name = tenant.as_str();
    insert_as_host(gate, tenant, vec![arrays.call(&name)]).await
}

/// Runs statements of which some insert rows, which take the tenant from its clock: a new tenant
/// gets one, which stands where it starts until the copy is complete.
pub(crate) async fn insert_as_host(
    gate: &Gate,
    tenant: &TenantId,
    calls: Vec<SqlCall<'_>>,
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let mut all = vec![sql_call(START_CLOCK, &[&name, &NO_CHAIN])];
    all.extend(calls);
    gate.write(Role::App, Identity::as_host(tenant), all)
        .await
        .map(|_| ())
}

/// A value as a parameter.
pub(crate) fn as_param<'a>(value: &'a Value<'_>) -> Box<dyn ToSql + Sync + Send + 'a> {
    match value {
        Value::Number(number) => Box::new(*number),
        Value::Text(text) => Box::new(text.as_deref()),
        Value::Bytes(bytes) => Box::new(bytes.as_deref()),
    }
}
