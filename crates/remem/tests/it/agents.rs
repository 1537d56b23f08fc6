//! Proves that agents can be installed from the command line, through a server and on the store
//! itself, and that a host brings those of its folder along or does not start.

use crate::common::{CommandOutput, KEY, ServerProcess, place, remem_on, run};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn manifest(id: &str) -> Value {
    json!({"agentId": id, "persona": "Greeter", "modelClass": "general", "systemPrompt": "Say hello.",
        "memoryShape": {"longTerm": true}, "requiresCapabilities": ["memory.search", "aiProviders"]})
}

fn write(folder: &Path, name: &str, value: &Value) -> String {
    let file = folder.join(name);
    std::fs::write(&file, value.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Install, list, show, replace, remove: the same over HTTP and with --local.
fn an_agents_life(folder: &Path, remem: impl Fn(&[&str]) -> CommandOutput) {
    let plain = write(folder, "plain.json", &manifest("local.cli.greeter"));
    let packed = write(
        folder,
        "packed.json",
        &json!({"manifest": manifest("local.cli.greeter"), "packName": "greeting", "packVersion": "2.0.0"}),
    );
    let installed = remem(&["agent", "install", &plain]).exits(0);
    assert_eq!(installed.stdout.trim(), "installed local.cli.greeter");
    assert!(
        installed.stderr.contains("aiProviders"),
        "{}",
        installed.stderr
    );
    assert_eq!(
        remem(&["agent", "install", &packed]).exits(0).stdout.trim(),
        "replaced local.cli.greeter"
    );
    let shown = remem(&["--json", "agent", "show", "local.cli.greeter"])
        .exits(0)
        .json();
    assert_eq!(
        (&shown["packName"], &shown["degraded"]),
        (&json!("greeting"), &json!(["aiProviders"]))
    );
    assert_eq!(
        remem(&["--json", "agent", "list"]).exits(0).json(),
        json!({"agents": [shown], "total": 1})
    );
    assert!(
        remem(&["agent", "list"])
            .exits(0)
            .stdout
            .contains("greeting 2.0.0")
    );
    assert!(
        remem(&["agent", "show", "local.cli.greeter"])
            .exits(0)
            .stdout
            .contains("long-term")
    );
    assert_eq!(
        remem(&["--json", "agent", "remove", "local.cli.greeter"])
            .exits(0)
            .json(),
        json!({"removed": "local.cli.greeter"})
    );
    for gone in ["show", "remove"] {
        remem(&["agent", gone, "local.cli.greeter"]).exits(3);
    }
    assert_eq!(
        remem(&["agent", "list"]).exits(0).stdout.trim(),
        "no agents"
    );
    let bad = write(folder, "bad.json", &json!({"agentId": "canary"}));
    let refused = remem(&["agent", "install", &bad]).exits(4);
    assert!(
        refused.stderr.contains("agentId") && !refused.stderr.contains("canary"),
        "{}",
        refused.stderr
    );
    remem(&["agent", "install", "no-such-file.json"]).exits(1);
}

#[test]
fn agents_are_managed_over_http_and_on_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    an_agents_life(files.path(), |arguments| {
        run(remem_on(folder.path()).arg("--local").args(arguments))
    });
    let server = ServerProcess::start(folder.path());
    an_agents_life(files.path(), |arguments| {
        run(remem_on(folder.path())
            .args(["--url", &server.url, "--key", KEY])
            .args(arguments))
    });
}

#[tokio::test]
async fn agents_of_the_folder_are_loaded_and_an_invalid_one_stops_start() {
    let folder = tempfile::tempdir().unwrap();
    let agents = tempfile::tempdir().unwrap();
    write(
        agents.path(),
        "greeter.json",
        &manifest("core.host.greeter"),
    );
    let setting = [("REMEM_AGENTS__DIR", agents.path().to_str().unwrap())];
    let mut server = ServerProcess::start_with(folder.path(), &[], &setting);
    let listed = server.client().get("/v1/agents").await.is(200).json();
    assert_eq!(
        (&listed["total"], &listed["agents"][0]["agentId"]),
        (&json!(1), &json!("core.host.greeter"))
    );
    let discovery = server
        .client()
        .get("/.well-known/openwop")
        .await
        .is(200)
        .json();
    assert_eq!(discovery["agents"]["manifestRuntime"]["supported"], true);
    server.terminate();
    write(agents.path(), "spoiled.json", &json!({"agentId": "canary"}));
    let mut refused = remem_on(folder.path());
    let refused = run(refused
        .args(["serve", "--listen", "127.0.0.1:0"])
        .envs(setting))
    .exits(1);
    assert!(
        refused.stderr.contains("spoiled.json") && refused.stderr.contains("agentId"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("canary"));
}

/// A host that forgets is honest about it.
#[tokio::test]
async fn an_in_memory_store_marks_durable_agents_as_degraded() {
    if place::is_postgres() {
        return; // There is nothing in the process then.
    }
    let folder = tempfile::tempdir().unwrap();
    let agents = tempfile::tempdir().unwrap();
    write(
        agents.path(),
        "greeter.json",
        &manifest("core.host.greeter"),
    );
    let setting = [("REMEM_AGENTS__DIR", agents.path().to_str().unwrap())];
    let mut server = ServerProcess::start_with(folder.path(), &["--store", "memory"], &setting);
    let entry = server
        .client()
        .get("/v1/agents/core.host.greeter")
        .await
        .is(200)
        .json();
    assert_eq!(
        (&entry["memoryDegraded"], &entry["degradedMemoryDimensions"]),
        (&json!(true), &json!(["long-term-durability"]))
    );
    server.signal("TERM");
    assert!(server.wait(Duration::from_secs(10)).is_some());
}
