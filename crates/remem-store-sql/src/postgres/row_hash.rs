//! The hashes of rows in the database: their check, page by page, and the backfill of rows that
//! were written before rows had one. The functions and triggers that make them are in the
//! migrations `row_hash`.

use super::connect::PostgresTarget;
use super::error::store_error;
use super::gate::{Gate, Identity, Role, SqlCall, Transaction, TripError, sql_call};
use super::rows::get;
use super::schema::SchemaError;
use crate::row_hash::{BACKFILL_ROWS, HashedTable, POSTGRES, POSTGRES_HOST};
use remem_core::{TenantId, sabotage};
use remem_store::{DamageReport, StoreError};
use std::collections::BTreeSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// The number of rows that one statement checks.
const PAGE: i64 = 2_000;
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '5min'";

/// The progress of the backfill, reported after every page.
#[derive(Clone, Debug)]
pub struct BackfillProgress {
    /// The table in progress.
    pub table: &'static str,
    /// The number of rows that got their hash so far, in all tables.
    pub rows: u64,
}

/// The type of a column of a key.
fn key_column_type(column: &str, table: &str) -> &'static str {
    match (table, column) {
        (_, "scope_id" | "row_id" | "model" | "source_scope" | "source_row") => "bigint",
        ("idempotency", "key") | (_, "subject") => "bytea",
        (_, "one") => "boolean",
        _ => "text",
    }
}

/// The rows of a table, page by page in the order of their keys: those of a tenant, or all rows of
/// a table that belongs to no tenant.
struct KeyPages<'a> {
    hashed: &'a HashedTable,
    tenant: Option<&'a str>,
    limit: i64,
    /// The key of the last row of the previous page.
    after: Vec<String>,
}

impl<'a> KeyPages<'a> {
    fn new(hashed: &'a HashedTable, tenant: &'a str, limit: i64) -> KeyPages<'a> {
        let of_all = ["tenant", "host_secret"].contains(&hashed.table);
        KeyPages {
            hashed,
            tenant: (!of_all).then_some(tenant),
            limit,
            after: Vec::new(),
        }
    }

    /// The statement that selects the next page.
    fn sql(&self, columns: &str, only: &str) -> String {
        let HashedTable { table, key, .. } = self.hashed;
        let keys = row_columns(key);
        let (tenant_condition, first) = match self.tenant {
            Some(_) => ("tenant_id = $2", 3),
            None => ("true", 2),
        };
        let after = key.iter().enumerate();
        let after: Vec<String> = after
            .map(|(n, column)| format!("${}::text::{}", n + first, key_column_type(column, table)))
            .collect();
        let after_condition = if self.after.is_empty() {
            String::new()
        } else {
            format!("AND ({keys}) > ({})", after.join(", "))
        };
        format!(
            "SELECT {columns} FROM remem.{table} AS r WHERE {tenant_condition} {after_condition} {only} ORDER BY {keys} LIMIT $1"
        )
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.limit];
        params.extend(self.tenant.iter().map(|name| name as &(dyn ToSql + Sync)));
        params.extend(self.after.iter().map(|key| key as &(dyn ToSql + Sync)));
        params
    }

    /// Advances to the page after this one, whose rows begin with their keys. Returns whether there
    /// may be more.
    fn advance(&mut self, rows: &[Row]) -> Result<bool, StoreError> {
        match rows.last() {
            Some(last) if rows.len() as i64 == self.limit => {
                let key = (0..self.hashed.key.len()).map(|n| get(last, n));
                self.after = key.collect::<Result<_, _>>()?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

fn row_columns(key: &[&str]) -> String {
    let columns: Vec<String> = key.iter().map(|column| format!("r.{column}")).collect();
    columns.join(", ")
}

/// The columns of a key as texts, which the next page starts after.
fn cursor(hashed: &HashedTable) -> String {
    let texts: Vec<String> = hashed.key.iter().map(|c| format!("r.{c}::text")).collect();
    texts.join(", ")
}

/// Tables whose older rows have no hash yet.
const PENDING: &str = "SELECT name FROM remem.hash_fill";

fn name_set(rows: &[Row]) -> Result<BTreeSet<String>, StoreError> {
    rows.iter().map(|row| get(row, 0)).collect()
}

async fn query(
    transaction: &Transaction,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    transaction
        .run(vec![sql_call(sql, params)])
        .await
        .map(|mut answers| answers.remove(0))
        .map_err(TripError::into_store)
}

/// Compares the visible rows of a table with their hashes, and with the condition `also`. A row
/// without a hash is damaged too, unless its table is still to be backfilled. Returns the number of
/// rows.
pub(super) async fn check(
    transaction: &Transaction,
    hashed: &HashedTable,
    (tenant, also): (&str, &str),
    damages: &mut DamageReport,
) -> Result<u64, StoreError> {
    let pending = name_set(&query(transaction, PENDING, &[]).await?)?.contains(hashed.table);
    let HashedTable {
        table, row_label, ..
    } = hashed;
    let width = hashed.key.len();
    let mut pages = KeyPages::new(hashed, tenant, PAGE);
    let mut count = 0;
    loop {
        let columns = format!(
            "{}, ({row_label})::text, row_hash IS NULL, row_hash IS DISTINCT FROM
               substr(row_hash, 1, 1) || remem.{table}_hash(r, get_byte(row_hash || '\\x00'::bytea, 0)) {also}",
            cursor(hashed)
        );
        let sql = pages.sql(&columns, "");
        let rows = query(transaction, &sql, &pages.params()).await?;
        for row in &rows {
            let is_unhashed: bool = get(row, width + 1)?;
            let is_different: bool = get(row, width + 2)?;
            let missing = sabotage!(
                "a-row-without-its-hash-passes",
                is_unhashed && !pending,
                false
            );
            if sabotage!(
                "rows-are-not-held-against-hashes",
                is_different || missing,
                false
            ) {
                damages.table_mut(table).add(get(row, width)?);
            }
        }
        count += rows.len() as u64;
        if !pages.advance(&rows)? {
            return Ok(count);
        }
    }
}

impl Gate {
    /// An SQL condition that finds damage although the hash is right: in columns that are derived
    /// from others and that the hash does not cover.
    fn extra_condition(&self, hashed: &HashedTable) -> &'static str {
        match hashed.table {
            "scope" | "entry" => "OR r.owner_key IS DISTINCT FROM coalesce('=' || r.owner, '*')",
            "vector" if self.vectors => {
                "OR coalesce(r.direction::text <> '[' || (SELECT string_agg((CASE WHEN b > 127 THEN b - 256 ELSE b END)::text, ',' ORDER BY n)
                   FROM generate_series(0, length(r.bytes) - 1) n, get_byte(r.bytes, n) b) || ']', false)"
            }
            _ => "",
        }
    }

    /// Compares every row of a tenant with its hash, except the host's rows.
    pub async fn check_rows(
        &self,
        transaction: &Transaction,
        tenant: &TenantId,
        damages: &mut DamageReport,
    ) -> Result<(), StoreError> {
        for hashed in POSTGRES.iter().filter(|hashed| hashed.table != "review") {
            check(
                transaction,
                hashed,
                (tenant.as_str(), self.extra_condition(hashed)),
                damages,
            )
            .await?;
        }
        let who = Identity::as_host(tenant);
        let (reviewer_transaction, _) = self.open(BEGIN, Role::Reviewer, who, Vec::new()).await?;
        for hashed in POSTGRES.iter().filter(|hashed| hashed.table == "review") {
            check(
                &reviewer_transaction,
                hashed,
                (tenant.as_str(), ""),
                damages,
            )
            .await?;
        }
        finish(reviewer_transaction).await
    }

    /// Compares the host's own rows with their hashes: tenants, and the keys of each tenant.
    pub async fn verify_host(&self) -> Result<u64, StoreError> {
        let mut damages = DamageReport::default();
        let (transaction, _) = self
            .open(BEGIN, Role::App, Identity::host(), Vec::new())
            .await?;
        let mut count = 0;
        for hashed in POSTGRES_HOST
            .iter()
            .filter(|h| ["tenant", "host_secret"].contains(&h.table))
        {
            count += check(&transaction, hashed, ("", ""), &mut damages).await?;
        }
        let tenants =
            name_set(&query(&transaction, "SELECT tenant_id FROM remem.tenant", &[]).await?)?;
        finish(transaction).await?;
        // A malformed name is damage that was found above.
        for tenant in tenants.iter().filter_map(|name| TenantId::parse(name)) {
            let who = Identity::tenant(&tenant);
            let (transaction, _) = self.open(BEGIN, Role::App, who, Vec::new()).await?;
            for hashed in POSTGRES_HOST
                .iter()
                .filter(|h| ["api_key", "upkeep"].contains(&h.table))
            {
                count += check(&transaction, hashed, (tenant.as_str(), ""), &mut damages).await?;
            }
            finish(transaction).await?;
        }
        if damages.0.is_empty() {
            Ok(count)
        } else {
            Err(StoreError::DamagedRows(damages))
        }
    }

    /// The number of a tenant's rows that have no hash yet.
    pub async fn unhashed(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        let who = Identity::as_host(tenant);
        let (transaction, _) = self.open(BEGIN, Role::Worker, who, Vec::new()).await?;
        let pending = name_set(&query(&transaction, PENDING, &[]).await?)?;
        let mut count = 0;
        for hashed in POSTGRES
            .iter()
            .filter(|h| h.table != "review" && pending.contains(h.table))
        {
            let sql = format!(
                "SELECT count(*) FROM remem.{} WHERE tenant_id = $1 AND row_hash IS NULL",
                hashed.table
            );
            let rows = query(&transaction, &sql, &[&tenant.as_str()]).await?;
            let unhashed: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
            count += unhashed.cast_unsigned();
        }
        finish(transaction).await?;
        Ok(count)
    }
}

async fn finish(transaction: Transaction) -> Result<(), StoreError> {
    transaction
        .commit(Vec::<SqlCall<'_>>::new())
        .await
        .map(|_| ())
        .map_err(TripError::into_store)
}

/// Hashes the rows that were written before rows had a hash, as the owner of the tables, with a
/// transaction for each page: after an interruption another run continues where it was. Returns how
/// many rows got their hash.
pub async fn backfill_hashes(
    target: &PostgresTarget,
    progress: &mut (dyn FnMut(&BackfillProgress) + Send),
) -> Result<u64, SchemaError> {
    let (client, driver) = target.connect().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while its statements wait for it"
    )]
    let driver_task = tokio::spawn(driver);
    let done = backfill_all(&client, progress).await;
    drop(client);
    let _ = driver_task.await; // its errors have reached the statements
    Ok(done?)
}

async fn backfill_all(
    client: &Client,
    progress: &mut (dyn FnMut(&BackfillProgress) + Send),
) -> Result<u64, StoreError> {
    // The policies apply to the owner too, so it acts as one tenant after the other.
    client
        .batch_execute(
            "DO $$ BEGIN EXECUTE format('SET ROLE %I', current_database() || '_owner'); END $$",
        )
        .await
        .map_err(store_error)?;
    let pending = name_set(&client.query(PENDING, &[]).await.map_err(store_error)?)?;
    let tenants = "SELECT tenant_id FROM remem.tenant ORDER BY tenant_id";
    let tenants = name_set(&client.query(tenants, &[]).await.map_err(store_error)?)?;
    let mut rows = 0;
    for hashed in POSTGRES_HOST.iter().chain(&POSTGRES) {
        if !pending.contains(hashed.table) {
            continue;
        }
        // A malformed name is damage, and stays without a hash: the check reports it.
        for tenant in tenants.iter().filter_map(|name| TenantId::parse(name)) {
            let mut pages = KeyPages::new(hashed, tenant.as_str(), i64::from(BACKFILL_ROWS));
            loop {
                let page = backfill_page(client, &pages, &tenant).await?;
                rows += page.len() as u64;
                progress(&BackfillProgress {
                    table: hashed.table,
                    rows,
                });
                if !pages.advance(&page)? {
                    break;
                }
            }
        }
        let done = "DELETE FROM remem.hash_fill WHERE name = $1";
        client
            .execute(done, &[&hashed.table])
            .await
            .map_err(store_error)?;
    }
    Ok(rows)
}

/// Hashes one page of a tenant's rows that have no hash: the trigger computes them.
async fn backfill_page(
    client: &Client,
    pages: &KeyPages<'_>,
    tenant: &TenantId,
) -> Result<Vec<Row>, StoreError> {
    let HashedTable { table, key, .. } = pages.hashed;
    let same: Vec<String> = key.iter().map(|c| format!("t.{c} = r.{c}")).collect();
    let sql = format!(
        "WITH r AS ({}), made AS (UPDATE remem.{table} t SET row_hash = NULL FROM r WHERE {})
         SELECT {} FROM r ORDER BY {}",
        pages.sql(&row_columns(key), "AND row_hash IS NULL"),
        same.join(" AND "),
        cursor(pages.hashed),
        row_columns(key),
    );
    // The order of the keys is that of an index; a sort would read all rows that are left.
    let begin = "BEGIN; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off";
    let begin = Identity::as_host(tenant).begin(begin);
    client.batch_execute(&begin).await.map_err(store_error)?;
    let rows = client
        .query(&sql, &pages.params())
        .await
        .map_err(store_error)?;
    client.batch_execute("COMMIT").await.map_err(store_error)?;
    Ok(rows)
}
