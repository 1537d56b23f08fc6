//! Heartbeats: predicates over a memory that the host evaluates at intervals. An evaluation is
//! bounded in time, and no two overlap: each moves the instant of the next one, under the condition
//! that no other process did. Only a change is reported to commitments.

use crate::caller::Caller;
use crate::commitments::NewCommitment;
use crate::commitments::firing::FireOutcome;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::admission::check_name;
use remem_core::commitment::Delivery;
use remem_core::event::{HeartbeatEvaluated, HeartbeatStateChanged, PredicateState};
use remem_core::proposal::is_name;
use remem_core::sabotage;
use remem_core::{
    Batch, EventBody, Fence, MemoryRef, Permission, Precondition, Record, RecordKind, RecordLinks,
    Rejection, Scope, StoredRecord, TenantId, Timestamp, infer,
};
use remem_store::{Filter, Page, ReadAt, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// A heartbeat that a caller sets.
#[derive(Clone, Debug, Default)]
pub struct NewHeartbeat {
    /// The memory to evaluate.
    pub memory_ref: String,
    /// The statement to report, for which commitments wait.
    pub key: String,
    /// The predicate: the statement holds while a live entry of the memory has this tag.
    pub tag: String,
    /// Seconds between evaluations, raised to the shortest interval that this host allows.
    pub every_seconds: u32,
    /// Whether the heartbeat is active.
    pub enabled: bool,
}

/// A heartbeat, as its record stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The id of the heartbeat.
    pub id: String,
    /// The memory to evaluate.
    pub memory_ref: String,
    /// The normal form of the statement.
    pub key: String,
    /// The statement holds while a live entry has this tag.
    pub tag: String,
    /// Interval between evaluations in milliseconds.
    pub every_ms: i64,
    /// Whether the heartbeat is active.
    pub enabled: bool,
    /// Whether the statement held at the last evaluation that ended in time.
    #[serde(default)]
    pub holds: Option<bool>,
    /// How the last evaluation ended: `ok`, `timeout` or `error`.
    #[serde(default)]
    pub last_status: Option<String>,
    /// When the last evaluation ended.
    #[serde(default)]
    pub last_at: Option<i64>,
    /// Digest of what a conformance check reported; absent on any other host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed: Option<String>,
}

/// The result of one evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatResult {
    /// How it ended: `ok`, `timeout` or `error`.
    pub status: &'static str,
    /// Whether the statement changed between true and false.
    pub changed: bool,
    /// Ids of the commitments that fired.
    pub fired: Vec<String>,
}

impl StoredRecord for Heartbeat {
    const KIND: RecordKind = RecordKind::Heartbeat;

    fn key(&self) -> String {
        self.id.clone()
    }
}

impl Heartbeat {
    /// Reads a heartbeat from its record.
    fn from_record(record: &Record) -> Result<Heartbeat, EngineError> {
        let read = <Heartbeat as StoredRecord>::read(record);
        Ok(read.ok_or(StoreError::Damaged("a heartbeat cannot be read"))?)
    }
}

/// The part of an id after `~/` or the caller's own `~user/`; `None` if it has no such prefix.
fn strip_own_prefix<'a>(caller: &Caller, id: &'a str) -> Option<&'a str> {
    let rest = id.strip_prefix('~')?;
    rest.strip_prefix('/').or_else(|| {
        rest.strip_prefix(caller.principal().as_str())?
            .strip_prefix('/')
    })
}

/// The full id of a heartbeat over a memory. Over a memory of one user it begins with that user's
/// name: so users cannot collide, and every event of the heartbeat shows who may see it.
fn full_id(caller: &Caller, id: &str, memory_ref: &MemoryRef) -> Option<String> {
    let own = strip_own_prefix(caller, id);
    let name = own.unwrap_or(id);
    match memory_ref.owner() {
        _ if !is_name(name) => None,
        Some(owner) => Some(sabotage!(
            "heartbeats-share-their-names",
            format!("~{owner}/{name}"),
            name.to_owned()
        )),
        None => own.is_none().then(|| name.to_owned()),
    }
}

/// The full ids that a caller may mean by an id, in this order.
fn candidate_ids(caller: &Caller, id: &str) -> Vec<String> {
    let user = caller.principal();
    let own = strip_own_prefix(caller, id);
    if !is_name(own.unwrap_or(id)) {
        return Vec::new();
    }
    match own {
        Some(name) => vec![format!("~{user}/{name}")],
        None => vec![format!("~{user}/{id}"), id.to_owned()],
    }
}

impl Engine {
    /// Creates a heartbeat, or replaces the one with this id.
    pub async fn put_heartbeat(
        &self,
        caller: &Caller,
        id: &str,
        new: NewHeartbeat,
    ) -> Result<Heartbeat, EngineError> {
        sabotage!(
            "anybody-sets-heartbeats",
            caller.require(Permission::MemoryAdmin)?
        );
        let scope = caller.scope_to_write(&new.memory_ref)?;
        let id = &full_id(caller, id, &scope.memory_ref).ok_or(Rejection::MalformedName {
            field: "heartbeatId",
        })?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        for (field, name) in [
            ("heartbeatId", id.as_str()),
            ("memoryRef", scope.memory_ref.as_str()),
            ("tag", new.tag.as_str()),
            ("key", new.key.as_str()),
        ] {
            sabotage!(
                "a-heartbeat-s-name-may-hold-a-secret",
                check_name(rules.redactor(), field, name)?
            );
        }
        let malformed = Rejection::Invalid {
            field: "key",
            rule: "must be a short statement, such as \"invoice cleared\"",
        };
        let key = infer::observation_key(&new.key).ok_or(malformed)?;
        if new.tag.is_empty() || new.tag.chars().count() > self.parts.policy.tag_chars_max {
            return Err(Rejection::Invalid {
                field: "tag",
                rule: "must be a tag",
            }
            .into());
        }
        let known = self.all_heartbeats(caller.tenant()).await?;
        let limit = self.parts.policy.heartbeats_max as u64;
        let actual = known.len() as u64 + 1;
        if actual > limit && known.iter().all(|heartbeat| heartbeat.id != *id) {
            return Err(Rejection::TooLarge {
                field: "heartbeats",
                unit: "items",
                limit,
                actual,
            }
            .into());
        }
        let every_ms =
            (i64::from(new.every_seconds) * 1_000).max(self.parts.policy.heartbeat_every_ms_min);
        let memory_ref = scope.memory_ref.as_str().to_owned();
        let tag = new.tag;
        let enabled = new.enabled;
        let heartbeat = Heartbeat {
            id: id.to_owned(),
            memory_ref,
            key,
            tag,
            every_ms,
            enabled,
            holds: None,
            last_status: None,
            last_at: None,
            observed: None,
        };
        let now = self.now_for(caller.tenant()).await?;
        let body = rules
            .admission(&self.policy_of(caller), now)
            .redact_stored(&heartbeat);
        let ties = if enabled {
            RecordLinks::due_at(now)
        } else {
            RecordLinks::default()
        };
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        self.parts
            .store
            .commit(batch.set_record_with_ties(
                RecordKind::Heartbeat,
                id.to_owned(),
                Precondition::None,
                body,
                ties,
            ))
            .await?;
        let heartbeat = self.load_heartbeat(caller, id).await?;
        self.review_heartbeat(caller, heartbeat).await
    }

    /// Returns the heartbeat with this id.
    pub async fn get_heartbeat(&self, caller: &Caller, id: &str) -> Result<Heartbeat, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let heartbeat = self.load_heartbeat(caller, id).await?;
        self.review_heartbeat(caller, heartbeat).await
    }

    /// Redacts values that were registered after the heartbeat was stored.
    async fn review_heartbeat(
        &self,
        caller: &Caller,
        mut heartbeat: Heartbeat,
    ) -> Result<Heartbeat, EngineError> {
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        let key = admission.redact_short_text(&heartbeat.key);
        let tag = admission.redact_short_text(&heartbeat.tag);
        sabotage!("late-secrets-show-in-heartbeats", {
            heartbeat.key = key;
            heartbeat.tag = tag;
        });
        Ok(heartbeat)
    }

    /// Reads the caller's own heartbeat with this id, or else the tenant's.
    async fn load_heartbeat(&self, caller: &Caller, id: &str) -> Result<Heartbeat, EngineError> {
        for name in candidate_ids(caller, id) {
            if let Some(record) = self
                .parts
                .store
                .record(caller.tenant(), RecordKind::Heartbeat, &name)
                .await?
            {
                return Heartbeat::from_record(&record);
            }
        }
        Err(EngineError::NotFound("heartbeat"))
    }

    /// Lists the tenant's heartbeats that the caller may see, by id.
    pub async fn list_heartbeats(&self, caller: &Caller) -> Result<Vec<Heartbeat>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let mut all = self.all_heartbeats(caller.tenant()).await?;
        all.retain(|heartbeat| {
            sabotage!(
                "anybody-sees-heartbeats",
                MemoryRef::parse(&heartbeat.memory_ref)
                    .is_none_or(|memory_ref| caller.may_see(&memory_ref)),
                true
            )
        });
        let mut reviewed = Vec::with_capacity(all.len());
        for heartbeat in all {
            reviewed.push(self.review_heartbeat(caller, heartbeat).await?);
        }
        Ok(reviewed)
    }

    /// Reads all heartbeats of a tenant.
    async fn all_heartbeats(&self, tenant: &TenantId) -> Result<Vec<Heartbeat>, EngineError> {
        let limit = u32::try_from(self.parts.policy.heartbeats_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(tenant, RecordKind::Heartbeat, "", None, limit)
            .await?;
        records.iter().map(Heartbeat::from_record).collect()
    }

    /// Deletes a heartbeat of the tenant.
    pub async fn remove_heartbeat(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let id = self.load_heartbeat(caller, id).await?.id;
        let batch = Batch::new(
            caller.tenant().clone(),
            self.now_for(caller.tenant()).await?,
        )
        .with_principal(caller.principal().clone());
        self.parts
            .store
            .commit(batch.delete_record(RecordKind::Heartbeat, id, Precondition::None))
            .await?;
        Ok(())
    }

    /// Evaluates a heartbeat that is due, and records the result.
    pub(crate) async fn process_heartbeat(
        &self,
        tenant: &TenantId,
        record: Record,
        fence: Option<&Fence>,
    ) -> Result<FireOutcome, EngineError> {
        let heartbeat = Heartbeat::from_record(&record)?;
        let result = self.evaluate(tenant, &heartbeat).await;
        Ok(
            if self
                .record_result(tenant, &record, heartbeat, result, fence)
                .await?
                .is_some()
            {
                FireOutcome::Done
            } else {
                FireOutcome::NotDone
            },
        )
    }

    /// Evaluates a heartbeat; an `Err` is the status of an evaluation that failed. It never takes
    /// longer than the policy allows.
    async fn evaluate(
        &self,
        tenant: &TenantId,
        heartbeat: &Heartbeat,
    ) -> Result<bool, &'static str> {
        self.with_time_limit(self.tag_exists(tenant, heartbeat))
            .await
    }

    /// Limits the time of an evaluation, and converts its errors to a status.
    async fn with_time_limit(
        &self,
        evaluation: impl Future<Output = Result<bool, EngineError>>,
    ) -> Result<bool, &'static str> {
        let limit = Duration::from_millis(self.parts.policy.heartbeat_runtime_ms_max);
        match tokio::time::timeout(limit, evaluation).await {
            Ok(Ok(holds)) => Ok(holds),
            Ok(Err(_)) => Err("error"),
            Err(_) => sabotage!("a-slow-look-is-believed", Err("timeout"), Ok(true)),
        }
    }

    /// Whether a live entry of the memory has the heartbeat's tag.
    async fn tag_exists(
        &self,
        tenant: &TenantId,
        heartbeat: &Heartbeat,
    ) -> Result<bool, EngineError> {
        let Some(memory_ref) = MemoryRef::parse(&heartbeat.memory_ref) else {
            return Ok(false);
        };
        let filter = Filter {
            tags: vec![heartbeat.tag.clone()],
            ..Filter::default()
        };
        let at = ReadAt::Now(self.now_for(tenant).await?);
        let found = self
            .parts
            .store
            .list(
                &Scope::new(tenant.clone(), memory_ref).as_host(),
                &filter,
                &Page {
                    limit: 1,
                    after: None,
                },
                &at,
            )
            .await?;
        Ok(!found.is_empty())
    }

    /// Reports and records the result of an evaluation; `None` if another process evaluated
    /// meanwhile. The change is reported to commitments first: if this process ends in between, the
    /// next evaluation finds the same change, and reporting it twice does nothing.
    pub(crate) async fn record_result(
        &self,
        tenant: &TenantId,
        record: &Record,
        mut heartbeat: Heartbeat,
        result: Result<bool, &'static str>,
        fence: Option<&Fence>,
    ) -> Result<Option<HeartbeatResult>, EngineError> {
        let now = self.now_for(tenant).await?;
        let before = heartbeat.holds;
        let (status, changed) = match result {
            Ok(holds) => ("ok", before != Some(holds)),
            Err(status) => (status, false),
        };
        let mut fired = Vec::new();
        if let (Ok(holds), true, Some(memory_ref)) =
            (result, changed, MemoryRef::parse(&heartbeat.memory_ref))
        {
            fired = self
                .report_observation(tenant, &memory_ref, heartbeat.key.clone(), holds)
                .await?
                .fired;
            heartbeat.holds = Some(holds);
        }
        (heartbeat.last_status, heartbeat.last_at) = (Some(status.to_owned()), Some(now.0));
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let body = rules.admission(&policy, now).redact_stored(&heartbeat);
        let ties = if heartbeat.enabled {
            RecordLinks::due_at(next_evaluation(record.links.due, heartbeat.every_ms, now))
        } else {
            RecordLinks::default()
        };
        let batch = Batch::new(tenant.clone(), now).fenced(fence.cloned());
        let mut batch = batch.set_record_with_ties(
            RecordKind::Heartbeat,
            record.key.clone(),
            Precondition::Version(record.version),
            body,
            ties,
        );
        let heartbeat_id = heartbeat.id.clone();
        batch = batch.emit(EventBody::HeartbeatEvaluated(HeartbeatEvaluated {
            heartbeat_id: heartbeat_id.clone(),
            status: status.to_owned(),
            changed,
        }));
        if changed {
            let from = PredicateState { holds: before };
            let to = PredicateState {
                holds: heartbeat.holds,
            };
            batch = batch.emit(EventBody::HeartbeatStateChanged(HeartbeatStateChanged {
                heartbeat_id,
                from,
                to,
            }));
        }
        match self.parts.store.commit(batch).await {
            Ok(_) => {
                if changed {
                    self.notify_run_events(tenant);
                }
                Ok(Some(HeartbeatResult {
                    status,
                    changed,
                    fired,
                }))
            }
            Err(StoreError::Conflict) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

/// The result of one evaluation by a conformance check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatTick {
    /// How it ended: `ok`, `timeout` or `error`.
    pub status: &'static str,
    /// The value of the statement before and now, if it changed.
    pub change: Option<(PredicateState, PredicateState)>,
    /// Number of runs that were started because of it.
    pub runs: u64,
}

/// The memory of heartbeats of conformance checks.
const CHECK_MEMORY: &str = "mem://conformance/heartbeats";
/// The workflow that a change starts.
const CHECK_WORKFLOW: &str = "conformance-noop";

/// The statement of the check's heartbeat with this id.
fn check_statement(id: &str) -> String {
    format!(
        "the watched thing {} has changed",
        &blake3::hash(id.as_bytes()).to_hex()[..8]
    )
}

impl Engine {
    /// Evaluates a heartbeat of a conformance check, which supplies what was observed and how long
    /// that takes. All else is as usual. The statement changes between true and false whenever the
    /// observation differs from the last one.
    pub async fn tick_heartbeat(
        &self,
        caller: &Caller,
        id: &str,
        observed: &Value,
        slow_ms: u64,
    ) -> Result<HeartbeatTick, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        if !self.parts.test_endpoints {
            return Err(EngineError::NotFound("heartbeat"));
        }
        let tenant = caller.tenant();
        if self
            .parts
            .store
            .record(tenant, RecordKind::Heartbeat, id)
            .await?
            .is_none()
        {
            let memory_ref = CHECK_MEMORY.to_owned();
            let key = check_statement(id);
            let tag = "conformance".to_owned();
            self.put_heartbeat(
                caller,
                id,
                NewHeartbeat {
                    memory_ref,
                    key,
                    tag,
                    every_seconds: 60,
                    enabled: false,
                },
            )
            .await?;
        }
        self.ensure_commitment(caller, id).await?;
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Heartbeat, id)
            .await?
            .ok_or(EngineError::NotFound("heartbeat"))?;
        let mut heartbeat = Heartbeat::from_record(&record)?;
        let digest = blake3::hash(observed.to_string().as_bytes()).to_hex()[..32].to_owned();
        let is_unchanged = heartbeat.observed.as_ref() == Some(&digest);
        let holds = if is_unchanged {
            heartbeat.holds.unwrap_or(true)
        } else {
            !heartbeat.holds.unwrap_or(false)
        };
        let evaluation = async {
            tokio::time::sleep(Duration::from_millis(slow_ms)).await;
            Ok(holds)
        };
        let result = self.with_time_limit(evaluation).await;
        let from = PredicateState {
            holds: heartbeat.holds,
        };
        let to = PredicateState { holds: Some(holds) };
        if result.is_ok() {
            heartbeat.observed = Some(digest);
        }
        let beat = self
            .record_result(tenant, &record, heartbeat, result, None)
            .await?
            .ok_or(StoreError::Busy)?;
        let mut runs = 0;
        for id in &beat.fired {
            let fired = self.load_commitment(tenant, id).await?;
            runs += u64::from(fired.is_some_and(|info| info.commitment.last_run_id.is_some()));
        }
        Ok(HeartbeatTick {
            status: beat.status,
            change: beat.changed.then_some((from, to)),
            runs,
        })
    }

    /// Creates a commitment that waits for the statement, so that a change has a run to start.
    async fn ensure_commitment(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        let delivery = Delivery {
            workflow_id: Some(CHECK_WORKFLOW.to_owned()),
            ..Delivery::default()
        };
        let text = format!("Look after the heartbeat {id}.");
        let predicate = Some(check_statement(id));
        let new = NewCommitment {
            text,
            predicate,
            delivery,
            ..NewCommitment::default()
        };
        match self
            .create_commitment(caller, CHECK_MEMORY, new, None)
            .await
        {
            Ok(_) | Err(EngineError::UnknownWorkflow) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

/// The next evaluation, on the grid of the last one: missed ones are combined into one.
fn next_evaluation(due: Option<Timestamp>, every_ms: i64, now: Timestamp) -> Timestamp {
    let due = due.unwrap_or(now);
    let missed = (now.0 - due.0).max(0) / every_ms.max(1);
    due.plus_ms((missed + 1).saturating_mul(every_ms))
}
