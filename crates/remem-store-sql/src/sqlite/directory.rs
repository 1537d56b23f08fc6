//! The directory of tenants and keys: one small file beside those of the tenants.
//!
//! Every request looks up a key, so the whole directory is cached in memory and read again only
//! when SQLite reports that another connection (for example of a command run beside the server)
//! changed the file. A revoked key stops working at once.

use super::Location;
use super::connection::{self, HOST_MIGRATIONS, store_error};
use super::row_hash::{self, Backfill};
use super::verify;
use crate::row_hash::SQLITE_HOST;
use crate::stored::permissions_text;
use async_trait::async_trait;
use remem_core::{Permission, PrincipalId, TenantId, Timestamp, Trust};
use remem_store::{Directory, KeyHash, KeyRecord, StoreError, TenantRecord};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// The tenants and keys of a host, in SQLite.
pub struct SqliteDirectory {
    state: Mutex<DirectoryState>,
}

struct DirectoryState {
    db: Connection,
    /// `None` until it is read for the first time, and again after each write through this
    /// connection.
    cached: Option<CachedDirectory>,
}

/// The cached content of the directory, with SQLite's `data_version` when it was read.
struct CachedDirectory {
    version: i64,
    tenants: BTreeMap<TenantId, TenantRecord>,
    keys: HashMap<KeyHash, KeyRecord>,
}

impl SqliteDirectory {
    /// Opens the directory; creates it if it does not exist.
    pub fn open(location: &Location) -> Result<SqliteDirectory, StoreError> {
        connection::check_version()?;
        let db = match location {
            Location::Folder(folder) => {
                std::fs::create_dir_all(folder)
                    .map_err(|e| StoreError::Unavailable(Box::new(e)))?;
                connection::writer(&folder.join("host.db"), &HOST_MIGRATIONS)?
            }
            Location::Memory => connection::in_memory(&HOST_MIGRATIONS)?,
        };
        // The rows are few and small, so those without a hash get one at once.
        while row_hash::backfill(&db, &SQLITE_HOST, &mut Backfill::default())? {}
        Ok(SqliteDirectory {
            state: Mutex::new(DirectoryState { db, cached: None }),
        })
    }

    /// Calls `f` with the content of the directory, read again if it changed.
    fn read<T>(&self, f: impl FnOnce(&CachedDirectory) -> T) -> Result<T, StoreError> {
        let mut inner = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let version: i64 = inner
            .db
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(store_error)?;
        if inner
            .cached
            .as_ref()
            .is_none_or(|loaded| loaded.version != version)
        {
            inner.cached = Some(load(&inner.db, version).map_err(store_error)?);
        }
        Ok(f(inner.cached.as_ref().expect("loaded just above")))
    }

    /// Calls `f` with the connection to change the directory, and drops the cached content.
    fn write(
        &self,
        f: impl FnOnce(&Connection) -> rusqlite::Result<bool>,
    ) -> Result<bool, StoreError> {
        let mut inner = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        inner.cached = None;
        f(&inner.db).map_err(store_error)
    }
}

const SELECT_KEYS: &str = "SELECT key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust FROM api_key";

fn load(db: &Connection, version: i64) -> rusqlite::Result<CachedDirectory> {
    let mut query = db.prepare_cached("SELECT tenant_id, created_at, shapes FROM tenant")?;
    let tenants = query
        .query_map([], read_tenant)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut query = db.prepare_cached(SELECT_KEYS)?;
    let keys = query
        .query_map([], read_key)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(CachedDirectory {
        version,
        tenants: tenants.into_iter().map(|t| (t.id.clone(), t)).collect(),
        keys: keys.into_iter().map(|k| (k.hash, k)).collect(),
    })
}

fn unreadable(column: usize) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text)
}

fn read_tenant(row: &Row<'_>) -> rusqlite::Result<TenantRecord> {
    let id: String = row.get(0)?;
    let shapes: String = row.get(2)?;
    Ok(TenantRecord {
        id: TenantId::parse(&id).ok_or_else(|| unreadable(0))?,
        created_at: Timestamp(row.get(1)?),
        shapes: shapes.parse().map_err(|_| unreadable(2))?,
    })
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let id: String = row.get(0)?;
    let tenant: String = row.get(1)?;
    let permissions: String = row.get(4)?;
    let principal: String = row.get(8)?;
    let trust: Option<String> = row.get(9)?;
    let permissions = permissions
        .split_whitespace()
        .map(str::parse::<Permission>)
        .collect::<Result<Vec<_>, _>>();
    Ok(KeyRecord {
        id: PrincipalId::parse(&id).ok_or_else(|| unreadable(0))?,
        principal: PrincipalId::parse(&principal).ok_or_else(|| unreadable(8))?,
        tenant: TenantId::parse(&tenant).ok_or_else(|| unreadable(1))?,
        label: row.get(2)?,
        hash: row.get(3)?,
        permissions: permissions.map_err(|_| unreadable(4))?,
        created_at: Timestamp(row.get(5)?),
        expires_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        revoked_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        trust: trust
            .map(|name| name.parse().map_err(|_| unreadable(9)))
            .transpose()?,
    })
}

#[async_trait]
impl Directory for SqliteDirectory {
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StoreError> {
        self.read(|loaded| loaded.tenants.get(id).cloned())
    }

    async fn is_reachable(&self) -> bool {
        self.read(|_| ()).is_ok()
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        let inner = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let damages = verify::check_file(&inner.db, &HOST_MIGRATIONS, &SQLITE_HOST)?;
        // Of all tenants: the host's own file is checked as a whole.
        let sql = "SELECT (SELECT count(*) FROM tenant) + (SELECT count(*) FROM api_key)";
        let count = inner
            .db
            .query_row(sql, [], |row| row.get(0))
            .map_err(store_error)?;
        verify::count_or_damages(damages, count)
    }

    async fn tenants(&self) -> Result<Vec<TenantRecord>, StoreError> {
        self.read(|loaded| loaded.tenants.values().cloned().collect())
    }

    async fn put_tenant(&self, tenant: &TenantRecord) -> Result<bool, StoreError> {
        self.write(|db| {
            let shapes = tenant.shapes.to_string();
            let new = db.execute(
                "INSERT INTO tenant (tenant_id, created_at, shapes) VALUES (?1, ?2, ?3) ON CONFLICT (tenant_id) DO NOTHING",
                params![tenant.id.as_str(), tenant.created_at.0, shapes],
            )?;
            if new == 0 {
                db.execute("UPDATE tenant SET shapes = ?2 WHERE tenant_id = ?1", params![tenant.id.as_str(), shapes])?;
            }
            Ok(new == 1)
        })
    }

    async fn find_key(&self, hash: &KeyHash) -> Result<Option<KeyRecord>, StoreError> {
        self.read(|loaded| loaded.keys.get(hash).cloned())
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError> {
        let mut keys: Vec<KeyRecord> = self.read(|loaded| {
            loaded
                .keys
                .values()
                .filter(|k| k.tenant == *tenant)
                .cloned()
                .collect()
        })?;
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    async fn add_key(&self, key: &KeyRecord) -> Result<bool, StoreError> {
        self.write(|db| {
            let added = db.execute(
                "INSERT INTO api_key (key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (hash) DO NOTHING",
                params![
                    key.id.as_str(),
                    key.tenant.as_str(),
                    key.label,
                    key.hash,
                    permissions_text(&key.permissions),
                    key.created_at.0,
                    key.expires_at.map(|t| t.0),
                    key.revoked_at.map(|t| t.0),
                    key.principal.as_str(),
                    key.trust.map(Trust::as_str)
                ],
            )?;
            Ok(added == 1)
        })
    }

    async fn set_key_trust(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        trust: Trust,
        permissions: &[Permission],
    ) -> Result<bool, StoreError> {
        self.write(|db| {
            let set = db.execute(
                "UPDATE api_key SET trust = ?3, permissions = ?4 WHERE tenant_id = ?1 AND key_id = ?2",
                params![tenant.as_str(), id.as_str(), trust.as_str(), permissions_text(permissions)],
            )?;
            Ok(set == 1)
        })
    }

    async fn relabel_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        was: &str,
        label: &str,
    ) -> Result<bool, StoreError> {
        self.write(|db| {
            let changed = db.execute(
                "UPDATE api_key SET label = ?4 WHERE tenant_id = ?1 AND key_id = ?2 AND label = ?3",
                params![tenant.as_str(), id.as_str(), was, label],
            )?;
            Ok(changed == 1)
        })
    }

    async fn revoke_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(|db| {
            let revoked = db.execute(
                "UPDATE api_key SET revoked_at = ?3 WHERE tenant_id = ?1 AND key_id = ?2 AND revoked_at IS NULL",
                params![tenant.as_str(), id.as_str(), at.0],
            )?;
            Ok(revoked == 1)
        })
    }
}
