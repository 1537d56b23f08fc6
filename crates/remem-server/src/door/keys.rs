//! Keys on the wire, and who a caller is by them.

use remem_core::{Permission, Rejection};
use remem_engine::keys;
use remem_store::KeyRecord;
use remem_wire::Problem;
use remem_wire::admin::{KeyInfo, Whoami};
use remem_wire::time::Instant;

fn scopes(permissions: &[Permission]) -> Vec<String> {
    permissions.iter().map(|p| p.as_str().to_owned()).collect()
}

/// The permissions that scopes name.
pub(super) fn permissions(scopes: &[String]) -> Result<Vec<Permission>, Problem> {
    let limit = Permission::ALL.len() as u64;
    let actual = scopes.len() as u64;
    if actual > limit {
        return Err(Problem::Rejected(Rejection::TooLarge {
            field: "scopes",
            unit: "items",
            limit,
            actual,
        }));
    }
    let permissions: Result<Vec<Permission>, _> =
        scopes.iter().map(|scope| scope.parse()).collect();
    permissions.map_err(|_| Problem::UnknownScope)
}

/// A key, without the key.
pub(super) fn key_info(record: &KeyRecord) -> KeyInfo {
    KeyInfo {
        id: record.id.as_str().to_owned(),
        principal: record.principal.as_str().to_owned(),
        tenant: record.tenant.as_str().to_owned(),
        label: record.label.clone(),
        scopes: scopes(&record.permissions),
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
        key_id: proven.key.map(|id| id.as_str().to_owned()),
        expires_at: proven.until.map(Instant),
    }
}
