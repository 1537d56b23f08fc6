//! Commitments of the real host: recognised in stored texts, listed by the commands, fired at their
//! time, and delivered to a webhook.

use crate::common;
use crate::common::ServerProcess;
use crate::common::user::{MEMORY, User};
use remem_testkit::wait_until_blocking;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// The commands behave the same over HTTP and with --local.
fn day(user: &User<'_>) {
    let made = user.json(&[
        "commitment",
        "create",
        MEMORY,
        "Remind me in 3 days to water the ferns.",
    ]);
    let id = text(&made, "id");
    assert_eq!(
        (text(&made, "state"), made["fired"].as_u64()),
        ("armed".to_owned(), Some(0))
    );
    let listed = user.text(&["commitment", "list", MEMORY]);
    for part in [
        "COMMITMENT",
        "STATE",
        "DUE",
        "MEMORY",
        "WHAT",
        &id,
        "armed",
        " days (",
        MEMORY,
        "water the ferns",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert_eq!(user.json(&["commitment", "list"])["commitments"][0], made);
    let shown = user.text(&["commitment", "show", &id]);
    assert!(
        shown.contains("what      Remind me in 3 days") && shown.contains("It has not fired yet"),
        "{shown}"
    );
    let why = user.text(&["commitment", "explain", &id]);
    assert!(
        why.contains("\"Remind me\" asks or promises, \"in 3 days\" says when"),
        "{why}"
    );
    assert!(
        user.text(&["commitment", "snooze", &id, "--for", "12h"])
            .contains("armed, in 11 h 59 min (")
    );
    user.run(&["commitment", "confirm", &id]).exits(4);
    assert!(
        user.text(&["commitment", "cancel", &id])
            .contains("cancelled")
    );
    assert!(
        user.run(&["commitment", "cancel", &id])
            .exits(4)
            .stderr
            .contains("commitment_state_conflict")
    );
    assert_eq!(
        user.text(&["commitment", "list"]).trim(),
        "No open commitments (--all shows finished ones)",
        "what has ended is not shown"
    );
    assert!(
        user.text(&["commitment", "list", "--all"])
            .contains("cancelled")
    );
    assert_eq!(
        user.json(&["commitment", "list", "--state", "cancelled"])["commitments"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    user.json(&[
        "commitment",
        "create",
        MEMORY,
        "Ship the parcel",
        "--predicate",
        "the invoice has cleared",
    ]);
    assert!(
        user.text(&["commitment", "list"])
            .contains("when invoice clear")
    );
    assert!(
        user.text(&[
            "commitment",
            "observe",
            MEMORY,
            "the",
            "invoice",
            "cleared",
            "--not"
        ])
        .contains("1 waiting, 0 fired")
    );
    assert!(
        user.text(&["commitment", "observe", MEMORY, "the invoice cleared"])
            .contains("1 waiting, 1 fired")
    );

    assert_eq!(
        user.json(&["commitment", "rules"]),
        json!({"arm": "auto", "zone": "UTC"})
    );
    let rules = user.json(&["commitment", "rules", MEMORY, "--zone", "Europe/Berlin"]);
    assert_eq!(
        rules,
        json!({"memoryRef": MEMORY, "arm": "auto", "zone": "Europe/Berlin"})
    );
    let rules = user.text(&["commitment", "rules", MEMORY, "--arm", "confirm"]);
    assert!(
        rules.contains("arm     confirm") && rules.contains("zone    Europe/Berlin"),
        "what is not named stays: {rules}"
    );

    let set = user.text(&[
        "heartbeat",
        "set",
        "invoices",
        MEMORY,
        "invoice",
        "cleared",
        "--tag",
        "paid",
        "--every",
        "5m",
    ]);
    assert!(
        set.contains("every 300 s") && set.contains("invoice clear"),
        "{set}"
    );
    assert_eq!(
        user.json(&["heartbeat", "list"])["heartbeats"][0]["id"],
        json!("invoices")
    );
    assert_eq!(
        user.text(&["heartbeat", "remove", "invoices"]).trim(),
        "removed"
    );
    assert_eq!(user.text(&["heartbeat", "list"]).trim(), "no heartbeats");
    user.run(&["heartbeat", "remove", "invoices"]).exits(3);
}

fn wrong_input(user: &User<'_>) {
    let far = user
        .run(&[
            "commitment",
            "create",
            MEMORY,
            "x",
            "--at",
            "2199-01-01T00:00:00Z",
        ])
        .exits(4)
        .stderr;
    assert!(far.contains("schedule_horizon_exceeded"), "{far}");
    for (arguments, code, message) in [
        (
            vec!["commitment", "create", MEMORY, "Water the ferns"],
            4,
            "No time found in the text; use --at, --every, --cron or --predicate",
        ),
        (
            vec!["commitment", "create", MEMORY, "x", "--at", "tomorrow"],
            2,
            "expected RFC 3339",
        ),
        (
            vec![
                "commitment",
                "create",
                MEMORY,
                "x",
                "--at",
                "2001-01-01T00:00:00Z",
            ],
            4,
            "must be in the future",
        ),
        (
            vec!["commitment", "create", MEMORY, "x", "--cron", "nonsense"],
            4,
            "cron",
        ),
        (
            vec![
                "commitment",
                "create",
                MEMORY,
                "x",
                "--at",
                "2027-01-01T00:00:00Z",
                "--cron",
                "0 9 * * *",
            ],
            2,
            "cannot be used with",
        ),
        (vec!["commitment", "snooze", "cmt_x"], 2, "--until"),
        (
            vec!["commitment", "snooze", "cmt_x", "--for", "soon"],
            2,
            "expected a duration such as",
        ),
        (vec!["commitment", "show", "cmt_x"], 3, "not_found"),
        (
            vec!["commitment", "list", "--state", "lost"],
            2,
            "[possible values: pending, armed, done, cancelled, expired]",
        ),
        (
            vec!["commitment", "rules", "--arm", "maybe"],
            2,
            "[possible values: auto, confirm, off]",
        ),
        (
            vec!["commitment", "rules", "--zone", "Mars/Olympus"],
            4,
            "must be the name of a time zone",
        ),
        (
            vec!["heartbeat", "set", "Bad Name", MEMORY, "x", "--tag", "t"],
            4,
            "heartbeatId",
        ),
    ] {
        let ran = user.run(&arguments).exits(code);
        assert!(
            ran.stderr.contains(message),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn commitment_commands_work_through_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    day(&user);
    wrong_input(&user);
    for help in [["commitment", "--help"], ["heartbeat", "--help"]] {
        assert!(user.text(&help).contains("Commands:"));
    }
}

#[test]
fn commitment_commands_work_on_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    let user = User {
        dir: folder.path(),
        url: None,
    };
    day(&user);
    wrong_input(&user);
}

#[test]
fn host_settings_apply_where_a_tenant_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("REMEM_COMMITMENTS__ARM", "confirm"),
        ("REMEM_COMMITMENTS__ZONE", "Asia/Tokyo"),
    ];
    let server = ServerProcess::start_with(folder.path(), &[], &environment);
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    assert_eq!(
        user.json(&["commitment", "rules"]),
        json!({"arm": "confirm", "zone": "Asia/Tokyo"})
    );
    user.put(&["Remind me tomorrow at 9am to renew the certificate."]);
    wait_until_blocking("the promise is read", || {
        user.text(&["commitment", "list"]).contains("pending")
    });
    let one = user.json(&["commitment", "list"])["commitments"][0].clone();
    assert!(
        text(&one, "nextAt").ends_with("T00:00:00.000Z"),
        "nine in Tokyo: {one}"
    );
    drop(server);
    for (name, value) in [
        ("REMEM_COMMITMENTS__ARM", "maybe"),
        ("REMEM_COMMITMENTS__ZONE", "Mars/Olympus"),
    ] {
        let mut command = common::remem_on(folder.path());
        let ran = common::run(
            command
                .env(name, value)
                .args(["--local", "commitment", "list"]),
        )
        .exits(1);
        assert!(ran.stderr.contains("commitments."), "{}", ran.stderr);
    }
}

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// From the sentence to the webhook's receiver, without running a pass by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fired_commitment_is_delivered_to_a_webhook() {
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
    let hook = json!({"url": format!("http://127.0.0.1:{port}/hook"), "events": ["commitment.fired"], "secret": secret});
    client.post("/v1/webhooks", &hook).await.is(201);
    client
        .put(
            "m",
            &json!({"content": "Let me know when the marigold invoice clears."}),
        )
        .await;
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    wait_until_blocking("the promise is read", || {
        user.text(&["commitment", "list"]).contains("armed")
    });
    client
        .put(
            "m",
            &json!({"content": "The marigold invoice has cleared."}),
        )
        .await;
    let line = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
    let message: Value = serde_json::from_str(
        &tokio::time::timeout(Duration::from_secs(60), line)
            .await
            .expect("it arrives")
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        (&message["valid"], &message["type"]),
        (&json!(true), &json!("commitment.fired")),
        "{message}"
    );
    assert_eq!(
        (
            &message["body"]["workspaceId"],
            &message["body"]["event"]["payload"]["memoryRef"]
        ),
        (&json!("default"), &json!("m"))
    );
    assert!(!message.to_string().contains("marigold"), "{message}");
    let done = user.json(&["commitment", "list", "--state", "done"])["commitments"][0].clone();
    assert_eq!(
        (text(&done, "text"), done["fired"].as_u64()),
        (
            "Let me know when the marigold invoice clears.".to_owned(),
            Some(1)
        )
    );
}
