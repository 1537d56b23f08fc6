//! when: the time that a query speaks of, as a range: "since June", "between March and May 2025",
//! "two days before 3 June". Shares its calendar with `infer`; `point` reads the single names.
//! Rather none than a wrong one. The words stay words of the query, because dates are often written
//! in texts. May not filter anything.

use super::point::{Point, Reader};
use crate::ids::Timestamp;
use crate::infer::calendar::{
    Context, ENGLISH, Gap, Sentence, Unit, amount, instant, moved, sentences,
};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::ops::Range;

/// The beginning of what has none: the year 1.
pub const FIRST: Timestamp = Timestamp(-62_135_596_800_000);

/// The time that a query speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// From this instant on.
    pub from: Timestamp,
    /// Up to this instant, without it.
    pub until: Timestamp,
    /// The bytes of the query that say so, on character boundaries.
    pub said: Range<usize>,
}

impl When {
    /// The range, as [`super::RankRequest`] takes it.
    #[must_use]
    pub fn range(&self) -> Range<Timestamp> {
        self.from..self.until
    }
}

/// What stands before a time and says which side of it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    In,
    On,
    Since,
    Before,
    Until,
    After,
    Between,
}

const LEADS: &[(&str, Lead)] = &[
    ("in", Lead::In),
    ("in early", Lead::In),
    ("in late", Lead::In),
    ("in the", Lead::In),
    ("during", Lead::In),
    ("during the", Lead::In),
    ("on", Lead::On),
    ("on the", Lead::On),
    ("since", Lead::Since),
    ("before", Lead::Before),
    ("prior to", Lead::Before),
    ("until", Lead::Until),
    ("till", Lead::Until),
    ("up to", Lead::Until),
    ("after", Lead::After),
];
/// What opens a range, and what stands between its ends.
const PAIRS: &[(&str, &[&str])] = &[
    ("between", &["and"]),
    ("from", &["to", "until", "till", "through"]),
];
const ONE_DAY: &[&str] = &["the day", "day"];
const BACK: &[&str] = &["before", "prior to"];
const AHEAD: &[&str] = &["after"];
const POSSESSIVE: &str = "'s";

/// The same by the clocks of UTC.
#[must_use]
pub fn read_utc(query: &str, now: Timestamp) -> Option<When> {
    read(query, now, &TimeZone::UTC)
}

/// The first time that a query speaks of, by the clocks of a zone. What is quoted says nothing.
#[must_use]
pub fn read(query: &str, now: Timestamp, zone: &TimeZone) -> Option<When> {
    let now = jiff::Timestamp::from_millisecond(now.0)
        .ok()?
        .to_zoned(zone.clone());
    sentences(query, &ENGLISH).into_iter().find_map(|sentence| {
        let sentence = without_possessives(sentence);
        let reader = Reader {
            sentence: &sentence,
            context: Context {
                language: &ENGLISH,
                now: &now,
            },
        };
        let plain = |at: &usize| {
            sentence
                .words
                .get(*at)
                .is_some_and(|word| !word.quoted && !word.marker)
        };
        (0..sentence.words.len()).filter(plain).find_map(|at| {
            let point = reader
                .expression(at)
                .filter(|point| point.from < point.until)?;
            Some(When {
                from: point.from,
                until: point.until,
                said: sentence.bytes(&(at..at + point.len)),
            })
        })
    })
}

/// "yesterday's" names a day as "yesterday" does.
fn without_possessives(mut sentence: Sentence) -> Sentence {
    for word in &mut sentence.words {
        if let Some(owner) = word.text.strip_suffix(POSSESSIVE) {
            word.text = owner.to_owned();
        }
    }
    sentence
}

impl Reader<'_> {
    fn expression(&self, at: usize) -> Option<Point> {
        let today = self.context.now.date();
        self.pair(at)
            .or_else(|| self.shifted(at))
            .or_else(|| self.led(at))
            .or_else(|| self.point(at, None, today))
    }

    /// "since June": the longest preposition that leads to a time.
    fn led(&self, at: usize) -> Option<Point> {
        let leads = LEADS
            .iter()
            .filter_map(|(phrase, lead)| Some((self.sentence.phrase(at, phrase)?, *lead)));
        let (len, lead) = leads.max_by_key(|(len, _)| *len)?;
        let short = (len > 1).then_some(1);
        [Some(len), short].into_iter().flatten().find_map(|len| {
            let point = self
                .point(at + len, Some(lead), self.context.now.date())
                .filter(|_| self.sentence.gap(at + len) == Gap::Space)?;
            let (from, until) = match lead {
                Lead::In | Lead::On | Lead::Between => (point.from, point.until),
                Lead::Since => (point.from, self.now().plus_ms(1)),
                Lead::Before => (FIRST, point.from),
                Lead::Until => (FIRST, point.until),
                Lead::After => (point.until, Timestamp::LAST),
            };
            Some(Point {
                len: len + point.len,
                from,
                until,
            })
        })
    }

    /// "between March and May 2025": the second tells which year the first is of.
    fn pair(&self, at: usize) -> Option<Point> {
        let today = self.context.now.date();
        let (_, joints) = PAIRS
            .iter()
            .find(|(opener, _)| self.sentence.phrase(at, opener).is_some())?;
        let first = self
            .point(at + 1, Some(Lead::Between), today)
            .filter(|_| self.sentence.gap(at + 1) == Gap::Space)?;
        let joint = at + 1 + first.len;
        let second_at = joint + self.sentence.any(joint, joints)?;
        let second = self
            .point(second_at, Some(Lead::Between), today)
            .filter(|_| self.sentence.gap(second_at) == Gap::Space)?;
        let first = self.point(at + 1, Some(Lead::Between), self.date(second.from)?)?;
        let len = second_at + second.len - at;
        Some(Point {
            len,
            from: first.from.min(second.from),
            until: first.until.max(second.until),
        })
    }

    /// "two days before 3 June", "the day after June 3": a day of its own.
    fn shifted(&self, at: usize) -> Option<Point> {
        let one = || Some((self.sentence.any(at, ONE_DAY)?, 1, Unit::Day));
        let (len, count, unit) = amount(self.sentence, at, self.context.language).or_else(one)?;
        let back = self.sentence.any(at + len, BACK);
        let more = back.or_else(|| self.sentence.any(at + len, AHEAD))?;
        let start = at + len + more;
        let point = self.point(start, Some(Lead::Before), self.context.now.date())?;
        let count = if back.is_some() { -count } else { count };
        let date = moved(self.date(point.from)?, count, unit)?;
        let midnight = |date: Date| instant(self.context.now.time_zone(), date.at(0, 0, 0, 0));
        Some(Point {
            len: len + more + point.len,
            from: midnight(date)?,
            until: midnight(date.tomorrow().ok()?)?,
        })
    }

    fn date(&self, at: Timestamp) -> Option<Date> {
        jiff::Timestamp::from_millisecond(at.0)
            .ok()
            .map(|at| at.to_zoned(self.context.now.time_zone().clone()).date())
    }
}

#[cfg(test)]
#[path = "when_tests.rs"]
mod tests;
