//! moment: combines the times that a sentence states into one instant or one recurrence. It does
//! not search for them.
//!
//! A local time that a zone's clocks skip means the first instant after the gap; one that they show
//! twice means the earlier instant.

use super::language::CalendarUnit;
use super::sentence::{Gap, Sentence};
use super::when::{
    self, DayReference, LIKELY_WEIGHT, MORNING_HOUR, RecurrencePattern, TimeContext, TimeHit,
    TimeMention, ZoneReference,
};
use super::{Condition, Recurrence};
use crate::ids::Timestamp;
use crate::schedule::Timing;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use std::ops::Range;

/// A time condition, and the words that state it.
pub(super) struct Moment {
    pub words: Range<usize>,
    /// All words that state a time, also those apart from the others.
    pub time_words: Vec<Range<usize>>,
    pub condition: Condition,
    pub weight: i32,
}

/// Taken off for a zone known only by an ambiguous abbreviation: it may be hours away.
const ZONE_PENALTY: i32 = 40;
/// Taken off for a recurrence with an end, which the rule cannot express.
const LIMITED_PENALTY: i32 = 50;
/// Taken off for a day of the week that is not that of the date.
const WEEKDAY_CONFLICT_PENALTY: i32 = 40;
/// Taken off for a time in another clause, which may be the time of something else.
const OTHER_CLAUSE_PENALTY: i32 = 20;
/// Years that are searched for a date; at least one of them is a leap year, also around 2100.
const YEARS_MAX: i16 = 9;
/// Months that are searched for a day of the month.
const MONTHS_MAX: i64 = 13;

#[derive(Clone, Copy)]
struct TimeOfDay {
    hour: i8,
    minute: i8,
    is_certain: bool,
    zone: ZoneReference,
}

/// The times of a sentence that belong to a cue: of each kind the nearest.
struct StatedTimes<'a> {
    day: Option<&'a TimeMention>,
    clock: Option<(&'a TimeMention, TimeOfDay)>,
    part: Option<(&'a TimeMention, i8, bool)>,
}

/// The instant or recurrence that the times in a clause mean for a cue.
pub(super) fn resolve_moment(
    sentence: &Sentence,
    found: &[&TimeMention],
    cue: &Range<usize>,
    context: &TimeContext<'_>,
) -> Option<Moment> {
    if found.iter().any(|found| found.hit == TimeHit::Unreadable) {
        return None;
    }
    if let Some(every) = found
        .iter()
        .find(|found| matches!(found.hit, TimeHit::Recurring { .. }))
    {
        return resolve_recurrence(sentence, found, every, cue, context);
    }
    if let Some(one) = nearest(sentence, found, cue, context, |hit| {
        matches!(hit, TimeHit::Instant(_) | TimeHit::LocalTime(_))
    }) {
        let at = match one.hit {
            TimeHit::Instant(at) => Timestamp(at),
            TimeHit::LocalTime(local) => first_instant_at(context.now.time_zone(), local)?,
            _ => return None,
        };
        let time_words = vec![one.words.clone()];
        let words = one.words.clone();
        return Some(Moment {
            words,
            time_words,
            condition: Condition::Once {
                at: if_future(at, context)?,
            },
            weight: when::CERTAIN_WEIGHT,
        });
    }
    let stated = nearest_times(sentence, found, cue, context);
    let (at, weight) = resolve_once(&stated, context)?;
    let conflict = weekday_conflict_penalty(found, stated.day, at, context);
    let (words, time_words) = stated.word_ranges();
    let astray = if is_in_earlier_clause(sentence, &words, cue, context) {
        OTHER_CLAUSE_PENALTY
    } else {
        0
    };
    Some(Moment {
        words,
        time_words,
        condition: Condition::Once { at },
        weight: weight - conflict - astray,
    })
}

/// Picks the nearest time of each kind for a cue.
fn nearest_times<'a>(
    sentence: &Sentence,
    found: &[&'a TimeMention],
    cue: &Range<usize>,
    context: &TimeContext<'_>,
) -> StatedTimes<'a> {
    let near = |is: fn(&TimeHit) -> bool| nearest(sentence, found, cue, context, is);
    let day = near(|hit| matches!(hit, TimeHit::Day { .. })).map(|day| prefer_date(found, day));
    let clock =
        near(|hit| matches!(hit, TimeHit::Clock { .. })).and_then(|found| match found.hit {
            TimeHit::Clock {
                hour,
                minute,
                sure,
                zone,
            } => Some((
                found,
                TimeOfDay {
                    hour,
                    minute,
                    is_certain: sure,
                    zone,
                },
            )),
            _ => None,
        });
    let part =
        near(|hit| matches!(hit, TimeHit::PartOfDay { .. })).and_then(|found| match found.hit {
            TimeHit::PartOfDay { hour, today } => Some((found, hour, today)),
            _ => None,
        });
    StatedTimes { day, clock, part }
}

impl StatedTimes<'_> {
    /// The range of words connected with the main time, and the ranges of all times.
    fn word_ranges(&self) -> (Range<usize>, Vec<Range<usize>>) {
        let all = [
            self.day,
            self.clock.map(|(found, _)| found),
            self.part.map(|(found, ..)| found),
        ];
        let time_words: Vec<Range<usize>> = all
            .into_iter()
            .flatten()
            .map(|found| found.words.clone())
            .collect();
        let mut words = time_words.first().cloned().unwrap_or_default();
        for _ in 0..time_words.len() {
            for other in &time_words {
                if other.start <= words.end + 1 && words.start <= other.end + 1 {
                    words = words.start.min(other.start)..words.end.max(other.end);
                }
            }
        }
        (words, time_words)
    }

    /// The time of day, if one is stated. An hour without "am" or "pm" is taken to be one at which
    /// people are awake.
    fn time_of_day(&self) -> Option<Time> {
        let late = |hour: i8| hour >= 12;
        let (hour, minute) = match (self.clock, self.part) {
            (Some((_, clock)), _) if clock.is_certain => (clock.hour, clock.minute),
            (Some((_, clock)), Some((_, part, _))) if late(part) && clock.hour < 12 => {
                (clock.hour + 12, clock.minute)
            }
            (Some((_, clock)), None) if (1..=6).contains(&clock.hour) => {
                (clock.hour + 12, clock.minute)
            }
            (Some((_, clock)), _) => (clock.hour, clock.minute),
            (None, Some((_, part, _))) => (part, 0),
            (None, None) => return None,
        };
        Time::new(hour, minute, 0, 0).ok()
    }
}

/// The time of a kind that belongs to the cue: one that leads the clause up to it, else the first
/// one after it, else the last one before it.
fn nearest<'a>(
    sentence: &Sentence,
    found: &[&'a TimeMention],
    cue: &Range<usize>,
    context: &TimeContext<'_>,
    is: fn(&TimeHit) -> bool,
) -> Option<&'a TimeMention> {
    let hits = || found.iter().filter(|found| is(&found.hit));
    let after = || hits().find(|found| found.words.start >= cue.end);
    let leading = hits().find(|found| leads_to_cue(sentence, &found.words, cue, context));
    leading
        .or_else(after)
        .or_else(|| hits().rfind(|found| found.words.end <= cue.start))
        .copied()
}

/// Whether a time begins its clause, with only filler words between it and the cue: "On Friday,
/// please remind me".
fn leads_to_cue(
    sentence: &Sentence,
    words: &Range<usize>,
    cue: &Range<usize>,
    context: &TimeContext<'_>,
) -> bool {
    let language = context.language;
    let idle = |at: usize| {
        sentence
            .word(at)
            .is_some_and(|word| language.modifiers.fillers.contains(&word))
    };
    let led = |at: usize| {
        idle(at)
            || sentence
                .word(at)
                .is_some_and(|word| language.times.prepositions.contains(&word))
    };
    let mut start = words.start;
    while start > 0 && sentence.gap(start) == Gap::Space && led(start - 1) {
        start -= 1;
    }
    let first = start == 0 || sentence.gap(start) != Gap::Space;
    first && words.end <= cue.start && (words.end..cue.start).all(idle)
}

/// Whether a time is in an earlier clause than the cue.
fn is_in_earlier_clause(
    sentence: &Sentence,
    words: &Range<usize>,
    cue: &Range<usize>,
    context: &TimeContext<'_>,
) -> bool {
    let apart =
        words.end <= cue.start && (words.end..=cue.start).any(|at| sentence.gap(at) != Gap::Space);
    apart && !leads_to_cue(sentence, words, cue, context)
}

/// Prefers a date right after a day of the week to the day of the week.
fn prefer_date<'a>(found: &[&'a TimeMention], day: &'a TimeMention) -> &'a TimeMention {
    let weight = |found: &TimeMention| match found.hit {
        TimeHit::Day { weight, .. } => weight,
        _ => -1,
    };
    let beside = found.iter().find(|other| {
        other.words.start > day.words.start && other.words.start <= day.words.end + 1
    });
    beside
        .filter(|other| weight(other) > weight(day))
        .copied()
        .unwrap_or(day)
}

/// The penalty if a day of the week comes right before a date that falls on another day of the
/// week.
fn weekday_conflict_penalty(
    found: &[&TimeMention],
    day: Option<&TimeMention>,
    at: Timestamp,
    context: &TimeContext<'_>,
) -> i32 {
    let Some(day) = day else { return 0 };
    let here = jiff::Timestamp::from_millisecond(at.0)
        .map(|at| at.to_zoned(context.now.time_zone().clone()).weekday());
    let differs = |other: &&TimeMention| match other.hit {
        TimeHit::Day {
            day: DayReference::On(date),
            weight: LIKELY_WEIGHT,
            ..
        } => here.as_ref().is_ok_and(|here| date.weekday() != *here),
        _ => false,
    };
    let beside = found.iter().filter(|other| {
        other.words.end <= day.words.start && day.words.start <= other.words.end + 1
    });
    if beside.copied().any(|other| differs(&other)) {
        WEEKDAY_CONFLICT_PENALTY
    } else {
        0
    }
}

/// The single instant that is meant, with its weight; `None` if it is past.
fn resolve_once(stated: &StatedTimes<'_>, context: &TimeContext<'_>) -> Option<(Timestamp, i32)> {
    let (zone, penalty) = match stated.clock.map(|(_, clock)| clock.zone) {
        Some(ZoneReference::Utc) => (TimeZone::UTC, 0),
        Some(ZoneReference::Unknown) => (context.now.time_zone().clone(), ZONE_PENALTY),
        _ => (context.now.time_zone().clone(), 0),
    };
    let today = context.now.with_time_zone(zone.clone()).date();
    let at = |date: Option<Date>, time: Time| {
        if_future(first_instant_at(&zone, date?.to_datetime(time))?, context)
    };
    let time = stated.time_of_day();
    let Some(TimeHit::Day { day, hour, weight }) = stated.day.map(|found| found.hit.clone()) else {
        let time = time?;
        let now = at(Some(today), time);
        // A part of today that is over is in the past; a time of day comes again tomorrow.
        let again = if stated.part.is_some_and(|(.., today)| today) {
            None
        } else {
            at(today.tomorrow().ok(), time)
        };
        return now.or(again).map(|at| (at, LIKELY_WEIGHT - penalty));
    };
    let time = time.or_else(|| Time::new(hour, 0, 0, 0).ok())?;
    let at = match day {
        DayReference::On(date) => at(Some(date), time),
        DayReference::Yearly { month, day } => (0..YEARS_MAX)
            .find_map(|years| at(Date::new(today.year() + years, month, day).ok(), time)),
        DayReference::Monthly(day) => {
            let first = today.first_of_month();
            let of = |months| {
                when::add_units(first, months, CalendarUnit::Month)
                    .and_then(|month| Date::new(month.year(), month.month(), day).ok())
            };
            (0..MONTHS_MAX).find_map(|months| at(of(months), time))
        }
    }?;
    Some((at, weight - penalty))
}

/// The recurrence that the times in a clause mean for a cue.
fn resolve_recurrence(
    sentence: &Sentence,
    found: &[&TimeMention],
    every: &TimeMention,
    cue: &Range<usize>,
    context: &TimeContext<'_>,
) -> Option<Moment> {
    let TimeHit::Recurring { repeat, hour } = &every.hit else {
        return None;
    };
    let mut stated = nearest_times(sentence, found, cue, context);
    let language = context.language;
    let lasts = |at: usize| {
        let lasting = sentence
            .longest_phrase_at(at, language.times.duration_markers)
            .is_some_and(|len| when::read_amount(sentence, at + len, language).is_some());
        lasting
            || sentence
                .longest_phrase_at(at, language.times.limit_markers)
                .is_some()
    };
    let bound = (0..sentence.words.len()).find(|&at| lasts(at));
    stated.day = stated
        .day
        .filter(|day| bound.is_none_or(|bound| day.words.end <= bound));
    let foreign = stated
        .clock
        .is_some_and(|(_, clock)| clock.zone != ZoneReference::Own);
    let time = stated
        .time_of_day()
        .or_else(|| Time::new(hour.unwrap_or(MORNING_HOUR), 0, 0, 0).ok())?;
    let (rule, first) = recurrence_rule(repeat, time, &stated, context)?;
    let penalty =
        if bound.is_some() { LIMITED_PENALTY } else { 0 } + if foreign { ZONE_PENALTY } else { 0 };
    let (_, mut words) = stated.word_ranges();
    words.push(every.words.clone());
    let condition = Condition::Recurring { rule, first };
    Some(Moment {
        words: every.words.clone(),
        time_words: words,
        condition,
        weight: LIKELY_WEIGHT - penalty,
    })
}

/// The rule of a recurrence and its first instant. Calendar recurrences become a cron line,
/// distances an interval counted from the first instant.
fn recurrence_rule(
    repeat: &RecurrencePattern,
    time: Time,
    stated: &StatedTimes<'_>,
    context: &TimeContext<'_>,
) -> Option<(Recurrence, Timestamp)> {
    let zone = context.now.time_zone();
    let start = match stated.day {
        Some(_) => Some(
            resolve_once(
                &StatedTimes {
                    day: stated.day,
                    clock: stated.clock,
                    part: stated.part,
                },
                context,
            )?
            .0,
        ),
        None => None,
    };
    let at = format!("{} {}", time.minute(), time.hour());
    let line = match repeat {
        RecurrencePattern::Daily => format!("{at} * * *"),
        RecurrencePattern::Weekdays(days) => {
            let days: Vec<String> = days.iter().map(|day| ((day + 1) % 7).to_string()).collect();
            format!(
                "{at} * * {}",
                if days == ["1", "2", "3", "4", "5"] {
                    "1-5".to_owned()
                } else {
                    days.join(",")
                }
            )
        }
        RecurrencePattern::MonthDay(day) => format!("{at} {day} * *"),
        RecurrencePattern::Interval(count, unit) => {
            return interval_rule(*count, *unit, time, start, context);
        }
    };
    let timing = Timing::parse(None, Some(&line), zone.iana_name()?).ok()?;
    // A rule that starts on a day includes that day's own tick, if it has one.
    let from = match start {
        Some(start) => {
            let day = jiff::Timestamp::from_millisecond(start.0)
                .ok()?
                .to_zoned(zone.clone())
                .date();
            Timestamp(first_instant_at(zone, day.at(0, 0, 0, 0))?.0 - 1)
                .max(reference_instant(context))
        }
        None => reference_instant(context),
    };
    let first = timing.next(from, from)?;
    Some((Recurrence::Cron(line), if_future(first, context)?))
}

/// The rule and first instant of a recurrence at a fixed distance.
fn interval_rule(
    count: i64,
    unit: CalendarUnit,
    time: Time,
    start: Option<Timestamp>,
    context: &TimeContext<'_>,
) -> Option<(Recurrence, Timestamp)> {
    let zone = context.now.time_zone();
    let (text, minutes) = match unit {
        CalendarUnit::Minute => (format!("PT{count}M"), Some(count)),
        CalendarUnit::Hour => (format!("PT{count}H"), Some(count * 60)),
        CalendarUnit::Day => (format!("P{count}D"), None),
        CalendarUnit::Week => (format!("P{count}W"), None),
        CalendarUnit::Month => (format!("P{count}M"), None),
        CalendarUnit::Quarter => (format!("P{}M", count * 3), None),
        CalendarUnit::Year => (format!("P{count}Y"), None),
    };
    Timing::parse(Some(&text), None, zone.iana_name()?).ok()?;
    let first = match (start, minutes) {
        (Some(start), _) => start,
        (None, Some(minutes)) => reference_instant(context).plus_ms(minutes * 60_000),
        (None, None) => first_instant_at(
            zone,
            when::add_units(context.now.date(), count, unit)?.to_datetime(time),
        )?,
    };
    Some((Recurrence::Every(text), if_future(first, context)?))
}

/// The reference instant: the moment at which the text was written.
fn reference_instant(context: &TimeContext<'_>) -> Timestamp {
    Timestamp(context.now.timestamp().as_millisecond())
}

/// The instant, if it is after the reference instant.
fn if_future(at: Timestamp, context: &TimeContext<'_>) -> Option<Timestamp> {
    (at > reference_instant(context)).then_some(at)
}

/// The instant at which the clocks of a zone show a local time: the first such instant, or the
/// first instant after the gap that skips the time.
pub(crate) fn first_instant_at(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let found = match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(time).ok()?
        }
        AmbiguousOffset::Gap { after, .. } => {
            // Read with the later offset, the time is an instant before the gap, so the next
            // transition after it is the gap.
            let before = after.to_timestamp(time).ok()?;
            zone.following(before).next()?.timestamp()
        }
    };
    Some(Timestamp(found.as_millisecond()))
}
