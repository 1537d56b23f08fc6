//! Sessions and threads: transient entries end with their session, and a closed session stays
//! closed.

use super::{WorkshopTest, a_week, procedural, turn};
use remem_core::profile::DAY_MS;
use remem_core::{MemoryRef, Scope, SessionId, Tier, Timestamp};
use remem_engine::sessions::{SessionInfo, SessionState};
use remem_store::{Filter, Page, ReadAt, RetentionState};

async fn open_session(shop: &WorkshopTest) -> SessionInfo {
    shop.engine
        .list_sessions(&shop.ada, "~/ops")
        .await
        .unwrap()
        .into_iter()
        .find(|session| session.state == SessionState::Open)
        .unwrap()
}

#[tokio::test]
async fn d09_transient_memory_ends_with_its_session() {
    let shop = WorkshopTest::open().await;
    a_week(&shop).await;
    let first = open_session(&shop).await;
    let linked = shop
        .put(
            "~/ops",
            turn("wed", "agent", None, "Card seven goes out as it is."),
        )
        .await
        .unwrap();
    shop.engine
        .link_action(
            &shop.ada,
            "~/ops",
            linked.id.as_str(),
            "published-decision",
            "card-7",
        )
        .await
        .unwrap();
    // One second before 30 idle days the session is still open; the pass checks it and leaves it
    // so.
    shop.at(2 * DAY_MS + 30 * DAY_MS - 1_000);
    assert_eq!(shop.pass("sessions").await, 0);
    assert_eq!(open_session(&shop).await.session_id, first.session_id);
    // The first write after 30 idle days opens another session, and the old one is closed by
    // exactly one pass.
    shop.at(2 * DAY_MS + 31 * DAY_MS);
    shop.put("~/ops", turn("later", "operator", None, "Good morning."))
        .await
        .unwrap();
    let second = open_session(&shop).await;
    assert_ne!(second.session_id, first.session_id, "inv_51");
    assert_eq!(shop.pass("sessions").await, 1);
    assert_eq!(shop.pass("sessions").await, 0);
    let sessions = shop.engine.list_sessions(&shop.ada, "~/ops").await.unwrap();
    let closed = sessions
        .iter()
        .find(|session| session.session_id == first.session_id)
        .unwrap();
    assert_eq!(
        (closed.state, closed.ended, closed.kept),
        (SessionState::Closed, 13, 1)
    );
    let entries = shop.list("~/ops").await;
    let transient: Vec<&str> = entries
        .iter()
        .filter(|e| e.tier != Tier::Persistent)
        .map(|e| e.content.as_str())
        .collect();
    assert_eq!(
        transient,
        ["Good morning.", "Card seven goes out as it is."],
        "inv_52 promoted, linked, or gone"
    );
    assert!(!procedural(&entries).is_empty());
    assert_eq!(shop.retained(RetentionState::Orphaned).await, 0, "inv_55");
    // Without a further write, the nightly check ends it.
    shop.at(2 * DAY_MS + 31 * DAY_MS + 30 * DAY_MS);
    assert_eq!(shop.pass("sessions").await, 1);
    assert!(
        shop.engine
            .list_sessions(&shop.ada, "~/ops")
            .await
            .unwrap()
            .iter()
            .all(|session| session.state == SessionState::Closed),
        "inv_50"
    );
}

#[tokio::test]
async fn inv_57_a_closed_session_accepts_no_writes_and_is_closed_once() {
    let shop = WorkshopTest::open().await;
    a_week(&shop).await;
    let session = open_session(&shop).await;
    let id = SessionId::parse(&session.session_id).unwrap();
    let (one, two, put) = tokio::join!(
        shop.engine.close_session(&shop.ada, "~/ops"),
        shop.engine.close_session(&shop.ada, "~/ops"),
        shop.engine.put(
            &shop.ada,
            "~/ops",
            vec![turn("x", "operator", None, "in between")],
            None
        ),
    );
    assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
    // One of them may have closed the session that the put opened.
    let closed: Vec<String> = [one, two]
        .into_iter()
        .flatten()
        .map(|s| s.session_id)
        .collect();
    let put = put.unwrap().entries.remove(0);
    shop.pass("sessions").await;
    let filter = Filter {
        session: Some(id),
        ..Filter::default()
    };
    let scope = Scope::new(
        shop.ada.tenant().clone(),
        MemoryRef::parse("~ada/ops").unwrap(),
    )
    .as_host();
    let left = shop
        .store
        .list(
            &scope,
            &filter,
            &Page {
                limit: 99,
                after: None,
            },
            &ReadAt::Now(Timestamp(i64::MAX / 2)),
        )
        .await
        .unwrap();
    assert!(left.is_empty(), "nothing hangs on what is over: {left:?}");
    let there = shop
        .list("~/ops")
        .await
        .iter()
        .any(|entry| entry.id == put.id);
    let is_open = |id: &SessionId| !closed.iter().any(|closed| closed == id.as_str());
    assert_eq!(
        there,
        put.facets.session.as_ref().is_none_or(is_open),
        "it is there unless its session is closed: {closed:?}"
    );
    let sessions = shop.engine.list_sessions(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(
        sessions
            .iter()
            .filter(|s| s.session_id == session.session_id)
            .count(),
        1
    );
}

#[tokio::test]
async fn a_closed_chat_thread_leaves_its_statements_and_tool_calls() {
    let shop = WorkshopTest::open().await;
    a_week(&shop).await;
    let done = shop
        .engine
        .close_interaction(&shop.ada, "~/ops", "wed")
        .await
        .unwrap();
    assert_eq!((done.promoted, done.ended, done.retained), (2, 5, 0));
    let again = shop
        .engine
        .close_interaction(&shop.ada, "~/ops", "wed")
        .await
        .unwrap();
    assert_eq!((again.promoted, again.ended), (0, 0));
    for thread in ["mon", "tue"] {
        shop.engine
            .close_interaction(&shop.ada, "~/ops", thread)
            .await
            .unwrap();
    }
    let entries = shop.list("~/ops").await;
    assert!(
        entries.iter().all(|entry| entry.tier == Tier::Session),
        "{:?}",
        shop.texts("~/ops").await
    );
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let texts = shop.texts("~/ops").await;
    assert!(
        texts
            .iter()
            .any(|text| text.contains("coverage_report") && text.contains("post_summary")),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("release notes as a table")),
        "{texts:?}"
    );
}
