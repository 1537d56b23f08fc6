//! What happens to a commitment besides firing: it ends with its entry, is explained, listed, and
//! guarded by permissions.

use super::{DAY, all, by_hand, fires, pass, put, say, text};
use remem_core::commitment::{CommitmentState, EndedBy};
use remem_core::{Draft, Facets, Permission, Typology};
use remem_engine::EngineError;
use remem_engine::commitments::{
    CommitmentChange, CommitmentQuery, NewCommitment, NewCommitmentRules,
};
use remem_engine::keys::KeyRequest;
use remem_engine::registry::{self, PassMode};
use remem_testkit::{NOON, TestEnv};
use serde_json::json;

#[tokio::test]
async fn deleting_or_forgetting_an_entry_removes_its_commitment() {
    let node = TestEnv::new().await.host().await;
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
        node.engine.get_commitment(&node.caller, &one.id).await,
        Err(EngineError::NotFound(_))
    ));
    node.at(2 * DAY);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 0);
}

#[tokio::test]
async fn a_commitment_does_not_fire_after_its_entry_expires() {
    let node = TestEnv::new().await.host().await;
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

/// A commitment whose source is no longer true ends, and is not processed again and again.
#[tokio::test]
async fn a_commitment_is_cancelled_when_its_source_becomes_invalid() {
    let node = TestEnv::new().await.host().await;
    let facets = Facets {
        valid_at: Some(NOON),
        invalid_at: Some(NOON.plus_ms(3_600_000)),
        ..Facets::default()
    };
    for (text, state) in [
        (
            "Remind me tomorrow at 9am to call the bank.",
            CommitmentState::Armed,
        ),
        (
            "Remind me every day at 9am to water the plants.",
            CommitmentState::Armed,
        ),
        (
            "Remind me when the build is green to tell the team.",
            CommitmentState::Armed,
        ),
    ] {
        let draft = Draft {
            content: text.to_owned(),
            typology: Typology::Semantic,
            facets: facets.clone(),
            ..Draft::default()
        };
        put(&node, draft).await;
        pass(&node, "infer").await;
        assert_eq!(all(&node).await[0].commitment.state, state);
    }
    node.at(2 * DAY);
    let observed = node
        .engine
        .observe(&node.caller, "m", "the build is green", true)
        .await
        .unwrap();
    assert!(observed.fired.is_empty());
    pass(&node, "fire").await;
    assert_eq!(
        pass(&node, "fire").await.examined,
        0,
        "it is not due any more"
    );
    assert_eq!(fires(&node).await, 0);
    assert_eq!(node.events("commitment.ended").await.len(), 3);
    for one in all(&node).await {
        assert_eq!(
            (one.commitment.state, one.commitment.ended_by),
            (CommitmentState::Cancelled, Some(EndedBy::Source))
        );
    }
}

#[tokio::test]
async fn a_commitment_is_explained_with_redacted_text() {
    let node = TestEnv::new().await.host().await;
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

/// Redacting a late secret from a record must not disarm it.
#[tokio::test]
async fn rescanning_a_commitment_for_a_late_secret_keeps_it_armed() {
    let env = TestEnv::new().await;
    let node = env.host().await;
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
    let parts = remem_engine::EngineParts::new(
        env.store.clone(),
        env.directory.clone(),
        env.clock.clone(),
        env.ids.clone(),
        key.clone(),
    );
    let engine = remem_engine::Engine::new(remem_engine::EngineParts {
        secrets: remem_engine::SecretRegistry::new(&key, vec![(None, secret)]),
        ..parts
    });
    engine
        .run_pass(
            registry::find("rescan").unwrap(),
            node.caller.tenant(),
            PassMode::Apply,
        )
        .await
        .unwrap();
    let stored = node
        .env
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
    assert!(stored.links.topic.is_some() && stored.links.source.is_some());
    node.at(61);
    pass(&node, "fire").await;
    assert_eq!(fires(&node).await, 1, "what is due is due");
}

#[tokio::test]
async fn commitment_pages_list_every_commitment_in_due_order() {
    let node = TestEnv::new().await.host().await;
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
            cursor: after,
            memory_ref: Some("m".to_owned()),
            state: Some(CommitmentState::Armed),
        };
        let page = node
            .engine
            .list_commitments(&node.caller, &query)
            .await
            .unwrap();
        seen.extend(
            page.commitments
                .iter()
                .map(|one| one.commitment.next_at.unwrap()),
        );
        after = page.next_cursor;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted(), "in the order of what happens next");
}

#[tokio::test]
async fn a_predicate_does_not_fire_after_its_entry_expires() {
    let node = TestEnv::new().await.host().await;
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

#[tokio::test]
async fn commitment_writes_need_no_read_permission() {
    let node = TestEnv::new().await.host().await;
    let request = |permissions: &[Permission]| KeyRequest {
        tenant: node.caller.tenant().clone(),
        label: String::new(),
        permissions: permissions.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
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
    let explained = node.engine.explain(&writer, made.clone()).await.unwrap();
    assert!(explained.entry.is_none() && explained.words.is_none());
    node.engine
        .change_commitment(&writer, &made.id, CommitmentChange::Cancel)
        .await
        .unwrap();
    let rules = NewCommitmentRules {
        arm: Some("off".to_owned()),
        ..NewCommitmentRules::default()
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
            Err(EngineError::NotFound(_))
        ),
        "no seams here"
    );
    let rehearsed = node
        .engine
        .rehearse_commitment(&node.caller, "m", "predicate")
        .await;
    assert!(
        matches!(rehearsed, Err(EngineError::NotFound(_))),
        "nor here"
    );
}
