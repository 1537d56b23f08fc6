//! Counts the requests that wait for a connection, so that one tenant cannot fill the line in front
//! of the others.

use remem_core::{TenantId, sabotage};
use remem_store::{KeyHash, StoreError};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// On whose account a request waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// A tenant.
    Tenant(TenantId),
    /// A key whose tenant is not known yet, since it is being looked up.
    Key(KeyHash),
}

/// The callers that wait for a connection, by account.
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

    /// Lets a caller wait for as long as it keeps what is returned; `Busy` if too many wait on the
    /// same account. Whoever is on no account is never refused.
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

/// One caller that waits.
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
            // Accounts come from callers: one that nobody waits on takes no memory.
            if *count == 0 {
                counts.remove(account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_bounded_and_forgotten_when_nobody_waits_on_it() {
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
}
