//! Proves the habits of the command line: exit codes that one table names, durations that all
//! options take, errors as JSON, answers that say what was typed, and warnings where something is
//! probably not meant.

use crate::common::user::{MEMORY, User};
use crate::common::{KEY, ServerProcess, place, remem, remem_on, run, run_on, run_with_input};
use remem_testkit::wait_until_blocking;
use serde_json::{Value, json};
use std::io::Read;
use std::process::Stdio;

fn on_the_store(folder: &tempfile::TempDir) -> User<'_> {
    User {
        dir: folder.path(),
        url: None,
    }
}

#[test]
fn invalid_arguments_exit_with_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    for line in [
        &["put", MEMORY, "x", "--ttl", "banana"][..],
        &["put", MEMORY, "x", "--tier", "foo"],
        &["put", MEMORY, "x", "--expires-at", "tomorrow"],
        &["put", MEMORY, "x", "--metadata", "[]"],
        &["put", MEMORY, "x", "--source", "rumour"],
        &["search", MEMORY, "x", "--mode", "telepathy"],
        &["search", MEMORY, "x", "--time", "sometimes"],
        &["list", MEMORY, "--as-of", "then"],
        &["key", "create", "--scopes", "foo"],
        &["key", "create", "--role", "emperor"],
        &["key", "trust", "key_1", "everything"],
        &["mcp", "--trust", "blind"],
        &["secret", "list", "--owner"],
        &["tenant", "create", "acme", "--shapes", "maybe"],
        &["pass", "jobs", "--state", "lost"],
        &["pass", "schedule", "compact", "--every", "often"],
        &["pass", "run", "consolidate"],
        &["proposal", "list", "--kind", "wish"],
        &["commitment", "create", MEMORY, "x", "--at", "soon"],
        &["commitment", "snooze", "cmt_1", "--for", "banana"],
        &[
            "heartbeat",
            "set",
            "a",
            MEMORY,
            "b",
            "--tag",
            "c",
            "--every",
            "0s",
        ],
        &["forget", "ada"],
        &["export", "--resume"],
        &["copy", "--from", "nowhere", "--to", "nowhere"],
        &["frobnicate"],
    ] {
        let ran = user.run(line).exits(2);
        assert!(
            ran.stderr.starts_with("error: "),
            "{line:?}: {}",
            ran.stderr
        );
    }
    let scope = user
        .run(&["key", "create", "--scopes", "memory:raed"])
        .exits(2);
    assert!(scope.stderr.contains("memory:read"), "{}", scope.stderr);
}

#[test]
fn every_duration_option_takes_short_and_iso_forms() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    for ttl in ["7d", "P7D", "168h", "1h30m"] {
        let entry = user.json(&["put", MEMORY, "short-lived", "--ttl", ttl]);
        assert!(entry["entry"]["expiresAt"].is_string(), "{ttl}: {entry}");
    }
    for every in ["1d", "P1D"] {
        let set = [
            "pass", "schedule", "compact", "--scope", MEMORY, "--every", every,
        ];
        assert_eq!(user.json(&set)["every"], json!("P1D"), "{every}");
        let create = [
            "commitment",
            "create",
            MEMORY,
            "Look",
            "again",
            "--every",
            every,
        ];
        let made = user.json(&create);
        assert_eq!(
            (&made["every"], &made["text"]),
            (&json!("P1D"), &json!("Look again"))
        );
        let id = made["id"].as_str().unwrap().to_owned();
        user.run(&["commitment", "snooze", &id, "--for", "P2D"])
            .exits(0);
        user.run(&["commitment", "cancel", &id]).exits(0);
    }
    for every in ["5m", "PT5M", "300s"] {
        let set = [
            "heartbeat",
            "set",
            "a",
            MEMORY,
            "b",
            "--tag",
            "c",
            "--every",
            every,
        ];
        assert_eq!(user.json(&set)["everySeconds"], json!(300), "{every}");
    }
}

#[test]
fn text_arguments_are_joined_and_a_dash_reads_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    let entry = user.json(&["put", MEMORY, "Ana", "prefers", "tea", "--tag", "drinks"]);
    assert_eq!(entry["entry"]["content"], json!("Ana prefers tea"));
    let dashed = run_with_input(
        &mut user.command(&["--json", "put", MEMORY, "-"]),
        "piped\n",
    );
    assert_eq!(dashed.exits(0).json()["entry"]["content"], json!("piped"));
}

/// Every error, at any place, is one line of JSON.
#[test]
fn errors_are_json_with_the_json_option() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    let file = folder.path().join("no.toml");
    std::fs::write(&file, "[server]\nlissten = 'x'\n").unwrap();
    let file = file.to_str().unwrap();
    let reported = |arguments: &[&str], code: i32| -> Value {
        let ran = user.run(&[&["--json"], arguments].concat()).exits(code);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        serde_json::from_str(&ran.stderr).unwrap_or_else(|e| panic!("{e}: {}", ran.stderr))
    };
    let missing = reported(&["get", MEMORY, "mem_1"], 3);
    let text = format!("entry mem_1 not found in memory {MEMORY}");
    assert_eq!(missing, json!({"error": "not_found", "message": text}));
    let usage = reported(&["put", MEMORY, "x", "--ttl", "banana"], 2);
    assert_eq!(usage["error"], json!("usage"));
    let text = usage["message"].as_str().unwrap();
    assert!(text.contains("'banana'") && text.contains("7d"), "{text}");
    assert_eq!(reported(&["frobnicate"], 2)["error"], json!("usage"));
    assert_eq!(
        reported(&["pass", "run", "consolidate"], 2)["error"],
        json!("usage")
    );
    let past = reported(
        &["put", MEMORY, "x", "--expires-at", "2001-01-01T00:00:00Z"],
        4,
    );
    assert_eq!(past["error"], json!("validation_error"));
    assert_eq!(past["details"], json!({"field": "expiresAt"}));
    assert!(
        past["message"]
            .as_str()
            .unwrap()
            .contains("2001-01-01T00:00:00Z"),
        "{past}"
    );
    let config = reported(&["--config", file, "config", "print"], 1);
    assert_eq!(config["error"], json!("failed"));
    let nowhere = run(remem().args([
        "--json",
        "--url",
        "http://127.0.0.1:1",
        "--key",
        KEY,
        "memories",
    ]));
    let nowhere: Value = serde_json::from_str(&nowhere.exits(6).stderr).unwrap();
    assert_eq!(nowhere["error"], json!("unreachable"));
}

#[test]
fn unknown_environment_variables_only_cause_a_warning() {
    let print = |name: &str| run(remem().args(["config", "print"]).env(name, "debug")).exits(0);
    let near = print("REMEM_LOG_LEVEL");
    assert_eq!(
        near.stderr,
        "warning: unknown environment variable REMEM_LOG_LEVEL is ignored; did you mean REMEM_LOG__LEVEL?\n"
    );
    assert!(near.stdout.contains("level = \"info\""), "{}", near.stdout);
    assert!(
        print("REMEM_COLOUR")
            .stderr
            .contains("REMEM_COLOUR is ignored")
    );
    let known = print("REMEM_LOG__LEVEL");
    assert!(
        known.stdout.contains("level = \"debug\""),
        "{}",
        known.stdout
    );
    for name in ["REMEM_LOG__LEVEL", "REMEM_TEST_CASES", "REMEM_TENANT"] {
        assert_eq!(print(name).stderr, "", "{name}");
    }
    let profile = run(remem()
        .args(["config", "print"])
        .env("REMEM_PROFILES__OPS__BASE", "workshop")
        .env("REMEM_PROFILES__OPS__MEMORIES", "[\"ops\"]"));
    let profile = profile.exits(0);
    assert!(
        profile.stdout.contains("[profiles.ops]"),
        "{}",
        profile.stdout
    );
    assert_eq!(profile.stderr, "");
}

#[test]
fn local_overrides_a_url_in_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = remem_on(folder.path());
        command
            .env("REMEM_URL", "http://127.0.0.1:1")
            .args(arguments);
        run(&mut command)
    };
    command(&["--local", "put", MEMORY, "x"]).exits(0);
    command(&["--local", "key", "create"]).exits(0);
    command(&["--local", "--url", "http://127.0.0.1:1", "memories"]).exits(2);
}

/// `head` closes the pipe when it has enough.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    let lines: String = (0..2_000)
        .map(|n| {
            format!(
                "{}\n",
                json!({"content": format!("entry {n} {}", "x".repeat(200))})
            )
        })
        .collect();
    let import = ["import", "-", "--ref", MEMORY];
    run_with_input(&mut user.command(&import), &lines).exits(0);
    for arguments in [&["--json", "list", MEMORY, "--limit", "0"][..], &["export"]] {
        let mut child = user
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut few = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut few).unwrap();
        let output = child.wait_with_output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*reported),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn files_with_a_byte_order_mark_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let user = on_the_store(&folder);
    let line = "\u{feff}{\"content\": \"from an editor with a mark\"}\r\n";
    run_with_input(&mut user.command(&["import", "-", "--ref", MEMORY]), line).exits(0);
    assert_eq!(user.json(&["stats", MEMORY])["entries"], 1);
    let rule = "\u{feff}{\"id\": \"one\", \"body\": \"A rule.\"}\n";
    run_with_input(&mut user.command(&["rule", "import", "w", "-"]), rule).exits(0);
    let unknown = "{\"contnt\": \"x\"}\n";
    let refused = run_with_input(
        &mut user.command(&["import", "-", "--ref", MEMORY]),
        unknown,
    );
    let reported = refused.exits(1).stderr;
    assert!(
        reported.starts_with("line 1: unknown field `contnt`; did you mean `content`?")
            && reported.ends_with("error: 1 line was refused; the rest is stored\n"),
        "{reported}"
    );
}

#[test]
fn serving_on_a_port_in_use_creates_no_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let fresh = folder.path().join("fresh");
    let dir = fresh.to_str().unwrap();
    let ran = run(remem().args(["--data-dir", dir, "serve", "--listen", &address])).exits(1);
    assert!(ran.stderr.contains("--listen"), "{}", ran.stderr);
    assert!(!fresh.exists());
}

#[test]
fn serve_refuses_an_unknown_log_level() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = remem_on(folder.path());
    command.env("REMEM_LOG__LEVEL", "loud");
    let ran = run(command.args(["serve", "--listen", "127.0.0.1:0"])).exits(1);
    assert!(
        ran.stderr.contains("log.level 'loud' is not a level"),
        "{}",
        ran.stderr
    );
}

/// What the greeting says can be typed as it is, and finds something.
#[test]
fn the_greetings_examples_work_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let start = || ServerProcess::start_with(folder.path(), &[], &[("REMEM_BOOTSTRAP_KEY", "")]);
    let samples = |server: &ServerProcess| {
        wait_until_blocking("the greeting is read", || {
            server.output().contains("events tail")
        });
        let output = server.output();
        let lines = output.lines().filter(|line| line.contains("curl "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let shell = |line: &str| {
        let mut command = std::process::Command::new("bash");
        run(command.args(["-c", line]).env("NO_PROXY", "127.0.0.1"))
    };
    let mut server = start();
    let lines = samples(&server);
    assert_eq!(lines.len(), 2, "{}", server.output());
    shell(&lines[0]).exits(0);
    let found = shell(&lines[1]).exits(0).json();
    assert_eq!(found["relevant"], json!(true), "{found}");

    // A key that was revoked is not offered.
    let keys = run_on(folder.path(), &["--json", "key", "list"])
        .exits(0)
        .json();
    let id = keys["keys"][0]["id"].as_str().unwrap().to_owned();
    let refused = run_on(folder.path(), &["key", "revoke", &id]).exits(2);
    assert!(
        refused.stderr.contains("last key") && refused.stderr.contains("--yes"),
        "{}",
        refused.stderr
    );
    run_on(folder.path(), &["key", "create"]).exits(0);
    run_on(folder.path(), &["key", "revoke", &id, "--yes"]).exits(0);
    server.terminate();
    let server = start();
    let lines = samples(&server);
    let output = server.output();
    assert!(lines[0].contains("$REMEM_KEY"), "{output}");
    if !place::is_postgres() {
        assert!(!output.contains("bootstrap.key"), "{output}");
    }
}

#[test]
fn help_shows_command_examples_and_completions_list_values() {
    let help = |arguments: &[&str]| run(remem().args(arguments).arg("--help")).exits(0).stdout;
    assert!(help(&["retract"]).contains("remem retract @me/ops"));
    assert!(!help(&["retract"]).contains("remem history"));
    assert!(help(&["history"]).contains("remem history @me/ops"));
    let page = run(remem().arg("man")).exits(0).stdout;
    assert!(
        page.contains(".TH remem 1") && page.contains("Exit codes"),
        "{page}"
    );
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(remem().args(["completions", shell])).exits(0).stdout;
        assert!(
            !script.contains("eval;") && !script.contains("'eval'"),
            "{shell}"
        );
        // The generators for the other shells complete options alone.
        let values = ["bash", "zsh", "fish"].contains(&shell);
        for value in [
            "procedural",
            "operator",
            "reviewer",
            "consolidate",
            "semantic",
        ] {
            assert!(
                !values || script.contains(value),
                "{shell} completes no {value}"
            );
        }
    }
}
