//! Goal: the rules find commitments in sentences that people write, and nothing in others. Method:
//! a file of sentences with the results that a person would expect, half of them traps; every row
//! has to hold, and precision and recall are printed. Rows that are known to be missed count
//! against the figures. Further tests check properties that hold for every text.

use crate::test_cases::config;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use remem_core::infer::{
    Condition, InferInput, Promise, PromiseVerdict, Recurrence, assertions, infer_promises,
    observation_key,
};
use remem_core::{Timestamp, Timing};

const GOLDEN: &str = include_str!("../data/commitments.tsv");
/// The horizon of the tests: five years.
const HORIZON_MS: i64 = 5 * 366 * 86_400_000;
const ROWS_MIN: usize = 320;

struct GoldenRow<'a> {
    expected: &'a str,
    at: Timestamp,
    zone: TimeZone,
    trusted: bool,
    known: bool,
    text: &'a str,
}

fn instant(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn rows() -> Vec<GoldenRow<'static>> {
    let row = |line: &'static str| {
        let [expected, at, zone, trusted, known, text] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("malformed: {line}")
        };
        GoldenRow {
            expected,
            at: instant(at),
            zone: TimeZone::get(zone).unwrap(),
            trusted: trusted == "yes",
            known: known == "known",
            text,
        }
    };
    GOLDEN
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(row)
        .collect()
}

fn read(row: &GoldenRow<'_>) -> Vec<Promise> {
    infer_promises(&InferInput {
        text: row.text,
        at: row.at,
        zone: &row.zone,
        is_trusted: row.trusted,
        horizon_ms: HORIZON_MS,
    })
}

/// A promise in the notation of the file, with instants in UTC.
fn promise_text(promise: Option<&Promise>) -> String {
    let Some(promise) = promise else {
        return "none".to_owned();
    };
    let verdict = match promise.verdict {
        PromiseVerdict::Arm => "arm",
        PromiseVerdict::Confirm => "confirm",
        PromiseVerdict::Refused(_) => "refused",
    };
    match &promise.condition {
        Condition::Once { at } => format!("{verdict} once {}", at.rfc3339()),
        Condition::Recurring {
            rule: Recurrence::Every(rule),
            first,
        } => format!("{verdict} every {rule} from {}", first.rfc3339()),
        Condition::Recurring {
            rule: Recurrence::Cron(rule),
            first,
        } => format!("{verdict} cron {rule} from {}", first.rfc3339()),
        Condition::Predicate { key } => format!("{verdict} when {key}"),
    }
}

/// The expected promise of a row, with its instant in UTC.
fn expected(row: &GoldenRow<'_>) -> String {
    match row.expected.rsplit_once(' ') {
        Some((rest, last)) if last.parse::<jiff::Timestamp>().is_ok() => {
            format!("{rest} {}", instant(last).rfc3339())
        }
        _ => row.expected.to_owned(),
    }
}

/// The numbers of correct, found and expected promises.
#[derive(Default)]
struct Tally(u32, u32, u32);

impl Tally {
    fn count(&mut self, right: bool, found: bool, expected: bool) {
        self.0 += u32::from(right && found && expected);
        self.1 += u32::from(found);
        self.2 += u32::from(expected);
    }

    fn print(&self, what: &str) {
        let of = |all: u32| f64::from(self.0) / f64::from(all.max(1));
        println!(
            "{what}: precision {:.3} ({}/{}), recall {:.3} ({}/{})",
            of(self.1),
            self.0,
            self.1,
            of(self.2),
            self.0,
            self.2
        );
    }
}

#[test]
fn golden_sentences_yield_the_expected_promises() {
    let mut found = Tally::default();
    let mut armed = Tally::default();
    let mut exact = Tally::default();
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let promises = read(row);
        let got = promise_text(promises.first());
        let wanted = expected(row);
        let is = got != "none";
        let should = wanted != "none";
        found.count(true, is, should);
        armed.count(true, got.starts_with("arm"), wanted.starts_with("arm"));
        exact.count(got == wanted, is, should);
        if promises.len() > 1 || (got != wanted) != row.known {
            wrong.push(format!(
                "{}\n    got      {got}\n    expected {wanted}{}",
                row.text,
                if row.known { " (known as a miss)" } else { "" }
            ));
        }
    }
    let traps = rows.iter().filter(|row| row.expected == "none").count();
    println!(
        "{} rows, {traps} traps, {} known misses",
        rows.len(),
        rows.iter().filter(|row| row.known).count()
    );
    found.print("a promise is found");
    armed.print("armed");
    exact.print("exact condition");
    assert!(
        rows.len() >= ROWS_MIN && traps * 2 >= rows.len(),
        "the file has lost rows"
    );
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "remind me|let me know|I'll send|follow up|don't|please|could you|I need to|promised to|Reminder:|TODO:|send",
        4 => "tomorrow|on Friday|next Monday|every|other|day|daily|in|3|weeks|at|5pm|17:30|June|30|the 15th|end of month|2027-01-15|noon|starting",
        3 => "when|once|until|if|the invoice|clears|is|paid|Bob|replies|has|you|ever|not",
        2 => "[a-z]{1,8}|[0-9]{1,4}|东京|ß|é|’|\u{0}|\u{202e}",
        2 => "[.!?,;:\"“”`>()\\[\\]-]|\n|\\[REDACTED:x\\]",
    ];
    prop::collection::vec(word, 0..30).prop_map(|words| words.join(" "))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => words(), 1 => any::<String>(), 1 => (any::<String>(), words()).prop_map(|(a, b)| a + &b)]
}

fn zone() -> impl Strategy<Value = TimeZone> {
    let names = vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "Pacific/Apia",
    ];
    prop::sample::select(names).prop_map(|name| TimeZone::get(name).unwrap())
}

/// The promises of a text, each checked for the properties that hold for all promises.
fn checked(text: &str, at: i64, zone: &TimeZone, trusted: bool) -> Vec<Promise> {
    let reading = InferInput {
        text,
        at: Timestamp(at),
        zone,
        is_trusted: trusted,
        horizon_ms: HORIZON_MS,
    };
    let found = infer_promises(&reading);
    for promise in &found {
        for range in [&promise.sentence, &promise.cue, &promise.condition_words] {
            assert!(
                text.get(range.clone())
                    .is_some_and(|words| !words.is_empty()),
                "{range:?}"
            );
        }
        let within = |range: &std::ops::Range<usize>| {
            promise.sentence.start <= range.start && range.end <= promise.sentence.end
        };
        assert!(
            within(&promise.cue) && within(&promise.condition_words) && promise.confidence <= 100
        );
        assert!(trusted || promise.verdict != PromiseVerdict::Arm);
        match &promise.condition {
            Condition::Once { at } => assert!(*at > reading.at),
            Condition::Recurring { rule, first } => {
                let (every, cron) = match rule {
                    Recurrence::Every(text) => (Some(text.as_str()), None),
                    Recurrence::Cron(text) => (None, Some(text.as_str())),
                };
                let timing = Timing::parse(every, cron, zone.iana_name().unwrap()).unwrap();
                assert!(
                    *first > reading.at
                        && timing
                            .next(*first, *first)
                            .is_some_and(|next| next > *first)
                );
            }
            Condition::Predicate { key } => assert_eq!(observation_key(key).as_ref(), Some(key)),
        }
    }
    found
}

proptest! {
    #![proptest_config(config(192, 768))]

    #[test]
    fn promises_are_well_formed_and_deterministic(text in text(), at in -1_000_000_000_000i64..9_000_000_000_000, zone in zone(), trusted: bool) {
        let found = checked(&text, at, &zone, trusted);
        prop_assert_eq!(&found, &checked(&text, at, &zone, trusted));
        let _ = assertions(&text);
        if let Some(key) = observation_key(&text) {
            prop_assert!(!key.is_empty() && key.chars().count() <= 200);
        }
    }

    #[test]
    fn preceding_text_only_shifts_the_spans(text in text(), zone in zone()) {
        let at = 1_780_000_000_000;
        let before = "The sky was blue and the tea was cold.\n\n";
        let shift = |range: &std::ops::Range<usize>| range.start + before.len()..range.end + before.len();
        let mut alone = checked(&text, at, &zone, true);
        for promise in &mut alone {
            promise.sentence = shift(&promise.sentence);
            promise.cue = shift(&promise.cue);
            promise.condition_words = shift(&promise.condition_words);
        }
        prop_assert_eq!(alone, checked(&format!("{before}{text}"), at, &zone, true));
    }
}

#[test]
fn huge_texts_and_extreme_timestamps_are_handled() {
    let mut seed = 7u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    let random: String = (0..100_000)
        .filter_map(|_| char::from_u32(next() % 0x3000))
        .collect();
    let repeated = [
        "remind me ",
        "remind me tomorrow. ",
        "when the ",
        "\"",
        "[REDACTED:",
        "p.m. ",
        "every ",
        "1:",
        "'",
        "a.",
        "\n",
        "if x is ",
    ];
    let huge = repeated
        .iter()
        .map(|part| part.repeat(100_000 / part.len()));
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    for text in huge.chain([random]) {
        checked(&text, 1_780_000_000_000, &zone, true);
        let _ = (assertions(&text), observation_key(&text));
    }
    for at in [
        i64::MIN,
        i64::MAX,
        0,
        253_402_207_199_999,
        -377_705_023_201_000,
    ] {
        checked(
            "Remind me tomorrow. Remind me every year. Remind me in 9999 months.",
            at,
            &zone,
            true,
        );
    }
}
