//! Proposals: reusable artifacts that the host drafts from what it saw, and that a person applies
//! or does not. This file owns the lifecycle. A proposal is data and nothing else until it is
//! applied; this module installs nothing and starts nothing.
//!
//! * `artifact`: the bytes of a draft, their hash, and what they are good for.
//! * `template`, `automation`: the two kinds of artifact that have no home elsewhere.
//! * `synthesis`: from traces to drafts.
//! * `duplicate`: which draft repeats another one.

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

/// What a proposal would install.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Agents.
    AgentPack,
    /// Workflows.
    WorkflowChainPack,
    /// A text with places to fill in.
    PromptTemplate,
    /// Something that is started by the clock.
    Automation,
}

impl Kind {
    /// Every kind.
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

    /// The kind of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How far a proposal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// As it was drafted.
    Draft,
    /// Changed by a person since.
    Revised,
    /// Installed. There is no way back: what is installed is removed where it lives.
    Applied,
    /// Turned down.
    Rejected,
    /// Put away.
    Archived,
}

/// What a person can do to a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Change it.
    Revise,
    /// Install it.
    Apply,
    /// Turn it down.
    Reject,
    /// Put it away.
    Archive,
}

impl Step {
    /// Every step.
    pub const ALL: [Step; 4] = [Step::Revise, Step::Apply, Step::Reject, Step::Archive];
}

impl State {
    /// Every state.
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

    /// The state of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Where a step leads; `None` if it cannot be taken from here.
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

    /// Whether it waits for a person.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, State::Draft | State::Revised)
    }
}
