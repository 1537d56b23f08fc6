//! How passes are doing for a tenant: what ran last, what is under way, what waits, what is due.

use super::{ENDED, JobInfo, JobState};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{Over, PASSES, Pass, PassStatus};
use remem_core::{Permission, RecordKind, Timestamp};

/// How a pass is doing.
pub struct PassOverview {
    /// Its row.
    pub pass: &'static Pass,
    /// The latest activation in this process.
    pub here: Option<PassStatus>,
    /// The latest job that has ended, wherever.
    pub ended: Option<JobInfo>,
    /// The job that is under way.
    pub running: Option<JobInfo>,
    /// Jobs that wait.
    pub queued: u64,
    /// When the next schedule ticks.
    pub next_due: Option<Timestamp>,
}

/// Records read at once.
const PAGE: u32 = 100;

impl Engine {
    /// How all passes are doing.
    pub async fn pass_overview(&self, caller: &Caller) -> Result<Vec<PassOverview>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let here = self.pass_status(tenant);
        let schedules = self.schedules(caller).await?;
        let mut overview = Vec::new();
        for pass in &PASSES {
            let over_memory = matches!(pass.over, Over::Memory { .. });
            // Of work over memories only its jobs tell: the latest activation may have been over
            // somebody else's.
            let here = here
                .iter()
                .find(|status| status.name == pass.name && !over_memory)
                .cloned();
            let mut active = if over_memory {
                self.active_jobs(tenant, pass.name).await?
            } else {
                Vec::new()
            };
            active.retain(|job| job.is_shown_to(caller));
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
                here,
                ended: None,
                running,
                queued,
                next_due,
            });
        }
        self.add_ended(caller, &mut overview).await?;
        Ok(overview)
    }

    async fn add_ended(
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
                    ENDED,
                    after.as_deref(),
                    PAGE,
                )
                .await?;
            for job in page
                .iter()
                .filter_map(JobInfo::read)
                .filter(|job| job.is_shown_to(caller))
            {
                if let Some(one) = overview
                    .iter_mut()
                    .find(|one| one.pass.name == job.pass && one.ended.is_none())
                {
                    one.ended = Some(job);
                }
            }
            let missing = overview
                .iter()
                .any(|one| matches!(one.pass.over, Over::Memory { .. }) && one.ended.is_none());
            after = page.last().map(|last| last.key.clone());
            if !missing || page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }
}
