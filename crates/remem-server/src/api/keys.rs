//! Translates key records, and the identity that a key or token proves, between engine and wire.

use super::{LocalApi, engine_failure};
use remem_core::{Permission, PrincipalId, Rejection, Trust};
use remem_engine::keys::{self, KeyRequest};
use remem_store::KeyRecord;
use remem_wire::admin::{KeyChange, KeyCreate, KeyCreated, KeyInfo, TenantQuery, Whoami};
use remem_wire::time::Instant;
use remem_wire::{Failure, Problem};

/// Returns the scope names of permissions: on the wire a permission is called a scope.
fn scopes(permissions: &[Permission]) -> Vec<String> {
    permissions.iter().map(|p| p.as_str().to_owned()).collect()
}

/// Returns the permissions that scope names mean.
fn permissions(scopes: &[String]) -> Result<Vec<Permission>, Problem> {
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

/// Converts the record of a key, which does not hold the key itself.
pub(super) fn key_info(record: &KeyRecord) -> KeyInfo {
    KeyInfo {
        id: record.id.as_str().to_owned(),
        principal: record.principal.as_str().to_owned(),
        tenant: record.tenant.as_str().to_owned(),
        label: record.label.clone(),
        scopes: scopes(&record.effective_permissions()),
        trust: record.trust.unwrap_or(Trust::Operator).into(),
        trust_unset: record.trust.is_none(),
        created_at: Instant(record.created_at),
        expires_at: record.expires_at.map(Instant),
        revoked_at: record.revoked_at.map(Instant),
    }
}

/// Converts the identity and rights that a caller's key or token proved.
pub(super) fn whoami_doc(proven: keys::Whoami) -> Whoami {
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

fn principal(name: Option<&str>) -> Result<Option<PrincipalId>, Failure> {
    let read = |name| {
        PrincipalId::parse(name).ok_or_else(|| {
            Problem::Rejected(Rejection::MalformedName { field: "principal" }).into()
        })
    };
    name.map(read).transpose()
}

impl LocalApi {
    /// Creates a key for the tenant that the request names, or for the caller's own.
    pub(super) async fn issue_key(&self, request: KeyCreate) -> Result<KeyCreated, Failure> {
        let request = KeyRequest {
            tenant: self.tenant_or_own(&request.tenant)?,
            label: request.label,
            permissions: permissions(&request.scopes)?,
            expires_at: request.expires_at.map(|t| t.0),
            principal: principal(request.principal.as_deref())?,
            trust: request.trust.map(Into::into),
        };
        let new = self
            .engine
            .create_key(&self.caller, request)
            .await
            .map_err(engine_failure)?;
        Ok(KeyCreated {
            key: new.text.to_string(),
            info: key_info(&new.record),
        })
    }

    /// Changes the highest trust that a key may vouch for.
    pub(super) async fn set_key_trust(
        &self,
        query: TenantQuery,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyInfo, Failure> {
        let tenant = self.tenant_or_own(&query.tenant)?;
        self.engine
            .set_key_trust(&self.caller, &tenant, id, change.trust.into())
            .await
            .map(|key| key_info(&key))
            .map_err(engine_failure)
    }
}
