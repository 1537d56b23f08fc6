//! `remem copy` from outside: keys, cursors, revision tokens and idempotency keys still work at the
//! target, a copy that is killed can be resumed, and wrong usage is reported without an echo. Needs
//! both stores, whichever one the other tests run on.

use crate::common;
use crate::common::client::BASE;
use crate::common::{Client, CommandOutput, ServerProcess, place, remem, run};
use remem_testkit::SeededRandom;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn sqlite(dir: &Path) -> String {
    format!("sqlite:{}", dir.display())
}

fn copy(arguments: &[&str]) -> CommandOutput {
    run(remem().arg("copy").args(arguments))
}

/// A server on a place, independent of the store of the other tests.
fn serve(dir: &Path, database: Option<&str>) -> ServerProcess {
    // In a run about PostgreSQL every directory has a database already: name the one that is meant.
    match database {
        Some(url) => ServerProcess::start_with(dir, &[], &[("REMEM_DATABASE", url)]),
        None => ServerProcess::start(dir),
    }
}

/// The harness gives every directory a database of its own in a run about PostgreSQL; this test is
/// about both stores.
fn runs_elsewhere() -> bool {
    place::is_postgres()
}

/// Texts in a file, for `import`.
fn lines(dir: &Path, count: usize) -> std::path::PathBuf {
    let file = dir.join("lines.jsonl");
    let words = [
        "harbour", "falcon", "invoice", "meadow", "quartz", "lantern",
    ];
    let text: String = (0..count)
        .map(|n| format!("{}\n", json!({"id": format!("e{n}"), "content": format!("note {n} about the {} and more", words[n % 6]), "tags": [format!("t{}", n % 7)]})))
        .collect();
    std::fs::write(&file, text).unwrap();
    file
}

fn import(dir: &Path, file: &Path, memory: &str, tenant: &str) {
    let mut command = remem();
    command
        .arg("--data-dir")
        .arg(dir)
        .args(["--local", "--tenant", tenant, "import", "--ref", memory])
        .arg(file);
    run(&mut command).exits(0);
}

fn tables(reports: &Value) -> Vec<(String, u64, u64, String)> {
    let tenants = reports["tenants"].as_array().unwrap();
    tenants
        .iter()
        .map(|t| {
            assert_eq!((&t["verified"], &t["moved"]), (&json!(true), &json!(false)));
            let text = |name: &str| t[name].as_str().unwrap().to_owned();
            (
                text("tenant"),
                t["entries"].as_u64().unwrap(),
                t["events"].as_u64().unwrap(),
                text("hash"),
            )
        })
        .collect()
}

/// The keys, cursors and tokens that a client of the source still has.
struct ClientState {
    key: String,
    cursor: String,
    token: String,
    events: Vec<Value>,
    entries: Vec<Value>,
}

async fn fill(client: &Client) -> ClientState {
    let keys = client
        .post(
            &format!("{BASE}/keys"),
            &json!({"label": "agent", "scopes": ["memory:read", "memory:write"]}),
        )
        .await
        .is(201)
        .json();
    let key = keys["key"].as_str().unwrap().to_owned();
    let agent = client.with_key(&key);
    for n in 0..30 {
        agent
            .put(
                "notes",
                &json!({"content": format!("note {n} about a falcon"), "tags": ["red"]}),
            )
            .await;
    }
    let gone = agent.put("notes", &json!({"content": "goes away"})).await;
    agent
        .delete(&Client::memory(
            "notes",
            &format!("entries/{}", gone["id"].as_str().unwrap()),
        ))
        .await
        .is(204);
    let request = agent.request(reqwest::Method::POST, &Client::memory("notes", "entries"));
    let request = request
        .header("idempotency-key", "once")
        .json(&json!({"content": "written once"}));
    let written = common::client::finish(request).await.unwrap().is(201);
    let page = agent
        .get(&Client::memory("notes", "entries?limit=5"))
        .await
        .is(200)
        .json();
    ClientState {
        token: written.header("remem-revision").to_owned(),
        cursor: page["nextCursor"].as_str().unwrap().to_owned(),
        events: agent.events_after(0).await,
        entries: agent.all_entries("notes").await,
        key,
    }
}

/// Checks that everything that a client still has is valid at this server.
async fn check(server: &ServerProcess, held: &ClientState) {
    let agent = Client::new(&server.url, &held.key);
    assert_eq!(agent.all_entries("notes").await, held.entries);
    assert_eq!(agent.events_after(0).await, held.events);
    let page = agent
        .get(&Client::memory(
            "notes",
            &format!("entries?limit=5&cursor={}", held.cursor),
        ))
        .await
        .is(200)
        .json();
    assert_eq!(page["entries"].as_array().unwrap()[..], held.entries[5..10]);
    agent
        .get(&Client::memory(
            "notes",
            &format!("entries?atLeast={}", held.token),
        ))
        .await
        .is(200);
    let request = agent.request(reqwest::Method::POST, &Client::memory("notes", "entries"));
    let request = request
        .header("idempotency-key", "once")
        .json(&json!({"content": "written once"}));
    let again = common::client::finish(request).await.unwrap().is(201);
    assert_eq!(again.header("remem-revision"), held.token);
    let hits = agent
        .post(
            &Client::memory("notes", "search"),
            &json!({"query": "falcons"}),
        )
        .await
        .is(200)
        .json();
    assert!(!hits["hits"].as_array().unwrap().is_empty(), "{hits}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_cursors_and_revision_tokens_work_after_a_copy() {
    if runs_elsewhere() {
        return;
    }
    let a = tempfile::tempdir().unwrap();
    let c = tempfile::tempdir().unwrap();
    let url = place::new_database(&place::server_url());
    let mut server = serve(a.path(), None);
    let held = fill(&server.client()).await;
    // What is left to read for promises would be read, and noted, by the host on the copy.
    let infer = "/v1/host/remembrancer/passes/infer/run";
    server.client().post(infer, &json!({})).await.is(200);
    server.terminate();
    let there = copy(&["--json", "--from", &sqlite(a.path()), "--to", &url]).exits(0);
    let there = tables(&there.json());
    let mut server = serve(&a.path().join("unused"), Some(&url));
    check(&server, &held).await;
    server.terminate();
    // And back, into a new folder under a URL with slashes.
    let folder = c.path().join("new");
    let back = copy(&[
        "--json",
        "--from",
        &url,
        "--to",
        &format!("sqlite://{}", folder.display()),
    ])
    .exits(0);
    assert_eq!(tables(&back.json()), there);
    let mut server = serve(&folder, None);
    check(&server, &held).await;
    server.terminate();
    let table = copy(&["--from", &url, "--to", &sqlite(&folder)]).exits(0);
    let mut shown = table.stdout.lines();
    let heading: Vec<&str> = shown.next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["TENANT", "ENTRIES", "EVENTS", "HASH", "VERIFIED"]);
    let row: Vec<&str> = shown.next().unwrap().split_whitespace().collect();
    assert_eq!(
        row,
        [
            "default",
            &there[0].1.to_string(),
            &there[0].2.to_string(),
            &there[0].3,
            "yes"
        ]
    );
    assert_eq!(table.stderr, "");
}

/// Kills the copy again and again at random moments; at the end everything is complete and counted
/// once.
fn killed(random: &mut SeededRandom, from: &str, to: &str) -> CommandOutput {
    let mut kills = 0;
    let mut pause = 20;
    loop {
        let mut child = remem()
            .args(["copy", "--from", from, "--to", to])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(pause + random.below(60)));
        let ended = child.try_wait().unwrap();
        // It may have ended in between.
        let _ = child.kill();
        child.wait().unwrap();
        if ended.is_some_and(|status| status.success()) {
            break;
        }
        assert!(ended.is_none(), "the copy failed by itself: {ended:?}");
        kills += 1;
        pause += pause / 3; // ends, however slow this machine is
    }
    println!("killed {kills} times");
    assert!(kills >= 5);
    copy(&["--json", "--from", from, "--to", to]).exits(0)
}

#[test]
fn a_killed_copy_can_be_resumed() {
    if runs_elsewhere() {
        return;
    }
    let mut random = SeededRandom::fresh();
    let a = tempfile::tempdir().unwrap();
    let c = tempfile::tempdir().unwrap();
    let home = a.path().join("home");
    let file = lines(a.path(), 3_000);
    run(remem()
        .arg("--data-dir")
        .arg(&home)
        .args(["tenant", "create", "other"]))
    .exits(0);
    import(&home, &file, "notes", "default");
    import(&home, &file, "more", "default");
    import(&home, &file, "notes", "other");
    let url = place::new_database(&place::server_url());
    let there = tables(&killed(&mut random, &sqlite(&home), &url).json());
    let counts: Vec<(&str, u64, u64)> = there.iter().map(|t| (t.0.as_str(), t.1, t.2)).collect();
    assert_eq!(counts, [("default", 6_000, 6_000), ("other", 3_000, 3_000)]);
    let back = killed(&mut random, &url, &sqlite(&c.path().join("back")));
    assert_eq!(tables(&back.json()), there);
    run(remem()
        .arg("--data-dir")
        .arg(c.path().join("back"))
        .arg("doctor"))
    .exits(0);
}

#[test]
fn a_dry_run_only_counts_and_tenant_narrows_the_copy() {
    if runs_elsewhere() {
        return;
    }
    let a = tempfile::tempdir().unwrap();
    let home = a.path().join("home");
    let new = a.path().join("new");
    let file = lines(a.path(), 10);
    run(remem()
        .arg("--data-dir")
        .arg(&home)
        .args(["tenant", "create", "other"]))
    .exits(0);
    import(&home, &file, "notes", "other");
    let from = sqlite(&home);
    let to = sqlite(&new);
    let counted = copy(&["--json", "--dry-run", "--from", &from, "--to", &to])
        .exits(0)
        .json();
    let tenant = |name: &str, count: u64| json!({"tenant": name, "entries": count, "events": count, "hash": null, "verified": false, "moved": false});
    assert_eq!(
        counted,
        json!({"dryRun": true, "tenants": [tenant("default", 0), tenant("other", 10)]})
    );
    assert!(!new.exists());
    let one = copy(&["--json", "--tenant", "other", "--from", &from, "--to", &to]).exits(0);
    assert_eq!(
        tables(&one.json())
            .iter()
            .map(|t| t.0.as_str())
            .collect::<Vec<_>>(),
        ["other"]
    );
    // A default in the surroundings does not narrow a copy.
    let all = run(remem()
        .env("REMEM_TENANT", "other")
        .args(["copy", "--json", "--from", &from, "--to", &to]))
    .exits(0);
    assert_eq!(tables(&all.json()).len(), 2);
    let nobody = copy(&["--tenant", "nobody", "--from", &from, "--to", &to]).exits(1);
    assert_eq!(
        nobody.stderr,
        "error: tenant nobody not found at the source\n"
    );
}

#[test]
fn refusals_say_what_to_do_and_echo_no_password() {
    if runs_elsewhere() {
        return;
    }
    let a = tempfile::tempdir().unwrap();
    let home = a.path().join("home");
    run(remem()
        .arg("--data-dir")
        .arg(&home)
        .args(["tenant", "list"]))
    .exits(0);
    let from = sqlite(&home);
    let new = sqlite(&a.path().join("new"));
    copy(&["--from", &from]).exits(2);
    let secret = "hunter2-hunter2";
    let wrong = [
        "mysql://u:hunter2-hunter2@h/d".to_owned(),
        "sqlite:".to_owned(),
        format!("{}/hunter2-hunter2", a.path().display()),
    ];
    for place in &wrong {
        let reported = copy(&["--from", &from, "--to", place]).exits(2);
        assert!(
            reported
                .stderr
                .contains("--to must be sqlite:DIR or postgres://"),
            "{}",
            reported.stderr
        );
        assert!(!reported.stderr.contains(secret));
        assert!(
            copy(&["--from", place, "--to", &new])
                .exits(2)
                .stderr
                .contains("--from must be")
        );
    }
    for place in [
        "postgres://u:hunter2-hunter2@127.0.0.1:1/d",
        "postgres://u:hunter2-hunter2@h:port/d",
    ] {
        let reported = copy(&["--from", &from, "--to", place]).exits(1);
        assert!(
            !reported.stderr.contains(secret) && reported.stderr.starts_with("error: "),
            "{}",
            reported.stderr
        );
    }
    let missing = copy(&["--from", &sqlite(&a.path().join("nowhere")), "--to", &new]).exits(1);
    assert_eq!(
        missing.stderr,
        "error: the source holds no host: host.db not found in that folder\n"
    );
    assert_eq!(
        copy(&["--from", &from, "--to", &from]).exits(1).stderr,
        "error: source and target are the same place\n"
    );
    assert!(
        !a.path().join("new").exists(),
        "nothing was made for a copy that was refused"
    );
}
