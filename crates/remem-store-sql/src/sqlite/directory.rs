//! The directory of tenants and keys: one small file beside those of the tenants.
//!
//! Every request looks up a key, so the whole directory is cached in memory and read again only
//! when SQLite reports that another connection (for example of a command run beside the server)
//! changed the file. A revoked key stops working at once.

use super::Location;
use super::connection::{self, HOST_MIGRATIONS, failed};
use super::row_hash::{self, Fill};
use super::verify;
use crate::row_hash::SQLITE_HOST;
use crate::stored::written;
use async_trait::async_trait;
use remem_core::{Permission, PrincipalId, TenantId, Timestamp, Trust};
use remem_store::{Directory, KeyHash, KeyRecord, StoreError, Tenant};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// The tenants and keys of a host, in SQLite.
pub struct SqliteDirectory {
    inner: Mutex<Inner>,
}

struct Inner {
    db: Connection,
    /// `None` until it is read for the first time, and again after each write through this
    /// connection.
    loaded: Option<Loaded>,
}

/// The cached content of the directory, with SQLite's `data_version` when it was read.
struct Loaded {
    version: i64,
    tenants: BTreeMap<TenantId, Tenant>,
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
        while row_hash::fill(&db, &SQLITE_HOST, &mut Fill::default())? {}
        Ok(SqliteDirectory {
            inner: Mutex::new(Inner { db, loaded: None }),
        })
    }

    /// Calls `f` with the content of the directory, read again if it changed.
    fn look<T>(&self, f: impl FnOnce(&Loaded) -> T) -> Result<T, StoreError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let version: i64 = inner
            .db
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(failed)?;
        if inner
            .loaded
            .as_ref()
            .is_none_or(|loaded| loaded.version != version)
        {
            inner.loaded = Some(load(&inner.db, version).map_err(failed)?);
        }
        Ok(f(inner.loaded.as_ref().expect("loaded just above")))
    }

    /// Calls `f` with the connection to change the directory, and drops the cached content.
    fn change(
        &self,
        f: impl FnOnce(&Connection) -> rusqlite::Result<bool>,
    ) -> Result<bool, StoreError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.loaded = None;
        f(&inner.db).map_err(failed)
    }
}

const KEYS: &str = "SELECT key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust FROM api_key";

fn load(db: &Connection, version: i64) -> rusqlite::Result<Loaded> {
    let mut query = db.prepare_cached("SELECT tenant_id, created_at, shapes FROM tenant")?;
    let tenants = query
        .query_map([], tenant)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut query = db.prepare_cached(KEYS)?;
    let keys = query
        .query_map([], key)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Loaded {
        version,
        tenants: tenants.into_iter().map(|t| (t.id.clone(), t)).collect(),
        keys: keys.into_iter().map(|k| (k.hash, k)).collect(),
    })
}

fn unreadable(column: usize) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text)
}

fn tenant(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    let id: String = row.get(0)?;
    let shapes: String = row.get(2)?;
    Ok(Tenant {
        id: TenantId::parse(&id).ok_or_else(|| unreadable(0))?,
        created_at: Timestamp(row.get(1)?),
        shapes: shapes.parse().map_err(|_| unreadable(2))?,
    })
}

fn key(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
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
    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.look(|loaded| loaded.tenants.get(id).cloned())
    }

    async fn is_reachable(&self) -> bool {
        self.look(|_| ()).is_ok()
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let damages = verify::rows(&inner.db, &HOST_MIGRATIONS, &SQLITE_HOST)?;
        let sql = "SELECT (SELECT count(*) FROM tenant) + (SELECT count(*) FROM api_key)";
        let count = inner
            .db
            .query_row(sql, [], |row| row.get(0))
            .map_err(failed)?;
        verify::answer(damages, count)
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.look(|loaded| loaded.tenants.values().cloned().collect())
    }

    async fn put_tenant(&self, tenant: &Tenant) -> Result<bool, StoreError> {
        self.change(|db| {
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
        self.look(|loaded| loaded.keys.get(hash).cloned())
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError> {
        let mut keys: Vec<KeyRecord> = self.look(|loaded| {
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
        self.change(|db| {
            let added = db.execute(
                "INSERT INTO api_key (key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (hash) DO NOTHING",
                params![
                    key.id.as_str(),
                    key.tenant.as_str(),
                    key.label,
                    key.hash,
                    written(&key.permissions),
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
        self.change(|db| {
            let set = db.execute(
                "UPDATE api_key SET trust = ?3, permissions = ?4 WHERE tenant_id = ?1 AND key_id = ?2",
                params![tenant.as_str(), id.as_str(), trust.as_str(), written(permissions)],
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
        self.change(|db| {
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
        self.change(|db| {
            let revoked = db.execute(
                "UPDATE api_key SET revoked_at = ?3 WHERE tenant_id = ?1 AND key_id = ?2 AND revoked_at IS NULL",
                params![tenant.as_str(), id.as_str(), at.0],
            )?;
            Ok(revoked == 1)
        })
    }
}
