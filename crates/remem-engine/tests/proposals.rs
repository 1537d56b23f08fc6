//! Proposals: what is applied is what was reviewed, by who may, once; what is not applied has no
//! effect at all.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::Ground;
use remem_core::proposal::{Kind, State};
use remem_core::redact::SecretValue;
use remem_core::{Permission, RecordKind, TenantId};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::CountedIds;
use remem_engine::proposals::{
    Activation, Applied, Desk, GateState, NewProposal, NewTrace, ProposalError, ProposalQuery,
    Revise, Settings, Shown,
};
use remem_engine::registry::{self, Mode, PassReport};
use remem_engine::runs::{NewRun, Run};
use remem_engine::vault::SecretScope;
use remem_engine::{Caller, Engine, EngineError, HostKey, Parts, VaultKey, runner};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

struct World {
    ground: Ground,
    engine: Arc<Engine>,
    /// Submits.
    ann: Caller,
    /// Reviews.
    bob: Caller,
    /// Reviews, too.
    cid: Caller,
}

fn engine_over(ground: &Ground, settings: Settings, ids: Arc<CountedIds>) -> Arc<Engine> {
    let parts = Parts::new(
        ground.store.clone(),
        ground.directory.clone(),
        ground.clock.clone(),
        ids,
        HostKey::new([3; 32]),
    );
    let review = ground.review.clone().map(Desk::over).unwrap_or_default();
    let vault = Some(VaultKey::new([1; 32]));
    Arc::new(Engine::new(Parts {
        policy: ground.policy.clone(),
        review,
        vault,
        proposals: settings,
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
    };
    engine.add_key(name, request).await.unwrap();
    engine.authenticate(name).await.unwrap()
}

impl World {
    async fn new(settings: Settings) -> World {
        let ground = Ground::fresh().await;
        let engine = engine_over(&ground, settings, ground.ids.clone());
        let [ann, bob, cid] = ["ann", "bob", "cid"];
        let all = Permission::ALL;
        let ann = key(&engine, ann, &all).await;
        let bob = key(&engine, bob, &all).await;
        let cid = key(&engine, cid, &all).await;
        World {
            ground,
            engine,
            ann,
            bob,
            cid,
        }
    }

    async fn direct() -> World {
        World::new(Settings::default()).await
    }

    async fn gated(quorum: u32) -> World {
        World::new(Settings {
            activation: Activation::ApprovalGate,
            quorum,
            ..Settings::default()
        })
        .await
    }

    async fn submit(&self, kind: Kind, artifact: Value) -> String {
        submit(&self.engine, &self.ann, kind, artifact).await
    }

    async fn get(&self, id: &str) -> Shown {
        self.engine.proposal(&self.ann, id).await.unwrap()
    }

    async fn state(&self, id: &str) -> State {
        self.get(id).await.proposal.state
    }

    async fn told(&self, kind: &str) -> Vec<Value> {
        let events = common::all_events(self.ground.store.as_ref(), self.ann.tenant()).await;
        events
            .iter()
            .filter(|event| event.body.kind().as_str() == kind)
            .map(|event| event.body.payload())
            .collect()
    }

    async fn records(&self, kind: RecordKind) -> Vec<(String, Map<String, Value>)> {
        let records = self
            .ground
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
                Mode::Apply,
            )
            .await
            .unwrap()
    }

    async fn apply(&self, caller: &Caller, id: &str) -> Result<Applied, EngineError> {
        self.engine.apply_proposal(caller, id, None).await
    }

    fn at(&self, seconds: i64) {
        self.ground.clock.set(common::NOON.plus_ms(seconds * 1_000));
    }
}

async fn submit(engine: &Engine, caller: &Caller, kind: Kind, artifact: Value) -> String {
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
        Err(EngineError::NotFound) => "not_found".to_owned(),
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

fn of_each_kind() -> [(Kind, Value); 4] {
    [
        (Kind::AgentPack, agents("local.test.helper", "Be brief.")),
        (Kind::WorkflowChainPack, chain("weekly", "a text")),
        (Kind::PromptTemplate, template("greeting", "Hello")),
        (Kind::Automation, automation("nightly", "P1D")),
    ]
}

async fn bring(world: &World, state: State) -> String {
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let engine = &world.engine;
    let ann = &world.ann;
    match state {
        State::Draft => {}
        State::Revised => drop(
            engine
                .revise_proposal(
                    ann,
                    &id,
                    Revise {
                        title: Some("T".into()),
                        ..Revise::default()
                    },
                )
                .await
                .unwrap(),
        ),
        State::Applied => drop(engine.apply_proposal(ann, &id, None).await.unwrap()),
        State::Rejected => drop(engine.reject_proposal(ann, &id).await.unwrap()),
        State::Archived => drop(engine.archive_proposal(ann, &id).await.unwrap()),
    }
    assert_eq!(world.state(&id).await, state);
    id
}

#[tokio::test]
async fn every_step_from_every_state_is_taken_or_refused_as_the_lifecycle_says() {
    use remem_core::proposal::Step;
    for state in State::ALL {
        for step in Step::ALL {
            let world = World::direct().await;
            let id = bring(&world, state).await;
            let engine = &world.engine;
            let ann = &world.ann;
            let before = world.get(&id).await;
            let done = match step {
                Step::Revise => {
                    let revise = Revise {
                        rationale: Some("R".into()),
                        ..Revise::default()
                    };
                    engine.revise_proposal(ann, &id, revise).await.map(|_| ())
                }
                Step::Apply => engine.apply_proposal(ann, &id, None).await.map(|_| ()),
                Step::Reject => engine.reject_proposal(ann, &id).await.map(|_| ()),
                Step::Archive => engine.archive_proposal(ann, &id).await.map(|_| ()),
            };
            match state.after(step) {
                Some(next) => {
                    done.unwrap();
                    assert_eq!(world.state(&id).await, next, "{state:?} {step:?}");
                }
                None => {
                    assert!(
                        matches!(done, Err(EngineError::Proposal(ProposalError::State(is))) if is == state),
                        "{state:?} {step:?}"
                    );
                    assert_eq!(world.get(&id).await, before, "nothing changes");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_installed_are_the_bytes_that_were_reviewed() {
    for (kind, artifact) in of_each_kind() {
        let world = World::direct().await;
        let id = world.submit(kind, artifact.clone()).await;
        let shown = world.get(&id).await;
        assert_eq!(Value::Object(shown.artifact), artifact);
        let done = world
            .engine
            .apply_proposal(
                &world.bob,
                &id,
                Some(&format!("sha256:{}", shown.proposal.sha256)),
            )
            .await
            .unwrap();
        let Applied::Installed(done) = done else {
            panic!("it waits")
        };
        let installed = world.engine.installed_artifacts(&world.ann).await.unwrap();
        assert_eq!(installed.len(), 1);
        let bytes = remem_core::proposal::Artifact::new(artifact.as_object().unwrap()).unwrap();
        assert_eq!(
            (installed[0].artifact.as_str(), installed[0].sha256.as_str()),
            (bytes.text(), bytes.sha256())
        );
        assert_eq!(
            (installed[0].proposal.as_str(), installed[0].revision),
            (id.as_str(), 1)
        );
        let reference = done.proposal.activated.unwrap().installed_ref;
        assert_eq!(reference, installed[0].reference);
        assert!(reference.starts_with(kind.as_str()));
        assert_eq!(
            world.told("proposal.activated").await[0]["installedArtifactRef"],
            json!(reference)
        );
        let effects = match kind {
            Kind::AgentPack => world.records(RecordKind::Agent).await,
            Kind::WorkflowChainPack => world.records(RecordKind::Workflow).await,
            Kind::PromptTemplate => world.records(RecordKind::Prompt).await,
            Kind::Automation => world.records(RecordKind::Automation).await,
        };
        assert_eq!(effects.len(), 1, "{kind:?}");
        match kind {
            Kind::AgentPack => assert_eq!(effects[0].1["manifest"], artifact["agents"][0]),
            Kind::WorkflowChainPack => assert_eq!(
                Value::Object(effects[0].1.clone()),
                artifact["workflows"][0]
            ),
            Kind::PromptTemplate => assert_eq!(Value::Object(effects[0].1.clone()), artifact),
            Kind::Automation => {
                assert_eq!(
                    world.engine.automations(&world.ann).await.unwrap()[0]
                        .source
                        .as_deref(),
                    Some(reference.as_str())
                )
            }
        }
    }
}

#[tokio::test]
async fn numbers_are_installed_as_they_were_written() {
    // 1.0 and 1 are the same number and not the same bytes; a large one does not survive every way
    // of reading it.
    let world = World::direct().await;
    let artifact = json!({"automationId": "a", "schedule": {"every": "P1D"}, "workflowId": "w", "inputs": {"z": 1.0, "y": 18_446_744_073_709_551_615u64, "x": 1e300}});
    let id = world.submit(Kind::Automation, artifact).await;
    world.apply(&world.bob, &id).await.unwrap();
    let text = world.engine.installed_artifacts(&world.ann).await.unwrap()[0]
        .artifact
        .clone();
    assert!(
        text.contains(r#"{"x":1e+300,"y":18446744073709551615,"z":1.0}"#),
        "{text}"
    );
}

#[tokio::test]
async fn the_newest_revision_is_what_is_applied_and_only_as_it_was_seen() {
    let world = World::direct().await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let first = world.get(&id).await.proposal.sha256;
    let revise = |text: &str, expected: Option<&str>| Revise {
        artifact: template("greeting", text).as_object().cloned(),
        expected: expected.map(str::to_owned),
        ..Revise::default()
    };
    world
        .engine
        .revise_proposal(&world.ann, &id, revise("Good day", Some(&first)))
        .await
        .unwrap();
    let stale = world
        .engine
        .revise_proposal(&world.ann, &id, revise("Hi", Some(&first)))
        .await;
    assert_eq!(code(stale), "proposal_stale");
    assert_eq!(
        code(
            world
                .engine
                .apply_proposal(&world.bob, &id, Some(&first))
                .await
        ),
        "proposal_stale"
    );
    assert_eq!(
        world.told("proposal.revised").await,
        [json!({"proposalId": id, "kind": "prompt-template", "revision": 2})]
    );
    world.apply(&world.bob, &id).await.unwrap();
    assert_eq!(
        world.records(RecordKind::Prompt).await[0].1["text"],
        json!("Good day {{who}}")
    );
    let revisions = world
        .engine
        .proposal_revisions(&world.ann, &id)
        .await
        .unwrap();
    assert_eq!(
        revisions
            .iter()
            .map(|revision| revision.number)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(revisions[0].sha256, first);
    assert_eq!(revisions[0].artifact["text"], json!("Hello {{who}}"));
}

#[tokio::test]
async fn a_secret_never_comes_in_and_one_that_comes_to_light_keeps_a_proposal_out() {
    let world = World::direct().await;
    let secret = |name: &'static str, value: &'static str| {
        world.engine.set_secret(
            &world.ann,
            SecretScope::Tenant,
            name,
            SecretValue::new("", value),
        )
    };
    secret("known", "swordfish-of-old").await.unwrap();
    let id = world
        .submit(
            Kind::PromptTemplate,
            template(
                "greeting",
                "Say swordfish-of-old, then tuesday-4711-again to",
            ),
        )
        .await;
    let shown = world.get(&id).await;
    let marked = format!("{:?}", shown.artifact["text"]);
    assert!(
        marked.contains("[REDACTED:known]") && marked.contains("tuesday-4711-again"),
        "{marked}"
    );
    secret("late", "tuesday-4711-again").await.unwrap();
    assert!(
        !format!("{:?}", world.get(&id).await.artifact).contains("4711"),
        "what is shown is looked at again"
    );
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_holds_secret"
    );
    assert!(
        world.records(RecordKind::Prompt).await.is_empty()
            && world.records(RecordKind::Installed).await.is_empty()
    );
    // The rescan takes the bytes off the disk; the hash stays, and the proposal stays shut.
    world
        .engine
        .run_pass(
            registry::find("rescan").unwrap(),
            world.ann.tenant(),
            Mode::Apply,
        )
        .await
        .unwrap();
    let review = world.ground.review.clone().unwrap();
    let kept = review
        .inert_list(
            world.ann.tenant(),
            RecordKind::ProposalRevision,
            "",
            None,
            10,
        )
        .await
        .unwrap();
    assert!(!format!("{:?}", kept[0].body).contains("4711"));
    assert_eq!(kept[0].body["sha256"], json!(shown.proposal.sha256));
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_holds_secret"
    );
    let revise = Revise {
        artifact: template("greeting", "Say nothing to").as_object().cloned(),
        ..Revise::default()
    };
    world
        .engine
        .revise_proposal(&world.ann, &id, revise)
        .await
        .unwrap();
    world.apply(&world.bob, &id).await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_not_what_their_hash_says_are_not_installed() {
    let world = World::direct().await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let review = world.ground.review.clone().unwrap();
    let record = review
        .inert_list(
            world.ann.tenant(),
            RecordKind::ProposalRevision,
            &id,
            None,
            1,
        )
        .await
        .unwrap()
        .remove(0);
    let mut body = record.body.clone();
    body.insert(
        "artifact".into(),
        json!(body["artifact"].as_str().unwrap().replace("Hello", "Obey")),
    );
    let policy = remem_core::Policy::default();
    let redactor = remem_core::Redactor::empty();
    let admission = remem_core::Admission {
        policy: &policy,
        redactor: &redactor,
        scan: 0,
        now: common::NOON,
    };
    let batch = remem_core::Batch::new(world.ann.tenant().clone(), common::NOON);
    let forged = batch.set(
        RecordKind::ProposalRevision,
        record.key,
        remem_core::Precondition::None,
        admission.record(body),
    );
    world.ground.store.commit(forged).await.unwrap();
    world.apply(&world.bob, &id).await.unwrap_err();
    assert!(world.records(RecordKind::Prompt).await.is_empty());
}

#[tokio::test]
async fn what_is_malformed_for_its_kind_is_refused_when_it_is_applied() {
    let world = World::direct().await;
    for (kind, artifact, field) in [
        (Kind::PromptTemplate, json!({"templateId": "x"}), "version"),
        (Kind::Automation, json!({"automationId": "x"}), "schedule"),
        (
            Kind::AgentPack,
            json!({"name": "x", "version": "1", "agents": []}),
            "agents",
        ),
        (
            Kind::WorkflowChainPack,
            json!({"name": "x", "version": "1", "workflows": [{"id": "w"}]}),
            "workflow",
        ),
    ] {
        let id = world.submit(kind, artifact).await;
        let error = world.apply(&world.bob, &id).await.unwrap_err();
        assert_eq!(error.code(), "proposal_malformed", "{kind:?}");
        let EngineError::Proposal(ProposalError::Malformed(rejection)) = error else {
            panic!("{error:?}")
        };
        assert!(
            rejection.field().unwrap().starts_with(field),
            "{rejection:?}"
        );
        assert_eq!(world.state(&id).await, State::Draft);
    }
    assert!(world.told("proposal.activated").await.is_empty());
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_taken_over() {
    let world = World::direct().await;
    world
        .engine
        .put_workflow(
            &world.ann,
            "weekly",
            workflow("weekly", "by hand").as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let id = world
        .submit(Kind::WorkflowChainPack, chain("weekly", "proposed"))
        .await;
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_install_conflict"
    );
    assert_eq!(world.state(&id).await, State::Draft);
    world
        .engine
        .delete_workflow(&world.ann, "weekly")
        .await
        .unwrap();
    world.apply(&world.bob, &id).await.unwrap();
    // The same name again, from another proposal: only once what is there was removed.
    let other = world
        .submit(Kind::WorkflowChainPack, chain("weekly", "proposed again"))
        .await;
    assert_eq!(
        code(world.apply(&world.bob, &other).await),
        "proposal_install_conflict"
    );
    world
        .engine
        .delete_workflow(&world.ann, "weekly")
        .await
        .unwrap();
    world.apply(&world.bob, &other).await.unwrap();
    assert_eq!(
        world.engine.installed_artifacts(&world.ann).await.unwrap()[0].proposal,
        other
    );
}

#[tokio::test]
async fn of_two_who_apply_at_once_one_installs() {
    for gated in [false, true] {
        let world = if gated {
            World::gated(1).await
        } else {
            World::direct().await
        };
        let id = world
            .submit(Kind::WorkflowChainPack, chain("weekly", "a text"))
            .await;
        let (one, two) = tokio::join!(world.apply(&world.bob, &id), world.apply(&world.cid, &id));
        assert_eq!(
            [&one, &two]
                .iter()
                .filter(|result| matches!(result, Ok(Applied::Installed(_))))
                .count(),
            1,
            "{one:?} {two:?}"
        );
        assert_eq!(world.told("proposal.activated").await.len(), 1);
        assert_eq!(world.records(RecordKind::Workflow).await.len(), 1);
    }
}

#[tokio::test]
async fn without_the_scope_nothing_happens_but_a_trace_of_it() {
    let world = World::direct().await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let may: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsApply)
        .collect();
    let eve = key(&world.engine, "eve", &may).await;
    let before = world.get(&id).await;
    assert_eq!(code(world.apply(&eve, &id).await), "scope");
    assert_eq!(
        code(world.apply(&eve, "prop_none").await),
        "scope",
        "what is there is not told"
    );
    assert_eq!(world.get(&id).await, before);
    assert!(world.records(RecordKind::Prompt).await.is_empty());
    let denied = json!({"principal": eve.principal().as_str(), "action": "proposal.apply", "resource": id, "allowed": false, "reason": "scope-missing"});
    assert_eq!(
        world.told("authorization.decided").await,
        std::slice::from_ref(&denied)
    );
    world.apply(&world.bob, &id).await.unwrap();
    let allowed = json!({"principal": world.bob.principal().as_str(), "action": "proposal.apply", "resource": id, "allowed": true});
    assert_eq!(world.told("authorization.decided").await, [denied, allowed]);
}

#[tokio::test]
async fn each_right_is_needed() {
    let world = World::direct().await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let reader = key(&world.engine, "reader", &[Permission::ProposalsRead]).await;
    let writer = key(&world.engine, "writer", &[Permission::ProposalsWrite]).await;
    let engine = &world.engine;
    assert_eq!(
        code(
            engine
                .revise_proposal(
                    &reader,
                    &id,
                    Revise {
                        title: Some("x".into()),
                        ..Revise::default()
                    }
                )
                .await
        ),
        "scope"
    );
    assert_eq!(code(engine.reject_proposal(&reader, &id).await), "scope");
    assert_eq!(code(engine.archive_proposal(&reader, &id).await), "scope");
    assert_eq!(code(engine.proposal(&writer, &id).await), "scope");
    assert_eq!(
        code(engine.proposals(&writer, &ProposalQuery::default()).await),
        "scope"
    );
    assert_eq!(code(engine.installed_artifacts(&writer).await), "scope");
    assert_eq!(
        code(
            engine
                .override_proposal(&writer, &id, "urgent", None, None)
                .await
        ),
        "scope"
    );
    assert_eq!(
        code(engine.record_trace(&reader, NewTrace::default()).await),
        "scope"
    );
}

#[tokio::test]
async fn a_role_or_scope_that_is_asked_for_is_needed_and_an_unknown_one_denies_everybody() {
    let reviewer = [
        Permission::RunsRead,
        Permission::ManifestRead,
        Permission::ProposalsRead,
        Permission::ProposalsWrite,
        Permission::ProposalsApply,
    ];
    for (role, scope, full, part) in [
        (Some("reviewer"), None, true, "forbidden"),
        (Some("emperor"), None, false, "forbidden"),
        (None, Some("runs:read"), true, "scope"),
        (None, Some("thrones:sit"), false, "forbidden"),
    ] {
        let required_role = role.map(str::to_owned);
        let required_scope = scope.map(str::to_owned);
        let world = World::new(Settings {
            required_role,
            required_scope,
            ..Settings::default()
        })
        .await;
        let id = world
            .submit(Kind::PromptTemplate, template("greeting", "Hello"))
            .await;
        let short = key(&world.engine, "short", &[Permission::ProposalsApply]).await;
        assert_eq!(
            code(world.apply(&short, &id).await),
            part,
            "{role:?} {scope:?}"
        );
        let whole = key(&world.engine, "whole", &reviewer).await;
        assert_eq!(
            world.apply(&whole, &id).await.is_ok(),
            full,
            "{role:?} {scope:?}"
        );
        assert_eq!(
            world.told("authorization.decided").await.len(),
            2,
            "both are on record"
        );
        assert_eq!(world.state(&id).await == State::Applied, full);
    }
}

#[tokio::test]
async fn a_gate_takes_as_many_as_it_says_and_none_of_them_twice() {
    let world = World::gated(2).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    assert_eq!(
        code(world.engine.approve_proposal(&world.bob, &id, None).await),
        "proposal_gate_closed",
        "nobody has asked yet"
    );
    // Who wrote it may ask, and that is all.
    assert!(
        matches!(world.apply(&world.ann, &id).await.unwrap(), Applied::Waiting(_, gate) if gate.votes.is_empty())
    );
    assert_eq!(
        code(world.engine.approve_proposal(&world.ann, &id, None).await),
        "forbidden"
    );
    assert!(
        matches!(world.apply(&world.bob, &id).await.unwrap(), Applied::Waiting(_, gate) if gate.votes.len() == 1)
    );
    for _ in 0..3 {
        assert!(
            matches!(
                world.apply(&world.bob, &id).await.unwrap(),
                Applied::Waiting(..)
            ),
            "once more is once"
        );
        assert!(matches!(
            world
                .engine
                .approve_proposal(&world.bob, &id, None)
                .await
                .unwrap(),
            Applied::Waiting(..)
        ));
    }
    assert_eq!(
        (
            world.state(&id).await,
            world.records(RecordKind::Prompt).await.len()
        ),
        (State::Draft, 0)
    );
    let Applied::Installed(done) = world
        .engine
        .approve_proposal(&world.cid, &id, None)
        .await
        .unwrap()
    else {
        panic!("it waits")
    };
    let gate = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    assert_eq!((gate.state, gate.votes.len()), (GateState::Passed, 2));
    assert_eq!(
        done.proposal.activated.unwrap().approval_id,
        Some(gate.id.clone())
    );
    let [bob, cid] = [&world.bob, &world.cid].map(|caller| caller.principal().as_str().to_owned());
    let granted = |who: &str, n: u32| json!({"gateId": gate.id, "principal": who, "quorumProgress": {"granted": n, "required": 2}});
    assert_eq!(
        world.told("approval.granted").await,
        [granted(&bob, 1), granted(&cid, 2)]
    );
    let decided: Vec<bool> = world
        .told("authorization.decided")
        .await
        .iter()
        .map(|event| event["allowed"] == json!(true))
        .collect();
    assert_eq!(
        decided,
        [true, false, true, true],
        "asked, denied to its author, granted twice"
    );
    assert_eq!(world.records(RecordKind::Prompt).await.len(), 1);
}

#[tokio::test]
async fn a_revision_makes_votes_void_and_its_author_no_judge_of_it() {
    let world = World::gated(2).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let first = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    let revise = Revise {
        artifact: template("greeting", "Obey").as_object().cloned(),
        ..Revise::default()
    };
    world
        .engine
        .revise_proposal(&world.cid, &id, revise)
        .await
        .unwrap();
    assert_eq!(
        code(world.engine.proposal_gate(&world.ann, &id).await),
        "not_found",
        "the new one was not asked for"
    );
    assert_eq!(
        code(world.engine.approve_proposal(&world.bob, &id, None).await),
        "proposal_gate_closed"
    );
    assert!(
        matches!(world.apply(&world.cid, &id).await.unwrap(), Applied::Waiting(_, gate) if gate.votes.is_empty() && gate.id != first.id)
    );
    assert!(
        matches!(world.apply(&world.bob, &id).await.unwrap(), Applied::Waiting(_, gate) if gate.votes.len() == 1)
    );
    assert_eq!(world.state(&id).await, State::Revised);
    let dan = key(&world.engine, "dan", &Permission::ALL).await;
    world
        .engine
        .approve_proposal(&dan, &id, None)
        .await
        .unwrap();
    assert_eq!(
        world.records(RecordKind::Prompt).await[0].1["text"],
        json!("Obey {{who}}")
    );
}

#[tokio::test]
async fn a_no_ends_a_gate() {
    let world = World::gated(2).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    world.engine.reject_proposal(&world.cid, &id).await.unwrap();
    let gate = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    assert_eq!(gate.state, GateState::Rejected);
    let said = json!({"gateId": gate.id, "principal": world.cid.principal().as_str(), "reason": "rejected"});
    assert_eq!(world.told("approval.rejected").await, [said]);
    assert_eq!(world.told("proposal.rejected").await.len(), 1);
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_state_conflict"
    );
    assert_eq!(world.pass().await.changed, 0, "it is due no more");
}

#[tokio::test]
async fn what_nobody_decides_about_in_time_is_rejected() {
    let world = World::gated(2).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let timeout = 72 * 3_600;
    world.at(timeout - 1);
    assert_eq!(
        (world.pass().await.changed, world.state(&id).await),
        (0, State::Draft)
    );
    world.at(timeout);
    // Late is late, whether or not the pass was there.
    assert_eq!(
        code(world.apply(&world.cid, &id).await),
        "proposal_gate_closed"
    );
    assert_eq!(
        (world.pass().await.changed, world.pass().await.changed),
        (1, 0)
    );
    assert_eq!(world.state(&id).await, State::Rejected);
    let gate = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    assert_eq!(
        world.told("approval.rejected").await,
        [json!({"gateId": gate.id, "principal": "remembrancer", "reason": "timeout"})]
    );
    assert_eq!(world.told("proposal.rejected").await.len(), 1);
    assert!(world.records(RecordKind::Prompt).await.is_empty());
}

#[tokio::test]
async fn a_quorum_is_passed_over_only_where_that_is_allowed_and_never_in_silence() {
    let strict = World::gated(3).await;
    let id = strict
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    assert_eq!(
        code(
            strict
                .engine
                .override_proposal(&strict.bob, &id, "urgent", None, None)
                .await
        ),
        "forbidden"
    );
    assert_eq!(
        strict.told("authorization.decided").await[0]["reason"],
        json!("override-off")
    );
    assert_eq!(strict.state(&id).await, State::Draft);

    let settings = Settings {
        activation: Activation::ApprovalGate,
        quorum: 3,
        override_bypasses_quorum: true,
        ..Settings::default()
    };
    let world = World::new(settings).await;
    world
        .engine
        .set_secret(
            &world.ann,
            SecretScope::Tenant,
            "pin",
            SecretValue::new("", "tuesday-4711-again"),
        )
        .await
        .unwrap();
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.cid, &id).await.unwrap();
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&world.ann, &id, "urgent", None, None)
                .await
        ),
        "forbidden",
        "not one's own"
    );
    let may: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsOverride)
        .collect();
    let eve = key(&world.engine, "eve", &may).await;
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&eve, &id, "urgent", None, None)
                .await
        ),
        "scope"
    );
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&world.bob, &id, "because", None, None)
                .await
        ),
        "validation_error"
    );
    let note = Some("the pin is tuesday-4711-again".to_owned());
    world
        .engine
        .override_proposal(&world.bob, &id, "reviewer-unavailable", note, None)
        .await
        .unwrap();
    let gate = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    assert_eq!(
        (gate.state, gate.note.as_deref()),
        (GateState::Overridden, Some("the pin is [REDACTED:pin]"))
    );
    let said = json!({"gateId": gate.id, "principal": world.bob.principal().as_str(), "reason": "reviewer-unavailable"});
    assert_eq!(world.told("approval.overridden").await, [said]);
    assert_eq!(world.state(&id).await, State::Applied);
    assert!(
        !format!("{:?}", world.told("approval.overridden").await).contains("pin"),
        "a note stays where it is"
    );
}

#[tokio::test]
async fn a_gate_of_other_days_does_not_outlive_what_was_applied_without_it() {
    let world = World::gated(2).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let direct = engine_over(&world.ground, Settings::default(), world.ground.ids.clone());
    direct.apply_proposal(&world.bob, &id, None).await.unwrap();
    assert_eq!(
        world
            .engine
            .proposal_gate(&world.ann, &id)
            .await
            .unwrap()
            .state,
        GateState::Void
    );
    world.at(73 * 3_600);
    assert_eq!(
        (world.pass().await.changed, world.state(&id).await),
        (0, State::Applied)
    );
    assert!(world.told("approval.rejected").await.is_empty());
}

#[tokio::test]
async fn a_repeated_submission_is_one_proposal() {
    let world = World::direct().await;
    let new = |text: &str| NewProposal {
        kind: Kind::PromptTemplate,
        title: None,
        rationale: None,
        artifact: template("greeting", text).as_object().cloned().unwrap(),
        source_runs: Vec::new(),
    };
    let submit = async |text: &str, key: &str| {
        world
            .engine
            .submit_proposal(&world.ann, new(text), Some(key))
            .await
    };
    let first = submit("Hello", "k").await.unwrap();
    let again = submit("Hello", "k").await.unwrap();
    assert_eq!((first.1, again.1, &first.0), (false, true, &again.0));
    assert_eq!(code(submit("Hi", "k").await), "idempotency_key_mismatch");
    assert_ne!(
        submit("Hello", "l").await.unwrap().0.proposal.id,
        first.0.proposal.id
    );
    assert_eq!(world.told("proposal.created").await.len(), 2);
}

#[tokio::test]
async fn a_gate_that_cannot_be_read_lets_nobody_pass() {
    let world = World::gated(1).await;
    let id = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.ann, &id).await.unwrap();
    let gate = world.engine.proposal_gate(&world.ann, &id).await.unwrap();
    let policy = remem_core::Policy::default();
    let redactor = remem_core::Redactor::empty();
    let admission = remem_core::Admission {
        policy: &policy,
        redactor: &redactor,
        scan: 0,
        now: common::NOON,
    };
    let body = admission.record(json!({"state": "open"}).as_object().cloned().unwrap());
    let batch = remem_core::Batch::new(world.ann.tenant().clone(), common::NOON);
    let ties = remem_core::Ties::due(common::NOON.plus_ms(5));
    world
        .ground
        .store
        .commit(batch.set_tied(
            RecordKind::Gate,
            gate.id,
            remem_core::Precondition::None,
            body,
            ties,
        ))
        .await
        .unwrap();
    for caller in [&world.bob, &world.cid] {
        world.apply(caller, &id).await.unwrap_err();
        world
            .engine
            .approve_proposal(caller, &id, None)
            .await
            .unwrap_err();
    }
    assert_eq!(world.state(&id).await, State::Draft);
    world.at(1);
    assert_eq!(
        (world.pass().await.changed, world.pass().await.changed),
        (1, 0)
    );
    world.engine.reject_proposal(&world.bob, &id).await.unwrap();
}

async fn has_ended(engine: &Engine, caller: &Caller, run: &Run) -> Run {
    for _ in 0..3_000 {
        let run = engine.run(caller, run.id.as_str()).await.unwrap();
        if run.state.status.is_terminal() {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the run never ends");
}

async fn start(world: &World, new: NewRun) -> Run {
    let started = world
        .engine
        .create_run(&world.ann, new, None)
        .await
        .unwrap();
    has_ended(&world.engine, &world.ann, &started.run).await
}

/// The same workflow at the same time of day, on so many days; and an agent that uses its tools in
/// the same order.
async fn live(world: &World, days: i64) {
    let (_stop, stopping) = watch::channel(false);
    runner::start_runs(&world.engine, &stopping);
    world
        .engine
        .put_workflow(
            &world.ann,
            "weekly",
            workflow("weekly", "a text").as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    for day in 0..days {
        world.at(day * 86_400);
        start(
            world,
            NewRun {
                workflow_id: "weekly".to_owned(),
                ..NewRun::default()
            },
        )
        .await;
        let tools = ["search", "fetch", "write"].map(str::to_owned).to_vec();
        let trace = NewTrace {
            agent_id: "local.test.helper".to_owned(),
            tools,
            task: Some("a task".to_owned()),
            run: None,
        };
        world.engine.record_trace(&world.ann, trace).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_done_again_and_again_becomes_a_draft_and_once() {
    let world = World::direct().await;
    live(&world, 7).await;
    let report = world.pass().await;
    assert!(report.changed >= 2, "{report:?}");
    let (drafts, _) = world
        .engine
        .proposals(&world.ann, &ProposalQuery::default())
        .await
        .unwrap();
    assert_eq!(drafts.len() as u64, report.changed);
    let kinds: Vec<Kind> = drafts.iter().map(|shown| shown.proposal.kind).collect();
    assert!(
        kinds.contains(&Kind::Automation) && kinds.contains(&Kind::AgentPack),
        "{kinds:?}"
    );
    for shown in &drafts {
        assert_eq!(
            (shown.proposal.state, shown.proposal.owner.as_deref()),
            (State::Draft, None)
        );
        assert!(shown.proposal.synthesizer.is_some());
    }
    assert_eq!(world.told("proposal.created").await.len(), drafts.len());
    assert_eq!(
        world.pass().await.changed,
        0,
        "a second time there is nothing new"
    );
    // Turned down, revised, put away or applied: it does not come back.
    let engine = &world.engine;
    let ann = &world.ann;
    engine
        .reject_proposal(ann, &drafts[0].proposal.id)
        .await
        .unwrap();
    engine
        .revise_proposal(
            ann,
            &drafts[1].proposal.id,
            Revise {
                artifact: Some(Map::new()),
                ..Revise::default()
            },
        )
        .await
        .unwrap();
    engine
        .archive_proposal(ann, &drafts[1].proposal.id)
        .await
        .unwrap();
    assert_eq!(world.pass().await.changed, 0);
    assert!(
        world.records(RecordKind::Automation).await.is_empty()
            && world.records(RecordKind::Agent).await.is_empty(),
        "drafts are drafts"
    );
}

#[tokio::test]
async fn a_dry_run_drafts_nothing_and_traces_are_forgotten_in_time() {
    let world = World::direct().await;
    live(&world, 5).await;
    let dry = world
        .engine
        .run_pass(
            registry::find("propose").unwrap(),
            world.ann.tenant(),
            Mode::DryRun,
        )
        .await
        .unwrap();
    assert!(dry.changed > 0);
    assert!(world.told("proposal.created").await.is_empty());
    assert_eq!(world.records(RecordKind::ToolTrace).await.len(), 5);
    world.at(32 * 86_400);
    world.pass().await;
    assert_eq!(world.records(RecordKind::ToolTrace).await.len(), 3);
}

#[tokio::test]
async fn a_draft_that_repeats_another_one_says_so() {
    let world = World::direct().await;
    let id = world
        .submit(Kind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    let again = world
        .submit(Kind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    assert_eq!(
        world.get(&again).await.proposal.duplicate_of,
        Some(id.clone())
    );
    world.apply(&world.bob, &id).await.unwrap();
    let third = world
        .submit(Kind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    assert_eq!(
        world.get(&third).await.proposal.duplicate_of.as_deref(),
        Some("workflow-chain-pack/pack-weekly")
    );
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let world = World::direct().await;
    let mut ids = Vec::new();
    for (kind, artifact) in of_each_kind() {
        ids.push(world.submit(kind, artifact).await);
    }
    world
        .engine
        .reject_proposal(&world.ann, &ids[1])
        .await
        .unwrap();
    let list = async |query: ProposalQuery| {
        let (found, next) = world.engine.proposals(&world.ann, &query).await.unwrap();
        (
            found
                .into_iter()
                .map(|shown| shown.proposal.id)
                .collect::<Vec<_>>(),
            next,
        )
    };
    assert_eq!(list(ProposalQuery::default()).await, (ids.clone(), None));
    let drafts = ProposalQuery {
        state: Some(State::Draft),
        limit: Some(2),
        ..ProposalQuery::default()
    };
    let (first, next) = list(drafts.clone()).await;
    assert_eq!(first, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(
        list(ProposalQuery {
            after: next,
            ..drafts
        })
        .await,
        (vec![ids[3].clone()], None)
    );
    assert_eq!(
        list(ProposalQuery {
            kind: Some(Kind::AgentPack),
            ..ProposalQuery::default()
        })
        .await
        .0,
        [ids[0].clone()]
    );
    let bad = ProposalQuery {
        after: Some("x".to_owned()),
        ..ProposalQuery::default()
    };
    assert_eq!(
        code(world.engine.proposals(&world.ann, &bad).await),
        "validation_error"
    );
}

#[tokio::test]
async fn an_agent_speaks_by_an_installed_template() {
    let world = World::direct().await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_runs(&world.engine, &stopping);
    let mut manifest = agents("local.test.helper", "x")["agents"][0].clone();
    manifest.as_object_mut().unwrap().remove("systemPrompt");
    manifest["systemPromptRef"] = json!("prompt:greeting");
    let pack = json!({"name": "pack", "version": "1.0.0", "agents": [manifest]});
    let id = world.submit(Kind::AgentPack, pack).await;
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_malformed",
        "the template is a draft at best"
    );
    let prompt = world
        .submit(Kind::PromptTemplate, template("greeting", "Hello"))
        .await;
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_malformed"
    );
    world.apply(&world.bob, &prompt).await.unwrap();
    world.apply(&world.bob, &id).await.unwrap();
    let run = start(
        &world,
        NewRun {
            agent_id: Some("local.test.helper".to_owned()),
            ..NewRun::default()
        },
    )
    .await;
    assert_eq!(
        run.state.status,
        remem_core::RunStatus::Completed,
        "{:?}",
        run.state.error
    );
}

/// Everything that a host does and shows that a proposal could have an influence on.
async fn behaviour(meddle: impl AsyncFn(&Engine, &Caller)) -> Vec<String> {
    let ground = Ground::fresh().await;
    let engine = engine_over(&ground, Settings::default(), Arc::default());
    let caller = key(&engine, "ann", &Permission::ALL).await;
    // Proposals take their names from elsewhere, so that those of runs stay comparable.
    let reviewer = engine_over(&ground, Settings::default(), Arc::default());
    let prompt = submit(
        &reviewer,
        &caller,
        Kind::PromptTemplate,
        template("greeting", "Hello"),
    )
    .await;
    reviewer
        .apply_proposal(&caller, &prompt, None)
        .await
        .unwrap();
    engine
        .put_workflow(
            &caller,
            "weekly",
            workflow("weekly", "by hand").as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let mut manifest = agents("local.test.helper", "x")["agents"][0].clone();
    manifest.as_object_mut().unwrap().remove("systemPrompt");
    manifest["systemPromptRef"] = json!("prompt:greeting");
    let install = remem_core::agent::Install {
        manifest: manifest.as_object().cloned().unwrap(),
        ..Default::default()
    };
    engine.install_agent(&caller, install).await.unwrap();
    engine
        .put_automation(
            &caller,
            "nightly",
            automation("nightly", "PT1H").as_object().unwrap(),
        )
        .await
        .unwrap();
    meddle(&reviewer, &caller).await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_runs(&engine, &stopping);
    let mut seen = Vec::new();
    for new in [
        NewRun {
            workflow_id: "weekly".to_owned(),
            ..NewRun::default()
        },
        NewRun {
            agent_id: Some("local.test.helper".to_owned()),
            ..NewRun::default()
        },
        NewRun {
            workflow_id: "ghost".to_owned(),
            ..NewRun::default()
        },
        NewRun {
            agent_id: Some("local.test.ghost".to_owned()),
            ..NewRun::default()
        },
    ] {
        let started = match engine.create_run(&caller, new, None).await {
            Ok(started) => started,
            Err(error) => {
                seen.push(format!("{error:?}"));
                continue;
            }
        };
        let run = has_ended(&engine, &caller, &started.run).await;
        seen.push(format!("{:?}", run.state));
        let (log, _) = engine
            .run_events(&caller, run.id.as_str(), 0)
            .await
            .unwrap();
        seen.extend(log.iter().map(|event| {
            format!(
                "{} {} {:?} {:?}",
                event.body.kind().as_str(),
                event.body.payload(),
                event.at,
                event.run
            )
        }));
    }
    seen.push(format!("{:?}", engine.automations(&caller).await.unwrap()));
    seen.push(format!("{:?}", engine.workflows(&caller).await.unwrap()));
    seen.push(format!("{:?}", engine.agents(&caller).await.unwrap()));
    for kind in [
        RecordKind::Agent,
        RecordKind::Workflow,
        RecordKind::Prompt,
        RecordKind::Automation,
        RecordKind::Installed,
    ] {
        for record in ground
            .store
            .records(caller.tenant(), kind, "", None, 100)
            .await
            .unwrap()
        {
            seen.push(format!(
                "{} {} {}",
                record.key,
                record.version,
                Value::Object(record.body.clone())
            ));
        }
    }
    for until in [ground.clock.as_ref(), ground.clock.as_ref()].map(remem_engine::ports::Clock::now)
    {
        let due = remem_store::Tie::Due {
            until: until.plus_ms(30 * 86_400_000),
            after: None,
        };
        let found = ground
            .store
            .tied(caller.tenant(), RecordKind::Automation, &due, 100)
            .await
            .unwrap();
        seen.extend(
            found
                .into_iter()
                .map(|record| format!("due {} {:?}", record.key, record.ties.due)),
        );
    }
    seen
}

#[tokio::test]
async fn what_is_not_applied_has_no_effect_at_all() {
    let plain = behaviour(async |_, _| {}).await;
    assert!(
        plain.iter().any(|line| line.contains("run.completed"))
            && plain.iter().any(|line| line.contains("UnknownWorkflow")),
        "{plain:#?}"
    );
    for state in [
        State::Draft,
        State::Revised,
        State::Rejected,
        State::Archived,
    ] {
        let meddled = behaviour(async |engine, caller| {
            let mut more = of_each_kind().to_vec();
            let ghosts = [chain("ghost", "boo"), agents("local.test.ghost", "boo")];
            more.extend(
                [Kind::WorkflowChainPack, Kind::AgentPack]
                    .into_iter()
                    .zip(ghosts),
            );
            more.push((Kind::Automation, automation("ghost", "PT1S")));
            for (kind, artifact) in more {
                let id = submit(engine, caller, kind, artifact.clone()).await;
                match state {
                    State::Draft => {}
                    State::Revised => {
                        let revise = Revise {
                            artifact: artifact.as_object().cloned(),
                            ..Revise::default()
                        };
                        engine.revise_proposal(caller, &id, revise).await.unwrap();
                    }
                    State::Rejected => drop(engine.reject_proposal(caller, &id).await.unwrap()),
                    _ => drop(engine.archive_proposal(caller, &id).await.unwrap()),
                }
            }
        })
        .await;
        assert_eq!(plain, meddled, "{state:?}");
    }
}

#[tokio::test]
async fn a_host_without_a_desk_has_no_proposals() {
    let ground = Ground {
        review: None,
        ..Ground::fresh().await
    };
    let engine = engine_over(&ground, Settings::default(), Arc::default());
    let ann = key(&engine, "ann", &Permission::ALL).await;
    let new = NewProposal {
        kind: Kind::Automation,
        title: None,
        rationale: None,
        artifact: Map::new(),
        source_runs: Vec::new(),
    };
    assert_eq!(
        code(engine.submit_proposal(&ann, new, None).await),
        "capability_not_provided"
    );
    assert_eq!(
        code(engine.apply_proposal(&ann, "prop_1", None).await),
        "capability_not_provided"
    );
}

#[tokio::test]
async fn there_is_an_end_to_proposals_and_revisions() {
    let mut ground = Ground::fresh().await;
    ground.policy.proposals_open_max = 2;
    ground.policy.proposals_max = 3;
    ground.policy.proposal_revisions_max = 2;
    let engine = engine_over(&ground, Settings::default(), Arc::default());
    let ann = key(&engine, "ann", &Permission::ALL).await;
    let new = || NewProposal {
        kind: Kind::Automation,
        title: None,
        rationale: None,
        artifact: Map::new(),
        source_runs: Vec::new(),
    };
    let first = engine
        .submit_proposal(&ann, new(), None)
        .await
        .unwrap()
        .0
        .proposal
        .id;
    engine.submit_proposal(&ann, new(), None).await.unwrap();
    assert_eq!(
        code(engine.submit_proposal(&ann, new(), None).await),
        "validation_error"
    );
    let title = |text: &str| Revise {
        title: Some(text.to_owned()),
        ..Revise::default()
    };
    engine
        .revise_proposal(&ann, &first, title("a"))
        .await
        .unwrap();
    assert_eq!(
        code(engine.revise_proposal(&ann, &first, title("b")).await),
        "validation_error"
    );
    assert_eq!(
        code(
            engine
                .revise_proposal(&ann, &first, Revise::default())
                .await
        ),
        "validation_error"
    );
    engine.archive_proposal(&ann, &first).await.unwrap();
    engine.submit_proposal(&ann, new(), None).await.unwrap();
    engine
        .archive_proposal(
            &ann,
            &engine
                .proposals(&ann, &ProposalQuery::default())
                .await
                .unwrap()
                .0[1]
                .proposal
                .id,
        )
        .await
        .unwrap();
    assert_eq!(
        code(engine.submit_proposal(&ann, new(), None).await),
        "validation_error",
        "too many of all"
    );
}

#[tokio::test]
async fn automations_are_set_paused_and_removed() {
    let world = World::direct().await;
    let engine = &world.engine;
    let ann = &world.ann;
    let map = |value: Value| value.as_object().cloned().unwrap();
    let (set, new) = engine
        .put_automation(ann, "nightly", &map(automation("nightly", "PT1H")))
        .await
        .unwrap();
    assert!(new);
    assert_eq!(set.next_due, Some(common::NOON.plus_ms(3_600_000)));
    assert_eq!(
        code(
            engine
                .put_automation(ann, "other", &map(automation("nightly", "PT1H")))
                .await
        ),
        "validation_error"
    );
    let paused = engine
        .enable_automation(ann, "nightly", false)
        .await
        .unwrap();
    assert_eq!((paused.automation.enabled, paused.next_due), (false, None));
    let due = remem_store::Tie::Due {
        until: common::NOON.plus_ms(86_400_000),
        after: None,
    };
    let found = async || {
        world
            .ground
            .store
            .tied(ann.tenant(), RecordKind::Automation, &due, 10)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(found().await, 0);
    world.at(5_400);
    let resumed = engine
        .enable_automation(ann, "nightly", true)
        .await
        .unwrap();
    assert_eq!(
        resumed.next_due,
        Some(common::NOON.plus_ms(7_200_000)),
        "it counts on from where it began"
    );
    assert_eq!(found().await, 1);
    assert!(
        !engine
            .put_automation(ann, "nightly", &map(automation("nightly", "PT2H")))
            .await
            .unwrap()
            .1
    );
    let short = key(engine, "short", &[Permission::ManifestRead]).await;
    assert_eq!(engine.automations(&short).await.unwrap().len(), 1);
    assert_eq!(
        code(engine.enable_automation(&short, "nightly", false).await),
        "scope"
    );
    assert_eq!(
        code(engine.remove_automation(&short, "nightly").await),
        "scope"
    );
    engine.remove_automation(ann, "nightly").await.unwrap();
    assert_eq!(
        code(engine.remove_automation(ann, "nightly").await),
        "not_found"
    );
    assert_eq!(code(engine.automation(ann, "nightly").await), "not_found");
    assert_eq!(
        code(engine.enable_automation(ann, "nightly", true).await),
        "not_found"
    );
}
