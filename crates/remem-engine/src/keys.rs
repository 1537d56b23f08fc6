//! Tenants and keys: who may come in, and with which rights. Keys are shown once and kept as keyed
//! hashes.

use crate::caller::{Caller, Proof};
use crate::engine::Engine;
use crate::error::{Denied, EngineError};
use crate::registry::Failing;
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{Permission, PrincipalId, Rejection, ShapePolicy, TenantId, Timestamp, Trust};
use remem_store::{KeyHash, KeyRecord, StoreError, Tenant};
use zeroize::Zeroizing;

/// A key that was just made: the only time its text is seen.
pub struct NewKey {
    /// The key.
    pub text: Zeroizing<String>,
    /// What is kept of it.
    pub record: KeyRecord,
}

/// What a new key should be.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// The tenant it opens; created if it does not exist.
    pub tenant: TenantId,
    /// What a person calls it.
    pub label: String,
    /// What it allows.
    pub permissions: Vec<Permission>,
    /// From when it is refused.
    pub expires_at: Option<Timestamp>,
    /// Who acts with it; the key itself if absent.
    pub principal: Option<PrincipalId>,
    /// The most that it may vouch for. Absent, a caller's new key gets `model`, and one that the
    /// host makes itself has no ceiling.
    pub trust: Option<Trust>,
}

/// Who a caller is, as its key or token proved.
#[derive(Clone, Debug)]
pub struct Whoami {
    /// The tenant whose memory it reaches, the only one.
    pub tenant: TenantId,
    /// The user it acts as.
    pub principal: PrincipalId,
    /// What it may do.
    pub permissions: Vec<Permission>,
    /// The most that it may vouch for; `None` where nobody said, which is everything.
    pub trust: Option<Trust>,
    /// The id of its key; a token has none.
    pub key: Option<PrincipalId>,
    /// From when it is refused, if that is known.
    pub until: Option<Timestamp>,
}

const LABEL_CHARS_MAX: usize = 100;
/// Who acts in commands that open the data themselves.
const LOCAL: &str = "local";

/// Names that the host itself acts under: nobody from outside is called so.
pub(crate) fn is_of_the_host(name: &str) -> bool {
    name == LOCAL || name == crate::commitments::fire::HOST
}

impl Engine {
    fn key_hash(&self, text: &str) -> KeyHash {
        *blake3::keyed_hash(
            &self.parts.key.derive("remembrancer api key v1"),
            text.as_bytes(),
        )
        .as_bytes()
    }

    /// Who holds this key, or whom this token proves. What is shaped like a token is one, where
    /// tokens are accepted.
    pub async fn authenticate(&self, text: &str) -> Result<Caller, Denied> {
        if let Some(caller) = self.caller_by_token(text).await {
            return caller;
        }
        self.caller_of(self.key_hash(text)).await
    }

    /// Whether the caller's key or token is still good: what ends a long stream when it is not.
    pub async fn still_valid(&self, caller: &Caller) -> Result<(), Denied> {
        match &caller.proof {
            Proof::Local | Proof::LocalForAll => Ok(()),
            Proof::Key(hash) => self.caller_of(*hash).await.map(|_| ()),
            Proof::Token { until, key } => self.token_still_valid(*until, key).await,
        }
    }

    async fn caller_of(&self, hash: KeyHash) -> Result<Caller, Denied> {
        let found = self
            .parts
            .directory
            .find_key(&hash)
            .await
            .map_err(|_| Denied::Unavailable)?;
        // The lookup compared keyed hashes, which an outsider cannot steer; this comparison takes
        // the same time anyway.
        let record = found
            .filter(|r| blake3::Hash::from_bytes(r.hash) == blake3::Hash::from_bytes(hash))
            .ok_or(Denied::Unknown)?;
        if sabotage!("revoked-keys-work", record.revoked_at.is_some(), false) {
            return Err(Denied::Revoked);
        }
        if record.expires_at.is_some_and(|end| end <= self.now()) {
            return Err(Denied::Expired);
        }
        let tenant = self
            .parts
            .directory
            .tenant(&record.tenant)
            .await
            .map_err(|_| Denied::Unavailable)?
            .ok_or(Denied::Unknown)?;
        Ok(Caller {
            permissions: record.allows(),
            tenant: record.tenant,
            principal: sabotage!(
                "a-key-acts-as-itself-whatever-it-was-made-for",
                record.principal,
                record.id
            ),
            trust: record.trust,
            shapes: tenant.shapes,
            proof: Proof::Key(hash),
        })
    }

    /// A caller with every right inside `tenant`, for commands that open the data themselves.
    pub async fn local_caller(&self, tenant: &TenantId) -> Result<Caller, EngineError> {
        let found = self
            .parts
            .directory
            .tenant(tenant)
            .await?
            .ok_or(EngineError::NotFound("tenant"))?;
        let principal = PrincipalId::parse(LOCAL).expect("a valid name");
        Ok(Caller {
            tenant: found.id,
            principal,
            permissions: Permission::ALL.to_vec(),
            trust: Some(Trust::Operator),
            shapes: found.shapes,
            proof: Proof::Local,
        })
    }

    /// A caller who reads the memories of all users of `tenant` and changes nothing, for commands
    /// that open the data themselves and carry all of it elsewhere.
    pub async fn local_reader_of_all(&self, tenant: &TenantId) -> Result<Caller, EngineError> {
        Ok(Caller {
            permissions: vec![Permission::MemoryRead],
            proof: Proof::LocalForAll,
            ..self.local_caller(tenant).await?
        })
    }

    /// What the caller's key or token proved. Needs no scope: it tells callers of themselves alone.
    pub async fn whoami(&self, caller: &Caller) -> Result<Whoami, EngineError> {
        let record = match &caller.proof {
            Proof::Key(hash) => self.parts.directory.find_key(hash).await?,
            _ => None,
        };
        let until = match &caller.proof {
            Proof::Token { until, .. } => Some(*until),
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

    /// Creates a tenant or changes its settings; answers whether it is new.
    pub async fn put_tenant(
        &self,
        caller: &Caller,
        id: &str,
        shapes: ShapePolicy,
    ) -> Result<bool, EngineError> {
        caller.require(Permission::HostAdmin)?;
        let id = TenantId::parse(id).ok_or(Rejection::MalformedName { field: "tenant" })?;
        self.no_secret_in("tenant", &id, id.as_str()).await?;
        self.ensure_tenant(id, shapes).await
    }

    /// As `put_tenant`, for the host itself.
    pub async fn ensure_tenant(
        &self,
        id: TenantId,
        shapes: ShapePolicy,
    ) -> Result<bool, EngineError> {
        Ok(self
            .parts
            .directory
            .put_tenant(&Tenant {
                id,
                created_at: self.now(),
                shapes,
            })
            .await?)
    }

    /// All tenants.
    pub async fn tenants(&self, caller: &Caller) -> Result<Vec<Tenant>, EngineError> {
        caller.require(Permission::HostAdmin)?;
        Ok(self.parts.directory.tenants().await?)
    }

    /// Makes a key. A caller reaches its own tenant with `keys:manage` and every tenant with
    /// `host:admin`, and can never give a right it does not hold, nor more trust than its own.
    pub async fn create_key(
        &self,
        caller: &Caller,
        mut request: KeyRequest,
    ) -> Result<NewKey, EngineError> {
        self.may_manage(caller, &request.tenant)?;
        let beyond =
            |p: &&Permission| sabotage!("keys-give-more-than-they-have", !caller.may(**p), false);
        if let Some(beyond) = request.permissions.iter().find(beyond) {
            return Err(EngineError::Forbidden(*beyond));
        }
        let trust = request.trust.unwrap_or_else(|| caller.own_trust());
        sabotage!("keys-vouch-for-more-than-their-maker", caller.vouch(trust)?);
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
        // A host starts with the key it was given before, even if it cannot open a vault.
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
        self.no_secret_in("label", &request.tenant, &request.label)
            .await?;
        self.no_secret_in("tenant", &request.tenant, request.tenant.as_str())
            .await?;
        if let Some(principal) = &request.principal {
            if sabotage!(
                "a-key-takes-the-host-s-name",
                is_of_the_host(principal.as_str()),
                false
            ) {
                return Err(Rejection::Invalid {
                    field: "principal",
                    rule: "must not be a name reserved for the host",
                }
                .into());
            }
            self.no_secret_in("principal", &request.tenant, principal.as_str())
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

    /// Labels and the names of tenants and principals are stored in clear, like every name.
    async fn no_secret_in(
        &self,
        field: &'static str,
        tenant: &TenantId,
        name: &str,
    ) -> Result<(), EngineError> {
        Ok(check_name(
            self.rules(tenant).await?.redactor(),
            field,
            name,
        )?)
    }

    /// The keys of a tenant.
    pub async fn keys(
        &self,
        caller: &Caller,
        tenant: &TenantId,
    ) -> Result<Vec<KeyRecord>, EngineError> {
        self.may_manage(caller, tenant)?;
        let mut keys = self.parts.directory.keys(tenant).await?;
        let rules = self.rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, self.now());
        for key in &mut keys {
            let clean = admission.short_text(&key.label);
            sabotage!("late-secrets-show-in-labels-of-keys", key.label = clean);
        }
        Ok(keys)
    }

    /// Sets the most that a key may vouch for, which is never more than the caller may. Answers the
    /// key as it is then.
    pub async fn set_key_trust(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        id: &str,
        trust: Trust,
    ) -> Result<KeyRecord, EngineError> {
        self.may_manage(caller, tenant)?;
        sabotage!("keys-are-raised-by-lower-ones", caller.vouch(trust)?);
        let directory = &self.parts.directory;
        let find = async || -> Result<KeyRecord, EngineError> {
            let keys = directory.keys(tenant).await?;
            let found = keys.into_iter().find(|key| key.id.as_str() == id);
            found.ok_or(EngineError::NotFound("key"))
        };
        let key = find().await?;
        // A key of before ceilings links because it writes: from now on because its row says so.
        let permissions = sabotage!(
            "a-lowered-key-links-no-more",
            key.allows(),
            key.permissions.clone()
        );
        directory
            .set_key_trust(tenant, &key.id, trust, &permissions)
            .await?;
        find().await
    }

    /// The keys of all tenants for which nobody has said what they may vouch for, and that can be
    /// used; for the host's operator.
    pub async fn keys_without_ceiling(&self) -> Result<Vec<KeyRecord>, EngineError> {
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

    /// Revokes a key at once.
    pub async fn revoke_key(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        id: &str,
    ) -> Result<(), EngineError> {
        self.may_manage(caller, tenant)?;
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

    /// Whether the directory of tenants and keys can be read: without it nobody can come in.
    pub async fn is_reachable(&self) -> bool {
        self.parts.directory.is_reachable().await
    }

    /// What fails in the background of this process.
    #[must_use]
    pub fn failing(&self) -> Failing {
        let damaged = self.parts.store.damaged_tenants();
        self.passes.failing(self.now(), &damaged)
    }

    /// Checks every tenant's data against its own hashes; for the host's operator.
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

    /// Checks tenants, keys and the host's other rows against their hashes; for the host's
    /// operator. Answers how many there are.
    pub async fn verify_host(&self) -> Result<u64, StoreError> {
        self.parts.directory.verify().await
    }

    /// How many rows of all tenants have no hash yet, because an earlier version wrote them.
    pub async fn unhashed_rows(&self) -> Result<u64, EngineError> {
        let mut count = 0;
        for tenant in self.parts.directory.tenants().await? {
            count += self.parts.store.unhashed(&tenant.id).await?;
        }
        Ok(count)
    }

    fn may_manage(&self, caller: &Caller, tenant: &TenantId) -> Result<(), EngineError> {
        if caller.may(Permission::HostAdmin) {
            return Ok(());
        }
        caller.require(Permission::KeysManage)?;
        // Another tenant is answered like a missing right, whether or not it exists.
        if caller.tenant() == tenant {
            Ok(())
        } else {
            Err(EngineError::Forbidden(Permission::HostAdmin))
        }
    }
}
