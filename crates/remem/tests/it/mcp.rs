//! Proves that the official MCP client for Python can use the host: over stdio and over streamable
//! HTTP, with the newest protocol and with the handshake of older ones. What is checked is in
//! `mcp_client.py`.
//!
//! Needs a Python that has the PyPI package `mcp`; its path is in `REMEM_TEST_PYTHON`.

use crate::common;
use crate::common::place::database_of;
use crate::common::{CommandOutput, KEY, ServerProcess, run};
use reqwest::Method;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Runs the client to its end.
fn client(arguments: &[&str]) -> CommandOutput {
    run(&mut client_command(arguments))
}

fn client_command(arguments: &[&str]) -> Command {
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!(
            "REMEM_TEST_PYTHON is not set: run `scripts/test`, which installs the MCP client for Python and sets it"
        );
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("mcp_client.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments);
    command
}

/// Runs the client and requires that all its checks held, with a protocol version that begins like
/// this.
fn converse(arguments: &[&str], version: &str) {
    let ran = client(arguments).exits(0);
    let held: usize = ran
        .stdout
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    assert!(
        held >= 60,
        "the client went through everything: {}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(&format!("with protocol {version}")),
        "{}",
        ran.stdout
    );
}

fn over_stdio(mode: &str, version: &str) {
    let folder = tempfile::tempdir().unwrap();
    converse(
        &[
            "stdio",
            mode,
            env!("CARGO_BIN_EXE_remem"),
            folder.path().to_str().unwrap(),
        ],
        version,
    );
}

fn over_http(mode: &str, version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    converse(&["http", mode, &server.url, KEY], version);
}

#[test]
fn the_newest_protocol_works_over_stdio() {
    over_stdio("auto", "2026-");
}

#[test]
fn the_older_handshake_works_over_stdio() {
    over_stdio("legacy", "2025-");
}

/// With a server, the key decides the trust of the tools: the first key is not set to an operator's
/// trust, so a model writes as a model.
#[test]
fn the_tools_of_a_server_work_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let remem = env!("CARGO_BIN_EXE_remem");
    converse(&["proxy", "auto", remem, &server.url, KEY], "2026-");
}

#[test]
fn the_newest_protocol_works_over_http() {
    over_http("auto", "2026-");
}

#[test]
fn the_older_handshake_works_over_http() {
    over_http("legacy", "2025-");
}

/// The set-up of the README: no server anywhere, and reminders fire all the same.
#[test]
fn a_reminder_fires_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let ran = client(&["reminder", "auto", env!("CARGO_BIN_EXE_remem"), place]).exits(0);
    assert!(ran.stdout.contains("the reminder fired"), "{}", ran.stdout);
}

/// Beside a server that has the folder open, leases see to it that a reminder fires once.
#[tokio::test]
async fn a_reminder_fires_once_beside_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let place = folder.path().to_str().unwrap();
    let arguments = ["reminder", "auto", env!("CARGO_BIN_EXE_remem"), place];
    let mut command = client_command(&arguments);
    if let Some(url) = database_of(folder.path()) {
        command.env("REMEM_DATABASE", url);
    }
    run(&mut command).exits(0);
    let path = "/v1/host/remembrancer/events?limit=0";
    let events = server.client().get(path).await.is(200).json();
    let fired = events["events"].as_array().unwrap().iter();
    let fired = fired.filter(|event| event["type"] == "commitment.fired");
    assert_eq!(fired.count(), 1, "{events}");
}

#[tokio::test]
async fn mcp_over_http_requires_a_valid_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let ask = |request: reqwest::RequestBuilder| {
        let request = request
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        common::client::finish(request)
    };
    let nobody = ask(server.client().anonymous(Method::POST, "/mcp"))
        .await
        .unwrap()
        .is(401);
    assert_eq!(
        (nobody.header("www-authenticate"), &nobody.json()["error"]),
        ("Bearer", &json!("unauthenticated"))
    );
    ask(server
        .client()
        .with_key("wrong")
        .request(Method::POST, "/mcp"))
    .await
    .unwrap()
    .is(401);
    ask(server.client().request(Method::POST, "/mcp"))
        .await
        .unwrap()
        .is(200);
}
