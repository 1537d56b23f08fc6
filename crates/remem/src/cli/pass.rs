//! What can be said about passes: run one, look after jobs, set when one runs by itself.

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub enum Pass {
    /// List the passes: what each does, works over and takes
    List,
    /// Run a pass now
    Run(PassRun),
    /// Show how the passes are doing: what ran last, what is under way, what is due
    Status {
        /// Only this one; of `embed` also how far it is
        pass: Option<String>,
    },
    /// List jobs, newest first
    Jobs {
        /// Only those of this pass
        #[arg(long, value_name = "NAME")]
        pass: Option<String>,
        /// Only those in this state: queued, running, done, failed or cancelled
        #[arg(long)]
        state: Option<String>,
        /// How many at the most
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Stop a job
    Cancel {
        /// The job's id
        job: String,
    },
    /// Show or set when a pass runs by itself
    Schedule(PassSchedule),
}

#[derive(Args)]
pub struct PassRun {
    /// Its name
    pub name: String,
    /// The memory, for a pass over memories
    #[arg(long, value_name = "MEMORY_REF", conflicts_with = "all", value_parser = super::workshop::memory)]
    pub scope: Option<String>,
    /// All memories of the tenant, for a pass over memories
    #[arg(long)]
    pub all: bool,
    /// Option of the pass; may be repeated
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Start the job and return
    #[arg(long, conflicts_with = "dry_run")]
    pub no_wait: bool,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("when").args(["every", "cron", "off"]))]
pub struct PassSchedule {
    /// The pass; all schedules are listed without one
    pub name: Option<String>,
    /// The memory [default: all memories of the tenant]
    #[arg(long, value_name = "MEMORY_REF", requires = "name", value_parser = super::workshop::memory)]
    pub scope: Option<String>,
    /// Every so often, counted from now: PT15M, P1D, P1W
    #[arg(long, value_name = "DURATION", requires = "name")]
    pub every: Option<String>,
    /// A cron line: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "LINE", requires = "name")]
    pub cron: Option<String>,
    /// Time zone by whose clocks it goes [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "off")]
    pub zone: Option<String>,
    /// Option of the pass; may be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", conflicts_with = "off")]
    pub options: Vec<String>,
    /// Take the schedule away
    #[arg(long, requires = "name")]
    pub off: bool,
}
