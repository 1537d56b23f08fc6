//! The commands for commitments and heartbeats.

use super::duration::{Duration, duration};
use super::values::{self, memory};
use clap::{ArgGroup, Args, Subcommand};
use remem_core::commitment::CommitmentState;
use remem_engine::commitments::ArmMode;
use remem_wire::time::Instant;

/// `remem commitment`.
#[derive(Subcommand)]
pub enum CommitmentCommand {
    /// List open commitments in the order in which they fire
    List(CommitmentListArgs),
    /// Show a commitment and when it fired
    Show {
        /// Commitment id, as `commitment list` shows it
        id: String,
    },
    /// Show which words of which entry led to a commitment
    Explain {
        /// Commitment id
        id: String,
    },
    /// Create a commitment
    Create(CommitmentCreateArgs),
    /// Confirm a pending commitment, so that it fires
    Confirm {
        /// Commitment id
        id: String,
    },
    /// Cancel a commitment
    Cancel {
        /// Commitment id
        id: String,
    },
    /// Postpone a commitment
    #[command(group = ArgGroup::new("then").args(["until", "later"]).required(true))]
    #[command(after_help = "Example:\n  remem commitment snooze cmt_… --for 2h")]
    Snooze {
        /// Commitment id
        id: String,
        /// New time (RFC 3339)
        #[arg(long, value_name = "TIME", value_parser = values::instant)]
        until: Option<Instant>,
        /// Time from now, for example 15m, 12h, 7d or P7D
        #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
        later: Option<Duration>,
    },
    /// Report that a condition is true; commitments that wait for it fire
    #[command(after_help = "Example:\n  remem commitment observe agent-1 the invoice has cleared")]
    Observe {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
        /// Condition, for example "the invoice has cleared"
        #[arg(required = true)]
        statement: Vec<String>,
        /// Report that it is false instead
        #[arg(long = "not")]
        not: bool,
    },
    /// Show or set how commitments are recognised in a memory
    Rules(CommitmentRulesArgs),
}

/// `remem commitment list`.
#[derive(Args)]
pub struct CommitmentListArgs {
    /// Name of the memory [default: all memories of the tenant]
    #[arg(value_parser = memory)]
    pub memory_ref: Option<String>,
    /// Only commitments in this state
    #[arg(long, conflicts_with = "all", value_parser = CommitmentState::ALL.map(CommitmentState::as_str))]
    pub state: Option<String>,
    /// Also finished ones
    #[arg(long)]
    pub all: bool,
    /// Maximum number of commitments; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
}

/// `remem commitment create`.
#[derive(Args)]
#[command(group = ArgGroup::new("when").args(["at", "every", "cron", "predicate"]))]
#[command(
    after_help = "Without --at, --every, --cron or --predicate, the time is read from the \
    text.\n\nExamples:\n  \
    remem commitment create agent-1 Remind me tomorrow at 9am to renew the certificate\n  \
    remem commitment create agent-1 \"Check the backups\" --every 7d"
)]
pub struct CommitmentCreateArgs {
    /// Name of the memory that keeps the text
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Text of the reminder
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Fire at this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    pub at: Option<Instant>,
    /// Fire at this interval, for example 15m, 1d or P1D
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub every: Option<Duration>,
    /// Fire by this cron expression: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "CRON")]
    pub cron: Option<String>,
    /// Fire when this becomes true, for example "the invoice has cleared"
    #[arg(long, value_name = "CONDITION")]
    pub predicate: Option<String>,
    /// Time zone [default: the memory's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Workflow to start when it fires
    #[arg(long, value_name = "WORKFLOW_ID", conflicts_with = "agent")]
    pub workflow: Option<String>,
    /// Agent to start when it fires
    #[arg(long, value_name = "AGENT_ID")]
    pub agent: Option<String>,
    /// Subject, used later by `forget`; may be repeated
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Key that makes a repetition safe [default: a random one]
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

/// `remem commitment rules`.
#[derive(Args)]
pub struct CommitmentRulesArgs {
    /// Name of the memory [default: all memories without rules of their own]
    #[arg(value_parser = memory)]
    pub memory_ref: Option<String>,
    /// How to treat recognised commitments
    #[arg(long, value_parser = ArmMode::ALL.map(ArmMode::as_str))]
    pub arm: Option<String>,
    /// Time zone of times in texts
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Workflow to start when a commitment without one fires
    #[arg(long, value_name = "WORKFLOW_ID", conflicts_with_all = ["agent", "tell_only"])]
    pub workflow: Option<String>,
    /// Agent to start when a commitment without one fires
    #[arg(long, value_name = "AGENT_ID", conflicts_with = "tell_only")]
    pub agent: Option<String>,
    /// Start nothing; only send an event
    #[arg(long)]
    pub tell_only: bool,
}

/// `remem heartbeat`.
#[derive(Subcommand)]
pub enum HeartbeatCommand {
    /// List heartbeats and what they last saw
    List,
    /// Create or change a heartbeat
    Set(HeartbeatSetArgs),
    /// Remove a heartbeat
    Remove {
        /// Heartbeat id
        id: String,
    },
}

/// `remem heartbeat set`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    remem heartbeat set invoices agent-1 invoice cleared --tag paid --every 5m")]
pub struct HeartbeatSetArgs {
    /// Heartbeat id: lower-case letters, digits and _.-
    pub id: String,
    /// Name of the memory to check
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Condition that is true while the tag is there, for example "the invoice has cleared"
    #[arg(required = true)]
    pub statement: Vec<String>,
    /// Tag of a live entry that makes the condition true
    #[arg(long)]
    pub tag: String,
    /// Interval between checks, for example 30s, 5m, 1h or PT5M
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub every: Duration,
    /// Keep the heartbeat, but do not check
    #[arg(long)]
    pub off: bool,
}
