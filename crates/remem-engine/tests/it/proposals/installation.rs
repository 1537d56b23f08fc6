//! Applying a proposal installs exactly the bytes that were reviewed, once.

use super::{
    ProposalTest, agents, automation, chain, code, key, of_each_kind, start, template, workflow,
};
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::{Permission, RecordKind};
use remem_engine::proposals::{ApplyResult, ProposalChanges};
use remem_engine::runner;
use remem_engine::runs::NewRun;
use remem_store::ReviewCalls;
use remem_testkit::NOON;
use serde_json::{Value, json};
use tokio::sync::watch;

#[tokio::test]
async fn the_installed_bytes_are_those_that_were_reviewed() {
    for (kind, artifact) in of_each_kind() {
        let world = ProposalTest::direct().await;
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
        let ApplyResult::Installed(done) = done else {
            panic!("it waits")
        };
        let installed = world
            .engine
            .list_installed_artifacts(&world.ann)
            .await
            .unwrap();
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
        let reference = done.proposal.activation.unwrap().installed_ref;
        assert_eq!(reference, installed[0].reference);
        assert!(reference.starts_with(kind.as_str()));
        assert_eq!(
            world.payloads("proposal.activated").await[0]["installedArtifactRef"],
            json!(reference)
        );
        let effects = match kind {
            ProposalKind::AgentPack => world.records(RecordKind::Agent).await,
            ProposalKind::WorkflowChainPack => world.records(RecordKind::Workflow).await,
            ProposalKind::PromptTemplate => world.records(RecordKind::Prompt).await,
            ProposalKind::Automation => world.records(RecordKind::Automation).await,
        };
        assert_eq!(effects.len(), 1, "{kind:?}");
        match kind {
            ProposalKind::AgentPack => assert_eq!(effects[0].1["manifest"], artifact["agents"][0]),
            ProposalKind::WorkflowChainPack => {
                let mut definition = effects[0].1.clone();
                let scopes = definition.remove("remembrancer:scopes");
                assert!(scopes.is_some(), "whose rights it acts with");
                assert_eq!(Value::Object(definition), artifact["workflows"][0]);
            }
            ProposalKind::PromptTemplate => {
                assert_eq!(Value::Object(effects[0].1.clone()), artifact)
            }
            ProposalKind::Automation => {
                assert_eq!(
                    world.engine.list_automations(&world.ann).await.unwrap()[0]
                        .source
                        .as_deref(),
                    Some(reference.as_str())
                )
            }
        }
    }
}

#[tokio::test]
async fn numbers_are_installed_byte_for_byte() {
    // 1.0 and 1 are the same number but not the same bytes; a large number does not survive every
    // parser.
    let world = ProposalTest::direct().await;
    let artifact = json!({"automationId": "a", "schedule": {"every": "P1D"}, "workflowId": "w", "inputs": {"z": 1.0, "y": 18_446_744_073_709_551_615u64, "x": 1e300}});
    let id = world.submit(ProposalKind::Automation, artifact).await;
    world.apply(&world.bob, &id).await.unwrap();
    let text = world
        .engine
        .list_installed_artifacts(&world.ann)
        .await
        .unwrap()[0]
        .artifact
        .clone();
    assert!(
        text.contains(r#"{"x":1e+300,"y":18446744073709551615,"z":1.0}"#),
        "{text}"
    );
}

#[tokio::test]
async fn apply_installs_the_newest_revision_and_refuses_a_stale_hash() {
    let world = ProposalTest::direct().await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let first = world.get(&id).await.proposal.sha256;
    let revise = |text: &str, expected: Option<&str>| ProposalChanges {
        artifact: template("greeting", text).as_object().cloned(),
        expected: expected.map(str::to_owned),
        ..ProposalChanges::default()
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
        world.payloads("proposal.revised").await,
        [json!({"proposalId": id, "kind": "prompt-template", "revision": 2})]
    );
    world.apply(&world.bob, &id).await.unwrap();
    assert_eq!(
        world.records(RecordKind::Prompt).await[0].1["text"],
        json!("Good day {{who}}")
    );
    let revisions = world
        .engine
        .list_proposal_revisions(&world.ann, &id)
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
async fn an_artifact_that_does_not_match_its_hash_is_not_installed() {
    let world = ProposalTest::direct().await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let review = world.env.review.clone().unwrap();
    let record = review
        .review_records(
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
        redaction_fingerprint: 0,
        now: NOON,
    };
    let batch = remem_core::Batch::new(world.ann.tenant().clone(), NOON);
    let forged = batch.set_record(
        RecordKind::ProposalRevision,
        record.key,
        remem_core::Precondition::None,
        admission.redact_record(body),
    );
    world.env.store.commit(forged).await.unwrap();
    world.apply(&world.bob, &id).await.unwrap_err();
    assert!(world.records(RecordKind::Prompt).await.is_empty());
}

#[tokio::test]
async fn a_proposal_does_not_overwrite_an_existing_name() {
    let world = ProposalTest::direct().await;
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
        .submit(ProposalKind::WorkflowChainPack, chain("weekly", "proposed"))
        .await;
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_install_conflict"
    );
    assert_eq!(world.state(&id).await, ProposalState::Draft);
    world
        .engine
        .delete_workflow(&world.ann, "weekly")
        .await
        .unwrap();
    world.apply(&world.bob, &id).await.unwrap();
    // Another proposal may use the same name only after what was installed is removed.
    let other = world
        .submit(
            ProposalKind::WorkflowChainPack,
            chain("weekly", "proposed again"),
        )
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
        world
            .engine
            .list_installed_artifacts(&world.ann)
            .await
            .unwrap()[0]
            .proposal,
        other
    );
}

#[tokio::test]
async fn concurrent_applies_install_once() {
    for gated in [false, true] {
        let world = if gated {
            ProposalTest::gated(1).await
        } else {
            ProposalTest::direct().await
        };
        let id = world
            .submit(ProposalKind::WorkflowChainPack, chain("weekly", "a text"))
            .await;
        let (one, two) = tokio::join!(world.apply(&world.bob, &id), world.apply(&world.cid, &id));
        assert_eq!(
            [&one, &two]
                .iter()
                .filter(|result| matches!(result, Ok(ApplyResult::Installed(_))))
                .count(),
            1,
            "{one:?} {two:?}"
        );
        assert_eq!(world.payloads("proposal.activated").await.len(), 1);
        assert_eq!(world.records(RecordKind::Workflow).await.len(), 1);
    }
}

#[tokio::test]
async fn an_agent_can_use_an_installed_prompt_template() {
    let world = ProposalTest::direct().await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&world.engine, &stopping);
    let mut manifest = agents("local.test.helper", "x")["agents"][0].clone();
    manifest.as_object_mut().unwrap().remove("systemPrompt");
    manifest["systemPromptRef"] = json!("prompt:greeting");
    let pack = json!({"name": "pack", "version": "1.0.0", "agents": [manifest]});
    let id = world.submit(ProposalKind::AgentPack, pack).await;
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_malformed",
        "the template is a draft at best"
    );
    let prompt = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
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

#[tokio::test]
async fn automations_are_set_paused_and_removed() {
    let world = ProposalTest::direct().await;
    let engine = &world.engine;
    let ann = &world.ann;
    let map = |value: Value| value.as_object().cloned().unwrap();
    let (set, new) = engine
        .put_automation(ann, "nightly", &map(automation("nightly", "PT1H")))
        .await
        .unwrap();
    assert!(new);
    assert_eq!(set.next_due, Some(NOON.plus_ms(3_600_000)));
    assert_eq!(
        code(
            engine
                .put_automation(ann, "other", &map(automation("nightly", "PT1H")))
                .await
        ),
        "validation_error"
    );
    let paused = engine
        .set_automation_enabled(ann, "nightly", false)
        .await
        .unwrap();
    assert_eq!((paused.automation.enabled, paused.next_due), (false, None));
    let due = remem_store::RecordLookup::Due {
        until: NOON.plus_ms(86_400_000),
        after: None,
    };
    let found = async || {
        world
            .env
            .store
            .records_by(ann.tenant(), RecordKind::Automation, &due, 10)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(found().await, 0);
    world.at(5_400);
    let resumed = engine
        .set_automation_enabled(ann, "nightly", true)
        .await
        .unwrap();
    assert_eq!(
        resumed.next_due,
        Some(NOON.plus_ms(7_200_000)),
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
    assert_eq!(engine.list_automations(&short).await.unwrap().len(), 1);
    assert_eq!(
        code(
            engine
                .set_automation_enabled(&short, "nightly", false)
                .await
        ),
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
    assert_eq!(
        code(engine.get_automation(ann, "nightly").await),
        "not_found"
    );
    assert_eq!(
        code(engine.set_automation_enabled(ann, "nightly", true).await),
        "not_found"
    );
}
