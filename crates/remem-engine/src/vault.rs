//! The vault: secrets that callers store encrypted, so that runs can use them and no text of the
//! tenant contains them. This file owns their names, limits and scopes. It gives a value only to
//! runs and to the model's client, and fails when one cannot be decrypted.

mod sealed;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::seal;
use remem_core::admission::check_name;
use remem_core::redact::{FLOOR_CHARS, SecretValue};
use remem_core::sabotage;
use remem_core::{
    Batch, Permission, Policy, Precondition, PrincipalId, Record, RecordBody, RecordKind, Redactor,
    Rejection, RunId, Sealed, StoredRecord, TenantId, Timestamp,
};
use remem_store::{CommitResult, StoreError};
pub(crate) use sealed::SecretFacts;
use sealed::{open_values, seal_body};
use zeroize::Zeroizing;

/// The key that encrypts the vaults of all tenants. It is stored outside the database.
#[derive(Clone)]
pub struct VaultKey {
    current: Zeroizing<[u8; 32]>,
    earlier: Vec<Zeroizing<[u8; 32]>>,
}

impl VaultKey {
    /// Takes 32 random bytes as the key.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> VaultKey {
        VaultKey {
            current: Zeroizing::new(bytes),
            earlier: Vec::new(),
        }
    }

    /// Adds an earlier key, which decrypts old values; new ones are never encrypted with it.
    #[must_use]
    pub fn with_earlier_key(mut self, earlier: [u8; 32]) -> VaultKey {
        self.earlier.push(Zeroizing::new(earlier));
        self
    }

    /// Encrypts a value with the current key.
    fn seal(&self, aad: &[u8], plain: &[u8]) -> Sealed {
        seal::seal(&self.current, aad, plain)
    }

    /// Decrypts a value with whichever key sealed it.
    fn open(&self, aad: &[u8], sealed: &Sealed) -> Option<Zeroizing<Vec<u8>>> {
        std::iter::once(&self.current)
            .chain(&self.earlier)
            .find_map(|key| seal::open(key, aad, sealed))
    }
}

/// The runs that may use a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretScope {
    /// Every run in the tenant.
    Tenant,
    /// Runs of the caller who set it.
    User,
}

impl SecretScope {
    /// The stable name in requests and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SecretScope::Tenant => "tenant",
            SecretScope::User => "user",
        }
    }

    /// Parses the stable name of a scope.
    #[must_use]
    pub fn parse(text: &str) -> Option<SecretScope> {
        [SecretScope::Tenant, SecretScope::User]
            .into_iter()
            .find(|scope| scope.as_str() == text)
    }

    /// Key prefix of the secrets in this scope.
    fn prefix(self, owner: &PrincipalId) -> String {
        match self {
            SecretScope::Tenant => "tenant/-/".to_owned(),
            SecretScope::User => format!("user/{owner}/"),
        }
    }
}

/// The information about a secret that callers can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInfo {
    /// The name of the secret, which redaction markers show.
    pub name: String,
    /// The runs that may use it.
    pub scope: SecretScope,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When its value was last changed.
    pub rotated_at: Option<Timestamp>,
    /// Number of values that it has had.
    pub versions: u64,
}

/// Characters of a secret's name, at most.
pub const NAME_CHARS_MAX: usize = 128;
/// How often a conflicting rotation is retried.
const COMMIT_TRIES: u32 = 16;
/// Secrets read with one query.
const PAGE_SIZE: u32 = 500;

impl Engine {
    /// Stores a new secret. From the next request on it is redacted from the tenant's texts; stored
    /// texts are redacted by the pass `rescan`.
    pub async fn set_secret(
        &self,
        caller: &Caller,
        scope: SecretScope,
        name: &str,
        value: SecretValue,
    ) -> Result<SecretInfo, EngineError> {
        let vault = self.require_vault(caller)?;
        self.check_secret(caller, name, &value).await?;
        self.check_secret_room(caller.tenant()).await?;
        let key = format!("{}{name}", scope.prefix(caller.principal()));
        self.check_vault_bytes(caller.tenant(), &key, &[&value])
            .await?;
        let now = self.now_for(caller.tenant()).await?;
        let facts = metadata(scope.as_str(), caller.principal().as_str(), name, now);
        let body = seal_body(vault, caller.tenant(), &key, &facts, &value, &[]);
        let committed = match self
            .write_secret(caller, &key, Precondition::Absent, body)
            .await
        {
            Err(EngineError::Store(StoreError::Conflict)) => return Err(EngineError::SecretExists),
            other => other?,
        };
        Ok(SecretInfo {
            name: name.to_owned(),
            scope,
            created_at: committed.at,
            rotated_at: None,
            versions: 1,
        })
    }

    /// Changes the value of a secret. Earlier values are still redacted, the newest twenty of them.
    pub async fn rotate_secret(
        &self,
        caller: &Caller,
        scope: SecretScope,
        name: &str,
        value: SecretValue,
    ) -> Result<SecretInfo, EngineError> {
        let vault = self.require_vault(caller)?;
        self.check_secret(caller, name, &value).await?;
        let key = format!("{}{name}", scope.prefix(caller.principal()));
        for _ in 0..COMMIT_TRIES {
            let before = self
                .parts
                .store
                .record(caller.tenant(), RecordKind::Secret, &key)
                .await?
                .ok_or(EngineError::NotFound("secret"))?;
            let mut former = open_values(vault, caller.tenant(), &before)?;
            former.retain(|known| !is_same_value(known, &value));
            former.truncate(self.parts.policy.secret_former_max);
            let values: Vec<&SecretValue> = former.iter().chain([&value]).collect();
            self.check_vault_bytes(caller.tenant(), &key, &values)
                .await?;
            let facts = metadata(
                scope.as_str(),
                caller.principal().as_str(),
                name,
                created_at(&before),
            );
            let body = seal_body(vault, caller.tenant(), &key, &facts, &value, &former);
            match self
                .write_secret(caller, &key, Precondition::Version(before.version), body)
                .await
            {
                Err(EngineError::Store(StoreError::Conflict)) => {}
                Err(other) => return Err(other),
                Ok(committed) => {
                    let after = Record {
                        version: before.version + 1,
                        at: committed.at,
                        ..before
                    };
                    return Ok(secret_info(scope, name, &after));
                }
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Lists the tenant's secrets and the caller's own (or those of another key), by scope and
    /// name, after the given one; and whether there are more.
    pub async fn list_secrets(
        &self,
        caller: &Caller,
        owner: Option<&str>,
        after: Option<(SecretScope, &str)>,
        limit: Option<u32>,
    ) -> Result<(Vec<SecretInfo>, bool), EngineError> {
        self.require_vault(caller)?;
        let owner = resolve_owner(caller, owner)?;
        let limit = self.parts.policy.list_limit(limit) as usize;
        let mut found: Vec<SecretInfo> = Vec::new();
        for scope in [SecretScope::Tenant, SecretScope::User] {
            let prefix = scope.prefix(&owner);
            let start_after = match after {
                Some((last_scope, _)) if scope < last_scope => continue,
                Some((last_scope, name)) if scope == last_scope => Some(format!("{prefix}{name}")),
                _ => None,
            };
            let wanted = u32::try_from(limit + 1 - found.len()).unwrap_or(u32::MAX);
            let records = self
                .parts
                .store
                .records(
                    caller.tenant(),
                    RecordKind::Secret,
                    &prefix,
                    start_after.as_deref(),
                    wanted,
                )
                .await?;
            found.extend(records.iter().map(|record| {
                secret_info(
                    scope,
                    record.key.strip_prefix(&prefix).unwrap_or_default(),
                    record,
                )
            }));
        }
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    /// Deletes a secret with all its values. They are no longer redacted.
    pub async fn delete_secret(
        &self,
        caller: &Caller,
        owner: Option<&str>,
        scope: SecretScope,
        name: &str,
    ) -> Result<(), EngineError> {
        self.require_vault(caller)?;
        let key = format!("{}{name}", scope.prefix(&resolve_owner(caller, owner)?));
        let before = if is_secret_name(name) {
            self.parts
                .store
                .record(caller.tenant(), RecordKind::Secret, &key)
                .await?
        } else {
            None
        };
        let before = before.ok_or(EngineError::NotFound("secret"))?;
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let result = self
            .parts
            .store
            .commit(batch.delete_record(
                RecordKind::Secret,
                key,
                Precondition::Version(before.version),
            ))
            .await;
        self.on_vault_change(caller.tenant());
        result?;
        Ok(())
    }

    /// Whether this host has a vault.
    #[must_use]
    pub fn has_vault(&self) -> bool {
        self.parts.vault.is_some()
    }

    /// Lists the tenants whose secrets cannot be decrypted; for the host's operator.
    pub async fn list_locked_tenants(&self) -> Result<Vec<TenantId>, EngineError> {
        let mut locked = Vec::new();
        for tenant in self.parts.directory.tenants().await? {
            match self.redaction_rules(&tenant.id).await {
                Err(EngineError::VaultLocked) => locked.push(tenant.id),
                other => drop(other?),
            }
        }
        Ok(locked)
    }

    /// The vault's key, if the caller may manage secrets.
    fn require_vault(&self, caller: &Caller) -> Result<&VaultKey, EngineError> {
        caller.require(Permission::SecretsManage)?;
        self.parts.vault.as_ref().ok_or(EngineError::VaultOff)
    }

    /// Validates a new value, and its name against known secrets.
    async fn check_secret(
        &self,
        caller: &Caller,
        name: &str,
        value: &SecretValue,
    ) -> Result<(), EngineError> {
        let rules = self.redaction_rules(caller.tenant()).await?;
        validate_secret(&self.parts.policy, name, value)?;
        Ok(check_name(rules.redactor(), "name", name)?)
    }

    /// Fails if the tenant has too many secrets.
    async fn check_secret_room(&self, tenant: &TenantId) -> Result<(), EngineError> {
        let limit = self.parts.policy.secrets_max;
        let too_many = Rejection::TooLarge {
            field: "secrets",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        if self.vault_records(tenant).await?.len() < limit {
            Ok(())
        } else {
            Err(too_many.into())
        }
    }

    /// Fails if the values would exceed the limit of bytes for the tenant's vault.
    async fn check_vault_bytes(
        &self,
        tenant: &TenantId,
        key: &str,
        values: &[&SecretValue],
    ) -> Result<(), EngineError> {
        let mut records = self.vault_records(tenant).await?;
        records.retain(|record| record.key != key);
        let others = self.vault_values(tenant, &records)?;
        let all = others.iter().chain(values.iter().copied());
        let actual: usize = all.map(|value| value.byte_len()).sum();
        let limit = self.parts.policy.secret_bytes_max;
        if sabotage!("a-vault-of-any-size", actual <= limit, true) {
            return Ok(());
        }
        Err(Rejection::TooLarge {
            field: "secrets",
            unit: "bytes",
            limit: limit as u64,
            actual: actual as u64,
        }
        .into())
    }

    /// Commits a secret's record.
    async fn write_secret(
        &self,
        caller: &Caller,
        key: &str,
        precondition: Precondition,
        body: RecordBody,
    ) -> Result<CommitResult, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let result = self
            .parts
            .store
            .commit(batch.set_record(RecordKind::Secret, key.to_owned(), precondition, body))
            .await;
        // Also after an error, which does not mean that nothing was written.
        self.on_vault_change(caller.tenant());
        Ok(result?)
    }

    /// Invalidates the tenant's redaction rules and wakes the pass `rescan`.
    fn on_vault_change(&self, tenant: &TenantId) {
        sabotage!(
            "the-vault-is-not-looked-at-again",
            self.parts.secrets.invalidate(tenant)
        );
        self.notify_work("rescan", tenant);
    }

    /// Reads the secrets that are redacted from every text of the tenant: all except those of
    /// single runs.
    pub(crate) async fn vault_records(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<Record>, EngineError> {
        let mut records: Vec<Record> = Vec::new();
        for prefix in ["tenant/", "user/"] {
            let mut after: Option<String> = None;
            loop {
                // Read all of them, however many there are: one that is missed would be stored in
                // clear.
                let page = self
                    .parts
                    .store
                    .records(
                        tenant,
                        RecordKind::Secret,
                        prefix,
                        after.as_deref(),
                        PAGE_SIZE,
                    )
                    .await?;
                after = page
                    .last()
                    .filter(|_| page.len() == PAGE_SIZE as usize)
                    .map(|last| last.key.clone());
                records.extend(page);
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(records)
    }

    /// Decrypts every value of these secrets, including earlier ones.
    pub(crate) fn vault_values(
        &self,
        tenant: &TenantId,
        records: &[Record],
    ) -> Result<Vec<SecretValue>, EngineError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let Some(vault) = &self.parts.vault else {
            tracing::error!(%tenant, "this tenant has secrets and the vault is off; set vault.key_file or REMEM_VAULT_KEY");
            return Err(EngineError::VaultLocked);
        };
        let values: Result<Vec<_>, _> = records
            .iter()
            .map(|record| open_values(vault, tenant, record))
            .collect();
        let values = sabotage!(
            "a-locked-vault-is-taken-for-an-empty-one",
            values?,
            values.unwrap_or_default()
        );
        Ok(values.into_iter().flatten().collect())
    }

    /// Resolves a secret's name for a run of `owner`: the run's own, else the owner's, else the
    /// tenant's, else a test secret of the host.
    pub(crate) async fn resolve_secret(
        &self,
        tenant: &TenantId,
        owner: &PrincipalId,
        run: &RunId,
        name: &str,
    ) -> Result<Option<SecretValue>, EngineError> {
        if !is_secret_name(name) {
            return Ok(None);
        }
        for key in [
            run_secret_key(run, name),
            format!("user/{owner}/{name}"),
            format!("tenant/-/{name}"),
        ] {
            if let Some(record) = self
                .parts
                .store
                .record(tenant, RecordKind::Secret, &key)
                .await?
            {
                return Ok(self.vault_values(tenant, &[record])?.into_iter().next());
            }
        }
        Ok(self
            .parts
            .test_secrets
            .iter()
            .find(|value| value.id() == name)
            .cloned())
    }

    /// The tenant's own secret with this name, for what the host does on the tenant's behalf.
    pub(crate) async fn tenant_secret(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<SecretValue>, EngineError> {
        if !is_secret_name(name) {
            return Ok(None);
        }
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Secret, &format!("tenant/-/{name}"))
            .await?;
        record.map_or(Ok(None), |record| {
            Ok(self.vault_values(tenant, &[record])?.into_iter().next())
        })
    }

    /// Encrypts a run's own secret as a record, which the batch that starts the run must store.
    pub(crate) fn seal_run_secret(
        &self,
        tenant: &TenantId,
        run: &RunId,
        name: &str,
        value: &SecretValue,
    ) -> Result<(String, RecordBody), EngineError> {
        let vault = self.parts.vault.as_ref().ok_or(EngineError::VaultOff)?;
        validate_secret(&self.parts.policy, name, value)?;
        let key = run_secret_key(run, name);
        let body = seal_body(
            vault,
            tenant,
            &key,
            &metadata("run", run.as_str(), name, self.now()),
            value,
            &[],
        );
        Ok((key, body))
    }
}

/// The user whose secrets are meant. Those of another key need permission to manage keys: a revoked
/// key cannot clean up after itself.
fn resolve_owner(caller: &Caller, owner: Option<&str>) -> Result<PrincipalId, EngineError> {
    let Some(owner) = owner else {
        return Ok(caller.principal().clone());
    };
    caller.require(Permission::KeysManage)?;
    Ok(PrincipalId::parse(owner).ok_or(Rejection::MalformedName { field: "owner" })?)
}

/// The key of a run's own secret.
pub(crate) fn run_secret_key(run: &RunId, name: &str) -> String {
    format!("run/{run}/{name}")
}

/// Whether a name is valid: letters, digits and `._-`, so that it is one path segment, and can be
/// in a redaction marker if it begins with a letter or digit.
fn is_secret_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Validates the name and the length of a secret.
fn validate_secret(policy: &Policy, name: &str, value: &SecretValue) -> Result<(), Rejection> {
    if !is_secret_name(name) {
        return Err(Rejection::MalformedName { field: "name" });
    }
    let chars = value.expose(|text| text.chars().count());
    let limit = policy.secret_chars_max;
    if chars < FLOOR_CHARS {
        return Err(Rejection::Invalid {
            field: "value",
            rule: "must have at least 8 characters; shorter values occur in ordinary text",
        });
    }
    if chars > limit {
        return Err(Rejection::TooLarge {
            field: "value",
            unit: "characters",
            limit: limit as u64,
            actual: chars as u64,
        });
    }
    check_name(&Redactor::new([value.clone()]), "name", name)
}

/// Whether two values are equal, compared by hash.
fn is_same_value(first: &SecretValue, second: &SecretValue) -> bool {
    first.expose(|first| {
        second.expose(|second| blake3::hash(first.as_bytes()) == blake3::hash(second.as_bytes()))
    })
}

/// The readable fields of a secret's record.
fn metadata(scope: &str, owner: &str, name: &str, created_at: Timestamp) -> SecretFacts {
    SecretFacts {
        key: String::new(),
        scope: Some(scope.to_owned()),
        owner: Some(owner.to_owned()),
        name: Some(name.to_owned()),
        created_at: Some(created_at),
    }
}

/// When a secret was first set. Redaction of a value made of digits may have replaced the instant;
/// then the time of the last write is the best that is left.
fn created_at(record: &Record) -> Timestamp {
    SecretFacts::read(record)
        .and_then(|facts| facts.created_at)
        .unwrap_or(record.at)
}

/// The information about a secret that callers can see.
fn secret_info(scope: SecretScope, name: &str, record: &Record) -> SecretInfo {
    let rotated_at = (record.version > 1).then_some(record.at);
    SecretInfo {
        name: name.to_owned(),
        scope,
        created_at: created_at(record),
        rotated_at,
        versions: record.version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyRequest;
    use crate::ports::{CountedIds, FixedClock};
    use crate::{EngineParts, HostKey};
    use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
    use std::sync::Arc;

    async fn start(vault: Option<VaultKey>) -> (Engine, Caller) {
        let key = HostKey::new([3; 32]);
        let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        let clock = Arc::new(FixedClock::at(Timestamp(1_700_000_000_000)));
        let parts = EngineParts::new(
            store,
            directory,
            clock,
            Arc::new(CountedIds::default()),
            key,
        );
        let engine = Engine::new(EngineParts {
            vault,
            test_secrets: vec![SecretValue::new("canary", "of the tests")],
            ..parts
        });
        let tenant = TenantId::parse("t").unwrap();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key("key", request).await.unwrap();
        let caller = engine.authenticate("key").await.unwrap();
        (engine, caller)
    }

    async fn resolved(
        engine: &Engine,
        caller: &Caller,
        owner: &str,
        run: &str,
        name: &str,
    ) -> Option<String> {
        let owner = PrincipalId::parse(owner).unwrap();
        let run = RunId::parse(run).unwrap();
        let found = engine
            .resolve_secret(caller.tenant(), &owner, &run, name)
            .await
            .unwrap();
        found.map(|value| value.expose(str::to_owned))
    }

    #[tokio::test]
    async fn secrets_resolve_from_run_then_user_then_tenant() {
        let (engine, caller) = start(Some(VaultKey::new([1; 32]))).await;
        let me = caller.principal().as_str();
        for name in ["token", "canary"] {
            assert_eq!(
                resolved(&engine, &caller, me, "run_1", name).await,
                (name == "canary").then(|| "of the tests".to_owned())
            );
        }
        engine
            .set_secret(
                &caller,
                SecretScope::Tenant,
                "token",
                SecretValue::new("", "of the tenant"),
            )
            .await
            .unwrap();
        engine
            .set_secret(
                &caller,
                SecretScope::Tenant,
                "canary",
                SecretValue::new("", "not of the tests"),
            )
            .await
            .unwrap();
        assert_eq!(
            resolved(&engine, &caller, me, "run_1", "token")
                .await
                .unwrap(),
            "of the tenant"
        );
        assert_eq!(
            resolved(&engine, &caller, me, "run_1", "canary")
                .await
                .unwrap(),
            "not of the tests"
        );
        engine
            .set_secret(
                &caller,
                SecretScope::User,
                "token",
                SecretValue::new("", "of the user"),
            )
            .await
            .unwrap();
        engine
            .rotate_secret(
                &caller,
                SecretScope::User,
                "token",
                SecretValue::new("", "of the user, newer"),
            )
            .await
            .unwrap();
        let run = RunId::parse("run_1").unwrap();
        let (key, body) = engine
            .seal_run_secret(
                caller.tenant(),
                &run,
                "token",
                &SecretValue::new("", "of the run"),
            )
            .unwrap();
        assert_eq!(key, "run/run_1/token");
        assert!(
            !serde_json::to_string(body.map())
                .unwrap()
                .contains("of the run")
        );
        let batch = Batch::new(caller.tenant().clone(), engine.now()).set_record(
            RecordKind::Secret,
            key,
            Precondition::Absent,
            body,
        );
        engine.parts.store.commit(batch).await.unwrap();
        for (owner, run, value) in [
            (me, "run_1", "of the run"),
            (me, "run_2", "of the user, newer"),
            ("key_other", "run_2", "of the tenant"),
        ] {
            assert_eq!(
                resolved(&engine, &caller, owner, run, "token")
                    .await
                    .unwrap(),
                value
            );
        }
        for name in ["", "../token", "a/b", "unknown"] {
            assert_eq!(
                resolved(&engine, &caller, me, "run_1", name).await,
                None,
                "{name}"
            );
        }
        let clean = |rules: &crate::secrets::RedactionRules| {
            rules
                .redactor()
                .clean(
                    "of the user, newer; of the run",
                    remem_core::ShapePolicy::Off,
                )
                .text
                .into_string()
        };
        assert_eq!(
            clean(&engine.redaction_rules(caller.tenant()).await.unwrap()),
            "[REDACTED:token]; of the run",
            "only a run knows its own"
        );
    }

    #[tokio::test]
    async fn run_secrets_need_a_vault_and_a_valid_name_and_value() {
        let (engine, caller) = start(None).await;
        let run = RunId::parse("run_1").unwrap();
        let value = SecretValue::new("", "of the run");
        assert!(matches!(
            engine.seal_run_secret(caller.tenant(), &run, "token", &value),
            Err(EngineError::VaultOff)
        ));
        assert_eq!(
            resolved(&engine, &caller, "key_x", "run_1", "canary")
                .await
                .unwrap(),
            "of the tests"
        );
        let (engine, caller) = start(Some(VaultKey::new([1; 32]))).await;
        for (name, value) in [
            ("a/b", "long enough"),
            ("short", "seven77"),
            ("the-value-itself", "the-value-itself"),
        ] {
            let refused =
                engine.seal_run_secret(caller.tenant(), &run, name, &SecretValue::new("", value));
            assert!(matches!(refused, Err(EngineError::Rejected(_))), "{name}");
        }
    }
}
