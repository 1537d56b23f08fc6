//! What a fired commitment starts, and what happens while its run cannot be started.

use super::{all, awaiting, by_hand, fires, pass, put, text};
use remem_core::commitment::{CommitmentState, Delivery};
use remem_core::{
    Admission, Batch, Draft, Policy, Precondition, RecordKind, RecordLinks, Redactor,
};
use remem_engine::EngineError;
use remem_engine::commitments::NewCommitment;
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::registry::{self, PassMode};
use remem_testkit::{NOON, TestEnv, TestHost};
use serde_json::json;

async fn with_workflow(node: &TestHost) -> Delivery {
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    node.engine
        .put_workflow(
            &node.caller,
            "remind",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    }
}

#[tokio::test]
async fn a_fired_commitment_starts_its_run_in_the_same_commit() {
    let node = TestEnv::new().await.host().await;
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    node.engine
        .put_workflow(
            &node.caller,
            "remind",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let delivery = Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    };
    let new = NewCommitment {
        delivery,
        ..by_hand("Water the plants.", 60)
    };
    let one = node
        .engine
        .create_commitment(&node.caller, "m", new, None)
        .await
        .unwrap()
        .info;
    node.at(61);
    pass(&node, "fire").await;
    let fired = node.events("commitment.fired").await.remove(0);
    let run = fired.body.payload()["enqueuedRunId"]
        .as_str()
        .unwrap()
        .to_owned();
    let started = node.events("run.started").await.remove(0);
    assert_eq!(
        (
            started.revision,
            started.run.as_ref().map(|run| run.id.as_str())
        ),
        (fired.revision, Some(run.as_str()))
    );
    let run = node.engine.get_run(&node.caller, &run).await.unwrap();
    assert_eq!(run.state.inputs["commitmentId"], json!(one.id));
    assert_eq!(run.state.principal, "remembrancer");
    assert!(
        !json!(run.state.inputs).to_string().contains("plants"),
        "what was meant stays in memory"
    );
    let missing = Delivery {
        workflow_id: Some("nothing".to_owned()),
        ..Delivery::default()
    };
    let refused = node
        .engine
        .create_commitment(
            &node.caller,
            "m",
            NewCommitment {
                delivery: missing,
                ..by_hand("x", 99)
            },
            None,
        )
        .await;
    assert!(matches!(refused, Err(EngineError::UnknownWorkflow)));
}

#[tokio::test]
async fn a_commitment_fires_without_a_run_if_its_workflow_is_gone() {
    let node = TestEnv::new().await.host().await;
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    node.engine
        .put_workflow(
            &node.caller,
            "remind",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let delivery = Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    };
    node.engine
        .create_commitment(
            &node.caller,
            "m",
            NewCommitment {
                delivery,
                ..by_hand("x y z", 60)
            },
            None,
        )
        .await
        .unwrap();
    node.engine
        .delete_workflow(&node.caller, "remind")
        .await
        .unwrap();
    node.at(61);
    pass(&node, "fire").await;
    assert_eq!(
        node.events("commitment.fired").await[0]
            .body
            .payload()
            .get("enqueuedRunId"),
        None
    );
}

#[tokio::test]
async fn a_memory_at_its_open_run_limit_delays_further_fires() {
    let mut env = TestEnv::new().await;
    env.policy.commitment_runs_max = 2;
    let node = env.host().await;
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    node.engine
        .put_workflow(
            &node.caller,
            "remind",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    for n in 0..5 {
        let delivery = Delivery {
            workflow_id: Some("remind".to_owned()),
            ..Delivery::default()
        };
        let new = NewCommitment {
            delivery,
            ..by_hand(&format!("Thing number {n} is to be done."), 60 + n)
        };
        node.engine
            .create_commitment(&node.caller, "m", new, None)
            .await
            .unwrap();
    }
    node.at(100);
    for _ in 0..3 {
        pass(&node, "fire").await;
    }
    let runs = node.events("commitment.fired").await;
    assert_eq!(runs.len(), 2, "the others stay due");
    for fired in runs {
        let run = fired.body.payload()["enqueuedRunId"]
            .as_str()
            .unwrap()
            .to_owned();
        node.engine.cancel_run(&node.caller, &run).await.unwrap();
    }
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 4, "as runs end, others follow");
}

/// More runs go on than are examined at a time; the one that has ended is behind them.
#[tokio::test]
async fn an_ended_run_is_found_among_many_that_continue() {
    const RUNS: usize = 70;
    let mut env = TestEnv::new().await;
    env.policy.commitment_runs_max = RUNS;
    let node = env.host().await;
    let delivery = with_workflow(&node).await;
    for n in 0..=RUNS {
        let new = NewCommitment {
            delivery: delivery.clone(),
            ..by_hand(&format!("Thing {n} is to be done."), 60)
        };
        node.engine
            .create_commitment(&node.caller, "m", new, None)
            .await
            .unwrap();
    }
    node.at(100);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, RUNS, "the last one waits");
    let notes = node
        .env
        .store
        .records(node.tenant(), RecordKind::Firing, "", None, 1_000)
        .await
        .unwrap();
    let run = notes.last().unwrap().body["runId"].as_str().unwrap();
    node.engine.cancel_run(&node.caller, run).await.unwrap();
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, RUNS + 1);
}

/// The observation is not repeated, so it must be kept until a run can be started.
#[tokio::test]
async fn a_predicate_met_at_the_run_limit_fires_when_a_run_ends() {
    let mut env = TestEnv::new().await;
    env.policy.commitment_runs_max = 1;
    let node = env.host().await;
    let delivery = with_workflow(&node).await;
    for n in 0..3 {
        let new = NewCommitment {
            delivery: delivery.clone(),
            ..awaiting(&format!("Pay bill {n}."), "invoice arrived")
        };
        node.engine
            .create_commitment(&node.caller, "m", new, None)
            .await
            .unwrap();
    }
    let heartbeat = NewHeartbeat {
        memory_ref: "m".into(),
        key: "invoice arrived".into(),
        tag: "paid".into(),
        every_seconds: 60,
        enabled: true,
    };
    node.engine
        .put_heartbeat(&node.caller, "h", heartbeat)
        .await
        .unwrap();
    put(
        &node,
        Draft {
            tags: vec!["paid".to_owned()],
            ..text("It came.")
        },
    )
    .await;
    for round in 1..=3 {
        node.at(round * 100);
        pass(&node, "fire").await;
        let events = node.events("commitment.fired").await;
        assert_eq!(events.len(), round as usize, "one after the other");
        let run = events.last().unwrap().body.payload()["enqueuedRunId"]
            .as_str()
            .unwrap()
            .to_owned();
        node.engine.cancel_run(&node.caller, &run).await.unwrap();
    }
    node.at(1_000);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 3);
    assert!(
        all(&node)
            .await
            .iter()
            .all(|one| one.commitment.state == CommitmentState::Done && one.commitment.fired == 1)
    );
}

#[tokio::test]
async fn a_memory_at_its_run_limit_does_not_delay_other_memories() {
    let mut env = TestEnv::new().await;
    (env.policy.commitment_runs_max, env.policy.fires_max) = (1, 8);
    let node = env.host().await;
    let delivery = with_workflow(&node).await;
    for n in 0..300 {
        let new = NewCommitment {
            delivery: delivery.clone(),
            ..by_hand(&format!("Thing {n} is to be done."), 10)
        };
        node.engine
            .create_commitment(&node.caller, "m", new, None)
            .await
            .unwrap();
    }
    node.engine
        .create_commitment(&node.caller, "other", by_hand("Look at me.", 20), None)
        .await
        .unwrap();
    node.at(30);
    pass(&node, "fire").await;
    assert!(
        node.events("commitment.fired")
            .await
            .iter()
            .any(|event| event.body.payload()["memoryRef"] == "other")
    );
}

#[tokio::test]
async fn unreadable_commitments_do_not_block_others() {
    let node = TestEnv::new().await.host().await;
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    };
    let mut batch = Batch::new(node.caller.tenant().clone(), NOON);
    for n in 0..130 {
        let body = admission.redact_record(
            json!({"of": "a later version"})
                .as_object()
                .cloned()
                .unwrap(),
        );
        batch = batch.set_record_with_ties(
            RecordKind::Commitment,
            format!("strange-{n}"),
            Precondition::Absent,
            body,
            RecordLinks::due_at(NOON),
        );
    }
    node.env.store.commit(batch).await.unwrap();
    node.engine
        .create_commitment(&node.caller, "m", by_hand("Look at me.", 20), None)
        .await
        .unwrap();
    node.at(30);
    let failed = node
        .engine
        .run_pass(
            registry::find("fire").unwrap(),
            node.caller.tenant(),
            PassMode::Apply,
        )
        .await;
    assert!(failed.is_err(), "it is told of");
    assert_eq!(fires(&node).await, 1);
}

/// A workflow that writes a commitment would otherwise start itself again and again.
#[tokio::test]
async fn text_written_by_a_run_creates_no_commitment() {
    let node = TestEnv::new().await.host().await;
    let config = json!({"memoryAction": "write", "memoryRef": "m", "content": "Remind me in one minute to look again."});
    let workflow =
        json!({"id": "again", "nodes": [{"id": "a", "typeId": "core.identity", "config": config}]});
    node.engine
        .put_workflow(
            &node.caller,
            "again",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let rules = remem_engine::commitments::NewCommitmentRules {
        delivery: Delivery {
            workflow_id: Some("again".to_owned()),
            ..Delivery::default()
        },
        ..remem_engine::commitments::NewCommitmentRules::default()
    };
    node.engine
        .put_commitment_rules(&node.caller, Some("m"), rules)
        .await
        .unwrap();
    put(&node, text("Remind me in one minute to look again.")).await;
    for minutes in 1..=5 {
        pass(&node, "infer").await;
        node.at(minutes * 61);
        pass(&node, "fire").await;
        for fired in node.payloads("commitment.fired").await {
            let run = fired["enqueuedRunId"].as_str().unwrap();
            let run = node.engine.get_run(&node.caller, run).await.unwrap();
            node.run_to_end(&run).await;
        }
    }
    assert_eq!(fires(&node).await, 1);
    let written = node.live("m").await;
    assert_eq!(written.len(), 2);
    assert_eq!(written[0].tags, ["source:run"]);
    // What a replay repeats makes no commitment either.
    let fired = node.payloads("commitment.fired").await.remove(0);
    let run = fired["enqueuedRunId"].as_str().unwrap();
    let run = node.engine.get_run(&node.caller, run).await.unwrap();
    node.replay(&run).await;
    pass(&node, "infer").await;
    node.at(3_600);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 1);
}
