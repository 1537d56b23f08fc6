//! The deadline of the request that a task works for. Surfaces set it once; a store that has to
//! wait reads it, so that no signature in between has to carry it.
//!
//! Work without a request (passes, the runner, commands) has none, and neither has a task that was
//! spawned: whoever spawns one on behalf of a request takes the deadline along.

use std::time::Duration;
use tokio::time::Instant;

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Does some work that waits for storage until `deadline` at the most.
pub async fn within<F: Future>(deadline: Instant, work: F) -> F::Output {
    DEADLINE.scope(deadline, work).await
}

/// Does some work with a deadline that is later than the current one, if there is one.
pub async fn extended<F: Future>(by: Duration, work: F) -> F::Output {
    match current() {
        Some(deadline) => within(deadline + by, work).await,
        None => work.await,
    }
}

/// The deadline of the work under way; none outside of `within`.
#[must_use]
pub fn current() -> Option<Instant> {
    DEADLINE.try_with(|deadline| *deadline).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_sees_the_deadline_that_was_set_last() {
        let outer = Instant::now() + Duration::from_secs(1);
        let inner = outer + Duration::from_secs(1);
        within(outer, async {
            assert_eq!(current(), Some(outer));
            within(inner, async { assert_eq!(current(), Some(inner)) }).await;
            let by = Duration::from_secs(1);
            extended(by, async { assert_eq!(current(), Some(inner)) }).await;
            assert_eq!(current(), Some(outer));
        })
        .await;
        assert_eq!(current(), None);
    }
}
