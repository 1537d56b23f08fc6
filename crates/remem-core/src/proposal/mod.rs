//! Proposals: reusable artifacts that the host drafts from past runs, and that a person applies or
//! rejects. This file owns the lifecycle. A proposal has no effect until it is applied; this
//! module installs nothing and starts nothing.
//!
//! * `artifact`: the bytes of a draft, their hash, and the object that they would install.
//! * `template`, `automation`: the two kinds of artifact that are defined here.
//! * `synthesis`: from traces to drafts.
//! * `duplicate`: finds the known artifact that a draft repeats.

pub mod artifact;
pub mod automation;
pub mod duplicate;
mod fields;
pub mod synthesis;
pub mod template;

pub use artifact::{Artifact, Installable, check};
pub use automation::{Automation, AutomationTarget, AutomationTrigger};
pub use duplicate::duplicate_of;
pub use fields::is_name;
pub use synthesis::{ProposalDraft, RunTrace, ToolTrace, Traces, draft_proposals};
pub use template::PromptTemplate;

/// The kind of object that a proposal would install.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ProposalKind {
    /// A pack of agents.
    AgentPack,
    /// A pack of workflows.
    WorkflowChainPack,
    /// A prompt with placeholders.
    PromptTemplate,
    /// A workflow or agent that is started at given times.
    Automation,
}

impl ProposalKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [ProposalKind; 4] = [
        ProposalKind::AgentPack,
        ProposalKind::WorkflowChainPack,
        ProposalKind::PromptTemplate,
        ProposalKind::Automation,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ProposalKind::AgentPack => "agent-pack",
            ProposalKind::WorkflowChainPack => "workflow-chain-pack",
            ProposalKind::PromptTemplate => "prompt-template",
            ProposalKind::Automation => "automation",
        }
    }

    /// The kind with this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<ProposalKind> {
        ProposalKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// The state of a proposal in its lifecycle.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ProposalState {
    /// The proposal is as it was drafted.
    Draft,
    /// A person has changed it since it was drafted.
    Revised,
    /// Installed. This is final: an installed object is removed in its own place.
    Applied,
    /// A reviewer has rejected it.
    Rejected,
    /// It was archived without being installed.
    Archived,
}

/// An action of a person on a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProposalAction {
    /// Change its artifact or texts.
    Revise,
    /// Install the artifact of the proposal.
    Apply,
    /// Decide against the proposal.
    Reject,
    /// Put it away without installing it.
    Archive,
}

impl ProposalAction {
    /// All actions, in the order of their declaration.
    pub const ALL: [ProposalAction; 4] = [
        ProposalAction::Revise,
        ProposalAction::Apply,
        ProposalAction::Reject,
        ProposalAction::Archive,
    ];
}

impl ProposalState {
    /// All states, in the order of their declaration.
    pub const ALL: [ProposalState; 5] = [
        ProposalState::Draft,
        ProposalState::Revised,
        ProposalState::Applied,
        ProposalState::Rejected,
        ProposalState::Archived,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ProposalState::Draft => "draft",
            ProposalState::Revised => "revised",
            ProposalState::Applied => "applied",
            ProposalState::Rejected => "rejected",
            ProposalState::Archived => "archived",
        }
    }

    /// The state with this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<ProposalState> {
        ProposalState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// The state after an action; `None` if the action is not allowed in this state.
    #[must_use]
    pub fn next_state(self, step: ProposalAction) -> Option<ProposalState> {
        match (self, step) {
            (ProposalState::Draft | ProposalState::Revised, ProposalAction::Revise) => {
                Some(ProposalState::Revised)
            }
            (ProposalState::Draft | ProposalState::Revised, ProposalAction::Apply) => {
                Some(ProposalState::Applied)
            }
            (ProposalState::Draft | ProposalState::Revised, ProposalAction::Reject) => {
                Some(ProposalState::Rejected)
            }
            (
                ProposalState::Draft | ProposalState::Revised | ProposalState::Rejected,
                ProposalAction::Archive,
            ) => Some(ProposalState::Archived),
            _ => None,
        }
    }

    /// Returns true if it waits for a decision.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, ProposalState::Draft | ProposalState::Revised)
    }
}
