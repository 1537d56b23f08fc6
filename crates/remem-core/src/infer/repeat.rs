//! repeat: reads recurrences: "every other Friday", "daily", "on the first of every month". It does
//! not compute the first instant.

use super::days::parse_ordinal;
use super::language::{CalendarUnit, Language};
use super::sentence::{Gap, Sentence};
use super::when::{ReadResult, RecurrencePattern, TimeHit, is_noun, longest_name, read_amount};

/// Reads a recurrence at a word. One that no rule can express is unreadable, so that no part of it
/// is taken for a time.
pub(super) fn read_recurrence(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    every(sentence, at, language)
        .or_else(|| recurrence_adverb(sentence, at, language))
        .or_else(|| once_a(sentence, at, language))
        .or_else(|| plural_weekdays(sentence, at, language))
        .or_else(|| day_of_every_month(sentence, at, language))
        .or_else(|| {
            sentence
                .longest_phrase_at(at, language.times.multiples)
                .map(|len| (len, Some(TimeHit::Unreadable)))
        })
}

/// The result for a recurrence of `len` words.
fn recurrence(len: usize, repeat: RecurrencePattern, hour: Option<i8>) -> ReadResult {
    Some((len, Some(TimeHit::Recurring { repeat, hour })))
}

/// The recurrence at a distance of `count` units.
fn interval(count: i64, unit: CalendarUnit) -> RecurrencePattern {
    match (count, unit) {
        (1, CalendarUnit::Day) => RecurrencePattern::Daily,
        (count, CalendarUnit::Quarter) => {
            RecurrencePattern::Interval(count * 3, CalendarUnit::Month)
        }
        _ => RecurrencePattern::Interval(count, unit),
    }
}

/// "every day", "every other Friday", "every Monday and Thursday", "each weekday", "every 3 weeks",
/// "every morning".
fn every(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    let times = &language.times;
    let led = sentence.longest_phrase_at(at, times.every)?;
    let start = at + led;
    let part_of = sentence.longest_phrase_before(at, times.of).is_some();
    if let Some(len) = sentence
        .longest_phrase_at(start, times.false_recurrences)
        .or_else(|| part_of.then_some(1))
    {
        // "the last day of every month"
        return Some((led + len, Some(TimeHit::Unreadable)));
    }
    if let Some(len) = sentence.longest_phrase_at(start, times.workdays) {
        return recurrence(
            led + len,
            RecurrencePattern::Weekdays((0..5).collect()),
            None,
        );
    }
    if let Some((len, hour)) = longest_name(sentence, start, times.parts_of_day) {
        return recurrence(led + len, RecurrencePattern::Daily, Some(hour));
    }
    if let Some((len, days)) = weekday_list(sentence, start, language) {
        return recurrence(led + len, RecurrencePattern::Weekdays(days), None);
    }
    if let Some(len) = sentence.longest_phrase_at(start, times.other) {
        return every_other(sentence, start + len, led + len, language);
    }
    if let Some((len, count, unit)) =
        read_amount(sentence, start, language).filter(|(_, count, _)| *count > 0)
    {
        return recurrence(led + len, interval(count, unit), None);
    }
    let word = sentence.word(start)?;
    if let Some(unit) = language.unit(word) {
        return recurrence(led + 1, interval(1, unit), None);
    }
    let (day, _) = parse_ordinal(word, times.ordinal_endings, times.ordinals)?;
    let monthly = !is_noun(sentence, start + 1, language)
        && sentence
            .word(start + 1)
            .is_none_or(|word| language.weekday(word).is_none());
    if monthly {
        day_of_month_rule(sentence, start + 1, led + 1, day, language)
    } else {
        Some((led + 2, Some(TimeHit::Unreadable)))
    }
}

/// The words after the day of a month in "every 15th": "of the month", or none.
fn day_of_month_rule(
    sentence: &Sentence,
    at: usize,
    len: usize,
    day: i8,
    language: &Language,
) -> ReadResult {
    let of = sentence.longest_phrase_at(at, language.times.of);
    let unit = of
        .and_then(|of| sentence.word(at + of))
        .and_then(|word| language.unit(word));
    match (of, unit) {
        (Some(of), Some(CalendarUnit::Month)) => {
            recurrence(len + of + 1, RecurrencePattern::MonthDay(day), None)
        }
        (Some(of), _) => Some((len + of, Some(TimeHit::Unreadable))),
        (None, _) => recurrence(len, RecurrencePattern::MonthDay(day), None),
    }
}

/// The words after "every other": a unit or a day of the week.
fn every_other(sentence: &Sentence, at: usize, len: usize, language: &Language) -> ReadResult {
    let word = sentence.word(at)?;
    if let Some(unit) = language.unit(word) {
        return recurrence(len + 1, interval(2, unit), None);
    }
    if language.weekday(word).is_some() {
        // The name of the day is read again as a day, and gives the first occurrence.
        return recurrence(
            len,
            RecurrencePattern::Interval(2, CalendarUnit::Week),
            None,
        );
    }
    Some((len, Some(TimeHit::Unreadable)))
}

/// A day of the week or a list of them, sorted.
fn weekday_list(sentence: &Sentence, at: usize, language: &Language) -> Option<(usize, Vec<i8>)> {
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
        let joint = sentence.longest_phrase_at(at + len, times.and).unwrap_or(0);
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
fn recurrence_adverb(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    let (_, count, unit) = language
        .times
        .adverbs
        .iter()
        .find(|(name, ..)| sentence.word(at) == Some(name))?;
    let attribute = is_noun(sentence, at + 1, language)
        || sentence
            .longest_phrase_before(at, language.modifiers.articles)
            .is_some();
    if attribute {
        Some((1, None))
    } else {
        recurrence(1, interval(*count, *unit), None)
    }
}

/// "once a week", "once every day".
fn once_a(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    let len = sentence.longest_phrase_at(at, language.times.once_a)?;
    let unit = language.unit(sentence.word(at + len)?)?;
    recurrence(len + 1, interval(1, unit), None)
}

/// "on Mondays", "on weekdays".
fn plural_weekdays(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    let led = sentence.longest_phrase_at(at, language.times.on)?;
    let word = sentence.word(at + led)?;
    let named = word
        .strip_suffix('s')
        .is_some_and(|name| name.len() > 4 && language.weekday(name).is_some());
    let work = word.ends_with('s') && language.times.workdays.contains(&word);
    if work {
        return recurrence(led + 1, RecurrencePattern::Weekdays((0..5).collect()), None);
    }
    let (len, days) = weekday_list(sentence, at + led, language).filter(|_| named)?;
    recurrence(led + len, RecurrencePattern::Weekdays(days), None)
}

/// "the first of every month", "the 15th of each month".
fn day_of_every_month(sentence: &Sentence, at: usize, language: &Language) -> ReadResult {
    let times = &language.times;
    let led = sentence
        .longest_phrase_at(at, times.on_the)
        .or_else(|| sentence.longest_phrase_at(at, language.modifiers.articles))
        .unwrap_or(0);
    let (day, _) = parse_ordinal(
        sentence.word(at + led)?,
        times.ordinal_endings,
        times.ordinals,
    )?;
    let mut len = led + 1;
    // "the first day of every month"
    len += usize::from(
        day == 1
            && sentence.word(at + len).and_then(|word| language.unit(word))
                == Some(CalendarUnit::Day),
    );
    len += sentence.longest_phrase_at(at + len, times.of)?;
    len += sentence.longest_phrase_at(at + len, times.every)?;
    let unit = language.unit(sentence.word(at + len)?)?;
    if unit == CalendarUnit::Month {
        recurrence(len + 1, RecurrencePattern::MonthDay(day), None)
    } else {
        Some((len + 1, Some(TimeHit::Unreadable)))
    }
}
