//! Registered secrets: values that must never be stored, held in process memory only. `Rules` is
//! what texts of a tenant are held against at this moment; a value that is registered later makes
//! new rules.

use crate::engine::HostKey;
use remem_core::redact::SecretValue;
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
}

#[derive(Default)]
struct Cache {
    tenants: HashMap<TenantId, Known>,
    /// How often something was forgotten.
    forgotten: u64,
}

/// The rules of a tenant, and which state of its vault they stand for.
#[derive(Clone)]
pub(crate) struct Known {
    pub rules: Arc<Rules>,
    /// Names the state of the vault.
    pub vault: [u8; 32],
    /// When the vault was last looked at.
    pub looked_at: Timestamp,
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
    pub(crate) fn look(&self) -> Look {
        Look(self.cache().forgotten)
    }

    /// Keeps the rules of a tenant: what was given at the start, and the values of its vault.
    pub(crate) fn learn(
        &self,
        tenant: &TenantId,
        look: Look,
        vault: [u8; 32],
        looked_at: Timestamp,
        values: Vec<SecretValue>,
    ) -> Arc<Rules> {
        let given = self
            .given
            .iter()
            .filter(|(of, _)| of.as_ref().is_none_or(|of| of == tenant))
            .map(|(_, value)| value.clone());
        let rules = Arc::new(Rules::new(&self.scan_key, given.chain(values).collect()));
        let mut cache = self.cache();
        if cache.forgotten == look.0 {
            cache.tenants.insert(
                tenant.clone(),
                Known {
                    rules: rules.clone(),
                    vault,
                    looked_at,
                },
            );
        }
        rules
    }

    /// The vault was looked at and is as it was.
    pub(crate) fn confirm(&self, tenant: &TenantId, look: Look, looked_at: Timestamp) {
        let mut cache = self.cache();
        if cache.forgotten == look.0
            && let Some(known) = cache.tenants.get_mut(tenant)
        {
            known.looked_at = looked_at;
        }
    }

    /// What holds from now on is worked out anew when it is next needed.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let mut cache = self.cache();
        cache.forgotten += 1;
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

    #[test]
    fn what_was_seen_before_something_was_forgotten_is_not_kept() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let look = secrets.look();
        secrets.forget(&tenant);
        secrets.learn(&tenant, look, [1; 32], Timestamp(0), Vec::new());
        assert!(secrets.known(&tenant).is_none());
        secrets.learn(&tenant, secrets.look(), [1; 32], Timestamp(0), Vec::new());
        let look = secrets.look();
        secrets.confirm(&tenant, look, Timestamp(5));
        assert_eq!(secrets.known(&tenant).unwrap().looked_at, Timestamp(5));
    }

    #[test]
    fn a_run_adds_its_own_values_to_the_tenants() {
        let secrets = Secrets::none(&HostKey::new([1; 32]));
        let tenant = TenantId::parse("t").unwrap();
        let base = secrets.learn(
            &tenant,
            secrets.look(),
            [0; 32],
            Timestamp(0),
            vec![SecretValue::new("a", "of the tenant")],
        );
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
