//! Proves that forgetting works from the command line, through a server and on the store itself: it
//! asks first, erases, and leaves a report that holds; and that the subject's words are stored
//! nowhere at any time.

use crate::common::client::BASE;
use crate::common::user::{MEMORY, User};
use crate::common::{Client, ServerProcess, files, place, remem, run, run_with_input};
use serde_json::{Value, json};
use std::path::Path;

const SUBJECT: &str = "person: Zebulon Quillfeather";

fn forgets(user: &User<'_>) {
    let about = user.put(&[
        "Zeb likes marzipan",
        "--subject",
        SUBJECT,
        "--subject",
        "team: blue",
    ]);
    let other = user.put(&["Mara likes nougat", "--subject", "person: Mara"]);
    let line = json!({"memoryRef": MEMORY, "content": "imported marzipan", "subjects": [SUBJECT]})
        .to_string();
    run_with_input(&mut user.command(&["import", "-"]), &line).exits(0);

    let refused = user.run(&["forget", SUBJECT]).exits(2);
    assert!(
        refused.stderr.contains("--yes") && refused.stderr.contains("--dry-run"),
        "{}",
        refused.stderr
    );
    let planned = user.text(&["forget", SUBJECT, "--dry-run"]);
    assert!(
        planned.contains("2 entries and 0 archives would be erased") && planned.contains(&about),
        "{planned}"
    );
    assert!(!planned.contains(&other), "{planned}");
    user.run(&["get", MEMORY, &about]).exits(0);
    let nothing = user.text(&["erasure", "list"]);
    assert!(nothing.contains("No erasure reports"), "{nothing}");

    let report = user.dir.join(format!("report-{}.json", user.url.is_some()));
    let file = report.to_str().unwrap();
    let done = run_with_input(
        &mut user.command(&["forget", "-", "--yes", "--report", file]),
        &format!("{SUBJECT}\n"),
    )
    .exits(0);
    assert!(
        done.stdout.contains("2 entries and 0 archives were erased"),
        "{}",
        done.stdout
    );
    user.run(&["get", MEMORY, &about]).exits(3);
    user.run(&["get", MEMORY, &other]).exits(0);
    let again = user.text(&["forget", SUBJECT, "--yes", "--report", "never.json"]);
    assert!(again.contains("No entries with this subject"), "{again}");
    assert!(!user.dir.join("never.json").exists(), "no report, no file");
    user.run(&["forget", SUBJECT, "--yes", "--report", file])
        .exits(1);
    tells_where_entries_come_from(user, &about);
    verifies(user, &report);
}

fn tells_where_entries_come_from(user: &User<'_>, gone: &str) {
    let lineage = user.json(&["lineage", MEMORY, gone]);
    assert_eq!(
        (
            &lineage["state"],
            &lineage["sources"],
            &lineage["derivatives"]
        ),
        (&json!("forgotten"), &json!([]), &json!([]))
    );
    assert!(user.text(&["lineage", MEMORY, gone]).contains("forgotten"));
    user.run(&["lineage", MEMORY, "never-was"]).exits(3);
    assert_eq!(
        user.text(&["archive", "list", MEMORY]).trim(),
        "no archives"
    );
    user.run(&["archive", "get", MEMORY, "0a"]).exits(3);
}

fn verifies(user: &User<'_>, report: &Path) {
    let file = report.to_str().unwrap();
    let written: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let id = written["id"].as_str().unwrap();
    assert_eq!(user.json(&["erasure", "show", id]), written);
    let listed = user.text(&["erasure", "list"]);
    let key = listed
        .lines()
        .find_map(|line| line.strip_prefix("public key "))
        .unwrap();
    assert!(listed.contains(id), "{listed}");

    let alone = |arguments: &[&str]| {
        run(remem()
            .current_dir(user.dir)
            .args(["erasure", "verify"])
            .args(arguments))
    };
    let offline = alone(&[file]).exits(0);
    assert!(
        offline.stdout.contains(id) && offline.stdout.contains("in the report itself"),
        "{}",
        offline.stdout
    );
    assert!(
        user.text(&["erasure", "verify", file])
            .contains("this host's key")
    );
    alone(&[file, "--public-key", key]).exits(0);
    alone(&[
        file,
        "--public-key",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ])
    .exits(1);
    let mut forged = written.clone();
    forged["counts"]["erased"] = json!(0);
    let other = user.dir.join("forged.json");
    std::fs::write(&other, forged.to_string()).unwrap();
    let refused = alone(&[other.to_str().unwrap()]).exits(1);
    assert!(
        refused.stderr.contains("invalid signature"),
        "{}",
        refused.stderr
    );
    std::fs::write(&other, "nonsense-canary").unwrap();
    assert!(
        !alone(&[other.to_str().unwrap()])
            .exits(1)
            .stderr
            .contains("canary")
    );
}

#[test]
fn a_subject_is_forgotten_through_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    forgets(&User {
        dir: folder.path(),
        url: Some(&server.url),
    });
}

#[test]
fn a_subject_is_forgotten_on_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    forgets(&User {
        dir: folder.path(),
        url: None,
    });
}

#[test]
fn an_erasure_report_says_how_long_backups_hold_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let user = User {
        dir: folder.path(),
        url: None,
    };
    user.put(&["x", "--subject", SUBJECT]);
    let mut forget = user.command(&["--json", "forget", SUBJECT, "--yes"]);
    let report = run(forget.env("REMEM_STORAGE__BACKUPS_KEPT_DAYS", "30"))
        .exits(0)
        .json();
    let at = report["at"].as_str().unwrap();
    let until = report["backups"]["heldUntil"].as_str().unwrap();
    assert!(until > at, "{report}");
}

/// On the disk, in the log, in answers: nowhere, before, during and after. On PostgreSQL the
/// server's files are looked through.
#[tokio::test]
async fn a_subject_is_never_stored_logged_or_echoed_in_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), &[], &[("REMEM_LOG__LEVEL", "trace")]);
    let client = server.client();
    let words = "Zebulon Quillfeather";
    let body = json!({"content": "CanaryMarzipan", "subjects": ["Zebulon Quillfeather", "x"]});
    let nowhere = |when: &str| {
        let forms = [
            words,
            "zebulon quillfeather",
            "Quillfeather",
            "quillfeather",
        ]
        .map(str::to_owned);
        let found = files::find_in(&place::stored(folder.path()), &forms);
        assert!(found.is_empty(), "{when}: {found:?}");
        assert!(
            !server.output().to_lowercase().contains("quillfeather"),
            "{when}: in the log"
        );
    };
    client.put(MEMORY, &body).await;
    assert!(
        !files::find_in(
            &place::stored(folder.path()),
            &["CanaryMarzipan".to_owned()]
        )
        .is_empty(),
        "positive control"
    );
    nowhere("after the put");
    let looked = client
        .post(
            &format!("{BASE}/forget"),
            &json!({"subject": words, "dryRun": true}),
        )
        .await
        .is(200);
    let done = client
        .post(&format!("{BASE}/forget"), &json!({"subject": words}))
        .await
        .is(200);
    nowhere("after the forget");
    let events = client.get(&format!("{BASE}/events")).await.is(200);
    let reported = client
        .post(
            &Client::memory(MEMORY, "entries"),
            &json!({"content": "", "subjects": [words]}),
        )
        .await
        .is(422);
    for answer in [looked, done, events, reported] {
        assert!(
            !answer.everything().to_lowercase().contains("quillfeather"),
            "{}",
            answer.everything()
        );
    }
    nowhere("at the end");
}

/// What the documentation promises for PostgreSQL: after its own full vacuum the text is in none of
/// the database's files.
#[tokio::test]
async fn vacuum_full_removes_forgotten_text_from_postgres_files() {
    if !place::is_postgres() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    client.put(MEMORY, &json!({"content": "CANARYMARZIPANVEX in a tin", "tags": ["TagOkapiForget"], "subjects": [SUBJECT]})).await;
    let needles = ["CANARYMARZIPANVEX", "canarymarzipanvex", "TagOkapiForget"].map(str::to_owned);
    assert!(
        files::find_in(&place::stored(folder.path()), &needles).len() >= 3,
        "positive control: text, index and tag"
    );
    client
        .post(&format!("{BASE}/forget"), &json!({"subject": SUBJECT}))
        .await
        .is(200);
    let url = place::database_of(folder.path()).unwrap();
    place::psql(
        &place::as_superuser(&place::server_url(), &url),
        "VACUUM FULL",
    );
    let found = files::find_in(&place::stored(folder.path()), &needles);
    assert!(found.is_empty(), "{found:?}");
}
