//! The `Directory` trait: which tenants exist and which keys open them. Keys are known by a keyed
//! hash only.

use crate::store::StoreError;
use async_trait::async_trait;
use remem_core::{Permission, PrincipalId, ShapePolicy, TenantId, Timestamp, Trust, sabotage};

/// The keyed hash of an API key: what is stored and looked up in place of the key itself.
pub type KeyHash = [u8; 32];

/// One tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub id: TenantId,
    /// When it was created.
    pub created_at: Timestamp,
    /// What happens to text shaped like a secret.
    pub shapes: ShapePolicy,
}

/// One key, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its public name.
    pub id: PrincipalId,
    /// Who acts with it. Several keys may be the same principal's.
    pub principal: PrincipalId,
    /// The tenant it opens.
    pub tenant: TenantId,
    /// What a person called it.
    pub label: String,
    /// The keyed hash.
    pub hash: KeyHash,
    /// What it allows.
    pub permissions: Vec<Permission>,
    /// When it was created.
    pub created_at: Timestamp,
    /// From when it is refused.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The most that it may vouch for. `None` for a key made before keys had such a ceiling, and
    /// for a host's first one: those may vouch for everything.
    pub trust: Option<Trust>,
}

impl KeyRecord {
    /// What the key allows now. Linking was part of writing for keys made before it had a scope of
    /// its own; what is stored of them does not name it.
    #[must_use]
    pub fn allows(&self) -> Vec<Permission> {
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

/// Keeps tenants and keys. Small data, read on every request: implementations answer `find_key`
/// from memory.
#[async_trait]
pub trait Directory: Send + Sync {
    /// The tenant, if it exists.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError>;
    /// Whether the storage answers: without it nobody can come in. Quick, and without waiting for a
    /// busy one.
    async fn is_reachable(&self) -> bool;
    /// Checks tenants, keys and the host's other rows against their hashes. Answers how many were
    /// checked; an error says which are damaged.
    async fn verify(&self) -> Result<u64, StoreError>;
    /// All tenants by name.
    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError>;
    /// Creates the tenant, or changes its settings if it exists. Answers whether it is new.
    async fn put_tenant(&self, tenant: &Tenant) -> Result<bool, StoreError>;
    /// The key with this hash, revoked and expired ones included: telling them apart is the
    /// caller's business.
    async fn find_key(&self, hash: &KeyHash) -> Result<Option<KeyRecord>, StoreError>;
    /// The tenant's keys, oldest first.
    async fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRecord>, StoreError>;
    /// Adds a key. A hash that exists already is left as it is and answers `false`.
    async fn add_key(&self, key: &KeyRecord) -> Result<bool, StoreError>;
    /// Sets the most that the tenant's key of that name may vouch for, and writes down what it
    /// allows (see [`KeyRecord::allows`]); `false` if there is no such key.
    async fn set_key_trust(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        trust: Trust,
        permissions: &[Permission],
    ) -> Result<bool, StoreError>;
    /// Calls the tenant's key of that name something else, unless its label is not `was` any more.
    async fn relabel_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        was: &str,
        label: &str,
    ) -> Result<bool, StoreError>;
    /// Revokes the tenant's key of that name; `false` if there is none (left) to revoke.
    async fn revoke_key(
        &self,
        tenant: &TenantId,
        id: &PrincipalId,
        at: Timestamp,
    ) -> Result<bool, StoreError>;
}
