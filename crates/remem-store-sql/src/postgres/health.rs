//! The health of the database as the monitor sees it, and how the rest of the store hears of it.

use remem_core::sabotage;
use tokio::sync::watch;

/// How the database answers the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answered the last question in time.
    Answering,
    /// An answer is overdue, or the monitor has lost its connection and opens another. The node is
    /// not ready, but requests still try: the delay may be a moment's.
    Late,
    /// It has been silent for too long, or cannot be reached. Nobody waits for it.
    Down,
}

/// The newest report of the monitor.
pub(crate) struct HealthReport(watch::Sender<Health>);

impl HealthReport {
    /// A database that has just been examined answers.
    pub fn new() -> HealthReport {
        HealthReport(watch::Sender::new(Health::Answering))
    }

    /// Whether the database answered the last question in time.
    pub fn is_answering(&self) -> bool {
        *self.0.borrow() == Health::Answering
    }

    /// Reports a health; returns the one before.
    pub fn set(&self, health: Health) -> Health {
        let answering = if health == Health::Answering {
            1.0
        } else {
            0.0
        };
        metrics::gauge!("remem_database_reachable").set(answering);
        self.0.send_replace(health)
    }

    /// Returns as soon as the database is down: at once, if it is.
    pub async fn down(&self) {
        let mut reports = self.0.subscribe();
        let is_down = |health: &Health| {
            sabotage!(
                "postgres-callers-wait-for-a-database-that-is-down",
                *health == Health::Down,
                false
            )
        };
        // Fails only when the sender is gone, which is part of `self`.
        let _ = reports.wait_for(is_down).await;
    }
}
