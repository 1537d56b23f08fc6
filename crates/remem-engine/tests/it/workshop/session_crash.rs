//! Closing a session wherever a process stops: at every single call of the store, with or without
//! the commit. What is promoted, what ends and what the record says equals a session that closed
//! without a failure.

use remem_core::{Draft, Facets, InteractionId, Tier, Trust, Typology};
use remem_engine::read::ListRequest;
use remem_engine::registry::{PASSES, PassMode};
use remem_engine::sessions::{SessionInfo, SessionState};
use remem_testkit::{TestEnv, TestHost};
use serde_json::json;

const MEMORY: &str = "~/ops";

/// Three threads with the same tools in a row, a stated preference, and a turn that an action
/// refers to.
async fn week(host: &TestHost) {
    for thread in ["mon", "tue", "wed"] {
        for (speaker, tool, text) in [
            ("operator", None, "Please look at the coverage."),
            ("agent", Some("coverage_report"), "Here it is."),
            ("agent", Some("open_ticket"), "Opened."),
        ] {
            turn(host, thread, speaker, tool, text).await;
        }
    }
    turn(
        host,
        "wed",
        "operator",
        None,
        "Always send release notes as a table.",
    )
    .await;
    let linked = turn(host, "wed", "agent", None, "Card seven goes out.").await;
    host.engine
        .link_action(&host.caller, MEMORY, &linked, "published", "card-7")
        .await
        .unwrap();
}

async fn turn(
    host: &TestHost,
    thread: &str,
    speaker: &str,
    tool: Option<&str>,
    text: &str,
) -> String {
    let facets = Facets {
        interaction: InteractionId::parse(thread),
        trust: Trust::Operator,
        ..Facets::default()
    };
    let metadata = json!({ "speaker": speaker, "tool": tool })
        .as_object()
        .cloned();
    let draft = Draft {
        content: text.into(),
        tier: Tier::Interaction,
        typology: Typology::Episodic,
        facets,
        metadata,
        ..Draft::default()
    };
    host.put_draft(MEMORY, draft).await
}

type ClosingOutcome = (Vec<(String, String)>, (u64, u64, u64), usize);

/// The live entries, the counts in the session's record, and the number of its closing events.
async fn end(host: &TestHost) -> ClosingOutcome {
    let listed = host
        .engine
        .list(&host.caller, MEMORY, ListRequest::default())
        .await
        .unwrap()
        .entries;
    let mut left: Vec<_> = listed
        .into_iter()
        .map(|entry| (entry.id.as_str().to_owned(), entry.content))
        .collect();
    left.sort_unstable();
    let sessions: Vec<SessionInfo> = host
        .engine
        .list_sessions(&host.caller, MEMORY)
        .await
        .unwrap();
    assert_eq!(
        sessions
            .iter()
            .map(|session| session.state)
            .collect::<Vec<_>>(),
        [SessionState::Closed]
    );
    let session = &sessions[0];
    (
        left,
        (session.promoted, session.ended, session.kept),
        host.events("session.closed").await.len(),
    )
}

async fn pass(host: &TestHost) -> Result<(), remem_engine::EngineError> {
    let pass = PASSES.iter().find(|pass| pass.name == "sessions").unwrap();
    host.engine
        .run_pass(pass, host.tenant(), PassMode::Apply)
        .await
        .map(|_| ())
}

#[tokio::test]
async fn after_a_crash_at_any_point_a_session_is_closed_once() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    week(&host).await;
    host.engine
        .close_session(&host.caller, MEMORY)
        .await
        .unwrap();
    let expected = end(&host).await;
    assert_eq!(
        expected.0.len(),
        3,
        "a habit, a routine and what is linked: {expected:?}"
    );
    let mut deaths = 0;
    for late in [false, true] {
        for call in 0.. {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            week(&host).await;
            env.faults.crash_at(call, late);
            let closed = host.engine.close_session(&host.caller, MEMORY).await;
            let died = env.faults.has_crashed();
            env.faults.restart();
            if closed.is_err()
                && host
                    .engine
                    .list_sessions(&host.caller, MEMORY)
                    .await
                    .unwrap()[0]
                    .state
                    == SessionState::Open
            {
                host.engine
                    .close_session(&host.caller, MEMORY)
                    .await
                    .unwrap(); // it never began
            }
            env.expire_leases();
            pass(&env.host().await).await.unwrap();
            assert_eq!(end(&host).await, expected, "call {call}, late {late}");
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 20, "{deaths} deaths");
}

/// Several nodes without leases close one session at once.
#[tokio::test]
async fn concurrent_closers_close_a_session_once() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    week(&host).await;
    env.faults.ignore_leases();
    let mut nodes = Vec::new();
    for _ in 0..6 {
        nodes.push(env.host().await);
    }
    let all = nodes
        .iter()
        .map(|node| node.engine.close_session(&node.caller, MEMORY));
    let done = futures_util::future::join_all(all).await;
    assert!(done.iter().any(Result::is_ok), "{done:?}");
    pass(&host).await.unwrap();
    let (left, (promoted, ended, kept), closed_events) = end(&host).await;
    assert_eq!(
        (left.len(), promoted, ended, kept, closed_events),
        (3, 2, 10, 1, 1)
    );
}

/// The session is closed between a put's reading it and its commit.
#[tokio::test]
async fn inv_57_a_write_after_the_close_opens_a_new_session() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    week(&host).await;
    let engine = host.engine.clone();
    let caller = host.caller.clone();
    let once = std::sync::atomic::AtomicBool::new(true);
    env.faults.before_each_commit(move |_| {
        let engine = engine.clone();
        let caller = caller.clone();
        let now = once.swap(false, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            if now {
                engine.close_session(&caller, MEMORY).await.unwrap();
            }
        })
    });
    turn(&host, "late", "operator", None, "One more thing.").await;
    let states: Vec<SessionState> = host
        .engine
        .list_sessions(&host.caller, MEMORY)
        .await
        .unwrap()
        .iter()
        .map(|session| session.state)
        .collect();
    assert_eq!(
        states,
        [SessionState::Open, SessionState::Closed],
        "nothing hangs on what is over"
    );
}
