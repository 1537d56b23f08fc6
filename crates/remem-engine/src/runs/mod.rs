//! Runs of workflows: starting, reading and cancelling them. How a run is executed is in `execute`,
//! what its nodes can do in `execution` and `nodes`.
//!
//! A run is a record beside the tenant's memory. Every step commits its effects together with the
//! record, under the condition that the record is unchanged. So two nodes of a cluster can never
//! both execute a run, and a run that was cancelled does nothing more.

mod actions;
mod agent;
mod distill;
mod execute;
mod execution;
mod fork;
mod idempotency;
mod log;
mod nodes;
mod probes;
mod queue;
mod reads;
mod workflows;

pub(crate) use agent::AGENT_TURN_WORKFLOW;
pub(crate) use execute::execute;
pub(crate) use execution::Halt;
pub use fork::{ForkRequest, ForkedRun};
pub use log::RunFeed;
pub use nodes::NODES;
pub(crate) use queue::{LoadedRun, QueuedRun, RunQueue};
use remem_core::sabotage;
pub use workflows::WorkflowInfo;
pub(crate) use workflows::{scopes_of, with_scopes};

use idempotency::run_digest;
use workflows::ResolvedWorkflow;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::{Fault, RunCancelled, RunStarted};
use remem_core::redact::SecretValue;
use remem_core::run::WorkspaceFileVersion;
use remem_core::{
    AgentRef, Batch, EventBody, Idempotency, Permission, Policy, Precondition, PrincipalId,
    RecordKind, Rejection, Revision, RunId, RunState, RunStatus, TenantId, Timestamp, Workflow,
};
use remem_store::{ChangeOutcome, CommitResult, StoreError};
use serde_json::{Map, Value};

/// A run that a caller wants to start.
#[derive(Clone, Debug, Default)]
pub struct NewRun {
    /// The id of the workflow to run, unless `agent_id` is set.
    pub workflow_id: String,
    /// The id of an agent to run instead of a workflow.
    pub agent_id: Option<String>,
    /// The inputs of the run.
    pub inputs: Map<String, Value>,
    /// Settings of the caller, such as the budget of a distillation.
    pub configurable: Map<String, Value>,
    /// Labels of the caller, which webhooks can filter by.
    pub tags: Vec<String>,
    /// Notes of the caller; the host does not use them.
    pub metadata: Map<String, Value>,
    /// Secrets that only this run may resolve.
    pub secrets: Vec<SecretValue>,
}

/// A run that is ready to be stored.
pub(crate) struct PreparedRun {
    pub id: RunId,
    pub state: RunState,
    /// Facts that a fork repeats from the log of its source.
    pub facts: Vec<(EventBody, Timestamp)>,
    /// Secrets that only this run may resolve.
    pub secrets: Vec<SecretValue>,
    pub idempotency: Option<Idempotency>,
}

/// The result of storing a run.
pub(crate) enum StoredRun {
    /// The run was stored now.
    New {
        run: Box<Run>,
        /// The revision of its snapshot.
        revision: Revision,
    },
    /// An earlier request with the same idempotency key stored this run.
    Replayed(RunId),
}

/// A run and its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The id of the run.
    pub id: RunId,
    /// The state of the run, as its record stores it.
    pub state: RunState,
}

impl Run {
    /// Whether the caller may know of the run: a run that works with a memory of one user is
    /// visible to that user only.
    pub(crate) fn is_visible_to(&self, caller: &Caller) -> bool {
        self.state
            .only_for
            .as_deref()
            .is_none_or(|user| user == caller.principal().as_str())
    }
}

/// The result of starting a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StartedRun {
    /// The run that was started.
    pub run: Run,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// Tags that a run can have, at most.
pub const TAGS_MAX: usize = 100;
const TAG_CHARS_MAX: usize = 256;
/// How often a cancel is retried when the run, executed by another process, has just taken a step.
/// A run has fewer steps than this.
const CANCEL_TRIES: u32 = 1_000;

impl Engine {
    /// Starts a run. When this returns, its first event and its snapshot are stored; the execution
    /// follows.
    pub async fn create_run(
        &self,
        caller: &Caller,
        new: NewRun,
        key: Option<&str>,
    ) -> Result<StartedRun, EngineError> {
        caller.require_run_start()?;
        self.check_new_run(&new)?;
        let body = run_digest(&new);
        let prepared = self
            .prepare_run(
                caller.tenant(),
                caller.principal(),
                Some(scopes_of(caller)),
                new,
            )
            .await;
        let start = match prepared {
            Err(
                rejected @ (EngineError::Rejected(_)
                | EngineError::UnknownWorkflow
                | EngineError::NotFound(_)),
            ) => {
                return self
                    .find_replayed_run(caller, "create-run", &body, key)
                    .await?
                    .ok_or(rejected);
            }
            prepared => prepared?,
        };
        let idempotency = self.idempotency("create-run", key, &body.for_run(&start.state))?;
        if self.run_queue.is_full(&self.parts.policy) {
            return Err(StoreError::Busy.into());
        }
        // Without a wake-up: what runs did is examined when there is time.
        self.pass_log
            .mark_pending(crate::passes::propose::NAME, caller.tenant());
        self.store_and_queue(
            self.policy_of(caller),
            caller.tenant(),
            PreparedRun {
                idempotency,
                ..start
            },
        )
        .await
    }

    /// Prepares the state of a run before its first node. `starter_scopes` are those of the
    /// caller that starts it; the host itself has none.
    pub(crate) async fn prepare_run(
        &self,
        tenant: &TenantId,
        principal: &PrincipalId,
        starter_scopes: Option<Vec<String>>,
        new: NewRun,
    ) -> Result<PreparedRun, EngineError> {
        let workflow = match &new.agent_id {
            Some(agent) => ResolvedWorkflow {
                definition: self.agent_turn_workflow(tenant, agent).await?,
                is_installed: true,
                scopes: None,
            },
            None => self
                .find_workflow(tenant, &new.workflow_id)
                .await?
                .ok_or(EngineError::UnknownWorkflow)?,
        };
        let scopes = match &new.agent_id {
            Some(_) => None, // an agent's turn accesses only the agent's own memory
            None => workflow.effective_scopes(starter_scopes)?,
        };
        let variables = workflow.definition.initial_variables(&new.inputs)?;
        let now = self.now_for(tenant).await?;
        let state = RunState {
            workflow_id: workflow.definition.id.clone(),
            definition: workflow
                .is_installed
                .then(|| workflow.definition.document.clone()),
            status: RunStatus::Running,
            principal: principal.as_str().to_owned(),
            started_at: now.0,
            completed_at: None,
            inputs: new.inputs,
            variables,
            done: Vec::new(),
            error: None,
            failed_node: None,
            agent: self.workflow_agent(&workflow.definition),
            tags: new.tags,
            metadata: new.metadata,
            configurable: new.configurable,
            secrets: new
                .secrets
                .iter()
                .map(|secret| secret.id().to_owned())
                .collect(),
            resolved: Vec::new(),
            workspace: self.workspace_versions(tenant).await?,
            children: Vec::new(),
            parent: None,
            source: None,
            only_for: self
                .private_user(tenant, principal, &workflow.definition)
                .await?,
            scopes,
        };
        Ok(PreparedRun {
            id: self.parts.ids.run(),
            state,
            facts: Vec::new(),
            secrets: new.secrets,
            idempotency: None,
        })
    }

    /// Returns one run that the caller may see.
    pub async fn get_run(&self, caller: &Caller, id: &str) -> Result<Run, EngineError> {
        caller.require(Permission::RunsRead)?;
        let id = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        let run = self
            .redacted_run(&self.policy_of(caller), caller.tenant(), &id)
            .await?;
        if sabotage!("anybody-looks-at-a-run", run.is_visible_to(caller), true) {
            Ok(run)
        } else {
            Err(EngineError::NotFound("run"))
        }
    }

    /// Cancels a run at its current step. Cancelling again returns the same answer; a run that has
    /// ended is a conflict.
    pub async fn cancel_run(&self, caller: &Caller, id: &str) -> Result<Run, EngineError> {
        caller.require(Permission::RunsCancel)?;
        let id = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        let _hold = self.run_queue.hold_back(caller.tenant(), &id);
        for _ in 0..CANCEL_TRIES {
            let found = self.load_run(caller.tenant(), &id).await?;
            let (mut run, version) = sabotage!(
                "anybody-cancels-a-run",
                found.filter(|(run, _)| run.is_visible_to(caller)),
                found
            )
            .ok_or(EngineError::NotFound("run"))?;
            match run.state.status {
                RunStatus::Running => {}
                RunStatus::Cancelled => return Ok(run),
                ended => return Err(EngineError::RunEnded { status: ended }),
            }
            let now = self.now_for(caller.tenant()).await?;
            run.state.status = RunStatus::Cancelled;
            run.state.completed_at = Some(now.0);
            let duration_ms = now
                .0
                .saturating_sub(run.state.started_at)
                .max(0)
                .cast_unsigned();
            let event = RunCancelled {
                cancelled_by: caller.principal().as_str().to_owned(),
                duration_ms,
            };
            let state = run.state.to_map();
            let body = self.redact_body_for(caller, now, state).await?;
            let batch = Batch::new(caller.tenant().clone(), now)
                .with_principal(caller.principal().clone())
                .in_run(id.clone());
            let batch = batch.set_record(
                RecordKind::Run,
                id.as_str().to_owned(),
                Precondition::Version(version),
                body,
            );
            let batch = delete_run_secrets(batch, &run);
            match self
                .parts
                .store
                .commit(
                    batch
                        .emit(EventBody::RunCancelled(event))
                        .release_snapshot(),
                )
                .await
            {
                Ok(_) => {
                    return self
                        .redacted_run(&self.policy_of(caller), caller.tenant(), &id)
                        .await;
                }
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// Stores a new run and queues it for execution.
    async fn store_and_queue(
        &self,
        policy: Policy,
        tenant: &TenantId,
        start: PreparedRun,
    ) -> Result<StartedRun, EngineError> {
        match self.store_run(&policy, tenant, start).await? {
            StoredRun::Replayed(id) => Ok(StartedRun {
                run: self.redacted_run(&policy, tenant, &id).await?,
                replayed: true,
            }),
            StoredRun::New { run, revision } => {
                self.queue_run(policy, tenant, &run, revision);
                Ok(StartedRun {
                    run: *run,
                    replayed: false,
                })
            }
        }
    }

    /// Queues a run that was just stored for execution.
    pub(crate) fn queue_run(
        &self,
        policy: Policy,
        tenant: &TenantId,
        run: &Run,
        revision: Revision,
    ) {
        metrics::counter!("remem_runs_started_total").increment(1);
        let loaded = LoadedRun {
            state: run.state.clone(),
            version: 1,
            revision,
            policy,
        };
        self.run_queue.push(QueuedRun {
            tenant: tenant.clone(),
            run: run.id.clone(),
            loaded: Some(loaded),
        });
    }

    /// Stores a new run. The caller of this function must see to its execution.
    pub(crate) async fn store_run(
        &self,
        policy: &Policy,
        tenant: &TenantId,
        start: PreparedRun,
    ) -> Result<StoredRun, EngineError> {
        let now = self.now_for(tenant).await?;
        let principal = PrincipalId::parse(&start.state.principal);
        let batch = Batch::new(tenant.clone(), now).idempotent(start.idempotency.clone());
        let batch = principal.into_iter().fold(batch, Batch::with_principal);
        let (batch, run) = self.add_run_start(policy, tenant, start, batch).await?;
        let committed = self.parts.store.commit(batch).await?;
        if committed.replayed {
            return Ok(StoredRun::Replayed(
                stored_run_id(&committed).unwrap_or(run.id),
            ));
        }
        Ok(StoredRun::New {
            run: Box::new(run),
            revision: committed.revision,
        })
    }

    /// Adds everything that starts a run to a batch, and returns the run as it will be stored. From
    /// then on the batch belongs to the run.
    pub(crate) async fn add_run_start(
        &self,
        policy: &Policy,
        tenant: &TenantId,
        start: PreparedRun,
        batch: Batch,
    ) -> Result<(Batch, Run), EngineError> {
        let PreparedRun {
            id,
            state,
            facts,
            secrets,
            idempotency: _,
        } = start;
        let now = batch.at();
        // The run's own secrets may also occur in its inputs, so they are redacted as well.
        let rules = self
            .parts
            .secrets
            .with_values(&*self.redaction_rules(tenant).await?, &secrets);
        let admission = rules.admission(policy, now);
        let body = self.redact_body(tenant, &admission, state.to_map()).await?;
        let stored = RunState::from_map(body.map().clone())
            .ok_or(StoreError::Damaged("a run cannot be read"))?;
        let mut batch = batch.in_run(id.clone());
        batch = batch
            .set_record(
                RecordKind::Run,
                id.as_str().to_owned(),
                Precondition::Absent,
                body,
            )
            .hold_snapshot();
        for secret in &secrets {
            let (key, sealed) = self.seal_run_secret(tenant, &id, secret.id(), secret)?;
            batch = batch.set_record(RecordKind::Secret, key, Precondition::None, sealed);
        }
        batch = batch.emit(EventBody::RunStarted(RunStarted {
            workflow_id: state.workflow_id,
            source_run_id: state.source.map(|source| source.run_id),
            parent_run_id: state.parent,
            only_for: state.only_for,
        }));
        batch = facts
            .into_iter()
            .fold(batch, |batch, (fact, at)| batch.emit_replayed(fact, at));
        Ok((batch, Run { id, state: stored }))
    }

    /// Reads a run's record, with its version.
    pub(crate) async fn load_run(
        &self,
        tenant: &TenantId,
        id: &RunId,
    ) -> Result<Option<(Run, u64)>, EngineError> {
        let Some(record) = self
            .parts
            .store
            .record(tenant, RecordKind::Run, id.as_str())
            .await?
        else {
            return Ok(None);
        };
        let state =
            RunState::from_map(record.body).ok_or(StoreError::Damaged("a run cannot be read"))?;
        Ok(Some((
            Run {
                id: id.clone(),
                state,
            },
            record.version,
        )))
    }

    /// Reads a run and redacts it.
    async fn redacted_run(
        &self,
        policy: &Policy,
        tenant: &TenantId,
        id: &RunId,
    ) -> Result<Run, EngineError> {
        let (mut run, _) = self
            .load_run(tenant, id)
            .await?
            .ok_or(EngineError::NotFound("run"))?;
        // The redaction rules may have changed since the record was written.
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now();
        let admission = rules.admission(policy, now);
        let redacted = self
            .redact_body(tenant, &admission, run.state.to_map())
            .await?;
        run.state = RunState::from_map(redacted.map().clone())
            .ok_or(StoreError::Damaged("a run cannot be read"))?;
        Ok(run)
    }

    /// Refuses tags, inputs and settings that are too large.
    fn check_new_run(&self, new: &NewRun) -> Result<(), Rejection> {
        if new.tags.len() > TAGS_MAX {
            return Err(Rejection::TooLarge {
                field: "tags",
                unit: "items",
                limit: TAGS_MAX as u64,
                actual: new.tags.len() as u64,
            });
        }
        if new
            .tags
            .iter()
            .any(|tag| tag.is_empty() || tag.chars().count() > TAG_CHARS_MAX)
        {
            return Err(Rejection::Invalid {
                field: "tags",
                rule: "must each have 1 to 256 characters",
            });
        }
        let size =
            |map: &Map<String, Value>| serde_json::to_string(map).map_or(0, |text| text.len());
        for (field, map) in [
            ("inputs", &new.inputs),
            ("metadata", &new.metadata),
            ("configurable", &new.configurable),
        ] {
            let limit = self.parts.policy.run_input_bytes_max;
            let actual = size(map);
            if actual > limit {
                return Err(Rejection::TooLarge {
                    field,
                    unit: "bytes",
                    limit: limit as u64,
                    actual: actual as u64,
                });
            }
        }
        Ok(())
    }

    /// The agent that the workflow acts for. On a host without long-term storage its memory is not
    /// named.
    fn workflow_agent(&self, workflow: &Workflow) -> Option<AgentRef> {
        let mut agent = workflow.nodes.iter().find_map(|node| node.agent.clone())?;
        if !self.parts.capabilities.supports("long-term-durability") {
            agent.memory_ref = None;
        }
        Some(agent)
    }

    /// The user that a run is visible to only, because it works with a memory of that user.
    /// Sub-workflows count as well, since the run sees their results.
    async fn private_user(
        &self,
        tenant: &TenantId,
        user: &PrincipalId,
        workflow: &Workflow,
    ) -> Result<Option<String>, EngineError> {
        let mut pending = vec![workflow.clone()];
        let mut visited = Vec::new();
        while let Some(workflow) = pending.pop() {
            if workflow
                .nodes
                .iter()
                .any(|node| actions::names_private_memory(user, node))
            {
                return Ok(sabotage!(
                    "a-run-with-one-s-own-memory-is-everybody-s",
                    Some(user.as_str().to_owned()),
                    None
                ));
            }
            for id in workflow.nodes.iter().filter_map(nodes::sub_workflow_id) {
                if !visited.iter().any(|known| known == id) {
                    visited.push(id.to_owned());
                    pending.extend(
                        self.find_workflow(tenant, id)
                            .await?
                            .map(|found| found.definition),
                    );
                }
            }
        }
        Ok(None)
    }

    /// The current versions of the tenant's workspace files.
    async fn workspace_versions(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<WorkspaceFileVersion>, EngineError> {
        let limit = u32::try_from(self.parts.policy.files_max).unwrap_or(u32::MAX);
        let records = self
            .parts
            .store
            .records(tenant, RecordKind::File, "", None, limit)
            .await?;
        Ok(records
            .into_iter()
            .map(|record| WorkspaceFileVersion {
                path: record.key,
                version: record.version,
            })
            .collect())
    }
}

/// Deletes the run's own secrets, in the batch that ends it.
fn delete_run_secrets(batch: Batch, run: &Run) -> Batch {
    let names = sabotage!(
        "a-run-s-own-secrets-outlive-it",
        run.state.secrets.as_slice(),
        &[]
    );
    names.iter().fold(batch, |batch, name| {
        batch.delete_record(
            RecordKind::Secret,
            crate::vault::run_secret_key(&run.id, name),
            Precondition::None,
        )
    })
}

/// Ends a run with an error, from outside of its execution.
pub(crate) async fn fail_run(
    engine: &Engine,
    tenant: &TenantId,
    id: &RunId,
    fault: Fault,
) -> Result<(), EngineError> {
    match execute::fail_run_at_node(engine, tenant, id, fault, Vec::new()).await {
        Err(execution::Halt::Error(error)) => Err(error),
        _ => Ok(()),
    }
}

/// The id of the run that was stored: on a replay, by the first request.
fn stored_run_id(committed: &CommitResult) -> Option<RunId> {
    committed.outcomes.iter().find_map(|outcome| match outcome {
        ChangeOutcome::Recorded { key, .. } => RunId::parse(key),
        _ => None,
    })
}
