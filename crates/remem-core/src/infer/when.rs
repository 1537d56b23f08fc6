//! when: finds the words of a sentence that state a time, and their meaning on their own: a day, a
//! time of day, a distance, a recurrence. It does not decide which of them a promise means;
//! `moment` combines them.

use super::clock;
use super::days;
use super::language::{Language, Unit};
use super::repeat;
use super::sentence::{Gap, Sentence};
use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use std::ops::Range;

/// The hour of a day that is stated without a time.
pub(super) const MORNING: i8 = 9;
/// The hour of the end of a day or period.
pub(super) const END: i8 = 17;

/// The language and reference instant by which times are read.
pub(crate) struct Context<'a> {
    pub language: &'static Language,
    /// The reference instant, in the speaker's zone.
    pub now: &'a Zoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    On(Date),
    /// The next occurrence of a day of the year.
    Yearly {
        month: i8,
        day: i8,
    },
    /// The next occurrence of a day of the month.
    Monthly(i8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    Own,
    Utc,
    /// A zone named by an abbreviation that several zones share.
    Unknown,
}

/// The pattern of a recurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Daily,
    /// Days of the week, counted from Monday as 0.
    Weekdays(Vec<i8>),
    MonthDay(i8),
    Interval(i64, Unit),
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// The meaning of words that state a time.
pub(crate) enum Hit {
    /// A day, its usual hour, and how certain it is.
    Day {
        day: Day,
        hour: i8,
        weight: i32,
    },
    /// A time of day; `sure` if twelve hours later is ruled out.
    Clock {
        hour: i8,
        minute: i8,
        sure: bool,
        zone: Zone,
    },
    /// A part of the day; `today` if it is one of today unless another day is stated.
    Part {
        hour: i8,
        today: bool,
    },
    /// A day and a time in one.
    Local(DateTime),
    /// An instant, in milliseconds since the epoch.
    Exact(i64),
    Every {
        repeat: Repeat,
        hour: Option<i8>,
    },
    /// A time that cannot be computed: no time near it may be taken instead.
    Unreadable,
}

#[derive(Clone, Debug)]
/// A stated time and its words.
pub(super) struct Found {
    pub words: Range<usize>,
    pub hit: Hit,
}

/// The weight of an unambiguous time.
pub(super) const SURE: i32 = 30;
/// The weight of a time that may be misread.
pub(super) const CLEAR: i32 = 20;

/// Finds all times of a sentence, in order.
pub(super) fn scan(sentence: &Sentence, context: &Context<'_>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        match read(sentence, at, context, found.last()) {
            Some((len, hit)) => {
                let len = len.max(1);
                if let Some(hit) = hit {
                    found.push(Found {
                        words: at..at + len,
                        hit,
                    });
                }
                at += len;
            }
            None => at += 1,
        }
    }
    found
}

/// The result of reading at a word: the number of words consumed, and the time, or `None` if the
/// words look like a time and are none.
pub(crate) type Read = Option<(usize, Option<Hit>)>;

/// Reads the time that begins at a word, with the readers in order of precedence.
fn read(sentence: &Sentence, at: usize, context: &Context<'_>, last: Option<&Found>) -> Read {
    if sentence.words[at].quoted || sentence.words[at].marker {
        return None;
    }
    let adjacent = last.is_some_and(|last| {
        last.words.end == at
            && sentence.gap(at) != Gap::Break
            && !matches!(last.hit, Hit::Unreadable)
    });
    repeat::read(sentence, at, context.language)
        .or_else(|| iso(sentence, at))
        .or_else(|| distance(sentence, at, context))
        .or_else(|| clock::read(sentence, at, context.language, adjacent))
        .or_else(|| clock::part(sentence, at, context.language, adjacent))
        .or_else(|| days::read(sentence, at, context))
}

/// `2026-06-03`, `2026-06-03T17:30`, `2026-06-03T17:30:00Z`, `2026/06/03`. A word that looks like a
/// date and is none, or may be read in two ways, is unreadable.
pub(crate) fn iso(sentence: &Sentence, at: usize) -> Read {
    let word = sentence.word(at)?;
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let mark = word.as_bytes().get(digits).copied();
    if word.len() > 40 || !word.is_ascii() {
        return None;
    }
    let text = word.to_uppercase().replace('/', "-");
    let mark = mark?;
    let hit = match (digits, mark) {
        (4, b'-' | b'/') if word.len() >= 8 => {
            let day = |date| Hit::Day {
                day: Day::On(date),
                hour: MORNING,
                weight: SURE,
            };
            let exact = text
                .parse::<jiff::Timestamp>()
                .ok()
                .map(|instant| Hit::Exact(instant.as_millisecond()));
            let local = || {
                text.parse::<DateTime>()
                    .ok()
                    .filter(|_| text.contains('T'))
                    .map(Hit::Local)
            };
            exact
                .or_else(local)
                .or_else(|| text.parse::<Date>().ok().map(day))
                .unwrap_or(Hit::Unreadable)
        }
        (1 | 2, b'/') => Hit::Unreadable,
        (1 | 2, b'.') if word.matches('.').count() == 2 => Hit::Unreadable,
        _ => return None,
    };
    Some((1, Some(hit)))
}

/// A number of units at a word, in digits or in words.
pub(crate) fn amount(
    sentence: &Sentence,
    at: usize,
    language: &Language,
) -> Option<(usize, i64, Unit)> {
    let phrases = language
        .times
        .distances
        .iter()
        .filter_map(|(phrase, n, unit)| Some((sentence.phrase(at, phrase)?, *n, *unit)));
    if let Some(longest) = phrases.max_by_key(|(len, ..)| *len) {
        return Some(longest);
    }
    let (len, count) = number(sentence, at, language)?;
    let unit = language
        .unit(sentence.word(at + len)?)
        .filter(|_| sentence.gap(at + len) == Gap::Space)?;
    Some((len + 1, count, unit))
}

/// A number at a word, in digits or in words.
fn number(sentence: &Sentence, at: usize, language: &Language) -> Option<(usize, i64)> {
    let word = sentence.word(at)?;
    if let Some(count) = word.parse::<i64>().ok().filter(|_| word.len() <= 4) {
        return Some((1, count));
    }
    let named = language
        .times
        .numbers
        .iter()
        .filter_map(|(phrase, count)| Some((sentence.phrase(at, phrase)?, *count)));
    named.max_by_key(|(len, _)| *len)
}

/// "in 3 days", "two weeks from now", "a week from Monday", "two days before 3 June".
fn distance(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let times = &context.language.times;
    let within = sentence.any(at, times.within).unwrap_or(0);
    let (len, count, unit) = amount(sentence, at + within, context.language)?;
    let end = at + within + len;
    let joined = sentence.gap(end) == Gap::Space;
    if let Some(more) = sentence.any(end, times.from_now).filter(|_| joined) {
        return Some((within + len + more, Some(ahead(context, count, unit))));
    }
    let back = sentence.any(end, times.before);
    let ahead_of = sentence.any(end, times.from);
    if let Some(more) = back.or(ahead_of).filter(|_| joined) {
        let sign = if back.is_some() { -1 } else { 1 };
        let start = end + more;
        let day = days::at(sentence, start, context);
        let Some((
            days,
            Some(Hit::Day {
                day: Day::On(date),
                hour,
                weight,
            }),
        )) = day
        else {
            // "two days before the deadline": the text does not say when that is.
            return Some((within + len + more, Some(Hit::Unreadable)));
        };
        let moved = moved(date, sign * count, unit).map(|date| Hit::Day {
            day: Day::On(date),
            hour,
            weight,
        });
        return Some((
            within + len + more + days,
            Some(moved.unwrap_or(Hit::Unreadable)),
        ));
    }
    (within > 0).then(|| (within + len, Some(ahead(context, count, unit))))
}

/// The time at a distance from now: hours and minutes to the minute, days and more at the usual
/// hour of that day.
fn ahead(context: &Context<'_>, count: i64, unit: Unit) -> Hit {
    let minutes = match unit {
        Unit::Minute => 1,
        Unit::Hour => 60,
        _ => {
            let date = moved(context.now.date(), count, unit);
            return date.map_or(Hit::Unreadable, |date| Hit::Day {
                day: Day::On(date),
                hour: MORNING,
                weight: SURE,
            });
        }
    };
    Hit::Exact(context.now.timestamp().as_millisecond() + count * minutes * 60_000)
}

/// The date `count` units after a date; before it, if negative.
pub(crate) fn moved(date: Date, count: i64, unit: Unit) -> Option<Date> {
    let span = jiff::Span::new();
    let span = match unit {
        Unit::Day => span.try_days(count),
        Unit::Week => span.try_weeks(count),
        Unit::Month => span.try_months(count),
        Unit::Quarter => span.try_months(count.checked_mul(3)?),
        Unit::Year => span.try_years(count),
        Unit::Minute | Unit::Hour => return None,
    };
    date.checked_add(span.ok()?).ok()
}

/// The longest name at a word, with its value.
pub(super) fn named(sentence: &Sentence, at: usize, names: &[(&str, i64)]) -> Option<(usize, i8)> {
    let found = names
        .iter()
        .filter_map(|(name, value)| Some((sentence.phrase(at, name)?, i8::try_from(*value).ok()?)));
    found.max_by_key(|(len, _)| *len)
}

/// Whether the word at `at` is a noun that the words before it can belong to, without a mark
/// between.
pub(crate) fn counts(sentence: &Sentence, at: usize, language: &Language) -> bool {
    let Some(word) = sentence.words.get(at).filter(|word| word.gap == Gap::Space) else {
        return false;
    };
    let digit = word.text.starts_with(|c: char| c.is_ascii_digit());
    !language.moods.functions.contains(&word.text.as_str())
        && !language.is_calendar(&word.text)
        && !digit
}
