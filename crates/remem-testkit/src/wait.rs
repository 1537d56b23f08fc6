//! Waits for events outside the test's own control: of another process, a server, a task.

#![allow(
    clippy::disallowed_methods,
    reason = "what is waited for happens in real time"
)]

use std::time::{Duration, Instant};

/// The longest time that a test waits for anything before it fails: 60 s, far more than a busy
/// machine needs, so that reaching it means that the event does not happen. `REMEM_TEST_DEADLINE_S`
/// shortens it where most waits are expected to fail, as in `scripts/sabotage`.
#[must_use]
pub fn deadline() -> Duration {
    let seconds = std::env::var("REMEM_TEST_DEADLINE_S").map_or(60, |seconds| {
        seconds
            .parse()
            .expect("REMEM_TEST_DEADLINE_S is a whole number of seconds")
    });
    Duration::from_secs(seconds)
}

/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Checks a condition until it is true. Fails after [`deadline`].
pub async fn wait_until<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let begun = Instant::now();
    while !holds().await {
        assert_in_time(begun, what);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Calls a function until it returns a value. Fails after [`deadline`].
pub async fn wait_for<T, F>(what: &str, mut find: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = find().await {
            return found;
        }
        assert_in_time(begun, what);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Like [`wait_until`], where there is no async runtime.
#[track_caller]
pub fn wait_until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert_in_time(begun, what);
        std::thread::sleep(PAUSE);
    }
}

#[track_caller]
fn assert_in_time(begun: Instant, what: &str) {
    let deadline = deadline();
    assert!(
        begun.elapsed() < deadline,
        "not within {deadline:?}: {what}"
    );
}
