//! Lines of the project's own format, and the errors for malformed ones.

use remem_eval::cli::EntryUnit;
use remem_eval::dataset::TextParts;
use remem_eval::jsonl::read;

const ENTRY: &str = r#"{"memory":"m","id":"e1","text":"The ferry leaves at nine.","at":"2026-03-01T08:00:00Z","session":"s1"}"#;

fn refused(line: &str) -> String {
    read(&format!("{ENTRY}\n\n{line}\n"))
        .map(|_| ())
        .map_err(|error| format!("{error:#}"))
        .unwrap_err()
}

#[test]
fn entries_and_questions_are_read_from_lines() {
    let lines = [
        r#"{"memory":"m","question":"When does the ferry leave?","evidence":["e1"],"category":"times"}"#,
        r#"{"memory":"n","id":"e1","text":"Of another memory.","at":"2026-03-01T09:00:00Z"}"#,
        ENTRY,
        r#"{"memory":"m","question":"Who steers?","evidence":[]}"#,
    ];
    let dataset = read(&lines.join("\n")).unwrap();
    assert_eq!(dataset.memories.len(), 2);
    assert_eq!(
        dataset.memories[1].texts(EntryUnit::Turn, TextParts::ALL)[0].text,
        "The ferry leaves at nine."
    );
    let one = &dataset.questions[0];
    let other = &dataset.questions[1];
    assert_eq!(
        (
            one.memory,
            one.evidence.as_slice(),
            one.category.as_str(),
            one.answerable
        ),
        (1, &["e1".to_owned()][..], "times", true)
    );
    assert_eq!(one.evidence(EntryUnit::Session), ["s1"]);
    assert_eq!((other.category.as_str(), other.answerable), ("-", false));
    assert!(!dataset.has_sessions(), "one entry is of none");
}

#[test]
fn errors_name_the_line_without_its_contents() {
    assert_eq!(refused(ENTRY), "line 3: its id is there already");
    assert_eq!(
        refused(r#"{"memory":"m","question":"?","evidence":["e1","ferry"]}"#),
        "line 3: evidence 2 is no entry of its memory"
    );
    assert_eq!(
        refused(r#"{"memory":"ferry","question":"?","evidence":[]}"#),
        "line 3: no entry is of its memory"
    );
    for (line, word) in [
        (
            r#"{"memory":"m","id":"e2","text":"ferry"}"#,
            "`at` is missing",
        ),
        (
            r#"{"memory":"m","id":"e2","text":"ferry","at":"ferry"}"#,
            "RFC 3339",
        ),
        (r#"{"memory":"m","question":"ferry"}"#, "evidence"),
        (
            r#"{"memory":"m","id":"e2","text":"x","at":"2026-03-01T08:00:00Z","ferry":1}"#,
            "unknown field",
        ),
        ("ferry", "not JSON"),
    ] {
        let message = refused(line);
        assert!(
            message.starts_with("line 3: ") && message.contains(word) && !message.contains("ferry"),
            "{message}"
        );
    }
}
