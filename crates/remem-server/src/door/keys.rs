//! Keys on the wire, and who a caller is by them.

use remem_core::{Permission, Trust};
use remem_engine::keys;
use remem_store::KeyRecord;
use remem_wire::admin::{KeyInfo, Whoami};
use remem_wire::time::Instant;

fn scopes(permissions: &[Permission]) -> Vec<String> {
    permissions.iter().map(|p| p.as_str().to_owned()).collect()
}

/// A key, without the key.
pub(super) fn key_info(record: &KeyRecord) -> KeyInfo {
    KeyInfo {
        id: record.id.as_str().to_owned(),
        principal: record.principal.as_str().to_owned(),
        tenant: record.tenant.as_str().to_owned(),
        label: record.label.clone(),
        scopes: scopes(&record.allows()),
        trust: record.trust.unwrap_or(Trust::Operator).into(),
        trust_unset: record.trust.is_none(),
        created_at: Instant(record.created_at),
        expires_at: record.expires_at.map(Instant),
        revoked_at: record.revoked_at.map(Instant),
    }
}

/// What a caller's key or token proved.
pub(super) fn whoami(proven: keys::Whoami) -> Whoami {
    Whoami {
        tenant: proven.tenant.as_str().to_owned(),
        principal: proven.principal.as_str().to_owned(),
        scopes: scopes(&proven.permissions),
        trust: proven.trust.unwrap_or(Trust::Operator).into(),
        trust_unset: proven.trust.is_none(),
        key_id: proven.key.map(|id| id.as_str().to_owned()),
        expires_at: proven.until.map(Instant),
    }
}
