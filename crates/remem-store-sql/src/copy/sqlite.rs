//! The embedded store as source and target of a copy: pages of one tenant's file, and a folder with
//! `host.db` and `host.key`. Reads see one commit; each page that is written is one transaction.

use super::error::{CopyEnd, CopyError};
use super::rows::{
    self, ActionRow, ClockRow, CopiedEntry, EventRow, IdempotencyRow, LinkRow, PAGE_BYTES,
    PAGE_ROWS, RecordRow, ReplacedRow, RuleRow, ScopeRow, SlotRow, SubjectRow, entry_bytes,
};
use super::side::{CopySide, HostSecret, TenantReader};
use super::sqlite_entry::put_entries;
use super::{sqlite_lineage as lineage, sqlite_workshop as workshop};
use crate::private;
use crate::rows::entry;
use crate::sqlite::load::entry_rows_while;
use crate::sqlite::{
    Location, SqliteDirectory, SqliteStore, count_totals, run_blocking, store_error,
};
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, Store, StoreError};
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

    async fn events(&self, after: i64) -> Result<Vec<EventRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM event WHERE tenant_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            rows::EVENT
        );
        self.read(move |db, tenant| {
            db.prepare_cached(&sql)?
                .query_map(params![tenant, after, PAGE_ROWS], read_event)?
                .collect()
        })
        .await
    }

    async fn scopes(&self, after: i64) -> Result<Vec<ScopeRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM scope WHERE tenant_id = ?1 AND scope_id > ?2 ORDER BY scope_id LIMIT ?3",
            rows::SCOPE
        );
        self.read(move |db, tenant| {
            db.prepare_cached(&sql)?
                .query_map(params![tenant, after, PAGE_ROWS], read_scope)?
                .collect()
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

    async fn idempotency_rows(
        &self,
        after: &(String, Vec<u8>),
    ) -> Result<Vec<IdempotencyRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM idempotency WHERE tenant_id = ?1 AND (operation, key) > (?2, ?3) ORDER BY operation, key LIMIT ?4",
            rows::IDEMPOTENCY
        );
        let (operation, key) = after.clone();
        self.read(move |db, tenant| {
            db.prepare_cached(&sql)?
                .query_map(
                    params![tenant, operation, key, PAGE_ROWS],
                    read_idempotency_row,
                )?
                .collect()
        })
        .await
    }

    async fn records(&self, after: &(String, String)) -> Result<Vec<RecordRow>, StoreError> {
        let page = format!(
            "WHERE r.tenant_id = ?1 AND (r.kind, r.key) > (?2, ?3) AND {} ORDER BY r.kind, r.key LIMIT ?4",
            rows::IS_COPIED
        );
        let source = "LEFT JOIN entry e ON e.tenant_id = r.tenant_id AND e.row_id = r.source_row";
        let records = format!("SELECT {} FROM record r {source} {page}", rows::RECORD);
        let reviews = format!("SELECT {} FROM review r {page}", rows::REVIEW);
        let (kind, key) = after.clone();
        self.read(move |db, tenant| {
            let read_page = |sql: &str| {
                db.prepare_cached(sql)?
                    .query_map(params![tenant, kind, key, PAGE_ROWS], read_record)?
                    .collect::<rusqlite::Result<Vec<_>>>()
            };
            Ok(rows::merge_pages(
                read_page(&records)?,
                read_page(&reviews)?,
            ))
        })
        .await
    }

    async fn replaced(&self, after: (i64, i64)) -> Result<Vec<ReplacedRow>, StoreError> {
        self.read(move |db, tenant| lineage::replaced(db, tenant, after))
            .await
    }

    async fn links(&self, after: [i64; 4]) -> Result<Vec<LinkRow>, StoreError> {
        self.read(move |db, tenant| lineage::links(db, tenant, after))
            .await
    }

    async fn subjects(&self, after: &(Vec<u8>, i64, i64)) -> Result<Vec<SubjectRow>, StoreError> {
        let after = after.clone();
        self.read(move |db, tenant| lineage::subjects(db, tenant, &after))
            .await
    }

    async fn slots(&self, after: (i64, i64)) -> Result<Vec<SlotRow>, StoreError> {
        self.read(move |db, tenant| workshop::slots(db, tenant, after))
            .await
    }

    async fn actions(
        &self,
        after: &(i64, i64, String, String),
    ) -> Result<Vec<ActionRow>, StoreError> {
        let after = after.clone();
        self.read(move |db, tenant| workshop::actions(db, tenant, &after))
            .await
    }

    async fn rules(&self, after: &(String, String)) -> Result<Vec<RuleRow>, StoreError> {
        let after = after.clone();
        self.read(move |db, tenant| workshop::rules(db, tenant, &after))
            .await
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        seq: row.get(0)?,
        revision: row.get(1)?,
        at: row.get(2)?,
        run_id: row.get(3)?,
        run_seq: row.get(4)?,
        recorded_at: row.get(5)?,
        kind: row.get(6)?,
        payload: row.get(7)?,
        hash: row.get(8)?,
    })
}

fn read_scope(row: &Row<'_>) -> rusqlite::Result<ScopeRow> {
    Ok(ScopeRow {
        scope_id: row.get(0)?,
        memory_ref: row.get(1)?,
        owner: row.get(2)?,
    })
}

fn read_idempotency_row(row: &Row<'_>) -> rusqlite::Result<IdempotencyRow> {
    Ok(IdempotencyRow {
        operation: row.get(0)?,
        key: row.get(1)?,
        body: row.get(2)?,
        at: row.get(3)?,
        revision: row.get(4)?,
        outcomes: row.get(5)?,
    })
}

fn read_record(row: &Row<'_>) -> rusqlite::Result<RecordRow> {
    let due = row.get(5)?;
    let topic = row.get(6)?;
    let source_scope = row.get(7)?;
    let source_id = row.get(8)?;
    let kind = row.get(0)?;
    let key = row.get(1)?;
    let version = row.get(2)?;
    let at = row.get(3)?;
    let body = row.get(4)?;
    Ok(RecordRow {
        kind,
        key,
        version,
        at,
        body,
        due,
        topic,
        source_scope,
        source_id,
    })
}

#[async_trait]
impl CopySide for FolderSide {
    fn store(&self) -> &dyn Store {
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

    async fn put_events(&self, tenant: &TenantId, page: Vec<EventRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| put_event(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn put_scopes(&self, tenant: &TenantId, page: Vec<ScopeRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| put_scope(db, name.as_str(), row))
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

    async fn put_idempotency_rows(
        &self,
        tenant: &TenantId,
        page: Vec<IdempotencyRow>,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| put_idempotency_row(db, name.as_str(), row))
                    .map_err(store_error)
            })
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

    async fn delete_records(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let name = tenant.clone();
        let drop = |db: &Connection, name: &TenantId| {
            db.execute(
                "DELETE FROM record WHERE tenant_id = ?1",
                params![name.as_str()],
            )?;
            db.execute(
                "DELETE FROM review WHERE tenant_id = ?1",
                params![name.as_str()],
            )
        };
        self.store
            .transact(tenant, move |db| {
                drop(db, &name).map(|_| ()).map_err(store_error)
            })
            .await
    }

    async fn put_records(&self, tenant: &TenantId, page: Vec<RecordRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| put_record(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn put_replaced(
        &self,
        tenant: &TenantId,
        page: Vec<ReplacedRow>,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| lineage::put_replaced(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn put_links(&self, tenant: &TenantId, page: Vec<LinkRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| lineage::put_link(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn delete_subjects(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let name = tenant.clone();
        let sql = "DELETE FROM entry_subject WHERE tenant_id = ?1";
        self.store
            .transact(tenant, move |db| {
                db.execute(sql, params![name.as_str()])
                    .map(|_| ())
                    .map_err(store_error)
            })
            .await
    }

    async fn put_subjects(
        &self,
        tenant: &TenantId,
        page: Vec<SubjectRow>,
    ) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| lineage::put_subject(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn put_slots(&self, tenant: &TenantId, page: Vec<SlotRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| workshop::put_slot(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn put_actions(&self, tenant: &TenantId, page: Vec<ActionRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| workshop::put_action(db, name.as_str(), row))
                    .map_err(store_error)
            })
            .await
    }

    async fn delete_rules(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                workshop::delete_rules(db, name.as_str()).map_err(store_error)
            })
            .await
    }

    async fn put_rules(&self, tenant: &TenantId, page: Vec<RuleRow>) -> Result<(), StoreError> {
        let name = tenant.clone();
        self.store
            .transact(tenant, move |db| {
                page.iter()
                    .try_for_each(|row| workshop::put_rule(db, name.as_str(), row))
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

fn put_event(db: &Connection, tenant: &str, row: &EventRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO event (tenant_id, seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    let EventRow {
        seq,
        revision,
        at,
        run_id,
        run_seq,
        recorded_at,
        kind,
        payload,
        hash,
    } = row;
    let values = params![
        tenant,
        seq,
        revision,
        at,
        run_id,
        run_seq,
        recorded_at,
        kind,
        payload,
        hash
    ];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn put_scope(db: &Connection, tenant: &str, row: &ScopeRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO scope (tenant_id, scope_id, memory_ref, owner) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?
        .execute(params![tenant, row.scope_id, row.memory_ref, row.owner])
        .map(|_| ())
}

fn put_record(db: &Connection, tenant: &str, row: &RecordRow) -> rusqlite::Result<()> {
    let RecordRow {
        kind,
        key,
        version,
        at,
        body,
        due,
        topic,
        source_scope,
        source_id,
    } = row;
    if row.is_inert() {
        let sql = "INSERT INTO review (tenant_id, kind, key, version, at, body, due) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
        return db
            .prepare_cached(sql)?
            .execute(params![tenant, kind, key, version, at, body, due])
            .map(|_| ());
    }
    let sql =
        "INSERT INTO record (tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row) VALUES (?1, ?2, ?3, ?4, ?5,
                 ?6, ?7, ?8, ?9, (SELECT row_id FROM entry WHERE tenant_id = ?1 AND scope_id = ?9 AND id = ?10)) ON CONFLICT DO NOTHING";
    let values = params![
        tenant,
        kind,
        key,
        version,
        at,
        body,
        due,
        topic,
        source_scope,
        source_id
    ];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn put_idempotency_row(
    db: &Connection,
    tenant: &str,
    row: &IdempotencyRow,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO idempotency (tenant_id, operation, key, body, at, revision, outcomes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT DO NOTHING";
    let values = params![
        tenant,
        row.operation,
        row.key,
        row.body,
        row.at,
        row.revision,
        row.outcomes
    ];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}
