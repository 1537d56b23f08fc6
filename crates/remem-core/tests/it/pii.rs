//! The checks of a workshop memory over a corpus of texts in many languages: personal data that
//! must be masked and lookalikes that must not, traces and texts that only mention traces, and the
//! properties that hold for any text.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::pii::{PiiKind, find_pii, mask, trace_kind};

const MASKED: &str = include_str!("../data/pii.tsv");
const LOOKALIKES: &str = include_str!("../data/pii-lookalikes.txt");
const TRACES: &str = include_str!("../data/traces.txt");
const NO_TRACES: &str = include_str!("../data/no-traces.txt");

fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// The blocks of a file, each with its heading.
fn blocks(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let block = |block: &'static str| {
        block
            .split_once('\n')
            .map(|(head, body)| (head.trim(), body.trim_end()))
    };
    text.split("%%").skip(1).filter_map(block).collect()
}

fn masked(text: &str) -> (String, Vec<(PiiKind, String)>) {
    mask(text, |_, _| "p".into())
}

#[test]
fn pii_is_masked_and_reported_in_normal_form() {
    let mut wrong = Vec::new();
    for row in rows(MASKED) {
        let [text, expected, normals] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {row}")
        };
        let (is, found) = masked(text);
        let normals_found: Vec<&str> = found.iter().map(|(_, normal)| normal.as_str()).collect();
        if is != expected || normals_found != normals.split(',').collect::<Vec<_>>() {
            wrong.push(format!(
                "{text}\n  is {is} {normals_found:?}\n  not {expected} {normals}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows(MASKED).count() >= 60);
}

#[test]
fn pii_lookalikes_are_unchanged() {
    let wrong: Vec<String> = rows(LOOKALIKES)
        .filter(|text| masked(text).0 != **text)
        .map(|text| masked(text).0)
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows(LOOKALIKES).count() >= 80);
}

#[test]
fn telemetry_logs_and_stack_traces_are_recognised() {
    let all = blocks(TRACES);
    let is = |text| trace_kind(text).map_or("none", |shape| shape.as_str());
    let wrong: Vec<String> = all
        .iter()
        .filter(|(shape, text)| is(text) != *shape)
        .map(|(_, text)| format!("{}: {text}", is(text)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(all.len() >= 25);
}

#[test]
fn text_about_traces_is_not_a_trace() {
    let all = blocks(NO_TRACES);
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(_, text)| Some(format!("{:?}: {text}", trace_kind(text)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(all.len() >= 40);
    let ordinary: Vec<&str> = rows(LOOKALIKES)
        .filter(|text| trace_kind(text).is_some())
        .collect();
    assert_eq!(ordinary, Vec::<&str>::new());
}

#[test]
fn the_ordinary_redaction_corpus_contains_no_traces() {
    let ordinary = include_str!("../../src/redact/testdata/ordinary.txt");
    let lines: Vec<&str> = ordinary
        .lines()
        .filter(|line| trace_kind(line).is_some())
        .collect();
    assert_eq!(lines, Vec::<&str>::new());
}

#[test]
fn pseudonyms_cannot_break_markers() {
    for (given, kept) in [
        ("1a2b3c4d", "1a2b3c4d"),
        ("a]b[c d", "abcd"),
        ("", ""),
        ("4111111111111111", ""),
        (&"x".repeat(99), &"x".repeat(32)),
    ] {
        let (text, _) = mask("ada@example.com", |_, _| given.into());
        assert_eq!(text, format!("[PII:email:{kept}]"));
        assert_eq!(mask(&text, |_, _| "other".into()), (text.clone(), vec![]));
    }
}

#[test]
fn pseudonyms_depend_on_kind_and_normal_form() {
    let (text, found) = mask("ADA@example.com, ada@EXAMPLE.com", |kind, normal| {
        format!("{}-{}", kind.as_str(), normal.len())
    });
    assert_eq!(text, "[PII:email:email-15], [PII:email:email-15]");
    assert_eq!(
        found,
        [(PiiKind::Email, "ada@example.com".to_owned())],
        "each value once"
    );
}

#[test]
fn debug_output_of_a_finding_omits_its_value() {
    let shown = format!("{:?}", find_pii("to ada@example.com"));
    assert_eq!(shown, "[Pii { range: 3..18, kind: Email, .. }]");
}

/// Each text would take minutes if a pattern looked further than a bounded distance from every
/// position.
#[test]
fn masking_and_trace_detection_are_linear() {
    for piece in [
        "a.", "1 ", "+1 ", "(0", "a@", "ada@b.", "4111-", "tel ", "DE89 ", "{\"a\":", "at a(b:1",
        "[PII:", "0",
    ] {
        let text = piece.repeat(100_000 / piece.len());
        let _ = (masked(&text), trace_kind(&text));
    }
    let many = "ada@example.com+49 30 1234567 ".repeat(2_000);
    assert_eq!(find_pii(&many).len(), 4_000);
}

/// Pieces of personal data, and pieces that are almost that, side by side at random: the end of one
/// may be the beginning of the next.
fn pieces() -> impl Strategy<Value = String> {
    let corpus: Vec<&str> = rows(MASKED)
        .chain(rows(LOOKALIKES))
        .flat_map(|row| row.split('\t').take(1))
        .collect();
    let values: Vec<String> = rows(MASKED)
        .flat_map(|row| {
            find_pii(row)
                .into_iter()
                .map(|pii| row[pii.range].to_owned())
        })
        .collect();
    let piece = prop_oneof![
        3 => proptest::sample::select(values),
        1 => proptest::sample::select(corpus).prop_map(str::to_owned),
        3 => "[-+(). @/:_a-zA-Z0-9]{0,6}",
        1 => "[0-9 -]{1,12}",
        1 => "\\PC{0,4}",
        1 => proptest::sample::select(vec!["[PII:", "[REDACTED:", "]", "email:", "tel ", "https://", "00", "\n"]).prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config(250, 1000))]

    #[test]
    fn masking_is_idempotent(text in pieces()) {
        let (once, _) = masked(&text);
        prop_assert_eq!(find_pii(&once), vec![], "{}", once);
        prop_assert_eq!(masked(&once).0, once);
    }

    #[test]
    fn findings_are_sorted_and_disjoint(text in pieces()) {
        let found = find_pii(&text);
        prop_assert!(found.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
        prop_assert!(found.iter().all(|pii| text.get(pii.range.clone()).is_some_and(|value| !value.is_empty()) && !pii.normal_form.is_empty()));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}|[\\x00-\\x7f]{0,200}", cut in 0usize..200) {
        let _ = (masked(&text), trace_kind(&text));
        let braces = format!("{{{text}");
        let _ = trace_kind(&braces[..(0..=cut.min(braces.len())).rev().find(|&at| braces.is_char_boundary(at)).unwrap_or(0)]);
    }
}
