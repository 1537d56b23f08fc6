//! Forks of runs: a replay answers every read from what the source run recorded; a branch continues
//! with new reads from a chosen event.

use super::{PreparedRun, Run, StartedRun, scopes_of};
use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use remem_core::run::{EndedNode, ForkMode, ForkSource};
use remem_core::sabotage;
use remem_core::{
    Event, EventBody, EventKind, Rejection, RunId, RunState, RunStatus, TenantId, Timestamp,
};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// The parameters of a fork.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// Whether to replay or to branch.
    pub mode: ForkMode,
    /// The event to fork from; required for a branch.
    pub from_seq: Option<u64>,
    /// For a branch: inputs, settings, metadata and tags that replace those of the source.
    pub overlay: Option<Map<String, Value>>,
}

/// The result of a fork.
#[derive(Clone, Debug)]
pub struct ForkedRun {
    /// The run that was started.
    pub run: Run,
    /// The run and event that it was forked from.
    pub source: ForkSource,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// Whether an event is a fact, which a fork repeats from the source's log. Events about the
/// execution itself are not facts.
fn is_fact(event: &Event) -> bool {
    !matches!(
        event.body.kind(),
        EventKind::RunStarted
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::NodeStarted
            | EventKind::NodeCompleted
            | EventKind::NodeFailed
    )
}

/// The part of a finished run's log that a replay repeats.
pub(super) struct Recording {
    /// The facts that the replay has not repeated yet, oldest first.
    pub facts: VecDeque<Event>,
    /// How long the recorded run took; a replay reports the same figure.
    pub duration_ms: Option<u64>,
}

/// Reads the recording that a replay repeats; `None` for a run that acts on its own.
pub(super) async fn recording(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
) -> Result<Option<Recording>, EngineError> {
    let Some(source) = run
        .state
        .source
        .as_ref()
        .filter(|source| source.mode == ForkMode::Replay)
    else {
        return Ok(None);
    };
    let source = RunId::parse(&source.run_id).ok_or(EngineError::NotFound("run"))?;
    let repeated = engine
        .full_run_log(tenant, &run.id)
        .await?
        .iter()
        .filter(|event| is_fact(event))
        .count();
    let log = engine.full_run_log(tenant, &source).await?;
    let duration_ms = log.iter().find_map(|event| match &event.body {
        EventBody::RunCompleted(ended) => Some(ended.duration_ms),
        EventBody::RunFailed(failed) => Some(failed.duration_ms),
        _ => None,
    });
    let facts = log.into_iter().filter(is_fact).skip(repeated).collect();
    Ok(Some(Recording { facts, duration_ms }))
}

impl Engine {
    /// Forks a run that has ended.
    pub async fn fork_run(
        &self,
        caller: &Caller,
        id: &str,
        fork: ForkRequest,
        key: Option<&str>,
    ) -> Result<ForkedRun, EngineError> {
        caller.require_run_start()?;
        let id = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        if fork.mode == ForkMode::Replay && fork.overlay.is_some() {
            return Err(Rejection::Invalid {
                field: "runOptionsOverlay",
                rule: "is allowed in mode branch only",
            }
            .into());
        }
        if fork.mode == ForkMode::Branch && fork.from_seq.is_none() {
            return Err(Rejection::Invalid {
                field: "fromSeq",
                rule: "is required in mode branch",
            }
            .into());
        }
        let origin = ForkSource {
            run_id: id.as_str().to_owned(),
            from_seq: fork.from_seq.unwrap_or(0),
            mode: fork.mode,
        };
        let body = fork_digest(&id, &fork);
        let (state, facts) = match self.prepare_fork(caller, &id, &origin, fork.overlay).await {
            // What the first request forked may be gone by now.
            Err(
                rejected @ (EngineError::Rejected(_)
                | EngineError::UnknownWorkflow
                | EngineError::ReplayUnavailable { .. }
                | EngineError::NotFound(_)),
            ) => {
                let earlier = self.find_replayed_run(caller, "fork-run", &body, key);
                let StartedRun { run, replayed } = earlier.await?.ok_or(rejected)?;
                return Ok(ForkedRun {
                    run,
                    source: origin,
                    replayed,
                });
            }
            prepared => prepared?,
        };
        let start = PreparedRun {
            id: self.parts.ids.run(),
            idempotency: self.idempotency("fork-run", key, &body.for_run(&state))?,
            state,
            facts,
            secrets: Vec::new(),
        };
        let policy = self.policy_of(caller);
        let StartedRun { run, replayed } =
            self.store_and_queue(policy, caller.tenant(), start).await?;
        Ok(ForkedRun {
            run,
            source: origin,
            replayed,
        })
    }

    /// Checks that the run can be forked; returns what the fork starts with.
    async fn prepare_fork(
        &self,
        caller: &Caller,
        id: &RunId,
        origin: &ForkSource,
        overlay: Option<Map<String, Value>>,
    ) -> Result<(RunState, Vec<(EventBody, Timestamp)>), EngineError> {
        let from_seq = origin.from_seq;
        let log = self.full_run_log(caller.tenant(), id).await?;
        if sabotage!(
            "anybody-forks-a-run",
            !self.may_see_run(caller, log.first()),
            false
        ) {
            return Err(EngineError::NotFound("run"));
        }
        let unavailable = |reason| EngineError::ReplayUnavailable {
            from_seq,
            source_run: id.as_str().to_owned(),
            reason,
        };
        let found = self.load_run(caller.tenant(), id).await?;
        let (source, _) = match (found, log.is_empty()) {
            (Some(_), true) => return Err(unavailable("event_log_unavailable")),
            (None, true) => return Err(EngineError::NotFound("run")),
            (None, false) => return Err(unavailable("retention_expired")),
            (Some(found), false) => found,
        };
        if !source.state.status.is_terminal() {
            return Err(EngineError::RunNotEnded);
        }
        if from_seq >= log.len() as u64 {
            return Err(EngineError::UnknownSequence);
        }
        if origin.mode == ForkMode::Replay && !self.has_all_reads(caller.tenant(), &source).await? {
            return Err(unavailable("retention_expired"));
        }
        self.fork_state(caller, source.state, &log, origin.clone(), overlay)
            .await
    }

    /// The state that a fork starts with, and the facts that precede it.
    async fn fork_state(
        &self,
        caller: &Caller,
        source: RunState,
        log: &[Event],
        origin: ForkSource,
        overlay: Option<Map<String, Value>>,
    ) -> Result<(RunState, Vec<(EventBody, Timestamp)>), EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let branch = origin.mode == ForkMode::Branch;
        let before: Vec<&Event> = log
            .iter()
            .take(if branch { origin.from_seq as usize } else { 0 })
            .collect();
        let completed = |done: &EndedNode| {
            before.iter().any(|event| matches!(&event.body, EventBody::NodeCompleted(node) if node.node_id == done.id))
        };
        let done: Vec<EndedNode> = source.done.into_iter().filter(completed).collect();
        let mut state = RunState {
            status: RunStatus::Running,
            principal: caller.principal().as_str().to_owned(),
            started_at: now.0,
            completed_at: None,
            error: None,
            failed_node: None,
            variables: Map::new(),
            children: if branch { source.children } else { Vec::new() },
            parent: None,
            secrets: Vec::new(), // the source's secrets were deleted when it ended
            resolved: Vec::new(),
            workspace: if branch {
                self.workspace_versions(caller.tenant()).await?
            } else {
                source.workspace
            },
            source: Some(origin),
            done,
            // For a source from before scopes were recorded, use those of the key that forks it.
            scopes: match &source.definition {
                Some(_) if branch => source.scopes.or_else(|| Some(scopes_of(caller))),
                _ => source.scopes,
            },
            ..source
        };
        if let Some(overlay) = overlay {
            apply_overlay(&mut state, overlay)?;
        }
        let workflow = match state.definition.clone() {
            Some(document) => remem_core::Workflow::parse(document)?,
            None => self
                .host_workflow(&state.workflow_id)
                .cloned()
                .ok_or(EngineError::UnknownWorkflow)?,
        };
        // A run that was visible to everyone may name a memory of the user that forks it.
        if state.only_for.is_none() {
            state.only_for = self
                .private_user(caller.tenant(), caller.principal(), &workflow)
                .await?;
        }
        state.variables = workflow.initial_variables(&state.inputs)?;
        for node in &state.done {
            state.variables.extend(node.outputs.clone());
        }
        let facts = before
            .into_iter()
            .filter(|event| is_fact(event))
            .map(|event| (event.body.clone(), event.happened_at()));
        Ok((state, facts.collect()))
    }

    /// Whether all reads of the run are still recorded.
    async fn has_all_reads(&self, tenant: &TenantId, run: &Run) -> Result<bool, EngineError> {
        let expected: u64 = run
            .state
            .done
            .iter()
            .map(|done| u64::from(done.reads))
            .sum();
        let prefix = format!("{}/", run.id);
        let reads = self
            .parts
            .store
            .records(
                tenant,
                remem_core::RecordKind::RunRead,
                &prefix,
                None,
                u32::MAX,
            )
            .await?;
        Ok(reads.len() as u64 >= expected)
    }

    /// Reads all events of a run.
    pub(crate) async fn full_run_log(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Vec<Event>, EngineError> {
        let mut log: Vec<Event> = Vec::new();
        loop {
            let page = self
                .parts
                .store
                .run_events(
                    tenant,
                    run,
                    log.len() as u64,
                    self.parts.policy.events_page_max,
                )
                .await?;
            if page.is_empty() {
                return Ok(log);
            }
            log.extend(page);
        }
    }
}

/// Applies the inputs, settings, tags and metadata that a branch changes.
fn apply_overlay(state: &mut RunState, overlay: Map<String, Value>) -> Result<(), Rejection> {
    for (name, value) in overlay {
        match (name.as_str(), value) {
            ("inputs", Value::Object(map)) => state.inputs.extend(map),
            ("configurable", Value::Object(map)) => state.configurable.extend(map),
            ("metadata", Value::Object(map)) => state.metadata.extend(map),
            ("tags", Value::Array(tags)) if tags.iter().all(Value::is_string) => {
                state.tags = tags
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
            }
            _ => {
                let rule = "may hold inputs, configurable, metadata (objects) and tags (texts)";
                return Err(Rejection::Invalid {
                    field: "runOptionsOverlay",
                    rule,
                });
            }
        }
    }
    Ok(())
}

/// Digest of a fork request, for its idempotency key.
fn fork_digest(id: &RunId, fork: &ForkRequest) -> RequestDigest {
    let mut digest = RequestDigest::default();
    digest.part(id.as_str().as_bytes());
    digest.part(if fork.mode == ForkMode::Replay {
        b"replay"
    } else {
        b"branch"
    });
    digest.part(&fork.from_seq.map_or([255; 8], u64::to_le_bytes));
    digest.part(
        fork.overlay
            .clone()
            .map(|map| Value::Object(map).to_string())
            .unwrap_or_default()
            .as_bytes(),
    );
    digest
}
