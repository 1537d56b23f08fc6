//! The deadline of the request that a task works for. The server sets it once; a store that has to
//! wait reads it, so that no function signature in between has to pass it on.
//!
//! Work without a request (passes, the runner, commands) has none, and neither has a spawned task:
//! code that spawns one on behalf of a request passes the deadline on.

use std::time::Duration;
use tokio::time::Instant;

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Runs `work`, which waits for storage until `deadline` at the latest.
pub async fn within<F: Future>(deadline: Instant, work: F) -> F::Output {
    DEADLINE.scope(deadline, work).await
}

/// Runs `work` with the current deadline moved later by `by`, if there is a deadline.
pub async fn with_extra_time<F: Future>(by: Duration, work: F) -> F::Output {
    match current() {
        Some(deadline) => within(deadline + by, work).await,
        None => work.await,
    }
}

/// The deadline of the current task; none outside of `within`.
#[must_use]
pub fn current() -> Option<Instant> {
    DEADLINE.try_with(|deadline| *deadline).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_innermost_deadline_applies() {
        let outer = Instant::now() + Duration::from_secs(1);
        let inner = outer + Duration::from_secs(1);
        within(outer, async {
            assert_eq!(current(), Some(outer));
            within(inner, async { assert_eq!(current(), Some(inner)) }).await;
            let by = Duration::from_secs(1);
            with_extra_time(by, async { assert_eq!(current(), Some(inner)) }).await;
            assert_eq!(current(), Some(outer));
        })
        .await;
        assert_eq!(current(), None);
    }
}
