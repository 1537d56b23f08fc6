//! when: finds the words of a sentence that state a time, and their meaning on their own: a day, a
//! time of day, a distance, a recurrence. It does not decide which of them a promise means;
//! `moment` combines them.

use super::clock;
use super::days;
use super::language::{CalendarUnit, Language};
use super::repeat;
use super::sentence::{Gap, Sentence};
use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use std::ops::Range;

/// The hour of a day that is stated without a time.
pub(super) const MORNING_HOUR: i8 = 9;
/// The hour of the end of a day or period.
pub(super) const END_HOUR: i8 = 17;

/// The language and reference instant by which times are read.
pub(crate) struct TimeContext<'a> {
    pub language: &'static Language,
    /// The reference instant, in the speaker's zone.
    pub now: &'a Zoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayReference {
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
pub(crate) enum ZoneReference {
    Own,
    Utc,
    /// A zone named by an abbreviation that several zones share.
    Unknown,
}

/// The pattern of a recurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecurrencePattern {
    Daily,
    /// Days of the week, counted from Monday as 0.
    Weekdays(Vec<i8>),
    MonthDay(i8),
    Interval(i64, CalendarUnit),
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// The meaning of words that state a time.
pub(crate) enum TimeHit {
    /// A day, its usual hour, and how certain it is.
    Day {
        day: DayReference,
        hour: i8,
        weight: i32,
    },
    /// A time of day; `sure` if twelve hours later is ruled out.
    Clock {
        hour: i8,
        minute: i8,
        sure: bool,
        zone: ZoneReference,
    },
    /// A part of the day; `today` if it is one of today unless another day is stated.
    PartOfDay { hour: i8, today: bool },
    /// A day and a time in one.
    LocalTime(DateTime),
    /// An instant, in milliseconds since the epoch.
    Instant(i64),
    Recurring {
        repeat: RecurrencePattern,
        hour: Option<i8>,
    },
    /// A time that cannot be computed: no time near it may be taken instead.
    Unreadable,
}

#[derive(Clone, Debug)]
/// A stated time and its words.
pub(super) struct TimeMention {
    pub words: Range<usize>,
    pub hit: TimeHit,
}

/// The weight of an unambiguous time.
pub(super) const CERTAIN_WEIGHT: i32 = 30;
/// The weight of a time that may be misread.
pub(super) const LIKELY_WEIGHT: i32 = 20;

/// Finds all times of a sentence, in order.
pub(super) fn find_times(sentence: &Sentence, context: &TimeContext<'_>) -> Vec<TimeMention> {
    let mut found: Vec<TimeMention> = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        match read_time(sentence, at, context, found.last()) {
            Some((len, hit)) => {
                let len = len.max(1);
                if let Some(hit) = hit {
                    found.push(TimeMention {
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
/// words look like a time but are not one.
pub(crate) type ReadResult = Option<(usize, Option<TimeHit>)>;

/// Reads the time that begins at a word, with the readers in order of precedence.
fn read_time(
    sentence: &Sentence,
    at: usize,
    context: &TimeContext<'_>,
    last: Option<&TimeMention>,
) -> ReadResult {
    if sentence.words[at].is_quoted || sentence.words[at].is_marker {
        return None;
    }
    let adjacent = last.is_some_and(|last| {
        last.words.end == at
            && sentence.gap(at) != Gap::Break
            && !matches!(last.hit, TimeHit::Unreadable)
    });
    repeat::read_recurrence(sentence, at, context.language)
        .or_else(|| iso_time(sentence, at))
        .or_else(|| read_distance(sentence, at, context))
        .or_else(|| clock::read_time_of_day(sentence, at, context.language, adjacent))
        .or_else(|| clock::read_part_of_day(sentence, at, context.language, adjacent))
        .or_else(|| days::read_day(sentence, at, context))
}

/// `2026-06-03`, `2026-06-03T17:30`, `2026-06-03T17:30:00Z`, `2026/06/03`. A word that looks like a
/// date but is not one, or may be read in two ways, is unreadable.
pub(crate) fn iso_time(sentence: &Sentence, at: usize) -> ReadResult {
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
            let day = |date| TimeHit::Day {
                day: DayReference::On(date),
                hour: MORNING_HOUR,
                weight: CERTAIN_WEIGHT,
            };
            let exact = text
                .parse::<jiff::Timestamp>()
                .ok()
                .map(|instant| TimeHit::Instant(instant.as_millisecond()));
            let local = || {
                text.parse::<DateTime>()
                    .ok()
                    .filter(|_| text.contains('T'))
                    .map(TimeHit::LocalTime)
            };
            exact
                .or_else(local)
                .or_else(|| text.parse::<Date>().ok().map(day))
                .unwrap_or(TimeHit::Unreadable)
        }
        (1 | 2, b'/') => TimeHit::Unreadable,
        (1 | 2, b'.') if word.matches('.').count() == 2 => TimeHit::Unreadable,
        _ => return None,
    };
    Some((1, Some(hit)))
}

/// A number of units at a word, in digits or in words.
pub(crate) fn read_amount(
    sentence: &Sentence,
    at: usize,
    language: &Language,
) -> Option<(usize, i64, CalendarUnit)> {
    let phrases = language
        .times
        .distances
        .iter()
        .filter_map(|(phrase, n, unit)| Some((sentence.phrase_len_at(at, phrase)?, *n, *unit)));
    if let Some(longest) = phrases.max_by_key(|(len, ..)| *len) {
        return Some(longest);
    }
    let (len, count) = read_number(sentence, at, language)?;
    let unit = language
        .unit(sentence.word(at + len)?)
        .filter(|_| sentence.gap(at + len) == Gap::Space)?;
    Some((len + 1, count, unit))
}

/// A number at a word, in digits or in words.
fn read_number(sentence: &Sentence, at: usize, language: &Language) -> Option<(usize, i64)> {
    let word = sentence.word(at)?;
    if let Some(count) = word.parse::<i64>().ok().filter(|_| word.len() <= 4) {
        return Some((1, count));
    }
    let named = language
        .times
        .numbers
        .iter()
        .filter_map(|(phrase, count)| Some((sentence.phrase_len_at(at, phrase)?, *count)));
    named.max_by_key(|(len, _)| *len)
}

/// "in 3 days", "two weeks from now", "a week from Monday", "two days before 3 June".
fn read_distance(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let times = &context.language.times;
    let within = sentence.longest_phrase_at(at, times.within).unwrap_or(0);
    let (len, count, unit) = read_amount(sentence, at + within, context.language)?;
    let end = at + within + len;
    let joined = sentence.gap(end) == Gap::Space;
    if let Some(more) = sentence
        .longest_phrase_at(end, times.from_now)
        .filter(|_| joined)
    {
        return Some((within + len + more, Some(from_now(context, count, unit))));
    }
    let back = sentence.longest_phrase_at(end, times.before);
    let ahead_of = sentence.longest_phrase_at(end, times.from);
    if let Some(more) = back.or(ahead_of).filter(|_| joined) {
        let sign = if back.is_some() { -1 } else { 1 };
        let start = end + more;
        let day = days::day_at(sentence, start, context);
        let Some((
            days,
            Some(TimeHit::Day {
                day: DayReference::On(date),
                hour,
                weight,
            }),
        )) = day
        else {
            // "two days before the deadline": the text does not say when that is.
            return Some((within + len + more, Some(TimeHit::Unreadable)));
        };
        let moved = add_units(date, sign * count, unit).map(|date| TimeHit::Day {
            day: DayReference::On(date),
            hour,
            weight,
        });
        return Some((
            within + len + more + days,
            Some(moved.unwrap_or(TimeHit::Unreadable)),
        ));
    }
    (within > 0).then(|| (within + len, Some(from_now(context, count, unit))))
}

/// The time at a distance from now: hours and minutes to the minute, days and more at the usual
/// hour of that day.
fn from_now(context: &TimeContext<'_>, count: i64, unit: CalendarUnit) -> TimeHit {
    let minutes = match unit {
        CalendarUnit::Minute => 1,
        CalendarUnit::Hour => 60,
        _ => {
            let date = add_units(context.now.date(), count, unit);
            return date.map_or(TimeHit::Unreadable, |date| TimeHit::Day {
                day: DayReference::On(date),
                hour: MORNING_HOUR,
                weight: CERTAIN_WEIGHT,
            });
        }
    };
    TimeHit::Instant(context.now.timestamp().as_millisecond() + count * minutes * 60_000)
}

/// The date `count` units after a date; before it, if negative.
pub(crate) fn add_units(date: Date, count: i64, unit: CalendarUnit) -> Option<Date> {
    let span = jiff::Span::new();
    let span = match unit {
        CalendarUnit::Day => span.try_days(count),
        CalendarUnit::Week => span.try_weeks(count),
        CalendarUnit::Month => span.try_months(count),
        CalendarUnit::Quarter => span.try_months(count.checked_mul(3)?),
        CalendarUnit::Year => span.try_years(count),
        CalendarUnit::Minute | CalendarUnit::Hour => return None,
    };
    date.checked_add(span.ok()?).ok()
}

/// The longest name at a word, with its value.
pub(super) fn longest_name(
    sentence: &Sentence,
    at: usize,
    names: &[(&str, i64)],
) -> Option<(usize, i8)> {
    let found = names.iter().filter_map(|(name, value)| {
        Some((
            sentence.phrase_len_at(at, name)?,
            i8::try_from(*value).ok()?,
        ))
    });
    found.max_by_key(|(len, _)| *len)
}

/// Whether the word at `at` is a noun that the words before it can belong to, without a mark
/// between.
pub(crate) fn is_noun(sentence: &Sentence, at: usize, language: &Language) -> bool {
    let Some(word) = sentence.words.get(at).filter(|word| word.gap == Gap::Space) else {
        return false;
    };
    let digit = word.text.starts_with(|c: char| c.is_ascii_digit());
    !language
        .modifiers
        .function_words
        .contains(&word.text.as_str())
        && !language.is_calendar(&word.text)
        && !digit
}
