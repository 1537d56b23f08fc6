//! An authenticated caller: the tenant, user and rights that a key or token proved. Only
//! authentication creates one.

use crate::bearer::KeyFingerprint;
use crate::commitments::firing::HOST;
use crate::error::EngineError;
use remem_core::sabotage;
use remem_core::{
    Actor, Draft, MemoryRef, Permission, PrincipalId, Rejection, Scope, ShapePolicy, TenantId,
    Timestamp, Trust,
};
use remem_store::KeyHash;

/// An authenticated user of one tenant, and its rights.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    pub(crate) permissions: Vec<Permission>,
    /// The highest trust that its writes may claim; `None` where no limit was set.
    pub(crate) trust: Option<Trust>,
    pub(crate) shapes: ShapePolicy,
    pub(crate) credential: Credential,
}

/// The credential that the caller authenticated with, to check later whether it is still valid.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// A local command that opens the data itself, and acts as one user.
    Local,
    /// A local command that opens the data itself, and may read the memories of all users.
    LocalAllUsers,
    /// The API key with this hash.
    Key(KeyHash),
    /// A token: valid until this instant, and as long as the issuer publishes the key that signed
    /// it.
    Token {
        until: Timestamp,
        key: KeyFingerprint,
    },
}

impl Caller {
    /// The only tenant whose data the caller can reach.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The user that it acts as.
    #[must_use]
    pub fn principal(&self) -> &PrincipalId {
        &self.principal
    }

    /// Whether the caller has a permission.
    #[must_use]
    pub fn has_permission(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// Fails with `Forbidden` unless the caller has the permission.
    pub fn require(&self, permission: Permission) -> Result<(), EngineError> {
        if self.has_permission(permission) {
            Ok(())
        } else {
            Err(EngineError::Forbidden(permission))
        }
    }

    /// The highest trust that the caller's writes may claim.
    #[must_use]
    pub fn trust_max(&self) -> Trust {
        self.trust.unwrap_or(Trust::Operator)
    }

    /// Lowers the highest trust that the caller may claim to `most`.
    #[must_use]
    pub fn with_trust_max(self, most: Trust) -> Caller {
        Caller {
            trust: Some(self.trust_max().weaker(most)),
            ..self
        }
    }

    /// The same caller acting through the tools of a model: where no limit of trust was set for the
    /// key, it is that of a model.
    #[must_use]
    pub fn through_model_tools(self) -> Caller {
        sabotage!(
            "a-model-vouches-for-everything",
            Caller {
                trust: self.trust.or(Some(Trust::Model)),
                ..self
            },
            self
        )
    }

    /// Trust of a text whose source the caller does not name.
    #[must_use]
    pub(crate) fn default_trust(&self) -> Trust {
        Trust::default().weaker(self.trust_max())
    }

    /// Fails if the claimed trust is higher than the caller may claim.
    pub(crate) fn check_trust(&self, claimed: Trust) -> Result<(), EngineError> {
        let most = self.trust_max();
        if sabotage!("a-key-vouches-for-more-than-it-may", claimed > most, false) {
            return Err(EngineError::TrustTooHigh { claimed, most });
        }
        Ok(())
    }

    /// Sets the default trust on drafts without a source, and fails if a draft claims more trust
    /// than the caller may. A claim is refused rather than lowered.
    pub(crate) fn with_trust(&self, mut drafts: Vec<Draft>) -> Result<Vec<Draft>, EngineError> {
        for draft in &mut drafts {
            if draft.trust_is_default {
                draft.facets.trust = draft.facets.trust.weaker(self.default_trust());
            }
            self.check_trust(draft.facets.trust)?;
        }
        Ok(drafts)
    }

    /// Fails if the caller may not claim the trust of a model, which is what runs write with.
    /// Otherwise a text of less trust, handed to a run, would come out with more.
    pub(crate) fn require_run_trust(&self) -> Result<(), EngineError> {
        sabotage!(
            "runs-write-more-than-their-starter-may",
            self.check_trust(Trust::Model),
            Ok(())
        )
    }

    /// Fails unless the caller may start runs.
    pub(crate) fn require_run_start(&self) -> Result<(), EngineError> {
        self.require(Permission::RunsCreate)?;
        self.require_run_trust()
    }

    /// The identity that access to memories of one user is checked with.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match self.credential {
            Credential::LocalAllUsers => Actor::Host,
            _ => Actor::User(self.principal.clone()),
        }
    }

    /// Resolves the name of a memory to the full name used inside the engine: `~/name` is the
    /// caller's own. `None` for a malformed name and for another user's memory: both are answered
    /// as unknown.
    #[must_use]
    pub fn memory_ref(&self, name: &str) -> Option<MemoryRef> {
        match self.credential {
            Credential::LocalAllUsers => MemoryRef::parse(name),
            _ => resolve_memory_ref(&self.principal, name),
        }
    }

    /// The scope of a memory's name inside the caller's tenant. `None` for a malformed name: reads
    /// treat it as unknown.
    #[must_use]
    pub fn scope(&self, memory_ref: &str) -> Option<Scope> {
        Some(Scope::new(self.tenant.clone(), self.memory_ref(memory_ref)?).with_actor(self.actor()))
    }

    /// The scope of a write. Here a malformed name is an error, without an echo of the name: a
    /// write that is silently dropped would be lost.
    pub fn scope_to_write(&self, memory_ref: &str) -> Result<Scope, EngineError> {
        Ok(self
            .scope(memory_ref)
            .ok_or(Rejection::MalformedName { field: "memoryRef" })?)
    }

    /// Whether the caller may know that this memory exists.
    #[must_use]
    pub fn may_see(&self, memory_ref: &MemoryRef) -> bool {
        self.actor().may_see(memory_ref)
    }
}

/// Resolves a memory's name for `user`: `~/name` is the user's own. `None` for a malformed name and
/// for another user's memory.
pub(crate) fn resolve_memory_ref(user: &PrincipalId, name: &str) -> Option<MemoryRef> {
    let own = name
        .strip_prefix("~/")
        .map(|rest| format!("~{user}/{rest}"));
    // The host's own principal may not own a memory, because no user could read it.
    let may_reach = |memory_ref: &MemoryRef| {
        memory_ref.owner().is_none()
            || sabotage!(
                "what-the-host-starts-has-a-memory-of-its-own",
                user.as_str() != HOST && Actor::User(user.clone()).may_see(memory_ref),
                Actor::User(user.clone()).may_see(memory_ref)
            )
    };
    MemoryRef::parse(own.as_deref().unwrap_or(name)).filter(|memory_ref| {
        sabotage!(
            "a-caller-reaches-for-anybody-s-memory",
            may_reach(memory_ref),
            true
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_refs_resolve_to_own_or_tenant_memories_only() {
        let ada = PrincipalId::parse("ada").unwrap();
        let name =
            |text: &str| resolve_memory_ref(&ada, text).map(|found| found.as_str().to_owned());
        assert_eq!(name("~/ops").as_deref(), Some("~ada/ops"));
        assert_eq!(name("~ada/ops").as_deref(), Some("~ada/ops"));
        assert_eq!(name("ops").as_deref(), Some("ops"));
        let host = PrincipalId::parse(HOST).unwrap();
        assert_eq!(
            (
                resolve_memory_ref(&host, "~/ops"),
                resolve_memory_ref(&host, "~ada/ops")
            ),
            (None, None)
        );
        assert_eq!(
            (name("~bob/ops"), name("~/"), name("~*/ops"), name("~")),
            (None, None, None, None)
        );
    }
}
