//! Schedules: when a pass works on a memory by itself. Each is one record; the pass `jobs` creates
//! a job at every tick.
//!
//! A tick, its job and the next tick are one commit, under the condition that the schedule is
//! unchanged: however many nodes try and wherever one crashes, there is one job for each tick.
//! Missed ticks are combined into one.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::manage::{find_memory_pass, resolve_memory_ref};
use crate::jobs::{JobInfo, Trigger, options};
use crate::passes::jobs::NAME;
use crate::registry::{self, PassMode, PassReport};
use remem_core::admission::check_name;
use remem_core::record::or_default;
use remem_core::sabotage;
use remem_core::{
    Batch, HostFacts, HostText, MemoryRef, Permission, Precondition, Record, RecordKind, Rejection,
    StoredRecord, TenantId, Timestamp, Timing, needs_no_redaction,
};
use remem_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A schedule that a caller sets.
#[derive(Clone, Debug, Default)]
pub struct NewSchedule {
    /// The interval as an ISO 8601 duration. Exactly one of `every` and `cron` must be set.
    pub every: Option<String>,
    /// A cron line, instead of an interval.
    pub cron: Option<String>,
    /// The time zone of the schedule; UTC if absent.
    pub zone: Option<String>,
    /// The options of the jobs.
    pub options: Map<String, Value>,
    /// Whether the schedule is active.
    pub enabled: bool,
}

/// The schedule of a pass over a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The name of the pass.
    pub pass: &'static str,
    /// The memory to work on; all memories of the tenant if absent.
    pub memory_ref: Option<MemoryRef>,
    /// The interval as an ISO 8601 duration, unless `cron` is set.
    pub every: Option<String>,
    /// A cron line, unless `every` is set.
    pub cron: Option<String>,
    /// The time zone of the schedule.
    pub zone: String,
    /// The options of the jobs.
    pub options: Map<String, Value>,
    /// Whether the schedule is active.
    pub enabled: bool,
    /// The instant of the next tick.
    pub next_due: Option<Timestamp>,
    /// The instant of the latest tick.
    pub last_due: Option<Timestamp>,
    /// The job of the latest tick.
    pub last_job_id: Option<String>,
    /// The instant that intervals are counted from.
    anchor: Timestamp,
    version: u64,
}

/// How often a conflicting commit is retried: another node may tick at the same time.
const COMMIT_TRIES: u32 = 16;

/// The key of a schedule's record: a digest, since names of memories can be longer than a key may
/// be.
fn schedule_key(pass: &str, memory_ref: Option<&MemoryRef>) -> String {
    let digest = memory_ref.map(|memory_ref| {
        blake3::hash(memory_ref.as_str().as_bytes())
            .to_hex()
            .to_string()
    });
    format!("{pass}/{}", digest.as_deref().unwrap_or("*"))
}

/// The body of a schedule's record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredSchedule {
    pass: HostText,
    #[serde(default, deserialize_with = "or_default")]
    memory_ref: Option<MemoryRef>,
    #[serde(default, deserialize_with = "or_default")]
    every: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    cron: Option<HostText>,
    zone: HostText,
    #[serde(default, deserialize_with = "or_default")]
    options: HostFacts,
    #[serde(default, deserialize_with = "or_default")]
    enabled: bool,
    #[serde(default, deserialize_with = "or_default")]
    next_due: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    last_due: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    last_job_id: Option<HostText>,
    anchor: Timestamp,
}

needs_no_redaction!(StoredSchedule {
    pass,
    memory_ref,
    every,
    cron,
    zone,
    options,
    enabled,
    next_due,
    last_due,
    last_job_id,
    anchor,
});

impl StoredRecord for StoredSchedule {
    const KIND: RecordKind = RecordKind::Schedule;

    fn key(&self) -> String {
        schedule_key(self.pass.as_str(), self.memory_ref.as_ref())
    }
}

impl Schedule {
    /// Reads a schedule from its record; `None` if a field is missing or the pass is unknown.
    pub(crate) fn from_record(record: &Record) -> Option<Schedule> {
        let stored = StoredSchedule::read(record)?;
        Some(Schedule {
            pass: registry::find(stored.pass.as_str())?.name,
            memory_ref: stored.memory_ref,
            every: stored.every.map(HostText::into_string),
            cron: stored.cron.map(HostText::into_string),
            zone: stored.zone.into_string(),
            options: stored.options.into_map(),
            enabled: stored.enabled,
            next_due: stored.next_due,
            last_due: stored.last_due,
            last_job_id: stored.last_job_id.map(HostText::into_string),
            anchor: stored.anchor,
            version: record.version,
        })
    }

    /// The schedule as it is stored. Its expression and its options were checked when it was set.
    pub(crate) fn to_stored(&self) -> StoredSchedule {
        StoredSchedule {
            pass: HostText::from(self.pass),
            memory_ref: self.memory_ref.clone(),
            every: self.every.as_deref().map(HostText::new),
            cron: self.cron.as_deref().map(HostText::new),
            zone: HostText::new(&self.zone),
            options: HostFacts::new(self.options.clone()),
            enabled: self.enabled,
            next_due: self.next_due,
            last_due: self.last_due,
            last_job_id: self.last_job_id.as_deref().map(HostText::new),
            anchor: self.anchor,
        }
    }

    fn key(&self) -> String {
        schedule_key(self.pass, self.memory_ref.as_ref())
    }

    fn timing(&self) -> Result<Timing, Rejection> {
        Timing::parse(self.every.as_deref(), self.cron.as_deref(), &self.zone)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.enabled && self.next_due.is_some_and(|at| at <= now)
    }
}

impl Engine {
    /// Sets the schedule of a pass over a memory, or over all memories of the tenant. Its intervals
    /// start now.
    pub async fn put_schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        new: NewSchedule,
    ) -> Result<Schedule, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let pass = find_memory_pass(pass)?;
        let mut schedule = self
            .build_schedule(tenant, pass, resolve_memory_ref(caller, memory_ref)?, new)
            .await?;
        for _ in 0..COMMIT_TRIES {
            let known = self.find_schedule(tenant, &schedule.key()).await?;
            let precondition = match &known {
                Some(known) => {
                    (schedule.last_due, schedule.last_job_id) =
                        (known.last_due, known.last_job_id.clone());
                    Precondition::Version(known.version)
                }
                None => {
                    self.check_schedule_room(tenant).await?;
                    Precondition::Absent
                }
            };
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
            match self
                .parts
                .store
                .commit(batch.set_stored(&schedule.to_stored(), precondition))
                .await
            {
                Ok(_) => {
                    self.notify_work(NAME, tenant);
                    return self.get_schedule(caller, pass.name, memory_ref).await;
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Validates a schedule that a caller sets.
    async fn build_schedule(
        &self,
        tenant: &TenantId,
        pass: &'static registry::Pass,
        memory_ref: Option<MemoryRef>,
        new: NewSchedule,
    ) -> Result<Schedule, EngineError> {
        let zone = new.zone.unwrap_or_else(|| "UTC".to_owned());
        let timing = Timing::parse(new.every.as_deref(), new.cron.as_deref(), &zone)?;
        let options = options::validate(pass.kind.options(), new.options)?;
        if let Some(memory_ref) = &memory_ref {
            check_name(
                self.redaction_rules(tenant).await?.redactor(),
                "memoryRef",
                memory_ref.as_str(),
            )?;
        }
        let now = self.now_for(tenant).await?;
        let every = new.every;
        let cron = new.cron;
        let enabled = new.enabled;
        let next_due = timing.next(now, now).filter(|_| enabled);
        let pass = pass.name;
        let anchor = now;
        Ok(Schedule {
            pass,
            memory_ref,
            every,
            cron,
            zone,
            options,
            enabled,
            next_due,
            last_due: None,
            last_job_id: None,
            anchor,
            version: 0,
        })
    }

    /// Fails if the tenant has too many schedules.
    async fn check_schedule_room(&self, tenant: &TenantId) -> Result<(), EngineError> {
        let limit = self.parts.policy.schedules_max;
        let known = self.all_schedules(tenant).await?.len();
        let limit_n = limit as u64;
        let actual = known as u64 + 1;
        if known < limit {
            Ok(())
        } else {
            Err(Rejection::TooLarge {
                field: "schedules",
                unit: "items",
                limit: limit_n,
                actual,
            }
            .into())
        }
    }

    /// Reads a schedule by its key.
    async fn find_schedule(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Option<Schedule>, EngineError> {
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Schedule, key)
            .await?;
        Ok(record.as_ref().and_then(Schedule::from_record))
    }

    /// Reads all schedules of a tenant.
    pub(crate) async fn all_schedules(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<Schedule>, EngineError> {
        let limit = u32::try_from(self.parts.policy.schedules_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(tenant, RecordKind::Schedule, "", None, limit)
            .await?;
        Ok(records.iter().filter_map(Schedule::from_record).collect())
    }

    /// Returns the schedule of a pass over a memory, or over all memories.
    pub async fn get_schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
    ) -> Result<Schedule, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let key = schedule_key(
            find_memory_pass(pass)?.name,
            resolve_memory_ref(caller, memory_ref)?.as_ref(),
        );
        self.find_schedule(caller.tenant(), &key)
            .await?
            .ok_or(EngineError::NotFound("schedule"))
    }

    /// Lists the tenant's schedules that the caller may see, by pass.
    pub async fn list_schedules(&self, caller: &Caller) -> Result<Vec<Schedule>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let mut all = self.all_schedules(caller.tenant()).await?;
        all.retain(|schedule| {
            schedule.memory_ref.as_ref().is_none_or(|memory_ref| {
                sabotage!("anybody-sees-schedules", caller.may_see(memory_ref), true)
            })
        });
        Ok(all)
    }

    /// Deletes a schedule. Its jobs continue.
    pub async fn remove_schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
    ) -> Result<(), EngineError> {
        for _ in 0..COMMIT_TRIES {
            let schedule = self.get_schedule(caller, pass, memory_ref).await?;
            let now = self.now_for(caller.tenant()).await?;
            let batch =
                Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
            match self
                .parts
                .store
                .commit(batch.delete_record(
                    RecordKind::Schedule,
                    schedule.key(),
                    Precondition::Version(schedule.version),
                ))
                .await
            {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Whether a schedule is due. Also notifies the runner of this process when the next one will
    /// be.
    pub(crate) async fn has_due_schedule(&self, tenant: &TenantId) -> Result<bool, EngineError> {
        let now = self.now_for(tenant).await?;
        let schedules = self.all_schedules(tenant).await?;
        let next = schedules
            .iter()
            .filter(|schedule| schedule.enabled)
            .filter_map(|schedule| schedule.next_due)
            .min();
        self.pass_log.set_due_at(NAME, tenant, next);
        Ok(next.is_some_and(|at| at <= now))
    }

    /// Creates the jobs of schedules that are due.
    pub(crate) async fn start_due_schedules(
        &self,
        tenant: &TenantId,
        mode: PassMode,
    ) -> Result<PassReport, EngineError> {
        let now = self.now_for(tenant).await?;
        let mut report = PassReport::default();
        for schedule in self.all_schedules(tenant).await? {
            report.examined += 1;
            if !schedule.is_due(now) {
                continue;
            }
            let started = if mode == PassMode::DryRun {
                Ok(true)
            } else {
                self.start_schedule(tenant, schedule, now).await
            };
            match started {
                Ok(started) => report.changed += u64::from(started),
                // A schedule that cannot start its job now must not hold up the others; it stays
                // due.
                Err(EngineError::Rejected(rejection)) => {
                    tracing::warn!(tenant = %tenant, code = rejection.code(), field = rejection.field(), "a schedule could not start its job");
                }
                Err(other) => return Err(other),
            }
        }
        self.has_due_schedule(tenant).await?;
        Ok(report)
    }

    /// Creates the job of one schedule. Returns false if another node did.
    async fn start_schedule(
        &self,
        tenant: &TenantId,
        schedule: Schedule,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let pass = find_memory_pass(schedule.pass)?;
        let wanted = self
            .new_job(
                tenant,
                pass,
                schedule.memory_ref.clone(),
                schedule.options.clone(),
                Trigger::Scheduled,
            )
            .await?;
        // A queued equivalent job will do the work of this tick. It is part of the commit, so that
        // it is certain to be still queued.
        let (job, precondition) = match self.find_equivalent_job(tenant, &wanted).await? {
            Some(job) => (job.clone(), Precondition::Version(job.version)),
            None => (wanted, Precondition::Absent),
        };
        let JobInfo { id, .. } = &job;
        let next_due = schedule.timing()?.next(schedule.anchor, now);
        let next = Schedule {
            next_due,
            last_due: schedule.next_due,
            last_job_id: Some(id.clone()),
            ..schedule.clone()
        };
        let batch = Batch::new(tenant.clone(), now);
        let batch = batch.set_stored(&next.to_stored(), Precondition::Version(schedule.version));
        match self
            .parts
            .store
            .commit(batch.set_stored(&job.to_stored(), precondition))
            .await
        {
            Ok(_) => {
                self.notify_work(pass.name, tenant);
                Ok(true)
            }
            Err(StoreError::Conflict) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::RecordLinks;
    use serde_json::json;

    #[test]
    fn schedule_record_round_trips() {
        let schedule = Schedule {
            pass: "distill",
            memory_ref: MemoryRef::parse("a/b"),
            every: None,
            cron: Some("0 3 * * *".to_owned()),
            zone: "Europe/Berlin".to_owned(),
            options: json!({"tokenBudget": 5}).as_object().cloned().unwrap(),
            enabled: true,
            next_due: Some(Timestamp(1)),
            last_due: Some(Timestamp(2)),
            last_job_id: Some("job_1".to_owned()),
            anchor: Timestamp(3),
            version: 4,
        };
        let body = schedule.to_stored().to_map();
        let record = Record {
            kind: RecordKind::Schedule,
            key: schedule.key(),
            version: 4,
            at: Timestamp(0),
            body,
            links: RecordLinks::default(),
        };
        assert_eq!(Schedule::from_record(&record), Some(schedule));
        assert_ne!(
            schedule_key("distill", MemoryRef::parse("a").as_ref()),
            schedule_key("distill", None)
        );
    }
}
