//! A session is closed by the rules of its tenant, and one that cannot be closed does not hold up
//! others.

use super::{WorkshopTest, a_week, caller, turn};
use remem_core::profile::DAY_MS;
use remem_core::{
    Batch, Draft, Policy, Precondition, RecordKind, ShapePolicy, Tier, Trust, Typology,
};
use remem_engine::registry::{PASSES, PassMode};
use remem_engine::sessions::SessionState;
use remem_engine::{Engine, EngineParts, HostKey};
use remem_store::{RecordLookup, StoreError};
use remem_testkit::TestEnv;
use std::sync::Arc;

/// A statement by the operator in a session, which is promoted when the session ends.
fn claim(text: &str) -> Draft {
    let mut draft = Draft {
        content: text.to_owned(),
        tier: Tier::Session,
        typology: Typology::Semantic,
        ..Draft::default()
    };
    draft.facets.trust = Trust::Operator;
    draft
}

#[tokio::test]
async fn closing_a_session_applies_the_configured_size_and_shape_policy() {
    let env = TestEnv::new().await;
    let parts = EngineParts::new(
        env.store.clone(),
        env.directory.clone(),
        env.clock.clone(),
        env.ids.clone(),
        HostKey::new([3; 32]),
    );
    let policy = Policy {
        content_bytes_max: 200_000,
        shapes: ShapePolicy::Off,
        ..Policy::default()
    };
    let engine = Arc::new(Engine::new(EngineParts { policy, ..parts }));
    let ada = caller(&engine, "t", "ada").await;
    let token = "glpat-abcdefghij0123456789";
    let text = format!("The deploy token is {token} {}", "and so on ".repeat(9_000));
    engine
        .put(&ada, "shared", vec![claim(&text)], None)
        .await
        .unwrap();
    let closed = engine.close_session(&ada, "shared").await.unwrap();
    assert_eq!((closed.state, closed.promoted), (SessionState::Closed, 1));
    let kept = engine
        .list(&ada, "shared", remem_engine::read::ListRequest::default())
        .await
        .unwrap();
    assert_eq!(kept.entries[0].content, text);
}

#[tokio::test]
async fn an_unreadable_session_does_not_block_closing_others() {
    let shop = WorkshopTest::open().await;
    // Sixty unreadable sessions, older than the one of the workshop memory.
    let tenant = shop.ada.tenant();
    shop.put("~/first", turn("mon", "operator", None, "Hello."))
        .await
        .unwrap();
    let due = RecordLookup::Due {
        until: remem_testkit::NOON.plus_ms(400 * DAY_MS),
        after: None,
    };
    let model = shop
        .store
        .records_by(tenant, RecordKind::Session, &due, 1)
        .await
        .unwrap()
        .remove(0);
    let policy = Policy::default();
    let redactor = remem_core::Redactor::empty();
    let admission = remem_core::Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: remem_testkit::NOON,
    };
    let mut batch = Batch::new(tenant.clone(), remem_testkit::NOON);
    for n in 0..60 {
        let mut body = model.body.clone();
        body.insert("memoryRef".to_owned(), "".into());
        batch = batch.set_record_with_ties(
            RecordKind::Session,
            format!("open/broken-{n}"),
            Precondition::Absent,
            admission.redact_record(body),
            remem_core::RecordLinks::due_at(remem_testkit::NOON),
        );
    }
    shop.store.commit(batch).await.unwrap();
    a_week(&shop).await;
    shop.at(60 * DAY_MS);
    let pass = PASSES.iter().find(|pass| pass.name == "sessions").unwrap();
    let failed = shop.engine.run_pass(pass, tenant, PassMode::Apply).await;
    assert!(matches!(
        failed,
        Err(remem_engine::EngineError::Store(StoreError::Damaged(_)))
    ));
    for memory in ["~/first", "~/ops"] {
        let sessions = shop.engine.list_sessions(&shop.ada, memory).await.unwrap();
        let closed: Vec<SessionState> = sessions.iter().map(|session| session.state).collect();
        assert_eq!(closed, [SessionState::Closed], "{memory}");
    }
}
