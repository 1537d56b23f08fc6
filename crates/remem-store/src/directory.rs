//! The `Directory` trait: the tenants of a host and their API keys. Only a keyed hash of a key is
//! stored.

use crate::error::StoreError;
use async_trait::async_trait;
use remem_core::{Permission, PrincipalId, ShapePolicy, TenantId, Timestamp, Trust, sabotage};

/// The keyed hash of an API key, which is stored and looked up instead of the key.
pub type KeyHash = [u8; 32];

/// A tenant with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRecord {
    pub id: TenantId,
    pub created_at: Timestamp,
    /// The treatment of text that is shaped like a secret.
    pub shapes: ShapePolicy,
}

/// An API key, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The public name of the key.
    pub id: PrincipalId,
    /// The principal that acts with it. Several keys may belong to one principal.
    pub principal: PrincipalId,
    /// The tenant that it gives access to.
    pub tenant: TenantId,
    /// The name that a person gave it.
    pub label: String,
    pub hash: KeyHash,
    /// The permissions as they are stored; see [`KeyRecord::allows`].
    pub permissions: Vec<Permission>,
    pub created_at: Timestamp,
    /// The instant from which it is refused.
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The highest trust that texts written with it may have. `None` for a key made before keys had
    /// such a ceiling, and for a host's first one: those may claim any trust.
    pub trust: Option<Trust>,
}

impl KeyRecord {
    /// The permissions that the key has now. Linking was part of writing for keys made before it
    /// had a scope of its own; their stored permissions do not contain it.
    #[must_use]
    pub fn effective_permissions(&self) -> Vec<Permission> {
        let mut all = self.permissions.clone();
        let writes = self.trust.is_none() && all.contains(&Permission::MemoryWrite);
        if sabotage!("keys-of-before-link-no-more", writes, false)
            && !all.contains(&Permission::MemoryLink)
        {
            all.push(Permission::MemoryLink);
            all.sort_unstable();
        }
        all
    }
}

/// Stores tenants and keys. Small data, read on every request: implementations answer `find_key`
/// from memory.
#[async_trait]
pub trait Directory: Send + Sync {
    /// Returns the tenant, if it exists.
    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StoreError>;
    /// Returns true if the storage answers; without it no request can be authenticated. Answers
    /// fast, without waiting for a busy storage.
    async fn is_reachable(&self) -> bool;
    /// Checks tenants, keys and the host's other rows against their hashes. Returns the number of
    /// checked rows; an error says which rows are damaged.
    async fn verify(&self) -> Result<u64, StoreError>;
    /// Returns all tenants, sorted by name.
    async fn tenants(&self) -> Result<Vec<TenantRecord>, StoreError>;
    /// Creates the tenant, or changes its settings if it exists. Returns true if it is new.
    async fn put_tenant(&self, tenant: &TenantRecord) -> Result<bool, StoreError>;
    /// Returns the key with this hash, even if it is revoked or expired: the caller has to check
    /// that.
    async fn find_key(&self, hash: &KeyHash) -> Result<Option<KeyRecord>, StoreError>;
    /// Returns the tenant's keys, oldest first.
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError>;
    /// Adds a key. If the hash exists already, nothing changes and the answer is `false`.
    async fn add_key(&self, key: &KeyRecord) -> Result<bool, StoreError>;
    /// Sets the highest trust that the tenant's key with that name may claim, and stores its
    /// permissions (see [`KeyRecord::allows`]); `false` if there is no such key.
    async fn set_key_trust(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        trust: Trust,
        permissions: &[Permission],
    ) -> Result<bool, StoreError>;
    /// Changes the label of the tenant's key with that name from `was` to `label`. Does nothing and
    /// returns `false` if its label is another one by now.
    async fn relabel_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        was: &str,
        label: &str,
    ) -> Result<bool, StoreError>;
    /// Revokes the tenant's key with that name; `false` if there is none or it is revoked already.
    async fn revoke_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        at: Timestamp,
    ) -> Result<bool, StoreError>;
}
