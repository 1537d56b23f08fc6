//! when: recognises the time range that a query names: "since June", "between March and May 2025",
//! "two days before 3 June". Shares its calendar with `infer`; `point` reads the single times. A
//! missed range is better than a wrong one. The words stay part of the query, because dates are
//! often written in texts. It does not filter entries.

use super::point::{InstantRange, QueryTimeReader};
use crate::ids::Timestamp;
use crate::infer::calendar::{
    CalendarUnit, ENGLISH, Gap, Sentence, TimeContext, add_units, first_instant_at, read_amount,
    sentences,
};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::ops::Range;

/// The start of a range without a beginning: the year 1.
pub const BEGINNING_OF_TIME: Timestamp = Timestamp(-62_135_596_800_000);

/// The time range that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTime {
    /// The beginning of the range, inclusive.
    pub from: Timestamp,
    /// The end of the range, exclusive.
    pub until: Timestamp,
    /// The bytes of the query that name the range, on character boundaries.
    pub query_bytes: Range<usize>,
}

impl QueryTime {
    /// The range in the form that [`super::RankRequest`] takes.
    #[must_use]
    pub fn range(&self) -> Range<Timestamp> {
        self.from..self.until
    }
}

/// A preposition before a time, which says on which side of it the range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimePreposition {
    In,
    On,
    Since,
    Before,
    Until,
    After,
    Between,
}

const TIME_PREPOSITIONS: &[(&str, TimePreposition)] = &[
    ("in", TimePreposition::In),
    ("in early", TimePreposition::In),
    ("in late", TimePreposition::In),
    ("in the", TimePreposition::In),
    ("during", TimePreposition::In),
    ("during the", TimePreposition::In),
    ("on", TimePreposition::On),
    ("on the", TimePreposition::On),
    ("since", TimePreposition::Since),
    ("before", TimePreposition::Before),
    ("prior to", TimePreposition::Before),
    ("until", TimePreposition::Until),
    ("till", TimePreposition::Until),
    ("up to", TimePreposition::Until),
    ("after", TimePreposition::After),
];
/// Words that open a range, with those between its ends.
const RANGE_WORDS: &[(&str, &[&str])] = &[
    ("between", &["and"]),
    ("from", &["to", "until", "till", "through"]),
];
/// Phrases for a distance of one day.
const ONE_DAY_PHRASES: &[&str] = &["the day", "day"];
/// Words between a distance and the time from which it counts back.
const BACKWARD_WORDS: &[&str] = &["before", "prior to"];
/// Words between a distance and the time from which it counts forward.
const FORWARD_WORDS: &[&str] = &["after"];
const POSSESSIVE: &str = "'s";

/// The first time range that a query names, in UTC.
#[must_use]
pub fn read_query_time_utc(query: &str, now: Timestamp) -> Option<QueryTime> {
    read_query_time(query, now, &TimeZone::UTC)
}

/// The first time range that a query names, in a zone. Quoted words are skipped.
#[must_use]
pub fn read_query_time(query: &str, now: Timestamp, zone: &TimeZone) -> Option<QueryTime> {
    let now = jiff::Timestamp::from_millisecond(now.0)
        .ok()?
        .to_zoned(zone.clone());
    sentences(query, &ENGLISH).into_iter().find_map(|sentence| {
        let sentence = without_possessives(sentence);
        let reader = QueryTimeReader {
            sentence: &sentence,
            context: TimeContext {
                language: &ENGLISH,
                now: &now,
            },
        };
        let plain = |at: &usize| {
            sentence
                .words
                .get(*at)
                .is_some_and(|word| !word.is_quoted && !word.is_marker)
        };
        (0..sentence.words.len()).filter(plain).find_map(|at| {
            let point = reader
                .time_expression(at)
                .filter(|point| point.from < point.until)?;
            Some(QueryTime {
                from: point.from,
                until: point.until,
                query_bytes: sentence.byte_range(&(at..at + point.len)),
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

impl QueryTimeReader<'_> {
    /// The time expression at a word, in order of precedence.
    fn time_expression(&self, at: usize) -> Option<InstantRange> {
        let today = self.context.now.date();
        self.range_between(at)
            .or_else(|| self.shifted_day(at))
            .or_else(|| self.after_preposition(at))
            .or_else(|| self.range_at(at, None, today))
    }

    /// "since June": a time after the longest preposition.
    fn after_preposition(&self, at: usize) -> Option<InstantRange> {
        let leads = TIME_PREPOSITIONS
            .iter()
            .filter_map(|(phrase, lead)| Some((self.sentence.phrase_len_at(at, phrase)?, *lead)));
        let (len, lead) = leads.max_by_key(|(len, _)| *len)?;
        let short = (len > 1).then_some(1);
        [Some(len), short].into_iter().flatten().find_map(|len| {
            let point = self
                .range_at(at + len, Some(lead), self.context.now.date())
                .filter(|_| self.sentence.gap(at + len) == Gap::Space)?;
            let (from, until) = match lead {
                TimePreposition::In | TimePreposition::On | TimePreposition::Between => {
                    (point.from, point.until)
                }
                TimePreposition::Since => (point.from, self.now().plus_ms(1)),
                TimePreposition::Before => (BEGINNING_OF_TIME, point.from),
                TimePreposition::Until => (BEGINNING_OF_TIME, point.until),
                TimePreposition::After => (point.until, Timestamp::LAST),
            };
            Some(InstantRange {
                len: len + point.len,
                from,
                until,
            })
        })
    }

    /// "between March and May 2025": the year of the second time determines that of the first.
    fn range_between(&self, at: usize) -> Option<InstantRange> {
        let today = self.context.now.date();
        let (_, joints) = RANGE_WORDS
            .iter()
            .find(|(opener, _)| self.sentence.phrase_len_at(at, opener).is_some())?;
        let first = self
            .range_at(at + 1, Some(TimePreposition::Between), today)
            .filter(|_| self.sentence.gap(at + 1) == Gap::Space)?;
        let joint = at + 1 + first.len;
        let second_at = joint + self.sentence.longest_phrase_at(joint, joints)?;
        let second = self
            .range_at(second_at, Some(TimePreposition::Between), today)
            .filter(|_| self.sentence.gap(second_at) == Gap::Space)?;
        let first = self.range_at(
            at + 1,
            Some(TimePreposition::Between),
            self.local_date(second.from)?,
        )?;
        let len = second_at + second.len - at;
        Some(InstantRange {
            len,
            from: first.from.min(second.from),
            until: first.until.max(second.until),
        })
    }

    /// "two days before 3 June", "the day after June 3": the single day at that distance.
    fn shifted_day(&self, at: usize) -> Option<InstantRange> {
        let one = || {
            Some((
                self.sentence.longest_phrase_at(at, ONE_DAY_PHRASES)?,
                1,
                CalendarUnit::Day,
            ))
        };
        let (len, count, unit) =
            read_amount(self.sentence, at, self.context.language).or_else(one)?;
        let back = self.sentence.longest_phrase_at(at + len, BACKWARD_WORDS);
        let more = back.or_else(|| self.sentence.longest_phrase_at(at + len, FORWARD_WORDS))?;
        let start = at + len + more;
        let point = self.range_at(
            start,
            Some(TimePreposition::Before),
            self.context.now.date(),
        )?;
        let count = if back.is_some() { -count } else { count };
        let date = add_units(self.local_date(point.from)?, count, unit)?;
        let midnight =
            |date: Date| first_instant_at(self.context.now.time_zone(), date.at(0, 0, 0, 0));
        Some(InstantRange {
            len: len + more + point.len,
            from: midnight(date)?,
            until: midnight(date.tomorrow().ok()?)?,
        })
    }

    /// The local date of an instant.
    fn local_date(&self, at: Timestamp) -> Option<Date> {
        jiff::Timestamp::from_millisecond(at.0)
            .ok()
            .map(|at| at.to_zoned(self.context.now.time_zone().clone()).date())
    }
}

#[cfg(test)]
#[path = "when_tests.rs"]
mod tests;
