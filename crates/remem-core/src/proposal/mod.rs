//! Proposals: reusable artifacts that the host drafts from past runs, and that a person applies or
//! rejects. This file owns the lifecycle. A proposal is nothing but data until it is applied; this
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
pub use automation::{Automation, Target, When};
pub use duplicate::duplicate_of;
pub use fields::is_name;
pub use synthesis::{RunTrace, Synthesised, ToolTrace, Traces, synthesise};
pub use template::PromptTemplate;

/// The kind of object that a proposal would install.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A pack of agents.
    AgentPack,
    /// A pack of workflows.
    WorkflowChainPack,
    /// A prompt with placeholders.
    PromptTemplate,
    /// A workflow or agent that is started at given times.
    Automation,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Kind; 4] = [
        Kind::AgentPack,
        Kind::WorkflowChainPack,
        Kind::PromptTemplate,
        Kind::Automation,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::AgentPack => "agent-pack",
            Kind::WorkflowChainPack => "workflow-chain-pack",
            Kind::PromptTemplate => "prompt-template",
            Kind::Automation => "automation",
        }
    }

    /// The kind with this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The state of a proposal in its lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
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
pub enum Step {
    /// Change its artifact or texts.
    Revise,
    /// Install the artifact of the proposal.
    Apply,
    /// Decide against the proposal.
    Reject,
    /// Put it away without installing it.
    Archive,
}

impl Step {
    /// All actions, in the order of their declaration.
    pub const ALL: [Step; 4] = [Step::Revise, Step::Apply, Step::Reject, Step::Archive];
}

impl State {
    /// All states, in the order of their declaration.
    pub const ALL: [State; 5] = [
        State::Draft,
        State::Revised,
        State::Applied,
        State::Rejected,
        State::Archived,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Draft => "draft",
            State::Revised => "revised",
            State::Applied => "applied",
            State::Rejected => "rejected",
            State::Archived => "archived",
        }
    }

    /// The state with this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The state after an action; `None` if the action is not allowed in this state.
    #[must_use]
    pub fn after(self, step: Step) -> Option<State> {
        match (self, step) {
            (State::Draft | State::Revised, Step::Revise) => Some(State::Revised),
            (State::Draft | State::Revised, Step::Apply) => Some(State::Applied),
            (State::Draft | State::Revised, Step::Reject) => Some(State::Rejected),
            (State::Draft | State::Revised | State::Rejected, Step::Archive) => {
                Some(State::Archived)
            }
            _ => None,
        }
    }

    /// Returns true if it waits for a decision.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, State::Draft | State::Revised)
    }
}
