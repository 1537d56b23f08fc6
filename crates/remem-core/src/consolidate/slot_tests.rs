//! The table of sentences: which have a slot, and which must not.

use super::*;

#[rustfmt::skip]
const FILLED: &[(&str, &str, &str)] = &[
    ("Nadia's role is surgeon", "nadia|role", "surgeon"),
    ("Nadia's role is a surgeon.", "nadia|role", "surgeon"),
    ("Nadia’s role is now surgeon", "nadia|role", "surgeon"),
    ("the user's timezone is Europe/Vienna", "user|timezone", "europe/vienna"),
    ("The user's preferred language is Czech", "user|preferred_language", "czech"),
    ("Atlas's status is currently blocked", "atlas|status", "blocked"),
    ("Nadia's work address is 12 Mill Lane", "nadia|work_address", "12 mill lane"),
    ("Nadia's new address is 14 Mill Lane", "nadia|address", "14 mill lane"),
    ("Nadia's employer changed from Acme to Globex", "nadia|employer", "globex"),
    ("Nadia's employer has changed to Globex", "nadia|employer", "globex"),
    ("The owner of the billing service is Otto", "billing_service|owner", "otto"),
    ("The deadline for Atlas is on 2026-04-01", "atlas|deadline", "2026-04-01"),
    ("The budget of project Atlas is 5000 EUR", "project_atlas|budget", "5000 eur"),
    ("The version of the parser is 2.1", "parser|version", "2.1"),
    ("The status of Atlas changed from open to closed", "atlas|status", "closed"),
    ("Atlas changed its cadence from weekly to monthly", "atlas|cadence", "monthly"),
    ("Atlas has moved its deadline to Friday", "atlas|deadline", "friday"),
    ("The team switched their channel to #ops", "team|channel", "#ops"),
    ("The staging cluster is now offline", "staging_cluster|status", "offline"),
    ("Atlas is currently on hold", "atlas|status", "hold"),
    ("Nadia prefers tea for breakfast", "nadia|prefers_for_breakfast", "tea"),
    ("The reports' format is PDF", "reports|format", "pdf"),
];

#[rustfmt::skip]
const EMPTY: &[(&str, &str)] = &[
    ("several at once", "Nadia likes tea"),
    ("several at once", "Nadia's hobby is chess"),
    ("several at once", "Nadia's friend is Otto"),
    ("past", "Nadia's role was surgeon"),
    ("future", "Nadia's role will be surgeon"),
    ("negated", "Nadia's role is not surgeon"),
    ("negated", "Nadia's role isn't surgeon"),
    ("hedged", "Nadia's role is probably surgeon"),
    ("additive", "Nadia's role is also teacher"),
    ("two values", "Nadia's role is surgeon and teacher"),
    ("two statements", "Nadia's role is surgeon. She likes tea"),
    ("two statements", "Nadia's role is surgeon, she likes tea"),
    ("conditional", "Nadia's role is surgeon if Otto agrees"),
    ("circumstance", "Nadia's role is surgeon in Vienna"),
    ("circumstance", "The budget of Atlas is 5000 for March"),
    ("reported", "Otto says Nadia's role is surgeon"),
    ("question", "Is it true Nadia's role is surgeon?"),
    ("whose?", "My timezone is Europe/Vienna"),
    ("whose?", "her brother's name is Otto"),
    ("whose?", "A customer's status is blocked"),
    ("of one of several", "Nadia's brother's name is Otto"),
    ("another time", "Nadia's previous address is 12 Mill Lane"),
    ("another time", "Nadia's second address is 12 Mill Lane"),
    ("no value", "Nadia's address is unknown"),
    ("no value", "Nadia's address is"),
    ("not a status", "Nadia is now happy about it"),
    ("not a status", "Nadia is now taller"),
    ("no time", "The cluster is offline"),
    ("not an attribute", "The house of Otto is red"),
    ("not an attribute", "Nadia changed her mind to please Otto"),
    ("prefers without a context", "Nadia prefers tea"),
    ("empty", ""),
];

#[test]
fn attribute_sentences_parse_to_slot_and_value() {
    for (text, key, value) in FILLED {
        let expected = SlotFact {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        assert_eq!(parse_slot(text), Some(expected), "{text}");
    }
}

#[test]
fn ambiguous_sentences_have_no_slot() {
    for (reason, text) in EMPTY {
        assert_eq!(parse_slot(text), None, "{reason}: {text}");
    }
}

#[test]
fn slot_digests_separate_slot_value_and_tags() {
    let item = |text: &str, tags: &[&str]| MergeItem {
        tags: tags.iter().map(|&t| t.to_owned()).collect(),
        ..MergeItem::plain(text)
    };
    let surgeon = "Nadia's role is surgeon";
    let teacher = "Nadia's role is teacher";
    let bare = slot_digests(&item(surgeon, &[]));
    assert_eq!(
        bare,
        slot_digests(&item("Nadia's role is now a surgeon.", &["source:chat"]))
    );
    let other = slot_digests(&item(teacher, &[]));
    assert!(other.0 == bare.0 && other.1 >> 32 != bare.1 >> 32 && other.1 as u32 == bare.1 as u32);
    let tagged = slot_digests(&item(surgeon, &["hr"]));
    assert!(
        tagged.0 == bare.0 && tagged.1 >> 32 == bare.1 >> 32 && tagged.1 as u32 != bare.1 as u32
    );
    assert_eq!(
        slot_digests(&item(surgeon, &["b", "a"])),
        slot_digests(&item(surgeon, &["a", "b"]))
    );
    assert_eq!(slot_digests(&item("Nadia likes tea", &[])), (0, 0));
}
