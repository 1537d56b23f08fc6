//! Time never runs backwards inside a tenant, and the time of one tenant does not affect another.

use remem_core::{Draft, RecordKind};
use remem_testkit::{NOON, TestEnv};

const DAY: i64 = 86_400;

fn for_a_day(content: &str) -> Draft {
    Draft {
        content: content.to_owned(),
        expires_at: Some(NOON.plus_ms(DAY * 1_000)),
        ..Draft::default()
    }
}

#[tokio::test]
async fn a_tenant_with_a_future_commit_does_not_move_other_tenants_clocks() {
    let env = TestEnv::new().await;
    let before = env.host_of("ahead").await;
    before.put("m", "Written before the clock was wrong.").await;
    before.at(400 * DAY);
    before.put("m", "Written while the clock was wrong.").await;
    // A host that starts when the clock is right again meets that tenant first.
    before.at(0);
    let host = env.host_of("ahead").await;
    host.put("m", "Written afterwards.").await;
    let other = remem_testkit::TestHost {
        caller: {
            let made = env.host_of("other").await;
            made.caller
        },
        ..host.clone()
    };
    let stored = other
        .engine
        .put(
            &other.caller,
            "m",
            vec![for_a_day("A note for a day.")],
            None,
        )
        .await
        .expect("the day is not over for this tenant");
    assert!(stored.entries[0].created_at < NOON.plus_ms(DAY * 1_000));
    let head = env.store.head(other.tenant()).await.unwrap();
    assert!(head.at < NOON.plus_ms(DAY * 1_000), "nor is it carried on");
    host.engine
        .put(&host.caller, "m", vec![for_a_day("Too late.")], None)
        .await
        .expect_err("inside a tenant time does not run back");
    let newest = env.store.head(host.tenant()).await.unwrap();
    assert!(newest.at >= NOON.plus_ms(400 * DAY * 1_000));
    let named = host.engine.tenants_ahead();
    assert_eq!(named.len(), 1);
    assert_eq!(&named[0].0, host.tenant());
    host.at(400 * DAY);
    assert!(host.engine.tenants_ahead().is_empty(), "it has caught up");
}

#[tokio::test]
async fn a_rescan_walks_twice_even_if_the_last_commit_is_in_the_future() {
    let env = TestEnv::new().await;
    let before = env.host_of("ahead").await;
    before.at(400 * DAY);
    before
        .put("m", "The gate opens with a-late-value-1234.")
        .await;
    before.at(0);
    let host = env.host_of("ahead").await;
    host.secret("late", "a-late-value-1234").await;
    let walks = async || {
        let note = env
            .store
            .record(host.tenant(), RecordKind::Progress, "rescan");
        note.await.unwrap().unwrap().body["walks"].clone()
    };
    host.run_pass("rescan").await;
    assert_eq!(walks().await, 1);
    assert_eq!(
        host.texts("m").await,
        ["The gate opens with [REDACTED:late]."]
    );
    host.at(10);
    host.run_pass("rescan").await;
    assert_eq!(
        walks().await,
        1,
        "writes under the old rules may still land"
    );
    host.at(31);
    host.run_pass("rescan").await;
    assert_eq!(walks().await, 2);
}

#[tokio::test]
async fn a_rescan_that_began_in_the_future_starts_over() {
    let env = TestEnv::new().await;
    let before = env.host_of("ahead").await;
    before.at(400 * DAY);
    before.secret("late", "a-late-value-1234").await;
    before.run_pass("rescan").await;
    before.at(0);
    let host = env.host_of("ahead").await;
    for seconds in [0, 31] {
        host.at(seconds);
        host.run_pass("rescan").await;
    }
    let note = env
        .store
        .record(host.tenant(), RecordKind::Progress, "rescan");
    assert_eq!(note.await.unwrap().unwrap().body["walks"], 2);
}
