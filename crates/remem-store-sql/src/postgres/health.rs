//! The health of the database as the monitor observes it, and how the rest of the store learns of
//! it.

use remem_core::sabotage;
use tokio::sync::watch;

/// The responsiveness of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// The database answered the last probe in time.
    Answering,
    /// An answer is overdue, or the monitor has lost its connection and opens another. The node is
    /// not ready, but requests still try: the delay may last only a moment.
    Late,
    /// The database has been silent for too long, or cannot be reached. No caller waits for it.
    Down,
}

/// The newest report of the monitor.
pub(crate) struct HealthReport(watch::Sender<Health>);

impl HealthReport {
    /// Starts as answering, since the database has just been checked.
    pub fn new() -> HealthReport {
        HealthReport(watch::Sender::new(Health::Answering))
    }

    /// Whether the database answered the last probe in time.
    pub fn is_answering(&self) -> bool {
        *self.0.borrow() == Health::Answering
    }

    /// Sets the current health; returns the one before.
    pub fn set(&self, health: Health) -> Health {
        let answering = if health == Health::Answering {
            1.0
        } else {
            0.0
        };
        metrics::gauge!("remem_database_reachable").set(answering);
        self.0.send_replace(health)
    }

    /// Returns as soon as the database is down: at once, if it is down now.
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
