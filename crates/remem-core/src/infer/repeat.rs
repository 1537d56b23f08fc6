//! repeat: reads recurrences: "every other Friday", "daily", "on the first of every month". It does
//! not compute the first instant.

use super::days::ordinal;
use super::language::{Language, Unit};
use super::sentence::{Gap, Sentence};
use super::when::{Hit, Read, Repeat, amount, counts, named};

/// Reads a recurrence at a word. One that no rule can express is unreadable, so that no part of it
/// is taken for a time.
pub(super) fn read(sentence: &Sentence, at: usize, language: &Language) -> Read {
    every(sentence, at, language)
        .or_else(|| adverb(sentence, at, language))
        .or_else(|| once_a(sentence, at, language))
        .or_else(|| plural(sentence, at, language))
        .or_else(|| of_every(sentence, at, language))
        .or_else(|| {
            sentence
                .any(at, language.times.multiples)
                .map(|len| (len, Some(Hit::Unreadable)))
        })
}

/// The result for a recurrence of `len` words.
fn found(len: usize, repeat: Repeat, hour: Option<i8>) -> Read {
    Some((len, Some(Hit::Every { repeat, hour })))
}

/// The recurrence at a distance of `count` units.
fn interval(count: i64, unit: Unit) -> Repeat {
    match (count, unit) {
        (1, Unit::Day) => Repeat::Daily,
        (count, Unit::Quarter) => Repeat::Interval(count * 3, Unit::Month),
        _ => Repeat::Interval(count, unit),
    }
}

/// "every day", "every other Friday", "every Monday and Thursday", "each weekday", "every 3 weeks",
/// "every morning".
fn every(sentence: &Sentence, at: usize, language: &Language) -> Read {
    let times = &language.times;
    let led = sentence.any(at, times.every)?;
    let start = at + led;
    let part_of = sentence.any_before(at, times.of).is_some();
    if let Some(len) = sentence
        .any(start, times.not_every)
        .or_else(|| part_of.then_some(1))
    {
        // "the last day of every month"
        return Some((led + len, Some(Hit::Unreadable)));
    }
    if let Some(len) = sentence.any(start, times.workdays) {
        return found(led + len, Repeat::Weekdays((0..5).collect()), None);
    }
    if let Some((len, hour)) = named(sentence, start, times.parts) {
        return found(led + len, Repeat::Daily, Some(hour));
    }
    if let Some((len, days)) = weekdays(sentence, start, language) {
        return found(led + len, Repeat::Weekdays(days), None);
    }
    if let Some(len) = sentence.any(start, times.other) {
        return other(sentence, start + len, led + len, language);
    }
    if let Some((len, count, unit)) =
        amount(sentence, start, language).filter(|(_, count, _)| *count > 0)
    {
        return found(led + len, interval(count, unit), None);
    }
    let word = sentence.word(start)?;
    if let Some(unit) = language.unit(word) {
        return found(led + 1, interval(1, unit), None);
    }
    let (day, _) = ordinal(word, times.ordinal_ends, times.ordinals)?;
    let monthly = !counts(sentence, start + 1, language)
        && sentence
            .word(start + 1)
            .is_none_or(|word| language.weekday(word).is_none());
    if monthly {
        month_day(sentence, start + 1, led + 1, day, language)
    } else {
        Some((led + 2, Some(Hit::Unreadable)))
    }
}

/// The words after the day of a month in "every 15th": "of the month", or none.
fn month_day(sentence: &Sentence, at: usize, len: usize, day: i8, language: &Language) -> Read {
    let of = sentence.any(at, language.times.of);
    let unit = of
        .and_then(|of| sentence.word(at + of))
        .and_then(|word| language.unit(word));
    match (of, unit) {
        (Some(of), Some(Unit::Month)) => found(len + of + 1, Repeat::MonthDay(day), None),
        (Some(of), _) => Some((len + of, Some(Hit::Unreadable))),
        (None, _) => found(len, Repeat::MonthDay(day), None),
    }
}

/// The words after "every other": a unit or a day of the week.
fn other(sentence: &Sentence, at: usize, len: usize, language: &Language) -> Read {
    let word = sentence.word(at)?;
    if let Some(unit) = language.unit(word) {
        return found(len + 1, interval(2, unit), None);
    }
    if language.weekday(word).is_some() {
        // The name of the day is read again as a day, and gives the first occurrence.
        return found(len, Repeat::Interval(2, Unit::Week), None);
    }
    Some((len, Some(Hit::Unreadable)))
}

/// A day of the week or a list of them, sorted.
fn weekdays(sentence: &Sentence, at: usize, language: &Language) -> Option<(usize, Vec<i8>)> {
    let times = &language.times;
    let day = |at: usize| {
        let word = sentence.word(at)?;
        let short = times.weekend.contains(&word).then_some(5);
        short
            .or_else(|| language.weekday(word))
            .or_else(|| language.weekday(word.strip_suffix('s')?))
    };
    let mut days = vec![day(at)?];
    let mut len = 1;
    loop {
        let joint = sentence.any(at + len, times.and).unwrap_or(0);
        let listed = joint > 0 || sentence.gap(at + len) == Gap::Comma;
        let Some(next) = day(at + len + joint).filter(|_| listed) else {
            break;
        };
        days.push(next);
        len += joint + 1;
    }
    days.sort_unstable();
    days.dedup();
    Some((len, days))
}

/// "daily", unless it is the attribute of a noun ("the daily report").
fn adverb(sentence: &Sentence, at: usize, language: &Language) -> Read {
    let (_, count, unit) = language
        .times
        .adverbs
        .iter()
        .find(|(name, ..)| sentence.word(at) == Some(name))?;
    let attribute = counts(sentence, at + 1, language)
        || sentence.any_before(at, language.moods.articles).is_some();
    if attribute {
        Some((1, None))
    } else {
        found(1, interval(*count, *unit), None)
    }
}

/// "once a week", "once every day".
fn once_a(sentence: &Sentence, at: usize, language: &Language) -> Read {
    let len = sentence.any(at, language.times.once_a)?;
    let unit = language.unit(sentence.word(at + len)?)?;
    found(len + 1, interval(1, unit), None)
}

/// "on Mondays", "on weekdays".
fn plural(sentence: &Sentence, at: usize, language: &Language) -> Read {
    let led = sentence.any(at, language.times.on)?;
    let word = sentence.word(at + led)?;
    let named = word
        .strip_suffix('s')
        .is_some_and(|name| name.len() > 4 && language.weekday(name).is_some());
    let work = word.ends_with('s') && language.times.workdays.contains(&word);
    if work {
        return found(led + 1, Repeat::Weekdays((0..5).collect()), None);
    }
    let (len, days) = weekdays(sentence, at + led, language).filter(|_| named)?;
    found(led + len, Repeat::Weekdays(days), None)
}

/// "the first of every month", "the 15th of each month".
fn of_every(sentence: &Sentence, at: usize, language: &Language) -> Read {
    let times = &language.times;
    let led = sentence
        .any(at, times.on_the)
        .or_else(|| sentence.any(at, language.moods.articles))
        .unwrap_or(0);
    let (day, _) = ordinal(sentence.word(at + led)?, times.ordinal_ends, times.ordinals)?;
    let mut len = led + 1;
    // "the first day of every month"
    len += usize::from(
        day == 1 && sentence.word(at + len).and_then(|word| language.unit(word)) == Some(Unit::Day),
    );
    len += sentence.any(at + len, times.of)?;
    len += sentence.any(at + len, times.every)?;
    let unit = language.unit(sentence.word(at + len)?)?;
    if unit == Unit::Month {
        found(len + 1, Repeat::MonthDay(day), None)
    } else {
        Some((len + 1, Some(Hit::Unreadable)))
    }
}
