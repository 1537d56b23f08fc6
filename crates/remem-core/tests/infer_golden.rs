//! Goal: what the rules find in sentences that people write, and what they leave alone. Method: a file of sentences with what a
//! person would expect, half of them traps; every row has to hold, and precision and recall are printed. Rows that are known
//! to be missed count against the figures. Then what must hold for every text.
#![allow(clippy::unwrap_used, reason = "a test may stop at a broken row")]

use jiff::tz::TimeZone;
use proptest::prelude::*;
use remem_core::infer::{Condition, Promise, Reading, Recurrence, Verdict, assertions, infer, observation_key};
use remem_core::{Timestamp, Timing};

const GOLDEN: &str = include_str!("data/commitments.tsv");
/// Five years.
const HORIZON_MS: i64 = 5 * 366 * 86_400_000;
const ROWS_MIN: usize = 320;

struct Row<'a> {
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

fn rows() -> Vec<Row<'static>> {
    let row = |line: &'static str| {
        let [expected, at, zone, trusted, known, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("malformed: {line}") };
        Row { expected, at: instant(at), zone: TimeZone::get(zone).unwrap(), trusted: trusted == "yes", known: known == "known", text }
    };
    GOLDEN.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

fn read(row: &Row<'_>) -> Vec<Promise> {
    infer(&Reading { text: row.text, at: row.at, zone: &row.zone, trusted: row.trusted, horizon_ms: HORIZON_MS })
}

/// A promise as the file writes it, with instants in UTC.
fn told(promise: Option<&Promise>) -> String {
    let Some(promise) = promise else { return "none".to_owned() };
    let verdict = match promise.verdict {
        Verdict::Arm => "arm",
        Verdict::Confirm => "confirm",
        Verdict::Refused(_) => "refused",
    };
    match &promise.condition {
        Condition::Once { at } => format!("{verdict} once {}", at.rfc3339()),
        Condition::Recurring { rule: Recurrence::Every(rule), first } => format!("{verdict} every {rule} from {}", first.rfc3339()),
        Condition::Recurring { rule: Recurrence::Cron(rule), first } => format!("{verdict} cron {rule} from {}", first.rfc3339()),
        Condition::Predicate { key } => format!("{verdict} when {key}"),
    }
}

/// What a row expects, with its instant in UTC.
fn expected(row: &Row<'_>) -> String {
    match row.expected.rsplit_once(' ') {
        Some((rest, last)) if last.parse::<jiff::Timestamp>().is_ok() => format!("{rest} {}", instant(last).rfc3339()),
        _ => row.expected.to_owned(),
    }
}

/// Right, found, and expected ones.
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
        println!("{what}: precision {:.3} ({}/{}), recall {:.3} ({}/{})", of(self.1), self.0, self.1, of(self.2), self.0, self.2);
    }
}

#[test]
fn the_golden_sentences_give_what_people_expect() {
    let (mut found, mut armed, mut exact) = (Tally::default(), Tally::default(), Tally::default());
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let promises = read(row);
        let (got, wanted) = (told(promises.first()), expected(row));
        let (is, should) = (got != "none", wanted != "none");
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
    println!("{} rows, {traps} traps, {} known misses", rows.len(), rows.iter().filter(|row| row.known).count());
    found.print("a promise is found");
    armed.print("armed");
    exact.print("exact condition");
    assert!(rows.len() >= ROWS_MIN && traps * 2 >= rows.len(), "the file has lost rows");
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
