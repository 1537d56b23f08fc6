//! Proves that a secret of the vault is nowhere but in it: set by the command line, used in texts,
//! rotated, found late in what was stored before; then looked for in every byte that the host
//! keeps, logs or answers.

use crate::common;
use crate::common::{
    Client, CommandOutput, KEY, ServerProcess, files, place, remem, remem_on, run, run_with_input,
};
use remem_testkit::wait_until_blocking;
use reqwest::Method;
use serde_json::json;
use std::path::Path;

const MEMORY: &str = "vault/agent";
/// Each in a case that the search index does not keep, and the ends that it might.
const LATE: &str = "Plum-HARBOUR-Velvet-1944";
const EARLY: &str = "Copper-LANTERN-Orchard-77";
const OWN: &str = "Saffron-MERIDIAN-Ledger-20";
const TELLING: [&str; 9] = [
    "HARBOUR-Velvet",
    "harbour-velvet",
    "harbour",
    "LANTERN-Orchard",
    "lantern-orchard",
    "lantern",
    "MERIDIAN-Ledger",
    "meridian-ledger",
    "meridian",
];
const VAULT_KEY: &str = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f";

/// On PostgreSQL the vault needs a key of its own; embedded it has one.
fn environment() -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("REMEM_LOG__LEVEL", "trace")];
    if place::is_postgres() {
        variables.push(("REMEM_VAULT_KEY", VAULT_KEY));
    }
    variables
}

fn secret(server: &ServerProcess, arguments: &[&str], input: &str) -> CommandOutput {
    run_with_input(
        remem()
            .args(["--url", &server.url, "--key", KEY, "secret"])
            .args(arguments),
        input,
    )
}

async fn put(client: &Client, content: &str) -> String {
    let body = json!({"content": content, "tags": [content], "metadata": {"k": content}});
    let answer = client
        .request(Method::POST, &Client::memory(MEMORY, "entries"))
        .json(&body);
    let answer = common::client::finish(answer).await.unwrap().is(201);
    serde_json::from_str::<serde_json::Value>(&answer.text).unwrap()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn found(dir: &Path) -> Vec<String> {
    let needles: Vec<String> = TELLING.iter().map(|&needle| needle.to_owned()).collect();
    files::find_in(&place::stored(dir), &needles)
        .iter()
        .map(|found| format!("{found:?}"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vault_secret_never_appears_in_files_logs_or_output() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let file = folder.path().join("value");
    let mut server = ServerProcess::start_with(&dir, &[], &environment());
    let client = server.client();
    assert_eq!(
        put(&client, "an ordinary word: Marmaladequartz").await,
        "an ordinary word: Marmaladequartz"
    );
    if !place::is_postgres() {
        // PostgreSQL keeps old versions of a row until its vacuum; there only what was known in
        // time is looked for.
        assert_eq!(put(&client, LATE).await, LATE);
        let written = client
            .request(Method::PUT, "/v1/host/workspace/files/late.md")
            .json(&json!({"content": LATE}));
        common::client::finish(written).await.unwrap().is(200);
        assert!(!found(&dir).is_empty(), "the search would find it");
    }
    let mut said = vec![secret(&server, &["set", "late"], &format!("{LATE}\n")).exits(0)];
    said.push(
        secret(
            &server,
            &["--json", "set", "token", "--scope", "user"],
            EARLY,
        )
        .exits(0),
    );
    assert_eq!(
        put(&client, &format!("{LATE}, {EARLY}")).await,
        "[REDACTED:late], [REDACTED:token]"
    );
    said.push(secret(&server, &["set", "late"], OWN).exits(4));
    std::fs::write(&file, format!("{OWN}\r\n")).unwrap();
    let path = file.to_str().unwrap();
    let scope = ["--scope", "user"];
    said.push(
        secret(
            &server,
            &[&["rotate", "token", "--file", path], &scope[..]].concat(),
            "",
        )
        .exits(0),
    );
    assert_eq!(
        put(&client, &format!("{EARLY}, {OWN}")).await,
        "[REDACTED:token], [REDACTED:token]"
    );
    said.push(secret(&server, &["rotate", "unknown"], OWN).exits(3));
    said.push(secret(&server, &["set", "short"], "seven77").exits(4));
    said.push(secret(&server, &["list"], "").exits(0));
    let listed = secret(&server, &["--json", "list"], "")
        .exits(0)
        .json_lines();
    assert_eq!(
        listed
            .iter()
            .map(|s| (s["name"].clone(), s["versions"].clone()))
            .collect::<Vec<_>>(),
        [(json!("late"), json!(1)), (json!("token"), json!(2))]
    );
    // The pass runs at once and takes the late one off the disk.
    wait_until_blocking("late values leave the files", || found(&dir).is_empty());
    said.push(
        run(remem_on(&dir).args(["--url", &server.url, "--key", KEY, "export", "-"])).exits(0),
    );
    for ran in &said {
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            !TELLING.iter().any(|needle| shown.contains(needle)),
            "{shown}"
        );
    }
    server.kill9();
    assert!(
        !TELLING
            .iter()
            .any(|needle| server.output().contains(needle)),
        "the log holds a secret"
    );
    let mut server = ServerProcess::start_with(&dir, &[], &environment());
    assert_eq!(
        put(&server.client(), &format!("{LATE}, {EARLY}, {OWN}")).await,
        "[REDACTED:late], [REDACTED:token], [REDACTED:token]"
    );
    secret(&server, &["delete", "token", "--scope", "user"], "").exits(0);
    secret(&server, &["delete", "token", "--scope", "user"], "").exits(3);
    server.terminate();
    assert_eq!(found(&dir), Vec::<String>::new());
}

/// A key that is set later seals from then on, and opens what the host sealed without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vault_key_can_be_added_later_on_the_embedded_store() {
    if place::is_postgres() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let value = |name: &str, value: &str, key: Option<&str>| {
        let mut command = remem_on(folder.path());
        command.args(["--local", "secret", "set", name]);
        command.envs(key.map(|key| ("REMEM_VAULT_KEY", key)));
        run_with_input(&mut command, value)
    };
    value("first", LATE, None).exits(0);
    value("second", EARLY, Some(VAULT_KEY)).exits(0);
    let file = folder.path().join("vault.key");
    std::fs::write(&file, format!("{VAULT_KEY}\n")).unwrap();
    let put = |variables: &[(&str, &str)]| {
        let mut command = remem_on(folder.path());
        command
            .args([
                "--local",
                "--json",
                "put",
                MEMORY,
                &format!("{LATE} {EARLY}"),
            ])
            .envs(variables.iter().copied());
        run(&mut command)
    };
    let stored = put(&[("REMEM_VAULT__KEY_FILE", file.to_str().unwrap())])
        .exits(0)
        .json();
    assert_eq!(
        stored["entry"]["content"],
        "[REDACTED:first] [REDACTED:second]"
    );
    let locked = put(&[]).exits(6);
    assert!(
        locked.stderr.contains("vault_locked") && locked.stderr.contains("vault key"),
        "{}",
        locked.stderr
    );
    let doctor = run(remem_on(folder.path()).arg("doctor")).exits(1);
    assert!(
        doctor
            .stdout
            .contains("secrets of default cannot be opened"),
        "{}",
        doctor.stdout
    );
    for (name, bad) in [
        ("REMEM_VAULT_KEY", "too short"),
        ("REMEM_VAULT__KEY_FILE", "/nowhere/vault.key"),
    ] {
        assert!(!put(&[(name, bad)]).exits(1).stderr.contains("too short"));
    }
}

#[test]
fn on_postgres_the_vault_is_off_without_a_key() {
    if !place::is_postgres() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let refused = secret(&server, &["set", "x"], LATE).exits(4);
    assert!(
        refused.stderr.contains("capability_not_provided")
            && refused.stderr.contains("REMEM_VAULT_KEY"),
        "{}",
        refused.stderr
    );
}
