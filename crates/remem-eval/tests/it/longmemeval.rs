//! Small made-up haystacks, and the errors for malformed ones.

use remem_eval::cli::EntryUnit;
use remem_eval::dataset::TextParts;
use remem_eval::longmemeval::read;
use serde_json::{Value, json};

fn sample(id: &str) -> Value {
    json!({
        "question_id": id, "question_type": "single-session-user", "question": "What is the cat called?", "answer": "Pip",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s-9", "s-4"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Plan a trip."}, {"role": "assistant", "content": "Where to?"}],
            [{"role": "user", "content": "My cat Pip is ill.", "has_answer": true}, {"role": "assistant", "content": "Poor cat.", "has_answer": false}],
        ],
        "answer_session_ids": ["s-4"],
    })
}

#[test]
fn haystacks_are_read_into_memories_and_questions() {
    let dataset = read(&json!([sample("q1"), sample("q2_abs")]).to_string()).unwrap();
    assert_eq!((dataset.memories.len(), dataset.skipped), (2, 0));
    let texts = dataset.memories[0].texts(EntryUnit::Turn, TextParts::ALL);
    assert_eq!(
        (texts[2].id.as_str(), texts[2].text.as_str()),
        ("s-4:0", "user: My cat Pip is ill. (21 May 2023)")
    );
    assert_eq!(texts[3].at.0 - texts[2].at.0, 30_000);
    let one = &dataset.questions[0];
    let other = &dataset.questions[1];
    assert_eq!(
        (
            one.evidence(EntryUnit::Turn),
            one.evidence(EntryUnit::Session)
        ),
        (&["s-4:0".to_owned()][..], &["s-4".to_owned()][..])
    );
    assert_eq!(
        (one.answerable, one.memory, one.category.as_str()),
        (true, 0, "single-session-user")
    );
    assert_eq!(
        one.at.map(|at| at.rfc3339()).as_deref(),
        Some("2023-05-30T23:40:00.000Z")
    );
    assert!(!other.answerable && other.evidence.is_empty() && other.sessions.is_empty());
}

#[test]
fn errors_name_the_place_without_the_contents() {
    let refused = |change: fn(&mut Value)| {
        let mut second = sample("q2");
        change(&mut second);
        read(&json!([sample("q1"), second]).to_string())
            .map(|_| ())
            .map_err(|error| format!("{error:#}"))
            .unwrap_err()
    };
    let lengths = refused(|one| one["haystack_dates"] = json!(["2023/05/20 (Sat) 02:21"]));
    assert_eq!(
        lengths,
        "question 2: haystack_sessions, haystack_session_ids and haystack_dates are not of one length"
    );
    let date = refused(|one| one["haystack_dates"][1] = json!("when Pip was ill"));
    assert_eq!(
        date,
        "question 2: haystack_dates, 2: it is no date like \"2023/05/20 (Sat) 02:21\""
    );
    let asked = refused(|one| one["question_date"] = json!(""));
    assert_eq!(
        asked,
        "question 2: question_date is no date like \"2023/05/20 (Sat) 02:21\""
    );
    let role = refused(|one| one["haystack_sessions"][0][0] = json!({"content": "Pip"}));
    assert!(
        role.contains("role") && role.contains("line 1") && !role.contains("Pip"),
        "{role}"
    );
}
