//! Tenants and keys in PostgreSQL. They are read on every request, so they are cached briefly:
//! until another node announces a change, and never longer than a second.

use super::gate::{Identity, Role, sql_call};
use super::monitor;
use super::rows::{get, get_bytes};
use super::shared::NodeState;
use crate::stored::permissions_text;
use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::{Permission, PrincipalId, TenantId, Timestamp, Trust};
use remem_store::{Directory, KeyHash, KeyRecord, StoreError, TenantRecord};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// The longest time that a key can outlive its revocation on another node, should the notification
/// be lost.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// The most keys, and the most tenants, in the cache.
const CACHE_MAX: usize = 10_000;

/// The directory of tenants and keys.
pub struct PostgresDirectory {
    shared: Arc<NodeState>,
    keys: DirectoryCache<KeyHash, KeyRecord>,
    tenants: DirectoryCache<TenantId, TenantRecord>,
}

/// A cache: values with the version of the directory that they were read from, and the instant
/// until which they may be used.
struct DirectoryCache<K, V>(Mutex<HashMap<K, (u64, Instant, V)>>);

impl<K: std::hash::Hash + Eq + Clone, V: Clone> DirectoryCache<K, V> {
    fn get(&self, shared: &NodeState, key: &K) -> Option<V> {
        // Without the monitor's connection this node would not learn of a change.
        if !shared.health().is_answering() {
            return None;
        }
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, until, value) = cached.get(key)?;
        (*version == shared.directory_version.load(Ordering::SeqCst) && Instant::now() < *until)
            .then(|| value.clone())
    }

    /// Stores a value; `version` is the directory's version before the value was read.
    fn put(&self, version: u64, key: &K, value: &V) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CACHE_MAX {
            cached.clear();
        }
        cached.insert(
            key.clone(),
            (version, Instant::now() + CACHE_TTL, value.clone()),
        );
    }
}

impl PostgresDirectory {
    pub(super) fn new(shared: Arc<NodeState>) -> PostgresDirectory {
        PostgresDirectory {
            shared,
            keys: DirectoryCache(Mutex::default()),
            tenants: DirectoryCache(Mutex::default()),
        }
    }

    fn version(&self) -> u64 {
        self.shared.directory_version.load(Ordering::SeqCst)
    }

    /// Runs a change and notifies the other nodes in the same transaction. Returns the rows of the
    /// change's `RETURNING`.
    async fn write(
        &self,
        who: Identity<'_>,
        change: super::gate::SqlCall<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let notify = sql_call("SELECT pg_notify($1, '')", &[&monitor::DIRECTORY]);
        let mut results = self
            .shared
            .gate
            .write(Role::App, who, vec![change, notify])
            .await?;
        self.shared.directory_version.fetch_add(1, Ordering::SeqCst);
        Ok(results.remove(0))
    }
}

fn unreadable() -> StoreError {
    StoreError::Damaged("a tenant or key cannot be read")
}

fn read_tenant(row: &Row) -> Result<TenantRecord, StoreError> {
    Ok(TenantRecord {
        id: TenantId::parse(get(row, 0)?).ok_or_else(unreadable)?,
        created_at: Timestamp(get(row, 1)?),
        shapes: get::<&str>(row, 2)?.parse().map_err(|_| unreadable())?,
    })
}

// Of all tenants for a key that is presented; else the tenant is bound where this is used.
const SELECT_KEY: &str = "SELECT key_id, tenant_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust FROM remem.api_key";

fn read_key(row: &Row) -> Result<KeyRecord, StoreError> {
    let permissions = get::<&str>(row, 4)?
        .split_whitespace()
        .map(str::parse::<Permission>)
        .collect::<Result<Vec<_>, _>>();
    Ok(KeyRecord {
        id: PrincipalId::parse(get(row, 0)?).ok_or_else(unreadable)?,
        principal: PrincipalId::parse(get(row, 8)?).ok_or_else(unreadable)?,
        tenant: TenantId::parse(get(row, 1)?).ok_or_else(unreadable)?,
        label: get(row, 2)?,
        hash: get_bytes(row, 3)?,
        permissions: permissions.map_err(|_| unreadable())?,
        created_at: Timestamp(get(row, 5)?),
        expires_at: get::<Option<i64>>(row, 6)?.map(Timestamp),
        revoked_at: get::<Option<i64>>(row, 7)?.map(Timestamp),
        trust: get::<Option<&str>>(row, 9)?
            .map(|name| name.parse().map_err(|_| unreadable()))
            .transpose()?,
    })
}

#[async_trait]
impl Directory for PostgresDirectory {
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StoreError> {
        if let Some(found) = self.tenants.get(&self.shared, id) {
            return Ok(Some(found));
        }
        let version = self.version();
        let sql = "SELECT tenant_id, created_at, shapes FROM remem.tenant WHERE tenant_id = $1";
        let rows = self
            .shared
            .gate
            .read(Role::App, Identity::host_for(id), sql, &[&id.as_str()])
            .await?;
        let found = rows.first().map(read_tenant).transpose()?;
        if let Some(found) = &found {
            self.tenants.put(version, id, found);
        }
        Ok(found)
    }

    async fn is_reachable(&self) -> bool {
        sabotage!(
            "postgres-ready-without-a-database",
            self.shared.health().is_answering(),
            true
        )
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        self.shared.gate.verify_host().await
    }

    async fn tenants(&self) -> Result<Vec<TenantRecord>, StoreError> {
        let sql = "SELECT tenant_id, created_at, shapes FROM remem.tenant ORDER BY tenant_id";
        self.shared
            .gate
            .read(Role::App, Identity::host(), sql, &[])
            .await?
            .iter()
            .map(read_tenant)
            .collect()
    }

    async fn put_tenant(&self, tenant: &TenantRecord) -> Result<bool, StoreError> {
        // xmax is 0 for a row that this statement inserted.
        let sql = "INSERT INTO remem.tenant (tenant_id, created_at, shapes) VALUES ($1, $2, $3)
                   ON CONFLICT (tenant_id) DO UPDATE SET shapes = excluded.shapes RETURNING xmax = 0";
        let id = tenant.id.as_str();
        let shapes = tenant.shapes.to_string();
        let rows = self
            .write(
                Identity::host(),
                sql_call(sql, &[&id, &tenant.created_at.0, &shapes]),
            )
            .await?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }

    async fn find_key(&self, hash: &KeyHash) -> Result<Option<KeyRecord>, StoreError> {
        if let Some(found) = self.keys.get(&self.shared, hash) {
            return Ok(Some(found));
        }
        let version = self.version();
        let sql = format!("{SELECT_KEY} WHERE hash = $1 ORDER BY created_at, tenant_id LIMIT 1");
        let rows = self
            .shared
            .gate
            .read(Role::App, Identity::key(hash), &sql, &[&hash.as_slice()])
            .await?;
        let found = rows.first().map(read_key).transpose()?;
        if let Some(found) = &found {
            self.keys.put(version, hash, found);
        }
        Ok(found)
    }

    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError> {
        let sql = format!("{SELECT_KEY} WHERE tenant_id = $1 ORDER BY created_at, key_id");
        self.shared
            .gate
            .read(
                Role::App,
                Identity::tenant(tenant),
                &sql,
                &[&tenant.as_str()],
            )
            .await?
            .iter()
            .map(read_key)
            .collect()
    }

    async fn add_key(&self, key: &KeyRecord) -> Result<bool, StoreError> {
        let sql = "INSERT INTO remem.api_key (tenant_id, key_id, label, hash, permissions, created_at, expires_at, revoked_at, principal, trust)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant_id, hash) DO NOTHING RETURNING key_id";
        let permissions = permissions_text(&key.permissions);
        let trust = key.trust.map(Trust::as_str);
        let tenant = key.tenant.as_str();
        let id = key.id.as_str();
        let hash = key.hash.as_slice();
        let principal = key.principal.as_str();
        let expires_at = key.expires_at.map(|t| t.0);
        let revoked_at = key.revoked_at.map(|t| t.0);
        let label = &key.label;
        let created_at = key.created_at.0;
        let change = sql_call(
            sql,
            &[
                &tenant,
                &id,
                label,
                &hash,
                &permissions,
                &created_at,
                &expires_at,
                &revoked_at,
                &principal,
                &trust,
            ],
        );
        Ok(!self
            .write(Identity::tenant(&key.tenant), change)
            .await?
            .is_empty())
    }

    async fn set_key_trust(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        trust: Trust,
        permissions: &[Permission],
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE remem.api_key SET trust = $3, permissions = $4 WHERE tenant_id = $1 AND key_id = $2 RETURNING key_id";
        let name = tenant.as_str();
        let id = id.as_str();
        let trust = trust.as_str();
        let permissions = permissions_text(permissions);
        let change = sql_call(sql, &[&name, &id, &trust, &permissions]);
        Ok(!self
            .write(Identity::tenant(tenant), change)
            .await?
            .is_empty())
    }

    async fn relabel_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        was: &str,
        label: &str,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE remem.api_key SET label = $4 WHERE tenant_id = $1 AND key_id = $2 AND label = $3 RETURNING key_id";
        let name = tenant.as_str();
        let id = id.as_str();
        Ok(!self
            .write(
                Identity::tenant(tenant),
                sql_call(sql, &[&name, &id, &was, &label]),
            )
            .await?
            .is_empty())
    }

    async fn revoke_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE remem.api_key SET revoked_at = $3 WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL RETURNING key_id";
        let name = tenant.as_str();
        let id = id.as_str();
        Ok(!self
            .write(
                Identity::tenant(tenant),
                sql_call(sql, &[&name, &id, &at.0]),
            )
            .await?
            .is_empty())
    }
}
