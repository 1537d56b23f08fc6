//! No tenant is starved: costly work of one tenant holds up neither the host nor other tenants, a
//! page is bounded in bytes, and a client that does not read its answer does not keep it in memory.

#![allow(
    clippy::disallowed_methods,
    reason = "requests of several tenants run as tasks of their own"
)]

use axum::body::Body;
use axum::http::Request;
use remem_core::{Permission, Policy, TenantId};
use remem_engine::VaultKey;
use remem_store::deadline::within;
use remem_testkit::server::MEMORY;
use remem_testkit::{TestResponse, TestServer, deadline, wait_until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

const HOST: &str = "/v1/host/remembrancer";
const FILES: &str = "/v1/host/workspace/files";

/// A request as a task, as a server's accept loop would have it.
fn spawned(
    host: &Arc<TestServer>,
    key: &'static str,
    method: &'static str,
    path: &str,
    body: &Value,
) -> JoinHandle<TestResponse> {
    let host = host.clone();
    let path = path.to_owned();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    tokio::spawn(async move { host.call(key, method, &path, &[], body).await })
}

fn long_text() -> String {
    "word ".repeat(2_000)
}

/// The requests of this tenant whose work grows with what callers send.
fn costly(id: &str) -> Vec<(&'static str, String, Value)> {
    let long = "word ".repeat(2_000);
    let short = "word ".repeat(200);
    let entries = vec![json!({"content": short}); 10];
    vec![
        (
            "POST",
            format!("{MEMORY}/put/entries"),
            json!({"content": long}),
        ),
        (
            "POST",
            format!("{MEMORY}/put/entries"),
            json!({"content": "x", "metadata": {"text": long}}),
        ),
        (
            "POST",
            format!("{MEMORY}/put/entries:batch"),
            json!({"entries": entries}),
        ),
        (
            "POST",
            format!("{MEMORY}/~%2Fdesk/entries"),
            json!({"content": long}),
        ),
        ("GET", format!("{MEMORY}/m/entries"), Value::Null),
        (
            "GET",
            format!("{MEMORY}/m/entries?tokenBudget=100"),
            Value::Null,
        ),
        (
            "POST",
            format!("{MEMORY}/m/search"),
            json!({"query": "word"}),
        ),
        (
            "POST",
            format!("{MEMORY}/m/recall"),
            json!({"query": "word"}),
        ),
        ("PUT", format!("{FILES}/b"), json!({"content": long})),
        ("GET", format!("{FILES}/a"), Value::Null),
        (
            "POST",
            format!("{HOST}/worlds/w/rules"),
            json!({"rules": [{"id": "r", "body": long}]}),
        ),
        (
            "POST",
            format!("{MEMORY}/m/commitments"),
            json!({"text": long, "every": "P1D"}),
        ),
        (
            "POST",
            "/v1/runs".to_owned(),
            json!({"workflowId": "conformance-noop", "inputs": {"text": long}}),
        ),
        (
            "POST",
            format!("{MEMORY}/~%2Fclosed/sessions/close"),
            json!({}),
        ),
        (
            "POST",
            format!("{MEMORY}/~%2Fthread/interactions/t/close"),
            json!({}),
        ),
        ("GET", format!("{MEMORY}/m/entries/{id}/audit"), Value::Null),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn expensive_work_of_one_tenant_does_not_delay_health_or_others() {
    let host = Arc::new(TestServer::with_seams().await);
    host.key("b", "key-of-b", &Permission::ALL).await;
    let long = json!({"content": "word ".repeat(2_000)});
    let put = host.post(&format!("{MEMORY}/m/entries"), long).await;
    assert_eq!(put.status, 201);
    let put = put.json();
    let id = put["id"].as_str().unwrap();
    for n in 0..20 {
        let link = json!({"action": format!("{n} {}", "word ".repeat(30)), "reference": "word ".repeat(30)});
        let link = host
            .post(&format!("{MEMORY}/m/entries/{id}/links"), link)
            .await;
        assert_eq!(link.status, 200, "{}", link.json());
    }
    let session = json!({"content": long_text(), "tier": "session", "typology": "episodic"});
    let thread = json!({"content": long_text(), "interaction": "t"});
    for (memory, turn) in [("~%2Fclosed", session), ("~%2Fthread", thread)] {
        let put = host.post(&format!("{MEMORY}/{memory}/entries"), turn).await;
        assert_eq!(put.status, 201, "{}", put.json());
    }
    let content = json!({"content": "word ".repeat(2_000)}).to_string();
    let file = host
        .call("key-of-a", "PUT", &format!("{FILES}/a"), &[], content)
        .await;
    assert_eq!(file.status, 200);
    let small = json!({"content": "small"}).to_string();
    let entries = format!("{MEMORY}/m/entries");
    let other = host.call("key-of-b", "POST", &entries, &[], small).await;
    let other = format!("{entries}/{}", other.json()["id"].as_str().unwrap());
    // The redaction rules change here, so every read of a stored text has to check it again.
    let secret = json!({"value": "a-value-of-the-vault"}).to_string();
    let path = format!("{HOST}/secrets/one");
    let set = host.call("key-of-a", "PUT", &path, &[], secret).await;
    assert_eq!(set.status, 201);

    let turns = std::thread::available_parallelism().unwrap().get();
    let running = Arc::new(AtomicUsize::new(0));
    let mut gates = Vec::new();
    let mut held = Vec::new();
    for _ in 0..turns {
        let (open, gate) = mpsc::channel::<()>();
        gates.push(open);
        let host = host.clone();
        let running = running.clone();
        held.push(tokio::spawn(async move {
            let work = move || {
                running.fetch_add(1, Ordering::SeqCst);
                let _ = gate.recv();
            };
            let tenant = TenantId::parse("c").unwrap();
            let until = Instant::now() + 2 * deadline();
            within(until, host.engine.cpu().run(&tenant, 1 << 20, work)).await
        }));
    }
    wait_until("all turns are taken", async || {
        running.load(Ordering::SeqCst) == turns
    })
    .await;

    let costly = costly(id);
    let mut asked = Vec::new();
    for (n, (method, path, body)) in costly.iter().enumerate() {
        asked.push(spawned(&host, "key-of-a", method, path, body));
        wait_until(path, async || host.engine.cpu().queued() == n + 1).await;
    }
    for (key, path) in [("", "/health"), ("key-of-b", other.as_str())] {
        let answer = spawned(&host, key, "GET", path, &Value::Null);
        let answer = timeout(deadline() / 4, answer).await;
        assert_eq!(
            answer.expect("it is not held up").unwrap().status,
            200,
            "{path}"
        );
    }
    let listed = spawned(&host, "key-of-a", "GET", FILES, &Value::Null);
    let listed = timeout(deadline() / 4, listed).await;
    let listed = listed.expect("a list of files looks at no texts").unwrap();
    assert_eq!(listed.json()["files"][0]["path"], "a");

    drop(gates);
    for one in held {
        one.await.unwrap().unwrap();
    }
    for (answer, (method, path, _)) in asked.into_iter().zip(&costly) {
        let answer = answer.await.unwrap();
        assert!(
            answer.status.is_success(),
            "{method} {path}: {}",
            answer.json()
        );
    }
    assert_eq!(host.engine.cpu().queued(), 0);
}

#[tokio::test]
async fn a_file_etag_is_the_same_in_lists_and_reads_after_redaction() {
    let host = TestServer::new().await;
    let content = json!({"content": "the value is a-value-of-the-vault"}).to_string();
    let path = format!("{FILES}/a");
    let put = host.call("key-of-a", "PUT", &path, &[], content).await;
    let secret = json!({"value": "a-value-of-the-vault"}).to_string();
    let set = format!("{HOST}/secrets/one");
    assert_eq!(
        host.call("key-of-a", "PUT", &set, &[], secret).await.status,
        201
    );
    let got = host.get(&path).await;
    assert_eq!(got.json()["content"], "the value is [REDACTED:one]");
    let listed = host.get(FILES).await.json()["files"][0]["etag"].clone();
    assert_eq!(
        (&got.json()["etag"], &put.json()["etag"]),
        (&listed, &listed)
    );
    let headers = [("if-match", listed.as_str().unwrap())];
    let next = json!({"content": "next"}).to_string();
    let next = host.call("key-of-a", "PUT", &path, &headers, next).await;
    assert_eq!(next.status, 200, "{}", next.json());
}

#[tokio::test]
async fn a_page_is_bounded_in_bytes_and_its_cursor_continues() {
    let policy = Policy {
        page_bytes_max: 10_000,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let entries = format!("{MEMORY}/m/entries");
    for n in 0..5 {
        let content = format!(
            "word {n} {}",
            "text ".repeat(if n == 2 { 3_000 } else { 800 })
        );
        let put = host.post(&entries, json!({"content": content})).await;
        assert_eq!(put.status, 201);
    }
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = host.get(&format!("{entries}?limit=0{cursor}")).await.json();
        pages.push(page["entries"].as_array().unwrap().len());
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(
        pages,
        [2, 1, 2],
        "an entry of more than a page goes out alone"
    );
    let found = host
        .post(&format!("{MEMORY}/m/search"), json!({"query": "word 4"}))
        .await;
    assert_eq!(found.json()["hits"].as_array().unwrap().len(), 2);
    for n in 0..3 {
        let body = json!({"rules": [{"id": format!("r{n}"), "body": "rule ".repeat(900)}]});
        let put = host.post(&format!("{HOST}/worlds/w/rules"), body).await;
        assert_eq!(put.status, 200, "{}", put.json());
    }
    let rules = host.get(&format!("{HOST}/worlds/w/rules")).await.json();
    assert_eq!(
        (
            rules["rules"].as_array().unwrap().len(),
            &rules["nextAfter"]
        ),
        (2, &json!("r1"))
    );
}

#[tokio::test]
async fn a_page_of_commitments_is_bounded_in_bytes_and_continues() {
    let policy = Policy {
        page_bytes_max: 10_000,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    for n in 0..5 {
        let text = "text ".repeat(if n == 2 { 3_000 } else { 800 });
        let new = json!({"text": text, "at": format!("2024-01-0{}T00:00:00Z", n + 1)});
        let made = host.post(&format!("{MEMORY}/m/commitments"), new).await;
        assert_eq!(made.status, 201, "{}", made.json());
    }
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = host
            .get(&format!("{HOST}/commitments?limit=0{cursor}"))
            .await
            .json();
        pages.push(page["commitments"].as_array().unwrap().len());
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, [2, 1, 2], "one of more than a page goes out alone");
}

#[tokio::test]
async fn links_of_an_entry_are_limited_and_repeated_ones_are_not_counted() {
    let policy = Policy {
        links_max: 2,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let put = host
        .post(&format!("{MEMORY}/m/entries"), json!({"content": "x"}))
        .await
        .json();
    let path = format!("{MEMORY}/m/entries/{}/links", put["id"].as_str().unwrap());
    for (action, status) in [("one", 200), ("two", 200), ("three", 422), ("two", 200)] {
        let link = json!({"action": action, "reference": "r"});
        let answer = host.post(&path, link).await;
        assert_eq!(answer.status, status, "{action}: {}", answer.json());
    }
    let audit = path.replace("/links", "/audit");
    let audit = host.get(&audit).await.json();
    assert_eq!(audit["links"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_stream_is_closed_and_no_longer_counts() {
    let policy = Policy {
        feeds_max: 1,
        write_ms_max: 100,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let many = vec![json!({"content": "x"}); 1_000];
    let put = host
        .post(
            &format!("{MEMORY}/m/entries:batch"),
            json!({"entries": many}),
        )
        .await;
    assert_eq!(put.status, 201);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(2_048).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(8).unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let app = remem_server::App::new(host.engine.clone(), None, false, stopping.clone());
    let serving = tokio::spawn(remem_server::serve::serve(listener, app, stopping));

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    let mut reader = socket.connect(address).await.unwrap();
    let head = format!(
        "GET {HOST}/events?after=0 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer key-of-a\r\nAccept: text/event-stream\r\n\r\n"
    );
    reader.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    reader.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    wait_until("the place of the stream is free", async || {
        let request = Request::get(format!("{HOST}/events?after=0"))
            .header("authorization", "Bearer key-of-a")
            .header("accept", "text/event-stream")
            .body(Body::empty());
        let answer = host.router.clone().oneshot(request.unwrap()).await;
        answer.unwrap().status() == 200
    })
    .await;
    serving.abort();
    drop(reader);
}

#[tokio::test]
async fn a_failing_tenant_degrades_readiness_without_failing_it() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let secret = json!({"value": "a-value-of-the-vault"}).to_string();
    let path = format!("{HOST}/secrets/one");
    assert_eq!(
        host.call("key-of-a", "PUT", &path, &[], secret.clone())
            .await
            .status,
        201
    );
    assert_eq!(host.get("/ready").await.json(), json!({"status": "ready"}));
    // Another process with a vault key that opens no secret.
    let other = VaultKey::new([8; 32]);
    let host = TestServer::on(host.env, Policy::default(), vec![], Some(other)).await;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let passes = remem_engine::runner::start(&host.engine, &stopping);
    wait_until("one tenant fails", async || {
        host.get("/ready").await.json()["degraded"] == true
    })
    .await;
    let ready = host.get("/ready").await;
    let reported = json!({"status": "ready", "degraded": true, "failingTenants": 1});
    assert_eq!((ready.status.as_u16(), ready.json()), (200, reported));
    stop.send_replace(true);
    for pass in passes {
        pass.await.unwrap();
    }
}

#[tokio::test]
async fn readiness_fails_when_passes_fail_for_every_tenant() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let secret = json!({"value": "a-value-of-the-vault"}).to_string();
    let path = format!("{HOST}/secrets/one");
    for key in ["key-of-a", "key-of-b"] {
        let set = host.call(key, "PUT", &path, &[], secret.clone()).await;
        assert_eq!(set.status, 201);
    }
    let other = VaultKey::new([8; 32]);
    let host = TestServer::on(host.env, Policy::default(), vec![], Some(other)).await;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let passes = remem_engine::runner::start(&host.engine, &stopping);
    wait_until("it is not ready", async || {
        host.get("/ready").await.status == 503
    })
    .await;
    let ready = host.get("/ready").await.json();
    assert!(ready.to_string().contains("passes_failing"), "{ready}");
    stop.send_replace(true);
    for pass in passes {
        pass.await.unwrap();
    }
}
