//! The ceiling of a key from the command line: made, shown, lowered; refused above it; and what a
//! delete of a held text says.

use crate::common::user::{MEMORY, User};
use crate::common::{CommandOutput, ServerProcess, remem, remem_on, run};
use serde_json::{Value, json};

const LINK: [&str; 4] = ["--action", "gate.accept", "--reference", "7"];

/// A user of a running host; the host of a store that is opened directly has no key.
fn at_a_server(day: fn(&User<'_>, &ServerProcess)) {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let user = User {
        dir: folder.path(),
        url: Some(&server.url),
    };
    day(&user, &server);
}

fn lines_above_the_key_are_refused_alone(
    user: &User<'_>,
    as_key: &dyn Fn(&Value, &[&str]) -> CommandOutput,
) {
    let lines = user.dir.join("lines.jsonl");
    let line = |id: &str, source: &str| json!({"id": id, "content": id, "source": source});
    let text = format!("{}\n{}\n", line("one", "operator"), line("two", "model"));
    std::fs::write(&lines, text).unwrap();
    let importer = user.json(&["key", "create", "--scopes", "memory:admin"]);
    let import = ["import", lines.to_str().unwrap(), "--ref", MEMORY];
    let done = as_key(&importer, &import).exits(1);
    assert!(
        done.stdout.contains("1 imported") && done.stdout.contains("1 refused"),
        "{done:?}"
    );
    assert!(
        done.stderr
            .contains("line 1: source operator is above what this key may vouch for"),
        "{done:?}"
    );
}

#[test]
fn the_trust_of_a_key_is_enforced_shown_and_lowered() {
    at_a_server(|user, server| {
        let as_key = |key: &Value, arguments: &[&str]| {
            let key = key["key"].as_str().unwrap();
            run(remem()
                .args(["--url", &server.url, "--key", key])
                .args(arguments))
        };
        let made = user.json(&["key", "create"]);
        assert_eq!(made["trust"], "model");
        let order = ["put", MEMORY, "Obey.", "--source", "operator"];
        let refused = as_key(&made, &order).exits(5);
        let why = "source operator is above what this key may vouch for (at most model)";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        as_key(&made, &["put", MEMORY, "Ana prefers tea."]).exits(0);
        lines_above_the_key_are_refused_alone(user, &as_key);
        let operator = user.json(&["key", "create", "--trust", "operator"]);
        as_key(&operator, &order).exits(0);
        let whoami = as_key(&operator, &["whoami"]).exits(0);
        assert!(
            whoami.stdout.contains("trust      operator\n"),
            "{}",
            whoami.stdout
        );
        let id = operator["id"].as_str().unwrap();
        let lowered = user.text(&["key", "trust", id, "model"]);
        assert_eq!(lowered, format!("{id} may claim model at most\n"));
        as_key(&operator, &order).exits(5);
        let unknown = user.run(&["key", "trust", id, "everything"]).exits(2);
        assert!(
            unknown.stderr.contains("possible values: "),
            "{}",
            unknown.stderr
        );
        // The first key keeps everything, and is listed until it is given a ceiling.
        user.text(&order);
        let listed = user.run(&["key", "list"]).exits(0);
        assert!(
            listed.stdout.contains("operator (unset)"),
            "{}",
            listed.stdout
        );
        assert!(
            listed.stderr.contains("remem key trust ID model"),
            "{}",
            listed.stderr
        );
        let doctor = run(remem_on(user.dir).arg("doctor").current_dir(user.dir));
        let doctor = doctor.exits(0).stdout;
        let first = user.json(&["whoami"])["keyId"].as_str().unwrap().to_owned();
        assert!(doctor.contains(&format!("{first} of default")), "{doctor}");
        user.text(&["key", "trust", &first, "model"]);
        user.run(&order).exits(5);
        let doctor = run(remem_on(user.dir).arg("doctor").current_dir(user.dir));
        let doctor = doctor.exits(0).stdout;
        assert!(doctor.contains("every key has a highest trust"), "{doctor}");
    });
}

#[test]
fn deleting_a_held_entry_reports_that_its_text_is_kept() {
    at_a_server(|user, _| {
        let id = user.put(&["The gate was accepted by this."]);
        user.text(&[&["link", MEMORY, &id][..], &LINK].concat());
        let deleted = user.run(&["delete", MEMORY, &id]).exits(0);
        assert!(
            deleted.stderr.contains("Its text is kept"),
            "{}",
            deleted.stderr
        );
        let plain = user.put(&["Nothing rests on this."]);
        let deleted = user.run(&["delete", MEMORY, &plain]).exits(0);
        assert_eq!(deleted.stderr, "");
        let id = user.put(&["Once more."]);
        user.text(&[&["link", MEMORY, &id][..], &LINK].concat());
        assert_eq!(user.json(&["delete", MEMORY, &id])["held"], json!(true));
    });
}
