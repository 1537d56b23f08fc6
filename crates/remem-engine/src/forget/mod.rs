//! Forget by subject: erases everything about a subject, and everything made from it, in all
//! memories, and proves it with a signed report.
//!
//! Runs that have ended keep the reads that they recorded (a replay shows what was read then); all
//! other data is erased at once, also for runs in progress.
//!
//! A forget is a job of the pass [`PASS`]. This file has the operations of callers: start one and
//! wait for it, try one without a change, read the reports. `erase` does the job's work, `progress`
//! adds up what it erased, `report` signs it.

mod erase;
mod progress;
mod report;

pub use erase::work;
pub use report::{
    ErasedEntry, ErasureReport, PrivateCounts, ReportPage, SignedReport, embedded_public_key,
    verify_report,
};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::work::{HeldLease, WorkError, first_record_version};
use crate::jobs::{ErasureTarget, JobInfo, JobState, Trigger, execute, new_job_id};
use crate::registry::{self, CLAIM_RETRY_DELAY};
use progress::{ErasureProgress, find_unreported};
use remem_core::admission::SUBJECTS_MAX;
use remem_core::sabotage;
use remem_core::{Batch, Permission, Precondition, RecordKind, Rejection, Subject, TenantId};
use remem_store::{StoreError, TracePosition};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// The name in `PASSES`.
pub(crate) const PASS: &str = "forget";
/// How long a caller without a deadline of its own waits for the end of a forget.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Reports in one page of a list, at most.
const REPORTS_MAX: u32 = 1_000;

/// The result of forgetting a subject, or of its dry run.
#[derive(Clone, Debug)]
pub struct ForgetResult {
    /// The report; unsigned for a dry run.
    pub report: SignedReport,
    /// Whether anything had to be erased.
    pub changed: bool,
    /// Whether a dry run stopped at its limit, so that more would be erased.
    pub more: bool,
}

/// What a caller who waited for a forget gets.
#[derive(Clone, Debug)]
pub enum ForgetOutcome {
    /// The erasure has ended with this result.
    Done(Box<ForgetResult>),
    /// The job that goes on with it.
    UnderWay(Box<JobInfo>),
}

impl Engine {
    /// The keyed digest by which a subject of a tenant is stored.
    pub fn subject_digest(&self, tenant: &TenantId, name: &str) -> Result<Subject, EngineError> {
        let host = self.parts.host_key.derive("remembrancer subject v1");
        let key = *blake3::keyed_hash(&host, tenant.as_str().as_bytes()).as_bytes();
        Ok(Subject::of(&key, name)?)
    }

    /// The keyed digests of several subjects; fails if there are too many.
    pub fn subject_digests(
        &self,
        caller: &Caller,
        names: &[String],
    ) -> Result<Vec<Subject>, EngineError> {
        if names.len() > SUBJECTS_MAX {
            return Err(Rejection::TooLarge {
                field: "subjects",
                unit: "items",
                limit: SUBJECTS_MAX as u64,
                actual: names.len() as u64,
            }
            .into());
        }
        names
            .iter()
            .map(|name| self.subject_digest(caller.tenant(), name))
            .collect()
    }

    /// Erases a subject from all memories of the caller's tenant and waits for the end, or says
    /// what would be erased. Repeating the call changes nothing more.
    pub async fn forget(
        &self,
        caller: &Caller,
        name: &str,
        dry_run: bool,
    ) -> Result<ForgetResult, EngineError> {
        if dry_run {
            return self.plan_forget(caller, name).await;
        }
        match self.forget_within(caller, name, WAIT_MAX).await? {
            ForgetOutcome::Done(result) => Ok(*result),
            ForgetOutcome::UnderWay(_) => Err(StoreError::Busy.into()),
        }
    }

    /// Erases a subject from all memories of the caller's tenant: in this call if that takes no
    /// longer than `wait`; otherwise the rest is done by a job, here or on another node. A call for
    /// a subject that is being erased finds the job that does it.
    pub async fn forget_within(
        &self,
        caller: &Caller,
        name: &str,
        wait: Duration,
    ) -> Result<ForgetOutcome, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let subject = self.subject_digest(tenant, name)?;
        let until = Instant::now() + wait;
        let Some(mut job) = self.find_or_start_forget(caller, &subject).await? else {
            return self.nothing_erased(tenant, &subject).await;
        };
        loop {
            self.advance_forget(tenant, &job, until).await?;
            job = self
                .find_job(tenant, &job.id)
                .await?
                .ok_or(EngineError::NotFound("job"))?;
            if job.state.has_ended() {
                return self.outcome_of(tenant, &subject, job).await;
            }
            if Instant::now() >= until {
                self.notify_work(PASS, tenant);
                return Ok(ForgetOutcome::UnderWay(Box::new(job)));
            }
            tokio::time::sleep(CLAIM_RETRY_DELAY).await;
        }
    }

    /// Does a job's work until it ends or the time is over, unless another process is doing it.
    async fn advance_forget(
        &self,
        tenant: &TenantId,
        job: &JobInfo,
        until: Instant,
    ) -> Result<(), EngineError> {
        let pass = registry::find(PASS).ok_or(EngineError::NotFound("pass"))?;
        let Some(lease) = self.claim_lease(pass, tenant).await? else {
            return Ok(());
        };
        let lease = HeldLease {
            until: Some(until),
            ..lease
        };
        let result = execute::run_job(self, pass, tenant, &lease, job.clone()).await;
        self.release_lease(tenant, &lease.fence).await;
        match result {
            // The job's record is not as it was: the caller reads it again.
            Err(EngineError::Store(StoreError::Conflict)) => Ok(()),
            Err(error) | Ok(Err(WorkError::Failed(error))) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// The job that erases a subject: one that is under way, or a new one. `None` if there is
    /// nothing to erase.
    async fn find_or_start_forget(
        &self,
        caller: &Caller,
        subject: &Subject,
    ) -> Result<Option<JobInfo>, EngineError> {
        let tenant = caller.tenant();
        let active = self.active_jobs(tenant, PASS).await?;
        let is_same = |job: &&JobInfo| {
            !job.cancelling && job.erasure.as_ref().is_some_and(|e| &e.subject == subject)
        };
        if let Some(same) = active
            .iter()
            .find(|job| sabotage!("a-repeated-forget-is-another-job", is_same(job), false))
        {
            return Ok(Some(same.clone()));
        }
        let unreported = find_unreported(self, tenant, subject).await?;
        let store = &self.parts.store;
        if unreported.is_empty()
            && store
                .trace_subject(tenant, subject, TracePosition::default(), 1)
                .await?
                .entries
                .is_empty()
        {
            return Ok(None);
        }
        self.check_active_jobs(&active)?;
        let now = self.now_for(tenant).await?;
        let id = new_job_id(now, &self.parts.ids.unique_name());
        let mut job = JobInfo::new(PASS, Trigger::OnDemand, now, id);
        job.erasure = Some(ErasureTarget {
            subject: *subject,
            // The report of an interrupted erasure is continued.
            report_id: unreported
                .report_id
                .unwrap_or_else(|| format!("era_{}", self.parts.ids.unique_name())),
            principal: caller.principal().clone(),
        });
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        let batch = batch.set_stored(&job.to_stored(), Precondition::Absent);
        let committed = store.commit(batch).await?;
        job.version = first_record_version(&committed.outcomes).unwrap_or(1);
        self.notify_work(PASS, tenant);
        Ok(Some(job))
    }

    /// The answer of a job that has ended.
    async fn outcome_of(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        job: JobInfo,
    ) -> Result<ForgetOutcome, EngineError> {
        match job.state {
            JobState::Done => {}
            // The next call goes on with it.
            JobState::Failed => return Err(StoreError::Busy.into()),
            state => return Err(EngineError::JobEnded { state }),
        }
        let Some(id) = job.detail.get("reportId").and_then(Value::as_str) else {
            return self.nothing_erased(tenant, subject).await;
        };
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Erasure, id)
            .await?;
        let report = record
            .and_then(|record| SignedReport::from_map(&record.body))
            .ok_or(EngineError::NotFound("erasure report"))?;
        Ok(ForgetOutcome::Done(Box::new(ForgetResult {
            report,
            changed: true,
            more: false,
        })))
    }

    /// The answer where there was nothing to erase: a report that is neither signed nor stored.
    async fn nothing_erased(
        &self,
        tenant: &TenantId,
        subject: &Subject,
    ) -> Result<ForgetOutcome, EngineError> {
        let id = format!("era_{}", self.parts.ids.unique_name());
        let report = self
            .fill_in_report(tenant, subject, &id, ErasureReport::default())
            .await?;
        Ok(ForgetOutcome::Done(Box::new(ForgetResult {
            report: report.unsigned(),
            changed: false,
            more: false,
        })))
    }

    /// Says what forgetting a subject would erase; looks at about as many entries as one record of a
    /// report names.
    async fn plan_forget(&self, caller: &Caller, name: &str) -> Result<ForgetResult, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let subject = self.subject_digest(tenant, name)?;
        let mut archives = self.archives_by_entry(tenant).await?;
        let mut planned = ErasureProgress::default();
        let mut seen = HashSet::new();
        let mut after = Some(TracePosition::default());
        while let Some(position) =
            after.filter(|_| seen.len() < self.parts.policy.erasure_named_max)
        {
            let mut trace = self.trace_page(tenant, &subject, position).await?;
            after = trace.next;
            // What was made from the entries of several pages comes with each of them.
            trace
                .entries
                .retain(|entry| seen.insert((entry.memory_ref.clone(), entry.id.clone())));
            let affected: Vec<_> = trace
                .entries
                .iter()
                .filter_map(|entry| archives.remove(&erase::archive_key(entry)))
                .flatten()
                .collect();
            let mut part = self.part_of(&trace.entries, &trace);
            part.add_archives(&affected);
            part.commitments = Some(self.count_open_commitments(tenant, &trace.entries).await?);
            planned.add(&part, u64::MAX);
        }
        let id = format!("era_{}", self.parts.ids.unique_name());
        let changed = planned.has_changed();
        let report = self
            .fill_in_report(tenant, &subject, &id, planned.report)
            .await?;
        Ok(ForgetResult {
            report: report.unsigned(),
            changed,
            more: after.is_some(),
        })
    }

    /// Returns the erasure reports of the caller's tenant, oldest first, and whether there are
    /// more.
    pub async fn list_erasures(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<SignedReport>, bool), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let limit = self.parts.policy.list_limit(limit).min(REPORTS_MAX);
        let mut records = self
            .parts
            .store
            .records(caller.tenant(), RecordKind::Erasure, "", after, limit + 1)
            .await?;
        let more = records.len() > limit as usize;
        records.truncate(limit as usize);
        Ok((
            records
                .iter()
                .filter_map(|record| SignedReport::from_map(&record.body))
                .collect(),
            more,
        ))
    }

    /// Returns one report, byte for byte as it was signed.
    pub async fn get_erasure(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Map<String, Value>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let record = self
            .parts
            .store
            .record(caller.tenant(), RecordKind::Erasure, id)
            .await?
            .ok_or(EngineError::NotFound("erasure report"))?;
        Ok(record.body)
    }

    /// Returns one page of a report that names what was erased on pages, counted from 1.
    pub async fn get_erasure_page(
        &self,
        caller: &Caller,
        id: &str,
        number: usize,
    ) -> Result<Map<String, Value>, EngineError> {
        let report = self.get_erasure(caller, id).await?;
        let pages = ErasureReport::from_map(&report).map_or(0, |report| report.pages.len());
        if number == 0 || number > pages {
            return Err(EngineError::NotFound("page of this report"));
        }
        let record = self
            .parts
            .store
            .record(
                caller.tenant(),
                RecordKind::Progress,
                &progress::page_key(id, number),
            )
            .await?
            .ok_or(EngineError::NotFound("page of this report"))?;
        Ok(record.body)
    }
}
