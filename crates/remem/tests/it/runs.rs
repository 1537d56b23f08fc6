//! Runs of the real host: through kill -9, and delivered to a webhook whose signature the OpenWOP
//! client checks.
//!
//! The second needs a Python that has the PyPI package `openwop-client`; its path is in
//! `REMEM_TEST_PYTHON`.

use crate::common;
use crate::common::client::BASE;
use crate::common::{Client, ServerProcess};
use remem_testkit::wait_for;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

async fn install(client: &Client, id: &str, nodes: Value) {
    let body = json!({"id": id, "nodes": nodes});
    let put = client
        .request(Method::PUT, &format!("{BASE}/workflows/{id}"))
        .json(&body);
    assert!(common::client::finish(put).await.unwrap().status < 300);
}

/// Waits for a run's end; answers its events.
async fn ended(client: &Client, id: &str) -> Vec<Value> {
    let path = format!("/v1/runs/{id}/events/poll");
    wait_for("the run ends", || async {
        let page = client.get(&path).await.is(200).json();
        (page["isComplete"] == true).then(|| page["events"].as_array().unwrap().clone())
    })
    .await
}

/// Each run continues after a kill at any moment and a restart, and each step of it happened once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(folder.path());
    let write = |n: usize| json!({"id": format!("w{n}"), "typeId": "core.identity", "config": {"memoryAction": "write", "memoryRef": "m", "content": format!("text {n}")}});
    let read = |n: usize| json!({"id": format!("r{n}"), "typeId": "core.identity", "config": {"memoryAction": "read", "memoryRef": "m", "limit": 5}});
    let nodes: Vec<Value> = (0..12).flat_map(|n| [write(n), read(n)]).collect();
    install(&server.client(), "long", json!(nodes)).await;
    let mut runs = Vec::new();
    for round in 0..3 {
        for _ in 0..8 {
            let created = server
                .client()
                .post("/v1/runs", &json!({"workflowId": "long"}))
                .await
                .is(201)
                .json();
            runs.push(created["runId"].as_str().unwrap().to_owned());
        }
        tokio::time::sleep(Duration::from_millis(30 * round)).await;
        server.kill9();
        server = ServerProcess::start(folder.path());
    }
    let client = server.client();
    let mut written: HashMap<String, u32> = HashMap::new();
    for id in &runs {
        let events = ended(&client, id).await;
        let seqs: Vec<u64> = events
            .iter()
            .map(|event| event["sequence"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>());
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(
            (
                of("run.completed"),
                of("memory.written"),
                of("node.completed")
            ),
            (1, 12, 24),
            "{id}"
        );
        for event in events
            .iter()
            .filter(|event| event["type"] == "memory.written")
        {
            *written
                .entry(event["payload"]["memoryId"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    assert_eq!(
        written.len(),
        runs.len() * 12,
        "each write has an id of its own"
    );
    let entries = client.all_entries("m").await;
    assert_eq!(entries.len(), written.len(), "and is there once");
    assert!(
        entries
            .iter()
            .all(|entry| written.contains_key(entry["id"].as_str().unwrap()))
    );
}

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_events_are_delivered_to_a_webhook() {
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!(
            "REMEM_TEST_PYTHON is not set: run `scripts/test`, which installs the OpenWOP client for Python and sets it"
        );
    };
    let secret = "secret-of-the-receiver-0123";
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("receive_webhooks.py");
    let mut receiver = Receiver(
        Command::new(python)
            .arg(script)
            .arg(secret)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(receiver.0.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(
        folder.path(),
        &[],
        &[("REMEM_WEBHOOKS__ALLOW_PRIVATE", "true")],
    );
    let client = server.client();
    let body = json!({"url": format!("http://127.0.0.1:{port}/hook"), "events": ["run.completed", "memory.written"], "secret": secret});
    client.post("/v1/webhooks", &body).await.is(201);
    install(
        &client,
        "w",
        json!([{"id": "w", "typeId": "core.identity", "config": {"memoryAction": "write", "memoryRef": "m", "content": "private text"}}]),
    )
    .await;
    let id = client
        .post("/v1/runs", &json!({"workflowId": "w"}))
        .await
        .is(201)
        .json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    let log = ended(&client, &id).await;
    // Reading the pipe blocks; the test's own time limit is the runner's.
    let deliveries = tokio::task::spawn_blocking(move || {
        lines
            .take(2)
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    });
    let deliveries: Vec<Value> = tokio::time::timeout(Duration::from_secs(60), deliveries)
        .await
        .expect("both arrive")
        .unwrap();
    for delivery in &deliveries {
        assert_eq!(delivery["valid"], true, "{delivery}");
        assert_eq!(
            (&delivery["body"]["runId"], &delivery["body"]["workspaceId"]),
            (&json!(id), &json!("default"))
        );
        assert!(!delivery.to_string().contains("private text"));
        let seq = delivery["body"]["event"]["sequence"].as_u64().unwrap() as usize;
        assert_eq!(
            delivery["body"]["event"], log[seq],
            "the event as in the run's own log"
        );
    }
    assert_eq!(
        deliveries
            .iter()
            .map(|d| d["type"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["memory.written", "run.completed"]
    );
}
