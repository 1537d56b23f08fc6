//! The table of texts with their expected typologies.

use super::*;

#[rustfmt::skip]
const PROCEDURAL: &[&str] = &[
    "Always run the gate before a release",
    "Never quote rule text in notes.",
    "Please don't page people at night",
    "Prefer short answers",
    "I prefer tables over lists",
    "The operator prefers dark mode",
    "Use Linear for tickets",
    "Format dates as ISO 8601",
    "Send the weekly report in Slack",
    "From now on reviews happen before lunch",
    "When reviewing rules, I check the sources first",
    "Whenever a scan fails, open a ticket",
    "For release notes, use British spelling",
    "I usually start with the diff",
    "Make sure the tests pass before you merge",
    "Avoid long meetings",
    "Keep answers under 200 words",
    "Run the gate, then draft the card",
    "The queue is long. Always start with the oldest item",
    "- always sign commits\n- never force-push",
    "Always close with \"Kind regards\"",
    "If the gate is red, don't promote anything",
    "We never deploy on Fridays",
    "Summarise findings in three bullets",
    "Check the logs first",
];

#[rustfmt::skip]
const EPISODIC: &[&str] = &[
    "User: please draft the release notes",
    "user: always use tabs\nassistant: noted",
    "Assistant: I have drafted the card for world X",
    "Operator: never do that again, please",
    "**User:** can you check this rule?",
    "Tool: 3 rows\nAgent: there are three",
    "[14:02] nadia: hello\n[14:03] otto: hi",
    "14:02 Nadia: are we on track?",
    "Nadia: hi\nOtto: hello\nNadia: shall we start?",
    "\"Always use tabs,\" Nadia said.",
    "Nadia asked \"when is the release?\"",
    "Otto replied: “not before Monday”",
    r#"{"tool": "search", "args": {"q": "coverage"}}"#,
    r#"[{"type": "tool_use", "name": "draft", "input": {}}]"#,
    r#"{"role": "assistant", "tool_calls": [{"id": "1"}]}"#,
    r#"{"message": {"function": "always_run", "arguments": "{}"}}"#,
    "```json\n{\"tool_name\": \"scan\", \"status\": \"ok\"}\n```",
    "I drafted the card at 14:05",
    "At 9:30am we met with the team",
    "We restarted the scan at 5 pm and it passed",
    "I sent the notes at 2026-03-01T14:05Z",
    "Today I wrote the summary, around 16:40",
];

#[rustfmt::skip]
const SEMANTIC: &[&str] = &[
    "",
    "Nadia's role is surgeon",
    "The deadline for Atlas is Friday",
    "Deadline: Friday",
    "Owner: Otto\nFormat: PDF\nStatus: open",
    "User: Nadia",
    "Customer: Globex of Vienna, since 2019",
    "System: Debian 12 on ARM",
    "The gate covers world X",
    "The operator was working on coverage for world X",
    "The server always crashes at noon",
    "Should we always use tabs?",
    "Otto says to always use tabs",
    "The button says \"Save\"",
    "The file is called \"always.txt\"",
    "The meeting is at 14:05",
    "Nadia met Otto at 14:05",
    "I drafted the card",
    "We have 14 open items",
    "Build fails on main",
    "Release notes are due on Friday",
    "Use of tabs is discouraged",
    "Never mind",
    "See https://example.com/a: it has the details",
    r#"{"name": "Atlas", "status": "open"}"#,
    r#"{"broken": "tool_call""#,
    "> always use tabs",
    "```\nalways run\n```",
    "Coverage rose from 70 to 80 percent",
    "When was the last release",
    "東京は日本の首都です",
];

/// The texts of a table that are classified differently.
fn wrong<'a>(table: &[&'a str], expected: Typology) -> Vec<(&'a str, &'static str)> {
    let read = table.iter().map(|text| (*text, classify(text)));
    read.filter(|(_, found)| *found != expected)
        .map(|(text, found)| (text, found.as_str()))
        .collect()
}

#[test]
fn working_rules_are_procedural() {
    assert_eq!(wrong(PROCEDURAL, Typology::Procedural), []);
}

#[test]
fn transcripts_and_accounts_are_episodic() {
    assert_eq!(wrong(EPISODIC, Typology::Episodic), []);
}

#[test]
fn other_statements_are_semantic() {
    assert_eq!(wrong(SEMANTIC, Typology::Semantic), []);
}

#[test]
fn clock_times_are_distinguished_from_numbers() {
    for clock in [
        "14:05",
        "9:30am",
        "5pm",
        "2026-03-01T14:05Z",
        "14:05:33",
        "2026-03-01t14:05:33.123z",
        "00:00",
    ] {
        assert!(is_clock(clock), "{clock}");
    }
    for other in [
        "14", "3:2:1:0", "25:00", "14:60", "1.5", "am", "item", "a:b", "", "5z", "12:345", "team",
    ] {
        assert!(!is_clock(other), "{other}");
    }
}

proptest::proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn classifying_any_text_never_panics(text in "(?s).{0,200}|[\\[{\":,> a-zA-Z\n`]{0,120}") {
        let _ = classify(&text);
    }
}

#[test]
fn only_whole_words_near_a_quotation_are_read() {
    let long = "x".repeat(1000);
    assert_eq!(words_at_end(&long).count(), 0);
    assert_eq!(words_at_start(&long, |c| c == '"').count(), 0);
    let said = format!("{long} then she said ");
    assert_eq!(
        words_at_end(&said).take(2).collect::<Vec<_>>(),
        ["said", "she"]
    );
    let said = format!("\"\" said she {long}");
    assert_eq!(
        words_at_start(&said, |c| c == '"').collect::<Vec<_>>(),
        ["said", "she"]
    );
    let cut = format!("{}said ", "é".repeat(NEAR_BYTES));
    assert_eq!(words_at_end(&cut).count(), 0, "the word is a longer one");
}

/// Each text takes milliseconds; work that is quadratic in the length would take minutes.
#[test]
fn classification_is_linear_for_hostile_texts() {
    let speakers: String = (0..100_000).map(|n| format!("a{n}: b\n")).collect();
    for part in [
        "\">\"\"", "[\"", "{\"a\":", "\"", "“", "\" ", "a: \n", "a:b: ", "I 9:00 ",
    ] {
        assert_ne!(classify(&part.repeat((1 << 20) / part.len())).as_str(), "");
    }
    assert_eq!(classify(&speakers), Typology::Semantic);
}
