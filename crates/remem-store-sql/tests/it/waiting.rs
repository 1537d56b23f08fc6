//! Waiting for a connection to PostgreSQL: until the request's deadline, however long a handshake
//! takes; in a queue that is bounded for each tenant; and not at all while the database is down.
//!
//! The store connects through a proxy that holds, delays or refuses connections on demand. A caller
//! that is polled once has either its result or waits: no test here depends on how long anything
//! takes.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections"
)]

use futures_util::future::join_all;
use remem_core::{RecordKind, TenantId};
use remem_store::{Directory, LogReads, RecordCalls, StoreError, TenantHead, deadline};
use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::{PostgresOptions, PostgresTarget};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{Proxy, ProxyMode, wait_until};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A wait that no test waits out.
const FOREVER: Duration = Duration::from_secs(3_600);
/// An operation that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The store checks the database as each of its roles, then the monitor connects.
const CONNECTIONS_OF_A_START: usize = 4;
/// The number of waiters that a tenant may have in these tests.
const WAITERS_MAX: usize = 2;

/// A store with one connection for requests, behind a proxy; the monitor is connected, and the one
/// connection is not open yet.
async fn store_behind_a_proxy() -> (Arc<Proxy>, PostgresStore) {
    let database = TestDatabase::fresh().await;
    let (proxy, url) = Proxy::in_front_of(&database.app_url).await;
    let store = PostgresStore::open(PostgresOptions {
        target: PostgresTarget::parse(&url).unwrap(),
        wait: FOREVER,
        waiters_max: WAITERS_MAX,
        ..database.options(1)
    });
    let store = store.await.unwrap();
    proxy.has_accepted(CONNECTIONS_OF_A_START).await;
    (proxy, store)
}

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

type PendingRead<'a> = Pin<Box<dyn Future<Output = Result<TenantHead, StoreError>> + Send + 'a>>;

/// Polls a read once: the result, if it does not have to wait.
async fn polled_once(read: &mut PendingRead<'_>) -> Poll<Result<TenantHead, StoreError>> {
    poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await
}

/// A read of a request that is far from its deadline.
fn read<'a>(store: &'a PostgresStore, tenant: &'a TenantId) -> PendingRead<'a> {
    Box::pin(deadline::within(
        Instant::now() + FOREVER,
        store.head(tenant),
    ))
}

/// A read of a tenant that has opened the one connection as far as the proxy allows, and occupies
/// the pool's only connection.
async fn opening<'a>(
    proxy: &Proxy,
    store: &'a PostgresStore,
    tenant: &'a TenantId,
) -> PendingRead<'a> {
    let mut opener = read(store, tenant);
    tokio::select! {
        answer = &mut opener => panic!("answered without a connection: {answer:?}"),
        () = proxy.has_accepted(CONNECTIONS_OF_A_START + 1) => opener,
    }
}

/// A busy machine: the limit used to be two seconds.
#[tokio::test]
async fn a_connection_that_opens_slowly_still_serves_the_request() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy
        .mode
        .send_replace(ProxyMode::Delay(Duration::from_secs(3)));
    read(&store, &tenant("a")).await.unwrap();
}

#[tokio::test]
async fn a_request_stops_waiting_at_its_deadline() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy.mode.send_replace(ProxyMode::Hold);
    let name = tenant("a");
    let mut opener = opening(&proxy, &store, &name).await;
    // A wait of an hour is allowed; only the deadline can end these.
    let passed = Instant::now();
    let read = deadline::within(passed, store.head(&name));
    let read = timeout(PATIENCE, read).await.expect("the deadline is kept");
    assert!(matches!(read, Err(StoreError::Busy)), "{read:?}");
    assert!(
        polled_once(&mut opener).await.is_pending(),
        "without a deadline"
    );
    let soon = Instant::now() + Duration::from_millis(100);
    drop(opener);
    let read = deadline::within(soon, store.head(&name));
    let read = timeout(PATIENCE, read).await.expect("the deadline is kept");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
}

#[tokio::test]
async fn waiters_per_tenant_are_bounded_and_other_tenants_queue() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy.mode.send_replace(ProxyMode::Hold);
    let busy = tenant("busy");
    let other = tenant("other");
    let mut served = vec![opening(&proxy, &store, &busy).await];
    for _ in 0..WAITERS_MAX {
        let mut waiter = read(&store, &busy);
        assert!(polled_once(&mut waiter).await.is_pending());
        served.push(waiter);
    }
    let refused = polled_once(&mut read(&store, &busy)).await;
    assert!(
        matches!(refused, Poll::Ready(Err(StoreError::Busy))),
        "{refused:?}"
    );
    let mut waiter = read(&store, &other);
    assert!(polled_once(&mut waiter).await.is_pending());
    served.push(waiter);
    // A pass belongs to no request.
    let mut waiter = store.head(&busy);
    assert!(polled_once(&mut waiter).await.is_pending());
    served.push(waiter);

    proxy.mode.send_replace(ProxyMode::Forward);
    for answer in join_all(served).await {
        answer.unwrap();
    }
    read(&store, &busy).await.unwrap();
}

#[tokio::test]
async fn slow_statements_of_one_tenant_leave_connections_to_others() {
    let database = TestDatabase::fresh().await;
    let store = PostgresStore::open(database.options(4)).await.unwrap();
    let busy = tenant("busy");
    let other = tenant("other");
    // A read of a tenant's head waits for this lock; records are in another table.
    let blocker = database.admin().await;
    let lock = "BEGIN; LOCK TABLE remem.tenant_clock IN ACCESS EXCLUSIVE MODE";
    blocker.batch_execute(lock).await.unwrap();
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut read = read(&store, &busy);
        assert!(polled_once(&mut read).await.is_pending());
        slow.push(read);
    }
    let slow = join_all(slow);
    tokio::pin!(slow);
    let found = deadline::within(
        Instant::now() + FOREVER,
        store.record(&other, RecordKind::File, "a"),
    );
    tokio::select! {
        answers = &mut slow => panic!("nothing held them up: {answers:?}"),
        found = timeout(PATIENCE, found) => assert!(found.expect("a connection is left").unwrap().is_none()),
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    for answer in slow.await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn requests_fail_fast_while_the_database_is_down() {
    let (proxy, store) = store_behind_a_proxy().await;
    let directory = store.directory();
    proxy.mode.send_replace(ProxyMode::Hold);
    let name = tenant("a");
    let opener = opening(&proxy, &store, &name).await;
    let mut waiter = read(&store, &name);
    assert!(polled_once(&mut waiter).await.is_pending());

    // Only the monitor notices: the reader's connection is held as before.
    proxy.cut(ProxyMode::Refuse);
    let released = timeout(PATIENCE, join_all([opener, waiter])).await;
    for answer in released.expect("those who wait are released") {
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
    }
    let refused = polled_once(&mut read(&store, &name)).await;
    assert!(
        matches!(refused, Poll::Ready(Err(StoreError::Unavailable(_)))),
        "{refused:?}"
    );
    assert!(!directory.is_reachable().await);

    proxy.mode.send_replace(ProxyMode::Forward);
    wait_until("the monitor is back", || directory.is_reachable()).await;
    read(&store, &name).await.unwrap();
}
