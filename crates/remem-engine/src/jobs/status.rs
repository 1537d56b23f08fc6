//! The status of passes for a tenant: the last activation, running and queued jobs, and the next
//! schedule.

use super::{ENDED_PREFIX, JobInfo, JobState};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PASSES, Pass, PassStatus};
use remem_core::{Permission, RecordKind, Timestamp};

/// The status of one pass for a tenant.
pub struct PassOverview {
    /// The pass's row in `PASSES`.
    pub pass: &'static Pass,
    /// The latest activation in this process. `None` for passes that do jobs.
    pub last_activation: Option<PassStatus>,
    /// The job that ended last, on any node.
    pub last_job: Option<JobInfo>,
    /// The job that is running now.
    pub running_job: Option<JobInfo>,
    /// Number of jobs that wait for the pass.
    pub queued_jobs: u64,
    /// The next time that an enabled schedule starts the pass.
    pub next_due: Option<Timestamp>,
}

/// Records read with one query.
const PAGE_SIZE: u32 = 100;

impl Engine {
    /// Returns the status of every pass.
    pub async fn pass_overview(&self, caller: &Caller) -> Result<Vec<PassOverview>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let here = self.pass_status(tenant);
        let schedules = self.list_schedules(caller).await?;
        let mut overview = Vec::new();
        for pass in &PASSES {
            let does_jobs = pass.kind.does_jobs();
            // For passes that do jobs only these are shown: the latest activation may have been for
            // another user's memory.
            let here = here
                .iter()
                .find(|status| status.name == pass.name && !does_jobs)
                .cloned();
            let mut active = if does_jobs {
                self.active_jobs(tenant, pass.name).await?
            } else {
                Vec::new()
            };
            active.retain(|job| job.is_visible_to(caller));
            let (running, queued): (Vec<JobInfo>, Vec<JobInfo>) = active
                .into_iter()
                .partition(|job| job.state == JobState::Running);
            let due = schedules
                .iter()
                .filter(|schedule| schedule.enabled && schedule.pass == pass.name);
            let next_due = due.filter_map(|schedule| schedule.next_due).min();
            let running = running.into_iter().next();
            let queued = queued.len() as u64;
            overview.push(PassOverview {
                pass,
                last_activation: here,
                last_job: None,
                running_job: running,
                queued_jobs: queued,
                next_due,
            });
        }
        self.add_last_jobs(caller, &mut overview).await?;
        Ok(overview)
    }

    /// Fills in the job that ended last for each pass.
    async fn add_last_jobs(
        &self,
        caller: &Caller,
        overview: &mut [PassOverview],
    ) -> Result<(), EngineError> {
        let mut after: Option<String> = None;
        loop {
            let page = self
                .parts
                .store
                .records(
                    caller.tenant(),
                    RecordKind::Job,
                    ENDED_PREFIX,
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            for job in page
                .iter()
                .filter_map(JobInfo::from_record)
                .filter(|job| job.is_visible_to(caller))
            {
                if let Some(row) = overview
                    .iter_mut()
                    .find(|row| row.pass.name == job.pass && row.last_job.is_none())
                {
                    row.last_job = Some(job);
                }
            }
            let missing = overview
                .iter()
                .any(|row| row.pass.kind.does_jobs() && row.last_job.is_none());
            after = page.last().map(|last| last.key.clone());
            if !missing || page.len() < PAGE_SIZE as usize {
                return Ok(());
            }
        }
    }
}
