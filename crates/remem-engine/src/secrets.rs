//! Registered secrets: values that must never be stored, held in process memory only. `Rules` is
//! what texts of a tenant are held against at this moment; a value that is registered later makes
//! new rules.

use crate::engine::HostKey;
use remem_core::redact::SecretValue;
use remem_core::sabotage;
use remem_core::{Admission, Policy, Redactor, ShapePolicy, TenantId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What texts are held against: registered values and shapes. Cheap to share.
pub struct Rules {
    values: Vec<SecretValue>,
    redactor: Redactor,
    fingerprint: u64,
}

impl Rules {
    fn new(scan_key: &[u8; 32], values: Vec<SecretValue>) -> Rules {
        let redactor = Redactor::new(values.iter().cloned());
        Rules {
            fingerprint: redactor.fingerprint(scan_key),
            redactor,
            values,
        }
    }

    /// The chokepoint under these rules.
    #[must_use]
    pub fn admission<'a>(&'a self, policy: &'a Policy, now: Timestamp) -> Admission<'a> {
        Admission {
            policy,
            redactor: &self.redactor,
            scan: self.scan(policy.shapes),
            now,
        }
    }

    /// The redactor.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Identifies the rules an entry is written under: the registered values, the table of shapes,
    /// the tenant's policy.
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

/// The rules of all tenants: values registered for the whole host, each tenant's own, and those of
/// its vault.
pub struct Secrets {
    scan_key: [u8; 32],
    given: Vec<(Option<TenantId>, SecretValue)>,
    known: Mutex<Cache>,
    building: [tokio::sync::Mutex<()>; CLASSES],
}

#[derive(Default)]
struct Cache {
    tenants: HashMap<TenantId, Known>,
    /// How often something of a tenant was forgotten.
    forgotten: HashMap<TenantId, u64>,
    /// What holds for a tenant without values of its own.
    common: Option<Arc<Rules>>,
}

/// Tenants whose rules are kept in memory, and the bytes of their vaults' values. Rules of the
/// tenant that was looked at longest ago are worked out anew when they are next needed.
const TENANTS_MAX: usize = 10_000;
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Tenants fall into so many classes; of each, the rules of one are worked out at a time.
const CLASSES: usize = 64;

impl Cache {
    fn forgotten(&self, tenant: &TenantId) -> u64 {
        self.forgotten.get(tenant).copied().unwrap_or(0)
    }

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

/// The rules of a tenant, and which state of its vault they stand for.
#[derive(Clone)]
pub(crate) struct Known {
    pub rules: Arc<Rules>,
    /// Names the state of the vault.
    pub vault: [u8; 32],
    /// When the vault was last looked at.
    pub looked_at: Timestamp,
    /// The bytes of the tenant's own values.
    pub bytes: usize,
}

/// Taken before a look at a vault: what was seen then is not kept if something was forgotten in the
/// meantime.
#[derive(Clone, Copy)]
pub(crate) struct Look(u64);

impl Secrets {
    /// Nothing registered; shapes are still looked for.
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

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules of a tenant as they were last worked out.
    pub(crate) fn known(&self, tenant: &TenantId) -> Option<Known> {
        self.cache().tenants.get(tenant).cloned()
    }

    /// Begins a look at a vault.
    pub(crate) fn look(&self, tenant: &TenantId) -> Look {
        Look(self.cache().forgotten(tenant))
    }

    /// Waits until nobody else works out the rules of the tenant: whoever asked meanwhile finds
    /// them done.
    pub(crate) async fn turn(&self, tenant: &TenantId) -> tokio::sync::MutexGuard<'_, ()> {
        let hash = blake3::hash(tenant.as_str().as_bytes());
        let class = usize::from(hash.as_bytes()[0]) % CLASSES;
        self.building[class].lock().await
    }

    /// Works out the rules of a tenant: what was given at the start, and the values of its vault.
    /// That can take a good part of a second, so it is done off the async threads.
    pub(crate) async fn learn(
        &self,
        tenant: &TenantId,
        look: Look,
        vault: [u8; 32],
        looked_at: Timestamp,
        values: Vec<SecretValue>,
    ) -> Arc<Rules> {
        let of_tenant = |of: &Option<TenantId>| of.as_ref().is_none_or(|of| of == tenant);
        let given = self.given.iter().filter(|(of, _)| of_tenant(of));
        let has_own = !values.is_empty() || given.clone().any(|(of, _)| of.is_some());
        let bytes = values.iter().map(|value| value.byte_len()).sum();
        let common = self.cache().common.clone().filter(|_| !has_own);
        let rules = match common {
            Some(rules) => rules,
            None => {
                let given = given.map(|(_, value)| value.clone());
                let all: Vec<SecretValue> = given.chain(values).collect();
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
        if cache.forgotten(tenant) == look.0 {
            let known = Known {
                rules: rules.clone(),
                vault,
                looked_at,
                bytes,
            };
            cache.tenants.insert(tenant.clone(), known);
            cache.make_room(tenant);
        }
        rules
    }

    /// The vault was looked at and is as it was.
    pub(crate) fn confirm(&self, tenant: &TenantId, look: Look, looked_at: Timestamp) {
        let mut cache = self.cache();
        if cache.forgotten(tenant) == look.0
            && let Some(known) = cache.tenants.get_mut(tenant)
        {
            known.looked_at = looked_at;
        }
    }

    /// What holds from now on is worked out anew when it is next needed.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let mut cache = self.cache();
        *cache.forgotten.entry(tenant.clone()).or_default() += 1;
        cache.tenants.remove(tenant);
    }

    /// Rules with more values: those that a run resolved.
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
    /// From now on the run's texts are held against this one as well.
    pub fn add(&mut self, value: SecretValue) {
        self.0.push(value);
    }

    /// What the run's texts are held against: the tenant's rules and its own secrets.
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
