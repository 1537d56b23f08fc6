//! A run while it is carried on: its state, what it has staged, and the one place where that
//! becomes a commit.
//!
//! What a node does is staged and committed together with the run's record. A read commits what was
//! staged before, so that a run sees its own writes. Such a commit has a key made of the run, the
//! node and its number: a node that is executed again after a crash repeats it and gets the answers
//! of the first time.

use super::{Fresh, Run};
use crate::caller::named;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::{Rules, RunSecrets};
use remem_core::event::Fault;
use remem_core::redact::SecretValue;
use remem_core::run::NodeDone;
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{
    Actor, Admitted, Batch, Cause, Draft, EntryId, Event, EventBody, Idempotency, MemoryRef,
    Policy, Precondition, PrincipalId, RecordKind, Rejection, Revision, RunId, Scope, TenantId,
    Timestamp, Workflow,
};
use remem_store::{Outcome, ReadAt, StoreError};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Why a node or run does not go on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It failed: the run ends with this.
    Fault(Fault),
    /// Somebody else carries the run on, or it was cancelled: leave it alone.
    Superseded,
    /// The store cannot be used now: the run is taken up again later.
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
    pub fn fault(code: &str, message: impl Into<String>) -> Halt {
        Halt::Fault(Fault {
            code: code.to_owned(),
            message: message.into(),
        })
    }
}

/// The tag of what runs write.
const RUN_TAG: &str = "source:run";

/// What is done with the next commit.
enum Step {
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

/// Answers that are to be recorded, by name.
pub(crate) type Reads = Vec<(String, Map<String, Value>)>;

/// A run that is being carried on.
pub(crate) struct Live<'e> {
    pub engine: &'e Engine,
    pub tenant: TenantId,
    pub run: Run,
    pub workflow: Workflow,
    pub policy: Policy,
    pub rules: Arc<Rules>,
    /// What the run has resolved; wiped when it is left.
    secrets: RunSecrets,
    version: u64,
    revision: Revision,
    staged: Vec<Step>,
    pub(super) reads: Reads,
    /// The node that is being executed, and how much it has done.
    pub(super) node: usize,
    pub(super) step: u32,
    commits: u32,
    outputs: Map<String, Value>,
    pub(super) reads_of_node: u32,
    /// What an earlier run recorded, if this one only repeats it.
    pub(super) facts: Option<VecDeque<Event>>,
    /// How long the repeated run took, if this run repeats one that reached its end.
    pub(super) recorded_duration_ms: Option<u64>,
}

impl<'e> Live<'e> {
    /// Takes a run up where its record stands; `None` if there is nothing to do.
    pub async fn load(
        engine: &'e Engine,
        tenant: &TenantId,
        id: &RunId,
    ) -> Result<Option<Live<'e>>, Halt> {
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
        let fresh = Fresh {
            state: run.state,
            version,
            revision,
            policy: engine.policy_for(tenant).await?,
        };
        Live::fresh(engine, tenant, id, fresh).await.map(Some)
    }

    /// Takes up a run that is known to stand so.
    pub async fn fresh(
        engine: &'e Engine,
        tenant: &TenantId,
        id: &RunId,
        fresh: Fresh,
    ) -> Result<Live<'e>, Halt> {
        let Fresh {
            state,
            version,
            revision,
            policy,
        } = fresh;
        let run = Run {
            id: id.clone(),
            state,
        };
        let workflow = match run.state.definition.clone() {
            Some(document) => Workflow::parse(document).ok(),
            None => engine.host_workflow(&run.state.workflow_id).cloned(),
        };
        // A definition that is gone leaves a run without nodes, which fails.
        let nothing = || Workflow {
            id: run.state.workflow_id.clone(),
            nodes: vec![],
            variables: vec![],
            document: Map::new(),
        };
        let recording = super::fork::recording(engine, tenant, &run).await?;
        let mut live = Live {
            engine,
            tenant: tenant.clone(),
            workflow: workflow.unwrap_or_else(nothing),
            policy,
            rules: engine.rules(tenant).await?,
            secrets: RunSecrets::default(),
            recorded_duration_ms: recording.as_ref().and_then(|one| one.duration_ms),
            facts: recording.map(|one| one.facts),
            run,
            version,
            revision,
            staged: Vec::new(),
            reads: Vec::new(),
            node: 0,
            step: 0,
            commits: 0,
            outputs: Map::new(),
            reads_of_node: 0,
        };
        live.register().await?;
        Ok(live)
    }

    /// A node begins.
    pub fn enter(&mut self, node: usize) {
        (self.node, self.step, self.commits, self.reads_of_node) = (node, 0, 0, 0);
        self.outputs.clear();
    }

    /// A node has ended; its outputs are kept with the next commit.
    pub fn leave(&mut self, node: &Node, skipped: bool) {
        let outputs = std::mem::take(&mut self.outputs);
        self.run.state.done.push(NodeDone {
            id: node.id.clone(),
            outputs,
            reads: self.reads_of_node,
            skipped,
        });
    }

    /// Sets a variable of the run; it is part of what the node leaves behind.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        self.outputs.insert(name.to_owned(), value.clone());
        self.run.state.variables.insert(name.to_owned(), value);
    }

    /// The instant of whatever happens next.
    pub async fn now(&self) -> Result<Timestamp, Halt> {
        Ok(self.engine.now_for(&self.tenant).await?)
    }

    /// What the run sees: its snapshot, its own writes and those of the runs it started.
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
            revision: self.revision,
            at,
            since: Timestamp(self.run.state.started_at),
            own_runs,
        }
    }

    /// The scope of a name inside the run's tenant, the only one it reaches, as whoever started it.
    /// A run that everybody sees reaches nobody's own memories, whatever came into what it runs
    /// since it began.
    pub fn scope(&self, memory_ref: &str) -> Option<Scope> {
        let actor = PrincipalId::parse(&self.run.state.principal)?;
        let memory_ref = named(&actor, memory_ref)?;
        if memory_ref.owner().is_some() && memory_ref.owner() != self.run.state.only_for.as_deref()
        {
            return None;
        }
        Some(Scope::new(self.tenant.clone(), memory_ref).acting(Actor::User(actor)))
    }

    /// The value of a secret that the run may use. From now on nothing that the run writes can hold
    /// it.
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
        self.look_at_rules().await?;
        Ok(value)
    }

    async fn resolve(&self, name: &str) -> Result<Option<SecretValue>, Halt> {
        let Some(owner) = PrincipalId::parse(&self.run.state.principal) else {
            return Ok(None);
        };
        // A part of a run uses what the whole was given.
        let whole = self
            .run
            .id
            .as_str()
            .split('.')
            .next()
            .and_then(RunId::parse);
        let whole = whole.as_ref().unwrap_or(&self.run.id);
        Ok(self
            .engine
            .resolve_secret(&self.tenant, &owner, whole, name)
            .await?)
    }

    /// What the run's texts are held against now: secrets may have come into the vault since it
    /// began.
    pub async fn look_at_rules(&mut self) -> Result<(), Halt> {
        self.rules = self.secrets.rules(
            &self.engine.parts.secrets,
            &self.engine.rules(&self.tenant).await?,
        );
        Ok(())
    }

    /// Everything that the run was given or has resolved is kept out of what it writes, also by a
    /// process that takes it up.
    async fn register(&mut self) -> Result<(), Halt> {
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
        self.look_at_rules().await
    }

    /// Writes an entry as if at `now`; answers its name. In a replay, the name that was given the
    /// first time.
    pub async fn write(
        &mut self,
        memory_ref: &str,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<EntryId, Halt> {
        // Where there is room for it: what makes the rule hold is the event, which names the run.
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
        let size = cpu::of_draft(&draft);
        let admit = || admission.admit(&scope, draft);
        let cpu = self.engine.cpu();
        let admitted = cpu.run(&self.tenant, size, admit).await??;
        // Counted in a replay, too: what a node reads after a write is recorded under its number.
        let id = sabotage!("a-replay-counts-otherwise", self.entry_id(), {
            self.step += u32::from(self.facts.is_some());
            self.entry_id()
        });
        if let Some(facts) = sabotage!("a-replay-writes", self.facts.as_mut(), None) {
            let fact = facts.pop_front();
            let Some(EventBody::Written(written)) = fact.as_ref().map(|fact| &fact.body) else {
                return Err(diverged());
            };
            let same = written.memory_ref == scope.memory_ref.as_str();
            let id = EntryId::parse(&written.memory_id)
                .filter(|_| same)
                .ok_or_else(diverged)?;
            let at = fact.as_ref().map_or(now, Event::happened_at);
            self.staged
                .push(Step::Repeat(EventBody::Written(written.clone()), at));
            return Ok(id);
        }
        self.staged.push(Step::Put {
            id: id.clone(),
            admitted: Box::new(admitted),
            cause: self.cause(),
        });
        Ok(id)
    }

    /// Deletes an entry with the next commit. In a replay, repeats what the first run's delete did.
    pub fn delete(&mut self, memory_ref: &str, id: &str) {
        let (Some(scope), Some(id)) = (self.scope(memory_ref), EntryId::parse(id)) else {
            return;
        };
        let memory_ref = scope.memory_ref;
        let Some(facts) = sabotage!("a-replay-deletes", self.facts.as_mut(), None) else {
            return self.staged.push(Step::Delete { memory_ref, id });
        };
        let same = |event: &Event| matches!(&event.body, EventBody::Deleted(gone) if gone.memory_id == id.as_str());
        if facts.front().is_some_and(same)
            && let Some(fact) = facts.pop_front()
        {
            let at = fact.happened_at();
            self.staged.push(Step::Repeat(fact.body, at));
        }
    }

    /// Appends an event of the run's own going on.
    pub fn emit(&mut self, body: EventBody) {
        self.staged.push(Step::Emit(body));
    }

    /// Appends a fact; in a replay, the one that was recorded.
    pub fn emit_fact(&mut self, body: EventBody) -> Result<(), Halt> {
        let Some(facts) = &mut self.facts else {
            self.emit(body);
            return Ok(());
        };
        let fact = facts
            .pop_front()
            .filter(|fact| fact.body.kind() == body.kind())
            .ok_or_else(diverged)?;
        let at = fact.happened_at();
        self.staged.push(Step::Repeat(fact.body, at));
        Ok(())
    }

    /// The run lets go of its snapshot with the next commit.
    pub fn release(&mut self) {
        self.staged.push(Step::Release);
    }

    /// Whether reading now would miss what was staged.
    pub fn has_staged_changes(&self) -> bool {
        self.staged
            .iter()
            .any(|step| matches!(step, Step::Put { .. } | Step::Delete { .. }))
    }

    /// Commits what is staged, with the run's record. What is done then is never done again: the
    /// record says so.
    pub async fn commit(&mut self) -> Result<(), Halt> {
        self.commit_as(None).await
    }

    /// Commits what a node has done so far. If the node is executed again, it gets the answers of
    /// the first time.
    pub async fn commit_midway(&mut self) -> Result<(), Halt> {
        let key = self.key();
        self.commits += 1;
        self.commit_as(Some(key)).await
    }

    async fn commit_as(&mut self, key: Option<Idempotency>) -> Result<(), Halt> {
        let now = self.now().await?;
        let admission = self.rules.admission(&self.policy, now);
        let state = self.run.state.to_map();
        let body = self.engine.cleaned(&self.tenant, &admission, state).await?;
        let mut batch = Batch::new(self.tenant.clone(), now)
            .in_run(self.run.id.clone())
            .idempotent(key);
        if let Some(principal) = PrincipalId::parse(&self.run.state.principal) {
            batch = batch.by(principal);
        }
        let as_loaded = sabotage!(
            "two-processes-both-carry-a-run-on",
            Precondition::Version(self.version),
            Precondition::None
        );
        batch = batch.set(
            RecordKind::Run,
            self.run.id.as_str().to_owned(),
            as_loaded,
            body,
        );
        for step in std::mem::take(&mut self.staged) {
            batch = match step {
                Step::Put {
                    id,
                    admitted,
                    cause,
                } => batch.put_by(id, *admitted, cause),
                Step::Delete { memory_ref, id } => batch.delete(memory_ref, id),
                Step::Emit(body) => batch.emit(body),
                Step::Repeat(body, at) => batch.repeat(body, at),
                Step::Release => batch.release(),
            };
        }
        if self.run.state.status.is_terminal() {
            batch = super::without_secrets(batch, &self.run);
        }
        for (key, read) in std::mem::take(&mut self.reads) {
            let read = self.engine.cleaned(&self.tenant, &admission, read).await?;
            batch = batch.set(RecordKind::RunRead, key, Precondition::None, read);
        }
        let committed = self.engine.parts.store.commit(batch).await?;
        // A repeated commit left its mark on the record already, before it was loaded.
        if let (false, Some(Outcome::Recorded { version, .. })) =
            (committed.replayed, committed.outcomes.first())
        {
            self.version = *version;
        }
        self.engine.runs.ring(&self.tenant, &self.run.id);
        Ok(())
    }

    fn key(&self) -> Idempotency {
        let secret = self.engine.parts.key.derive("remembrancer run step v1");
        let text = format!("{}/{}/{}", self.run.id, self.node, self.commits);
        let key = *blake3::keyed_hash(&secret, text.as_bytes()).as_bytes();
        Idempotency {
            operation: "run-step",
            key,
            body: key,
        }
    }

    /// Made of the run, the node and the step, so that a node that is executed again after a crash
    /// gives the same name, and that what a run writes at one instant is in the order in which it
    /// wrote it.
    fn entry_id(&mut self) -> EntryId {
        self.step += 1;
        let text = format!("{}/{}/{}", self.run.id, self.node, self.step);
        let hash = blake3::keyed_hash(
            &self.engine.parts.key.derive("remembrancer run entry v1"),
            text.as_bytes(),
        );
        let time = self.run.state.started_at.cast_unsigned() & 0xffff_ffff_ffff;
        let place = ((self.node & 0xff) << 16 | (self.step as usize & 0xffff)) & 0xff_ffff;
        EntryId::parse(&format!(
            "mem_{time:012x}{place:06x}{}",
            &hash.to_hex()[..14]
        ))
        .expect("hex digits are a valid id")
    }

    fn cause(&self) -> Cause {
        let node = self.workflow.nodes.get(self.node);
        Cause {
            node: node.map(|node| node.id.clone()),
            agent: node
                .and_then(|node| node.agent.as_ref())
                .map(|a| a.agent_id.clone()),
        }
    }
}

fn diverged() -> Halt {
    Halt::fault(
        "replay_diverged",
        "the replay came to something that the run did not record",
    )
}
