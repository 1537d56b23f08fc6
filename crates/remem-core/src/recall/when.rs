//! when: recognises the time range that a query names: "since June", "between March and May 2025",
//! "two days before 3 June". Shares its calendar with `infer`; `point` reads the single times. A
//! missed range is better than a wrong one. The words stay part of the query, because dates are
//! often written in texts. It does not filter entries.

use super::point::{Point, Reader};
use crate::ids::Timestamp;
use crate::infer::calendar::{
    Context, ENGLISH, Gap, Sentence, Unit, amount, instant, moved, sentences,
};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::ops::Range;

/// The start of a range without a beginning: the year 1.
pub const FIRST: Timestamp = Timestamp(-62_135_596_800_000);

/// The time range that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The beginning of the range, inclusive.
    pub from: Timestamp,
    /// The end of the range, exclusive.
    pub until: Timestamp,
    /// The bytes of the query that name the range, on character boundaries.
    pub said: Range<usize>,
}

impl When {
    /// The range in the form that [`super::RankRequest`] takes.
    #[must_use]
    pub fn range(&self) -> Range<Timestamp> {
        self.from..self.until
    }
}

/// A preposition before a time, which says on which side of it the range is.
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
/// Words that open a range, with those between its ends.
const PAIRS: &[(&str, &[&str])] = &[
    ("between", &["and"]),
    ("from", &["to", "until", "till", "through"]),
];
/// Phrases for a distance of one day.
const ONE_DAY: &[&str] = &["the day", "day"];
/// Words between a distance and the time from which it counts back.
const BACK: &[&str] = &["before", "prior to"];
/// Words between a distance and the time from which it counts forward.
const AHEAD: &[&str] = &["after"];
const POSSESSIVE: &str = "'s";

/// The first time range that a query names, in UTC.
#[must_use]
pub fn read_utc(query: &str, now: Timestamp) -> Option<When> {
    read(query, now, &TimeZone::UTC)
}

/// The first time range that a query names, in a zone. Quoted words are skipped.
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

/// Removes possessive endings: "yesterday's" names a day as "yesterday" does.
fn without_possessives(mut sentence: Sentence) -> Sentence {
    for word in &mut sentence.words {
        if let Some(owner) = word.text.strip_suffix(POSSESSIVE) {
            word.text = owner.to_owned();
        }
    }
    sentence
}

impl Reader<'_> {
    /// The time expression at a word, in order of precedence.
    fn expression(&self, at: usize) -> Option<Point> {
        let today = self.context.now.date();
        self.pair(at)
            .or_else(|| self.shifted(at))
            .or_else(|| self.led(at))
            .or_else(|| self.point(at, None, today))
    }

    /// "since June": a time after the longest preposition.
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

    /// "between March and May 2025": the year of the second time determines that of the first.
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

    /// "two days before 3 June", "the day after June 3": the single day at that distance.
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

    /// The local date of an instant.
    fn date(&self, at: Timestamp) -> Option<Date> {
        jiff::Timestamp::from_millisecond(at.0)
            .ok()
            .map(|at| at.to_zoned(self.context.now.time_zone().clone()).date())
    }
}

#[cfg(test)]
#[path = "when_tests.rs"]
mod tests;
