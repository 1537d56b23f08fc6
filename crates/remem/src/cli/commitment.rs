//! What can be said about commitments and heartbeats.

use clap::{ArgGroup, Args, Subcommand};

#[derive(Subcommand)]
pub enum Commitment {
    /// List what was promised and is still open, in the order of what happens next
    List(List),
    /// Show one commitment, and when it fired
    Show {
        /// Its id, as `commitment list` shows it
        id: String,
    },
    /// Show which words of which entry led to a commitment
    Explain {
        /// Its id
        id: String,
    },
    /// Be reminded of something
    Create(Create),
    /// Say that a commitment is meant, so that it fires
    Confirm {
        /// Its id
        id: String,
    },
    /// Take a commitment back
    Cancel {
        /// Its id
        id: String,
    },
    /// Put a commitment off
    #[command(group = ArgGroup::new("then").args(["until", "later"]).required(true))]
    Snooze {
        /// Its id
        id: String,
        /// To this instant (RFC 3339)
        #[arg(long, value_name = "INSTANT")]
        until: Option<String>,
        /// By so much from now: 15m, 12h, 30d
        #[arg(long = "for", value_name = "DURATION")]
        later: Option<String>,
    },
    /// Tell what was seen: commitments of the memory that wait for it fire
    Observe {
        /// Name of the memory
        #[arg(value_parser = super::workshop::memory)]
        memory_ref: String,
        /// What is so, for example "the invoice has cleared"
        #[arg(required = true)]
        statement: Vec<String>,
        /// It is not so, or not any more
        #[arg(long = "not")]
        not: bool,
    },
    /// Show how promises are read out of a memory, or set it
    Rules(Rules),
}

#[derive(Args)]
pub struct List {
    /// Name of the memory [default: all of the tenant's]
    #[arg(value_parser = super::workshop::memory)]
    pub memory_ref: Option<String>,
    /// Only those in this state: pending, armed, done, cancelled or expired
    #[arg(long, conflicts_with = "all")]
    pub state: Option<String>,
    /// Also those that have ended
    #[arg(long)]
    pub all: bool,
    /// How many at the most; 0 means all
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

#[derive(Args)]
#[command(group = ArgGroup::new("when").args(["at", "every", "cron", "predicate"]))]
#[command(
    after_help = "Without --at, --every, --cron or --predicate the text has to tell: \
                        remem commitment create agent-1 \"Remind me tomorrow at 9am to renew the certificate\""
)]
pub struct Create {
    /// Name of the memory; the text becomes an entry of it
    #[arg(value_parser = super::workshop::memory)]
    pub memory_ref: String,
    /// What to be reminded of
    pub text: String,
    /// At this instant (RFC 3339)
    #[arg(long, value_name = "INSTANT")]
    pub at: Option<String>,
    /// Again and again: PT15M, P1D, P1W
    #[arg(long, value_name = "DURATION")]
    pub every: Option<String>,
    /// A cron line: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "LINE")]
    pub cron: Option<String>,
    /// When this becomes true, for example "the invoice has cleared"
    #[arg(long, value_name = "STATEMENT")]
    pub predicate: Option<String>,
    /// Time zone by whose clocks it goes [default: the memory's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Workflow to start when it fires
    #[arg(long, value_name = "WORKFLOW_ID", conflicts_with = "agent")]
    pub workflow: Option<String>,
    /// Agent to call upon when it fires
    #[arg(long, value_name = "AGENT_ID")]
    pub agent: Option<String>,
    /// Whom or what it is about, so that it can be forgotten by that; may be repeated
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Makes a repetition safe; one is made up if absent
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Args)]
pub struct Rules {
    /// Name of the memory [default: all that have no rules of their own]
    #[arg(value_parser = super::workshop::memory)]
    pub memory_ref: Option<String>,
    /// What becomes of promises: auto, confirm or off
    #[arg(long)]
    pub arm: Option<String>,
    /// Time zone by whose clocks times are meant
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Workflow to start when one fires that says nothing else
    #[arg(long, value_name = "WORKFLOW_ID", conflicts_with_all = ["agent", "tell_only"])]
    pub workflow: Option<String>,
    /// Agent to call upon when one fires that says nothing else
    #[arg(long, value_name = "AGENT_ID", conflicts_with = "tell_only")]
    pub agent: Option<String>,
    /// Start nothing any more
    #[arg(long)]
    pub tell_only: bool,
}

#[derive(Subcommand)]
pub enum Heartbeat {
    /// List the heartbeats and what they last saw
    List,
    /// Look at a memory every so often, or change how
    Set(HeartbeatSet),
    /// Take a heartbeat away
    Remove {
        /// Its name
        id: String,
    },
}

#[derive(Args)]
pub struct HeartbeatSet {
    /// Its name: lower-case letters, digits and _.-
    pub id: String,
    /// Name of the memory that is looked at
    #[arg(value_parser = super::workshop::memory)]
    pub memory_ref: String,
    /// What is so when the tag is there, for example "the invoice has cleared"
    #[arg(required = true)]
    pub statement: Vec<String>,
    /// It is so when a live entry carries this tag
    #[arg(long)]
    pub tag: String,
    /// From one look to the next: 30s, 5m, 1h
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub every: String,
    /// Keep it, but do not look
    #[arg(long)]
    pub off: bool,
}
