//! What can be said about proposals and automations.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Proposal {
    /// List proposals, those that have waited longest first
    List {
        /// Only those in this state: draft, revised, applied, rejected or archived
        #[arg(long)]
        state: Option<String>,
        /// Only those of this kind: agent-pack, workflow-chain-pack, prompt-template or automation
        #[arg(long)]
        kind: Option<String>,
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show a proposal: what it would install, where it comes from, and how its gate stands
    Show {
        /// Its id, as `proposal list` shows it
        id: String,
    },
    /// Put a draft of your own under review
    Submit {
        /// JSON file with the artifact
        file: PathBuf,
        /// What it would install: agent-pack, workflow-chain-pack, prompt-template or automation
        #[arg(long)]
        kind: String,
        /// A line for people
        #[arg(long)]
        title: Option<String>,
        /// Why it is there
        #[arg(long)]
        rationale: Option<String>,
    },
    /// Change a proposal; approvals of what it was are void
    Revise {
        /// Its id
        id: String,
        /// JSON file with another artifact
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Another title
        #[arg(long)]
        title: Option<String>,
        /// Another rationale
        #[arg(long)]
        rationale: Option<String>,
        /// SHA-256 of the artifact you have seen; another one is refused
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
    },
    /// Apply a proposal: install exactly what `show` prints. Where that takes approvals, ask for
    /// them
    Apply(Decide),
    /// Approve a proposal that somebody asked to apply
    Approve(Decide),
    /// Go past the approvals that are missing, where the host allows it
    Override {
        /// Its id
        id: String,
        /// Why: urgent, reviewer-unavailable, policy or other
        #[arg(long)]
        reason: String,
        /// More about it; kept beside the decision
        #[arg(long)]
        note: Option<String>,
        /// SHA-256 of the artifact you have seen; another one is refused
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
    },
    /// Turn a proposal down
    Reject {
        /// Its id
        id: String,
    },
    /// Put a proposal away
    Archive {
        /// Its id
        id: String,
    },
    /// List what was installed from proposals
    Installed,
}

#[derive(Args)]
pub struct Decide {
    /// Its id
    pub id: String,
    /// SHA-256 of the artifact you have seen; another one is refused
    #[arg(long, value_name = "SHA256")]
    pub digest: Option<String>,
}

#[derive(Subcommand)]
pub enum Automation {
    /// List the automations and when they are due
    List,
    /// Show one automation
    Show {
        /// Its name
        id: String,
    },
    /// Set an automation, or replace the one of its name
    Put {
        /// JSON file: {"automationId", "schedule": {"every" | "cron" | "at", "zone"?}, "workflowId"
        /// | "agentId", "inputs"?, "title"?}
        file: PathBuf,
    },
    /// Pause an automation
    Pause {
        /// Its name
        id: String,
    },
    /// Let a paused automation go on
    Resume {
        /// Its name
        id: String,
    },
    /// Take an automation away; runs that it started go on
    Remove {
        /// Its name
        id: String,
    },
}
