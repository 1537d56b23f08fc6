//! Waiting for what happens outside the test's own control: another process, a server, a task.

#![allow(
    clippy::disallowed_methods,
    reason = "what is waited for happens in real time"
)]

use std::time::{Duration, Instant};

/// How long a test waits for anything before it fails. It is far more than a busy machine needs, so
/// that reaching it means that the thing does not happen.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks again and again until the answer is yes. Fails after [`DEADLINE`].
pub async fn wait_until<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let begun = Instant::now();
    while !holds().await {
        assert!(
            begun.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks again and again until there is an answer. Fails after [`DEADLINE`].
pub async fn wait_for<T, F>(what: &str, mut find: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = find().await {
            return found;
        }
        assert!(
            begun.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`wait_until`], where there is no async runtime.
#[track_caller]
pub fn wait_until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        std::thread::sleep(PAUSE);
    }
}
