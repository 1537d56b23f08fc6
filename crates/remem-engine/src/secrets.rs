//! Registered secrets: values that must never be stored, held in process memory only.
//! `RedactionRules` are the rules by which a tenant's texts are redacted at this moment; a value
//! that is registered later makes new rules.

use crate::engine::HostKey;
use remem_core::redact::SecretValue;
use remem_core::sabotage;
use remem_core::{Admission, Policy, Redactor, ShapePolicy, TenantId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The redaction rules of a tenant: registered values and shapes of secrets. Cheap to share.
pub struct RedactionRules {
    values: Vec<SecretValue>,
    redactor: Redactor,
    fingerprint: u64,
}

impl RedactionRules {
    /// Compiles the rules for these values.
    fn new(scan_key: &[u8; 32], values: Vec<SecretValue>) -> RedactionRules {
        let redactor = Redactor::new(values.iter().cloned());
        RedactionRules {
            fingerprint: redactor.fingerprint(scan_key),
            redactor,
            values,
        }
    }

    /// The admission check under these rules, the only way to store a text.
    #[must_use]
    pub fn admission<'a>(&'a self, policy: &'a Policy, now: Timestamp) -> Admission<'a> {
        Admission {
            policy,
            redactor: &self.redactor,
            redaction_fingerprint: self.fingerprint_for(policy.shapes),
            now,
        }
    }

    /// The redactor for these rules.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Identifies the rules that an entry is written under: the registered values, the table of
    /// shapes, and the tenant's policy.
    #[must_use]
    pub fn fingerprint_for(&self, shapes: ShapePolicy) -> u64 {
        let policy = match shapes {
            ShapePolicy::Redact => 0,
            ShapePolicy::Flag => 0x5555_5555_5555_5555,
            ShapePolicy::Off => 0xAAAA_AAAA_AAAA_AAAA,
        };
        self.fingerprint ^ policy
    }
}

/// The secrets of all tenants and a cache of their redaction rules: values registered for the whole
/// host, each tenant's own, and those of its vault.
pub struct SecretRegistry {
    scan_key: [u8; 32],
    /// The values registered at the start, each for one tenant or for all.
    registered: Vec<(Option<TenantId>, SecretValue)>,
    cache: Mutex<RulesCache>,
    build_locks: [tokio::sync::Mutex<()>; BUILD_LOCKS],
}

/// The cached rules of tenants.
struct RulesCache {
    tenants: HashMap<TenantId, CachedRules>,
    /// How often rules were invalidated: those of all tenants with the same number together.
    invalidations: Box<[u64]>,
    /// The rules of tenants without values of their own.
    common: Option<Arc<RedactionRules>>,
}

/// Tenants whose rules are cached, at most. If there are more, those of the tenant that was checked
/// longest ago are evicted.
const TENANTS_MAX: usize = 10_000;
/// Bytes of the cached tenants' vault values, at most.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Number of locks for building rules. Tenants are spread over them by hash, so that at most this
/// many rules are built at a time.
const BUILD_LOCKS: usize = 64;
/// Number of counters of invalidations. Tenants are spread over them by hash: at worst rules are
/// not cached because those of another tenant were invalidated while they were built.
const INVALIDATION_COUNTERS: usize = 1_024;

/// The number of a tenant among so many.
fn hash_class(tenant: &TenantId, classes: usize) -> usize {
    let hash = blake3::hash(tenant.as_str().as_bytes());
    let number = hash
        .as_bytes()
        .first_chunk()
        .map_or(0, |first| u16::from_le_bytes(*first));
    usize::from(number) % classes
}

impl Default for RulesCache {
    fn default() -> RulesCache {
        RulesCache {
            tenants: HashMap::new(),
            invalidations: vec![0; INVALIDATION_COUNTERS].into(),
            common: None,
        }
    }
}

impl RulesCache {
    /// How often a tenant's rules were invalidated, at least.
    fn invalidations_of(&self, tenant: &TenantId) -> u64 {
        self.invalidations[hash_class(tenant, INVALIDATION_COUNTERS)]
    }

    /// Evicts the tenants that were checked longest ago, except `kept`, until the limits hold.
    fn evict(&mut self, kept: &TenantId) {
        let is_full = |tenants: &HashMap<TenantId, CachedRules>| {
            let bytes: usize = tenants.values().map(|known| known.bytes).sum();
            tenants.len() > TENANTS_MAX || bytes > BYTES_MAX
        };
        while sabotage!("rules-are-kept-for-ever", is_full(&self.tenants), false) {
            let others = self.tenants.iter().filter(|(tenant, _)| *tenant != kept);
            let oldest = others.min_by_key(|(_, known)| known.checked_at);
            let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) else {
                break;
            };
            self.tenants.remove(&oldest);
        }
    }
}

/// The cached rules of a tenant, and the state of its vault that they were built from.
#[derive(Clone)]
pub(crate) struct CachedRules {
    pub rules: Arc<RedactionRules>,
    /// Digest of the vault's state.
    pub vault_digest: [u8; 32],
    /// When the vault was last checked for changes.
    pub checked_at: Timestamp,
    /// Bytes of the values in the tenant's vault.
    pub bytes: usize,
}

/// Taken before a vault is read: rules built from it are not cached if the tenant's rules were
/// invalidated in the meantime.
#[derive(Clone, Copy)]
pub(crate) struct VaultRead(u64);

impl SecretRegistry {
    /// A registry without values; shapes of secrets are still detected.
    #[must_use]
    pub fn none(key: &HostKey) -> SecretRegistry {
        SecretRegistry::new(key, Vec::new())
    }

    /// Registers values, each for one tenant or (`None`) for all.
    #[must_use]
    pub fn new(key: &HostKey, values: Vec<(Option<TenantId>, SecretValue)>) -> SecretRegistry {
        SecretRegistry {
            scan_key: key.derive("remembrancer scan v1"),
            registered: values,
            cache: Mutex::default(),
            build_locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        }
    }

    /// Locks the cache of rules.
    fn lock_cache(&self) -> MutexGuard<'_, RulesCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached rules of a tenant.
    pub(crate) fn cached(&self, tenant: &TenantId) -> Option<CachedRules> {
        self.lock_cache().tenants.get(tenant).cloned()
    }

    /// Marks the beginning of reading a vault.
    pub(crate) fn begin_read(&self, tenant: &TenantId) -> VaultRead {
        VaultRead(self.lock_cache().invalidations_of(tenant))
    }

    /// Waits until no other task is building the rules of the tenant; afterwards they may be cached
    /// already.
    pub(crate) async fn lock_build(&self, tenant: &TenantId) -> tokio::sync::MutexGuard<'_, ()> {
        self.build_locks[hash_class(tenant, BUILD_LOCKS)]
            .lock()
            .await
    }

    /// Builds and caches the rules of a tenant from the values registered at the start and those of
    /// its vault. That can take a good part of a second, so it runs on a blocking thread.
    pub(crate) async fn build_rules(
        &self,
        tenant: &TenantId,
        read: VaultRead,
        vault: [u8; 32],
        looked_at: Timestamp,
        vault_values: Vec<SecretValue>,
    ) -> Arc<RedactionRules> {
        let of_tenant = |of: &Option<TenantId>| of.as_ref().is_none_or(|of| of == tenant);
        let registered = self.registered.iter().filter(|(of, _)| of_tenant(of));
        let has_own = !vault_values.is_empty() || registered.clone().any(|(of, _)| of.is_some());
        let bytes = vault_values.iter().map(|value| value.byte_len()).sum();
        let common = self.lock_cache().common.clone().filter(|_| !has_own);
        let rules = match common {
            Some(rules) => rules,
            None => {
                let registered = registered.map(|(_, value)| value.clone());
                let all: Vec<SecretValue> = registered.chain(vault_values).collect();
                let scan_key = self.scan_key;
                let work = move || Arc::new(RedactionRules::new(&scan_key, all));
                tokio::task::spawn_blocking(work)
                    .await
                    .expect("registering a value does not panic")
            }
        };
        let mut cache = self.lock_cache();
        if !has_own {
            cache.common = Some(rules.clone());
        }
        if cache.invalidations_of(tenant) == read.0 {
            let cached = CachedRules {
                rules: rules.clone(),
                vault_digest: vault,
                checked_at: looked_at,
                bytes,
            };
            cache.tenants.insert(tenant.clone(), cached);
            cache.evict(tenant);
        }
        rules
    }

    /// Records that the vault was checked and is unchanged.
    pub(crate) fn confirm_unchanged(
        &self,
        tenant: &TenantId,
        read: VaultRead,
        looked_at: Timestamp,
    ) {
        let mut cache = self.lock_cache();
        if cache.invalidations_of(tenant) == read.0
            && let Some(known) = cache.tenants.get_mut(tenant)
        {
            known.checked_at = looked_at;
        }
    }

    /// Invalidates the rules of a tenant: they are built again when they are next needed.
    pub(crate) fn invalidate(&self, tenant: &TenantId) {
        let mut cache = self.lock_cache();
        sabotage!(
            "rules-from-before-an-invalidation-are-cached",
            cache.invalidations[hash_class(tenant, INVALIDATION_COUNTERS)] += 1
        );
        cache.tenants.remove(tenant);
    }

    /// Extends rules by more values: those that a run resolved.
    pub(crate) fn with_values(
        &self,
        rules: &RedactionRules,
        more: &[SecretValue],
    ) -> RedactionRules {
        RedactionRules::new(
            &self.scan_key,
            rules.values.iter().chain(more).cloned().collect(),
        )
    }
}

/// The secrets that a run has resolved so far; wiped when dropped.
#[derive(Default)]
pub(crate) struct RunSecrets(Vec<SecretValue>);

impl RunSecrets {
    /// Adds a secret, which is redacted from the run's texts from now on.
    pub fn add(&mut self, value: SecretValue) {
        self.0.push(value);
    }

    /// The rules for the run's texts: the tenant's, extended by the run's own secrets.
    pub fn extended_rules(
        &self,
        secrets: &SecretRegistry,
        base: &Arc<RedactionRules>,
    ) -> Arc<RedactionRules> {
        if self.0.is_empty() {
            base.clone()
        } else {
            Arc::new(secrets.with_values(base, &self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn learn(
        secrets: &SecretRegistry,
        tenant: &TenantId,
        at: i64,
        bytes: usize,
    ) -> Arc<RedactionRules> {
        let look = secrets.begin_read(tenant);
        let value = (bytes > 0).then(|| SecretValue::new("a", "x7".repeat(bytes / 2)));
        let values = value.into_iter().collect();
        secrets
            .build_rules(tenant, look, [1; 32], Timestamp(at), values)
            .await
    }

    #[tokio::test]
    async fn the_least_recently_checked_rules_are_evicted() {
        let secrets = SecretRegistry::none(&HostKey::new([1; 32]));
        let tenant = |number: usize| TenantId::parse(&format!("t{number}")).unwrap();
        for number in 0..3 {
            learn(&secrets, &tenant(number), 10 - number as i64, BYTES_MAX / 3).await;
        }
        assert!((0..3).all(|number| secrets.cached(&tenant(number)).is_some()));
        learn(&secrets, &tenant(3), 0, BYTES_MAX / 3).await;
        let kept = (0..4).filter(|number| secrets.cached(&tenant(*number)).is_some());
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [0, 1, 3],
            "the newest stays in any case"
        );
    }

    #[tokio::test]
    async fn tenants_without_secrets_share_redaction_rules() {
        let secrets = SecretRegistry::none(&HostKey::new([1; 32]));
        let [a, b, c] = ["a", "b", "c"].map(|name| TenantId::parse(name).unwrap());
        let first = learn(&secrets, &a, 0, 0).await;
        assert!(Arc::ptr_eq(&first, &learn(&secrets, &b, 0, 0).await));
        assert!(!Arc::ptr_eq(&first, &learn(&secrets, &c, 0, 20).await));
        secrets.invalidate(&c);
        assert!(secrets.cached(&a).is_some() && secrets.cached(&c).is_none());
    }

    #[tokio::test]
    async fn a_read_that_began_before_an_invalidation_is_not_cached() {
        let secrets = SecretRegistry::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let look = secrets.begin_read(&tenant);
        secrets.invalidate(&TenantId::parse("other").unwrap());
        secrets.invalidate(&tenant);
        secrets
            .build_rules(&tenant, look, [1; 32], Timestamp(0), Vec::new())
            .await;
        assert!(secrets.cached(&tenant).is_none());
        learn(&secrets, &tenant, 0, 0).await;
        let look = secrets.begin_read(&tenant);
        secrets.invalidate(&TenantId::parse("other").unwrap());
        secrets.confirm_unchanged(&tenant, look, Timestamp(5));
        assert_eq!(secrets.cached(&tenant).unwrap().checked_at, Timestamp(5));
    }

    #[tokio::test]
    async fn run_secrets_extend_the_tenant_redaction_rules() {
        let secrets = SecretRegistry::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let value = SecretValue::new("a", "of the tenant");
        let look = secrets.begin_read(&tenant);
        let base = secrets
            .build_rules(&tenant, look, [0; 32], Timestamp(0), vec![value])
            .await;
        let mut own = RunSecrets::default();
        assert!(Arc::ptr_eq(&own.extended_rules(&secrets, &base), &base));
        own.add(SecretValue::new("b", "of the run"));
        let rules = own.extended_rules(&secrets, &base);
        let clean = |rules: &RedactionRules| {
            rules
                .redactor()
                .clean("of the tenant, of the run", ShapePolicy::Off)
                .text
                .into_string()
        };
        assert_eq!(clean(&rules), "[REDACTED:a], [REDACTED:b]");
        assert_eq!(clean(&base), "[REDACTED:a], of the run");
        assert_ne!(
            rules.fingerprint_for(ShapePolicy::Off),
            base.fingerprint_for(ShapePolicy::Off)
        );
    }
}
