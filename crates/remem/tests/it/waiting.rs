//! Proves at the HTTP surface how requests wait for a connection to PostgreSQL: a slow handshake is
//! waited for, a request is answered by its deadline, one tenant cannot fill the line, and while
//! the database is down no request waits.
//!
//! The host connects through a proxy that holds, delays or refuses connections on a test's command.

use crate::common::client::HttpAnswer;
use crate::common::{Client, ServerProcess, place, remem, run};
use remem_testkit::{Proxy, ProxyMode, wait_until};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

const MEMORY: &str = "agent/1";
/// A request that takes longer than this has hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// A wait that is longer than any test takes.
const NEVER_MS: &str = "3600000";

/// A host behind a proxy, with one connection for requests.
struct ProxiedHost {
    folder: TempDir,
    database: String,
    proxy: Arc<Proxy>,
    server: ServerProcess,
}

impl ProxiedHost {
    async fn start(settings: &[(&str, &str)]) -> ProxiedHost {
        let folder = tempfile::tempdir().unwrap();
        let database = place::new_database(&place::server_url());
        let (proxy, url) = Proxy::in_front_of(&database).await;
        let settings = [
            &[
                ("REMEM_STORAGE__CONNECTIONS", "1"),
                ("REMEM_SERVER__METRICS_PUBLIC", "true"),
            ],
            settings,
        ]
        .concat();
        let server = tokio::task::block_in_place(|| {
            ServerProcess::start_with(folder.path(), &["--database", &url], &settings)
        });
        ProxiedHost {
            folder,
            database,
            proxy,
            server,
        }
    }

    /// A client with a key of a tenant of its own.
    fn client_of(&self, tenant: &str) -> Client {
        let manage = |arguments: &[&str]| {
            let mut command = remem();
            command.arg("--data-dir").arg(self.folder.path());
            command.args(["--database", &self.database]).args(arguments);
            tokio::task::block_in_place(|| run(&mut command)).exits(0)
        };
        manage(&["tenant", "create", tenant]);
        let key = manage(&["--tenant", tenant, "key", "create"]).stdout;
        self.server.client().with_key(key.trim())
    }

    /// Cuts all connections, and sends one request: the pool may not have noticed yet that its
    /// connection is cut, and does when it is used.
    async fn cut(&self, mode: ProxyMode) {
        self.proxy.cut(mode);
        let answer = read(&self.server.client()).await;
        assert!([200, 503].contains(&answer.status), "{}", answer.text);
    }
}

async fn read(client: &Client) -> HttpAnswer {
    client.get(&Client::memory(MEMORY, "entries")).await
}

/// Either of two errors is right: it depends on whether a key was looked up or memory read.
fn is_refused(answer: &HttpAnswer) {
    assert_eq!(answer.status, 503, "{}", answer.text);
    let code = answer.json()["error"].clone();
    assert!(code == "busy" || code == "unavailable", "{code}");
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_for_a_slow_database_handshake() {
    let host = ProxiedHost::start(&[]).await;
    host.cut(ProxyMode::Delay(Duration::from_secs(3))).await;
    read(&host.server.client()).await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_refused_when_its_deadline_has_passed() {
    let settings = [
        ("REMEM_LIMITS__REQUEST_MS_MAX", "500"),
        ("REMEM_STORAGE__WAIT_MS_MAX", NEVER_MS),
    ];
    let host = ProxiedHost::start(&settings).await;
    host.cut(ProxyMode::Hold).await;
    is_refused(&read(&host.server.client()).await);
}

/// Ten callers come, and nothing is served: one opens the connection, two wait, seven are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_too_many_waiting_requests_is_refused() {
    let settings = [
        ("REMEM_STORAGE__WAITERS_MAX", "2"),
        ("REMEM_LIMITS__REQUEST_MS_MAX", NEVER_MS),
        ("REMEM_STORAGE__WAIT_MS_MAX", NEVER_MS),
    ];
    let host = ProxiedHost::start(&settings).await;
    let busy = host.client_of("busy");
    let other = host.client_of("other");
    host.proxy.cut(ProxyMode::Hold);
    let mut callers = JoinSet::new();
    for _ in 0..10 {
        let client = busy.clone();
        callers.spawn(async move { read(&client).await });
    }
    for _ in 0..7 {
        is_refused(&callers.join_next().await.unwrap().unwrap());
    }
    let neighbour = tokio::spawn(async move { read(&other).await });
    callers.spawn(async move { read(&busy).await });
    is_refused(&callers.join_next().await.unwrap().unwrap());
    host.proxy.mode.send_replace(ProxyMode::Forward);
    neighbour.await.unwrap().is(200);
    let mut served = callers.join_all().await.into_iter();
    assert!(served.any(|answer| answer.status == 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_down_requests_are_refused_at_once() {
    let host = ProxiedHost::start(&[]).await;
    let client = host.server.client();
    host.cut(ProxyMode::Refuse).await;
    let refused = "remem_database_refused_total{reason=\"down\"}";
    let down = async {
        while !client.get("/metrics").await.text.contains(refused) {
            is_refused(&read(&client).await);
        }
    };
    timeout(PATIENCE, down).await.expect("the monitor says so");
    host.proxy.mode.send_replace(ProxyMode::Forward);
    wait_until("the monitor is back", || async {
        client.get("/ready").await.status == 200
    })
    .await;
    read(&client).await.is(200);
}
