//! Repeated commitments: recurring ones, and the same commitment after an earlier one has ended.

use super::{all, awaiting, fires, pass, put, say, text};
use remem_core::commitment::{CommitmentState, EndedBy};
use remem_engine::commitments::{CommitmentChange, NewCommitment};
use remem_testkit::{NOON, TestEnv};
use std::sync::Arc;

#[tokio::test]
async fn a_recurring_commitment_fires_once_for_several_missed_ticks() {
    let node = TestEnv::new().await.host().await;
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
        .list_firings(&node.caller, &one.id, None, None)
        .await
        .unwrap();
    let instants: Vec<i64> = notes
        .iter()
        .map(|note| (note.scheduled_at.0 - NOON.0) / 3_600_000)
        .collect();
    assert_eq!(instants, [1, 8]);
    let cancelled = node
        .engine
        .change_commitment(&node.caller, &one.id, CommitmentChange::Cancel)
        .await
        .unwrap();
    assert_eq!(
        (cancelled.commitment.state, cancelled.commitment.ended_by),
        (CommitmentState::Cancelled, Some(EndedBy::Caller))
    );
    node.at(20 * 3_600);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 2);
}

/// The firing records of the earlier commitment are still there; they must not count for the new
/// one.
#[tokio::test]
async fn a_commitment_repeated_after_its_entry_was_deleted_fires_again() {
    let node = TestEnv::new().await.host().await;
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
async fn a_commitment_created_again_after_it_fired_fires_again() {
    let node = TestEnv::new().await.host().await;
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

/// A process whose clock is behind can snooze a commitment to an instant for which it has fired. On
/// SQLite only: on PostgreSQL the clock is the database's.
#[tokio::test]
async fn an_instant_that_has_already_fired_is_skipped() {
    let ahead = TestEnv::sqlite();
    let behind = TestEnv {
        clock: Arc::new(remem_engine::ports::FixedClock::at(NOON)),
        ..ahead.clone()
    };
    let ahead = ahead.host().await;
    let behind = behind.host().await;
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
        .change_commitment(&behind.caller, &one.id, CommitmentChange::Snooze(again))
        .await
        .unwrap();
    ahead.at(3_601);
    pass(&ahead, "fire").await;
    assert_eq!(fires(&ahead).await, 1, "not twice for one instant");
    let one = ahead
        .engine
        .get_commitment(&ahead.caller, &one.id)
        .await
        .unwrap()
        .commitment;
    assert_eq!(
        (one.state, one.next_at, one.fired),
        (CommitmentState::Armed, Some(NOON.plus_ms(7_200_000).0), 1),
        "and it goes on"
    );
    assert_eq!(
        pass(&ahead, "fire").await.examined,
        0,
        "nothing is left that would be tried for ever"
    );
}

/// Firings of a predicate are numbered: a commitment that follows another must not begin at one
/// again.
#[tokio::test]
async fn recreating_a_done_commitment_continues_its_firing_count() {
    let node = TestEnv::new().await.host().await;
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
                .get_commitment(&node.caller, &made.info.id)
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
async fn repeating_a_text_rearms_a_done_commitment() {
    let node = TestEnv::new().await.host().await;
    say(&node, "Let me know when the invoice clears.").await;
    let id = all(&node).await.remove(0).id;
    say(&node, "Let me know when the invoice clears.").await;
    assert_eq!(all(&node).await.len(), 1, "said twice, meant once");
    node.at(10);
    node.engine
        .observe(&node.caller, "m", "invoice cleared", true)
        .await
        .unwrap();
    assert_eq!(all(&node).await[0].commitment.state, CommitmentState::Done);
    node.at(20);
    say(&node, "Let me know when the invoice clears.").await;
    let again = all(&node).await;
    assert_eq!(
        (again.len(), again[0].id.as_str(), again[0].commitment.state),
        (1, id.as_str(), CommitmentState::Armed)
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
        .find(|one| one.commitment.state == CommitmentState::Armed)
        .unwrap();
    node.engine
        .change_commitment(&node.caller, &one.id, CommitmentChange::Cancel)
        .await
        .unwrap();
    pass(&node, "infer").await;
    assert_eq!(
        node.engine
            .get_commitment(&node.caller, &one.id)
            .await
            .unwrap()
            .commitment
            .state,
        CommitmentState::Cancelled,
        "it is not read again"
    );
}
