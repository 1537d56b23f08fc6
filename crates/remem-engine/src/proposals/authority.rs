//! Who may decide about a proposal. What is not clearly allowed is denied. Every decision emits an
//! event: allowed ones in the commit that they allow, denied ones in a separate commit.

use super::record::ProposalRecord;
use super::{ProposalError, ProposalSettings};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::AuthorizationDecided;
use remem_core::sabotage;
use remem_core::{Batch, EventBody, Permission, permission};

/// A decision that a caller requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthorizedAction {
    Apply,
    Approve,
    Override,
}

impl AuthorizedAction {
    /// The name in events.
    fn as_str(self) -> &'static str {
        match self {
            AuthorizedAction::Apply => "proposal.apply",
            AuthorizedAction::Approve => "proposal.approve",
            AuthorizedAction::Override => "proposal.override",
        }
    }

    /// The permission that the decision needs.
    fn permission(self) -> Permission {
        match self {
            AuthorizedAction::Apply | AuthorizedAction::Approve => Permission::ProposalsApply,
            AuthorizedAction::Override => Permission::ProposalsOverride,
        }
    }
}

/// Why a decision is denied.
enum Denial {
    Scope(Permission),
    Rule(&'static str),
}

/// Checks the rules for a decision, without side effects.
fn check_authority(
    caller: &Caller,
    settings: &ProposalSettings,
    proposal: &ProposalRecord,
    action: AuthorizedAction,
) -> Result<(), Denial> {
    if sabotage!(
        "anybody-applies-proposals",
        !caller.has_permission(action.permission()),
        false
    ) {
        return Err(Denial::Scope(action.permission()));
    }
    if let Some(scope) = &settings.required_scope {
        let scope: Permission = scope.parse().map_err(|_| Denial::Rule("unknown-scope"))?;
        if !caller.has_permission(scope) {
            return Err(Denial::Scope(scope));
        }
    }
    if let Some(role) = &settings.required_role {
        let needed = sabotage!(
            "an-unknown-role-lets-everybody-pass",
            permission::role_permissions(role).ok_or(Denial::Rule("unknown-role"))?,
            permission::role_permissions(role).unwrap_or_default()
        );
        if !needed
            .iter()
            .all(|permission| caller.has_permission(*permission))
        {
            return Err(Denial::Rule("role-missing"));
        }
    }
    if sabotage!(
        "one-approves-one-s-own-proposal",
        action != AuthorizedAction::Apply
            && proposal.is_submitted_or_written_by(caller.principal().as_str()),
        false
    ) {
        return Err(Denial::Rule("own-proposal"));
    }
    if action == AuthorizedAction::Override && !settings.override_bypasses_quorum {
        return Err(Denial::Rule("override-off"));
    }
    Ok(())
}

impl Engine {
    /// Fails unless the caller may make the decision. A denial is recorded as an event before it is
    /// returned.
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        proposal: &ProposalRecord,
        action: AuthorizedAction,
    ) -> Result<(), EngineError> {
        let Err(denial) = check_authority(caller, &self.parts.proposal_settings, proposal, action)
        else {
            return Ok(());
        };
        let (reason, error) = match denial {
            Denial::Scope(permission) => ("scope-missing", EngineError::Forbidden(permission)),
            Denial::Rule(reason) => (reason, ProposalError::Denied(reason).into()),
        };
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let recorded = self
            .parts
            .store
            .commit(sabotage!(
                "a-denial-leaves-no-trace",
                batch.emit(decision_event(caller, proposal, action, Some(reason))),
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
fn decision_event(
    caller: &Caller,
    proposal: &ProposalRecord,
    action: AuthorizedAction,
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
pub(super) fn allowed_event(
    caller: &Caller,
    proposal: &ProposalRecord,
    action: AuthorizedAction,
) -> EventBody {
    decision_event(caller, proposal, action, None)
}
