//! PostgreSQL as source and target of a copy, through the gate like everything else: reads in one
//! transaction at one instant, writes page by page as the application, with the tenant's identity.
//!
//! Pages are written by `crate::postgres::copy`, next to the statements of a commit that it uses as
//! well.

use super::digest::{ClockRow, CopiedEntry, PAGE_BYTES};
use super::error::{CopyEnd, CopyError};
use super::side::{CopySide, HostSecret, TenantReader};
use super::table::{CopiedRow, CopiedTable, PAGE_ROWS, TABLES};
use crate::postgres::copy::{as_param, insert_as_host, put_entries, put_page};
use crate::postgres::gate::{Identity, Role, Transaction, TripError, sql_call};
use crate::postgres::load::PostgresRow;
use crate::postgres::rows::get;
use crate::postgres::{PostgresDirectory, PostgresOptions, PostgresStore};
use crate::rows::statement::Dialect;
use crate::rows::{Value, entry};
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, StoreError, Upkeep};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// One instant for as long as the other end needs.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '5min';
     SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL plan_cache_mode = force_custom_plan";

/// A database that holds a host.
pub(super) struct DatabaseSide {
    store: PostgresStore,
    directory: PostgresDirectory,
    /// The host's secret, if it is stored outside the database.
    secret: Option<HostSecret>,
}

pub(super) async fn open(
    options: PostgresOptions,
    secret: Option<HostSecret>,
    end: CopyEnd,
) -> Result<DatabaseSide, CopyError> {
    let store = PostgresStore::open(options)
        .await
        .map_err(|error| CopyError::Database(end, Box::new(error)))?;
    Ok(DatabaseSide {
        directory: store.directory(),
        store,
        secret,
    })
}

/// A reader of one tenant, in one transaction.
pub(super) struct PostgresReader {
    transaction: Transaction,
    tenant: TenantId,
}

impl PostgresReader {
    /// Runs a query whose parameter `$1` is the tenant.
    async fn rows(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let name = self.tenant.as_str();
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&name];
        all.extend(params);
        let mut results = self
            .transaction
            .run(vec![sql_call(sql, &all)])
            .await
            .map_err(TripError::into_store)?;
        Ok(results.pop().unwrap_or_default())
    }
}

const LIMIT: i64 = PAGE_ROWS as i64;

#[async_trait]
impl TenantReader for PostgresReader {
    async fn clock(&self) -> Result<ClockRow, StoreError> {
        let rows = self
            .rows(
                "SELECT revision, seq, at, chain FROM remem.tenant_clock WHERE tenant_id = $1",
                &[],
            )
            .await?;
        Ok(rows
            .first()
            .map(read_clock)
            .transpose()?
            .unwrap_or_default())
    }

    async fn last_event(&self) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let rows = self
            .rows(
                "SELECT seq, hash FROM remem.event WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1",
                &[],
            )
            .await?;
        rows.first()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .transpose()
    }

    async fn event_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self
            .rows(
                "SELECT hash FROM remem.event WHERE tenant_id = $1 AND seq = $2",
                &[&seq],
            )
            .await?;
        rows.first().map(|row| get(row, 0)).transpose()
    }

    async fn has_open_runs(&self) -> Result<bool, StoreError> {
        Ok(!self
            .rows(
                "SELECT 1 FROM remem.snapshot WHERE tenant_id = $1 LIMIT 1",
                &[],
            )
            .await?
            .is_empty())
    }

    async fn entry_count(&self) -> Result<u64, StoreError> {
        let rows = self
            .rows("SELECT count(*) FROM remem.entry WHERE tenant_id = $1", &[])
            .await?;
        rows.first()
            .map_or(Ok(0), |row| Ok(get::<i64>(row, 0)?.cast_unsigned()))
    }

    async fn page(
        &self,
        table: &'static CopiedTable,
        after: Option<Vec<Value<'static>>>,
    ) -> Result<Vec<CopiedRow>, StoreError> {
        let sql = table.page_sql(Dialect::Postgres, after.is_none());
        let name = Value::text(self.tenant.as_str());
        let bounds = after.unwrap_or_default();
        let values = [&name].into_iter().chain(&bounds);
        let bound: Vec<_> = values.map(as_param).collect();
        let params: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| &**value as _).collect();
        let page = sql_call(&sql, &params);
        let is_review = table.name == TABLES.reviews.name;
        let calls = if is_review {
            vec![sql_call(AS_REVIEWER, &[]), page, sql_call(AS_BEFORE, &[])]
        } else {
            vec![page]
        };
        let results = self.transaction.run(calls).await;
        let results = results.map_err(TripError::into_store)?;
        let rows = results
            .get(usize::from(is_review))
            .map_or(&[][..], Vec::as_slice);
        let read = |row| table.read(Dialect::Postgres, &mut PostgresRow::new(row));
        rows.iter().map(read).collect()
    }

    /// The sizes of texts are known without reading them, so a page ends before it gets too large.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<CopiedEntry>, StoreError> {
        let sql = format!(
            "SELECT {} FROM (SELECT *, sum(octet_length(content)) OVER (ORDER BY scope_id, row_id) - octet_length(content) AS before
               FROM remem.entry WHERE tenant_id = $1 AND (scope_id, row_id) > ($2, $3) ORDER BY scope_id, row_id LIMIT $4) e
             WHERE before < $5 ORDER BY scope_id, row_id",
            entry::select_list("e", "true")
        );
        self.rows(&sql, &[&after.0, &after.1, &LIMIT, &(PAGE_BYTES as i64)])
            .await?
            .iter()
            .map(|row| entry::read_row(&mut PostgresRow::new(row)))
            .collect()
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        self.transaction
            .commit(Vec::new())
            .await
            .map_err(TripError::into_store)
            .map(|_| ())
    }
}

fn read_clock(row: &Row) -> Result<ClockRow, StoreError> {
    Ok(ClockRow {
        revision: get(row, 0)?,
        seq: get(row, 1)?,
        at: get(row, 2)?,
        chain: get(row, 3)?,
    })
}

/// Records under review may be read by the reviewer's role alone.
const AS_REVIEWER: &str = "SELECT set_config('role', current_database() || '_reviewer', true)";
const AS_BEFORE: &str = "SELECT set_config('role', 'none', true)";
const DROP_REPEATS: &str = "DELETE FROM remem.idempotency WHERE tenant_id = $1 AND at < $2";
/// The next memory gets the number after the last one that was copied.
const PUT_CLOCK: &str = "UPDATE remem.tenant_clock SET revision = $2, seq = $3, at = $4, chain = $5,
       scopes = coalesce((SELECT max(scope_id) FROM remem.scope WHERE tenant_id = $1), 0) WHERE tenant_id = $1";
/// Subjects come after their entries, so the totals of the memories are counted again.
const COUNT_TOTALS: &str = "UPDATE remem.scope s SET entries = t.entries, content_bytes = t.content_bytes, expiring = t.expiring, with_subject = t.with_subject
     FROM (SELECT m.scope_id, count(e.row_id) AS entries, coalesce(sum(octet_length(e.content)), 0) AS content_bytes,
             count(e.expires_at) AS expiring, count(g.row_id) AS with_subject
           FROM remem.scope m
           LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = m.scope_id AND e.rev_to IS NULL
           LEFT JOIN (SELECT DISTINCT scope_id, row_id FROM remem.entry_subject WHERE tenant_id = $1) g
             ON g.scope_id = e.scope_id AND g.row_id = e.row_id
           WHERE m.tenant_id = $1 GROUP BY m.scope_id) t
     WHERE s.tenant_id = $1 AND s.scope_id = t.scope_id";
/// Expiries and removed entries were copied: the purge pass is due at once, and computes when it is
/// due next. The due time of records is computed here, because a pass that finds no record due
/// writes nothing.
const PUT_DUE: &str = "INSERT INTO remem.upkeep (tenant_id, next_expiry, next_due) SELECT c.tenant_id, 0, least(
       coalesce((SELECT min(due) FROM remem.record WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807),
       coalesce((SELECT min(due) FROM remem.review WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807))
     FROM remem.tenant_clock c WHERE c.tenant_id = $1
     ON CONFLICT (tenant_id) DO UPDATE SET next_expiry = 0, next_due = excluded.next_due";
/// The start time of the server and the number of the database: the same under any address.
const IDENTITY: &str = "SELECT format('%s %s', pg_postmaster_start_time(), oid) FROM pg_database WHERE datname = current_database()";

#[async_trait]
impl CopySide for DatabaseSide {
    fn store(&self) -> &dyn Upkeep {
        &self.store
    }

    fn directory(&self) -> &dyn Directory {
        &self.directory
    }

    async fn identity(&self) -> Result<String, CopyError> {
        let rows = self
            .store
            .gate()
            .read(Role::App, Identity::host(), IDENTITY, &[])
            .await?;
        Ok(rows.first().map_or(Ok(String::new()), |row| get(row, 0))?)
    }

    async fn secret(&self) -> Result<Option<HostSecret>, CopyError> {
        if self.secret.is_some() {
            return Ok(self.secret);
        }
        let rows = self
            .store
            .gate()
            .read(
                Role::App,
                Identity::host(),
                "SELECT secret FROM remem.host_secret",
                &[],
            )
            .await?;
        let secret = |row| {
            get::<Vec<u8>>(row, 0)?
                .try_into()
                .map_err(|_| StoreError::Damaged("the host's secret is not 32 bytes"))
        };
        Ok(rows.first().map(secret).transpose()?)
    }

    async fn store_secret(&self, secret: &HostSecret) -> Result<HostSecret, CopyError> {
        Ok(self.store.host_secret(secret).await?)
    }

    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn TenantReader>, StoreError> {
        let (transaction, _) = self
            .store
            .gate()
            .open(READ, Role::App, Identity::as_host(tenant), Vec::new())
            .await?;
        Ok(Box::new(PostgresReader {
            transaction,
            tenant: tenant.clone(),
        }))
    }

    async fn put_page(
        &self,
        tenant: &TenantId,
        table: &'static CopiedTable,
        page: Vec<CopiedRow>,
    ) -> Result<(), StoreError> {
        put_page(self.store.gate(), tenant, table, page).await
    }

    async fn clear(
        &self,
        tenant: &TenantId,
        table: &'static CopiedTable,
    ) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let sql = table.clear_sql(Dialect::Postgres);
        let calls = vec![sql_call(&sql, &[&name])];
        self.store
            .gate()
            .write(Role::App, Identity::as_host(tenant), calls)
            .await
            .map(|_| ())
    }

    async fn put_entries(
        &self,
        tenant: &TenantId,
        page: Vec<CopiedEntry>,
    ) -> Result<(), StoreError> {
        put_entries(self.store.gate(), tenant, page).await
    }

    /// Runs as the worker: the application has no right to delete the records that make a
    /// repetition safe.
    async fn delete_idempotency_rows(
        &self,
        tenant: &TenantId,
        before: i64,
    ) -> Result<(), StoreError> {
        let name = tenant.as_str();
        self.store
            .gate()
            .write(
                Role::Worker,
                Identity::as_host(tenant),
                vec![sql_call(DROP_REPEATS, &[&name, &before])],
            )
            .await
            .map(|_| ())
    }

    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let calls = vec![
            sql_call(COUNT_TOTALS, &[&name]),
            sql_call(PUT_DUE, &[&name]),
            sql_call(
                PUT_CLOCK,
                &[&name, &clock.revision, &clock.seq, &clock.at, &clock.chain],
            ),
        ];
        insert_as_host(self.store.gate(), tenant, calls).await
    }
}
