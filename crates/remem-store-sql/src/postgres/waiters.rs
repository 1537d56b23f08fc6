//! Counts the requests that wait for a connection or have one, so that one tenant can neither fill
//! the queue in front of the others nor occupy all connections.

use remem_core::{TenantId, sabotage};
use remem_store::{KeyHash, StoreError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The account to which the wait of a request is charged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// The requests of one tenant.
    Tenant(TenantId),
    /// A key whose tenant is not known yet, since it is being looked up.
    Key(KeyHash),
}

/// The number of callers that wait for a connection, by account.
pub(crate) struct Waiters {
    per_account_max: usize,
    counts: Mutex<HashMap<Account, usize>>,
}

impl Waiters {
    pub fn new(per_account_max: usize) -> Waiters {
        Waiters {
            per_account_max,
            counts: Mutex::default(),
        }
    }

    /// Admits a caller to the queue for as long as it holds the returned value; `Busy` if too many
    /// wait on the same account. A caller without an account is never refused.
    pub fn admit(&self, account: Option<Account>) -> Result<Waiter<'_>, StoreError> {
        if let Some(account) = &account {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(account.clone()).or_default();
            let is_full = *count >= self.per_account_max;
            if sabotage!("postgres-one-tenant-fills-the-line", is_full, false) {
                return Err(StoreError::Busy);
            }
            *count += 1;
        }
        metrics::gauge!("remem_database_waiting").increment(1.0);
        Ok(Waiter {
            waiters: self,
            account,
        })
    }
}

/// A caller in the queue; leaves it when dropped.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    account: Option<Account>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        metrics::gauge!("remem_database_waiting").decrement(1.0);
        let Some(account) = &self.account else {
            return;
        };
        let counts = &self.waiters.counts;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(account) {
            *count -= 1;
            // Accounts come from callers: an account without waiters must take no memory.
            if *count == 0 {
                counts.remove(account);
            }
        }
    }
}

type PermitsByAccount = Arc<Mutex<HashMap<Account, Arc<Semaphore>>>>;

/// The share of a pool that requests of one account may use at a time: half of it, so that slow
/// statements of one account leave the other half to others.
pub(crate) struct PoolShares {
    per_account_max: usize,
    permits: PermitsByAccount,
}

impl PoolShares {
    /// Shares of a pool of so many connections.
    pub fn of_pool(connections: usize) -> PoolShares {
        PoolShares {
            per_account_max: (connections / 2).max(1),
            permits: PermitsByAccount::default(),
        }
    }

    /// A request's claim on the share of its account, of which nothing is taken yet.
    pub fn of(&self, account: &Account) -> PoolShare {
        let mut by_account = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        let account_permits = by_account
            .entry(account.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_account_max)));
        PoolShare {
            permits: Some(account_permits.clone()),
            permit: None,
            account: account.clone(),
            used: self.permits.clone(),
        }
    }
}

/// A permit of an account's share, once it is taken.
pub(crate) struct PoolShare {
    permits: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
    account: Account,
    used: PermitsByAccount,
}

impl PoolShare {
    /// Takes a permit if one is free; returns whether it did.
    pub fn try_take(&mut self) -> bool {
        let permits = self.permits.clone();
        self.permit = permits.and_then(|permits| permits.try_acquire_owned().ok());
        self.permit.is_some()
    }

    /// Takes a permit as soon as one is free.
    pub async fn take(&mut self) {
        if let Some(permits) = self.permits.clone() {
            self.permit = permits.acquire_owned().await.ok();
        }
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        let mut by_account = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (self.permit, self.permits) = (None, None);
        // Accounts come from callers: an account without requests must take no memory.
        if by_account
            .get(&self.account)
            .is_some_and(|permits| Arc::strong_count(permits) == 1)
        {
            by_account.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_per_account_are_bounded_and_released() {
        let waiters = Waiters::new(1);
        let tenant = |name| Some(Account::Tenant(TenantId::parse(name).unwrap()));
        let first = waiters.admit(tenant("a")).unwrap();
        assert!(matches!(waiters.admit(tenant("a")), Err(StoreError::Busy)));
        let other = waiters.admit(tenant("b")).unwrap();
        let key = waiters.admit(Some(Account::Key([1; 32]))).unwrap();
        let host = [waiters.admit(None).unwrap(), waiters.admit(None).unwrap()];
        drop(first);
        drop(waiters.admit(tenant("a")).unwrap());
        drop((other, key, host));
        assert!(waiters.counts.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_pool_share_is_half_of_the_pool_and_released() {
        for (connections, each) in [(1, 1), (2, 1), (3, 1), (16, 8)] {
            assert_eq!(PoolShares::of_pool(connections).per_account_max, each);
        }
        let shares = PoolShares::of_pool(2);
        let account = |name| Account::Tenant(TenantId::parse(name).unwrap());
        let mut first = shares.of(&account("a"));
        assert!(first.try_take());
        let mut second = shares.of(&account("a"));
        assert!(!second.try_take());
        assert!(shares.of(&account("b")).try_take());
        drop(first);
        second.take().await;
        assert!(!shares.of(&account("a")).try_take());
        drop(second);
        assert!(shares.permits.lock().unwrap().is_empty());
    }
}
