//! Gets a connection for a transaction: decides which callers wait, until when, and which are
//! refused at once.
//!
//! A caller waits until its request's deadline. Opening a connection is part of that wait and has
//! no bound of its own, so that a slow handshake fails no request that still has time. The number
//! of requests of one tenant that wait is bounded, those that have a connection are a share of the
//! pool, and while the monitor says that the database is down no caller waits.

use super::error::{DatabaseError, pool_error, unavailable};
use super::gate::Role;
use super::health::HealthReport;
use super::waiters::{Account, PoolShare, PoolShares, Waiters};
use deadpool_postgres::{Object, Pool, PoolError, TimeoutType, Timeouts};
use remem_core::sabotage;
use remem_store::{StoreError, deadline};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Takes a connection from the pool only if one is free.
const IF_FREE: Timeouts = Timeouts {
    wait: Some(Duration::ZERO),
    create: None,
    recycle: None,
};

/// Waits for a connection of the pool. The caller's deadline is applied outside.
const WHEN_FREE: Timeouts = Timeouts {
    wait: None,
    create: None,
    recycle: None,
};

/// The pools of a node and the queue in front of them.
pub(crate) struct Connections {
    pub app: Pool,
    pub worker: Pool,
    pub reviewer: Pool,
    pub health: HealthReport,
    pub waiters: Waiters,
    /// The limit of one account's use of the application's pool.
    pub shares: PoolShares,
    /// The longest wait of any caller, whether or not its request has a deadline.
    pub wait: Duration,
}

impl Connections {
    /// A connection of a role. The wait of a request is charged to its account.
    pub async fn get(
        &self,
        role: Role,
        account: Option<Account>,
    ) -> Result<Connection, StoreError> {
        let pool = match role {
            Role::App => &self.app,
            Role::Worker => &self.worker,
            Role::Reviewer => &self.reviewer,
        };
        let limit = Instant::now() + self.wait;
        let request = deadline::current();
        let until = request.map_or(limit, |deadline| {
            sabotage!(
                "postgres-a-request-waits-past-its-deadline",
                deadline.min(limit),
                limit
            )
        });
        // Passes and streams are few, and bounded elsewhere: they have no account.
        let account = account.filter(|_| request.is_some());
        tokio::select! {
            biased;
            () = self.health.down() => Err(count_refusal("down", unavailable(DatabaseError::Down))),
            got = self.acquire(role, pool, account, until) => got,
        }
    }

    async fn acquire(
        &self,
        role: Role,
        pool: &Pool,
        account: Option<Account>,
        until: Instant,
    ) -> Result<Connection, StoreError> {
        let wait_in_line = || {
            let waiter = self.waiters.admit(account.clone());
            waiter.map_err(|busy| count_refusal("waiters", busy))
        };
        let mut waiter = None;
        let mut share = account
            .as_ref()
            .filter(|_| role == Role::App)
            .map(|account| self.shares.of(account));
        if let Some(share) = &mut share
            && sabotage!("postgres-one-tenant-has-the-pool", !share.try_take(), false)
        {
            waiter = Some(wait_in_line()?);
            let permit = timeout_at(until, share.take()).await;
            permit.map_err(|_| count_refusal("deadline", StoreError::Busy))?;
        }
        let if_free = Timeouts {
            create: sabotage!(
                "postgres-a-slow-handshake-fails-the-request",
                None,
                Some(Duration::from_secs(2))
            ),
            ..IF_FREE
        };
        match timeout_at(until, pool.timeout_get(&if_free)).await {
            Ok(Err(PoolError::Timeout(TimeoutType::Wait))) => {}
            Ok(result) => {
                let object = result.map_err(pool_error)?;
                return Ok(Connection { object, share });
            }
            Err(_) => {
                return Err(count_refusal(
                    "deadline",
                    unavailable(DatabaseError::Deadline),
                ));
            }
        }
        if waiter.is_none() {
            waiter = Some(wait_in_line()?);
        }
        let result = timeout_at(until, pool.timeout_get(&WHEN_FREE)).await;
        drop(waiter);
        match result {
            Ok(result) => {
                let object = result.map_err(pool_error)?;
                Ok(Connection { object, share })
            }
            Err(_) => Err(count_refusal("deadline", StoreError::Busy)),
        }
    }
}

/// A connection, with the permit of its account's share.
pub(crate) struct Connection {
    object: Object,
    share: Option<PoolShare>,
}

impl Connection {
    /// The client that statements are sent on.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Closes the connection instead of returning it to the pool.
    pub fn discard(self) {
        drop(Object::take(self.object));
        drop(self.share);
    }
}

/// Counts a caller that gets no connection, and returns its error.
fn count_refusal(reason: &'static str, error: StoreError) -> StoreError {
    metrics::counter!("remem_database_refused_total", "reason" => reason).increment(1);
    error
}
