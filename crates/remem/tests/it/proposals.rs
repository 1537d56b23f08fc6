//! Proves that proposals and automations can be managed from the command line, through a server and
//! on the store itself, and that what is installed is what was shown.

use crate::common::{CommandOutput, KEY, ServerProcess, remem_on, run};
use serde_json::{Value, json};
use std::path::Path;

fn write(folder: &Path, name: &str, value: &Value) -> String {
    let file = folder.join(name);
    std::fs::write(&file, value.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn template(text: &str) -> Value {
    json!({"templateId": "greeting", "version": "1.0.0", "text": text, "variables": []})
}

/// Submit, show, revise, apply, reject, archive: the same over HTTP and with --local.
fn a_proposals_life(folder: &Path, name: &str, remem: impl Fn(&[&str]) -> CommandOutput) {
    let artifact = |text: &str| {
        let mut artifact = template(text);
        artifact["templateId"] = json!(name);
        write(folder, "artifact.json", &artifact)
    };
    let submit = |text: &str| {
        let file = artifact(text);
        let said = remem(&[
            "proposal",
            "submit",
            &file,
            "--kind",
            "prompt-template",
            "--title",
            "A greeting",
        ])
        .exits(0);
        said.stdout
            .trim()
            .strip_prefix("submitted ")
            .unwrap()
            .to_owned()
    };
    let id = submit("Hello");
    assert!(
        remem(&["proposal", "list"])
            .exits(0)
            .stdout
            .contains("A greeting")
    );
    let shown = remem(&["proposal", "show", &id]).exits(0).stdout;
    assert!(
        shown.contains("draft") && shown.contains("\"Hello\""),
        "{shown}"
    );
    let digest = |shown: &str| {
        shown
            .lines()
            .find_map(|line| line.strip_prefix("digest"))
            .unwrap()
            .trim()
            .to_owned()
    };
    let first = digest(&shown);
    let file = artifact("Good day");
    remem(&[
        "proposal", "revise", &id, "--file", &file, "--digest", &first,
    ])
    .exits(0);
    let stale = remem(&["proposal", "apply", &id, "--digest", &first]).exits(4);
    assert!(stale.stderr.contains("proposal_stale"), "{}", stale.stderr);
    let second = digest(&remem(&["proposal", "show", &id]).exits(0).stdout);
    let applied = remem(&["proposal", "apply", &id, "--digest", &second]).exits(0);
    assert_eq!(
        applied.stdout.trim(),
        format!("installed prompt-template/{name}")
    );
    let installed = remem(&["--json", "proposal", "installed"]).exits(0).json();
    let installed = installed["installed"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["proposalId"] == json!(id))
        .unwrap()
        .clone();
    assert_eq!(installed["artifactDigest"], json!(second));
    assert!(installed["artifact"].as_str().unwrap().contains("Good day"));
    assert!(
        remem(&["proposal", "installed"])
            .exits(0)
            .stdout
            .contains(&second)
    );
    remem(&["proposal", "reject", &id]).exits(4);

    let other = submit("Hi");
    let conflict = remem(&["proposal", "apply", &other]).exits(4);
    assert!(
        conflict.stderr.contains("proposal_install_conflict"),
        "{}",
        conflict.stderr
    );
    remem(&["proposal", "approve", &other]).exits(5);
    remem(&["proposal", "override", &other, "--reason", "urgent"]).exits(5);
    assert_eq!(
        remem(&["proposal", "reject", &other])
            .exits(0)
            .stdout
            .trim(),
        format!("rejected {other}")
    );
    let archived = remem(&["--json", "proposal", "archive", &other])
        .exits(0)
        .json();
    assert_eq!(archived["state"], json!("archived"));
    remem(&["proposal", "show", "prop_unknown"]).exits(3);
    remem(&["proposal", "list", "--state", "canary"]).exits(2);
    let listed = remem(&["--json", "proposal", "list", "--state", "archived"])
        .exits(0)
        .json();
    assert!(listed["proposals"].as_array().unwrap().contains(&archived));
}

fn an_automations_life(folder: &Path, remem: impl Fn(&[&str]) -> CommandOutput) {
    let file = write(
        folder,
        "nightly.json",
        &json!({"automationId": "nightly", "schedule": {"cron": "0 3 * * *", "zone": "Europe/Berlin"}, "workflowId": "w"}),
    );
    assert!(
        remem(&["automation", "put", &file])
            .exits(0)
            .stdout
            .starts_with("set nightly; next: ")
    );
    assert!(
        remem(&["automation", "put", &file])
            .exits(0)
            .stdout
            .starts_with("replaced nightly")
    );
    assert!(
        remem(&["automation", "list"])
            .exits(0)
            .stdout
            .contains("0 3 * * * Europe/Berlin")
    );
    assert_eq!(
        remem(&["automation", "pause", "nightly"])
            .exits(0)
            .stdout
            .trim(),
        "paused nightly; next: paused"
    );
    assert!(
        remem(&["automation", "show", "nightly"])
            .exits(0)
            .stdout
            .contains("workflow w")
    );
    assert_eq!(
        remem(&["--json", "automation", "resume", "nightly"])
            .exits(0)
            .json()["enabled"],
        json!(true)
    );
    assert_eq!(
        remem(&["--json", "automation", "remove", "nightly"])
            .exits(0)
            .json(),
        json!({"removed": "nightly"})
    );
    for gone in ["show", "pause", "resume", "remove"] {
        remem(&["automation", gone, "nightly"]).exits(3);
    }
    assert_eq!(
        remem(&["automation", "list"]).exits(0).stdout.trim(),
        "no automations"
    );
    let bad = write(
        folder,
        "bad.json",
        &json!({"automationId": "x", "schedule": {"every": "canary"}, "workflowId": "w"}),
    );
    let refused = remem(&["automation", "put", &bad]).exits(4);
    assert!(!refused.stderr.contains("canary"), "{}", refused.stderr);
}

#[test]
fn proposals_and_automations_are_managed_over_http_and_locally() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let local = |arguments: &[&str]| run(remem_on(folder.path()).arg("--local").args(arguments));
    a_proposals_life(files.path(), "local-greeting", local);
    an_automations_life(files.path(), local);
    let server = ServerProcess::start(folder.path());
    let remote = |arguments: &[&str]| {
        run(remem_on(folder.path())
            .args(["--url", &server.url, "--key", KEY])
            .args(arguments))
    };
    a_proposals_life(files.path(), "remote-greeting", remote);
    an_automations_life(files.path(), remote);
    let key = |role: &str| {
        run(remem_on(folder.path()).args([
            "--url",
            &server.url,
            "--key",
            KEY,
            "key",
            "create",
            "--role",
            role,
        ]))
    };
    let reader = key("reader").exits(0).stdout.trim().to_owned();
    key("emperor").exits(2);
    let weak = |arguments: &[&str]| {
        run(remem_on(folder.path())
            .args(["--url", &server.url, "--key", &reader])
            .args(arguments))
    };
    let listed = weak(&["--json", "proposal", "list"]).exits(0).json();
    let id = listed["proposals"][0]["id"].as_str().unwrap();
    weak(&["proposal", "apply", id]).exits(5);
}

#[test]
fn an_invalid_proposal_setting_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = run(remem_on(folder.path())
        .env("REMEM_PROPOSALS__REQUIRED_ROLE", "emperor")
        .args(["--local", "proposal", "list"]));
    assert!(refused.exits(1).stderr.contains("proposals.required_role"));
}
