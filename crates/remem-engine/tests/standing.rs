//! What surfaces rely on: promises that are made again, the names that heartbeats go by, what
//! writers may do, and the looks of conformance checks.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared has failed"
)]

mod common;

use common::{Ground, Node};
use remem_core::commitment::State;
use remem_core::{Draft, Permission, Rejection};
use remem_engine::EngineError;
use remem_engine::commitments::{
    Changed, CommitmentInfo, CommitmentQuery, NewCommitment, NewRules,
};
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::keys::KeyRequest;
use remem_engine::registry::{self, Mode};
use serde_json::json;

async fn pass(node: &Node, name: &str) {
    node.engine
        .run_pass(
            registry::find(name).unwrap(),
            node.caller.tenant(),
            Mode::Apply,
        )
        .await
        .unwrap();
}

async fn say(node: &Node, text: &str) {
    let draft = Draft {
        content: text.to_owned(),
        ..Draft::default()
    };
    node.engine
        .put(&node.caller, "m", vec![draft], None)
        .await
        .unwrap();
    pass(node, "infer").await;
}

async fn all(node: &Node) -> Vec<CommitmentInfo> {
    node.engine
        .commitments(&node.caller, &CommitmentQuery::default())
        .await
        .unwrap()
        .commitments
}

/// Fires are named by how often the predicate has come true: a commitment that follows another must
/// not begin at one again.
#[tokio::test]
async fn the_same_promise_can_be_made_again_once_it_was_kept() {
    let node = Ground::fresh().await.node().await;
    for round in 1..=3 {
        node.at(round * 10);
        let predicate = Some("the invoice has cleared".to_owned());
        let new = NewCommitment {
            text: "Ship the parcel.".to_owned(),
            predicate,
            ..NewCommitment::default()
        };
        let made = node
            .engine
            .create_commitment(&node.caller, "m", new, None)
            .await
            .unwrap();
        assert!(!made.replayed);
        assert_eq!(
            node.engine
                .observe(&node.caller, "m", "invoice cleared", true)
                .await
                .unwrap()
                .fired,
            [made.info.id.as_str()]
        );
        assert_eq!(
            node.engine
                .commitment(&node.caller, &made.info.id)
                .await
                .unwrap()
                .commitment
                .fired,
            round as u64
        );
    }
    assert_eq!(node.events("commitment.fired").await.len(), 3);
}

#[tokio::test]
async fn what_is_said_again_after_it_ended_is_meant_again() {
    let node = Ground::fresh().await.node().await;
    say(&node, "Let me know when the invoice clears.").await;
    let id = all(&node).await.remove(0).id;
    say(&node, "Let me know when the invoice clears.").await;
    assert_eq!(all(&node).await.len(), 1, "said twice, meant once");
    node.at(10);
    node.engine
        .observe(&node.caller, "m", "invoice cleared", true)
        .await
        .unwrap();
    assert_eq!(all(&node).await[0].commitment.state, State::Done);
    node.at(20);
    say(&node, "Let me know when the invoice clears.").await;
    let again = all(&node).await;
    assert_eq!(
        (again.len(), again[0].id.as_str(), again[0].commitment.state),
        (1, id.as_str(), State::Armed)
    );
    node.engine
        .observe(&node.caller, "m", "invoice cleared", true)
        .await
        .unwrap();
    assert_eq!(node.events("commitment.fired").await.len(), 2);
    node.at(30);
    say(&node, "Remind me in 2 days to call the bank.").await;
    let one = all(&node)
        .await
        .into_iter()
        .find(|one| one.commitment.state == State::Armed)
        .unwrap();
    node.engine
        .change_commitment(&node.caller, &one.id, Changed::Cancel)
        .await
        .unwrap();
    pass(&node, "infer").await;
    assert_eq!(
        node.engine
            .commitment(&node.caller, &one.id)
            .await
            .unwrap()
            .commitment
            .state,
        State::Cancelled,
        "it is not read again"
    );
}

#[tokio::test]
async fn names_of_heartbeats_hold_no_secrets() {
    let node = Ground::fresh().await.node().await;
    let new = |memory_ref: &str, tag: &str| NewHeartbeat {
        memory_ref: memory_ref.to_owned(),
        key: "invoice cleared".to_owned(),
        tag: tag.to_owned(),
        every_seconds: 60,
        enabled: true,
    };
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    for (field, wrong) in [
        ("memoryRef", new(secret, "paid")),
        ("tag", new("m", secret)),
    ] {
        let refused = node
            .engine
            .put_heartbeat(&node.caller, "h", wrong)
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, EngineError::Rejected(Rejection::SecretInName { field: at }) if *at == field),
            "{refused}"
        );
    }
    assert!(
        node.engine
            .heartbeats(&node.caller)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_key_that_may_write_needs_no_right_to_read() {
    let node = Ground::fresh().await.node().await;
    let request = |permissions: &[Permission]| KeyRequest {
        tenant: node.caller.tenant().clone(),
        label: String::new(),
        permissions: permissions.to_vec(),
        expires_at: None,
        principal: None,
    };
    node.engine
        .add_key("writer", request(&[Permission::MemoryWrite]))
        .await
        .unwrap();
    node.engine
        .add_key("admin", request(&[Permission::MemoryAdmin]))
        .await
        .unwrap();
    let writer = node.engine.authenticate("writer").await.unwrap();
    let admin = node.engine.authenticate("admin").await.unwrap();
    let new = NewCommitment {
        text: "Remind me in 2 days to call the bank.".to_owned(),
        ..NewCommitment::default()
    };
    let made = node
        .engine
        .create_commitment(&writer, "m", new, None)
        .await
        .unwrap()
        .info;
    let told = node.engine.explain(&writer, made.clone()).await.unwrap();
    assert!(told.entry.is_none() && told.words.is_none());
    node.engine
        .change_commitment(&writer, &made.id, Changed::Cancel)
        .await
        .unwrap();
    let rules = NewRules {
        arm: Some("off".to_owned()),
        ..NewRules::default()
    };
    assert_eq!(
        node.engine
            .put_commitment_rules(&admin, None, rules)
            .await
            .unwrap()
            .arm
            .as_str(),
        "off"
    );
    assert!(
        matches!(
            node.engine
                .tick_heartbeat(&node.caller, "h", &json!(1), 0)
                .await,
            Err(EngineError::NotFound)
        ),
        "no seams here"
    );
    let rehearsed = node
        .engine
        .rehearse_commitment(&node.caller, "m", "predicate")
        .await;
    assert!(matches!(rehearsed, Err(EngineError::NotFound)), "nor here");
}
