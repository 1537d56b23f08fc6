//! A small made-up conversation, and the errors for malformed ones.

use remem_eval::cli::EntryUnit;
use remem_eval::dataset::TextParts;
use remem_eval::locomo::{ids, read};
use serde_json::{Value, json};

fn sample() -> Value {
    json!([{
        "sample_id": "talk-1",
        "qa": [
            {"question": "Which boat did Ines rent?", "answer": "a yawl", "evidence": ["D1:2; D2:1", "D1:2"], "category": 1},
            {"question": "What does Omar grow?", "answer": 7, "evidence": ["see (D2:2) or D9:9, D:1:2"], "category": 4},
            {"question": "Which boat did Omar rent?", "evidence": ["D1:2"], "category": 5},
            {"question": "Who cooks?", "evidence": ["D7:1"], "category": 2},
            {"question": "Who sings?", "evidence": [], "category": 3},
        ],
        "conversation": {
            "speaker_a": "Ines", "speaker_b": "Omar",
            "session_2_date_time": "9:05 am on 1 June, 2023",
            "session_2": [
                {"speaker": "Ines", "dia_id": "D2:1", "text": "The yawl leaked."},
                {"speaker": "Omar", "dia_id": "D2:2", "text": "My beans are up.", "blip_caption": "rows of beans", "img_url": ["x"]},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Omar", "dia_id": "D1:1", "text": "Where to?"},
                {"speaker": "Ines", "dia_id": "D1:2", "text": "I rented a boat."},
            ],
            "session_3_date_time": "1:56 pm on 9 June, 2023",
        },
    }])
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut value = sample();
    change(&mut value[0]);
    match read(&value.to_string()) {
        Ok(_) => panic!("it was read"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn a_conversation_is_read_into_entries_and_sessions() {
    let dataset = read(&sample().to_string()).unwrap();
    let memory = &dataset.memories[0];
    let ids: Vec<&str> = memory.entries.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(
        ids,
        ["D1:1", "D1:2", "D2:1", "D2:2"],
        "sessions come in the order of their numbers"
    );
    let at: Vec<String> = memory
        .entries
        .iter()
        .map(|item| item.at.rfc3339())
        .collect();
    assert_eq!(at[1], "2023-05-08T13:56:30.000Z");
    assert_eq!(
        memory.entries[3].text(TextParts::ALL),
        "Omar: My beans are up. [shares rows of beans] (1 June 2023)"
    );
    assert_eq!(
        memory.entries[3].text(TextParts::SPEECH_ONLY),
        "My beans are up."
    );
    let sessions = memory.texts(EntryUnit::Session, TextParts::ALL);
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        (sessions[0].id.as_str(), sessions[0].text.as_str()),
        (
            "session_1",
            "Omar: Where to?\nInes: I rented a boat. (8 May 2023)"
        )
    );
}

#[test]
fn only_evidence_that_exists_is_kept() {
    let dataset = read(&sample().to_string()).unwrap();
    assert_eq!((dataset.questions.len(), dataset.skipped), (3, 2));
    assert_eq!(dataset.questions[0].evidence, ["D1:2", "D2:1"]);
    assert_eq!(
        dataset.questions[0].evidence(EntryUnit::Session),
        ["session_1", "session_2"]
    );
    assert_eq!(dataset.questions[1].evidence, ["D2:2"]);
    let kinds: Vec<(&str, bool)> = dataset
        .questions
        .iter()
        .map(|question| (question.category.as_str(), question.answerable))
        .collect();
    assert_eq!(
        kinds,
        [
            ("multi-hop", true),
            ("single-hop", true),
            ("adversarial", false)
        ]
    );
}

#[test]
fn turn_ids_are_extracted_from_free_text() {
    assert_eq!(ids("D8:6; D9:17"), ["D8:6", "D9:17"]);
    assert_eq!(
        ids("(D12:3)D4:5 D:11:26 D7 D8: ED1:1"),
        ["D12:3", "D4:5", "D1:1"]
    );
    assert!(ids("Dé1:2").is_empty());
}

#[test]
fn errors_name_the_place_without_the_contents() {
    let date = refused(|sample| {
        sample["conversation"]["session_2_date_time"] = json!("yesterday, by the yawl")
    });
    assert_eq!(
        date,
        "conversation 1: session_2_date_time is no date like \"1:56 pm on 8 May, 2023\""
    );
    let twice = refused(|sample| sample["conversation"]["session_2"][1]["dia_id"] = json!("D1:1"));
    assert_eq!(
        twice,
        "conversation 1: session_2: its turns have a dia_id that is there already"
    );
    let category = refused(|sample| sample["qa"][1]["category"] = json!(6));
    assert_eq!(
        category,
        "conversation 1, question 2: its category is not 1 to 5"
    );
    let turn = refused(|sample| {
        sample["conversation"]["session_1"][0] = json!({"speaker": "Omar", "text": "the yawl"})
    });
    assert!(
        turn.starts_with("conversation 1: session_1: ")
            && turn.contains("dia_id")
            && !turn.contains("yawl"),
        "{turn}"
    );
    let list = read("{\"yawl\": 1}").map(|_| ()).unwrap_err().to_string();
    assert!(list.contains("line 1") && !list.contains("yawl"), "{list}");
    let cut = read("[{\"qa\": [").map(|_| ()).unwrap_err().to_string();
    assert!(cut.contains("unexpected end of JSON"), "{cut}");
}
