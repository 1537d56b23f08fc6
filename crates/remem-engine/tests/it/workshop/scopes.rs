//! Who can see which workshop memory: one store for all agents, with tenants and users separated.

use super::{RULE, WorkshopTest, caller, said, turn};
use remem_engine::EngineError;
use remem_engine::read::ListRequest;
use remem_engine::search::SearchRequest;
use remem_store::RetentionState;

#[tokio::test]
async fn d01_user_and_shared_memories_share_one_store() {
    let shop = WorkshopTest::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.put("shared", said("The office is closed on Monday."))
        .await
        .unwrap();
    let (memories, _) = shop
        .engine
        .memories(&shop.ada, None, None, None)
        .await
        .unwrap();
    let names: Vec<&str> = memories
        .iter()
        .map(|memory| memory.memory_ref.as_str())
        .collect();
    assert_eq!(
        names,
        ["shared", "~ada/ops"],
        "an operator's memory is a memory like any other, in the same tables"
    );
    assert_eq!(shop.retained(RetentionState::Active).await, 2);
}

#[tokio::test]
async fn d05_data_is_not_readable_across_tenants() {
    let shop = WorkshopTest::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.rule("w1").await;
    let elsewhere = caller(&shop.engine, "other", "ada").await;
    assert!(
        shop.engine
            .list(&elsewhere, "~/ops", ListRequest::default())
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert!(
        shop.engine
            .memories(&elsewhere, None, None, None)
            .await
            .unwrap()
            .0
            .is_empty()
    );
    assert!(
        shop.engine
            .list_rules(&elsewhere, "w1", None, None)
            .await
            .unwrap()
            .0
            .is_empty()
    );
    assert_eq!(
        shop.engine
            .find_restated_rule(&elsewhere, "w1", RULE)
            .await
            .unwrap(),
        None
    );
    assert!(
        shop.engine
            .count_retention(&elsewhere, None)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn d06_a_user_sees_only_their_own_and_shared_memories() {
    let shop = WorkshopTest::open().await;
    let own = shop.tell("Nadia's role is release manager.").await;
    shop.put("shared", said("The office is closed on Monday."))
        .await
        .unwrap();
    shop.put("~/ops", turn("t1", "operator", None, "hello"))
        .await
        .unwrap();
    for name in ["~ada/ops", "~/ops"] {
        let bob = &shop.bob;
        let engine = &shop.engine;
        assert!(
            engine
                .list(bob, name, ListRequest::default())
                .await
                .unwrap()
                .entries
                .is_empty(),
            "{name}"
        );
        assert!(
            engine
                .get(bob, name, own.id.as_str(), None)
                .await
                .unwrap()
                .is_none()
        );
        assert!(
            engine
                .slot_history(bob, name, "nadia|role")
                .await
                .unwrap()
                .is_empty()
        );
        assert!(engine.list_sessions(bob, name).await.unwrap().is_empty());
        assert!(matches!(
            engine.audit_entry(bob, name, own.id.as_str()).await,
            Err(EngineError::NotFound(_))
        ));
        assert!(matches!(
            engine.delete(bob, name, own.id.as_str(), None).await,
            Err(EngineError::NotFound(_))
        ));
        assert!(
            engine
                .link_action(bob, name, own.id.as_str(), "a", "b")
                .await
                .is_err()
        );
        assert!(engine.close_session(bob, name).await.is_err());
        let search = SearchRequest {
            query: "Nadia".into(),
            ..SearchRequest::default()
        };
        assert!(
            engine
                .search(bob, name, search)
                .await
                .unwrap()
                .hits
                .is_empty()
        );
    }
    assert!(
        shop.engine
            .put(&shop.bob, "~ada/ops", vec![said("planted")], None)
            .await
            .is_err()
    );
    assert_eq!(
        shop.engine
            .list(&shop.bob, "shared", ListRequest::default())
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    assert_eq!(
        shop.list("~ada/ops").await.len(),
        2,
        "the full name and the short one are the same memory"
    );
}
