//! Who may decide about a proposal. Whatever is not clearly allowed is denied. Every decision emits
//! an event: allowed ones in the commit that they allow, denied ones in a commit of their own.

use super::record::Proposal;
use super::{ProposalError, Settings};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::AuthorizationDecided;
use remem_core::sabotage;
use remem_core::{Batch, EventBody, Permission, permission};

/// A decision that a caller wants to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Apply,
    Approve,
    Override,
}

impl Action {
    /// The name in events.
    fn as_str(self) -> &'static str {
        match self {
            Action::Apply => "proposal.apply",
            Action::Approve => "proposal.approve",
            Action::Override => "proposal.override",
        }
    }

    /// The permission that the decision needs.
    fn permission(self) -> Permission {
        match self {
            Action::Apply | Action::Approve => Permission::ProposalsApply,
            Action::Override => Permission::ProposalsOverride,
        }
    }
}

/// Why a decision is denied.
enum Why {
    Scope(Permission),
    Rule(&'static str),
}

/// Checks the rules for a decision, without side effects.
fn judge(
    caller: &Caller,
    settings: &Settings,
    proposal: &Proposal,
    action: Action,
) -> Result<(), Why> {
    if sabotage!(
        "anybody-applies-proposals",
        !caller.may(action.permission()),
        false
    ) {
        return Err(Why::Scope(action.permission()));
    }
    if let Some(scope) = &settings.required_scope {
        let scope: Permission = scope.parse().map_err(|_| Why::Rule("unknown-scope"))?;
        if !caller.may(scope) {
            return Err(Why::Scope(scope));
        }
    }
    if let Some(role) = &settings.required_role {
        let needed = sabotage!(
            "an-unknown-role-lets-everybody-pass",
            permission::role(role).ok_or(Why::Rule("unknown-role"))?,
            permission::role(role).unwrap_or_default()
        );
        if !needed.iter().all(|permission| caller.may(*permission)) {
            return Err(Why::Rule("role-missing"));
        }
    }
    if sabotage!(
        "one-approves-one-s-own-proposal",
        action != Action::Apply && proposal.is_of(caller.principal().as_str()),
        false
    ) {
        return Err(Why::Rule("own-proposal"));
    }
    if action == Action::Override && !settings.override_bypasses_quorum {
        return Err(Why::Rule("override-off"));
    }
    Ok(())
}

impl Engine {
    /// Fails unless the caller may make the decision. A denial is recorded as an event before it is
    /// returned.
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        proposal: &Proposal,
        action: Action,
    ) -> Result<(), EngineError> {
        let Err(denial) = judge(caller, &self.parts.proposals, proposal, action) else {
            return Ok(());
        };
        let (reason, error) = match denial {
            Why::Scope(permission) => ("scope-missing", EngineError::Forbidden(permission)),
            Why::Rule(reason) => (reason, ProposalError::Denied(reason).into()),
        };
        let now = self.now_for(caller.tenant()).await?;
        let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
        let recorded = self
            .parts
            .store
            .commit(sabotage!(
                "a-denial-leaves-no-trace",
                batch.emit(decided(caller, proposal, action, Some(reason))),
                batch
            ))
            .await;
        if let Err(error) = recorded {
            tracing::warn!(proposal = proposal.id, %error, "a denial could not be put on record");
        }
        Err(error)
    }
}

/// The event of a decision: denied if there is a reason, allowed otherwise.
fn decided(
    caller: &Caller,
    proposal: &Proposal,
    action: Action,
    reason: Option<&str>,
) -> EventBody {
    EventBody::AuthorizationDecided(AuthorizationDecided {
        principal: caller.principal().as_str().to_owned(),
        action: action.as_str().to_owned(),
        resource: proposal.id.clone(),
        allowed: reason.is_none(),
        reason: reason.map(str::to_owned),
    })
}

/// The event of a decision that is allowed.
pub(super) fn allowed(caller: &Caller, proposal: &Proposal, action: Action) -> EventBody {
    decided(caller, proposal, action, None)
}
