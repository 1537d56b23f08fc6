//! Registered secrets: values that must never be stored, held in process memory only. `Rules` is what texts of a tenant
//! are held against at this moment; a value that is registered later makes new rules.

use crate::engine::HostKey;
use remem_core::redact::SecretValue;
use remem_core::{Admission, Policy, Redactor, ShapePolicy, TenantId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What texts are held against: registered values and shapes. Cheap to share.
pub struct Rules {
    values: Vec<SecretValue>,
    redactor: Redactor,
    fingerprint: u64,
}

impl Rules {
    fn new(scan_key: &[u8; 32], values: Vec<SecretValue>) -> Rules {
        let redactor = Redactor::new(values.iter().cloned());
        Rules { fingerprint: redactor.fingerprint(scan_key), redactor, values }
    }

    /// The chokepoint under these rules.
    #[must_use]
    pub fn admission<'a>(&'a self, policy: &'a Policy, now: Timestamp) -> Admission<'a> {
        Admission { policy, redactor: &self.redactor, scan: self.scan(policy.shapes), now }
    }

    /// The redactor.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Identifies the rules an entry is written under: the registered values, the table of shapes, the tenant's policy.
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

/// The rules of all tenants: values registered for the whole host, each tenant's own, and those of its vault.
pub struct Secrets {
    scan_key: [u8; 32],
    given: Vec<(Option<TenantId>, SecretValue)>,
    known: Mutex<HashMap<TenantId, Known>>,
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

impl Secrets {
    /// Nothing registered; shapes are still looked for.
    #[must_use]
    pub fn none(key: &HostKey) -> Secrets {
        Secrets::new(key, Vec::new())
    }

    /// Registers values, each for one tenant or (`None`) for all.
    #[must_use]
    pub fn new(key: &HostKey, values: Vec<(Option<TenantId>, SecretValue)>) -> Secrets {
        Secrets { scan_key: key.derive("remembrancer scan v1"), given: values, known: Mutex::default() }
    }

    /// The rules of a tenant as they were last worked out.
    pub(crate) fn known(&self, tenant: &TenantId) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// Keeps the rules of a tenant: what was given at the start, and the values of its vault.
    pub(crate) fn learn(&self, tenant: &TenantId, vault: [u8; 32], looked_at: Timestamp, values: Vec<SecretValue>) -> Arc<Rules> {
        let given = self.given.iter().filter(|(of, _)| of.as_ref().is_none_or(|of| of == tenant)).map(|(_, value)| value.clone());
        let rules = Arc::new(Rules::new(&self.scan_key, given.chain(values).collect()));
        let known = Known { rules: rules.clone(), vault, looked_at };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone(), known);
        rules
    }

    /// The vault was looked at and is as it was.
    pub(crate) fn confirm(&self, tenant: &TenantId, looked_at: Timestamp) {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get_mut(tenant) {
            known.looked_at = looked_at;
        }
    }

    /// What holds from now on is worked out anew when it is next needed.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }

    /// Rules with more values: those that a run resolved.
    pub(crate) fn with(&self, rules: &Rules, more: &[SecretValue]) -> Rules {
        Rules::new(&self.scan_key, rules.values.iter().chain(more).cloned().collect())
    }
}
