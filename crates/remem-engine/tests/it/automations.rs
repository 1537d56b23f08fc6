//! Automations: one run for each tick, missed ticks are combined into one, and nothing is lost when
//! a process stops.

use remem_engine::registry::{self, PassMode, PassReport};
use remem_testkit::{NOON, TestEnv, TestHost};
use serde_json::{Value, json};

async fn fire(node: &TestHost) -> PassReport {
    node.engine
        .run_pass(
            registry::find("fire").unwrap(),
            node.caller.tenant(),
            PassMode::Apply,
        )
        .await
        .unwrap()
}

async fn put(node: &TestHost, id: &str, schedule: Value) {
    let workflow = json!({"id": "tidy-up", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    node.engine
        .put_workflow(
            &node.caller,
            "tidy-up",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let automation = json!({"automationId": id, "schedule": schedule, "workflowId": "tidy-up"});
    node.engine
        .put_automation(&node.caller, id, automation.as_object().unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn each_automation_tick_starts_one_run_across_nodes() {
    let env = TestEnv::new().await;
    let one = env.host().await;
    let two = env.host().await;
    put(&one, "hourly", json!({"every": "PT1H"})).await;
    assert_eq!(fire(&one).await.changed, 0);
    one.at(3_600);
    let (a, b) = tokio::join!(fire(&one), fire(&two));
    assert_eq!(a.changed + b.changed, 1);
    one.at(6 * 3_600 + 30);
    assert_eq!(
        (fire(&two).await.changed, fire(&one).await.changed),
        (1, 0),
        "what was missed is one"
    );
    let events = one.events("automation.fired").await;
    assert_eq!(
        (events.len(), one.events("run.started").await.len()),
        (2, 2)
    );
    let run = events[1].body.payload()["enqueuedRunId"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = one.engine.get_run(&one.caller, &run).await.unwrap();
    assert_eq!(run.state.inputs["automationId"], json!("hourly"));
    let info = one
        .engine
        .get_automation(&one.caller, "hourly")
        .await
        .unwrap();
    assert_eq!(info.last_run_id.as_deref(), Some(run.id.as_str()));
    assert_eq!(
        info.next_due.map(|at| (at.0 - NOON.0) / 1_000),
        Some(7 * 3_600)
    );
}

#[tokio::test]
async fn a_one_time_automation_fires_once_and_a_paused_one_does_not_fire() {
    let node = TestEnv::new().await.host().await;
    put(&node, "once", json!({"at": "2023-11-14T23:13:20Z"})).await;
    put(&node, "paused", json!({"every": "PT1H"})).await;
    node.engine
        .set_automation_enabled(&node.caller, "paused", false)
        .await
        .unwrap();
    node.at(2 * 3_600);
    assert_eq!(fire(&node).await.changed, 1);
    node.at(48 * 3_600);
    assert_eq!(fire(&node).await.changed, 0);
    assert_eq!(node.events("automation.fired").await.len(), 1);
}

#[tokio::test]
async fn an_automation_without_its_workflow_is_skipped_until_its_next_tick() {
    let node = TestEnv::new().await.host().await;
    put(&node, "hourly", json!({"every": "PT1H"})).await;
    node.engine
        .delete_workflow(&node.caller, "tidy-up")
        .await
        .unwrap();
    node.at(3_600);
    fire(&node).await;
    assert_eq!(fire(&node).await.examined, 0, "it waits for its next time");
    assert!(node.events("automation.fired").await.is_empty());
}
