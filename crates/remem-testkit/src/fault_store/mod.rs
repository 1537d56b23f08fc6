//! A store in front of another one that fails on purpose: at one call, from one call on as if the
//! process had died there, or at random from a seed; before a commit took effect or after it. It
//! also counts the texts that are read and calls of some kinds, and lets a test act right before each
//! commit.

mod delegate;
#[cfg(test)]
mod tests;

use crate::SeededRandom;
use remem_core::Batch;
use remem_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type CommitHook = Arc<dyn Fn(Batch) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A store that fails on demand of a test.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    faults: Mutex<Faults>,
    texts_read: AtomicU64,
    counts: Mutex<BTreeMap<&'static str, CallCount>>,
    /// How many of the next watches have ended when they are given out.
    closed_watches: AtomicU64,
    ignore_leases: AtomicBool,
    before_commit: Mutex<Option<CommitHook>>,
}

/// Calls of one kind, and the entries that they returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// The number of calls of this method.
    pub calls: u64,
    /// Number of entries that all of them together returned.
    pub entries: u64,
}

struct Faults {
    plan: FaultPlan,
    /// Calls since the plan was made.
    calls: u64,
    injected: u64,
}

enum FaultPlan {
    NoFaults,
    FailOnce {
        at: u64,
        after: bool,
    },
    Crash {
        at: u64,
        after: bool,
    },
    FailRandomly {
        random: SeededRandom,
        faults_in_256: u8,
    },
}

/// Whether a call fails, and if it is a commit, before or after it took effect.
enum CallFault {
    None,
    Before,
    After,
}

fn injected() -> StoreError {
    StoreError::Unavailable("injected fault".into())
}

impl FaultStore {
    /// Puts a store in front of another one. Every call works until a test says otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> FaultStore {
        let faults = Faults {
            plan: FaultPlan::NoFaults,
            calls: 0,
            injected: 0,
        };
        FaultStore {
            inner,
            faults: Mutex::new(faults),
            texts_read: AtomicU64::new(0),
            counts: Mutex::default(),
            closed_watches: AtomicU64::new(0),
            ignore_leases: AtomicBool::new(false),
            before_commit: Mutex::default(),
        }
    }

    /// Puts a store in front of another one, of which about `faults_in_256` of 256 calls fail, in
    /// an order that `seed` determines. A commit fails before it took effect or after it.
    #[must_use]
    pub fn failing(inner: Arc<dyn Store>, seed: u64, faults_in_256: u8) -> FaultStore {
        let store = FaultStore::new(inner);
        let random = SeededRandom::new(seed ^ 0x9E37_79B9_7F4A_7C15);
        store.plan(FaultPlan::FailRandomly {
            random,
            faults_in_256,
        });
        store
    }

    /// Lets the call of this number, counted from now and from zero, fail; the others work.
    /// `after`: if it is a commit, it takes effect all the same.
    pub fn fail_at(&self, call: u64, after: bool) {
        self.plan(FaultPlan::FailOnce { at: call, after });
    }

    /// Lets the call of this number, counted from now and from zero, and every one after it fail,
    /// as if the process had died there. `after`: if that call is a commit, it takes effect, but
    /// its caller gets no answer.
    pub fn crash_at(&self, call: u64, after: bool) {
        self.plan(FaultPlan::Crash { at: call, after });
    }

    /// Lets every call work again, like after a restart of the process.
    pub fn restart(&self) {
        self.plan(FaultPlan::NoFaults);
    }

    /// Whether the call of `crash_at` was reached since then.
    pub fn has_crashed(&self) -> bool {
        let faults = self.faults();
        matches!(faults.plan, FaultPlan::Crash { at, .. } if faults.calls > at)
    }

    /// The number of calls that failed so far: a test that injects nothing proves nothing.
    pub fn injected(&self) -> u64 {
        self.faults().injected
    }

    /// The store behind this one, to see its real state.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// The number of entries that consolidation read with their texts since the last call of this
    /// function.
    pub fn take_texts_read(&self) -> u64 {
        self.texts_read.swap(0, Ordering::SeqCst)
    }

    /// The calls of a method of the store since the last call of this function. Queries of entries
    /// are counted by the name of the call that makes them.
    pub fn take_calls(&self, method: &str) -> CallCount {
        unpoisoned(&self.counts).remove(method).unwrap_or_default()
    }

    /// Counts a call of a method and the entries that it returned.
    fn tally(&self, method: &'static str, entries: usize) {
        let mut counts = unpoisoned(&self.counts);
        let count = counts.entry(method).or_default();
        count.calls += 1;
        count.entries += entries as u64;
    }

    /// Lets this many of the next watches be those of files that were closed meanwhile.
    pub fn close_watches(&self, watches: u64) {
        self.closed_watches.store(watches, Ordering::SeqCst);
    }

    /// Grants every lease from now on, and lets no commit be fenced off: for tests of what must be
    /// safe without leases.
    pub fn ignore_leases(&self) {
        self.ignore_leases.store(true, Ordering::SeqCst);
    }

    /// Sets a function that runs right before each commit from now on.
    pub fn before_each_commit(
        &self,
        hook: impl Fn(Batch) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) {
        *unpoisoned(&self.before_commit) = Some(Arc::new(hook));
    }

    /// Removes the function that runs before commits.
    pub fn clear_hook(&self) {
        *unpoisoned(&self.before_commit) = None;
    }

    fn plan(&self, plan: FaultPlan) {
        let mut faults = self.faults();
        faults.plan = plan;
        faults.calls = 0;
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        unpoisoned(&self.faults)
    }

    /// Counts a call and decides whether it fails.
    fn count(&self) -> CallFault {
        let mut faults = self.faults();
        let call = faults.calls;
        faults.calls += 1;
        let fault = match &mut faults.plan {
            FaultPlan::FailOnce { at, after } if call == *at => CallFault::at(*after),
            FaultPlan::Crash { at, after } if call >= *at => CallFault::at(*after && call == *at),
            FaultPlan::FailRandomly {
                random,
                faults_in_256,
            } => {
                let drawn = random.next();
                if drawn.to_le_bytes()[0] < *faults_in_256 {
                    CallFault::at(drawn & 0x100 != 0)
                } else {
                    CallFault::None
                }
            }
            FaultPlan::NoFaults | FaultPlan::FailOnce { .. } | FaultPlan::Crash { .. } => {
                CallFault::None
            }
        };
        if !matches!(fault, CallFault::None) {
            faults.injected += 1;
        }
        fault
    }

    /// Counts a call that changes nothing, or whose effect a crash cannot leave half done.
    fn read(&self) -> Result<(), StoreError> {
        match self.count() {
            CallFault::None => Ok(()),
            CallFault::Before | CallFault::After => Err(injected()),
        }
    }
}

impl CallFault {
    fn at(after: bool) -> CallFault {
        if after {
            CallFault::After
        } else {
            CallFault::Before
        }
    }
}

/// Locks a mutex even if a test panicked while it held the lock: that test has failed already, and
/// the others continue.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
