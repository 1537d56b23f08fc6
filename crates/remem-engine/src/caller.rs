//! Who is asking: the tenant and rights that a key or a token proved. Only authentication makes one.

use crate::bearer::KeyPrint;
use crate::error::EngineError;
use remem_core::{MemoryRef, Permission, PrincipalId, Rejection, Scope, ShapePolicy, TenantId, Timestamp};
use remem_store::KeyHash;

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    pub(crate) permissions: Vec<Permission>,
    pub(crate) shapes: ShapePolicy,
    pub(crate) proof: Proof,
}

/// What the caller came in with, to ask later whether it is still good.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// Nothing: a command that opens the data itself.
    Local,
    /// The key of this hash.
    Key(KeyHash),
    /// A token: good until then, and as long as the issuer has the key that signed it.
    Token { until: Timestamp, key: KeyPrint },
}

impl Caller {
    /// The tenant whose memory it reaches, the only one.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The user it acts as.
    #[must_use]
    pub fn principal(&self) -> &PrincipalId {
        &self.principal
    }

    /// Whether it may.
    #[must_use]
    pub fn may(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// Refuses unless it may.
    pub fn require(&self, permission: Permission) -> Result<(), EngineError> {
        if self.may(permission) { Ok(()) } else { Err(EngineError::Forbidden(permission)) }
    }

    /// The scope of a name inside the caller's tenant. A malformed name is no scope: reads treat it as unknown.
    #[must_use]
    pub fn scope(&self, memory_ref: &str) -> Option<Scope> {
        MemoryRef::parse(memory_ref).map(|memory_ref| Scope::new(self.tenant.clone(), memory_ref))
    }

    /// The scope to write to. Here a malformed name is refused, without an echo: silently dropping a write would lose it.
    pub fn scope_to_write(&self, memory_ref: &str) -> Result<Scope, EngineError> {
        Ok(self.scope(memory_ref).ok_or(Rejection::MalformedName { field: "memoryRef" })?)
    }
}
