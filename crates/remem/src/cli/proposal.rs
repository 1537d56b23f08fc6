//! The commands for proposals and automations.

use super::values;
use clap::{Args, Subcommand, ValueHint};
use remem_core::proposal::{ProposalKind, ProposalState};
use std::path::PathBuf;

/// `remem proposal`.
#[derive(Subcommand)]
pub enum ProposalCommand {
    /// List proposals, oldest first
    List {
        /// Only proposals in this state
        #[arg(long, value_parser = ProposalState::ALL.map(ProposalState::as_str))]
        state: Option<String>,
        /// Only proposals of this kind
        #[arg(long, value_parser = ProposalKind::ALL.map(ProposalKind::as_str))]
        kind: Option<String>,
        /// Maximum number of proposals
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Show what a proposal would install, its origin and its approvals
    Show {
        /// Proposal id, as `proposal list` shows it
        id: String,
    },
    /// Submit a draft for review
    Submit {
        /// JSON file with the artifact
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Kind of the artifact
        #[arg(long, value_parser = ProposalKind::ALL.map(ProposalKind::as_str))]
        kind: String,
        /// Title
        #[arg(long)]
        title: Option<String>,
        /// Reason for the proposal
        #[arg(long)]
        rationale: Option<String>,
    },
    /// Change a proposal; earlier approvals no longer count
    Revise {
        /// Proposal id
        id: String,
        /// JSON file with the new artifact
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// New title
        #[arg(long)]
        title: Option<String>,
        /// New rationale
        #[arg(long)]
        rationale: Option<String>,
        /// SHA-256 of the artifact that you reviewed; any other is refused
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
    },
    /// Apply a proposal, or ask for the approvals that it needs
    Apply(ProposalDecideArgs),
    /// Approve a proposal that waits for approvals
    Approve(ProposalDecideArgs),
    /// Apply a proposal without the missing approvals, if the host allows it
    Override {
        /// Proposal id
        id: String,
        /// Reason
        #[arg(long, value_parser = values::REASONS)]
        reason: String,
        /// Note to store with the decision
        #[arg(long)]
        note: Option<String>,
        /// SHA-256 of the artifact that you reviewed; any other is refused
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
    },
    /// Reject a proposal
    Reject {
        /// Proposal id
        id: String,
    },
    /// Archive a proposal
    Archive {
        /// Proposal id
        id: String,
    },
    /// List what was installed from proposals
    Installed,
}

/// A decision about a proposal.
#[derive(Args)]
pub struct ProposalDecideArgs {
    /// Proposal id
    pub id: String,
    /// SHA-256 of the artifact that you reviewed; any other is refused
    #[arg(long, value_name = "SHA256")]
    pub digest: Option<String>,
}

/// `remem automation`.
#[derive(Subcommand)]
pub enum AutomationCommand {
    /// List automations and when they run next
    List,
    /// Show an automation
    Show {
        /// Automation id
        id: String,
    },
    /// Create or replace an automation
    Put {
        /// JSON file: {"automationId", "schedule": {"every" | "cron" | "at", "zone"?}, "workflowId"
        /// | "agentId", "inputs"?, "title"?}
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Pause an automation
    Pause {
        /// Automation id
        id: String,
    },
    /// Resume a paused automation
    Resume {
        /// Automation id
        id: String,
    },
    /// Remove an automation; runs that it started continue
    Remove {
        /// Automation id
        id: String,
    },
}
