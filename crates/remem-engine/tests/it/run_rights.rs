//! A run has the rights of its workflow's installer, node by node.

use remem_core::commitment::Delivery;
use remem_core::{
    Admission, Batch, Permission, Policy, Precondition, RecordKind, Redactor, RunStatus,
};
use remem_engine::commitments::{NewCommitment, NewCommitmentRules};
use remem_engine::keys::KeyRequest;
use remem_engine::runs::{NewRun, Run};
use remem_engine::workspace::WriteConditions;
use remem_engine::{Caller, EngineError};
use remem_testkit::host::object;
use remem_testkit::{NOON, TestEnv, TestHost};
use serde_json::{Value, json};

async fn key(host: &TestHost, name: &str, permissions: &[Permission]) -> Caller {
    let request = KeyRequest {
        tenant: host.tenant().clone(),
        label: String::new(),
        permissions: permissions.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    host.engine.add_key(name, request).await.unwrap();
    host.engine.authenticate(name).await.unwrap()
}

fn node(config: Value) -> Value {
    json!({"id": "w", "nodes": [{"id": "a", "typeId": "core.identity", "config": config}]})
}

/// The run of a workflow that one key installs and another one starts.
async fn run(host: &TestHost, installer: &Caller, starter: &Caller, workflow: Value) -> Run {
    let id = workflow["id"].as_str().unwrap().to_owned();
    host.engine
        .put_workflow(installer, &id, object(&workflow))
        .await
        .unwrap();
    start(host, starter, &id).await
}

async fn start(host: &TestHost, starter: &Caller, id: &str) -> Run {
    let new = NewRun {
        workflow_id: id.to_owned(),
        ..NewRun::default()
    };
    let run = host
        .engine
        .create_run(starter, new, None)
        .await
        .unwrap()
        .run;
    host.run_to_end(&run).await
}

#[tokio::test]
async fn a_run_is_limited_to_the_permissions_of_its_installer() {
    let host = TestEnv::new().await.host().await;
    let entry = host.put("shared", "A secret of the house.").await;
    host.engine
        .put_file(
            &host.caller,
            "notes/a.md",
            "text",
            None,
            WriteConditions::default(),
        )
        .await
        .unwrap();
    let weak = [
        Permission::ManifestWrite,
        Permission::RunsCreate,
        Permission::RunsRead,
    ];
    let weak = key(&host, "weak", &weak).await;
    let child = json!({"id": "child", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "child", object(&child))
        .await
        .unwrap();
    let identity = |config: Value| ("core.identity", config);
    let denied = [
        identity(json!({"memoryAction": "read", "memoryRef": "shared"})),
        identity(json!({"memoryAction": "get", "memoryRef": "shared", "id": entry})),
        identity(json!({"memoryAction": "write", "memoryRef": "shared", "content": "x"})),
        identity(json!({"memoryAction": "delete", "memoryRef": "shared", "id": entry})),
        identity(json!({"memoryAction": "distill", "memoryRef": "shared"})),
        identity(json!({"memoryAction": "read-file", "path": "notes/a.md"})),
        ("core.noop", json!({"summary": true})),
    ];
    for (type_id, config) in denied {
        let workflow =
            json!({"id": "w", "nodes": [{"id": "a", "typeId": type_id, "config": config}]});
        // Whichever key starts it, the workflow has its installer's rights.
        let run = run(&host, &weak, &host.caller, workflow).await;
        let code = run.state.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(
            (run.state.status, code),
            (RunStatus::Failed, Some("forbidden")),
            "{config}"
        );
    }
    assert_eq!(host.texts("shared").await, ["A secret of the house."]);
    assert!(host.live("openwop/runs").await.is_empty());
    // What the installer may do is done, even for a starter that may not.
    let write = node(json!({"memoryAction": "write", "memoryRef": "shared", "content": "y"}));
    let done = run(&host, &host.caller, &weak, write).await;
    assert_eq!(
        done.state.status,
        RunStatus::Completed,
        "{:?}",
        done.state.error
    );
    let without_runs = [Permission::ManifestWrite, Permission::RunsRead];
    let without_runs = key(&host, "without-runs", &without_runs).await;
    let part = json!({"id": "w", "nodes": [{"id": "a", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}]});
    let failed = run(&host, &without_runs, &host.caller, part).await;
    assert_eq!(failed.state.status, RunStatus::Failed);
}

#[tokio::test]
async fn a_workflow_definition_is_returned_unchanged() {
    let host = TestEnv::new().await.host().await;
    let workflow = node(json!({"value": 1}));
    let (kept, _) = host
        .engine
        .put_workflow(&host.caller, "w", object(&workflow))
        .await
        .unwrap();
    assert_eq!(json!(kept), workflow);
    let shown = host.engine.get_workflow(&host.caller, "w").await.unwrap();
    assert_eq!(json!(shown), workflow);
}

#[tokio::test]
async fn setting_a_delivery_requires_permission_to_start_runs() {
    let host = TestEnv::new().await.host().await;
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "remind", object(&workflow))
        .await
        .unwrap();
    let rights = [
        Permission::MemoryRead,
        Permission::MemoryWrite,
        Permission::MemoryAdmin,
    ];
    let weak = key(&host, "weak", &rights).await;
    let delivery = Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    };
    let new = NewCommitment {
        text: "Water the plants.".to_owned(),
        at: Some(NOON.plus_ms(60_000)),
        delivery: delivery.clone(),
        ..NewCommitment::default()
    };
    let refused = host
        .engine
        .create_commitment(&weak, "m", new.clone(), None)
        .await;
    assert!(matches!(
        refused,
        Err(EngineError::Forbidden(Permission::RunsCreate))
    ));
    let rules = NewCommitmentRules {
        delivery,
        ..NewCommitmentRules::default()
    };
    for memory in [Some("m"), None] {
        let refused = host
            .engine
            .put_commitment_rules(&weak, memory, rules.clone())
            .await;
        assert!(matches!(
            refused,
            Err(EngineError::Forbidden(Permission::RunsCreate))
        ));
    }
    host.engine
        .create_commitment(&host.caller, "m", new, None)
        .await
        .unwrap();
    host.engine
        .put_commitment_rules(&weak, Some("m"), NewCommitmentRules::default())
        .await
        .expect("rules that start nothing need no more than before");
}

/// A workflow's record as it was written before scopes were recorded.
async fn without_scopes(host: &TestHost, workflow: &Value) {
    let policy = Policy::default();
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 0,
        now: NOON,
    };
    let batch = Batch::new(host.tenant().clone(), NOON).set_record(
        RecordKind::Workflow,
        workflow["id"].as_str().unwrap().to_owned(),
        Precondition::None,
        admission.redact_record(object(workflow)),
    );
    host.env.store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn a_workflow_without_stored_scopes_uses_those_of_its_starter() {
    let host = TestEnv::new().await.host().await;
    let write = node(json!({"memoryAction": "write", "memoryRef": "m", "content": "y"}));
    without_scopes(&host, &write).await;
    let weak = key(
        &host,
        "weak",
        &[Permission::RunsCreate, Permission::RunsRead],
    )
    .await;
    let failed = start(&host, &weak, "w").await;
    assert_eq!(failed.state.status, RunStatus::Failed);
    let done = start(&host, &host.caller, "w").await;
    assert_eq!(done.state.status, RunStatus::Completed);
    // Timers and deliveries are started by the host, which has no scopes to act with.
    let delivery = Delivery {
        workflow_id: Some("w".to_owned()),
        ..Delivery::default()
    };
    let new = NewCommitment {
        text: "Water the plants.".to_owned(),
        at: Some(NOON.plus_ms(60_000)),
        delivery,
        ..NewCommitment::default()
    };
    let create = || {
        host.engine
            .create_commitment(&host.caller, "m", new.clone(), None)
    };
    let refused = create().await.unwrap_err().to_string();
    assert!(refused.contains("install it again"), "{refused}");
    let automation =
        json!({"automationId": "hourly", "schedule": {"every": "PT1H"}, "workflowId": "w"});
    host.engine
        .put_automation(&host.caller, "hourly", &object(&automation))
        .await
        .unwrap();
    host.at(3_600);
    host.run_pass("fire").await;
    assert!(host.events("automation.fired").await.is_empty());
    // Once it is installed again, it is started.
    host.engine
        .put_workflow(&host.caller, "w", object(&write))
        .await
        .unwrap();
    host.at(7_200);
    host.run_pass("fire").await;
    assert_eq!(host.events("automation.fired").await.len(), 1);
}
