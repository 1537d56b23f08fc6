//! Commitments that come again: the same promise after its end, facts that follow a promise
//! closely, nodes that read late.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared has failed"
)]

mod common;

use common::{Ground, NOON, Node};
use remem_core::commitment::{Delivery, State};
use remem_core::{Admission, Batch, Draft, Policy, Precondition, RecordKind, Redactor, Ties};
use remem_engine::commitments::{Changed, CommitmentInfo, CommitmentQuery, NewCommitment};
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::registry::{self, Mode, PassReport};
use remem_store_sql::{Location, SqliteStore};
use serde_json::json;
use std::sync::Arc;

async fn pass(node: &Node, name: &str) -> PassReport {
    node.engine
        .run_pass(
            registry::find(name).unwrap(),
            node.caller.tenant(),
            Mode::Apply,
        )
        .await
        .unwrap()
}

async fn put(node: &Node, draft: Draft) -> String {
    node.engine
        .put(&node.caller, "m", vec![draft], None)
        .await
        .unwrap()
        .entries[0]
        .id
        .as_str()
        .to_owned()
}

fn text(text: &str) -> Draft {
    Draft {
        content: text.to_owned(),
        ..Draft::default()
    }
}

async fn all(node: &Node) -> Vec<CommitmentInfo> {
    node.engine
        .commitments(&node.caller, &CommitmentQuery::default())
        .await
        .unwrap()
        .commitments
}

async fn fires(node: &Node) -> usize {
    node.events("commitment.fired").await.len()
}

fn by_hand(text: &str, seconds: i64) -> NewCommitment {
    NewCommitment {
        text: text.to_owned(),
        at: Some(NOON.plus_ms(seconds * 1_000)),
        ..NewCommitment::default()
    }
}

fn awaiting(text: &str, predicate: &str) -> NewCommitment {
    NewCommitment {
        text: text.to_owned(),
        predicate: Some(predicate.to_owned()),
        ..NewCommitment::default()
    }
}

async fn with_workflow(node: &Node) -> Delivery {
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

/// The notes of the first life outlive it; they must not be taken for those of the second.
#[tokio::test]
async fn what_is_promised_again_after_its_text_went_fires_again() {
    let node = Ground::fresh().await.node().await;
    for life in 1..=3 {
        let id = put(&node, text("Remind me when the report is filed.")).await;
        pass(&node, "infer").await;
        let fact = put(&node, text("The report has been filed.")).await;
        pass(&node, "infer").await;
        assert_eq!(fires(&node).await, life, "life {life}");
        node.engine
            .delete(&node.caller, "m", &id, None)
            .await
            .unwrap();
        node.engine
            .delete(&node.caller, "m", &fact, None)
            .await
            .unwrap();
        assert!(all(&node).await.is_empty());
    }
    put(&node, text("Remind me tomorrow at 9am to call the bank.")).await;
    pass(&node, "infer").await;
    assert_eq!(all(&node).await.len(), 1, "and reading goes on");
}

#[tokio::test]
async fn what_is_made_again_by_hand_after_it_fired_fires_again() {
    let node = Ground::fresh().await.node().await;
    for life in 1..=3 {
        node.engine
            .create_commitment(
                &node.caller,
                "m",
                awaiting("Pay the bill.", "invoice arrived"),
                None,
            )
            .await
            .unwrap();
        let seen = node
            .engine
            .observe(&node.caller, "m", "invoice arrived", true)
            .await
            .unwrap();
        assert_eq!(
            (seen.fired.len(), fires(&node).await),
            (1, life),
            "life {life}"
        );
    }
}

/// A process with a clock that is behind can set one to an instant for which it has fired. On
/// SQLite alone: on PostgreSQL the clock is the database's.
#[tokio::test]
async fn an_instant_that_was_fired_for_is_passed_over() {
    let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
    let ahead = Ground::sqlite(store);
    let behind = Ground {
        clock: Arc::new(remem_engine::ports::FixedClock::at(NOON)),
        ..ahead.clone()
    };
    let ahead = ahead.node().await;
    let behind = behind.node().await;
    let every = NewCommitment {
        text: "Check the queue.".to_owned(),
        every: Some("PT1H".to_owned()),
        ..NewCommitment::default()
    };
    let one = behind
        .engine
        .create_commitment(&behind.caller, "m", every, None)
        .await
        .unwrap()
        .info;
    ahead.at(3_600);
    pass(&ahead, "fire").await;
    assert_eq!(fires(&ahead).await, 1);
    let again = NOON.plus_ms(3_600_000);
    behind
        .engine
        .change_commitment(&behind.caller, &one.id, Changed::Snooze(again))
        .await
        .unwrap();
    ahead.at(3_601);
    pass(&ahead, "fire").await;
    assert_eq!(fires(&ahead).await, 1, "not twice for one instant");
    let one = ahead
        .engine
        .commitment(&ahead.caller, &one.id)
        .await
        .unwrap()
        .commitment;
    assert_eq!(
        (one.state, one.next_at, one.fired),
        (State::Armed, Some(NOON.plus_ms(7_200_000).0), 1),
        "and it goes on"
    );
    assert_eq!(
        pass(&ahead, "fire").await.examined,
        0,
        "nothing is left that would be tried for ever"
    );
}

/// One page of the log holds the promise and what it waited for: the order of the log decides, not
/// that of the pages.
#[tokio::test]
async fn a_fact_that_follows_its_promise_closely_is_not_lost() {
    let node = Ground::fresh().await.node().await;
    put(&node, text("The report has been filed.")).await;
    put(&node, text("Remind me when the report is filed.")).await;
    put(&node, text("Remind me when the contract is signed.")).await;
    put(&node, text("The contract has been signed.")).await;
    let report = pass(&node, "infer").await;
    assert_eq!((report.examined, report.changed), (4, 2));
    assert_eq!(
        fires(&node).await,
        1,
        "what was stated before the promise is not what it waits for"
    );
    let open: Vec<CommitmentInfo> = all(&node)
        .await
        .into_iter()
        .filter(|one| one.commitment.state == State::Armed)
        .collect();
    assert_eq!(open.len(), 1);
    put(&node, text("The report has been filed.")).await;
    pass(&node, "infer").await;
    assert_eq!(fires(&node).await, 2);
    assert_eq!(pass(&node, "infer").await.examined, 0);
}

/// The node that took the entry died: another one reads it after its instant, and is late rather
/// than silent.
#[tokio::test]
async fn what_is_read_late_fires_late_unless_that_is_long_ago() {
    let node = Ground::fresh().await.node().await;
    put(&node, text("Remind me in 10 minutes to call the bank.")).await;
    node.at(15 * 60);
    put(&node, text("Remind me in 30 minutes to call the office.")).await;
    pass(&node, "infer").await;
    pass(&node, "fire").await;
    assert_eq!((all(&node).await.len(), fires(&node).await), (2, 1));
    put(&node, text("Remind me in 5 minutes to feed the cat.")).await;
    node.at(86_400);
    pass(&node, "infer").await;
    assert_eq!(all(&node).await.len(), 2, "of yesterday");
}

#[tokio::test]
async fn a_promise_of_an_instant_that_had_passed_is_none() {
    let node = Ground::fresh().await.node().await;
    let origin = remem_core::Origin {
        id: remem_core::EntryId::parse("old").unwrap(),
        created_at: Some(NOON.plus_ms(-1_800_000)),
    };
    put(
        &node,
        Draft {
            origin: Some(origin),
            ..text("Remind me in 10 minutes to call the bank.")
        },
    )
    .await;
    pass(&node, "infer").await;
    assert!(all(&node).await.is_empty());
}

/// Nobody tells of it a second time: it has to be kept until there is room.
#[tokio::test]
async fn a_predicate_that_came_true_while_there_was_no_room_fires_when_there_is() {
    let mut ground = Ground::fresh().await;
    ground.policy.commitment_runs_max = 1;
    let node = ground.node().await;
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
        let told = node.events("commitment.fired").await;
        assert_eq!(told.len(), round as usize, "one after the other");
        let run = told.last().unwrap().body.payload()["enqueuedRunId"]
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
            .all(|one| one.commitment.state == State::Done && one.commitment.fired == 1)
    );
}

#[tokio::test]
async fn what_waits_for_room_keeps_no_other_memory_waiting() {
    let mut ground = Ground::fresh().await;
    (ground.policy.commitment_runs_max, ground.policy.fires_max) = (1, 8);
    let node = ground.node().await;
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
            .any(|told| told.body.payload()["memoryRef"] == "other")
    );
}

#[tokio::test]
async fn what_cannot_be_read_keeps_nobody_waiting() {
    let node = Ground::fresh().await.node().await;
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        scan: 1,
        now: NOON,
    };
    let mut batch = Batch::new(node.caller.tenant().clone(), NOON);
    for n in 0..130 {
        let body = admission.record(
            json!({"of": "a later version"})
                .as_object()
                .cloned()
                .unwrap(),
        );
        batch = batch.set_tied(
            RecordKind::Commitment,
            format!("strange-{n}"),
            Precondition::Absent,
            body,
            Ties::due(NOON),
        );
    }
    node.store.commit(batch).await.unwrap();
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
            Mode::Apply,
        )
        .await;
    assert!(failed.is_err(), "it is told of");
    assert_eq!(fires(&node).await, 1);
}

#[tokio::test]
async fn what_waits_for_a_predicate_ends_with_the_time_of_its_text() {
    let node = Ground::fresh().await.node().await;
    let ends = Some(NOON.plus_ms(3_600_000));
    put(
        &node,
        Draft {
            expires_at: ends,
            ..text("Remind me when the report is filed.")
        },
    )
    .await;
    pass(&node, "infer").await;
    node.at(7_200);
    let seen = node
        .engine
        .observe(&node.caller, "m", "report filed", true)
        .await
        .unwrap();
    assert_eq!(
        (seen.matched, seen.fired.len(), fires(&node).await),
        (1, 0, 0),
        "even before it is purged"
    );
}

/// The note of the first time may be gone by then, and so may the commitment: what a replay repeats
/// is not read all the same.
#[tokio::test]
async fn what_a_replay_repeats_promises_nothing_however_late() {
    let node = Ground::fresh().await.node().await;
    let config = json!({"memoryAction": "write", "memoryRef": "m", "content": "Remind me when the report is filed."});
    let workflow =
        json!({"id": "write", "nodes": [{"id": "a", "typeId": "core.identity", "config": config}]});
    node.engine
        .put_workflow(
            &node.caller,
            "write",
            workflow.as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let runs = remem_engine::runner::start_runs(&node.engine, &stopped);
    let new = remem_engine::runs::NewRun {
        workflow_id: "write".to_owned(),
        ..Default::default()
    };
    let run = node
        .engine
        .create_run(&node.caller, new, None)
        .await
        .unwrap()
        .run;
    finished(&node, run.id.as_str()).await;
    pass(&node, "infer").await;
    assert_eq!(
        node.engine
            .observe(&node.caller, "m", "report filed", true)
            .await
            .unwrap()
            .fired
            .len(),
        1
    );
    node.at(100 * 86_400);
    pass(&node, "fire").await;
    assert!(all(&node).await.is_empty(), "forgotten");
    let fork = remem_engine::runs::Fork {
        mode: remem_core::run::ForkMode::Replay,
        from_seq: None,
        overlay: None,
    };
    let replay = node
        .engine
        .fork_run(&node.caller, run.id.as_str(), fork, None)
        .await
        .unwrap();
    finished(&node, replay.run.id.as_str()).await;
    assert_eq!(pass(&node, "infer").await.changed, 0);
    assert!(all(&node).await.is_empty());
    stop.send(true).unwrap();
    runs.await.unwrap();
}

async fn finished(node: &Node, run: &str) {
    for _ in 0..1_000 {
        if node
            .engine
            .run(&node.caller, run)
            .await
            .unwrap()
            .state
            .status
            .is_terminal()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the run does not end");
}
