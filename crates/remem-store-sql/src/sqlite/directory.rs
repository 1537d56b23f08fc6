//! The directory of tenants and keys: one small file beside those of the tenants. Owns its
//! statements; `directory_cache` keeps its content in memory.

use super::Location;
use super::connection::{self, HOST_MIGRATIONS, store_error};
use super::directory_cache::{CachedDirectory, DirectoryFile, DirectoryVersion};
use super::row_hash::{self, Backfill};
use super::verify;
use crate::row_hash::SQLITE_HOST;
use crate::stored::permissions_text;
use async_trait::async_trait;
use remem_core::{Permission, PrincipalId, TenantId, Timestamp, Trust};
use remem_store::{Directory, KeyHash, KeyRecord, StoreError, TenantRecord};
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

/// The tenants and keys of a host, in SQLite.
pub struct SqliteDirectory {
    file: Arc<DirectoryFile>,
}

impl SqliteDirectory {
    /// Opens the directory; creates it if it does not exist.
    pub fn open(location: &Location) -> Result<SqliteDirectory, StoreError> {
        connection::check_version()?;
        let mut reader = None;
        let writer = match location {
            Location::Folder(folder) => {
                std::fs::create_dir_all(folder)
                    .map_err(|e| StoreError::Unavailable(Box::new(e)))?;
                let path = folder.join("host.db");
                let writer = connection::writer(&path, &HOST_MIGRATIONS)?;
                reader = Some(connection::reader(&path)?);
                writer
            }
            Location::Memory => connection::in_memory(&HOST_MIGRATIONS)?,
        };
        // The rows are few and small, so those without a hash get one at once.
        while row_hash::backfill(&writer, &SQLITE_HOST, &mut Backfill::default())? {}
        Ok(SqliteDirectory {
            file: Arc::new(DirectoryFile::new(writer, reader)),
        })
    }

    /// Runs a change; returns whether it changed a row.
    async fn change(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<usize> + Send + 'static,
    ) -> Result<bool, StoreError> {
        let changed = self.file.write(move |db| change(db).map_err(store_error));
        Ok(changed.await? == 1)
    }
}

const SELECT_KEYS: &str = "SELECT key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust FROM api_key";

/// Reads all tenants and keys.
pub(super) fn load(
    db: &Connection,
    version: DirectoryVersion,
) -> rusqlite::Result<CachedDirectory> {
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
        Ok(self.file.content().await?.tenants.get(id).cloned())
    }

    async fn is_reachable(&self) -> bool {
        self.file.content().await.is_ok()
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        let work = |db: &Connection| {
            let damages = verify::check_file(db, &HOST_MIGRATIONS, &SQLITE_HOST)?;
            // Of all tenants: the host's own file is checked as a whole.
            let sql = "SELECT (SELECT count(*) FROM tenant) + (SELECT count(*) FROM api_key)";
            let count = db
                .query_row(sql, [], |row| row.get(0))
                .map_err(store_error)?;
            verify::count_or_damages(damages, count)
        };
        self.file.write(work).await
    }

    async fn tenants(&self) -> Result<Vec<TenantRecord>, StoreError> {
        let content = self.file.content().await?;
        Ok(content.tenants.values().cloned().collect())
    }

    async fn put_tenant(&self, tenant: &TenantRecord) -> Result<bool, StoreError> {
        let tenant = tenant.clone();
        self.change(move |db| {
            let shapes = tenant.shapes.to_string();
            let new = db.execute(
                "INSERT INTO tenant (tenant_id, created_at, shapes) VALUES (?1, ?2, ?3) ON CONFLICT (tenant_id) DO NOTHING",
                params![tenant.id.as_str(), tenant.created_at.0, shapes],
            )?;
            if new == 0 {
                db.execute("UPDATE tenant SET shapes = ?2 WHERE tenant_id = ?1", params![tenant.id.as_str(), shapes])?;
            }
            Ok(new)
        })
        .await
    }

    async fn find_key(&self, hash: &KeyHash) -> Result<Option<KeyRecord>, StoreError> {
        Ok(self.file.content().await?.keys.get(hash).cloned())
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError> {
        let content = self.file.content().await?;
        let own = content.keys.values().filter(|key| key.tenant == *tenant);
        let mut keys: Vec<KeyRecord> = own.cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    async fn add_key(&self, key: &KeyRecord) -> Result<bool, StoreError> {
        let key = key.clone();
        self.change(move |db| {
            db.execute(
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
            )
        })
        .await
    }

    async fn set_key_trust(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        trust: Trust,
        permissions: &[Permission],
    ) -> Result<bool, StoreError> {
        let name = (tenant.clone(), id.clone());
        let permissions = permissions_text(permissions);
        self.change(move |db| {
            db.execute(
                "UPDATE api_key SET trust = ?3, permissions = ?4 WHERE tenant_id = ?1 AND key_id = ?2",
                params![name.0.as_str(), name.1.as_str(), trust.as_str(), permissions],
            )
        })
        .await
    }

    async fn relabel_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        was: &str,
        label: &str,
    ) -> Result<bool, StoreError> {
        let name = (tenant.clone(), id.clone());
        let was = was.to_owned();
        let label = label.to_owned();
        self.change(move |db| {
            db.execute(
                "UPDATE api_key SET label = ?4 WHERE tenant_id = ?1 AND key_id = ?2 AND label = ?3",
                params![name.0.as_str(), name.1.as_str(), was, label],
            )
        })
        .await
    }

    async fn revoke_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let name = (tenant.clone(), id.clone());
        self.change(move |db| {
            db.execute(
                "UPDATE api_key SET revoked_at = ?3 WHERE tenant_id = ?1 AND key_id = ?2 AND revoked_at IS NULL",
                params![name.0.as_str(), name.1.as_str(), at.0],
            )
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::ShapePolicy;
    use std::path::Path;
    use std::sync::atomic::Ordering;

    fn tenant() -> TenantRecord {
        TenantRecord {
            id: TenantId::parse("t").unwrap(),
            created_at: Timestamp(1),
            shapes: ShapePolicy::Off,
        }
    }

    fn key(number: u8) -> KeyRecord {
        let id = PrincipalId::parse(&format!("k{number}")).unwrap();
        KeyRecord {
            principal: id.clone(),
            id,
            tenant: tenant().id,
            label: String::new(),
            hash: [number; 32],
            permissions: Vec::new(),
            created_at: Timestamp(1),
            expires_at: None,
            revoked_at: None,
            trust: None,
        }
    }

    fn open(folder: &Path) -> SqliteDirectory {
        SqliteDirectory::open(&Location::Folder(folder.to_owned())).unwrap()
    }

    async fn revoked_at(directory: &SqliteDirectory) -> Option<Timestamp> {
        let found = directory.find_key(&[1; 32]).await.unwrap();
        found.expect("the key exists").revoked_at
    }

    /// Lookups are answered from memory until a handle, this one or another one, has changed the
    /// file; then at once from what it holds now.
    #[tokio::test]
    async fn lookups_read_the_file_only_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let other = open(folder.path());
        for (directory, is_shared) in [
            (open(folder.path()), true),
            (SqliteDirectory::open(&Location::Memory).unwrap(), false),
        ] {
            directory.put_tenant(&tenant()).await.unwrap();
            directory.add_key(&key(1)).await.unwrap();
            let before = directory.file.loads.load(Ordering::SeqCst);
            for _ in 0..50 {
                assert_eq!(revoked_at(&directory).await, None);
                assert!(directory.tenant(&tenant().id).await.unwrap().is_some());
            }
            assert_eq!(directory.file.loads.load(Ordering::SeqCst), before + 1);
            let revoking = if is_shared { &other } else { &directory };
            let first_key = key(1);
            let revoked = revoking.revoke_key(&first_key.tenant, &first_key.id, Timestamp(5));
            assert!(revoked.await.unwrap());
            assert_eq!(revoked_at(&directory).await, Some(Timestamp(5)));
        }
    }

    /// A change that waits for another process, or for the disk, holds up neither lookups nor the
    /// thread that async tasks run on: this test has one.
    #[tokio::test]
    async fn lookups_continue_while_a_change_waits() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path());
        directory.put_tenant(&tenant()).await.unwrap();
        directory.add_key(&key(1)).await.unwrap();
        let other = Connection::open(folder.path().join("host.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let second_key = key(2);
        let change = directory.add_key(&second_key);
        let lookups = async {
            for _ in 0..50 {
                assert_eq!(revoked_at(&directory).await, None);
            }
            other.execute_batch("COMMIT").unwrap();
        };
        let (added, ()) = tokio::join!(change, lookups);
        assert!(added.unwrap(), "the change got its turn");
    }
}
