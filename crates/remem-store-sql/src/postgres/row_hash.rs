//! The hashes of rows in the database: their check, page by page, and the filling of those that
//! were written before rows had one. The functions and triggers that make them are in the steps
//! `row_hash`.

use super::connect::Target;
use super::error::failed;
use super::gate::{Call, Failed, Gate, Identity, Role, Transaction, call};
use super::rows::get;
use super::schema::SchemaError;
use crate::row_hash::{FILL_ROWS, Hashed, POSTGRES, POSTGRES_HOST};
use remem_core::{TenantId, sabotage};
use remem_store::{Damages, StoreError};
use std::collections::BTreeSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// Rows that are looked at by one statement.
const PAGE: i64 = 2_000;
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '5min'";

/// How far the filling is; told after every page.
#[derive(Clone, Debug)]
pub struct Filling {
    /// The table.
    pub table: &'static str,
    /// Rows that got their hash so far, of all tables.
    pub rows: u64,
}

/// The type that a column of a key has.
fn type_of(column: &str, table: &str) -> &'static str {
    match (table, column) {
        (_, "scope_id" | "row_id" | "model" | "source_scope" | "source_row") => "bigint",
        ("idempotency", "key") | (_, "subject") => "bytea",
        (_, "one") => "boolean",
        _ => "text",
    }
}

/// Rows of a table, page by page in the order of their keys: those of a tenant, or all of a table
/// that no tenant has rows in.
struct Pages<'a> {
    hashed: &'a Hashed,
    tenant: Option<&'a str>,
    limit: i64,
    /// The key of the last row of the page before.
    after: Vec<String>,
}

impl<'a> Pages<'a> {
    fn new(hashed: &'a Hashed, tenant: &'a str, limit: i64) -> Pages<'a> {
        let of_all = ["tenant", "host_secret"].contains(&hashed.table);
        Pages {
            hashed,
            tenant: (!of_all).then_some(tenant),
            limit,
            after: Vec::new(),
        }
    }

    /// Selects the next page.
    fn sql(&self, columns: &str, only: &str) -> String {
        let Hashed { table, key, .. } = self.hashed;
        let keys = of_row(key);
        let (whose, first) = match self.tenant {
            Some(_) => ("tenant_id = $2", 3),
            None => ("true", 2),
        };
        let after = key.iter().enumerate();
        let after: Vec<String> = after
            .map(|(n, column)| format!("${}::text::{}", n + first, type_of(column, table)))
            .collect();
        let past = if self.after.is_empty() {
            String::new()
        } else {
            format!("AND ({keys}) > ({})", after.join(", "))
        };
        format!(
            "SELECT {columns} FROM remem.{table} AS r WHERE {whose} {past} {only} ORDER BY {keys} LIMIT $1"
        )
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.limit];
        params.extend(self.tenant.iter().map(|name| name as &(dyn ToSql + Sync)));
        params.extend(self.after.iter().map(|key| key as &(dyn ToSql + Sync)));
        params
    }

    /// Goes on after this page, whose rows begin with their keys. Answers whether there may be
    /// more.
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

fn of_row(key: &[&str]) -> String {
    let columns: Vec<String> = key.iter().map(|column| format!("r.{column}")).collect();
    columns.join(", ")
}

/// The columns of a key as texts, to go on from.
fn cursor(hashed: &Hashed) -> String {
    let texts: Vec<String> = hashed.key.iter().map(|c| format!("r.{c}::text")).collect();
    texts.join(", ")
}

/// Tables whose older rows have no hash yet.
const PENDING: &str = "SELECT name FROM remem.hash_fill";

fn names(rows: &[Row]) -> Result<BTreeSet<String>, StoreError> {
    rows.iter().map(|row| get(row, 0)).collect()
}

async fn read(
    transaction: &Transaction,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    transaction
        .run(vec![call(sql, params)])
        .await
        .map(|mut answers| answers.remove(0))
        .map_err(Failed::into_store)
}

/// Holds the rows of a table that are in sight against their hashes, and by `also`. A row without one is
/// damaged too, unless its table is still to be filled. Answers how many rows there are.
pub(super) async fn check(
    transaction: &Transaction,
    hashed: &Hashed,
    (tenant, also): (&str, &str),
    damages: &mut Damages,
) -> Result<u64, StoreError> {
    let pending = names(&read(transaction, PENDING, &[]).await?)?.contains(hashed.table);
    let Hashed { table, told, .. } = hashed;
    let width = hashed.key.len();
    let mut pages = Pages::new(hashed, tenant, PAGE);
    let mut count = 0;
    loop {
        let columns = format!(
            "{}, ({told})::text, row_hash IS NULL, row_hash IS DISTINCT FROM
               substr(row_hash, 1, 1) || remem.{table}_hash(r, get_byte(row_hash || '\\x00'::bytea, 0)) {also}",
            cursor(hashed)
        );
        let sql = pages.sql(&columns, "");
        let rows = read(transaction, &sql, &pages.params()).await?;
        for row in &rows {
            let waiting: bool = get(row, width + 1)?;
            let other: bool = get(row, width + 2)?;
            let missing = sabotage!("a-row-without-its-hash-passes", waiting && !pending, false);
            if sabotage!("rows-are-not-held-against-hashes", other || missing, false) {
                damages.of(table).add(get(row, width)?);
            }
        }
        count += rows.len() as u64;
        if !pages.advance(&rows)? {
            return Ok(count);
        }
    }
}

impl Gate {
    /// What is wrong with a row although its hash is right: columns that are made from others, and
    /// no part of it.
    fn also(&self, hashed: &Hashed) -> &'static str {
        match hashed.table {
            "scope" | "entry" => "OR r.owner_key IS DISTINCT FROM coalesce('=' || r.owner, '*')",
            "vector" if self.vectors => {
                "OR coalesce(r.direction::text <> '[' || (SELECT string_agg((CASE WHEN b > 127 THEN b - 256 ELSE b END)::text, ',' ORDER BY n)
                   FROM generate_series(0, length(r.bytes) - 1) n, get_byte(r.bytes, n) b) || ']', false)"
            }
            _ => "",
        }
    }

    /// Holds every row of a tenant but those of the host against its hash.
    pub async fn check_rows(
        &self,
        transaction: &Transaction,
        tenant: &TenantId,
        damages: &mut Damages,
    ) -> Result<(), StoreError> {
        for hashed in POSTGRES.iter().filter(|hashed| hashed.table != "review") {
            check(
                transaction,
                hashed,
                (tenant.as_str(), self.also(hashed)),
                damages,
            )
            .await?;
        }
        let who = Identity::keeper(tenant);
        let (reviewing, _) = self.open(BEGIN, Role::Reviewer, who, Vec::new()).await?;
        for hashed in POSTGRES.iter().filter(|hashed| hashed.table == "review") {
            check(&reviewing, hashed, (tenant.as_str(), ""), damages).await?;
        }
        ended(reviewing).await
    }

    /// Holds the host's own rows against their hashes: tenants, and tenant by tenant its keys.
    pub async fn verify_host(&self) -> Result<u64, StoreError> {
        let mut damages = Damages::default();
        let (own, _) = self
            .open(BEGIN, Role::App, Identity::host(), Vec::new())
            .await?;
        let mut count = 0;
        for hashed in POSTGRES_HOST
            .iter()
            .filter(|h| ["tenant", "host_secret"].contains(&h.table))
        {
            count += check(&own, hashed, ("", ""), &mut damages).await?;
        }
        let tenants = names(&read(&own, "SELECT tenant_id FROM remem.tenant", &[]).await?)?;
        ended(own).await?;
        // A name that is none is damaged and was found above.
        for tenant in tenants.iter().filter_map(|name| TenantId::parse(name)) {
            let who = Identity::tenant(&tenant);
            let (own, _) = self.open(BEGIN, Role::App, who, Vec::new()).await?;
            for hashed in POSTGRES_HOST
                .iter()
                .filter(|h| ["api_key", "upkeep"].contains(&h.table))
            {
                count += check(&own, hashed, (tenant.as_str(), ""), &mut damages).await?;
            }
            ended(own).await?;
        }
        if damages.0.is_empty() {
            Ok(count)
        } else {
            Err(StoreError::DamagedRows(damages))
        }
    }

    /// How many of a tenant's rows have no hash yet.
    pub async fn unhashed(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        let who = Identity::keeper(tenant);
        let (transaction, _) = self.open(BEGIN, Role::Worker, who, Vec::new()).await?;
        let pending = names(&read(&transaction, PENDING, &[]).await?)?;
        let mut count = 0;
        for hashed in POSTGRES
            .iter()
            .filter(|h| h.table != "review" && pending.contains(h.table))
        {
            let sql = format!(
                "SELECT count(*) FROM remem.{} WHERE tenant_id = $1 AND row_hash IS NULL",
                hashed.table
            );
            let rows = read(&transaction, &sql, &[&tenant.as_str()]).await?;
            let found: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
            count += found.cast_unsigned();
        }
        ended(transaction).await?;
        Ok(count)
    }
}

async fn ended(transaction: Transaction) -> Result<(), StoreError> {
    transaction
        .commit(Vec::<Call<'_>>::new())
        .await
        .map(|_| ())
        .map_err(Failed::into_store)
}

/// Makes the hashes of rows that were written before rows had one, as the owner of the tables, a
/// page a transaction: what is killed goes on where it was when it is run again. Answers how many
/// rows got theirs.
pub async fn fill_hashes(
    target: &Target,
    progress: &mut (dyn FnMut(&Filling) + Send),
) -> Result<u64, SchemaError> {
    let (client, driver) = target.connect().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while its statements wait for it"
    )]
    let driving = tokio::spawn(driver);
    let done = fill_all(&client, progress).await;
    drop(client);
    let _ = driving.await; // its errors have reached the statements
    Ok(done?)
}

async fn fill_all(
    client: &Client,
    progress: &mut (dyn FnMut(&Filling) + Send),
) -> Result<u64, StoreError> {
    // The owner, whom the walls hold too: it acts as one tenant after the other.
    client
        .batch_execute(
            "DO $$ BEGIN EXECUTE format('SET ROLE %I', current_database() || '_owner'); END $$",
        )
        .await
        .map_err(failed)?;
    let pending = names(&client.query(PENDING, &[]).await.map_err(failed)?)?;
    let tenants = "SELECT tenant_id FROM remem.tenant ORDER BY tenant_id";
    let tenants = names(&client.query(tenants, &[]).await.map_err(failed)?)?;
    let mut rows = 0;
    for hashed in POSTGRES_HOST.iter().chain(&POSTGRES) {
        if !pending.contains(hashed.table) {
            continue;
        }
        for tenant in &tenants {
            let mut pages = Pages::new(hashed, tenant, i64::from(FILL_ROWS));
            loop {
                let page = fill_page(client, &pages, tenant).await?;
                rows += page.len() as u64;
                progress(&Filling {
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
            .map_err(failed)?;
    }
    Ok(rows)
}

/// One page of a tenant's rows that have no hash: the trigger makes it.
async fn fill_page(
    client: &Client,
    pages: &Pages<'_>,
    tenant: &str,
) -> Result<Vec<Row>, StoreError> {
    let Hashed { table, key, .. } = pages.hashed;
    let same: Vec<String> = key.iter().map(|c| format!("t.{c} = r.{c}")).collect();
    let sql = format!(
        "WITH r AS ({}), made AS (UPDATE remem.{table} t SET row_hash = NULL FROM r WHERE {})
         SELECT {} FROM r ORDER BY {}",
        pages.sql(&of_row(key), "AND row_hash IS NULL"),
        same.join(" AND "),
        cursor(pages.hashed),
        of_row(key),
    );
    let identity =
        "SELECT set_config('app.tenant_id', $1, true), set_config('app.user_id', '*', true)";
    // The order of the keys is that of an index; a sort would read all rows that are left.
    let begin = "BEGIN; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off";
    client.batch_execute(begin).await.map_err(failed)?;
    client.query(identity, &[&tenant]).await.map_err(failed)?;
    let rows = client.query(&sql, &pages.params()).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(rows)
}
