//! Proposals: drafts of what the host could do by itself, without any effect before they are
//! applied. This file has the settings and errors; it decides nothing.
//!
//! * `store`: the only reader of proposals.
//! * `stored`: the bodies of all its records.
//! * `record`: a proposal and its revisions as they are read and written.
//! * `draft`: converting a caller's text to redacted, canonical bytes.
//! * `manage`, `change`: operations of callers on proposals, except applying them.
//! * `authority`: who may decide, and the event that every decision leaves.
//! * `apply`, `gate`: applying by one decision, or by several.
//! * `install`: what applying writes.
//! * `traces`, `synthesise`: drafts that the host makes by itself.
//! * `rescan`, `seed`: erasing late secrets from proposals, and the draft for conformance checks.

mod apply;
mod authority;
mod change;
mod draft;
mod gate;
mod install;
mod manage;
mod record;
mod rescan;
mod seed;
mod store;
mod stored;
mod synthesise;
mod traces;

pub use apply::ApplyResult;
pub use change::ProposalChanges;
pub use gate::{ApprovalGate, GateState, OVERRIDE_REASONS, Vote};
pub use install::InstallationInfo;
pub use manage::{NewProposal, ProposalQuery, SOURCE_RUNS_MAX};
pub use record::{ProposalActivation, ProposalRecord, ProposalView, RevisionView};
pub(crate) use rescan::erased_artifact;
pub use store::ProposalStore;
#[cfg(test)]
pub(crate) use stored::{
    StoredGate, StoredInstallation, StoredProposal, StoredRevision, StoredTrace,
};
pub use traces::NewTrace;

use remem_core::Rejection;
use remem_core::proposal::ProposalState;

/// How a proposal takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationMode {
    /// One principal with the right applies it.
    #[default]
    DirectRbac,
    /// A quorum of principals with the right approve it, none of whom wrote it.
    ApprovalGate,
}

impl ActivationMode {
    /// The stable name, as configured and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ActivationMode::DirectRbac => "direct-rbac",
            ActivationMode::ApprovalGate => "approval-gate",
        }
    }

    /// Parses the stable name of a mode.
    #[must_use]
    pub fn parse(text: &str) -> Option<ActivationMode> {
        [ActivationMode::DirectRbac, ActivationMode::ApprovalGate]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// How a host decides about proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalSettings {
    /// How proposals take effect.
    pub activation: ActivationMode,
    /// Approvals that a gate needs.
    pub quorum: u32,
    /// A role that a deciding principal must have besides the permission. An unknown role denies
    /// every principal.
    pub required_role: Option<String>,
    /// A scope that a deciding principal must have besides the permission. An unknown scope denies
    /// every principal.
    pub required_scope: Option<String>,
    /// How long a gate stays open, in milliseconds.
    pub gate_timeout_ms: i64,
    /// Whether principals with the right to override may install without the quorum.
    pub override_bypasses_quorum: bool,
    /// The time zone in which the host looks for routines.
    pub zone: String,
}

impl Default for ProposalSettings {
    fn default() -> ProposalSettings {
        ProposalSettings {
            activation: ActivationMode::default(),
            quorum: 1,
            required_role: None,
            required_scope: None,
            gate_timeout_ms: 72 * 3_600_000,
            override_bypasses_quorum: false,
            zone: "UTC".to_owned(),
        }
    }
}

/// Largest quorum that can be configured.
pub const QUORUM_MAX: u32 = 10;

/// Errors of operations on proposals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// This host has no proposals.
    #[error("this host has no proposals")]
    Off,
    /// The proposal's state does not allow the operation.
    #[error("the proposal is {}", .0.as_str())]
    State(ProposalState),
    /// The caller named the hash of an artifact that is not the current one.
    #[error("the artifact is not the one that was named")]
    Stale,
    /// The artifact violates the rules of its kind.
    #[error("the artifact is not what its kind asks for: {0}")]
    Malformed(Rejection),
    /// By the redaction rules of today the artifact holds a secret.
    #[error("by the rules of today the artifact holds a secret; revise the proposal")]
    HoldsSecret,
    /// An artifact with this name is installed already.
    #[error("something of this name is installed already")]
    InstallConflict,
    /// The revision has no open gate.
    #[error("no gate is open for this revision")]
    NoGate,
    /// The caller may not decide about the proposal.
    #[error("this key may not decide about the proposal: {0}")]
    Denied(&'static str),
}

impl ProposalError {
    /// The stable code in answers.
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

/// How often a conflicting commit is retried.
const COMMIT_TRIES: u32 = 16;
