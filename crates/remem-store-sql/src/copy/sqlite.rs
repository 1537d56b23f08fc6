//! The embedded store as source and target of a copy: pages of one tenant's file, and a folder with
//! `host.db` and `host.key`. Reads see one commit; each page that is written is one transaction.

use super::digest::{ClockRow, CopiedEntry, PAGE_BYTES, entry_bytes};
use super::error::{CopyEnd, CopyError};
use super::side::{CopySide, HostSecret, TenantReader};
use super::table::{CopiedRow, CopiedTable, PAGE_ROWS, TABLES};
use crate::private;
use crate::rows::statement::Dialect;
use crate::rows::{Value, entry};
use crate::sqlite::copy::put_entries;
use crate::sqlite::load::{SqliteRow, entry_rows_while};
use crate::sqlite::stats::count_totals;
use crate::sqlite::{Location, SqliteDirectory, SqliteStore, run_blocking, store_error};
use async_trait::async_trait;
use remem_core::TenantId;
use remem_core::trgm::Trigrams;
use remem_store::{Directory, StoreError, Upkeep};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A folder with an embedded store.
pub(super) struct FolderSide {
    path: PathBuf,
    end: CopyEnd,
    store: SqliteStore,
    directory: SqliteDirectory,
}

/// Opens the folder. A source must exist; a target is created, unless nothing may be written.
pub(super) fn open(
    path: PathBuf,
    end: CopyEnd,
    dry_run: bool,
) -> Result<Option<FolderSide>, CopyError> {
    if !path.join("host.db").is_file() && (end == CopyEnd::Source || dry_run) {
        return Ok(None);
    }
    let refused = |error| CopyError::Folder(end, error);
    private::create_folder(&path).map_err(|e| refused(StoreError::Unavailable(Box::new(e))))?;
    let location = Location::Folder(path.clone());
    let store = SqliteStore::open(location.clone(), 1).map_err(refused)?;
    let directory = SqliteDirectory::open(&location).map_err(refused)?;
    Ok(Some(FolderSide {
        path,
        end,
        store,
        directory,
    }))
}

/// A reader inside its transaction; without a connection if the tenant has no file.
struct SqliteReader {
    db: Option<Arc<Mutex<Connection>>>,
    tenant: TenantId,
}

impl SqliteReader {
    async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Default + Send + 'static,
        F: FnOnce(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    {
        let (Some(db), tenant) = (self.db.clone(), self.tenant.clone()) else {
            return Ok(T::default());
        };
        run_blocking(move || {
            query(
                &db.lock().unwrap_or_else(PoisonError::into_inner),
                tenant.as_str(),
            )
            .map_err(store_error)
        })
        .await
    }
}

#[async_trait]
impl TenantReader for SqliteReader {
    async fn clock(&self) -> Result<ClockRow, StoreError> {
        let sql = "SELECT revision, seq, at, chain FROM tenant_clock WHERE tenant_id = ?1";
        let clock = |row: &Row<'_>| {
            Ok(ClockRow {
                revision: row.get(0)?,
                seq: row.get(1)?,
                at: row.get(2)?,
                chain: row.get(3)?,
            })
        };
        Ok(self
            .read(move |db, tenant| {
                db.prepare_cached(sql)?
                    .query_row([tenant], clock)
                    .optional()
            })
            .await?
            .unwrap_or_default())
    }

    async fn last_event(&self) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let sql = "SELECT seq, hash FROM event WHERE tenant_id = ?1 ORDER BY seq DESC LIMIT 1";
        self.read(move |db, tenant| {
            db.prepare_cached(sql)?
                .query_row([tenant], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .await
    }

    async fn event_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT hash FROM event WHERE tenant_id = ?1 AND seq = ?2";
        self.read(move |db, tenant| {
            db.prepare_cached(sql)?
                .query_row(params![tenant, seq], |row| row.get(0))
                .optional()
        })
        .await
    }

    async fn has_open_runs(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM snapshot WHERE tenant_id = ?1 LIMIT 1";
        self.read(move |db, tenant| db.prepare_cached(sql)?.exists([tenant]))
            .await
    }

    async fn entry_count(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM entry WHERE tenant_id = ?1";
        self.read(move |db, tenant| {
            db.prepare_cached(sql)?
                .query_row([tenant], |row| row.get(0))
        })
        .await
    }

    async fn page(
        &self,
        table: &'static CopiedTable,
        after: Option<Vec<Value<'static>>>,
    ) -> Result<Vec<CopiedRow>, StoreError> {
        let (Some(db), tenant) = (self.db.clone(), self.tenant.clone()) else {
            return Ok(Vec::new());
        };
        run_blocking(move || {
            let db = db.lock().unwrap_or_else(PoisonError::into_inner);
            read_page(&db, tenant.as_str(), table, after)
        })
        .await
    }

    /// In the order of the file: `NOT INDEXED` keeps SQLite from sorting all of the tenant's rows
    /// for each page.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<CopiedEntry>, StoreError> {
        let sql = format!(
            "SELECT {} FROM entry e NOT INDEXED WHERE e.tenant_id = ?1 AND e.row_id > ?2 ORDER BY e.row_id LIMIT ?3",
            entry::select_list("e", "true")
        );
        let (Some(db), tenant) = (self.db.clone(), self.tenant.clone()) else {
            return Ok(Vec::new());
        };
        run_blocking(move || {
            let db = db.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = 0;
            entry_rows_while(
                &db,
                &sql,
                params![tenant.as_str(), after.1, PAGE_ROWS],
                |row| {
                    bytes += entry_bytes(row);
                    bytes < PAGE_BYTES
                },
            )
        })
        .await
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

fn read_page(
    db: &Connection,
    tenant: &str,
    table: &CopiedTable,
    after: Option<Vec<Value<'static>>>,
) -> Result<Vec<CopiedRow>, StoreError> {
    let sql = table.page_sql(Dialect::Sqlite, after.is_none());
    let mut query = db.prepare_cached(&sql).map_err(store_error)?;
    let bounds = after.unwrap_or_default();
    let values = [Value::text(tenant)].into_iter().chain(bounds);
    let mut rows = query
        .query(rusqlite::params_from_iter(values))
        .map_err(store_error)?;
    let mut page = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        page.push(table.read(Dialect::Sqlite, &mut SqliteRow::new(row))?);
    }
    Ok(page)
}

#[async_trait]
impl CopySide for FolderSide {
    fn store(&self) -> &dyn Upkeep {
        &self.store
    }

    fn directory(&self) -> &dyn Directory {
        &self.directory
    }

    async fn identity(&self) -> Result<String, CopyError> {
        let path = self
            .path
            .canonicalize()
            .map_err(|e| CopyError::Folder(self.end, StoreError::Unavailable(Box::new(e))))?;
        Ok(path.display().to_string())
    }

    async fn secret(&self) -> Result<Option<HostSecret>, CopyError> {
        private::read_secret(&self.path).map_err(|e| CopyError::SecretFile(self.end, e.to_string()))
    }

    async fn store_secret(&self, secret: &HostSecret) -> Result<HostSecret, CopyError> {
        private::store_secret(&self.path, secret)
            .map_err(|e| CopyError::SecretFile(self.end, e.to_string()))?;
        self.secret().await?.ok_or(CopyError::NoSecret)
    }

    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn TenantReader>, StoreError> {
        let db = self
            .store
            .snapshot_reader(tenant)
            .await?
            .map(|db| Arc::new(Mutex::new(db)));
        let reader = SqliteReader {
            db,
            tenant: tenant.clone(),
        };
        reader.clock().await?; // the first read determines which commit is visible
        Ok(Box::new(reader))
    }

    async fn put_page(
        &self,
        tenant: &TenantId,
        table: &'static CopiedTable,
        page: Vec<CopiedRow>,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                put_page(db, name.as_str(), table, &page).map_err(store_error)
            })
            .await
    }

    async fn clear(
        &self,
        tenant: &TenantId,
        table: &'static CopiedTable,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                db.execute(&table.clear_sql(Dialect::Sqlite), [name.as_str()])
                    .map(|_| ())
                    .map_err(store_error)
            })
            .await
    }

    async fn put_entries(
        &self,
        tenant: &TenantId,
        page: Vec<CopiedEntry>,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| put_entries(db, &name, page))
            .await
    }

    async fn delete_idempotency_rows(
        &self,
        tenant: &TenantId,
        before: i64,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        let sql = "DELETE FROM idempotency WHERE tenant_id = ?1 AND at < ?2";
        self.store
            .transact(tenant, move |db| {
                db.execute(sql, params![name.as_str(), before])
                    .map(|_| ())
                    .map_err(store_error)
            })
            .await
    }

    /// Counts the totals of the memories again, since subjects come after their entries. Computes
    /// no due times: they are computed when the file is opened.
    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError> {
        let name = tenant.clone();
        let sql = "INSERT INTO tenant_clock (tenant_id, revision, seq, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (tenant_id) DO UPDATE SET revision = ?2, seq = ?3, at = ?4, chain = ?5";
        let save = move |db: &Connection| {
            count_totals(db, &name)?;
            db.execute(
                sql,
                params![
                    name.as_str(),
                    clock.revision,
                    clock.seq,
                    clock.at,
                    clock.chain
                ],
            )
        };
        self.store
            .transact(tenant, move |db| save(db).map(|_| ()).map_err(store_error))
            .await
    }
}

/// The columns of a rule that this store computes from its text.
const OF_RULES: [&str; 2] = ["size", "trigrams"];

fn put_page(
    db: &Connection,
    tenant: &str,
    table: &CopiedTable,
    page: &[CopiedRow],
) -> rusqlite::Result<()> {
    let is_rule = table.name == TABLES.rules.name;
    let more = if is_rule { &OF_RULES[..] } else { &[] };
    let mut statement = db.prepare_cached(&table.put_row_sql(more))?;
    let tenant = Value::text(tenant);
    for row in page {
        let mut values: Vec<&Value<'_>> = vec![&tenant];
        values.extend(&row.values);
        let computed = match table.value(row, "body") {
            Some(Value::Text(Some(body))) if is_rule => {
                let trigrams = Trigrams::of(body);
                let bytes = trigrams.to_bytes().to_vec();
                vec![
                    Value::number(trigrams.len() as i64),
                    Value::Bytes(Some(bytes.into())),
                ]
            }
            _ => Vec::new(),
        };
        values.extend(&computed);
        statement.execute(rusqlite::params_from_iter(values))?;
    }
    Ok(())
}
