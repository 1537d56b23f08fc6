//! Commitments from the text to the fire: read out of entries, armed, fired once, gone with their
//! source.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared has failed"
)]

mod common;

use common::{Ground, NOON, Node};
use remem_core::commitment::{Delivery, EndedBy, State};
use remem_core::{Draft, Timestamp};
use remem_engine::EngineError;
use remem_engine::commitments::{
    Changed, CommitmentInfo, CommitmentQuery, NewCommitment, NewRules,
};
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::registry::{self, Mode, PassReport};
use serde_json::json;

const DAY: i64 = 86_400;

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

async fn say(node: &Node, text: &str) -> String {
    say_tagged(node, text, &[]).await
}

async fn say_tagged(node: &Node, text: &str, tags: &[&str]) -> String {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let draft = Draft {
        content: text.to_owned(),
        tags,
        ..Draft::default()
    };
    let id = node
        .engine
        .put(&node.caller, "m", vec![draft], None)
        .await
        .unwrap()
        .entries[0]
        .id
        .as_str()
        .to_owned();
    pass(node, "infer").await;
    id
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

#[tokio::test]
async fn a_promise_is_armed_off_the_path_of_the_writer_and_fires_once() {
    let node = Ground::fresh().await.node().await;
    let id = say(&node, "Remind me tomorrow at 9am to renew the certificate.").await;
    let found = all(&node).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let one = &found[0];
    assert_eq!(
        (
            one.commitment.state,
            one.source.as_ref().map(|s| s.as_str())
        ),
        (State::Armed, Some(id.as_str()))
    );
    assert_eq!(
        pass(&node, "infer").await.changed,
        0,
        "a second look finds nothing new"
    );
    assert_eq!(pass(&node, "fire").await.changed, 0, "not before its time");
    node.at(2 * DAY);
    assert_eq!(pass(&node, "fire").await.changed, 1);
    assert_eq!(pass(&node, "fire").await.changed, 0);
    let told = node.events("commitment.fired").await;
    assert_eq!(told.len(), 1);
    assert!(told[0].run.is_none());
    let payload = told[0].body.payload();
    assert_eq!(
        payload,
        json!({"commitmentId": one.id, "memoryRef": "m", "memoryId": id, "condition": "time"}),
        "exactly these keys"
    );
    assert!(!payload.to_string().contains("renew") && !one.id.contains("renew"));
    let one = node.engine.commitment(&node.caller, &one.id).await.unwrap();
    assert_eq!(
        (one.commitment.state, one.commitment.fired),
        (State::Done, 1)
    );
    let notes = node
        .engine
        .commitment_fires(&node.caller, &one.id, None, None)
        .await
        .unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(Some(notes[0].scheduled_at.0), one.commitment.last_fired_at);
}

#[tokio::test]
async fn nobody_arms_what_nobody_vouches_for() {
    let node = Ground::fresh().await.node().await;
    say_tagged(
        &node,
        "Remind me tomorrow at 9am to wire the money.",
        &["source:web"],
    )
    .await;
    assert_eq!(all(&node).await[0].commitment.state, State::Pending);
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
    let id = all(&node).await[0].id.clone();
    let late = node
        .engine
        .change_commitment(&node.caller, &id, Changed::Confirm)
        .await
        .unwrap_err();
    assert!(matches!(late, EngineError::Rejected(_)), "{late}");
    let until = NOON.plus_ms(3 * DAY * 1_000);
    assert_eq!(
        node.engine
            .change_commitment(&node.caller, &id, Changed::Snooze(until))
            .await
            .unwrap()
            .commitment
            .state,
        State::Armed
    );
    node.at(4 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 1);
    let ended = node
        .engine
        .change_commitment(&node.caller, &id, Changed::Cancel)
        .await
        .unwrap_err();
    assert!(matches!(
        ended,
        EngineError::CommitmentState { state: State::Done }
    ));
}

#[tokio::test]
async fn what_is_not_confirmed_is_dropped_in_the_end() {
    let node = Ground::fresh().await.node().await;
    say_tagged(
        &node,
        "Remind me in 200 days to look again.",
        &["source:tool"],
    )
    .await;
    node.at(15 * DAY);
    pass(&node, "fire").await;
    let one = all(&node).await.remove(0);
    assert_eq!(
        (one.commitment.state, one.commitment.ended_by),
        (State::Cancelled, Some(EndedBy::Unconfirmed))
    );
    assert_eq!(node.events("commitment.ended").await.len(), 1);
    node.at(200 * DAY);
    pass(&node, "fire").await;
    assert!(all(&node).await.is_empty(), "and forgotten after a while");
}

#[tokio::test]
async fn a_memory_decides_what_becomes_of_promises() {
    let node = Ground::fresh().await.node().await;
    let rules = |arm: &str| NewRules {
        arm: Some(arm.to_owned()),
        zone: Some("Asia/Kolkata".to_owned()),
        ..NewRules::default()
    };
    node.engine
        .put_commitment_rules(&node.caller, None, rules("off"))
        .await
        .unwrap();
    say(&node, "Remind me tomorrow at 9am to renew the certificate.").await;
    assert!(all(&node).await.is_empty());
    node.engine
        .put_commitment_rules(&node.caller, Some("m"), rules("confirm"))
        .await
        .unwrap();
    say(&node, "Remind me tomorrow at 9am to renew the passport.").await;
    let one = all(&node).await.remove(0);
    assert_eq!(one.commitment.state, State::Pending);
    assert_eq!(
        one.commitment.next_at.map(|at| Timestamp(at).rfc3339()),
        Some("2023-11-16T03:30:00.000Z".to_owned()),
        "by its clocks"
    );
    let bad = node
        .engine
        .put_commitment_rules(
            &node.caller,
            None,
            NewRules {
                zone: Some("Mars/Olympus".into()),
                ..NewRules::default()
            },
        )
        .await;
    assert!(matches!(bad, Err(EngineError::Rejected(r)) if r.field() == Some("zone")));
}

#[tokio::test]
async fn a_commitment_goes_with_its_entry() {
    let node = Ground::fresh().await.node().await;
    let deleted = say(&node, "Remind me tomorrow at 9am to call the bank.").await;
    node.engine
        .delete(&node.caller, "m", &deleted, None)
        .await
        .unwrap();
    assert!(all(&node).await.is_empty());
    let subject = "person:4711";
    let about = NewCommitment {
        subjects: vec![subject.to_owned()],
        ..by_hand("Call Ada back.", DAY)
    };
    let one = node
        .engine
        .create_commitment(&node.caller, "m", about, None)
        .await
        .unwrap()
        .info;
    node.engine
        .forget(&node.caller, subject, false)
        .await
        .unwrap();
    assert!(matches!(
        node.engine.commitment(&node.caller, &one.id).await,
        Err(EngineError::NotFound)
    ));
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
}

#[tokio::test]
async fn what_expired_promises_nothing() {
    let node = Ground::fresh().await.node().await;
    let draft = Draft {
        content: "Remind me tomorrow at 9am to call the bank.".to_owned(),
        expires_at: Some(NOON.plus_ms(3_600_000)),
        ..Draft::default()
    };
    node.engine
        .put(&node.caller, "m", vec![draft], None)
        .await
        .unwrap();
    pass(&node, "infer").await;
    assert_eq!(all(&node).await.len(), 1);
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
}

#[tokio::test]
async fn a_predicate_fires_when_it_comes_true() {
    let node = Ground::fresh().await.node().await;
    say(&node, "Let me know when the invoice clears.").await;
    let one = all(&node).await.remove(0);
    assert_eq!(one.commitment.condition(), "predicate", "{one:?}");
    let see = async |key: &str, holds: bool| {
        node.engine
            .observe(&node.caller, "m", key, holds)
            .await
            .unwrap()
    };
    assert_eq!(see("invoice clears", false).await.fired.len(), 0);
    assert_eq!(see("something else happened", true).await.matched, 0);
    let seen = see("The invoice has cleared", true).await;
    assert_eq!((seen.matched, seen.fired), (1, vec![one.id.clone()]));
    assert_eq!(
        see("invoice cleared", true).await.matched,
        0,
        "it was meant once"
    );
    assert_eq!(fires(&node).await, 1);
    let other = node
        .engine
        .observe(&node.caller, "other", "invoice clears", true)
        .await
        .unwrap();
    assert_eq!(other.matched, 0, "another memory is another matter");
}

#[tokio::test]
async fn a_fact_that_somebody_writes_is_an_observation() {
    let node = Ground::fresh().await.node().await;
    say(&node, "Remind me when the report is filed.").await;
    assert_eq!(all(&node).await.len(), 1);
    say_tagged(&node, "The report has been filed.", &["source:web"]).await;
    assert_eq!(fires(&node).await, 0, "nobody vouches for it");
    say(&node, "The report has been filed.").await;
    assert_eq!(fires(&node).await, 1);
}

#[tokio::test]
async fn a_fired_commitment_starts_its_run_in_the_same_commit() {
    let node = Ground::fresh().await.node().await;
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
    let run = node.engine.run(&node.caller, &run).await.unwrap();
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
async fn what_cannot_be_started_any_more_is_told_all_the_same() {
    let node = Ground::fresh().await.node().await;
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
async fn too_many_open_runs_of_a_memory_hold_it_up() {
    let mut ground = Ground::fresh().await;
    ground.policy.commitment_runs_max = 2;
    let node = ground.node().await;
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

#[tokio::test]
async fn recurring_ones_go_on_and_missed_ticks_become_one() {
    let node = Ground::fresh().await.node().await;
    let new = NewCommitment {
        text: "Check the queue.".to_owned(),
        every: Some("PT1H".to_owned()),
        ..NewCommitment::default()
    };
    let one = node
        .engine
        .create_commitment(&node.caller, "m", new, Some("key"))
        .await
        .unwrap()
        .info;
    node.at(3_600);
    pass(&node, "fire").await;
    node.at(8 * 3_600 + 5);
    pass(&node, "fire").await;
    pass(&node, "fire").await;
    let notes = node
        .engine
        .commitment_fires(&node.caller, &one.id, None, None)
        .await
        .unwrap();
    let instants: Vec<i64> = notes
        .iter()
        .map(|note| (note.scheduled_at.0 - NOON.0) / 3_600_000)
        .collect();
    assert_eq!(instants, [1, 8]);
    let cancelled = node
        .engine
        .change_commitment(&node.caller, &one.id, Changed::Cancel)
        .await
        .unwrap();
    assert_eq!(
        (cancelled.commitment.state, cancelled.commitment.ended_by),
        (State::Cancelled, Some(EndedBy::Caller))
    );
    node.at(20 * 3_600);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 2);
}

#[tokio::test]
async fn a_commitment_is_explained_by_words_of_redacted_memory() {
    let node = Ground::fresh().await.node().await;
    let secret = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    say(
        &node,
        &format!("All is well. Remind me tomorrow at 9am to rotate {secret} please."),
    )
    .await;
    let one = all(&node).await.remove(0);
    let why = node
        .engine
        .explain_commitment(&node.caller, &one.id)
        .await
        .unwrap();
    let [sentence, cue, when] = why.words.unwrap();
    assert!(
        sentence.starts_with("Remind me tomorrow") && !sentence.contains(secret),
        "{sentence}"
    );
    assert_eq!(cue.to_lowercase(), "remind me");
    assert!(when.contains("tomorrow"), "{when}");
}

#[tokio::test]
async fn a_replay_infers_and_fires_nothing() {
    let node = Ground::fresh().await.node().await;
    let config = json!({"memoryAction": "write", "memoryRef": "m", "content": "Remind me tomorrow at 9am to renew the certificate."});
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
    let before = all(&node).await;
    assert_eq!(before.len(), 1, "what a run writes is read, too");
    node.engine
        .change_commitment(&node.caller, &before[0].id, Changed::Cancel)
        .await
        .unwrap();
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
    assert_eq!(node.events("commitment.created").await.len(), 1);
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
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

#[tokio::test]
async fn a_heartbeat_tells_of_changes_alone() {
    let node = Ground::fresh().await.node().await;
    say(&node, "Let me know when the invoice clears.").await;
    let new = NewHeartbeat {
        memory_ref: "m".to_owned(),
        key: "invoice cleared".to_owned(),
        tag: "paid".to_owned(),
        every_seconds: 1,
        enabled: true,
    };
    let heartbeat = node
        .engine
        .put_heartbeat(&node.caller, "invoices", new)
        .await
        .unwrap();
    assert_eq!(
        heartbeat.every_ms, 30_000,
        "what is too short becomes the shortest"
    );
    node.at(1);
    pass(&node, "fire").await;
    pass(&node, "fire").await;
    assert_eq!(
        (
            node.events("heartbeat.evaluated").await.len(),
            fires(&node).await
        ),
        (1, 0),
        "one look a tick"
    );
    say_tagged(&node, "Payment of the thing arrived.", &["paid"]).await;
    node.at(200);
    pass(&node, "fire").await;
    assert_eq!(
        (
            node.events("heartbeat.evaluated").await.len(),
            fires(&node).await
        ),
        (2, 1),
        "missed looks become one"
    );
    node.at(300);
    pass(&node, "fire").await;
    assert_eq!(
        (
            node.events("heartbeat.stateChanged").await.len(),
            fires(&node).await
        ),
        (2, 1)
    );
    node.engine
        .remove_heartbeat(&node.caller, "invoices")
        .await
        .unwrap();
    node.at(400);
    pass(&node, "fire").await;
    assert_eq!(node.events("heartbeat.evaluated").await.len(), 3);
}

/// Taking a late secret out of a record must not disarm it.
#[tokio::test]
async fn a_commitment_stays_armed_when_its_record_is_held_against_new_rules() {
    let ground = Ground::fresh().await;
    let node = ground.node().await;
    let predicate = Some("the hunter2hunter2 build is green".to_owned());
    let new = NewCommitment {
        text: "Tell the team.".to_owned(),
        predicate,
        ..NewCommitment::default()
    };
    let one = node
        .engine
        .create_commitment(&node.caller, "m", new, None)
        .await
        .unwrap()
        .info;
    node.engine
        .create_commitment(&node.caller, "m", by_hand("Water the plants.", 60), None)
        .await
        .unwrap();
    let key = remem_engine::HostKey::new([3; 32]);
    let secret = remem_core::redact::SecretValue::new("late", "hunter2hunter2");
    let parts = remem_engine::Parts::new(
        ground.store.clone(),
        ground.directory.clone(),
        ground.clock.clone(),
        ground.ids.clone(),
        key.clone(),
    );
    let engine = remem_engine::Engine::new(remem_engine::Parts {
        secrets: remem_engine::Secrets::new(&key, vec![(None, secret)]),
        ..parts
    });
    engine
        .run_pass(
            registry::find("rescan").unwrap(),
            node.caller.tenant(),
            Mode::Apply,
        )
        .await
        .unwrap();
    let stored = node
        .store
        .record(
            node.caller.tenant(),
            remem_core::RecordKind::Commitment,
            &one.id,
        )
        .await
        .unwrap()
        .unwrap();
    assert!(!json!(stored.body).to_string().contains("hunter2hunter2"));
    assert!(stored.ties.topic.is_some() && stored.ties.source.is_some());
    node.at(61);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 1, "what is due is due");
}

#[tokio::test]
async fn pages_go_through_all_of_them() {
    let node = Ground::fresh().await.node().await;
    for n in 0..7 {
        node.engine
            .create_commitment(
                &node.caller,
                "m",
                by_hand(&format!("Thing {n} is due."), 100 - n),
                None,
            )
            .await
            .unwrap();
    }
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let query = CommitmentQuery {
            limit: Some(3),
            after,
            memory_ref: Some("m".to_owned()),
            state: Some(State::Armed),
        };
        let page = node.engine.commitments(&node.caller, &query).await.unwrap();
        seen.extend(
            page.commitments
                .iter()
                .map(|one| one.commitment.next_at.unwrap()),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted(), "in the order of what happens next");
}
