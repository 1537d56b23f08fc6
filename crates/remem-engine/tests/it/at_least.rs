//! Reads that wait for a revision.

use remem_core::{Policy, Revision};
use remem_engine::EngineError;
use remem_engine::read::ListRequest;
use remem_testkit::TestEnv;

/// The store closes a tenant's idle file, and with it the watch of its commits.
#[tokio::test]
async fn a_wait_for_a_revision_asks_the_store_in_intervals_when_its_file_is_closed() {
    let env = TestEnv {
        policy: Policy {
            at_least_wait_ms_max: 300,
            ..Policy::default()
        },
        ..TestEnv::sqlite()
    };
    let host = env.host().await;
    host.put("m", "A note.").await;
    env.faults.close_watches(1);
    env.faults.take_calls("head");
    let request = ListRequest {
        at_least: Some(Revision(1_000)),
        ..ListRequest::default()
    };
    let refused = host.engine.list(&host.caller, "m", request).await;
    assert!(matches!(refused, Err(EngineError::NotReached)));
    let asked = env.faults.take_calls("head").calls;
    assert!(asked <= 20, "asked {asked} times in 300 ms");
}
