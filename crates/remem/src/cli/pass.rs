//! The commands for passes: run one, watch its jobs, set its schedule.

use super::duration::{Duration, duration};
use super::values::{self, memory};
use clap::{ArgGroup, Args, Subcommand};
use remem_engine::jobs::JobState;

/// `remem pass`.
#[derive(Subcommand)]
pub enum PassCommand {
    /// List the passes and their options
    List,
    /// Run a pass now
    Run(PassRunArgs),
    /// Show the last run, progress and next run of each pass
    Status {
        /// Only this pass; `embed` also shows its progress
        #[arg(value_parser = values::pass())]
        pass: Option<String>,
    },
    /// List jobs, newest first
    Jobs {
        /// Only jobs of this pass
        #[arg(long, value_name = "NAME", value_parser = values::pass())]
        pass: Option<String>,
        /// Only jobs in this state
        #[arg(long, value_parser = JobState::ALL.map(JobState::as_str))]
        state: Option<String>,
        /// Maximum number of jobs
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
    },
    /// Cancel a job
    Cancel {
        /// Job id, as `pass jobs` shows it
        job: String,
    },
    /// Show, set or remove the schedule of a pass
    Schedule(PassScheduleArgs),
}

/// `remem pass run`.
#[derive(Args)]
#[command(after_help = "Example:\n  remem pass run consolidate --scope agent-1")]
pub struct PassRunArgs {
    /// Name of the pass
    #[arg(value_parser = values::pass())]
    pub name: String,
    /// Memory, for a pass over memories
    #[arg(long, value_name = "MEMORY_REF", conflicts_with = "all", value_parser = memory)]
    pub scope: Option<String>,
    /// Run over all memories of the tenant
    #[arg(long)]
    pub all: bool,
    /// Option of the pass; may be repeated
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Start the job and exit
    #[arg(long, conflicts_with = "dry_run")]
    pub no_wait: bool,
}

/// `remem pass schedule`.
#[derive(Args)]
#[command(group = ArgGroup::new("when").args(["every", "cron", "off"]))]
#[command(after_help = "Examples:\n  remem pass schedule\n  \
    remem pass schedule compact --scope agent-1 --every 1d\n  \
    remem pass schedule distill --cron \"0 3 * * *\" --zone Europe/Berlin")]
pub struct PassScheduleArgs {
    /// Name of the pass [default: show all schedules]
    #[arg(value_parser = values::pass())]
    pub name: Option<String>,
    /// Memory [default: all memories of the tenant]
    #[arg(long, value_name = "MEMORY_REF", requires = "name", value_parser = memory)]
    pub scope: Option<String>,
    /// Interval, counted from now, for example 15m, 1d or P1D
    #[arg(long, value_name = "DURATION", requires = "name", value_parser = duration)]
    pub every: Option<Duration>,
    /// Cron expression: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "CRON", requires = "name")]
    pub cron: Option<String>,
    /// Time zone of the schedule [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "off")]
    pub zone: Option<String>,
    /// Option of the pass; may be repeated
    #[arg(long = "option", value_name = "NAME=VALUE", conflicts_with = "off")]
    pub options: Vec<String>,
    /// Remove the schedule
    #[arg(long, requires = "name")]
    pub off: bool,
}
