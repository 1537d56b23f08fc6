//! The program of docs/operations.md recomputes the chain of a real host's events from outside, and
//! sees where it was broken.
//!
//! Needs a Python that has the PyPI package `blake3`; its path is in `REMEM_TEST_PYTHON`.

use crate::common::{Client, CommandOutput, KEY, ServerProcess, run};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// The only Python program of the page.
fn program() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn python(arguments: &[&str]) -> CommandOutput {
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!(
            "REMEM_TEST_PYTHON is not set: run `scripts/test`, which installs what the program needs"
        )
    };
    run(Command::new(python).args(arguments))
}

fn verify(dir: &Path, server: &ServerProcess) -> CommandOutput {
    let file = dir.join("verify.py");
    std::fs::write(&file, program()).unwrap();
    python(&[file.to_str().unwrap(), &server.url, KEY])
}

async fn has_ended(client: &Client, id: &str) {
    let mut last = 0;
    loop {
        let poll = format!("/v1/runs/{id}/events/poll?lastSequence={last}&timeout=5");
        let page = client.get(&poll).await.is(200).json();
        if page["isComplete"] == json!(true) {
            return;
        }
        last += page["events"].as_array().unwrap().len();
    }
}

#[tokio::test]
async fn the_documented_program_verifies_the_chain_and_detects_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(folder.path());
    let client = server.client();
    for text in [
        "Ana prefers tea",
        "Grüße aus Zürich \u{1f600}",
        "Bo takes coffee",
    ] {
        client
            .put("agent/1 \"quoted\" ü", &json!({"content": text}))
            .await;
    }
    let workflow = json!({"id": "note", "nodes": [{"id": "a", "typeId": "core.noop", "config": {"summary": true}}]});
    let path = "/v1/host/remembrancer/workflows/note";
    let put = client.request(reqwest::Method::PUT, path).json(&workflow);
    crate::common::client::finish(put).await.unwrap().is(201);
    let started = client
        .post("/v1/runs", &json!({"workflowId": "note"}))
        .await;
    let id = started.is(201).json()["runId"].as_str().unwrap().to_owned();
    has_ended(&client, &id).await;
    // A replayed event names the instant at which it was first recorded.
    let fork = json!({"mode": "replay"});
    let path = format!("/v1/runs/{id}:fork");
    let again = client.post(&path, &fork).await.is(201).json();
    has_ended(&client, again["runId"].as_str().unwrap()).await;
    let events = client.events_after(0).await;
    let repeated = events.iter().any(|event| event["recordedAt"].is_string());
    assert!(repeated, "a replay repeats what was written: {events:?}");
    let ran = verify(folder.path(), &server).exits(0);
    let held: usize = ran.stdout.split(' ').next().unwrap().parse().unwrap();
    assert!(
        held >= events.len() && events.len() > 8,
        "{held} of {}: {}",
        events.len(),
        ran.stdout
    );
    assert!(
        ran.stdout.contains(" links hold, 0 cannot be checked"),
        "{}",
        ran.stdout
    );
    server.terminate();
    let database = folder.path().join("tenants").join("default.db");
    let change = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
        db.execute(\"UPDATE event SET at = at + 1 WHERE seq = 2\"); db.commit()";
    python(&["-c", change, database.to_str().unwrap()]).exits(0);
    let server = ServerProcess::start(folder.path());
    let ran = verify(folder.path(), &server).exits(1);
    assert!(
        ran.stderr.contains("event 2 does not follow"),
        "{}",
        ran.stderr
    );
}
