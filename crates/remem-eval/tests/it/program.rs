//! Proves that `remem-eval recall` measures a real host from end to end, leaves nothing behind,
//! gives the same result twice, and reports errors of a dataset without its contents.

use crate::command::{Ran, remem_eval, run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Two memories; the third question is found by its neighbour alone, the fourth not at all, and the
/// fifth has no answer.
fn lines() -> String {
    let said = |memory: &str, id: &str, minute: u32, text: &str| json!({"memory": memory, "id": id, "text": text, "at": format!("2026-03-01T08:{minute:02}:00Z"), "session": "s1"});
    let asked = |memory: &str, question: &str, evidence: &[&str], category: &str| json!({"memory": memory, "question": question, "evidence": evidence, "category": category});
    let lines = [
        said(
            "harbour",
            "e1",
            0,
            "The ferry to the island leaves at nine.",
        ),
        said("harbour", "e2", 1, "Bring a warm jacket."),
        said("harbour", "e3", 2, "Lunch is soup and bread."),
        said("harbour", "e4", 40, "Nadia painted the lighthouse."),
        said("garden", "e1", 0, "Beans want poles."),
        said("garden", "e2", 1, "Water the tomatoes at dusk."),
        asked("harbour", "When does the ferry leave?", &["e1"], "plain"),
        asked("garden", "How do I water tomatoes?", &["e2"], "plain"),
        asked(
            "harbour",
            "What do I need for the ferry?",
            &["e2"],
            "beside",
        ),
        asked("harbour", "Which artist?", &["e4"], "hard"),
        asked("garden", "Where is the greenhouse?", &[], "none"),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn recall(home: &Path, dataset: &Path, more: &[&str]) -> Ran {
    run(remem_eval()
        .arg("--data-dir")
        .arg(home.join("data"))
        .env("TMPDIR", home.join("scratch"))
        .args(["recall", "--dataset"])
        .arg(dataset)
        .args(more))
}

/// A temporary folder, and the dataset in it.
fn home() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("scratch")).unwrap();
    let dataset = home.path().join("own.jsonl");
    fs::write(&dataset, lines()).unwrap();
    (home, dataset)
}

fn table(report: &Value, title: &str) -> Vec<Value> {
    let tables = report["tables"].as_array().unwrap();
    tables.iter().find(|table| table["title"] == title).unwrap()["rows"]
        .as_array()
        .unwrap()
        .clone()
}

/// The figures for `lines` that are known beforehand.
fn assert_figures(report: &Value) {
    let found = &table(report, "Recall")[0];
    // Three of the four questions with evidence are found: two by words, one beside an entry that
    // the words found.
    assert_eq!(
        (&found["way"], &found["questions"], &found["recall@10"]),
        (&json!("lexical"), &json!(4), &json!(0.75))
    );
    let of = |category: &str| {
        table(report, "Recall@10 by category")
            .into_iter()
            .find(|row| row["category"] == category)
            .unwrap()
    };
    assert_eq!(of("plain")["lexical"], json!(1.0));
    assert_eq!(
        (
            &of("beside")["lexical"],
            &of("hard")["lexical"],
            &of("none")["lexical"]
        ),
        (&json!(1.0), &json!(0.0), &Value::Null)
    );
    assert_eq!(table(report, "Cost")[0]["entries"], json!(6));
    let steps: Vec<Value> = table(report, "What brings what")
        .iter()
        .map(|row| row["recall@10"].clone())
        .collect();
    assert_eq!(
        steps[..2],
        [json!(0.5), json!(0.75)],
        "without neighbours, then with them"
    );
    assert_eq!(
        table(report, "The probability")[0]["questions"],
        json!(5),
        "what nothing answers is asked as well"
    );
}

#[test]
fn recall_measures_a_dataset_and_leaves_no_data_behind() {
    let (home, dataset) = home();
    let markdown = home.path().join("report.md");
    let file = home.path().join("report.json");
    let more = [
        "--fit",
        "--times",
        "--misspell",
        "--ablation",
        "--report",
        markdown.to_str().unwrap(),
        "--report-json",
        file.to_str().unwrap(),
    ];
    let said = recall(home.path(), &dataset, &more).exits(0).stdout;
    assert!(
        said.starts_with("2 memories, 5 questions; 0 without evidence were left out\n"),
        "{said}"
    );
    let report: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_figures(&report);
    let text = fs::read_to_string(&markdown).unwrap();
    assert!(
        text.contains("| lexical | 4 |")
            && text.contains("## Fit")
            && text.contains("## Times in questions"),
        "{text}"
    );
    assert_eq!(
        fs::read_dir(home.path().join("scratch")).unwrap().count(),
        0,
        "the host goes with its folder"
    );
    assert!(
        !home.path().join("data").exists(),
        "nobody's memory is touched"
    );
}

#[test]
fn repeated_recall_gives_the_same_report() {
    let (home, dataset) = home();
    let once = || {
        let said = run(remem_eval()
            .args([
                "--json",
                "recall",
                "--k",
                "3",
                "--fit",
                "--times",
                "--unit",
                "turn",
                "--dataset",
            ])
            .arg(&dataset)
            .arg("--data-dir")
            .arg(home.path().join("data")));
        let mut report = said.exits(0).json();
        report["tables"]
            .as_array_mut()
            .unwrap()
            .retain(|table| table["title"] != "Latency" && table["title"] != "Cost");
        report
    };
    assert_eq!(once(), once());
}

#[test]
fn session_units_and_limits_work_and_hybrid_needs_a_model() {
    let (home, dataset) = home();
    let sessions = recall(
        home.path(),
        &dataset,
        &["--unit", "session", "--limit", "1", "--no-context"],
    )
    .exits(0)
    .stdout;
    assert!(
        sessions.starts_with("2 memories, 1 questions"),
        "{sessions}"
    );
    let refused = recall(home.path(), &dataset, &["--modes", "lexical,hybrid"])
        .exits(1)
        .stderr;
    assert!(refused.contains("remem model install"), "{refused}");
    recall(home.path(), &dataset, &["--k", "0"]).exits(2);
}

#[test]
fn dataset_errors_name_the_place_without_the_contents() {
    let (home, _) = home();
    let file = |name: &str, text: &str| {
        let file = home.path().join(name);
        fs::write(&file, text).unwrap();
        recall(home.path(), &file, &[]).exits(1).stderr
    };
    let line = file(
        "own.jsonl",
        "{\"memory\":\"m\",\"id\":\"e1\",\"text\":\"marzipan\",\"at\":\"marzipan\"}\n",
    );
    assert!(
        line.contains("own.jsonl")
            && line.contains("line 1")
            && line.contains("RFC 3339")
            && !line.contains("marzipan"),
        "{line}"
    );
    let list = file(
        "talk.json",
        "[{\"conversation\": {\"session_1\": []}, \"qa\": [{\"question\": \"marzipan\"}]}]",
    );
    assert!(
        list.contains("talk.json") && list.contains("category") && !list.contains("marzipan"),
        "{list}"
    );
    let other = file("other.json", "{\"marzipan\": []}");
    assert!(
        other.contains("--format") && !other.contains("marzipan"),
        "{other}"
    );
    let empty = file("empty.jsonl", "\n");
    assert!(empty.contains("has no question"), "{empty}");
    let missing = recall(home.path(), &home.path().join("missing.json"), &[])
        .exits(1)
        .stderr;
    assert!(missing.contains("missing.json"), "{missing}");
}
