//! Commitments recognised in entries: which texts make one, when it is armed, and which never do.

use super::{DAY, all, fires, pass, put, say, say_tagged, text};
use remem_core::commitment::{CommitmentState, EndedBy};
use remem_core::{Draft, Timestamp};
use remem_engine::EngineError;
use remem_engine::commitments::{CommitmentChange, NewCommitmentRules};
use remem_engine::registry::{self, PassKind};
use remem_testkit::{NOON, TestEnv};
use serde_json::json;

#[tokio::test]
async fn an_inferred_commitment_is_armed_by_the_pass_and_fires_once() {
    let node = TestEnv::new().await.host().await;
    let id = say(&node, "Remind me tomorrow at 9am to renew the certificate.").await;
    let found = all(&node).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let one = &found[0];
    assert_eq!(
        (
            one.commitment.state,
            one.source.as_ref().map(|s| s.as_str())
        ),
        (CommitmentState::Armed, Some(id.as_str()))
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
    let events = node.events("commitment.fired").await;
    assert_eq!(events.len(), 1);
    assert!(events[0].run.is_none());
    let payload = events[0].body.payload();
    assert_eq!(
        payload,
        json!({"commitmentId": one.id, "memoryRef": "m", "memoryId": id, "condition": "time"}),
        "exactly these keys"
    );
    assert!(!payload.to_string().contains("renew") && !one.id.contains("renew"));
    let one = node
        .engine
        .get_commitment(&node.caller, &one.id)
        .await
        .unwrap();
    assert_eq!(
        (one.commitment.state, one.commitment.fired),
        (CommitmentState::Done, 1)
    );
    let notes = node
        .engine
        .list_firings(&node.caller, &one.id, None, None)
        .await
        .unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(Some(notes[0].scheduled_at.0), one.commitment.last_fired_at);
}

#[tokio::test]
async fn an_untrusted_commitment_does_not_fire_until_a_caller_arms_it() {
    let node = TestEnv::new().await.host().await;
    say_tagged(
        &node,
        "Remind me tomorrow at 9am to wire the money.",
        &["source:web"],
    )
    .await;
    assert_eq!(
        all(&node).await[0].commitment.state,
        CommitmentState::Pending
    );
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
    let id = all(&node).await[0].id.clone();
    let late = node
        .engine
        .change_commitment(&node.caller, &id, CommitmentChange::Confirm)
        .await
        .unwrap_err();
    assert!(matches!(late, EngineError::Rejected(_)), "{late}");
    let until = NOON.plus_ms(3 * DAY * 1_000);
    assert_eq!(
        node.engine
            .change_commitment(&node.caller, &id, CommitmentChange::Snooze(until))
            .await
            .unwrap()
            .commitment
            .state,
        CommitmentState::Armed
    );
    node.at(4 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 1);
    let ended = node
        .engine
        .change_commitment(&node.caller, &id, CommitmentChange::Cancel)
        .await
        .unwrap_err();
    assert!(matches!(
        ended,
        EngineError::CommitmentState {
            state: CommitmentState::Done
        }
    ));
}

#[tokio::test]
async fn an_unconfirmed_commitment_is_cancelled_and_later_purged() {
    let node = TestEnv::new().await.host().await;
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
        (CommitmentState::Cancelled, Some(EndedBy::Unconfirmed))
    );
    assert_eq!(node.events("commitment.ended").await.len(), 1);
    node.at(200 * DAY);
    pass(&node, "fire").await;
    assert!(all(&node).await.is_empty(), "and forgotten after a while");
}

#[tokio::test]
async fn commitment_rules_control_arming_and_time_zone() {
    let node = TestEnv::new().await.host().await;
    let rules = |arm: &str| NewCommitmentRules {
        arm: Some(arm.to_owned()),
        zone: Some("Asia/Kolkata".to_owned()),
        ..NewCommitmentRules::default()
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
    assert_eq!(one.commitment.state, CommitmentState::Pending);
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
            NewCommitmentRules {
                zone: Some("Mars/Olympus".into()),
                ..NewCommitmentRules::default()
            },
        )
        .await;
    assert!(matches!(bad, Err(EngineError::Rejected(r)) if r.field() == Some("zone")));
}

/// The node that was to read the entry has crashed: another one reads it after its instant, and the
/// commitment fires late instead of never.
#[tokio::test]
async fn an_overdue_inferred_commitment_fires_late_unless_long_past() {
    let node = TestEnv::new().await.host().await;
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
async fn a_promise_already_past_when_written_creates_no_commitment() {
    let node = TestEnv::new().await.host().await;
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

/// A page of the log is read with one call, and each entry is read once, even if a fact in it has
/// to wait for the promise before it.
#[tokio::test]
async fn a_page_of_entries_is_read_once_and_with_one_call() {
    let env = TestEnv::sqlite();
    let node = env.host().await;
    pass(&node, "infer").await;
    let mut drafts: Vec<Draft> = (0..100).map(|n| text(&format!("Note {n}."))).collect();
    for what in ["report", "contract", "invoice", "letter", "form"] {
        drafts.push(text(&format!("Remind me when the {what} is filed.")));
        drafts.push(text(&format!("The {what} has been filed.")));
    }
    let all = drafts.len() as u64;
    node.engine
        .put(&node.caller, "m", drafts, None)
        .await
        .unwrap();
    let PassKind::Tenant { has_work, .. } = registry::find("infer").unwrap().kind else {
        panic!("it works on tenants");
    };
    for method in ["get", "named_entries"] {
        env.faults.take_calls(method);
    }
    assert!(has_work(&node.engine, node.tenant()).await.unwrap());
    assert_eq!(env.faults.take_calls("named_entries").calls, 0);
    let report = pass(&node, "infer").await;
    assert_eq!((report.examined, report.changed), (all, 5));
    let named = env.faults.take_calls("named_entries");
    assert_eq!((named.calls, named.entries), (1, all));
    let read = env.faults.take_calls("get").calls;
    assert_eq!(
        (fires(&node).await, read),
        (5, 5),
        "one for each that fires"
    );
    assert!(!has_work(&node.engine, node.tenant()).await.unwrap());
}
