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
pub struct Rules {
    values: Vec<SecretValue>,
    redactor: Redactor,
    fingerprint: u64,
}

impl Rules {
    /// Compiles the rules for these values.
    fn new(scan_key: &[u8; 32], values: Vec<SecretValue>) -> Rules {
        let redactor = Redactor::new(values.iter().cloned());
        Rules {
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
            scan: self.scan(policy.shapes),
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
    pub fn scan(&self, shapes: ShapePolicy) -> u64 {
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
pub struct Secrets {
    scan_key: [u8; 32],
    /// The values registered at the start, each for one tenant or for all.
    given: Vec<(Option<TenantId>, SecretValue)>,
    known: Mutex<Cache>,
    building: [tokio::sync::Mutex<()>; CLASSES],
}

/// The cached rules of tenants.
#[derive(Default)]
struct Cache {
    tenants: HashMap<TenantId, Known>,
    /// How often each tenant's rules were invalidated.
    forgotten: HashMap<TenantId, u64>,
    /// The rules of tenants without values of their own.
    common: Option<Arc<Rules>>,
}

/// Tenants whose rules are cached, at most. If there are more, those of the tenant that was checked
/// longest ago are evicted.
const TENANTS_MAX: usize = 10_000;
/// Bytes of the cached tenants' vault values, at most.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Number of locks for building rules. Tenants are spread over them by hash, so that at most this
/// many rules are built at a time.
const CLASSES: usize = 64;

impl Cache {
    /// How often a tenant's rules were invalidated.
    fn forgotten(&self, tenant: &TenantId) -> u64 {
        self.forgotten.get(tenant).copied().unwrap_or(0)
    }

    /// Evicts the tenants that were checked longest ago, except `kept`, until the limits hold.
    fn make_room(&mut self, kept: &TenantId) {
        let is_full = |tenants: &HashMap<TenantId, Known>| {
            let bytes: usize = tenants.values().map(|known| known.bytes).sum();
            tenants.len() > TENANTS_MAX || bytes > BYTES_MAX
        };
        while sabotage!("rules-are-kept-for-ever", is_full(&self.tenants), false) {
            let others = self.tenants.iter().filter(|(tenant, _)| *tenant != kept);
            let oldest = others.min_by_key(|(_, known)| known.looked_at);
            let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) else {
                break;
            };
            self.tenants.remove(&oldest);
        }
    }
}

/// The cached rules of a tenant, and the state of its vault that they were built from.
#[derive(Clone)]
pub(crate) struct Known {
    pub rules: Arc<Rules>,
    /// Digest of the vault's state.
    pub vault: [u8; 32],
    /// When the vault was last checked for changes.
    pub looked_at: Timestamp,
    /// Bytes of the values in the tenant's vault.
    pub bytes: usize,
}

/// Taken before a vault is read: rules built from it are not cached if the tenant's rules were
/// invalidated in the meantime.
#[derive(Clone, Copy)]
pub(crate) struct Look(u64);

impl Secrets {
    /// A registry without values; shapes of secrets are still detected.
    #[must_use]
    pub fn none(key: &HostKey) -> Secrets {
        Secrets::new(key, Vec::new())
    }

    /// Registers values, each for one tenant or (`None`) for all.
    #[must_use]
    pub fn new(key: &HostKey, values: Vec<(Option<TenantId>, SecretValue)>) -> Secrets {
        Secrets {
            scan_key: key.derive("remembrancer scan v1"),
            given: values,
            known: Mutex::default(),
            building: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        }
    }

    /// Locks the cache of rules.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached rules of a tenant.
    pub(crate) fn known(&self, tenant: &TenantId) -> Option<Known> {
        self.cache().tenants.get(tenant).cloned()
    }

    /// Marks the beginning of reading a vault.
    pub(crate) fn look(&self, tenant: &TenantId) -> Look {
        Look(self.cache().forgotten(tenant))
    }

    /// Waits until no other task is building the rules of the tenant; afterwards they may be cached
    /// already.
    pub(crate) async fn turn(&self, tenant: &TenantId) -> tokio::sync::MutexGuard<'_, ()> {
        let hash = blake3::hash(tenant.as_str().as_bytes());
        let class = usize::from(hash.as_bytes()[0]) % CLASSES;
        self.building[class].lock().await
    }

    /// Builds and caches the rules of a tenant from the values registered at the start and those of
    /// its vault. That can take a good part of a second, so it runs on a blocking thread.
    pub(crate) async fn learn(
        &self,
        tenant: &TenantId,
        read: Look,
        vault: [u8; 32],
        looked_at: Timestamp,
        vault_values: Vec<SecretValue>,
    ) -> Arc<Rules> {
        let of_tenant = |of: &Option<TenantId>| of.as_ref().is_none_or(|of| of == tenant);
        let registered = self.given.iter().filter(|(of, _)| of_tenant(of));
        let has_own = !vault_values.is_empty() || registered.clone().any(|(of, _)| of.is_some());
        let bytes = vault_values.iter().map(|value| value.byte_len()).sum();
        let common = self.cache().common.clone().filter(|_| !has_own);
        let rules = match common {
            Some(rules) => rules,
            None => {
                let registered = registered.map(|(_, value)| value.clone());
                let all: Vec<SecretValue> = registered.chain(vault_values).collect();
                let scan_key = self.scan_key;
                let work = move || Arc::new(Rules::new(&scan_key, all));
                tokio::task::spawn_blocking(work)
                    .await
                    .expect("registering a value does not panic")
            }
        };
        let mut cache = self.cache();
        if !has_own {
            cache.common = Some(rules.clone());
        }
        if cache.forgotten(tenant) == read.0 {
            let cached = Known {
                rules: rules.clone(),
                vault,
                looked_at,
                bytes,
            };
            cache.tenants.insert(tenant.clone(), cached);
            cache.make_room(tenant);
        }
        rules
    }

    /// Records that the vault was checked and is unchanged.
    pub(crate) fn confirm(&self, tenant: &TenantId, read: Look, looked_at: Timestamp) {
        let mut cache = self.cache();
        if cache.forgotten(tenant) == read.0
            && let Some(known) = cache.tenants.get_mut(tenant)
        {
            known.looked_at = looked_at;
        }
    }

    /// Invalidates the rules of a tenant: they are built again when they are next needed.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let mut cache = self.cache();
        *cache.forgotten.entry(tenant.clone()).or_default() += 1;
        cache.tenants.remove(tenant);
    }

    /// Extends rules by more values: those that a run resolved.
    pub(crate) fn with(&self, rules: &Rules, more: &[SecretValue]) -> Rules {
        Rules::new(
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
    pub fn rules(&self, secrets: &Secrets, base: &Arc<Rules>) -> Arc<Rules> {
        if self.0.is_empty() {
            base.clone()
        } else {
            Arc::new(secrets.with(base, &self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn learn(secrets: &Secrets, tenant: &TenantId, at: i64, bytes: usize) -> Arc<Rules> {
        let look = secrets.look(tenant);
        let value = (bytes > 0).then(|| SecretValue::new("a", "x7".repeat(bytes / 2)));
        let values = value.into_iter().collect();
        secrets
            .learn(tenant, look, [1; 32], Timestamp(at), values)
            .await
    }

    #[tokio::test]
    async fn the_rules_of_those_who_were_looked_at_longest_ago_make_room() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let tenant = |number: usize| TenantId::parse(&format!("t{number}")).unwrap();
        for number in 0..3 {
            learn(&secrets, &tenant(number), 10 - number as i64, BYTES_MAX / 3).await;
        }
        assert!((0..3).all(|number| secrets.known(&tenant(number)).is_some()));
        learn(&secrets, &tenant(3), 0, BYTES_MAX / 3).await;
        let kept = (0..4).filter(|number| secrets.known(&tenant(*number)).is_some());
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [0, 1, 3],
            "the newest stays in any case"
        );
    }

    #[tokio::test]
    async fn tenants_without_values_of_their_own_share_rules() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let [a, b, c] = ["a", "b", "c"].map(|name| TenantId::parse(name).unwrap());
        let first = learn(&secrets, &a, 0, 0).await;
        assert!(Arc::ptr_eq(&first, &learn(&secrets, &b, 0, 0).await));
        assert!(!Arc::ptr_eq(&first, &learn(&secrets, &c, 0, 20).await));
        secrets.forget(&c);
        assert!(secrets.known(&a).is_some() && secrets.known(&c).is_none());
    }

    #[tokio::test]
    async fn what_was_seen_before_something_was_forgotten_is_not_kept() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let look = secrets.look(&tenant);
        secrets.forget(&TenantId::parse("other").unwrap());
        secrets.forget(&tenant);
        secrets
            .learn(&tenant, look, [1; 32], Timestamp(0), Vec::new())
            .await;
        assert!(secrets.known(&tenant).is_none());
        learn(&secrets, &tenant, 0, 0).await;
        let look = secrets.look(&tenant);
        secrets.forget(&TenantId::parse("other").unwrap());
        secrets.confirm(&tenant, look, Timestamp(5));
        assert_eq!(secrets.known(&tenant).unwrap().looked_at, Timestamp(5));
    }

    #[tokio::test]
    async fn a_run_adds_its_own_values_to_the_tenants() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let value = SecretValue::new("a", "of the tenant");
        let look = secrets.look(&tenant);
        let base = secrets
            .learn(&tenant, look, [0; 32], Timestamp(0), vec![value])
            .await;
        let mut own = RunSecrets::default();
        assert!(Arc::ptr_eq(&own.rules(&secrets, &base), &base));
        own.add(SecretValue::new("b", "of the run"));
        let rules = own.rules(&secrets, &base);
        let clean = |rules: &Rules| {
            rules
                .redactor()
                .clean("of the tenant, of the run", ShapePolicy::Off)
                .text
                .into_string()
        };
        assert_eq!(clean(&rules), "[REDACTED:a], [REDACTED:b]");
        assert_eq!(clean(&base), "[REDACTED:a], of the run");
        assert_ne!(rules.scan(ShapePolicy::Off), base.scan(ShapePolicy::Off));
    }
}
