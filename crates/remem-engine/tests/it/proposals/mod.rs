//! Proposals: what is applied is what was reviewed, by a principal with the right, once; what is
//! not applied has no effect.

mod approval;
mod authority;
mod inertness;
mod installation;
mod lifecycle;
mod secrets;
mod synthesis;

use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::{Permission, RecordKind, Seq, TenantId};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::CountedIds;
use remem_engine::proposals::{
    ActivationMode, ApplyResult, NewProposal, ProposalSettings, ProposalStore, ProposalView,
};
use remem_engine::registry::{self, PassMode, PassReport};
use remem_engine::runs::{NewRun, Run};
use remem_engine::{Caller, Engine, EngineError, EngineParts, HostKey, VaultKey};
use remem_testkit::{NOON, TestEnv, wait_for};
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct ProposalTest {
    env: TestEnv,
    engine: Arc<Engine>,
    /// The principal that submits proposals.
    ann: Caller,
    /// A principal that reviews proposals.
    bob: Caller,
    /// A second principal that reviews proposals.
    cid: Caller,
}

fn engine_over(env: &TestEnv, settings: ProposalSettings, ids: Arc<CountedIds>) -> Arc<Engine> {
    let parts = EngineParts::new(
        env.store.clone(),
        env.directory.clone(),
        env.clock.clone(),
        ids,
        HostKey::new([3; 32]),
    );
    let review = env
        .review
        .clone()
        .map(ProposalStore::new)
        .unwrap_or_default();
    let vault = Some(VaultKey::new([1; 32]));
    Arc::new(Engine::new(EngineParts {
        policy: env.policy.clone(),
        proposal_store: review,
        vault,
        proposal_settings: settings,
        ..parts
    }))
}

async fn key(engine: &Engine, name: &str, permissions: &[Permission]) -> Caller {
    let tenant = TenantId::parse("t").unwrap();
    let request = KeyRequest {
        tenant,
        label: name.to_owned(),
        permissions: permissions.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    engine.add_key(name, request).await.unwrap();
    engine.authenticate(name).await.unwrap()
}

impl ProposalTest {
    async fn new(settings: ProposalSettings) -> ProposalTest {
        let env = TestEnv::new().await;
        let engine = engine_over(&env, settings, env.ids.clone());
        let [ann, bob, cid] = ["ann", "bob", "cid"];
        let all = Permission::ALL;
        let ann = key(&engine, ann, &all).await;
        let bob = key(&engine, bob, &all).await;
        let cid = key(&engine, cid, &all).await;
        ProposalTest {
            env,
            engine,
            ann,
            bob,
            cid,
        }
    }

    async fn direct() -> ProposalTest {
        ProposalTest::new(ProposalSettings::default()).await
    }

    async fn gated(quorum: u32) -> ProposalTest {
        ProposalTest::new(ProposalSettings {
            activation: ActivationMode::ApprovalGate,
            quorum,
            ..ProposalSettings::default()
        })
        .await
    }

    async fn submit(&self, kind: ProposalKind, artifact: Value) -> String {
        submit(&self.engine, &self.ann, kind, artifact).await
    }

    async fn get(&self, id: &str) -> ProposalView {
        self.engine.get_proposal(&self.ann, id).await.unwrap()
    }

    async fn state(&self, id: &str) -> ProposalState {
        self.get(id).await.proposal.state
    }

    async fn payloads(&self, kind: &str) -> Vec<Value> {
        let events = self
            .env
            .store
            .events(self.ann.tenant(), Seq(0), 100_000)
            .await
            .unwrap();
        events
            .iter()
            .filter(|event| event.body.kind().as_str() == kind)
            .map(|event| event.body.payload())
            .collect()
    }

    async fn records(&self, kind: RecordKind) -> Vec<(String, Map<String, Value>)> {
        let records = self
            .env
            .store
            .records(self.ann.tenant(), kind, "", None, 1_000)
            .await
            .unwrap();
        records
            .into_iter()
            .map(|record| (record.key, record.body))
            .collect()
    }

    async fn pass(&self) -> PassReport {
        self.engine
            .run_pass(
                registry::find("propose").unwrap(),
                self.ann.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap()
    }

    async fn apply(&self, caller: &Caller, id: &str) -> Result<ApplyResult, EngineError> {
        self.engine.apply_proposal(caller, id, None).await
    }

    fn at(&self, seconds: i64) {
        self.env.clock.set(NOON.plus_ms(seconds * 1_000));
    }
}

async fn submit(engine: &Engine, caller: &Caller, kind: ProposalKind, artifact: Value) -> String {
    let new = NewProposal {
        kind,
        title: Some("A title".to_owned()),
        rationale: Some("A reason".to_owned()),
        artifact: artifact.as_object().cloned().unwrap(),
        source_runs: Vec::new(),
    };
    engine
        .submit_proposal(caller, new, None)
        .await
        .unwrap()
        .0
        .proposal
        .id
}

fn code<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
    match result {
        Err(EngineError::Forbidden(_)) => "scope".to_owned(),
        Err(EngineError::NotFound(_)) => "not_found".to_owned(),
        Err(error) => error.code().to_owned(),
        Ok(fine) => format!("{fine:?}"),
    }
}

fn workflow(id: &str, content: &str) -> Value {
    let config = json!({"memoryAction": "write", "memoryRef": "m", "content": content});
    json!({"id": id, "nodes": [{"id": "w", "typeId": "core.identity", "config": config}]})
}

fn chain(id: &str, content: &str) -> Value {
    json!({"name": format!("pack-{id}"), "version": "1.0.0", "workflows": [workflow(id, content)]})
}

fn agents(id: &str, prompt: &str) -> Value {
    let manifest = json!({"agentId": id, "persona": "P", "modelClass": "general", "systemPrompt": prompt, "toolAllowlist": ["a"],
        "memoryShape": {"longTerm": true}});
    json!({"name": "pack-of-agents", "version": "1.0.0", "agents": [manifest]})
}

fn template(id: &str, text: &str) -> Value {
    json!({"templateId": id, "version": "1.0.0", "text": format!("{text} {{{{who}}}}"), "variables": [{"name": "who", "defaultValue": "you"}]})
}

fn automation(id: &str, every: &str) -> Value {
    json!({"automationId": id, "schedule": {"every": every}, "workflowId": "weekly", "inputs": {"b": 1, "a": 2}})
}

fn of_each_kind() -> [(ProposalKind, Value); 4] {
    [
        (
            ProposalKind::AgentPack,
            agents("local.test.helper", "Be brief."),
        ),
        (ProposalKind::WorkflowChainPack, chain("weekly", "a text")),
        (ProposalKind::PromptTemplate, template("greeting", "Hello")),
        (ProposalKind::Automation, automation("nightly", "P1D")),
    ]
}

async fn has_ended(engine: &Engine, caller: &Caller, run: &Run) -> Run {
    wait_for("the run ends", || async {
        let run = engine.get_run(caller, run.id.as_str()).await.unwrap();
        run.state.status.is_terminal().then_some(run)
    })
    .await
}

async fn start(world: &ProposalTest, new: NewRun) -> Run {
    let started = world
        .engine
        .create_run(&world.ann, new, None)
        .await
        .unwrap();
    has_ended(&world.engine, &world.ann, &started.run).await
}
