//! A run during its execution: its state, the changes it has staged, and the one place where they
//! are committed.
//!
//! What a node does is staged, and committed together with the run's record. A read first commits
//! what was staged before, so that a run sees its own writes. Such a commit has an idempotency key
//! made of the run, the node and a number: a node that is executed again after a crash repeats the
//! commit and gets the first answers.

use super::{LoadedRun, Run};
use crate::caller::resolve_memory_ref;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::{RedactionRules, RunSecrets};
use crate::stored::run::StoredRead;
use remem_core::event::Fault;
use remem_core::redact::SecretValue;
use remem_core::run::EndedNode;
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{
    Actor, Admitted, Batch, Cause, Draft, EntryId, Event, EventBody, Idempotency, MemoryRef,
    Policy, Precondition, PrincipalId, RecordKind, Rejection, Revision, RunId, Scope, StoredRecord,
    TenantId, Timestamp, Workflow,
};
use remem_store::{ChangeOutcome, ReadAt, StoreError};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Why the execution of a node or run stops.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The node failed: the run ends with this error.
    Fault(Fault),
    /// Another process executes the run, or it was cancelled: do nothing more.
    Superseded,
    /// The store is not usable now: the run is resumed later.
    Error(EngineError),
}

impl<E: Into<EngineError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        match error.into() {
            EngineError::Rejected(rejection) => {
                Halt::fault("validation_error", rejection.to_string())
            }
            EngineError::Store(StoreError::Conflict) => Halt::Superseded,
            other => Halt::Error(other),
        }
    }
}

impl Halt {
    /// A fault with this code and message.
    pub fn fault(code: &str, message: impl Into<String>) -> Halt {
        Halt::Fault(Fault {
            code: code.to_owned(),
            message: message.into(),
        })
    }
}

/// The tag of entries that runs write.
const RUN_TAG: &str = "source:run";

/// A change that is staged for the next commit.
enum StagedChange {
    Put {
        id: EntryId,
        admitted: Box<Admitted>,
        cause: Cause,
    },
    Delete {
        memory_ref: MemoryRef,
        id: EntryId,
    },
    Emit(EventBody),
    Repeat(EventBody, Timestamp),
    Release,
}

/// Reads to be recorded, by key.
pub(crate) type RecordedReads = Vec<StoredRead>;

/// A run that this process executes.
pub(crate) struct RunExecution<'e> {
    pub engine: &'e Engine,
    pub tenant: TenantId,
    pub run: Run,
    pub workflow: Workflow,
    pub policy: Policy,
    pub rules: Arc<RedactionRules>,
    /// The secrets that the run has resolved; wiped when the execution stops.
    secrets: RunSecrets,
    /// The version of the run's record.
    record_version: u64,
    /// The revision of the run's snapshot.
    snapshot_revision: Revision,
    staged: Vec<StagedChange>,
    pub(super) reads: RecordedReads,
    /// The index of the current node.
    pub(super) node_index: usize,
    /// How many writes and reads the node has made.
    pub(super) step: u32,
    /// How many commits the node has made midway.
    commits: u32,
    /// The variables that the node has set.
    outputs: Map<String, Value>,
    pub(super) reads_of_node: u32,
    /// In a replay, the facts of the source's log that were not repeated yet.
    pub(super) replay_facts: Option<VecDeque<Event>>,
    /// How long the repeated run took, if this run repeats one that reached its end.
    pub(super) recorded_duration_ms: Option<u64>,
}

impl<'e> RunExecution<'e> {
    /// Loads a run from its record; `None` if it has ended or does not exist.
    pub async fn load(
        engine: &'e Engine,
        tenant: &TenantId,
        id: &RunId,
    ) -> Result<Option<RunExecution<'e>>, Halt> {
        let Some((run, version)) = engine.load_run(tenant, id).await? else {
            return Ok(None);
        };
        if sabotage!(
            "a-run-that-ended-is-taken-up-again",
            run.state.status.is_terminal(),
            false
        ) {
            return Ok(None);
        }
        let first = engine.parts.store.run_events(tenant, id, 0, 1).await?;
        let revision = first
            .first()
            .map(|event| event.revision)
            .ok_or(StoreError::Damaged("a run has no events"))?;
        let loaded = LoadedRun {
            state: run.state,
            version,
            revision,
            policy: engine.policy_for(tenant).await?,
        };
        RunExecution::from_loaded(engine, tenant, id, loaded)
            .await
            .map(Some)
    }

    /// Continues a run whose state is known already.
    pub async fn from_loaded(
        engine: &'e Engine,
        tenant: &TenantId,
        id: &RunId,
        loaded: LoadedRun,
    ) -> Result<RunExecution<'e>, Halt> {
        let LoadedRun {
            state,
            version,
            revision,
            policy,
        } = loaded;
        let run = Run {
            id: id.clone(),
            state,
        };
        let workflow = match run.state.definition.clone() {
            Some(document) => Workflow::parse(document).ok(),
            None => engine.host_workflow(&run.state.workflow_id).cloned(),
        };
        // If the definition was deleted, the run has no nodes, and fails.
        let empty = || Workflow {
            id: run.state.workflow_id.clone(),
            nodes: vec![],
            variables: vec![],
            document: Map::new(),
        };
        let recording = super::fork::recording(engine, tenant, &run).await?;
        let mut execution = RunExecution {
            engine,
            tenant: tenant.clone(),
            workflow: workflow.unwrap_or_else(empty),
            policy,
            rules: engine.redaction_rules(tenant).await?,
            secrets: RunSecrets::default(),
            recorded_duration_ms: recording.as_ref().and_then(|one| one.duration_ms),
            replay_facts: recording.map(|one| one.facts),
            run,
            record_version: version,
            snapshot_revision: revision,
            staged: Vec::new(),
            reads: Vec::new(),
            node_index: 0,
            step: 0,
            commits: 0,
            outputs: Map::new(),
            reads_of_node: 0,
        };
        execution.reload_secrets().await?;
        Ok(execution)
    }

    /// Starts the node with this index.
    pub fn begin_node(&mut self, node: usize) {
        (self.node_index, self.step, self.commits, self.reads_of_node) = (node, 0, 0, 0);
        self.outputs.clear();
    }

    /// Records that a node has ended, with its outputs, for the next commit.
    pub fn end_node(&mut self, node: &Node, skipped: bool) {
        let outputs = std::mem::take(&mut self.outputs);
        self.run.state.done.push(EndedNode {
            id: node.id.clone(),
            outputs,
            reads: self.reads_of_node,
            skipped,
        });
    }

    /// Sets a variable of the run, which is also an output of the node.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        self.outputs.insert(name.to_owned(), value.clone());
        self.run.state.variables.insert(name.to_owned(), value);
    }

    /// The current instant for the run's tenant.
    pub async fn now(&self) -> Result<Timestamp, Halt> {
        Ok(self.engine.now_for(&self.tenant).await?)
    }

    /// The snapshot that the run reads at: its snapshot, its own writes and those of the runs it
    /// started.
    pub fn read_at(&self, at: Timestamp) -> ReadAt {
        let children = self
            .run
            .state
            .children
            .iter()
            .filter_map(|child| RunId::parse(child));
        let own_runs = std::iter::once(self.run.id.clone())
            .chain(children)
            .collect();
        ReadAt::Snapshot {
            revision: self.snapshot_revision,
            at,
            since: Timestamp(self.run.state.started_at),
            own_runs,
        }
    }

    /// The scope of a memory's name in the run's tenant, with the rights of the user that started
    /// the run. A run that everyone can see never reaches a memory of one user, even if its
    /// definition has changed since it began.
    pub fn scope(&self, memory_ref: &str) -> Option<Scope> {
        let actor = PrincipalId::parse(&self.run.state.principal)?;
        let memory_ref = resolve_memory_ref(&actor, memory_ref)?;
        if memory_ref.owner().is_some() && memory_ref.owner() != self.run.state.only_for.as_deref()
        {
            return None;
        }
        Some(Scope::new(self.tenant.clone(), memory_ref).with_actor(Actor::User(actor)))
    }

    /// The value of a secret that the run may use. From now on it is redacted from everything that
    /// the run writes.
    pub async fn secret(&mut self, name: &str) -> Result<SecretValue, Halt> {
        let missing = || {
            Halt::fault(
                "credential_unavailable",
                "a secret that the run needs is not there",
            )
        };
        let value = self.resolve(name).await?.ok_or_else(missing)?;
        sabotage!(
            "a-resolved-secret-is-not-redacted",
            self.secrets.add(value.clone())
        );
        if !self.run.state.resolved.iter().any(|known| known == name) {
            self.run.state.resolved.push(name.to_owned());
        }
        self.reload_rules().await?;
        Ok(value)
    }

    /// Looks up a secret that the run may use.
    async fn resolve(&self, name: &str) -> Result<Option<SecretValue>, Halt> {
        let Some(owner) = PrincipalId::parse(&self.run.state.principal) else {
            return Ok(None);
        };
        // A sub-run uses the secrets that were given to the top-level run.
        let top_run = self
            .run
            .id
            .as_str()
            .split('.')
            .next()
            .and_then(RunId::parse);
        let top_run = top_run.as_ref().unwrap_or(&self.run.id);
        Ok(self
            .engine
            .resolve_secret(&self.tenant, &owner, top_run, name)
            .await?)
    }

    /// Updates the redaction rules: secrets may have been added to the vault since the run began.
    pub async fn reload_rules(&mut self) -> Result<(), Halt> {
        self.rules = self.secrets.extended_rules(
            &self.engine.parts.secrets,
            &self.engine.redaction_rules(&self.tenant).await?,
        );
        Ok(())
    }

    /// Resolves all secrets that the run was given or has resolved before, so that they are
    /// redacted from what it writes, also after another process has taken over.
    async fn reload_secrets(&mut self) -> Result<(), Halt> {
        let names: Vec<String> = self
            .run
            .state
            .secrets
            .iter()
            .chain(&self.run.state.resolved)
            .cloned()
            .collect();
        for name in names {
            if let Some(value) = self.resolve(&name).await? {
                self.secrets.add(value);
            }
        }
        self.reload_rules().await
    }

    /// Stages an entry, written as of `now`, and returns its id. In a replay, returns the id of the
    /// source's entry.
    pub async fn write(
        &mut self,
        memory_ref: &str,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<EntryId, Halt> {
        // The tag is only added if there is room: what keeps the entry from being searched for
        // commitments is its event, which names the run.
        if draft.tags.len() < self.policy.tags_max && draft.tags.iter().all(|tag| tag != RUN_TAG) {
            sabotage!(
                "what-runs-write-is-read-for-promises",
                draft.tags.push(RUN_TAG.to_owned())
            );
        }
        let scope = self
            .scope(memory_ref)
            .ok_or(Rejection::MalformedName { field: "memoryRef" })?;
        let admission = self.rules.admission(&self.policy, now);
        let size = cpu::draft_bytes(&draft);
        let admit = || admission.admit(&scope, draft);
        let cpu = self.engine.cpu();
        let admitted = cpu.run(&self.tenant, size, admit).await??;
        // Count the write in a replay, too: reads after it are recorded under the next number.
        let id = sabotage!("a-replay-counts-otherwise", self.entry_id(), {
            self.step += u32::from(self.replay_facts.is_some());
            self.entry_id()
        });
        if let Some(facts) = sabotage!("a-replay-writes", self.replay_facts.as_mut(), None) {
            let fact = facts.pop_front();
            let Some(EventBody::Written(written)) = fact.as_ref().map(|fact| &fact.body) else {
                return Err(diverged());
            };
            let is_same_memory = written.memory_ref == scope.memory_ref.as_str();
            let id = EntryId::parse(&written.memory_id)
                .filter(|_| is_same_memory)
                .ok_or_else(diverged)?;
            let at = fact.as_ref().map_or(now, Event::happened_at);
            self.staged.push(StagedChange::Repeat(
                EventBody::Written(written.clone()),
                at,
            ));
            return Ok(id);
        }
        self.staged.push(StagedChange::Put {
            id: id.clone(),
            admitted: Box::new(admitted),
            cause: self.cause(),
        });
        Ok(id)
    }

    /// Stages the deletion of an entry. In a replay, repeats the source's deletion, if there was
    /// one.
    pub fn delete(&mut self, memory_ref: &str, id: &str) {
        let (Some(scope), Some(id)) = (self.scope(memory_ref), EntryId::parse(id)) else {
            return;
        };
        let memory_ref = scope.memory_ref;
        let Some(facts) = sabotage!("a-replay-deletes", self.replay_facts.as_mut(), None) else {
            return self.staged.push(StagedChange::Delete { memory_ref, id });
        };
        let is_this_deletion = |event: &Event| matches!(&event.body, EventBody::Deleted(deleted) if deleted.memory_id == id.as_str());
        if facts.front().is_some_and(is_this_deletion)
            && let Some(fact) = facts.pop_front()
        {
            let at = fact.happened_at();
            self.staged.push(StagedChange::Repeat(fact.body, at));
        }
    }

    /// Stages an event about the execution itself.
    pub fn emit(&mut self, body: EventBody) {
        self.staged.push(StagedChange::Emit(body));
    }

    /// Stages a fact; in a replay, the one that was recorded.
    pub fn emit_fact(&mut self, body: EventBody) -> Result<(), Halt> {
        let Some(facts) = &mut self.replay_facts else {
            self.emit(body);
            return Ok(());
        };
        let fact = facts
            .pop_front()
            .filter(|fact| fact.body.kind() == body.kind())
            .ok_or_else(diverged)?;
        let at = fact.happened_at();
        self.staged.push(StagedChange::Repeat(fact.body, at));
        Ok(())
    }

    /// Releases the run's snapshot with the next commit.
    pub fn release_snapshot(&mut self) {
        self.staged.push(StagedChange::Release);
    }

    /// Whether a read now would miss staged changes.
    pub fn has_staged_changes(&self) -> bool {
        self.staged
            .iter()
            .any(|step| matches!(step, StagedChange::Put { .. } | StagedChange::Delete { .. }))
    }

    /// Commits the staged changes with the run's record. What is recorded as done is never done
    /// again.
    pub async fn commit(&mut self) -> Result<(), Halt> {
        self.commit_with_key(None).await
    }

    /// Commits the changes of the current node before it has ended. If the node is executed again,
    /// the commit is replayed with the first answers.
    pub async fn commit_midway(&mut self) -> Result<(), Halt> {
        let key = self.midway_key();
        self.commits += 1;
        self.commit_with_key(Some(key)).await
    }

    /// Commits the staged changes, the recorded reads and the run's record.
    async fn commit_with_key(&mut self, key: Option<Idempotency>) -> Result<(), Halt> {
        let now = self.now().await?;
        let admission = self.rules.admission(&self.policy, now);
        let state = self.run.state.to_map();
        let body = self
            .engine
            .redact_body(&self.tenant, &admission, state)
            .await?;
        let mut batch = Batch::new(self.tenant.clone(), now)
            .in_run(self.run.id.clone())
            .idempotent(key);
        if let Some(principal) = PrincipalId::parse(&self.run.state.principal) {
            batch = batch.with_principal(principal);
        }
        let precondition = sabotage!(
            "two-processes-both-carry-a-run-on",
            Precondition::Version(self.record_version),
            Precondition::None
        );
        batch = batch.set_record(
            RecordKind::Run,
            self.run.id.as_str().to_owned(),
            precondition,
            body,
        );
        for step in std::mem::take(&mut self.staged) {
            batch = match step {
                StagedChange::Put {
                    id,
                    admitted,
                    cause,
                } => batch.put_caused_by(id, *admitted, cause),
                StagedChange::Delete { memory_ref, id } => batch.delete(memory_ref, id),
                StagedChange::Emit(body) => batch.emit(body),
                StagedChange::Repeat(body, at) => batch.emit_replayed(body, at),
                StagedChange::Release => batch.release_snapshot(),
            };
        }
        if self.run.state.status.is_terminal() {
            batch = super::delete_run_secrets(batch, &self.run);
        }
        for read in std::mem::take(&mut self.reads) {
            let body = self
                .engine
                .redact_body(&self.tenant, &admission, read.to_map())
                .await?;
            batch = batch.set_record(RecordKind::RunRead, read.key, Precondition::None, body);
        }
        let committed = self.engine.parts.store.commit(batch).await?;
        // A replayed commit was applied before the record was loaded, so the version is right
        // already.
        if let (false, Some(ChangeOutcome::Recorded { version, .. })) =
            (committed.replayed, committed.outcomes.first())
        {
            self.record_version = *version;
        }
        self.engine
            .run_queue
            .notify_step(&self.tenant, &self.run.id);
        Ok(())
    }

    /// The idempotency key of the node's next commit midway.
    fn midway_key(&self) -> Idempotency {
        let secret = self
            .engine
            .parts
            .host_key
            .derive("remembrancer run step v1");
        let text = format!("{}/{}/{}", self.run.id, self.node_index, self.commits);
        let key = *blake3::keyed_hash(&secret, text.as_bytes()).as_bytes();
        Idempotency {
            operation: "run-step",
            key,
            body: key,
        }
    }

    /// An id made of the run, the node and the step: a node that is executed again after a crash
    /// makes the same id, and entries that a run writes at one instant sort in the order in which
    /// it wrote them.
    fn entry_id(&mut self) -> EntryId {
        self.step += 1;
        let text = format!("{}/{}/{}", self.run.id, self.node_index, self.step);
        let hash = blake3::keyed_hash(
            &self
                .engine
                .parts
                .host_key
                .derive("remembrancer run entry v1"),
            text.as_bytes(),
        );
        let time = self.run.state.started_at.cast_unsigned() & 0xffff_ffff_ffff;
        let position = ((self.node_index & 0xff) << 16 | (self.step as usize & 0xffff)) & 0xff_ffff;
        EntryId::parse(&format!(
            "mem_{time:012x}{position:06x}{}",
            &hash.to_hex()[..14]
        ))
        .expect("hex digits are a valid id")
    }

    /// The cause that the events of the current node carry.
    fn cause(&self) -> Cause {
        let node = self.workflow.nodes.get(self.node_index);
        Cause {
            node: node.map(|node| node.id.clone()),
            agent: node
                .and_then(|node| node.agent.as_ref())
                .map(|a| a.agent_id.clone()),
        }
    }
}

/// The fault of a replay that does something which the source run did not.
fn diverged() -> Halt {
    Halt::fault(
        "replay_diverged",
        "the replay came to something that the run did not record",
    )
}
