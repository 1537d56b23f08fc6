//! Registered secrets: values that must never be stored, held in process memory only.

use crate::engine::HostKey;
use remem_core::redact::SecretValue;
use remem_core::{Redactor, ShapePolicy, TenantId};
use std::collections::HashMap;

/// The redactors of all tenants: values registered for the whole host, plus each tenant's own.
pub struct Secrets {
    host: Known,
    tenants: HashMap<TenantId, Known>,
}

#[derive(Clone)]
struct Known {
    redactor: Redactor,
    fingerprint: u64,
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
        let known = |values: Vec<SecretValue>| {
            let redactor = Redactor::new(values);
            Known { fingerprint: redactor.fingerprint(&key.derive("remembrancer scan v1")), redactor }
        };
        let names: Vec<TenantId> = values.iter().filter_map(|(tenant, _)| tenant.clone()).collect();
        let of = |tenant: Option<&TenantId>| {
            values.iter().filter(|(t, _)| t.is_none() || t.as_ref() == tenant).map(|(_, value)| value.clone()).collect()
        };
        let tenants = names.into_iter().map(|name| (name.clone(), known(of(Some(&name))))).collect();
        Secrets { host: known(of(None)), tenants }
    }

    /// The redactor of a tenant.
    #[must_use]
    pub fn redactor(&self, tenant: &TenantId) -> &Redactor {
        &self.known(tenant).redactor
    }

    /// Identifies the rules an entry is written under: the registered values, the table of shapes, the tenant's policy.
    #[must_use]
    pub fn scan(&self, tenant: &TenantId, shapes: ShapePolicy) -> u64 {
        let policy = match shapes {
            ShapePolicy::Redact => 0,
            ShapePolicy::Flag => 0x5555_5555_5555_5555,
            ShapePolicy::Off => 0xAAAA_AAAA_AAAA_AAAA,
        };
        self.known(tenant).fingerprint ^ policy
    }

    fn known(&self, tenant: &TenantId) -> &Known {
        self.tenants.get(tenant).unwrap_or(&self.host)
    }
}
