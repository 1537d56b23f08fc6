//! moment: combines the times that a sentence states into one instant or one recurrence. It does
//! not search for them.
//!
//! A local time that a zone's clocks skip means the first instant after the gap; one that they show
//! twice means the earlier instant.

use super::language::Unit;
use super::sentence::{Gap, Sentence};
use super::when::{self, CLEAR, Context, Day, Found, Hit, MORNING, Repeat, Zone};
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
const BOUND_PENALTY: i32 = 50;
/// Taken off for a day of the week that is not that of the date.
const CONFLICT_PENALTY: i32 = 40;
/// Taken off for a time in another clause, which may be the time of something else.
const ASTRAY_PENALTY: i32 = 20;
/// Years that are searched for a date; at least one of them is a leap year, also around 2100.
const YEARS_MAX: i16 = 9;
/// Months that are searched for a day of the month.
const MONTHS_MAX: i64 = 13;

#[derive(Clone, Copy)]
struct Clock {
    hour: i8,
    minute: i8,
    sure: bool,
    zone: Zone,
}

/// The times of a sentence that belong to a cue: of each kind the nearest.
struct Told<'a> {
    day: Option<&'a Found>,
    clock: Option<(&'a Found, Clock)>,
    part: Option<(&'a Found, i8, bool)>,
}

/// The instant or recurrence that the times in a clause mean for a cue.
pub(super) fn moment(
    sentence: &Sentence,
    found: &[&Found],
    cue: &Range<usize>,
    context: &Context<'_>,
) -> Option<Moment> {
    if found.iter().any(|found| found.hit == Hit::Unreadable) {
        return None;
    }
    if let Some(every) = found
        .iter()
        .find(|found| matches!(found.hit, Hit::Every { .. }))
    {
        return recurring(sentence, found, every, cue, context);
    }
    if let Some(one) = nearest(sentence, found, cue, context, |hit| {
        matches!(hit, Hit::Exact(_) | Hit::Local(_))
    }) {
        let at = match one.hit {
            Hit::Exact(at) => Timestamp(at),
            Hit::Local(local) => instant(context.now.time_zone(), local)?,
            _ => return None,
        };
        let time_words = vec![one.words.clone()];
        let words = one.words.clone();
        return Some(Moment {
            words,
            time_words,
            condition: Condition::Once {
                at: later(at, context)?,
            },
            weight: when::SURE,
        });
    }
    let stated = told(sentence, found, cue, context);
    let (at, weight) = once(&stated, context)?;
    let conflict = conflict(found, stated.day, at, context);
    let (words, time_words) = stated.words();
    let astray = if astray(sentence, &words, cue, context) {
        ASTRAY_PENALTY
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
fn told<'a>(
    sentence: &Sentence,
    found: &[&'a Found],
    cue: &Range<usize>,
    context: &Context<'_>,
) -> Told<'a> {
    let near = |is: fn(&Hit) -> bool| nearest(sentence, found, cue, context, is);
    let day = near(|hit| matches!(hit, Hit::Day { .. })).map(|day| dated(found, day));
    let clock = near(|hit| matches!(hit, Hit::Clock { .. })).and_then(|found| match found.hit {
        Hit::Clock {
            hour,
            minute,
            sure,
            zone,
        } => Some((
            found,
            Clock {
                hour,
                minute,
                sure,
                zone,
            },
        )),
        _ => None,
    });
    let part = near(|hit| matches!(hit, Hit::Part { .. })).and_then(|found| match found.hit {
        Hit::Part { hour, today } => Some((found, hour, today)),
        _ => None,
    });
    Told { day, clock, part }
}

impl Told<'_> {
    /// The range of words connected with the main time, and the ranges of all times.
    fn words(&self) -> (Range<usize>, Vec<Range<usize>>) {
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
    fn time(&self) -> Option<Time> {
        let late = |hour: i8| hour >= 12;
        let (hour, minute) = match (self.clock, self.part) {
            (Some((_, clock)), _) if clock.sure => (clock.hour, clock.minute),
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
    found: &[&'a Found],
    cue: &Range<usize>,
    context: &Context<'_>,
    is: fn(&Hit) -> bool,
) -> Option<&'a Found> {
    let hits = || found.iter().filter(|found| is(&found.hit));
    let after = || hits().find(|found| found.words.start >= cue.end);
    let leading = hits().find(|found| leads(sentence, &found.words, cue, context));
    leading
        .or_else(after)
        .or_else(|| hits().rfind(|found| found.words.end <= cue.start))
        .copied()
}

/// Whether a time begins its clause, with only filler words between it and the cue: "On Friday,
/// please remind me".
fn leads(
    sentence: &Sentence,
    words: &Range<usize>,
    cue: &Range<usize>,
    context: &Context<'_>,
) -> bool {
    let language = context.language;
    let idle = |at: usize| {
        sentence
            .word(at)
            .is_some_and(|word| language.moods.fillers.contains(&word))
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
fn astray(
    sentence: &Sentence,
    words: &Range<usize>,
    cue: &Range<usize>,
    context: &Context<'_>,
) -> bool {
    let apart =
        words.end <= cue.start && (words.end..=cue.start).any(|at| sentence.gap(at) != Gap::Space);
    apart && !leads(sentence, words, cue, context)
}

/// Prefers a date right after a day of the week to the day of the week.
fn dated<'a>(found: &[&'a Found], day: &'a Found) -> &'a Found {
    let weight = |found: &Found| match found.hit {
        Hit::Day { weight, .. } => weight,
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
fn conflict(found: &[&Found], day: Option<&Found>, at: Timestamp, context: &Context<'_>) -> i32 {
    let Some(day) = day else { return 0 };
    let here = jiff::Timestamp::from_millisecond(at.0)
        .map(|at| at.to_zoned(context.now.time_zone().clone()).weekday());
    let differs = |other: &&Found| match other.hit {
        Hit::Day {
            day: Day::On(date),
            weight: CLEAR,
            ..
        } => here.as_ref().is_ok_and(|here| date.weekday() != *here),
        _ => false,
    };
    let beside = found.iter().filter(|other| {
        other.words.end <= day.words.start && day.words.start <= other.words.end + 1
    });
    if beside.copied().any(|other| differs(&other)) {
        CONFLICT_PENALTY
    } else {
        0
    }
}

/// The single instant that is meant, with its weight; `None` if it is past.
fn once(stated: &Told<'_>, context: &Context<'_>) -> Option<(Timestamp, i32)> {
    let (zone, penalty) = match stated.clock.map(|(_, clock)| clock.zone) {
        Some(Zone::Utc) => (TimeZone::UTC, 0),
        Some(Zone::Unknown) => (context.now.time_zone().clone(), ZONE_PENALTY),
        _ => (context.now.time_zone().clone(), 0),
    };
    let today = context.now.with_time_zone(zone.clone()).date();
    let at =
        |date: Option<Date>, time: Time| later(instant(&zone, date?.to_datetime(time))?, context);
    let time = stated.time();
    let Some(Hit::Day { day, hour, weight }) = stated.day.map(|found| found.hit.clone()) else {
        let time = time?;
        let now = at(Some(today), time);
        // A part of today that is over is in the past; a time of day comes again tomorrow.
        let again = if stated.part.is_some_and(|(.., today)| today) {
            None
        } else {
            at(today.tomorrow().ok(), time)
        };
        return now.or(again).map(|at| (at, CLEAR - penalty));
    };
    let time = time.or_else(|| Time::new(hour, 0, 0, 0).ok())?;
    let at = match day {
        Day::On(date) => at(Some(date), time),
        Day::Yearly { month, day } => (0..YEARS_MAX)
            .find_map(|years| at(Date::new(today.year() + years, month, day).ok(), time)),
        Day::Monthly(day) => {
            let first = today.first_of_month();
            let of = |months| {
                when::moved(first, months, Unit::Month)
                    .and_then(|month| Date::new(month.year(), month.month(), day).ok())
            };
            (0..MONTHS_MAX).find_map(|months| at(of(months), time))
        }
    }?;
    Some((at, weight - penalty))
}

/// The recurrence that the times in a clause mean for a cue.
fn recurring(
    sentence: &Sentence,
    found: &[&Found],
    every: &Found,
    cue: &Range<usize>,
    context: &Context<'_>,
) -> Option<Moment> {
    let Hit::Every { repeat, hour } = &every.hit else {
        return None;
    };
    let mut stated = told(sentence, found, cue, context);
    let language = context.language;
    let lasts = |at: usize| {
        let lasting = sentence
            .any(at, language.times.lasting)
            .is_some_and(|len| when::amount(sentence, at + len, language).is_some());
        lasting || sentence.any(at, language.times.bounded).is_some()
    };
    let bound = (0..sentence.words.len()).find(|&at| lasts(at));
    stated.day = stated
        .day
        .filter(|day| bound.is_none_or(|bound| day.words.end <= bound));
    let foreign = stated
        .clock
        .is_some_and(|(_, clock)| clock.zone != Zone::Own);
    let time = stated
        .time()
        .or_else(|| Time::new(hour.unwrap_or(MORNING), 0, 0, 0).ok())?;
    let (rule, first) = reckon(repeat, time, &stated, context)?;
    let penalty =
        if bound.is_some() { BOUND_PENALTY } else { 0 } + if foreign { ZONE_PENALTY } else { 0 };
    let (_, mut words) = stated.words();
    words.push(every.words.clone());
    let condition = Condition::Recurring { rule, first };
    Some(Moment {
        words: every.words.clone(),
        time_words: words,
        condition,
        weight: CLEAR - penalty,
    })
}

/// The rule of a recurrence and its first instant. Calendar recurrences become a cron line,
/// distances an interval counted from the first instant.
fn reckon(
    repeat: &Repeat,
    time: Time,
    stated: &Told<'_>,
    context: &Context<'_>,
) -> Option<(Recurrence, Timestamp)> {
    let zone = context.now.time_zone();
    let start = match stated.day {
        Some(_) => Some(
            once(
                &Told {
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
        Repeat::Daily => format!("{at} * * *"),
        Repeat::Weekdays(days) => {
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
        Repeat::MonthDay(day) => format!("{at} {day} * *"),
        Repeat::Interval(count, unit) => return distance(*count, *unit, time, start, context),
    };
    let timing = Timing::parse(None, Some(&line), zone.iana_name()?).ok()?;
    // A rule that starts on a day includes that day's own tick, if it has one.
    let from = match start {
        Some(start) => {
            let day = jiff::Timestamp::from_millisecond(start.0)
                .ok()?
                .to_zoned(zone.clone())
                .date();
            Timestamp(instant(zone, day.at(0, 0, 0, 0))?.0 - 1).max(reference(context))
        }
        None => reference(context),
    };
    let first = timing.next(from, from)?;
    Some((Recurrence::Cron(line), later(first, context)?))
}

/// The rule and first instant of a recurrence at a fixed distance.
fn distance(
    count: i64,
    unit: Unit,
    time: Time,
    start: Option<Timestamp>,
    context: &Context<'_>,
) -> Option<(Recurrence, Timestamp)> {
    let zone = context.now.time_zone();
    let (text, minutes) = match unit {
        Unit::Minute => (format!("PT{count}M"), Some(count)),
        Unit::Hour => (format!("PT{count}H"), Some(count * 60)),
        Unit::Day => (format!("P{count}D"), None),
        Unit::Week => (format!("P{count}W"), None),
        Unit::Month => (format!("P{count}M"), None),
        Unit::Quarter => (format!("P{}M", count * 3), None),
        Unit::Year => (format!("P{count}Y"), None),
    };
    Timing::parse(Some(&text), None, zone.iana_name()?).ok()?;
    let first = match (start, minutes) {
        (Some(start), _) => start,
        (None, Some(minutes)) => reference(context).plus_ms(minutes * 60_000),
        (None, None) => instant(
            zone,
            when::moved(context.now.date(), count, unit)?.to_datetime(time),
        )?,
    };
    Some((Recurrence::Every(text), later(first, context)?))
}

/// The reference instant: the moment at which the text was written.
fn reference(context: &Context<'_>) -> Timestamp {
    Timestamp(context.now.timestamp().as_millisecond())
}

/// The instant, if it is after the reference instant.
fn later(at: Timestamp, context: &Context<'_>) -> Option<Timestamp> {
    (at > reference(context)).then_some(at)
}

/// The instant at which the clocks of a zone show a local time: the first such instant, or the
/// first instant after the gap that skips the time.
pub(crate) fn instant(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
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
