//! Proves that the commands do what their help says, as a person or a script would use them: over
//! HTTP and on the store itself, with tables and with JSON, with the exit codes that are promised.

use crate::common::client::BASE;
use crate::common::user::{MEMORY, User};
use crate::common::{Client, KEY, ServerProcess, place, remem, remem_on, run, run_with_input};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("text is expected, not {value}"))
        .to_owned()
}

/// Search with its doubts and reasons, and the block for a model.
fn find_again(user: &User<'_>, tea: &str) {
    let nothing = user.text(&["search", MEMORY, "quarterly", "zebra", "--abstain"]);
    assert_eq!(nothing.trim(), "nothing relevant (probability 0.00)");
    let options = [
        "--explain",
        "--neighbours",
        "1",
        "--mode",
        "lexical",
        "--per-source",
        "2",
        "--time",
        "ignore",
        "--limit",
        "1",
    ];
    let explained = user.text(&[&["search", MEMORY, "green tea"][..], &options].concat());
    for part in [
        "WORDS",
        "MEANING",
        "CONTEXT",
        "1.000",
        tea,
        "after",
        "two lines of coffee",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let hits = user.json(&[&["search", MEMORY, "green tea"][..], &options].concat());
    let hit = &hits["hits"][0];
    let reported = (&hits["mode"], &hits["relevant"]);
    assert_eq!(
        (hit["entry"]["id"].as_str(), reported),
        (Some(tea), (&json!("lexical"), &json!(true))),
        "{hits}"
    );
    assert!(
        hit["parts"]["lexical"].as_f64().unwrap() > 0.0
            && hit["after"].as_array().unwrap().len() == 1,
        "{hit}"
    );
    user.run(&["search", MEMORY, "tea", "--mode", "telepathy"])
        .exits(2);

    let recalled = user
        .run(&["recall", MEMORY, "which", "green", "tea", "--budget", "90"])
        .exits(0);
    assert!(
        recalled.stdout.starts_with(&format!("- [{tea}] ("))
            && recalled.stdout.contains("Ana prefers green tea"),
        "{}",
        recalled.stdout
    );
    assert!(
        recalled.stderr.contains(" of 90 tokens, ") && recalled.stderr.contains("probability 0."),
        "{}",
        recalled.stderr
    );
    let block = user.json(&["recall", MEMORY, "green tea"]);
    assert_eq!(
        (&block["tokenBudget"], &block["ids"][0], &block["mode"]),
        (&json!(800), &json!(tea), &json!("lexical")),
        "{block}"
    );
    let nothing = user.run(&["recall", MEMORY, "quarterly zebra"]).exits(0);
    assert!(
        nothing.stdout.is_empty()
            && nothing
                .stderr
                .contains("0 of 800 tokens, 0 entries, probability 0.00: nothing relevant"),
        "{}",
        nothing.stderr
    );
    assert!(
        user.text(&["pass", "status", "embed"])
            .contains("No embedding model")
    );
}

/// Put, get, list, search, delete, stats, memories, events: the same over HTTP and with --local.
fn an_ordinary_day(user: &User<'_>) {
    let tea = user.put(&[
        "Ana prefers green tea",
        "--tag",
        "drinks",
        "--tag",
        "ana",
        "--metadata",
        r#"{"sure": true}"#,
    ]);
    let piped = run_with_input(
        &mut user.command(&["--json", "put", MEMORY]),
        "two lines\nof coffee\n",
    )
    .exits(0)
    .json();
    assert_eq!(piped["entry"]["content"], "two lines\nof coffee");
    let dashed = run_with_input(
        &mut user.command(&["put", MEMORY, "-", "--ttl", "12h"]),
        "short-lived",
    )
    .exits(0);
    let short_lived = dashed.stdout.split(' ').next().unwrap().to_owned();
    assert!(dashed.stdout.contains("(revision 3)"), "{}", dashed.stdout);

    let shown = user.text(&["get", MEMORY, &tea]);
    for part in [&tea, "Ana prefers green tea", "drinks, ana", "created"] {
        assert!(shown.contains(part), "{shown}");
    }
    let entry = user.json(&["get", MEMORY, &tea]);
    assert_eq!(
        (entry["content"].as_str(), &entry["tags"]),
        (Some("Ana prefers green tea"), &json!(["drinks", "ana"]))
    );
    assert!(
        user.text(&["get", MEMORY, &short_lived])
            .contains("expires")
    );

    let listed = user.lines(&["list", MEMORY]);
    assert_eq!(
        listed.iter().map(|e| text(&e["id"])).collect::<Vec<_>>(),
        [
            short_lived.as_str(),
            piped["entry"]["id"].as_str().unwrap(),
            &tea
        ]
    );
    assert_eq!(user.lines(&["list", MEMORY, "--limit", "1"]).len(), 1);
    assert_eq!(
        user.lines(&["list", MEMORY, "--limit", "0", "--tag", "ana"]),
        std::slice::from_ref(&entry)
    );
    assert!(
        user.text(&["list", MEMORY])
            .contains("Ana prefers green tea")
    );
    assert_eq!(user.text(&["list", "nobody"]).trim(), "no entries");

    let hits = user.json(&["search", MEMORY, "what", "tea", "does", "Ana", "prefer"]);
    assert_eq!(hits["hits"][0]["entry"], entry);
    assert!(hits["hits"][0]["score"].as_f64().unwrap() > 0.0);
    assert!(
        user.text(&["search", MEMORY, "coffee"])
            .contains("two lines of coffee")
    );
    assert_eq!(
        user.text(&["search", MEMORY, "tea", "--tag", "nothing"])
            .trim(),
        "nothing found"
    );
    find_again(user, &tea);

    assert_eq!(user.json(&["stats", MEMORY])["entries"], 3);
    assert!(user.text(&["stats", MEMORY]).contains("entries   3"));
    assert_eq!(
        user.lines(&["memories"]),
        [json!({"memoryRef": MEMORY, "entries": 3})]
    );
    assert!(user.text(&["memories"]).contains(MEMORY));

    assert!(user.text(&["delete", MEMORY, &tea]).starts_with("deleted"));
    assert_eq!(
        user.json(&["delete", MEMORY, &short_lived])["deleted"],
        true
    );
    user.run(&["get", MEMORY, &tea]).exits(3);
    user.run(&["delete", MEMORY, &tea]).exits(3);

    let kinds = |events: &[Value]| events.iter().map(|e| text(&e["type"])).collect::<Vec<_>>();
    let events = user.lines(&["events", "tail", "--no-follow"]);
    assert_eq!(
        kinds(&events),
        [
            "memory.written",
            "memory.written",
            "memory.written",
            "memory.deleted",
            "memory.deleted"
        ]
    );
    assert_eq!(
        user.lines(&["events", "tail", "--no-follow", "-n", "2"]),
        events[3..]
    );
    assert_eq!(
        user.lines(&["events", "tail", "--no-follow", "--after", "1"]),
        events[1..]
    );
    assert!(user.text(&["events", "tail", "--no-follow"]).contains(&tea));
}

#[test]
fn everyday_commands_work_through_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    an_ordinary_day(&User {
        dir: folder.path(),
        url: Some(&server.url),
    });
}

#[test]
fn everyday_commands_work_on_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    an_ordinary_day(&User {
        dir: folder.path(),
        url: None,
    });
}

#[test]
fn a_repeated_put_with_an_idempotency_key_stores_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    let put = ["put", MEMORY, "only once", "--idempotency-key", "once"];
    let first = user.text(&put);
    assert!(!first.contains("as before"));
    assert_eq!(user.text(&put), first.replace(')', ", as before)"));
    assert_eq!(user.json(&["stats", MEMORY])["entries"], 1);
    user.run(&["put", MEMORY, "something else", "--idempotency-key", "once"])
        .exits(4);
}

#[test]
fn a_new_host_writes_a_bootstrap_key_that_commands_use() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), &[], &[("REMEM_BOOTSTRAP_KEY", "")]);
    let plain = |arguments: &[&str]| {
        run(remem_on(folder.path())
            .args(["--url", &server.url])
            .args(arguments))
    };
    plain(&["put", MEMORY, "hello"]).exits(0);
    let key = std::fs::read_to_string(folder.path().join("bootstrap.key")).unwrap();
    assert!(
        !server.output().contains(key.trim()),
        "the greeting tells where the key is, not the key"
    );
    #[cfg(unix)]
    for file in ["bootstrap.key", "host.key"] {
        if file == "host.key" && place::is_postgres() {
            assert!(
                !folder.path().join(file).exists(),
                "nodes share the secret in the database"
            );
            continue;
        }
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(folder.path().join(file))
                .unwrap()
                .permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "{file} is its owner's alone");
    }
}

/// Made and revoked with `manage`, tried out on the server, which must know at once.
async fn a_key_lives_and_dies(server: &ServerProcess, manage: impl Fn() -> Command) {
    let path = Client::memory(MEMORY, "entries");
    let manage = |arguments: &[&str]| run(manage().args(arguments));
    let made = manage(&[
        "--json",
        "key",
        "create",
        "--label",
        "reader",
        "--scopes",
        "memory:read",
    ])
    .exits(0)
    .json();
    let key = text(&made["key"]);
    let id = text(&made["id"]);
    let reader = server.client().with_key(&key);
    reader.get(&path).await.is(200);
    let refused = reader
        .post(&path, &json!({"content": "x"}))
        .await
        .is(403)
        .json();
    assert_eq!(refused["details"]["scopeRequired"], "memory:write");
    let put = run(remem().args(["--url", &server.url, "--key", &key, "put", MEMORY, "x"]));
    put.exits(5);

    let shown = manage(&["key", "create"]).exits(0);
    let writer = server.client().with_key(shown.stdout.trim());
    writer.post(&path, &json!({"content": "x"})).await.is(201);

    let listed = manage(&["--json", "key", "list"]).exits(0);
    let keys = listed.json()["keys"].as_array().unwrap().clone();
    assert!(keys.iter().any(|k| k["id"] == made["id"]
        && k["label"] == "reader"
        && k["scopes"] == json!(["memory:read"])));
    assert!(!listed.stdout.contains(&key), "a key is shown once");
    assert!(manage(&["key", "list"]).exits(0).stdout.contains("reader"));

    assert_eq!(
        manage(&["--json", "key", "revoke", &id]).exits(0).json(),
        json!({"revoked": id})
    );
    assert_eq!(
        reader.get(&path).await.is(401).json()["error"],
        "key_revoked"
    );
    manage(&["key", "revoke", "key_nobody"]).exits(3);
    writer.get(&path).await.is(200);
    manage(&["key", "create", "--scopes", "memory:everything"]).exits(2);
}

#[tokio::test]
async fn keys_are_managed_locally_beside_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    a_key_lives_and_dies(&server, || remem_on(folder.path())).await;
}

fn over_http(server: &ServerProcess) -> Command {
    let mut command = remem();
    command.args(["--url", &server.url, "--key", KEY]);
    command
}

#[tokio::test]
async fn keys_are_managed_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    a_key_lives_and_dies(&server, || over_http(&server)).await;
}

#[tokio::test]
async fn tenants_are_created_and_isolated() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for (direct, name) in [(true, "acme"), (false, "globex")] {
        let command = || {
            if direct {
                remem_on(folder.path())
            } else {
                over_http(&server)
            }
        };
        let manage = |arguments: &[&str]| run(command().args(arguments));
        let made = manage(&["--json", "tenant", "create", name, "--shapes", "flag"])
            .exits(0)
            .json();
        assert_eq!(
            (made["id"].as_str(), made["shapes"].as_str()),
            (Some(name), Some("flag"))
        );
        assert!(
            manage(&["tenant", "create", name])
                .exits(0)
                .stdout
                .contains("redact"),
            "a second time changes the settings"
        );
        let tenants = manage(&["--json", "tenant", "list"]).exits(0).json();
        assert!(
            tenants["tenants"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t["id"] == name)
        );
        assert!(manage(&["tenant", "list"]).exits(0).stdout.contains(name));
        manage(&["tenant", "create", "no/such name"]).exits(4);
        let key = manage(&["--tenant", name, "key", "create"]).exits(0).stdout;
        let theirs = server.client().with_key(key.trim());
        theirs
            .put(MEMORY, &json!({"content": format!("of {name}")}))
            .await;
        assert_eq!(theirs.all_entries(MEMORY).await.len(), 1);
        theirs.get(&format!("{BASE}/tenants")).await.is(403);
    }
    assert!(
        server.client().all_entries(MEMORY).await.is_empty(),
        "the default tenant sees nothing of theirs"
    );
    let local = run(
        remem_on(folder.path()).args(["--local", "--tenant", "acme", "--json", "list", MEMORY])
    )
    .exits(0);
    assert_eq!(local.json_lines()[0]["content"], "of acme");
}

#[test]
fn passes_are_listed_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for user in [
        User {
            dir: folder.path(),
            url: Some(&server.url),
        },
        User {
            dir: folder.path(),
            url: None,
        },
    ] {
        let passes = user.json(&["pass", "list"]);
        assert_eq!(
            (
                &passes["passes"][0]["name"],
                &passes["passes"][0]["periodMs"]
            ),
            (&json!("purge"), &json!(1000))
        );
        assert!(user.text(&["pass", "list"]).contains("purge"));
        for arguments in [
            &["pass", "run", "purge"][..],
            &["pass", "run", "purge", "--dry-run"],
            &["vacuum"],
        ] {
            assert_eq!(
                user.json(arguments),
                json!({"examined": 0, "changed": 0, "more": false}),
                "{arguments:?}"
            );
            assert!(
                user.text(arguments).starts_with("purge: 0 examined"),
                "{arguments:?}"
            );
        }
        user.run(&["pass", "run", "nonsense"]).exits(3);
    }
}

#[test]
fn passes_over_memories_run_as_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for user in [
        User {
            dir: folder.path(),
            url: Some(&server.url),
        },
        User {
            dir: folder.path(),
            url: None,
        },
    ] {
        user.run(&["put", "jobs/one", "something"]).exits(0);
        let job = user.json(&["pass", "run", "consolidate", "--scope", "jobs/one"]);
        assert_eq!(
            (&job["state"], &job["memoryRef"], &job["attempts"]),
            (&json!("done"), &json!("jobs/one"), &json!(1)),
            "{job}"
        );
        assert!(
            user.text(&["pass", "run", "consolidate", "--all"])
                .starts_with("consolidate: ")
        );
        assert_eq!(
            user.json(&[
                "pass",
                "run",
                "consolidate",
                "--scope",
                "jobs/one",
                "--dry-run"
            ])["more"],
            json!(false)
        );
        let listed = user.json(&["pass", "jobs", "--pass", "consolidate", "--limit", "1"]);
        assert_eq!(
            (&listed["jobs"][0]["state"], &listed["jobs"][0]["memoryRef"]),
            (&json!("done"), &json!(null))
        );
        assert!(user.text(&["pass", "jobs"]).contains("jobs/one"));
        let status = user.json(&["pass", "status"]);
        let shown = status["passes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|pass| pass["name"] == "consolidate")
            .unwrap();
        assert_eq!(shown["lastJob"]["id"], listed["jobs"][0]["id"]);
        assert!(user.text(&["pass", "status"]).contains("NEXT DUE"));
        user.run(&["pass", "cancel", listed["jobs"][0]["id"].as_str().unwrap()])
            .exits(4);
        user.run(&["pass", "cancel", "job_1"]).exits(3);
        user.run(&["pass", "run", "consolidate"]).exits(2);
        user.run(&[
            "pass",
            "run",
            "compact",
            "--scope",
            "jobs/one",
            "--option",
            "include=nonsense",
        ])
        .exits(4);
        user.run(&["pass", "run", "purge", "--scope", "jobs/one"])
            .exits(4);
    }
}

#[test]
fn schedules_are_set_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for user in [
        User {
            dir: folder.path(),
            url: Some(&server.url),
        },
        User {
            dir: folder.path(),
            url: None,
        },
    ] {
        let set = [
            "pass",
            "schedule",
            "distill",
            "--cron",
            "0 3 * * *",
            "--zone",
            "Europe/Berlin",
            "--option",
            "tokenBudget=500",
        ];
        let schedule = user.json(&set);
        assert_eq!(
            (&schedule["zone"], &schedule["options"]),
            (&json!("Europe/Berlin"), &json!({"tokenBudget": 500}))
        );
        user.run(&[
            "pass", "schedule", "compact", "--scope", "m", "--every", "P1D",
        ])
        .exits(0);
        assert_eq!(
            user.json(&["pass", "schedule", "compact", "--scope", "m"])["every"],
            json!("P1D")
        );
        assert_eq!(
            user.json(&["pass", "schedule"])["schedules"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        assert!(user.text(&["pass", "schedule"]).contains("0 3 * * *"));
        user.run(&["pass", "schedule", "distill", "--every", "PT1S"])
            .exits(4);
        user.run(&[
            "pass",
            "schedule",
            "distill",
            "--every",
            "P1D",
            "--cron",
            "0 3 * * *",
        ])
        .exits(2);
        user.run(&["pass", "schedule", "distill", "--off"]).exits(0);
        user.run(&["pass", "schedule", "distill", "--off"]).exits(3);
        user.run(&["pass", "schedule", "compact", "--scope", "m", "--off"])
            .exits(0);
    }
}

/// A job that fails says so on standard output, and why on standard error: each on a line of its
/// own.
#[test]
fn a_failed_job_reports_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for user in [
        User {
            dir: folder.path(),
            url: Some(&server.url),
        },
        User {
            dir: folder.path(),
            url: None,
        },
    ] {
        user.put(&["The press needs a new belt before October."]);
        let failing = [
            "pass",
            "run",
            "distill",
            "--scope",
            MEMORY,
            "--option",
            "tokenBudget=1",
        ];
        let ran = user.run(&failing).exits(1);
        assert_eq!(ran.stdout, "distill: 0 examined, 0 changed, failed\n");
        let why: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: the job job_"))
            .collect();
        assert!(
            why.len() == 1 && ran.stderr.ends_with('\n'),
            "{}",
            ran.stderr
        );
        assert!(
            why[0].contains("failed: token_budget_exceeded {\"budget\":1,\"minimumRequired\":"),
            "{}",
            why[0]
        );
        let reported = run(&mut user.command(&[&["--json"], &failing[..]].concat()))
            .exits(1)
            .json();
        assert_eq!(
            (&reported["state"], &reported["error"]["code"]),
            (&json!("failed"), &json!("token_budget_exceeded"))
        );
        let done = user.text(&["pass", "run", "distill", "--scope", MEMORY]);
        assert!(done.ends_with("done\n"), "{done}");
    }
}

/// Three memories, the largest of more than one page, with everything an entry can carry.
fn lines_to_import() -> Vec<String> {
    let mut lines = Vec::new();
    for n in 0..620 {
        let memory = ["agents/one", "two words", "日本語"][if n < 600 { 0 } else { n % 3 }];
        let mut line = json!({
            "memoryRef": memory, "id": format!("old-{n}"), "content": format!("entry {n} \"quoted\" \\ \n {{}} ünïcödé 🦆"),
            "tags": [format!("t{}", n % 5)], "createdAt": format!("2024-01-{:02}T10:{:02}:00.000Z", 1 + n / 60, n % 60),
        });
        if n % 3 == 0 {
            line["metadata"] = json!({"n": n, "nested": {"list": [1, 2.5, null, "x"]}});
        }
        if n % 7 == 0 {
            line["expiresAt"] = json!("2999-12-31T00:00:00.000Z");
        }
        lines.push(line.to_string());
    }
    lines
}

fn counts(lines: u64, imported: u64, skipped: u64) -> Value {
    json!({"lines": lines, "imported": imported, "skipped": skipped, "expired": 0, "refused": 0})
}

#[test]
fn exporting_an_imported_export_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    let there = folder.path().join("there");
    let source = folder.path().join("in.jsonl");
    let first = folder.path().join("1.jsonl");
    let second = folder.path().join("2.jsonl");
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&there).unwrap();
    let server = ServerProcess::start(&here);
    let remote = User {
        dir: &here,
        url: Some(&server.url),
    };
    let local = User {
        dir: &there,
        url: None,
    };
    let name = |path: &'_ Path| path.to_str().unwrap().to_owned();
    std::fs::write(&source, lines_to_import().join("\n")).unwrap();
    assert_eq!(
        remote.json(&["import", &name(&source)]),
        counts(620, 620, 0)
    );
    assert_eq!(
        remote.json(&["import", &name(&source)]),
        counts(620, 0, 620),
        "a repeated import skips everything"
    );

    let exported = remote.run(&["--json", "export", &name(&first)]).exits(0);
    let bytes = std::fs::metadata(&first).unwrap().len();
    let report: Value = serde_json::from_str(&exported.stderr).unwrap();
    assert_eq!(
        report,
        json!({"memories": 3, "entries": 620, "bytes": bytes, "leftOut": {"slots": 0, "history": 0,
            "transient": 0, "commitments": 0, "subjects": 0, "othersMemories": null}})
    );
    assert!(
        !folder.path().join("1.jsonl.state").exists(),
        "a finished export leaves no state"
    );
    remote.run(&["export", &name(&first)]).exits(1);

    assert_eq!(local.json(&["import", &name(&first)]), counts(620, 620, 0));
    local.run(&["export", &name(&second)]).exits(0);
    let one = std::fs::read_to_string(&first).unwrap();
    let two = std::fs::read_to_string(&second).unwrap();
    assert!(one == two, "export, import, export gives the same bytes");
    let mut given: Vec<Value> = lines_to_import()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut got: Vec<Value> = one
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    given.sort_by_key(|line| text(&line["id"]));
    got.sort_by_key(|line| text(&line["id"]));
    assert_eq!(got, given, "and that is what was given");
    assert_eq!(
        remote.lines(&["export", "--ref", "two words"]).len(),
        given
            .iter()
            .filter(|l| l["memoryRef"] == "two words")
            .count()
    );
    assert_eq!(
        run_with_input(&mut local.command(&["--json", "import", "-"]), &one)
            .exits(0)
            .json(),
        counts(620, 0, 620)
    );
}

/// What the lines of an export do not carry is counted, and the exit code says that there is some.
#[test]
fn exports_and_imports_count_what_they_leave_out() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    std::fs::create_dir(&here).unwrap();
    let server = ServerProcess::start(&here);
    let remote = User {
        dir: &here,
        url: Some(&server.url),
    };
    let local = User {
        dir: &here,
        url: None,
    };
    let key = remote.json(&["key", "create", "--principal", "ana"]);
    let key = text(&key["key"]);
    let theirs = ["--key", &key, "put", "~/own", "Ana keeps bees"];
    let mut command = remem();
    run(command.args(["--url", &server.url]).args(theirs)).exits(0);
    for answer in ["The pass is at noon", "The pass is at one"] {
        remote.run(&["put", "m", answer, "--slot", "pass"]).exits(0);
    }
    remote
        .run(&["put", "m", "We are in a hurry", "--interaction", "t1"])
        .exits(0);
    let about_zoe = ["put", "m", "Zoe likes tea", "--subject", "zoe@example.org"];
    remote.run(&about_zoe).exits(0);
    let promise = [
        "commitment",
        "create",
        "m",
        "Ship it",
        "--predicate",
        "the invoice has cleared",
    ];
    remote.run(&promise).exits(0);

    let exported = remote.run(&["--json", "export"]).exits(7);
    let report = exported.stderr.lines().next().unwrap().to_owned();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        report["leftOut"],
        json!({"slots": 1, "history": 1, "transient": 1, "commitments": 1, "subjects": 1,
            "othersMemories": null})
    );
    assert!(!exported.stdout.contains("bees"));
    let reported = remote.run(&["export"]).exits(7).stderr;
    assert!(
        reported.contains("1 earlier answer,")
            && reported.contains("subjects of 1 entry")
            && reported.contains("other users' own memories"),
        "{reported}"
    );

    let whole = local.run(&["export"]).exits(7);
    assert!(
        whole.stdout.contains("\"~ana/own\"") && whole.stdout.contains("bees"),
        "{}",
        whole.stdout
    );
    assert!(!whole.stderr.contains("other users"), "{}", whole.stderr);

    let there = folder.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let elsewhere = User {
        dir: &there,
        url: None,
    };
    let mut command = elsewhere.command(&["--json", "import", "-"]);
    let imported = run_with_input(&mut command, &exported.stdout).exits(7);
    let counts = imported.json();
    assert_eq!(
        (&counts["imported"], &counts["transient"], &counts["slots"]),
        (&json!(3), &json!(1), &json!(1)),
        "the answer, the entry about Zoe and what was promised: {counts}"
    );
}

/// The state that an export leaves when it is cut off after its first page, with a line half
/// written.
#[tokio::test]
async fn an_interrupted_export_resumes_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    run_with_input(
        &mut user.command(&["import", "-"]),
        &lines_to_import().join("\n"),
    )
    .exits(0);
    let whole = user.text(&["export"]);
    let page = server
        .client()
        .get(&Client::memory("agents/one", "entries?limit=500"))
        .await
        .is(200)
        .json();
    let complete: String = whole
        .lines()
        .take(500)
        .map(|line| format!("{line}\n"))
        .collect();
    let file = folder.path().join("cut.jsonl");
    std::fs::write(&file, format!("{complete}{{\"half a li")).unwrap();
    let state = json!({
        "memory_ref": "agents/one", "cursor": page["nextCursor"], "bytes": complete.len(), "entries": 500, "memories": 0,
    });
    std::fs::write(folder.path().join("cut.jsonl.state"), state.to_string()).unwrap();
    let resumed = user
        .run(&["--json", "export", "--resume", file.to_str().unwrap()])
        .exits(0);
    assert!(
        std::fs::read_to_string(&file).unwrap() == whole,
        "nothing is missing and nothing is there twice"
    );
    let report: Value = serde_json::from_str(&resumed.stderr).unwrap();
    assert_eq!(
        report,
        json!({"memories": 3, "entries": 620, "bytes": whole.len(), "leftOut": {"slots": 0, "history": 0,
            "transient": 0, "commitments": 0, "subjects": 0, "othersMemories": null}})
    );
    user.run(&["export", "--resume", file.to_str().unwrap()])
        .exits(1);
}

#[test]
fn import_reports_refused_lines_and_stores_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    for (user, memory) in [
        (
            User {
                dir: folder.path(),
                url: Some(&server.url),
            },
            "remote",
        ),
        (
            User {
                dir: folder.path(),
                url: None,
            },
            "local",
        ),
    ] {
        let long = "x".repeat(70_000);
        let lines = [
            r#"{"content": "good 1"}"#.to_owned(),
            "no JSON at all".to_owned(),
            r#"{"content": "good 2", "tags": ["a"]}"#.to_owned(),
            String::new(),
            r#"{"content": "unknown field", "colour": "red"}"#.to_owned(),
            r#"{"content": ""}"#.to_owned(),
            format!(r#"{{"content": "{long}"}}"#),
            r#"{"content": "over", "expiresAt": "2001-01-01T00:00:00Z"}"#.to_owned(),
            r#"{"memoryRef": "a/../b", "content": "climbs"}"#.to_owned(),
            r#"{"content": "good 3"}"#.to_owned(),
        ];
        let import = ["--json", "import", "-", "--ref", memory];
        let ran = run_with_input(&mut user.command(&import), &lines.join("\n")).exits(1);
        assert_eq!(
            ran.json(),
            json!({"lines": 9, "imported": 3, "skipped": 0, "expired": 1, "refused": 5})
        );
        for number in [2, 5, 6, 7, 9] {
            assert!(
                ran.stderr.contains(&format!("line {number}:")),
                "line {number} is named: {}",
                ran.stderr
            );
        }
        assert_eq!(
            ran.stderr.matches("line ").count() - ran.stderr.matches("(line ").count(),
            5,
            "{}",
            ran.stderr
        );
        let contents: Vec<String> = user
            .lines(&["list", memory])
            .iter()
            .map(|e| text(&e["content"]))
            .collect();
        assert_eq!(contents.len(), 3, "{contents:?}");
        let strict = run_with_input(
            &mut user.command(&["import", "-", "--ref", "strict", "--strict"]),
            "nonsense\n",
        )
        .exits(1);
        assert!(strict.stderr.contains("line 1:"), "{}", strict.stderr);
        let again = run_with_input(&mut user.command(&import), &lines.join("\n"))
            .exits(1)
            .json();
        assert_eq!(
            (&again["imported"], &again["skipped"]),
            (&json!(0), &json!(3)),
            "lines without an id are the same when repeated"
        );
    }
}

#[test]
fn exit_codes_distinguish_kinds_of_failure() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    user.run(&["stats", MEMORY]).exits(0);
    user.run(&["import", "no-such-file.jsonl"]).exits(1);
    user.run(&["frobnicate"]).exits(2);
    user.run(&["put"]).exits(2);
    user.run(&["get", MEMORY, "mem_nothing"]).exits(3);
    user.run(&["put", MEMORY, ""]).exits(4);
    let past = user
        .run(&["put", MEMORY, "x", "--expires-at", "2001-01-01T00:00:00Z"])
        .exits(4);
    assert!(past.stderr.contains("validation_error"), "{}", past.stderr);
    user.run(&["put", "a/../b", "x"]).exits(4);
    let wrong =
        run(remem().args(["--url", &server.url, "--key", "wrong", "stats", MEMORY])).exits(5);
    assert!(wrong.stderr.contains("unauthenticated"), "{}", wrong.stderr);
    let nowhere =
        run(remem().args(["--url", "http://127.0.0.1:1", "--key", KEY, "stats", MEMORY])).exits(6);
    assert!(
        nowhere.stderr.contains("remem serve"),
        "says what to do: {}",
        nowhere.stderr
    );
    for ran in [wrong, nowhere, past] {
        assert_eq!(ran.stdout, "", "errors go to standard error");
    }
}

#[test]
fn a_missing_api_key_exits_with_code_5() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(remem_on(folder.path()).args(["--url", "http://127.0.0.1:1", "stats", MEMORY]))
        .exits(5);
    assert!(
        ran.stderr.contains("--key"),
        "says what to do: {}",
        ran.stderr
    );
}

#[test]
fn the_configuration_is_printed_read_back_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("remem.toml");
    let print = |command: &mut Command| run(command.current_dir(folder.path())).exits(0).stdout;
    let defaults = print(remem().args(["config", "print"]));
    std::fs::write(&file, defaults.replace("127.0.0.1:7077", "127.0.0.1:7099")).unwrap();
    let with_file = |arguments: &[&str]| {
        let mut command = remem();
        command.arg("--config").arg(&file).args(arguments);
        command
    };
    let printed = print(&mut with_file(&["config", "print"]));
    assert_eq!(
        printed,
        std::fs::read_to_string(&file).unwrap(),
        "what is printed can be read back"
    );
    let as_json =
        print(with_file(&["--json", "config", "print"]).env("REMEM_LIMITS__TAGS_MAX", "7"));
    let config: Value = serde_json::from_str(&as_json).unwrap();
    assert_eq!(
        (&config["server"]["listen"], &config["limits"]["tags_max"]),
        (&json!("127.0.0.1:7099"), &json!(7))
    );
    std::fs::write(&file, "[server]\nlissten = \"127.0.0.1:1\"\n").unwrap();
    let refused = run(with_file(&["config", "print"]).current_dir(folder.path())).exits(1);
    assert!(
        refused.stderr.contains("lissten"),
        "names the key: {}",
        refused.stderr
    );
    let refused = run(remem()
        .args(["config", "print"])
        .env("REMEM_SERVER__LISSTEN", "x"))
    .exits(0);
    assert!(
        refused
            .stderr
            .contains("did you mean REMEM_SERVER__LISTEN?"),
        "names the variable: {}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "looking at the configuration makes no data directory"
    );
}

/// Changes one letter of "entry 12", past everything that would notice.
fn damage_a_text(dir: &Path) {
    if let Some(url) = place::database_of(dir) {
        let url = place::as_superuser(&place::server_url(), &url);
        place::psql(
            &url,
            "UPDATE remem.entry SET content = 'Entry 12' WHERE content = 'entry 12'",
        );
        return;
    }
    let database = dir.join("tenants").join("default.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let at = bytes
        .windows(8)
        .position(|window| window == b"entry 12")
        .expect("a text is in the file");
    bytes[at] = b'E';
    std::fs::write(&database, bytes).unwrap();
}

#[test]
fn doctor_passes_a_sound_installation_and_fails_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let user = User {
        dir: folder.path(),
        url: None,
    };
    for n in 0..20 {
        user.put(&[&format!("entry {n}")]);
    }
    let findings = user.json(&["doctor"]);
    assert!(
        findings.as_array().unwrap().iter().all(|f| f["ok"] == true),
        "{findings}"
    );
    assert!(user.text(&["doctor"]).contains("tenant default"));
    damage_a_text(folder.path());
    let bad = user.run(&["--json", "doctor"]).exits(1);
    let tenant = bad
        .json()
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["check"] == "tenant default")
        .cloned()
        .unwrap();
    assert_eq!(tenant["ok"], false, "{tenant}");
}

/// Changes bytes of a file of the embedded store.
fn damage(file: &Path, from: &str, to: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let found = |window: &[u8]| window == from.as_bytes();
    while let Some(at) = bytes.windows(from.len()).position(found) {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(file, bytes).unwrap();
}

/// Every row has a hash over all of its columns, keys and tenants too; the report has names only.
#[test]
fn doctor_names_damaged_rows_without_their_text() {
    let folder = tempfile::tempdir().unwrap();
    if place::database_of(folder.path()).is_some() {
        return; // the store's own tests change rows there
    }
    let user = User {
        dir: folder.path(),
        url: None,
    };
    let id = user.put(&["what was said", "--tag", "quorum"]);
    user.text(&["key", "create", "--local", "--label", "quorum"]);
    let findings = user.json(&["doctor"]);
    let findings = findings.as_array().unwrap();
    for check in ["tenants and keys", "row hashes"] {
        assert!(
            findings
                .iter()
                .any(|f| f["check"] == check && f["ok"] == true),
            "{findings:?}"
        );
    }
    for file in ["host.db", "tenants/default.db"] {
        damage(&folder.path().join(file), "quorum", "quoram");
    }
    let bad = user.run(&["--json", "doctor"]).exits(1);
    let reported = |check: &str| {
        let all = bad.json();
        let one = all.as_array().unwrap().iter().find(|f| f["check"] == check);
        one.unwrap()["detail"].as_str().unwrap().to_owned()
    };
    assert!(
        reported("tenants and keys").contains("api_key: "),
        "{}",
        bad.stdout
    );
    let entries = reported("tenant default");
    assert!(
        entries.contains("entry: 1 damaged") && entries.contains(&id),
        "{entries}"
    );
    assert!(!bad.stdout.contains("what was said"), "{}", bad.stdout);
}

#[test]
fn the_redact_command_redacts_registered_and_shaped_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.jsonl");
    std::fs::write(
        &file,
        "{\"secretId\": \"door\", \"secret\": \"open-sesame-42\"}\n",
    )
    .unwrap();
    let key = format!("AKIA{}", "Z7QW3E5RT2YU4IOP");
    let input = format!("say open-sesame-42 and {key}, then tea\n");
    let redacted = run_with_input(
        remem().arg("redact").arg("--secrets-file").arg(&file),
        &input,
    )
    .exits(0)
    .stdout;
    assert_eq!(
        redacted,
        "say [REDACTED:door] and [REDACTED:shape-aws-access-key-id], then tea\n"
    );
    let line = json!({"id": "1", "secrets": [{"secretId": "door", "secret": "open-sesame-42"}], "channel": "content", "content": input});
    let answer = run_with_input(remem().args(["redact", "--jsonl"]), &line.to_string())
        .exits(0)
        .json();
    assert!(
        answer.to_string().contains("[REDACTED:door]") && !answer.to_string().contains("sesame"),
        "{answer}"
    );
    std::fs::write(
        &file,
        "{\"secretId\": \"door\", \"sekret\": \"open-sesame-42\"}\n",
    )
    .unwrap();
    let refused = run_with_input(
        remem().arg("redact").arg("--secrets-file").arg(&file),
        &input,
    )
    .exits(1);
    assert!(
        refused.stderr.contains("line 1") && !refused.stderr.contains("sesame"),
        "{}",
        refused.stderr
    );
}

#[test]
fn help_version_and_completions_are_printed() {
    let help = run(remem().arg("--help")).exits(0).stdout;
    for word in ["serve", "put", "Exit codes", "--json"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(
        run(remem().arg("--version"))
            .exits(0)
            .stdout
            .starts_with("remem ")
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = run(remem().args(["completions", shell])).exits(0).stdout;
        assert!(script.contains("remem") && script.len() > 1_000, "{shell}");
    }
}
