//! Tenants and API keys: who may authenticate, and with which permissions. Keys are shown once and
//! stored as keyed hashes.

use crate::caller::{Caller, Credential};
use crate::engine::Engine;
use crate::error::{AuthError, EngineError};
use crate::registry::PassFailures;
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{Permission, PrincipalId, Rejection, ShapePolicy, TenantId, Timestamp, Trust};
use remem_store::{KeyHash, KeyRecord, StoreError, TenantRecord};
use zeroize::Zeroizing;

/// The result of creating a key: the only time that its text is available.
pub struct NewKey {
    /// The text of the key.
    pub text: Zeroizing<String>,
    /// The stored record of the key.
    pub record: KeyRecord,
}

/// The properties of a key to be created.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// The tenant of the key; created if it does not exist.
    pub tenant: TenantId,
    /// A label for people.
    pub label: String,
    /// The permissions of the key.
    pub permissions: Vec<Permission>,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// The user that acts with the key; the key itself if absent.
    pub principal: Option<PrincipalId>,
    /// The highest trust that the key may claim for its writes. If absent, a key created by a
    /// caller gets the default trust of that caller, and one that the host creates itself has no
    /// limit.
    pub trust: Option<Trust>,
}

/// The identity and rights of a caller, as its key or token proved them.
#[derive(Clone, Debug)]
pub struct Whoami {
    /// The only tenant whose data it can reach.
    pub tenant: TenantId,
    /// The user that it acts as.
    pub principal: PrincipalId,
    /// The permissions of its key or token.
    pub permissions: Vec<Permission>,
    /// The highest trust that its writes may claim; `None` where no limit was set.
    pub trust: Option<Trust>,
    /// The id of its key; absent for a token.
    pub key: Option<PrincipalId>,
    /// When the key or token expires, if known.
    pub until: Option<Timestamp>,
}

/// Characters of a label, at most.
pub const LABEL_CHARS_MAX: usize = 100;
/// The user of commands that open the data themselves.
const LOCAL_PRINCIPAL: &str = "local";

/// Whether a name is one that the host itself acts under, which no caller may have.
pub(crate) fn is_reserved_principal(name: &str) -> bool {
    name == LOCAL_PRINCIPAL || name == crate::commitments::firing::HOST
}

impl Engine {
    /// The keyed hash under which a key is stored.
    fn key_hash(&self, text: &str) -> KeyHash {
        *blake3::keyed_hash(
            &self.parts.host_key.derive("remembrancer api key v1"),
            text.as_bytes(),
        )
        .as_bytes()
    }

    /// Authenticates a key or a token. A text that is shaped like a token is treated as one, where
    /// tokens are accepted.
    pub async fn authenticate(&self, text: &str) -> Result<Caller, AuthError> {
        if let Some(caller) = self.caller_by_token(text).await {
            return caller;
        }
        self.caller_of_key(self.key_hash(text)).await
    }

    /// Checks that the caller's key or token is still valid. Long streams end when it is not.
    pub async fn check_still_valid(&self, caller: &Caller) -> Result<(), AuthError> {
        match &caller.credential {
            Credential::Local | Credential::LocalAllUsers => Ok(()),
            Credential::Key(hash) => self.caller_of_key(*hash).await.map(|_| ()),
            Credential::Token { until, key } => self.token_still_valid(*until, key).await,
        }
    }

    /// The caller that a key identifies.
    async fn caller_of_key(&self, hash: KeyHash) -> Result<Caller, AuthError> {
        let found = self
            .parts
            .directory
            .find_key(&hash)
            .await
            .map_err(|_| AuthError::Unavailable)?;
        // The lookup compared keyed hashes, which an attacker cannot choose; this comparison takes
        // constant time nevertheless.
        let record = found
            .filter(|r| blake3::Hash::from_bytes(r.hash) == blake3::Hash::from_bytes(hash))
            .ok_or(AuthError::Unknown)?;
        if sabotage!("revoked-keys-work", record.revoked_at.is_some(), false) {
            return Err(AuthError::Revoked);
        }
        if record.expires_at.is_some_and(|end| end <= self.now()) {
            return Err(AuthError::Expired);
        }
        let tenant = self
            .parts
            .directory
            .tenant(&record.tenant)
            .await
            .map_err(|_| AuthError::Unavailable)?
            .ok_or(AuthError::Unknown)?;
        Ok(Caller {
            permissions: record.effective_permissions(),
            tenant: record.tenant,
            principal: sabotage!(
                "a-key-acts-as-itself-whatever-it-was-made-for",
                record.principal,
                record.id
            ),
            trust: record.trust,
            shapes: tenant.shapes,
            credential: Credential::Key(hash),
        })
    }

    /// A caller with every permission inside `tenant`, for local commands.
    pub async fn local_caller(&self, tenant: &TenantId) -> Result<Caller, EngineError> {
        let found = self
            .parts
            .directory
            .tenant(tenant)
            .await?
            .ok_or(EngineError::NotFound("tenant"))?;
        let principal = PrincipalId::parse(LOCAL_PRINCIPAL).expect("a valid name");
        Ok(Caller {
            tenant: found.id,
            principal,
            permissions: Permission::ALL.to_vec(),
            trust: Some(Trust::Operator),
            shapes: found.shapes,
            credential: Credential::Local,
        })
    }

    /// A caller that reads the memories of all users of `tenant` and changes nothing, for local
    /// commands that export all data.
    pub async fn local_reader_of_all_users(
        &self,
        tenant: &TenantId,
    ) -> Result<Caller, EngineError> {
        Ok(Caller {
            permissions: vec![Permission::MemoryRead],
            credential: Credential::LocalAllUsers,
            ..self.local_caller(tenant).await?
        })
    }

    /// Returns what the caller's key or token proved. It needs no permission, since it returns only
    /// the caller's own identity.
    pub async fn whoami(&self, caller: &Caller) -> Result<Whoami, EngineError> {
        let record = match &caller.credential {
            Credential::Key(hash) => self.parts.directory.find_key(hash).await?,
            _ => None,
        };
        let until = match &caller.credential {
            Credential::Token { until, .. } => Some(*until),
            _ => record.as_ref().and_then(|record| record.expires_at),
        };
        Ok(Whoami {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            permissions: caller.permissions.clone(),
            trust: caller.trust,
            key: record.map(|record| record.id),
            until,
        })
    }

    /// Creates a tenant or changes its settings, and returns whether it is new.
    pub async fn put_tenant(
        &self,
        caller: &Caller,
        id: &str,
        shapes: ShapePolicy,
    ) -> Result<bool, EngineError> {
        caller.require(Permission::HostAdmin)?;
        let id = TenantId::parse(id).ok_or(Rejection::MalformedName { field: "tenant" })?;
        self.check_no_secret("tenant", &id, id.as_str()).await?;
        self.ensure_tenant(id, shapes).await
    }

    /// Creates a tenant as `put_tenant` does, for the host itself.
    pub async fn ensure_tenant(
        &self,
        id: TenantId,
        shapes: ShapePolicy,
    ) -> Result<bool, EngineError> {
        Ok(self
            .parts
            .directory
            .put_tenant(&TenantRecord {
                id,
                created_at: self.now(),
                shapes,
            })
            .await?)
    }

    /// Lists all tenants; for administrators of the host.
    pub async fn list_tenants(&self, caller: &Caller) -> Result<Vec<TenantRecord>, EngineError> {
        caller.require(Permission::HostAdmin)?;
        Ok(self.parts.directory.tenants().await?)
    }

    /// Creates a key: for the caller's own tenant with `keys:manage`, for every tenant with
    /// `host:admin`. A caller can never grant a permission it does not have, nor more trust than
    /// its own.
    pub async fn create_key(
        &self,
        caller: &Caller,
        mut request: KeyRequest,
    ) -> Result<NewKey, EngineError> {
        self.require_key_management(caller, &request.tenant)?;
        let beyond = |p: &&Permission| {
            sabotage!(
                "keys-give-more-than-they-have",
                !caller.has_permission(**p),
                false
            )
        };
        if let Some(beyond) = request.permissions.iter().find(beyond) {
            return Err(EngineError::Forbidden(*beyond));
        }
        let trust = request.trust.unwrap_or_else(|| caller.default_trust());
        sabotage!(
            "keys-vouch-for-more-than-their-maker",
            caller.check_trust(trust)?
        );
        request.trust = Some(trust);
        let text = self.parts.ids.api_key();
        let record = self
            .add_key(&text, request)
            .await?
            .ok_or_else(|| StoreError::Damaged("a fresh key exists already"))?;
        Ok(NewKey { text, record })
    }

    /// Stores a given key, for the host itself; `None` if it exists already.
    pub async fn add_key(
        &self,
        text: &str,
        request: KeyRequest,
    ) -> Result<Option<KeyRecord>, EngineError> {
        if request.permissions.is_empty() {
            return Err(Rejection::Empty { field: "scopes" }.into());
        }
        // Check this first: a host must start with the key it was given before, even if it cannot
        // open a vault.
        if self
            .parts
            .directory
            .find_key(&self.key_hash(text))
            .await?
            .is_some()
        {
            return Ok(None);
        }
        if request.label.chars().count() > LABEL_CHARS_MAX
            || request.label.chars().any(char::is_control)
        {
            return Err(Rejection::Invalid {
                field: "label",
                rule: "must be at most 100 characters without control characters",
            }
            .into());
        }
        self.check_no_secret("label", &request.tenant, &request.label)
            .await?;
        self.check_no_secret("tenant", &request.tenant, request.tenant.as_str())
            .await?;
        if let Some(principal) = &request.principal {
            if sabotage!(
                "a-key-takes-the-host-s-name",
                is_reserved_principal(principal.as_str()),
                false
            ) {
                return Err(Rejection::Invalid {
                    field: "principal",
                    rule: "must not be a name reserved for the host",
                }
                .into());
            }
            self.check_no_secret("principal", &request.tenant, principal.as_str())
                .await?;
        }
        if request.expires_at.is_some_and(|end| end <= self.now()) {
            return Err(Rejection::AlreadyExpired.into());
        }
        if self
            .parts
            .directory
            .tenant(&request.tenant)
            .await?
            .is_none()
        {
            self.ensure_tenant(request.tenant.clone(), self.parts.policy.shapes)
                .await?;
        }
        let mut permissions = request.permissions;
        permissions.sort_unstable();
        permissions.dedup();
        let id = self.parts.ids.key();
        let record = KeyRecord {
            principal: request.principal.unwrap_or_else(|| id.clone()),
            id,
            tenant: request.tenant,
            label: request.label,
            hash: self.key_hash(text),
            permissions,
            created_at: self.now(),
            expires_at: request.expires_at,
            revoked_at: None,
            trust: request.trust,
        };
        Ok(self
            .parts
            .directory
            .add_key(&record)
            .await?
            .then_some(record))
    }

    /// Fails if a label or name holds a secret: they are stored in clear.
    async fn check_no_secret(
        &self,
        field: &'static str,
        tenant: &TenantId,
        name: &str,
    ) -> Result<(), EngineError> {
        Ok(check_name(
            self.redaction_rules(tenant).await?.redactor(),
            field,
            name,
        )?)
    }

    /// Lists the keys of a tenant.
    pub async fn list_keys(
        &self,
        caller: &Caller,
        tenant: &TenantId,
    ) -> Result<Vec<KeyRecord>, EngineError> {
        self.require_key_management(caller, tenant)?;
        let mut keys = self.parts.directory.keys(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, self.now());
        for key in &mut keys {
            let redacted = admission.redact_short_text(&key.label);
            sabotage!("late-secrets-show-in-labels-of-keys", key.label = redacted);
        }
        Ok(keys)
    }

    /// Sets the highest trust that a key may claim, which is never more than the caller's. Returns
    /// the key's new record.
    pub async fn set_key_trust(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        id: &str,
        trust: Trust,
    ) -> Result<KeyRecord, EngineError> {
        self.require_key_management(caller, tenant)?;
        sabotage!("keys-are-raised-by-lower-ones", caller.check_trust(trust)?);
        let directory = &self.parts.directory;
        let find = async || -> Result<KeyRecord, EngineError> {
            let keys = directory.keys(tenant).await?;
            let found = keys.into_iter().find(|key| key.id.as_str() == id);
            found.ok_or(EngineError::NotFound("key"))
        };
        let key = find().await?;
        // A key from before limits of trust may link actions because it may write. From now on it
        // has that permission explicitly.
        let permissions = sabotage!(
            "a-lowered-key-links-no-more",
            key.effective_permissions(),
            key.permissions.clone()
        );
        directory
            .set_key_trust(tenant, &key.id, trust, &permissions)
            .await?;
        find().await
    }

    /// Lists the usable keys of all tenants that have no limit of trust; for the host's operator.
    pub async fn list_keys_without_trust(&self) -> Result<Vec<KeyRecord>, EngineError> {
        let mut found = Vec::new();
        let now = self.now();
        for tenant in self.parts.directory.tenants().await? {
            let keys = self.parts.directory.keys(&tenant.id).await?;
            found.extend(keys.into_iter().filter(|key| {
                key.trust.is_none()
                    && key.revoked_at.is_none()
                    && key.expires_at.is_none_or(|end| now < end)
            }));
        }
        Ok(found)
    }

    /// Revokes a key with immediate effect.
    pub async fn revoke_key(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        id: &str,
    ) -> Result<(), EngineError> {
        self.require_key_management(caller, tenant)?;
        let id = PrincipalId::parse(id).ok_or(EngineError::NotFound("key"))?;
        let revoked = self
            .parts
            .directory
            .revoke_key(tenant, &id, self.now())
            .await?;
        if revoked {
            Ok(())
        } else {
            Err(EngineError::NotFound("key"))
        }
    }

    /// Whether the directory of tenants and keys can be read: without it, no caller can
    /// authenticate.
    pub async fn is_reachable(&self) -> bool {
        self.parts.directory.is_reachable().await
    }

    /// The failures of background work in this process.
    #[must_use]
    pub fn background_failures(&self) -> PassFailures {
        let damaged = self.parts.store.damaged_tenants();
        self.pass_log.failures(self.now(), &damaged)
    }

    /// Verifies every tenant's data against its hashes; for the host's operator.
    pub async fn verify_all(
        &self,
    ) -> Result<Vec<(TenantId, Result<u64, StoreError>)>, EngineError> {
        let mut results = Vec::new();
        for tenant in self.parts.directory.tenants().await? {
            self.now_for(&tenant.id).await.ok();
            let result = self.parts.store.verify(&tenant.id).await;
            results.push((tenant.id, result));
        }
        Ok(results)
    }

    /// Verifies tenants, keys and the host's other rows against their hashes, and returns their
    /// number; for the host's operator.
    pub async fn verify_host(&self) -> Result<u64, StoreError> {
        self.parts.directory.verify().await
    }

    /// Number of rows of all tenants without a hash, because an earlier version wrote them.
    pub async fn count_unhashed_rows(&self) -> Result<u64, EngineError> {
        let mut count = 0;
        for tenant in self.parts.directory.tenants().await? {
            count += self.parts.store.count_rows_without_hash(&tenant.id).await?;
        }
        Ok(count)
    }

    /// Fails unless the caller may manage keys of the tenant.
    fn require_key_management(
        &self,
        caller: &Caller,
        tenant: &TenantId,
    ) -> Result<(), EngineError> {
        if caller.has_permission(Permission::HostAdmin) {
            return Ok(());
        }
        caller.require(Permission::KeysManage)?;
        // Another tenant gets the same answer as a missing permission, whether or not it exists.
        if caller.tenant() == tenant {
            Ok(())
        } else {
            Err(EngineError::Forbidden(Permission::HostAdmin))
        }
    }
}
