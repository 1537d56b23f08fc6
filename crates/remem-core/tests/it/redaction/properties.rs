//! Goal: the properties that hold for every value set and every text. Method: random values over
//! tiny alphabets (so that they overlap, nest and repeat), random Unicode, and texts made of values
//! and markers.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::redact::{Redactor, SecretValue, ShapePolicy};

fn redactor(values: &[String]) -> Redactor {
    Redactor::new(
        values
            .iter()
            .enumerate()
            .map(|(n, value)| SecretValue::new(format!("id{n}"), value)),
    )
}

fn long_enough(values: &[String]) -> impl Iterator<Item = &String> {
    values.iter().filter(|value| value.chars().count() >= 8)
}

/// Text made of whole values, parts of values, markers and filler.
fn glued(values: Vec<String>) -> impl Strategy<Value = (Vec<String>, String)> {
    let pieces = values.iter().flat_map(|value| {
        let half = value
            .char_indices()
            .nth(value.chars().count() / 2)
            .map_or(0, |(at, _)| at);
        [
            value.clone(),
            value[half..].to_owned(),
            value[..half].to_owned(),
            value.to_uppercase(),
            format!("[REDACTED:{value}]"),
        ]
    });
    let fixed = [
        "",
        " ",
        "]",
        "[",
        "[REDACTED:",
        "[REDACTED:x]",
        "[REDACTED:id0]",
        "\\",
        "%41",
        "\n",
        "a",
    ];
    let pieces: Vec<String> = pieces.chain(fixed.map(str::to_owned)).collect();
    let text = prop::collection::vec(prop::sample::select(pieces), 0..12)
        .prop_map(|pieces| pieces.concat());
    (Just(values), text)
}

fn tiny_alphabet_values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        "[ab]{8,12}|(ab){4,7}|(aab){3,5}|[aB1]{8,14}|[a.-]{8,12}",
        1..5,
    )
}

fn odd_values() -> impl Strategy<Value = Vec<String>> {
    let marker_like = prop::sample::select(vec![
        "REDACTED",
        "[REDACTED:",
        "[REDACTED:id0]",
        "EDACTED:id",
        "]aaaaaaa",
        "aaaaaaa[",
        "id0]aaaa",
        "secret-1",
        "][REDACTED",
    ]);
    prop::collection::vec(
        prop_oneof![
            marker_like.prop_map(str::to_owned),
            "\\PC{8,16}",
            "[\\[\\]:a]{8,10}",
            "[ a]{8,10}",
            "[\\\\n\"u0]{8,10}"
        ],
        1..4,
    )
}

proptest! {
    #![proptest_config(config(100, 400))]

    #[test]
    fn values_in_dense_overlaps_are_redacted(values in tiny_alphabet_values(), text in "[abAB1 .-]{0,120}") {
        let cleaned = redactor(&values).clean(&text, ShapePolicy::Off);
        for value in long_enough(&values) {
            prop_assert!(!cleaned.text.as_str().contains(value.as_str()), "{value:?} in {:?}", cleaned.text);
        }
    }

    #[test]
    fn values_in_concatenated_text_are_redacted((values, text) in tiny_alphabet_values().prop_flat_map(glued)) {
        let cleaned = redactor(&values).clean(&text, ShapePolicy::Redact);
        for value in long_enough(&values) {
            prop_assert!(!cleaned.text.as_str().contains(value.as_str()), "{value:?} in {:?}", cleaned.text);
        }
    }

    #[test]
    fn unicode_values_are_redacted_in_any_context(value in "\\PC{8,20}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
        let values = [value.clone()];
        let text = format!("{before}{value}{after}");
        let cleaned = redactor(&values).clean(&text, ShapePolicy::Off);
        prop_assert!(!cleaned.text.as_str().contains(&value), "{:?}", cleaned.text);
        prop_assert!(cleaned.values >= 1);
        prop_assert!(redactor(&values).has_findings(&text, ShapePolicy::Off));
    }

    #[test]
    fn json_escaped_values_are_redacted_in_any_context(value in "[a-f\"\\\\/\\n\\té🔑'u0-9]{8,20}", before in "[a-z \\\\\"]{0,8}", after in "[a-z \\\\\"]{0,8}") {
        let plain = serde_json::to_string(&value).unwrap();
        let ascii: String = plain.chars().map(|c| if c.is_ascii() { c.to_string() } else { c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect() }).collect();
        for escaped in [plain.replace('/', "\\/"), ascii, plain] {
            let inner = &escaped[1..escaped.len() - 1];
            let cleaned = redactor(std::slice::from_ref(&value)).clean(&format!("{before}{inner}{after}"), ShapePolicy::Off);
            prop_assert!(!cleaned.text.as_str().contains(inner), "{value:?} in {:?}", cleaned.text);
        }
    }

    #[test]
    fn redaction_is_idempotent((values, text) in prop_oneof![odd_values(), tiny_alphabet_values()].prop_flat_map(glued)) {
        let redactor = redactor(&values);
        for shapes in [ShapePolicy::Redact, ShapePolicy::Flag, ShapePolicy::Off] {
            let once = redactor.clean(&text, shapes).text.into_string();
            let twice = redactor.clean(&once, shapes);
            prop_assert_eq!(twice.text.as_str(), once.as_str());
            prop_assert_eq!(twice.values, 0);
            prop_assert!(shapes == ShapePolicy::Flag || !redactor.has_findings(&once, shapes));
            let derived = redactor.clean_derived(&text, shapes).text.into_string();
            prop_assert_eq!(redactor.clean_derived(&derived, shapes).text.into_string(), derived);
        }
    }

    #[test]
    fn arbitrary_text_never_panics_and_has_findings_agrees(values in prop::collection::vec("\\PC{0,12}|[ -~]{0,40}", 0..4), text in "\\PC{0,80}|[ -~\\n]{0,200}|[A-Za-z0-9+/=]{0,200}|[0-9a-f: ]{0,100}") {
        let redactor = redactor(&values);
        for shapes in [ShapePolicy::Redact, ShapePolicy::Flag, ShapePolicy::Off] {
            let cleaned = redactor.clean(&text, shapes);
            let reported = cleaned.text.as_str() != text || !cleaned.shapes.is_empty();
            prop_assert_eq!(reported, redactor.has_findings(&text, shapes));
        }
    }

    #[test]
    fn text_without_a_match_is_unchanged(values in prop::collection::vec("[A-Z][a-z0-9]{15,30}", 1..4), text in "[ -~\\n]{0,60}|\\PC{0,60}") {
        let cleaned = redactor(&values).clean(&text, ShapePolicy::Off);
        prop_assume!(!values.iter().any(|value| text.contains(&value[..8])));
        prop_assert_eq!(cleaned.text.as_str(), text);
        prop_assert_eq!(cleaned.values, 0);
    }

    #[test]
    fn markers_are_well_formed_and_hold_no_value(ids in prop::collection::vec("\\PC{0,20}|[a-z/.\\]\\n<\"]{1,80}", 1..3), value in "[a-zA-Z0-9]{8,24}") {
        // Each id also contains the value, to check that the marker does not.
        let values = ids.iter().enumerate().map(|(n, id)| SecretValue::new(format!("{id}{value}"), format!("{value}{n}")));
        let redactor = Redactor::new(values.chain([SecretValue::new(value.clone(), value.clone())]));
        let text = format!("k {value}0 {value}");
        let cleaned = redactor.clean(&text, ShapePolicy::Off).text.into_string();
        prop_assert!(!cleaned.contains(&value));
        let rest = regex_lite_markers(&cleaned);
        prop_assert_eq!(rest, "k  ");
    }
}

/// The rest of a text after its `[REDACTED:…]` markers are cut out.
fn regex_lite_markers(text: &str) -> String {
    let mut rest = String::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("[REDACTED:") {
        let Some(len) = text[at + open..].find(']') else {
            break;
        };
        rest.push_str(&text[at..at + open]);
        at += open + len + 1;
    }
    rest + &text[at..]
}
