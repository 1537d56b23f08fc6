//! Schedules: when a pass is to work over a memory by itself. One record each; the pass `jobs`
//! makes a job of every tick.
//!
//! A tick, the job and the next tick are one commit on the condition that the schedule is as it
//! was: however many nodes look at it and wherever one crashes, there is one job a tick. Ticks that
//! were missed become one.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::manage::{memory_pass, named};
use crate::jobs::{JobInfo, Trigger, options, own_words};
use crate::passes::jobs::NAME;
use crate::registry::{self, Mode, PassReport};
use remem_core::admission::check_name;
use remem_core::sabotage;
use remem_core::{
    Batch, MemoryRef, Permission, Precondition, Record, RecordBody, RecordKind, Rejection,
    TenantId, Timestamp, Timing,
};
use remem_store::StoreError;
use serde_json::{Map, Value, json};

/// What a caller sets.
#[derive(Clone, Debug, Default)]
pub struct NewSchedule {
    /// An ISO 8601 duration …
    pub every: Option<String>,
    /// … or a cron line.
    pub cron: Option<String>,
    /// The time zone by whose clocks; UTC if absent.
    pub zone: Option<String>,
    /// What the jobs are started with.
    pub options: Map<String, Value>,
    /// Whether it ticks.
    pub enabled: bool,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The pass.
    pub pass: &'static str,
    /// The memory; all of the tenant's if absent.
    pub memory_ref: Option<MemoryRef>,
    /// An ISO 8601 duration …
    pub every: Option<String>,
    /// … or a cron line.
    pub cron: Option<String>,
    /// The time zone.
    pub zone: String,
    /// What the jobs are started with.
    pub options: Map<String, Value>,
    /// Whether it ticks.
    pub enabled: bool,
    /// The next tick.
    pub next_due: Option<Timestamp>,
    /// The latest tick …
    pub last_due: Option<Timestamp>,
    /// … and the job that came of it.
    pub last_job_id: Option<String>,
    /// What ticks are counted from.
    anchor: Timestamp,
    version: u64,
}

/// Another node may tick at the same time.
const TRIES: u32 = 16;

/// The name of a schedule's record. Names of memories can be longer than a key may be.
fn key(pass: &str, memory_ref: Option<&MemoryRef>) -> String {
    let digest = memory_ref.map(|memory_ref| {
        blake3::hash(memory_ref.as_str().as_bytes())
            .to_hex()
            .to_string()
    });
    format!("{pass}/{}", digest.as_deref().unwrap_or("*"))
}

impl Schedule {
    fn read(record: &Record) -> Option<Schedule> {
        let body = &record.body;
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let time = |name: &str| body.get(name).and_then(Value::as_i64).map(Timestamp);
        Some(Schedule {
            pass: registry::find(&text("pass")?)?.name,
            memory_ref: text("memoryRef").as_deref().and_then(MemoryRef::parse),
            every: text("every"),
            cron: text("cron"),
            zone: text("zone")?,
            options: body
                .get("options")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            enabled: body
                .get("enabled")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            next_due: time("nextDue"),
            last_due: time("lastDue"),
            last_job_id: text("lastJobId"),
            anchor: time("anchor")?,
            version: record.version,
        })
    }

    fn body(&self) -> RecordBody {
        own_words(json!({
            "pass": self.pass,
            "memoryRef": self.memory_ref.as_ref().map(MemoryRef::as_str),
            "every": self.every,
            "cron": self.cron,
            "zone": self.zone,
            "options": self.options,
            "enabled": self.enabled,
            "nextDue": self.next_due.map(|at| at.0),
            "lastDue": self.last_due.map(|at| at.0),
            "lastJobId": self.last_job_id,
            "anchor": self.anchor.0,
        }))
    }

    fn key(&self) -> String {
        key(self.pass, self.memory_ref.as_ref())
    }

    fn timing(&self) -> Result<Timing, Rejection> {
        Timing::parse(self.every.as_deref(), self.cron.as_deref(), &self.zone)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.enabled && self.next_due.is_some_and(|at| at <= now)
    }
}

impl Engine {
    /// Sets the schedule of a pass over a memory, or over all of the tenant's. It begins to count
    /// now.
    pub async fn put_schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
        new: NewSchedule,
    ) -> Result<Schedule, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let pass = memory_pass(pass)?;
        let mut schedule = self
            .new_schedule(tenant, pass, named(caller, memory_ref)?, new)
            .await?;
        for _ in 0..TRIES {
            let known = self.find_schedule(tenant, &schedule.key()).await?;
            let precondition = match &known {
                Some(known) => {
                    (schedule.last_due, schedule.last_job_id) =
                        (known.last_due, known.last_job_id.clone());
                    Precondition::Version(known.version)
                }
                None => {
                    self.room_for_schedule(tenant).await?;
                    Precondition::Absent
                }
            };
            let now = self.now_for(tenant).await?;
            let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
            match self
                .parts
                .store
                .commit(batch.set(
                    RecordKind::Schedule,
                    schedule.key(),
                    precondition,
                    schedule.body(),
                ))
                .await
            {
                Ok(_) => {
                    self.has_work(NAME, tenant);
                    return self.schedule(caller, pass.name, memory_ref).await;
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    async fn new_schedule(
        &self,
        tenant: &TenantId,
        pass: &'static registry::Pass,
        memory_ref: Option<MemoryRef>,
        new: NewSchedule,
    ) -> Result<Schedule, EngineError> {
        let zone = new.zone.unwrap_or_else(|| "UTC".to_owned());
        let timing = Timing::parse(new.every.as_deref(), new.cron.as_deref(), &zone)?;
        let options = options::check(pass.over.options(), new.options)?;
        if let Some(memory_ref) = &memory_ref {
            check_name(
                self.rules(tenant).await?.redactor(),
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

    async fn room_for_schedule(&self, tenant: &TenantId) -> Result<(), EngineError> {
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
        Ok(record.as_ref().and_then(Schedule::read))
    }

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
        Ok(records.iter().filter_map(Schedule::read).collect())
    }

    /// The schedule of a pass over a memory, or over all.
    pub async fn schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
    ) -> Result<Schedule, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let key = key(memory_pass(pass)?.name, named(caller, memory_ref)?.as_ref());
        self.find_schedule(caller.tenant(), &key)
            .await?
            .ok_or(EngineError::NotFound("schedule"))
    }

    /// The tenant's schedules, by pass.
    pub async fn schedules(&self, caller: &Caller) -> Result<Vec<Schedule>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let mut all = self.all_schedules(caller.tenant()).await?;
        all.retain(|schedule| {
            schedule.memory_ref.as_ref().is_none_or(|memory_ref| {
                sabotage!("anybody-sees-schedules", caller.may_see(memory_ref), true)
            })
        });
        Ok(all)
    }

    /// Takes a schedule away. Jobs that came of it go on.
    pub async fn remove_schedule(
        &self,
        caller: &Caller,
        pass: &str,
        memory_ref: Option<&str>,
    ) -> Result<(), EngineError> {
        for _ in 0..TRIES {
            let schedule = self.schedule(caller, pass, memory_ref).await?;
            let now = self.now_for(caller.tenant()).await?;
            let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
            match self
                .parts
                .store
                .commit(batch.unset(
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

    /// Whether a schedule is due; remembers when the next one will be.
    pub(crate) async fn look_at_schedules(&self, tenant: &TenantId) -> Result<bool, EngineError> {
        let now = self.now_for(tenant).await?;
        let schedules = self.all_schedules(tenant).await?;
        let next = schedules
            .iter()
            .filter(|schedule| schedule.enabled)
            .filter_map(|schedule| schedule.next_due)
            .min();
        self.passes.due_at(NAME, tenant, next);
        Ok(next.is_some_and(|at| at <= now))
    }

    /// Makes jobs of what is due.
    pub(crate) async fn tick(
        &self,
        tenant: &TenantId,
        mode: Mode,
    ) -> Result<PassReport, EngineError> {
        let now = self.now_for(tenant).await?;
        let mut report = PassReport::default();
        for schedule in self.all_schedules(tenant).await? {
            report.examined += 1;
            if !schedule.is_due(now) {
                continue;
            }
            let ticked = if mode == Mode::DryRun {
                Ok(true)
            } else {
                self.tick_one(tenant, schedule, now).await
            };
            match ticked {
                Ok(ticked) => report.changed += u64::from(ticked),
                // A schedule that cannot tick now must not hold up the others; it stays due.
                Err(EngineError::Rejected(rejection)) => {
                    tracing::warn!(tenant = %tenant, code = rejection.code(), field = rejection.field(), "a schedule could not start its job");
                }
                Err(other) => return Err(other),
            }
        }
        self.look_at_schedules(tenant).await?;
        Ok(report)
    }

    /// Answers whether this call made the tick: another node may have.
    async fn tick_one(
        &self,
        tenant: &TenantId,
        schedule: Schedule,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let pass = memory_pass(schedule.pass)?;
        let wanted = self
            .new_job(
                tenant,
                pass,
                schedule.memory_ref.clone(),
                schedule.options.clone(),
                Trigger::Scheduled,
            )
            .await?;
        // One that waits already will do what this tick asks for. It is part of the commit, so that
        // it does wait still.
        let (job, waits) = match self.equal_job(tenant, &wanted).await? {
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
        let batch = batch.set(
            RecordKind::Schedule,
            schedule.key(),
            Precondition::Version(schedule.version),
            next.body(),
        );
        match self
            .parts
            .store
            .commit(batch.set(RecordKind::Job, job.key(), waits, job.body()))
            .await
        {
            Ok(_) => {
                self.has_work(pass.name, tenant);
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
    use remem_core::Ties;

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
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
        let body = schedule.body().map().clone();
        let record = Record {
            kind: RecordKind::Schedule,
            key: schedule.key(),
            version: 4,
            at: Timestamp(0),
            body,
            ties: Ties::default(),
        };
        assert_eq!(Schedule::read(&record), Some(schedule));
        assert_ne!(
            key("distill", MemoryRef::parse("a").as_ref()),
            key("distill", None)
        );
    }
}
