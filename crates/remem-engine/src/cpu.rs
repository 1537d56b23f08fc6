//! Scheduling of CPU-bound work. Work whose cost grows with what callers send (redaction, masking,
//! counting tokens, redacting what is read again) runs here and not on the threads that answer
//! requests.
//!
//! As many permits exist as there are cores. Waiting work is served by tenant: the next permit goes
//! to the tenant that has waited longest since its last one, independent of what others have
//! queued. A permit covers a bounded number of bytes, so that no tenant waits for another one's
//! whole request. Work outside of requests (passes, runs) has one permit of its own and never takes
//! one from requests. This file does not know what the work is.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{Admission, Draft, Entry, RecordBody, TenantId, Timestamp, sabotage};
use remem_store::{StoreError, deadline};
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Work on fewer bytes runs in place: handing it over costs more than the few milliseconds that the
/// most expensive text of this size takes.
const INLINE_BYTES_MAX: usize = 4 * 1024;
/// A permit ends with the item that reaches this many bytes: one text of an entry, at most some
/// tens of milliseconds.
const PERMIT_BYTES_MAX: usize = 64 * 1024;
/// The cost of a text, however short it is.
const TEXT_BYTES_MIN: usize = 32;

/// The CPU permits of a process. Cheap to clone.
#[derive(Clone)]
pub struct CpuPool {
    requests: Arc<PermitQueue>,
    background: Arc<PermitQueue>,
}

impl Default for CpuPool {
    fn default() -> CpuPool {
        CpuPool::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl CpuPool {
    /// Creates a pool with this many permits for requests.
    #[must_use]
    pub fn new(permits: usize) -> CpuPool {
        CpuPool {
            requests: PermitQueue::new(permits),
            background: PermitQueue::new(1),
        }
    }

    /// Runs work on this many bytes of a tenant. Small work runs at once; other work waits for a
    /// permit, in a request no longer than its deadline.
    pub async fn run<T>(
        &self,
        tenant: &TenantId,
        bytes: usize,
        work: impl FnOnce() -> T,
    ) -> Result<T, EngineError> {
        if sabotage!(
            "work-of-any-size-is-inline",
            bytes <= INLINE_BYTES_MAX,
            true
        ) {
            return Ok(work());
        }
        let _permit = self.acquire(tenant).await?;
        Ok(run_blocking(work))
    }

    /// Applies `work` to each item, with as many permits as the items' bytes need, until one fails.
    pub async fn each<I, T, E>(
        &self,
        tenant: &TenantId,
        items: Vec<I>,
        bytes: impl Fn(&I) -> usize,
        mut work: impl FnMut(I) -> Result<T, E>,
    ) -> Result<Vec<T>, EngineError>
    where
        EngineError: From<E>,
    {
        let mut results = Vec::with_capacity(items.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let mut size = 0;
            let mut part = Vec::new();
            while size < PERMIT_BYTES_MAX
                && let Some(item) = items.next()
            {
                size += bytes(&item);
                part.push(item);
            }
            let part = || {
                part.into_iter()
                    .map(&mut work)
                    .collect::<Result<Vec<T>, E>>()
            };
            results.extend(self.run(tenant, size, part).await??);
        }
        Ok(results)
    }

    /// Number of pieces of work that wait for a permit.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.requests.queued() + self.background.queued()
    }

    /// Waits for a permit: in a request one for requests, until its deadline.
    async fn acquire(&self, tenant: &TenantId) -> Result<CpuPermit, EngineError> {
        let Some(until) = deadline::current() else {
            return Ok(self.background.acquire(tenant).await);
        };
        let permit = self.requests.acquire(tenant);
        let waited = tokio::time::timeout_at(until, permit).await;
        waited.map_err(|_| StoreError::Busy.into())
    }
}

impl Engine {
    /// The CPU permits of this engine.
    #[must_use]
    pub fn cpu(&self) -> &CpuPool {
        &self.parts.cpu
    }

    /// Redacts the body of a caller's record by the rules of now, on the thread pool.
    pub(crate) async fn redact_body_for(
        &self,
        caller: &Caller,
        now: Timestamp,
        body: Map<String, Value>,
    ) -> Result<RecordBody, EngineError> {
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, now);
        self.redact_body(caller.tenant(), &admission, body).await
    }

    /// Redacts the body of a record, on the thread pool.
    pub(crate) async fn redact_body(
        &self,
        tenant: &TenantId,
        admission: &Admission<'_>,
        body: Map<String, Value>,
    ) -> Result<RecordBody, EngineError> {
        let bytes = map_bytes(&body);
        let work = || admission.redact_record(body);
        self.parts.cpu.run(tenant, bytes, work).await
    }
}

/// Runs work that blocks the thread, after telling the runtime to move its other tasks to another
/// thread. A runtime with one thread (a test's) has no other.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// A number of permits, and the work that waits for one.
struct PermitQueue(Mutex<PermitQueueState>);

/// The state of a queue of permits.
#[derive(Default)]
struct PermitQueueState {
    free: usize,
    /// Waiting work by tenant, first in, first out.
    by_tenant: HashMap<TenantId, VecDeque<oneshot::Sender<CpuPermit>>>,
    /// The waiting tenants, the next one first; each is in it once.
    order: VecDeque<TenantId>,
}

impl PermitQueueState {
    /// Takes the next piece of waiting work, of the tenant whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<CpuPermit>> {
        let tenant = self.order.pop_front()?;
        let queue = self.by_tenant.get_mut(&tenant)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.by_tenant.remove(&tenant);
        } else {
            sabotage!(
                "turns-go-by-arrival-alone",
                self.order.push_back(tenant),
                self.order.push_front(tenant)
            );
        }
        next
    }
}

impl PermitQueue {
    fn new(permits: usize) -> Arc<PermitQueue> {
        Arc::new(PermitQueue(Mutex::new(PermitQueueState {
            free: permits.max(1),
            ..PermitQueueState::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, PermitQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free permit, or waits for one.
    async fn acquire(self: &Arc<PermitQueue>, tenant: &TenantId) -> CpuPermit {
        let turn = {
            let mut waiting = self.lock();
            if waiting.free > 0 {
                waiting.free -= 1;
                return CpuPermit(Some(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            if !waiting.by_tenant.contains_key(tenant) {
                waiting.order.push_back(tenant.clone());
            }
            waiting
                .by_tenant
                .entry(tenant.clone())
                .or_default()
                .push_back(sender);
            turn
        };
        turn.await.expect("who waits in the line gets a turn")
    }

    /// Hands a permit that was released to the next waiting work.
    fn hand_over(self: &Arc<PermitQueue>) {
        loop {
            let mut waiting = self.lock();
            let Some(next) = waiting.next() else {
                waiting.free += 1;
                return;
            };
            drop(waiting);
            match next.send(CpuPermit(Some(self.clone()))) {
                Ok(()) => return,
                // That request was abandoned. The permit is not used up: this loop hands it to the
                // next one.
                Err(mut turn) => turn.0 = None,
            }
        }
    }

    /// Number of pieces of work that wait in this queue.
    fn queued(&self) -> usize {
        self.lock().by_tenant.values().map(VecDeque::len).sum()
    }
}

/// A permit to use a core; dropping it hands it over.
struct CpuPermit(Option<Arc<PermitQueue>>);

impl Drop for CpuPermit {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.hand_over();
        }
    }
}

/// The bytes that admitting a draft reads.
pub(crate) fn draft_bytes(draft: &Draft) -> usize {
    text_bytes(&draft.content)
        + tags_bytes(&draft.tags)
        + draft.metadata.as_ref().map_or(0, map_bytes)
}

/// The bytes that redacting a stored entry again reads: none, if it was written under the same
/// rules.
pub(crate) fn review_bytes(admission: &Admission<'_>, entry: &Entry) -> usize {
    if entry.redaction_fingerprint == admission.redaction_fingerprint {
        0
    } else {
        entry_bytes(entry)
    }
}

/// The bytes of an entry that redaction reads.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    text_bytes(&entry.content)
        + tags_bytes(&entry.tags)
        + entry.metadata.as_ref().map_or(0, map_bytes)
}

/// The bytes of a JSON object that redaction reads, its names included.
pub(crate) fn map_bytes(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(name, value)| text_bytes(name) + value_bytes(value))
        .sum()
}

/// The bytes of a JSON value that redaction reads.
pub(crate) fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text_bytes(text),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(map) => map_bytes(map),
        Value::Null | Value::Bool(_) | Value::Number(_) => TEXT_BYTES_MIN,
    }
}

/// The bytes of tags that redaction reads.
fn tags_bytes(tags: &[String]) -> usize {
    tags.iter().map(|tag| text_bytes(tag)).sum()
}

/// The bytes of a text, or the least that any text costs.
pub(crate) fn text_bytes(text: &str) -> usize {
    text.len().max(TEXT_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    const LARGE: usize = INLINE_BYTES_MAX + 1;

    fn is_ready(work: &mut Pin<Box<impl Future>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        work.as_mut().poll(&mut context).is_ready()
    }

    /// Queues work for these tenants in this order, and returns the order in which it ran.
    async fn order_of(names: &[&str]) -> Vec<String> {
        let pool = CpuPool::new(1);
        let order = Mutex::new(Vec::new());
        let first = pool.background.acquire(&tenant("first")).await;
        let work = names.iter().map(|name| {
            let pool = &pool;
            let order = &order;
            async move {
                let note = || order.lock().unwrap().push((*name).to_owned());
                pool.run(&tenant(name), LARGE, note).await.unwrap();
            }
        });
        let all = futures_util::future::join_all(work);
        let open = async {
            for _ in 0..names.len() {
                tokio::task::yield_now().await;
            }
            assert_eq!(pool.queued(), names.len(), "they all wait for a turn");
            drop(first);
        };
        tokio::join!(all, open);
        order.into_inner().unwrap()
    }

    #[tokio::test]
    async fn a_tenant_with_many_queued_requests_does_not_starve_another() {
        let mut names = vec!["a"; 100];
        names.push("b");
        let order = order_of(&names).await;
        assert_eq!(order[..3], ["a", "b", "a"]);
        assert_eq!(order.len(), 101);
    }

    #[tokio::test]
    async fn waiting_tenants_are_served_round_robin() {
        let order = order_of(&["a", "a", "a", "b", "b", "c"]).await;
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
    }

    #[tokio::test]
    async fn an_abandoned_acquire_does_not_leak_its_permit() {
        let line = PermitQueue::new(1);
        let a = tenant("a");
        let b = tenant("b");
        let first = line.acquire(&a).await;
        let mut gone = Box::pin(line.acquire(&a));
        assert!(!is_ready(&mut gone));
        let mut handed = Box::pin(line.acquire(&b));
        assert!(!is_ready(&mut handed));
        drop(gone);
        drop(first);
        // It is handed a permit and abandoned before it has seen it.
        drop(handed);
        drop(line.acquire(&tenant("c")).await);
        assert_eq!((line.queued(), line.lock().free), (0, 1));
        assert!(line.lock().order.is_empty());
    }

    #[tokio::test]
    async fn requests_do_not_wait_for_passes_or_past_their_deadline() {
        let pool = CpuPool::new(1);
        let _pass = pool.background.acquire(&tenant("a")).await;
        let until = tokio::time::Instant::now();
        let work = async || pool.run(&tenant("a"), LARGE, || 1).await;
        assert!(matches!(deadline::within(until, work()).await, Ok(1)));
        let _request = pool.requests.acquire(&tenant("a")).await;
        let refused = deadline::within(until, work()).await;
        assert!(matches!(refused, Err(EngineError::Store(StoreError::Busy))));
        assert!(matches!(pool.run(&tenant("a"), 1, || 1).await, Ok(1)));
    }

    #[tokio::test]
    async fn a_large_batch_queues_once_and_yields_between_permits() {
        let pool = CpuPool::new(1);
        let items: Vec<usize> = vec![PERMIT_BYTES_MAX / 2; 5];
        let mut queued = Vec::new();
        let held = pool.background.acquire(&tenant("a")).await;
        let name = tenant("a");
        let mut all = Box::pin(pool.each(&name, items, |size| *size, Ok::<_, EngineError>));
        assert!(!is_ready(&mut all));
        queued.push(pool.queued());
        let mut other = Box::pin(pool.background.acquire(&name));
        assert!(!is_ready(&mut other));
        drop(held);
        // After its first permit the next work in the queue gets one.
        assert!(!is_ready(&mut all));
        assert!(is_ready(&mut other));
        drop(other);
        assert_eq!(all.await.unwrap(), vec![PERMIT_BYTES_MAX / 2; 5]);
        assert_eq!(queued, [1]);
    }
}
