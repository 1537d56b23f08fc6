//! Waiting for a connection to PostgreSQL: until the request's deadline, however long a handshake
//! takes; in a line that is bounded for each tenant; and not at all while the database is down.
//!
//! The store connects through a proxy that holds, delays or refuses connections when it is told to.
//! A caller that is polled once has either been answered or waits: no test here depends on how
//! long anything takes.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections"
)]

use futures_util::future::join_all;
use remem_core::TenantId;
use remem_store::{Directory, Head, Store, StoreError, deadline};
use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::{Options, Target};
use remem_testkit::postgres::Database;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

/// A wait that no test waits out.
const FOREVER: Duration = Duration::from_secs(3_600);
/// What takes longer than this has hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// The store examines the database as each of its roles, then the monitor connects.
const CONNECTIONS_OF_A_START: usize = 4;
/// Waiters that a tenant may have in these tests.
const WAITERS_MAX: usize = 2;

/// What the proxy does with a new connection.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Forward,
    Delay(Duration),
    /// Until the mode is `Forward`.
    Hold,
    Refuse,
}

/// A TCP proxy in front of the database.
struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    accepted: watch::Sender<usize>,
    forwarding: Mutex<Vec<AbortHandle>>,
}

impl Proxy {
    async fn start(upstream: String) -> Arc<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Proxy {
            port: listener.local_addr().unwrap().port(),
            mode: watch::Sender::new(Mode::Forward),
            accepted: watch::Sender::new(0),
            forwarding: Mutex::default(),
        });
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                accepting.take(client, upstream.clone());
            }
        });
        proxy
    }

    fn take(&self, client: TcpStream, upstream: String) {
        let mode = *self.mode.borrow();
        let mut modes = self.mode.subscribe();
        let forward = async move {
            match mode {
                Mode::Forward => {}
                Mode::Delay(time) => sleep(time).await,
                Mode::Hold => drop(modes.wait_for(|mode| *mode == Mode::Forward).await),
                Mode::Refuse => return,
            }
            let mut client = client;
            let mut server = TcpStream::connect(upstream).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        };
        let task = tokio::spawn(forward).abort_handle();
        if mode == Mode::Forward {
            self.forwarding.lock().unwrap().push(task);
        }
        self.accepted.send_modify(|count| *count += 1);
    }

    /// Refuses new connections and cuts those that it forwards; held ones stay held.
    fn refuse_and_cut(&self) {
        self.mode.send_replace(Mode::Refuse);
        for task in self.forwarding.lock().unwrap().drain(..) {
            task.abort();
        }
    }

    async fn has_accepted(&self, count: usize) {
        let mut accepted = self.accepted.subscribe();
        accepted.wait_for(|so_far| *so_far >= count).await.unwrap();
    }
}

/// A store with one connection for requests, behind a proxy; the monitor is connected, and the one
/// connection is not open yet.
async fn store_behind_a_proxy() -> (Arc<Proxy>, PostgresStore) {
    let database = Database::fresh().await;
    let (credentials, rest) = database.app_url.rsplit_once('@').unwrap();
    let (upstream, name) = rest.split_once('/').unwrap();
    let proxy = Proxy::start(upstream.to_owned()).await;
    let url = format!("{credentials}@127.0.0.1:{}/{name}", proxy.port);
    let store = PostgresStore::open(Options {
        target: Target::parse(&url).unwrap(),
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

type Read<'a> = Pin<Box<dyn Future<Output = Result<Head, StoreError>> + Send + 'a>>;

/// How far a read comes without waiting.
async fn polled_once(read: &mut Read<'_>) -> Poll<Result<Head, StoreError>> {
    poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await
}

/// A read of a request that is far from its deadline.
fn read<'a>(store: &'a PostgresStore, tenant: &'a TenantId) -> Read<'a> {
    Box::pin(deadline::within(
        Instant::now() + FOREVER,
        store.head(tenant),
    ))
}

/// A read of a tenant that has opened the one connection as far as the proxy lets it, and keeps the
/// pool's only place.
async fn opening<'a>(proxy: &Proxy, store: &'a PostgresStore, tenant: &'a TenantId) -> Read<'a> {
    let mut opener = read(store, tenant);
    tokio::select! {
        answer = &mut opener => panic!("answered without a connection: {answer:?}"),
        () = proxy.has_accepted(CONNECTIONS_OF_A_START + 1) => opener,
    }
}

/// The case of a busy machine: the bound used to be two seconds.
#[tokio::test]
async fn a_connection_that_takes_three_seconds_to_open_serves_the_request() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy.mode.send_replace(Mode::Delay(Duration::from_secs(3)));
    read(&store, &tenant("a")).await.unwrap();
}

#[tokio::test]
async fn a_request_stops_waiting_at_its_deadline() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy.mode.send_replace(Mode::Hold);
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
async fn a_tenant_has_so_many_waiters_and_another_one_still_gets_in_line() {
    let (proxy, store) = store_behind_a_proxy().await;
    proxy.mode.send_replace(Mode::Hold);
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

    proxy.mode.send_replace(Mode::Forward);
    for answer in join_all(served).await {
        answer.unwrap();
    }
    read(&store, &busy).await.unwrap();
}

#[tokio::test]
async fn nobody_waits_while_the_database_is_down() {
    let (proxy, store) = store_behind_a_proxy().await;
    let directory = store.directory();
    proxy.mode.send_replace(Mode::Hold);
    let name = tenant("a");
    let opener = opening(&proxy, &store, &name).await;
    let mut waiter = read(&store, &name);
    assert!(polled_once(&mut waiter).await.is_pending());

    // The monitor alone notices: the opener's connection is held as before.
    proxy.refuse_and_cut();
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

    proxy.mode.send_replace(Mode::Forward);
    let back = async {
        while !directory.is_reachable().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, back).await.expect("the monitor is back");
    read(&store, &name).await.unwrap();
}
