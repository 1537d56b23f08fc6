//! Who is asking: the tenant and rights that a key or a token proved. Only authentication makes
//! one.

use crate::bearer::KeyPrint;
use crate::commitments::fire::HOST;
use crate::error::EngineError;
use remem_core::sabotage;
use remem_core::{
    Actor, Draft, MemoryRef, Permission, PrincipalId, Rejection, Scope, ShapePolicy, TenantId,
    Timestamp, Trust,
};
use remem_store::KeyHash;

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    pub(crate) permissions: Vec<Permission>,
    /// The most that it may vouch for; `None` where nobody said, which is everything.
    pub(crate) trust: Option<Trust>,
    pub(crate) shapes: ShapePolicy,
    pub(crate) proof: Proof,
}

/// What the caller came in with, to ask later whether it is still good.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// Nothing: a command that opens the data itself.
    Local,
    /// Nothing: a command that opens the data itself and reads the memories of all users.
    LocalForAll,
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
        if self.may(permission) {
            Ok(())
        } else {
            Err(EngineError::Forbidden(permission))
        }
    }

    /// The most that it may vouch for.
    #[must_use]
    pub fn trust_max(&self) -> Trust {
        self.trust.unwrap_or(Trust::Operator)
    }

    /// The same caller, who vouches for no more than `most`.
    #[must_use]
    pub fn capped(self, most: Trust) -> Caller {
        Caller {
            trust: Some(self.trust_max().meet(most)),
            ..self
        }
    }

    /// The same caller behind a model's tools: where nobody said what the key may vouch for, it is
    /// what a model may.
    #[must_use]
    pub fn through_tools(self) -> Caller {
        sabotage!(
            "a-model-vouches-for-everything",
            Caller {
                trust: self.trust.or(Some(Trust::Model)),
                ..self
            },
            self
        )
    }

    /// What a text is believed for which the caller names no source.
    #[must_use]
    pub(crate) fn own_trust(&self) -> Trust {
        Trust::default().meet(self.trust_max())
    }

    /// Refuses a claim that is higher than what the caller may vouch for.
    pub(crate) fn vouch(&self, claimed: Trust) -> Result<(), EngineError> {
        let most = self.trust_max();
        if sabotage!("a-key-vouches-for-more-than-it-may", claimed > most, false) {
            return Err(EngineError::TrustTooHigh { claimed, most });
        }
        Ok(())
    }

    /// The drafts as the caller may write them: with its own trust where it named no source. Refused
    /// rather than lowered where it claims too much.
    pub(crate) fn vouch_for(&self, mut drafts: Vec<Draft>) -> Result<Vec<Draft>, EngineError> {
        for draft in &mut drafts {
            if draft.unsourced {
                draft.facets.trust = draft.facets.trust.meet(self.own_trust());
            }
            self.vouch(draft.facets.trust)?;
        }
        Ok(drafts)
    }

    /// Refuses whoever may not vouch for what runs write, which counts as a model's: what they are
    /// given would come out as more than it went in.
    pub(crate) fn vouch_for_runs(&self) -> Result<(), EngineError> {
        sabotage!(
            "runs-write-more-than-their-starter-may",
            self.vouch(Trust::Model),
            Ok(())
        )
    }

    /// Refuses whoever may not start runs.
    pub(crate) fn may_start_runs(&self) -> Result<(), EngineError> {
        self.require(Permission::RunsCreate)?;
        self.vouch_for_runs()
    }

    /// Who it is to memories that are one user's own.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match self.proof {
            Proof::LocalForAll => Actor::Host,
            _ => Actor::User(self.principal.clone()),
        }
    }

    /// The memory of that name, as it is called everywhere behind the door: `~/name` is the
    /// caller's own. `None` for what is no name, and for what is somebody else's: both are unknown.
    #[must_use]
    pub fn memory_ref(&self, name: &str) -> Option<MemoryRef> {
        match self.proof {
            Proof::LocalForAll => MemoryRef::parse(name),
            _ => named(&self.principal, name),
        }
    }

    /// The scope of a name inside the caller's tenant. A malformed name is no scope: reads treat it
    /// as unknown.
    #[must_use]
    pub fn scope(&self, memory_ref: &str) -> Option<Scope> {
        Some(Scope::new(self.tenant.clone(), self.memory_ref(memory_ref)?).acting(self.actor()))
    }

    /// The scope to write to. Here a malformed name is refused, without an echo: silently dropping
    /// a write would lose it.
    pub fn scope_to_write(&self, memory_ref: &str) -> Result<Scope, EngineError> {
        Ok(self
            .scope(memory_ref)
            .ok_or(Rejection::MalformedName { field: "memoryRef" })?)
    }

    /// Whether it may know of this memory.
    #[must_use]
    pub fn may_see(&self, memory_ref: &MemoryRef) -> bool {
        self.actor().may_see(memory_ref)
    }
}

/// What `user` means by the name of a memory; `None` for what is no name, or somebody else's.
pub(crate) fn named(user: &PrincipalId, name: &str) -> Option<MemoryRef> {
    let own = name
        .strip_prefix("~/")
        .map(|rest| format!("~{user}/{rest}"));
    // What the host starts by itself has no memory of its own: nobody could read it.
    let reaches = |found: &MemoryRef| {
        found.owner().is_none()
            || sabotage!(
                "what-the-host-starts-has-a-memory-of-its-own",
                user.as_str() != HOST && Actor::User(user.clone()).may_see(found),
                Actor::User(user.clone()).may_see(found)
            )
    };
    MemoryRef::parse(own.as_deref().unwrap_or(name)).filter(|found| {
        sabotage!(
            "a-caller-reaches-for-anybody-s-memory",
            reaches(found),
            true
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reaches_their_own_memories_and_the_tenants() {
        let ada = PrincipalId::parse("ada").unwrap();
        let name = |text: &str| named(&ada, text).map(|found| found.as_str().to_owned());
        assert_eq!(name("~/ops").as_deref(), Some("~ada/ops"));
        assert_eq!(name("~ada/ops").as_deref(), Some("~ada/ops"));
        assert_eq!(name("ops").as_deref(), Some("ops"));
        let host = PrincipalId::parse(HOST).unwrap();
        assert_eq!(
            (named(&host, "~/ops"), named(&host, "~ada/ops")),
            (None, None)
        );
        assert_eq!(
            (name("~bob/ops"), name("~/"), name("~*/ops"), name("~")),
            (None, None, None, None)
        );
    }
}
