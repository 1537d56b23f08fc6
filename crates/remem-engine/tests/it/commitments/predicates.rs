//! Commitments that wait for a predicate: facts, observations and heartbeats make it true.

use super::{all, fires, pass, put, say, say_tagged, text};
use remem_core::Rejection;
use remem_core::commitment::CommitmentState;
use remem_engine::EngineError;
use remem_engine::commitments::CommitmentInfo;
use remem_engine::heartbeats::NewHeartbeat;
use remem_testkit::TestEnv;

#[tokio::test]
async fn a_predicate_fires_when_it_comes_true() {
    let node = TestEnv::new().await.host().await;
    say(&node, "Let me know when the invoice clears.").await;
    let one = all(&node).await.remove(0);
    assert_eq!(one.commitment.condition_kind(), "predicate", "{one:?}");
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
async fn a_written_fact_counts_as_an_observation_if_trusted() {
    let node = TestEnv::new().await.host().await;
    say(&node, "Remind me when the report is filed.").await;
    assert_eq!(all(&node).await.len(), 1);
    say_tagged(&node, "The report has been filed.", &["source:web"]).await;
    assert_eq!(fires(&node).await, 0, "nobody vouches for it");
    say(&node, "The report has been filed.").await;
    assert_eq!(fires(&node).await, 1);
}

#[tokio::test]
async fn a_heartbeat_is_evaluated_once_per_tick_and_reports_changes_only() {
    let node = TestEnv::new().await.host().await;
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

/// One page of the log holds both the commitment and the fact it waited for: the order of the log
/// decides, not that of the pages.
#[tokio::test]
async fn a_fact_fires_only_commitments_written_before_it() {
    let node = TestEnv::new().await.host().await;
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
        .filter(|one| one.commitment.state == CommitmentState::Armed)
        .collect();
    assert_eq!(open.len(), 1);
    put(&node, text("The report has been filed.")).await;
    pass(&node, "infer").await;
    assert_eq!(fires(&node).await, 2);
    assert_eq!(pass(&node, "infer").await.examined, 0);
}

#[tokio::test]
async fn a_heartbeat_with_a_secret_in_its_memory_ref_or_tag_is_refused() {
    let node = TestEnv::new().await.host().await;
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
            .list_heartbeats(&node.caller)
            .await
            .unwrap()
            .is_empty()
    );
}
