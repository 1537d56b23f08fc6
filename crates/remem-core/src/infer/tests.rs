//! Single rules of the reader; sentences and their promises are in the golden file.

use super::*;

const DAY_MS: i64 = 86_400_000;

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn read(text: &str) -> Vec<Promise> {
    let zone = jiff::tz::TimeZone::UTC;
    infer_promises(&InferInput {
        text,
        at: at("2026-06-03T10:00Z"),
        zone: &zone,
        is_trusted: true,
        horizon_ms: 400 * DAY_MS,
    })
}

#[test]
fn a_promise_reports_the_spans_of_its_sentence_cue_and_condition() {
    let text = "Großartig! Remind me on Friday at 5pm to call José. Thanks.";
    let [promise] = &read(text)[..] else {
        panic!("one promise")
    };
    assert_eq!(
        &text[promise.sentence.clone()],
        "Remind me on Friday at 5pm to call José."
    );
    assert_eq!(&text[promise.cue.clone()], "Remind me");
    assert_eq!(&text[promise.condition_words.clone()], "Friday at 5pm");
    assert_eq!(promise.action, "call josé");
    assert_eq!(
        promise.condition,
        Condition::Once {
            at: at("2026-06-05T17:00Z")
        }
    );
    assert_eq!(
        (promise.confidence, promise.verdict),
        (90, PromiseVerdict::Arm)
    );
}

#[test]
fn differently_worded_requests_have_the_same_action() {
    let action = |text: &str| read(text).remove(0).action;
    assert_eq!(
        action("Remind me on Friday to call the bank."),
        action("Please remind me next Friday to call the bank!")
    );
    assert_eq!(action("Let me know when the invoice clears."), "");
    assert_eq!(action("Send the report by Friday."), "send report");
}

#[test]
fn each_sentence_yields_at_most_one_promise() {
    let text = "Remind me tomorrow to call Ann. The sky is blue.\n- send the report by Friday\n- Renew the lease on June 30\nDon't remind me on Monday.";
    let found: Vec<&str> = read(text)
        .iter()
        .map(|promise| &text[promise.sentence.clone()])
        .collect();
    assert_eq!(
        found,
        [
            "Remind me tomorrow to call Ann.",
            "- send the report by Friday",
            "- Renew the lease on June 30"
        ]
    );
    assert_eq!(
        read("I'll send it tomorrow and I'll call Bob on Friday and remind me on Monday.").len(),
        1
    );
}

#[test]
fn the_horizon_is_inclusive() {
    let zone = jiff::tz::TimeZone::UTC;
    let verdict = |horizon_ms| {
        let reading = InferInput {
            text: "Remind me tomorrow.",
            at: at("2026-06-03T09:00Z"),
            zone: &zone,
            is_trusted: true,
            horizon_ms,
        };
        infer_promises(&reading).remove(0).verdict
    };
    assert_eq!(verdict(DAY_MS), PromiseVerdict::Arm);
    assert_eq!(
        verdict(DAY_MS - 1),
        PromiseVerdict::Refused(HORIZON_EXCEEDED)
    );
}

#[test]
fn confidence_depends_on_cue_and_condition() {
    for (text, confidence) in [
        ("Remind me tomorrow.", 100),
        ("Remind me on Friday.", 90),
        ("Send the report by Friday.", 80),
        ("I'll send the report by Friday.", 70),
        ("Maybe I'll send the report by Friday.", 50),
        ("I need to send the report by Friday.", 60),
        ("I need to send the report by June 30.", 70),
        ("Let me know when the invoice clears.", 90),
        ("Let me know if the invoice clears.", 70),
        ("I'll pay the deposit once the contract is signed.", 70),
    ] {
        assert_eq!(read(text)[0].confidence, confidence, "{text}");
    }
}

#[test]
fn an_assertion_yields_the_key_of_the_awaited_condition() {
    for (asked, stated) in [
        (
            "Let me know when the invoice clears.",
            "The invoice has cleared.",
        ),
        (
            "Let me know when the invoice clears.",
            "Good news: the invoice cleared this morning!",
        ),
        (
            "Tell me once the contract is signed.",
            "The contract was signed yesterday, and everybody is happy.",
        ),
        ("Ping me when Bob replies.", "Bob has finally replied."),
        (
            "Alert me when the nightly build fails.",
            "The nightly build failed.",
        ),
        ("Notify me when the tests pass.", "All tests pass now."),
        (
            "Tell me when the server is back online.",
            "The server is back online again.",
        ),
        (
            "Remind me after the report is filed to call Ann.",
            "The report has been filed but the fee isn't paid.",
        ),
        (
            "Tell me when the price hits 50.",
            "The price hit 50 on Friday.",
        ),
    ] {
        let Condition::Predicate { key } = read(asked).remove(0).condition else {
            panic!("{asked}")
        };
        assert!(
            assertions(stated).contains(&key),
            "{stated}: {:?} without {key}",
            assertions(stated)
        );
    }
}

#[test]
fn questions_negations_and_hedges_are_not_assertions() {
    for text in [
        "Has the invoice cleared?",
        "The invoice has not cleared.",
        "The invoice hasn't cleared.",
        "The invoice will clear.",
        "The invoice clears tomorrow.",
        "The invoice should have cleared.",
        "If the invoice has cleared, we are fine.",
        "Let me know when the invoice clears.",
        "He said the invoice has cleared.",
        "\"The invoice has cleared.\"",
        "The invoice is about to clear.",
        "The invoice has yet to clear.",
        "The invoice failed to clear.",
        "Maybe the invoice has cleared.",
        "I hope the invoice has cleared.",
        "The invoice almost cleared.",
        "No invoice cleared.",
        "Only half of the invoice cleared.",
        "The invoice clears every Friday.",
        "It cleared.",
        "Once the invoice has cleared we go on.",
        "hard work",
        "> The invoice has cleared.",
    ] {
        assert_eq!(assertions(text), [""; 0], "{text}");
    }
}

#[test]
fn every_cue_passes_the_prefilter() {
    let cues = &ENGLISH.cues;
    let heads = ENGLISH.first_words.as_ref().unwrap();
    let all = [
        cues.requests,
        cues.tasks,
        cues.noun_tasks,
        cues.passive,
        cues.labels,
        cues.promises,
        cues.pledges,
        cues.needs,
        cues.passive_needs,
    ];
    for phrase in all.iter().flat_map(|list| list.iter()) {
        assert!(
            heads.is_match(phrase)
                && heads.is_match(&format!(
                    "Well, {}.",
                    phrase.to_uppercase().replace('\'', "’")
                )),
            "{phrase}"
        );
    }
    assert!(!heads.is_match("The quick brown fox jumps over the lazy dog."));
}

#[test]
fn verb_tables_are_lower_case_and_in_base_form() {
    let states = &ENGLISH.states;
    for verb in states.verbs {
        assert_eq!((states.base_form)(verb, true), *verb);
    }
    for (form, base) in states.irregular {
        assert!(
            form.to_lowercase() == *form
                && (*base == "done" || (states.base_form)(base, false) == *base),
            "{form}"
        );
    }
}
