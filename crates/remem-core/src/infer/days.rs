//! days: reads the names of days: "tomorrow", "next Monday", "June 3", "the 15th", "end of the
//! month". It does not deal with times of day.

use super::language::CalendarUnit;
use super::sentence::{Gap, Sentence};
use super::when::{
    CERTAIN_WEIGHT, DayReference, END_HOUR, LIKELY_WEIGHT, MORNING_HOUR, ReadResult, TimeContext,
    TimeHit, add_units, is_noun, longest_name,
};
use jiff::civil::Date;

/// Reads a day at a word. The hit is empty if the surroundings make it something else: an attribute
/// of a noun, or the past.
pub(super) fn read_day(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let times = &context.language.times;
    let (len, hit) = self::day_at(sentence, at, context)?;
    if sentence
        .longest_phrase_before(at, times.past_markers)
        .is_some()
    {
        return Some((len, None));
    }
    let noun = is_noun(sentence, at + len, context.language);
    let led = sentence
        .longest_phrase_before(at, times.prepositions)
        .is_some()
        || sentence.longest_phrase_at(at, times.on_the).is_some();
    let adverb = longest_name(sentence, at, times.days).is_some();
    let attribute = noun && !adverb && !led;
    Some((len, hit.filter(|_| !attribute)))
}

/// Reads a day at a word, without regard to the words around it.
pub(super) fn day_at(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    relative_day(sentence, at, context)
        .or_else(|| end_of_period(sentence, at, context))
        .or_else(|| next_or_this(sentence, at, context))
        .or_else(|| weekday_at(sentence, at, context))
        .or_else(|| month_day(sentence, at, context))
        .or_else(|| day_of_month(sentence, at, context))
        .or_else(|| month_alone(sentence, at, context))
}

/// The hit for a date; unreadable if the date does not exist.
fn day_hit(date: Option<Date>, hour: i8, weight: i32) -> Option<TimeHit> {
    Some(date.map_or(TimeHit::Unreadable, |date| TimeHit::Day {
        day: DayReference::On(date),
        hour,
        weight,
    }))
}

/// "tomorrow", "the day after tomorrow". A task for today is due at the end of it.
fn relative_day(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let (len, days) = longest_name(sentence, at, context.language.times.days)?;
    let hour = if days == 0 { END_HOUR } else { MORNING_HOUR };
    Some((
        len,
        day_hit(
            add_units(context.now.date(), i64::from(days), CalendarUnit::Day),
            hour,
            CERTAIN_WEIGHT,
        ),
    ))
}

/// The Monday of the week of a date.
fn monday_of_week(date: Date) -> Option<Date> {
    add_units(
        date,
        -i64::from(date.weekday().to_monday_zero_offset()),
        CalendarUnit::Day,
    )
}

/// The given day, counted from Monday, of the week that is `weeks` weeks after the current one.
fn day_of_week(context: &TimeContext<'_>, weeks: i64, weekday: i8) -> Option<Date> {
    add_units(
        monday_of_week(context.now.date())?,
        weeks * 7 + i64::from(weekday),
        CalendarUnit::Day,
    )
}

/// The first day of the period that is `ahead` periods after the one of `date`.
pub(crate) fn first_day_of_period(date: Date, unit: CalendarUnit, ahead: i64) -> Option<Date> {
    let month = match unit {
        CalendarUnit::Month => date.month(),
        CalendarUnit::Quarter => (date.month() - 1) / 3 * 3 + 1,
        CalendarUnit::Year => 1,
        CalendarUnit::Week => return add_units(monday_of_week(date)?, ahead, unit),
        _ => return None,
    };
    add_units(Date::new(date.year(), month, 1).ok()?, ahead, unit)
}

/// "end of the month", "end of next week", "end of June".
fn end_of_period(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let times = &context.language.times;
    let mut len = sentence.longest_phrase_at(at, times.end_of)?;
    let next = sentence
        .longest_phrase_at(at + len, times.next)
        .unwrap_or(0);
    len += next;
    let word = sentence.word(at + len)?;
    if let Some(month) = context.language.month(word) {
        let first = next_month_start(context, month)?;
        return Some((
            len + 1,
            day_hit(Some(first.last_of_month()), END_HOUR, LIKELY_WEIGHT),
        ));
    }
    let unit = context.language.unit(word).filter(|unit| {
        !matches!(
            unit,
            CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day
        )
    })?;
    let first = first_day_of_period(context.now.date(), unit, i64::from(next > 0))?;
    // Reminders are about work, so a week ends on Friday.
    let last = if unit == CalendarUnit::Week {
        add_units(first, 4, CalendarUnit::Day)
    } else {
        add_units(first, 1, unit).and_then(|date| date.yesterday().ok())
    };
    Some((len + 1, day_hit(last, END_HOUR, LIKELY_WEIGHT)))
}

/// The first day of the next month with this number; of the current one, if it has this number.
fn next_month_start(context: &TimeContext<'_>, month: i8) -> Option<Date> {
    let today = context.now.date();
    let year = today.year() + i16::from(month < today.month());
    Date::new(year, month, 1).ok()
}

/// "next Monday", "next week", "next week on Friday", "this Friday", "this weekend".
fn next_or_this(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let language = context.language;
    let times = &language.times;
    let next = sentence.longest_phrase_at(at, times.next);
    let len = next.or_else(|| sentence.longest_phrase_at(at, times.this))?;
    let word = sentence
        .word(at + len)
        .filter(|_| sentence.gap(at + len) == Gap::Space)?;
    let weeks = i64::from(next.is_some());
    if times.weekend.contains(&word) {
        return Some((
            len + 1,
            day_hit(day_of_week(context, weeks, 5), MORNING_HOUR, LIKELY_WEIGHT),
        ));
    }
    if let Some(weekday) = language.weekday(word) {
        let date = if next.is_some() {
            day_of_week(context, 1, weekday)
        } else {
            next_weekday(context, weekday)
        };
        return Some((len + 1, day_hit(date, MORNING_HOUR, LIKELY_WEIGHT)));
    }
    let unit = language.unit(word).filter(|_| next.is_some())?;
    if unit == CalendarUnit::Week {
        let joint = sentence
            .longest_phrase_at(at + len + 1, times.on)
            .unwrap_or(0);
        let day = sentence
            .word(at + len + 1 + joint)
            .filter(|_| sentence.gap(at + len + 1) == Gap::Space);
        if let Some(weekday) = day.and_then(|word| language.weekday(word)) {
            return Some((
                len + 2 + joint,
                day_hit(
                    day_of_week(context, 1, weekday),
                    MORNING_HOUR,
                    LIKELY_WEIGHT,
                ),
            ));
        }
    }
    if unit == CalendarUnit::Day {
        return Some((
            len + 1,
            day_hit(
                add_units(context.now.date(), 1, unit),
                MORNING_HOUR,
                LIKELY_WEIGHT,
            ),
        ));
    }
    Some((
        len + 1,
        day_hit(
            Some(first_day_of_period(context.now.date(), unit, 1)?),
            MORNING_HOUR,
            LIKELY_WEIGHT,
        ),
    ))
}

/// The next day with this name after today: a speaker who means today says "today".
fn next_weekday(context: &TimeContext<'_>, weekday: i8) -> Option<Date> {
    let today = context.now.date();
    let ahead = (weekday - today.weekday().to_monday_zero_offset() - 1).rem_euclid(7) + 1;
    add_units(today, i64::from(ahead), CalendarUnit::Day)
}

/// "Monday", "Friday next week". Short names are words of their own ("sat", "sun"): they count only
/// if capitalised or after a preposition.
fn weekday_at(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let language = context.language;
    let word = sentence.words.get(at)?;
    let weekday = language.weekday(&word.text)?;
    if word.text.len() <= 5
        && !word.is_capitalised
        && sentence
            .longest_phrase_before(at, language.times.prepositions)
            .is_none()
    {
        return None;
    }
    let of = sentence
        .longest_phrase_at(at + 1, language.times.of)
        .unwrap_or(0);
    let week = sentence
        .longest_phrase_at(at + 1 + of, language.times.next)
        .filter(|len| {
            let unit = sentence
                .word(at + 1 + of + len)
                .and_then(|word| language.unit(word));
            unit == Some(CalendarUnit::Week)
        });
    let through = sentence
        .longest_phrase_at(at + 1, language.times.through)
        .filter(|_| sentence.gap(at + 1) == Gap::Space);
    let last = through
        .and_then(|len| sentence.word(at + 1 + len))
        .and_then(|word| language.weekday(word));
    if let (Some(len), Some(_)) = (through, last) {
        // A range of days, of which no single one is meant.
        return Some((1 + len + 1, Some(TimeHit::Unreadable)));
    }
    match week {
        Some(len) => Some((
            1 + of + len + 1,
            day_hit(
                day_of_week(context, 1, weekday),
                MORNING_HOUR,
                LIKELY_WEIGHT,
            ),
        )),
        None => Some((
            1,
            day_hit(next_weekday(context, weekday), MORNING_HOUR, LIKELY_WEIGHT),
        )),
    }
}

/// The day of a month: "3", "3rd", "third"; with whether it is an ordinal.
pub(super) fn parse_ordinal(
    word: &str,
    context_ends: &[&str],
    names: &[(&str, i64)],
) -> Option<(i8, bool)> {
    if let Some((_, day)) = names.iter().find(|(name, _)| *name == word) {
        return i8::try_from(*day).ok().map(|day| (day, true));
    }
    let ended = context_ends.iter().find_map(|end| word.strip_suffix(*end));
    let digits = ended.unwrap_or(word).split('-').next()?;
    let plain = digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let day = digits
        .parse::<i8>()
        .ok()
        .filter(|day| plain && (1..=31).contains(day))?;
    Some((day, ended.is_some()))
}

/// The day of a month at a word.
fn day_number(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> Option<(i8, bool)> {
    parse_ordinal(
        sentence.word(at)?,
        context.language.times.ordinal_endings,
        context.language.times.ordinals,
    )
}

/// "June 3", "June 3rd, 2027", "3 June", "the 3rd of June 2027".
pub(crate) fn month_day(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let language = context.language;
    let month_at = |at: usize| sentence.word(at).and_then(|word| language.month(word));
    let (month, day, len) = if let Some(month) = month_at(at) {
        let (day, _) =
            day_number(sentence, at + 1, context).filter(|_| sentence.gap(at + 1) == Gap::Space)?;
        (month, day, 2)
    } else {
        let (day, _) = day_number(sentence, at, context)?;
        let of = sentence
            .longest_phrase_at(at + 1, language.times.of)
            .unwrap_or(0);
        (
            month_at(at + 1 + of).filter(|_| sentence.gap(at + 1) == Gap::Space)?,
            day,
            2 + of,
        )
    };
    let year = sentence
        .word(at + len)
        .filter(|word| word.len() == 4 && sentence.gap(at + len) != Gap::Break);
    let year = year
        .and_then(|word| word.parse::<i16>().ok())
        .filter(|year| (1900..=2999).contains(year));
    let hit = match year {
        Some(year) => {
            return Some((
                len + 1,
                day_hit(
                    Date::new(year, month, day).ok(),
                    MORNING_HOUR,
                    CERTAIN_WEIGHT,
                ),
            ));
        }
        // 2024 is a leap year, so it has every day that exists.
        None if Date::new(2024, month, day).is_err() => TimeHit::Unreadable,
        None => TimeHit::Day {
            day: DayReference::Yearly { month, day },
            hour: MORNING_HOUR,
            weight: CERTAIN_WEIGHT,
        },
    };
    Some((len, Some(hit)))
}

/// "on the 15th", "the 1st of next month".
fn day_of_month(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let language = context.language;
    let times = &language.times;
    let led = sentence.longest_phrase_at(at, times.on_the).unwrap_or(0);
    let (day, ordered) = day_number(sentence, at + led, context).filter(|(_, ordered)| *ordered)?;
    let end = at + led + 1;
    // "on the 3rd of June" is left to `month_day`.
    if month_day(sentence, at + led, context).is_some() {
        return month_day(sentence, at + led, context).map(|(len, hit)| (len + led, hit));
    }
    let is_month = |at: usize| {
        sentence.word(at).and_then(|word| language.unit(word)) == Some(CalendarUnit::Month)
    };
    if let Some(of) = sentence.longest_phrase_at(end, times.of) {
        let next = sentence.longest_phrase_at(end + of, times.next);
        let this = sentence
            .longest_phrase_at(end + of, times.this)
            .unwrap_or(0);
        return match next {
            Some(next) if is_month(end + of + next) => {
                let first = first_day_of_period(context.now.date(), CalendarUnit::Month, 1)?;
                Some((
                    led + 1 + of + next + 1,
                    day_hit(
                        Date::new(first.year(), first.month(), day).ok(),
                        MORNING_HOUR,
                        CERTAIN_WEIGHT,
                    ),
                ))
            }
            None if is_month(end + of + this) => Some((
                led + 1 + of + this + 1,
                Some(TimeHit::Day {
                    day: DayReference::Monthly(day),
                    hour: MORNING_HOUR,
                    weight: CERTAIN_WEIGHT,
                }),
            )),
            _ => None,
        };
    }
    let alone = led > 0 && ordered && !is_noun(sentence, end, language);
    alone.then_some((
        led + 1,
        Some(TimeHit::Day {
            day: DayReference::Monthly(day),
            hour: MORNING_HOUR,
            weight: CERTAIN_WEIGHT,
        }),
    ))
}

/// "in June": its first day, with little weight.
fn month_alone(sentence: &Sentence, at: usize, context: &TimeContext<'_>) -> ReadResult {
    let led = sentence.longest_phrase_at(at, context.language.times.in_month)?;
    let month = context.language.month(sentence.word(at + led)?)?;
    if month_day(sentence, at + led, context).is_some() {
        return None;
    }
    let year = sentence
        .word(at + led + 1)
        .filter(|word| word.len() == 4)
        .and_then(|word| word.parse::<i16>().ok());
    if let Some(year) = year.filter(|year| (1900..=2999).contains(year)) {
        return Some((
            led + 2,
            day_hit(Date::new(year, month, 1).ok(), MORNING_HOUR, 0),
        ));
    }
    Some((
        led + 1,
        Some(TimeHit::Day {
            day: DayReference::Yearly { month, day: 1 },
            hour: MORNING_HOUR,
            weight: 0,
        }),
    ))
}
