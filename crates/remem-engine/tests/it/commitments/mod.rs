//! Commitments: from a text in which they are recognised, or a request that creates them, to the
//! single event when they fire.

mod concurrency;
mod delivery;
mod faults;
mod inference;
mod lifecycle;
mod model;
mod predicates;
mod recurrence;

use remem_core::Draft;
use remem_engine::commitments::{CommitmentInfo, CommitmentQuery, NewCommitment};
use remem_engine::registry::{self, PassMode, PassReport};
use remem_testkit::{NOON, TestHost};

const DAY: i64 = 86_400;

async fn pass(node: &TestHost, name: &str) -> PassReport {
    node.engine
        .run_pass(
            registry::find(name).unwrap(),
            node.caller.tenant(),
            PassMode::Apply,
        )
        .await
        .unwrap()
}

async fn say(node: &TestHost, text: &str) -> String {
    say_tagged(node, text, &[]).await
}

async fn say_tagged(node: &TestHost, text: &str, tags: &[&str]) -> String {
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

async fn all(node: &TestHost) -> Vec<CommitmentInfo> {
    node.engine
        .list_commitments(&node.caller, &CommitmentQuery::default())
        .await
        .unwrap()
        .commitments
}

async fn fires(node: &TestHost) -> usize {
    node.events("commitment.fired").await.len()
}

fn by_hand(text: &str, seconds: i64) -> NewCommitment {
    NewCommitment {
        text: text.to_owned(),
        at: Some(NOON.plus_ms(seconds * 1_000)),
        ..NewCommitment::default()
    }
}

async fn put(node: &TestHost, draft: Draft) -> String {
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

fn awaiting(text: &str, predicate: &str) -> NewCommitment {
    NewCommitment {
        text: text.to_owned(),
        predicate: Some(predicate.to_owned()),
        ..NewCommitment::default()
    }
}
