//! Proposals: drafts of what the host could do by itself, which do nothing until somebody applies
//! them. This file owns what is configured and what can go wrong; it decides nothing.
//!
//! * `desk`: the only reader of what is under review.
//! * `record`: a proposal and its revisions as they are kept.
//! * `draft`: from what somebody wrote to redacted, canonical bytes.
//! * `manage`, `change`: what callers do with proposals, short of applying them.
//! * `authority`: who may decide, and the trace that every decision leaves.
//! * `apply`, `gate`: one decision, or several.
//! * `install`: what applying means.
//! * `traces`, `synthesise`: drafts that the host makes by itself.
//! * `rescan`, `seed`: what late secrets mean for proposals, and the draft of conformance checks.

mod apply;
mod authority;
mod change;
mod desk;
mod draft;
mod gate;
mod install;
mod manage;
mod record;
mod rescan;
mod seed;
mod synthesise;
mod traces;

pub use apply::Applied;
pub use change::Revise;
pub use desk::Desk;
pub use gate::{Gate, GateState, OVERRIDE_REASONS, Vote};
pub use install::Installed;
pub use manage::{NewProposal, ProposalQuery, SOURCES_MAX};
pub use record::{Activated, Proposal, Revision, Shown};
pub(crate) use rescan::erased;
pub use traces::NewTrace;

use remem_core::Rejection;
use remem_core::proposal::State;

/// How a proposal comes to have an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Whoever has the right applies it.
    #[default]
    DirectRbac,
    /// So many who have the right, none of whom wrote it.
    ApprovalGate,
}

impl Activation {
    /// The stable name, as configured and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Activation::DirectRbac => "direct-rbac",
            Activation::ApprovalGate => "approval-gate",
        }
    }

    /// The way of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Activation> {
        [Activation::DirectRbac, Activation::ApprovalGate]
            .into_iter()
            .find(|way| way.as_str() == text)
    }
}

/// How a host decides about proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How one comes to have an effect.
    pub activation: Activation,
    /// Approvals that a gate needs.
    pub quorum: u32,
    /// A role that whoever decides must have beside the scope; one that is not known denies
    /// everybody.
    pub required_role: Option<String>,
    /// The same with a scope.
    pub required_scope: Option<String>,
    /// How long a gate stays open, in milliseconds.
    pub gate_timeout_ms: i64,
    /// Whether who has the right to override may go past the quorum.
    pub override_bypasses_quorum: bool,
    /// By whose clocks the host looks for routines.
    pub zone: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            activation: Activation::default(),
            quorum: 1,
            required_role: None,
            required_scope: None,
            gate_timeout_ms: 72 * 3_600_000,
            override_bypasses_quorum: false,
            zone: "UTC".to_owned(),
        }
    }
}

/// Approvals that a gate can ask for at the most.
pub const QUORUM_MAX: u32 = 10;

/// What can go wrong with a proposal beside what can go wrong with everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// This host has no proposals.
    #[error("this host has no proposals")]
    Off,
    /// It cannot be done to a proposal in this state.
    #[error("the proposal is {}", .0.as_str())]
    State(State),
    /// The artifact is another one by now.
    #[error("the artifact is not the one that was named")]
    Stale,
    /// The artifact is not what its kind asks for.
    #[error("the artifact is not what its kind asks for: {0}")]
    Malformed(Rejection),
    /// By the rules of today the artifact holds a secret.
    #[error("by the rules of today the artifact holds a secret; revise the proposal")]
    HoldsSecret,
    /// Something of the same name is there already.
    #[error("something of this name is installed already")]
    InstallConflict,
    /// There is no gate that is open.
    #[error("no gate is open for this revision")]
    NoGate,
    /// The caller may not decide.
    #[error("this key may not decide about the proposal: {0}")]
    Denied(&'static str),
}

impl ProposalError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ProposalError::Off => "capability_not_provided",
            ProposalError::State(_) => "proposal_state_conflict",
            ProposalError::Stale => "proposal_stale",
            ProposalError::Malformed(_) => "proposal_malformed",
            ProposalError::HoldsSecret => "proposal_holds_secret",
            ProposalError::InstallConflict => "proposal_install_conflict",
            ProposalError::NoGate => "proposal_gate_closed",
            ProposalError::Denied(_) => "forbidden",
        }
    }
}

/// A commit that somebody else's came before is tried again.
const TRIES: u32 = 16;
