//! days: reads the names of days: "tomorrow", "next Monday", "June 3", "the 15th", "end of the
//! month". It does not deal with times of day.

use super::language::Unit;
use super::sentence::{Gap, Sentence};
use super::when::{CLEAR, Context, Day, END, Hit, MORNING, Read, SURE, counts, moved, named};
use jiff::civil::Date;

/// Reads a day at a word. The hit is empty if the surroundings make it something else: an attribute
/// of a noun, or the past.
pub(super) fn read(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let times = &context.language.times;
    let (len, hit) = self::at(sentence, at, context)?;
    if sentence.any_before(at, times.gone).is_some() {
        return Some((len, None));
    }
    let noun = counts(sentence, at + len, context.language);
    let led = sentence.any_before(at, times.prepositions).is_some()
        || sentence.any(at, times.on_the).is_some();
    let adverb = named(sentence, at, times.days).is_some();
    let attribute = noun && !adverb && !led;
    Some((len, hit.filter(|_| !attribute)))
}

/// Reads a day at a word, without regard to the words around it.
pub(super) fn at(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    relative(sentence, at, context)
        .or_else(|| end_of(sentence, at, context))
        .or_else(|| next(sentence, at, context))
        .or_else(|| weekday(sentence, at, context))
        .or_else(|| month_day(sentence, at, context))
        .or_else(|| day_of_month(sentence, at, context))
        .or_else(|| month(sentence, at, context))
}

/// The hit for a date; unreadable if the date does not exist.
fn on(date: Option<Date>, hour: i8, weight: i32) -> Option<Hit> {
    Some(date.map_or(Hit::Unreadable, |date| Hit::Day {
        day: Day::On(date),
        hour,
        weight,
    }))
}

/// "tomorrow", "the day after tomorrow". A task for today is due at the end of it.
fn relative(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let (len, days) = named(sentence, at, context.language.times.days)?;
    let hour = if days == 0 { END } else { MORNING };
    Some((
        len,
        on(
            moved(context.now.date(), i64::from(days), Unit::Day),
            hour,
            SURE,
        ),
    ))
}

/// The Monday of the week of a date.
fn monday(date: Date) -> Option<Date> {
    moved(
        date,
        -i64::from(date.weekday().to_monday_zero_offset()),
        Unit::Day,
    )
}

/// The given day, counted from Monday, of the week that is `weeks` weeks after the current one.
fn of_week(context: &Context<'_>, weeks: i64, weekday: i8) -> Option<Date> {
    moved(
        monday(context.now.date())?,
        weeks * 7 + i64::from(weekday),
        Unit::Day,
    )
}

/// The first day of the period that is `ahead` periods after the one of `date`.
pub(crate) fn first_of(date: Date, unit: Unit, ahead: i64) -> Option<Date> {
    let month = match unit {
        Unit::Month => date.month(),
        Unit::Quarter => (date.month() - 1) / 3 * 3 + 1,
        Unit::Year => 1,
        Unit::Week => return moved(monday(date)?, ahead, unit),
        _ => return None,
    };
    moved(Date::new(date.year(), month, 1).ok()?, ahead, unit)
}

/// "end of the month", "end of next week", "end of June".
fn end_of(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let times = &context.language.times;
    let mut len = sentence.any(at, times.end_of)?;
    let next = sentence.any(at + len, times.next).unwrap_or(0);
    len += next;
    let word = sentence.word(at + len)?;
    if let Some(month) = context.language.month(word) {
        let first = next_month(context, month)?;
        return Some((len + 1, on(Some(first.last_of_month()), END, CLEAR)));
    }
    let unit = context
        .language
        .unit(word)
        .filter(|unit| !matches!(unit, Unit::Minute | Unit::Hour | Unit::Day))?;
    let first = first_of(context.now.date(), unit, i64::from(next > 0))?;
    // Reminders are about work, so a week ends on Friday.
    let last = if unit == Unit::Week {
        moved(first, 4, Unit::Day)
    } else {
        moved(first, 1, unit).and_then(|date| date.yesterday().ok())
    };
    Some((len + 1, on(last, END, CLEAR)))
}

/// The first day of the next month with this number; of the current one, if it has this number.
fn next_month(context: &Context<'_>, month: i8) -> Option<Date> {
    let today = context.now.date();
    let year = today.year() + i16::from(month < today.month());
    Date::new(year, month, 1).ok()
}

/// "next Monday", "next week", "next week on Friday", "this Friday", "this weekend".
fn next(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let language = context.language;
    let times = &language.times;
    let next = sentence.any(at, times.next);
    let len = next.or_else(|| sentence.any(at, times.this))?;
    let word = sentence
        .word(at + len)
        .filter(|_| sentence.gap(at + len) == Gap::Space)?;
    let weeks = i64::from(next.is_some());
    if times.weekend.contains(&word) {
        return Some((len + 1, on(of_week(context, weeks, 5), MORNING, CLEAR)));
    }
    if let Some(weekday) = language.weekday(word) {
        let date = if next.is_some() {
            of_week(context, 1, weekday)
        } else {
            after_today(context, weekday)
        };
        return Some((len + 1, on(date, MORNING, CLEAR)));
    }
    let unit = language.unit(word).filter(|_| next.is_some())?;
    if unit == Unit::Week {
        let joint = sentence.any(at + len + 1, times.on).unwrap_or(0);
        let day = sentence
            .word(at + len + 1 + joint)
            .filter(|_| sentence.gap(at + len + 1) == Gap::Space);
        if let Some(weekday) = day.and_then(|word| language.weekday(word)) {
            return Some((
                len + 2 + joint,
                on(of_week(context, 1, weekday), MORNING, CLEAR),
            ));
        }
    }
    if unit == Unit::Day {
        return Some((
            len + 1,
            on(moved(context.now.date(), 1, unit), MORNING, CLEAR),
        ));
    }
    Some((
        len + 1,
        on(Some(first_of(context.now.date(), unit, 1)?), MORNING, CLEAR),
    ))
}

/// The next day with this name after today: a speaker who means today says "today".
fn after_today(context: &Context<'_>, weekday: i8) -> Option<Date> {
    let today = context.now.date();
    let ahead = (weekday - today.weekday().to_monday_zero_offset() - 1).rem_euclid(7) + 1;
    moved(today, i64::from(ahead), Unit::Day)
}

/// "Monday", "Friday next week". Short names are words of their own ("sat", "sun"): they count only
/// if capitalised or after a preposition.
fn weekday(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let language = context.language;
    let word = sentence.words.get(at)?;
    let weekday = language.weekday(&word.text)?;
    if word.text.len() <= 5
        && !word.capital
        && sentence
            .any_before(at, language.times.prepositions)
            .is_none()
    {
        return None;
    }
    let of = sentence.any(at + 1, language.times.of).unwrap_or(0);
    let week = sentence
        .any(at + 1 + of, language.times.next)
        .filter(|len| {
            let unit = sentence
                .word(at + 1 + of + len)
                .and_then(|word| language.unit(word));
            unit == Some(Unit::Week)
        });
    let through = sentence
        .any(at + 1, language.times.through)
        .filter(|_| sentence.gap(at + 1) == Gap::Space);
    let last = through
        .and_then(|len| sentence.word(at + 1 + len))
        .and_then(|word| language.weekday(word));
    if let (Some(len), Some(_)) = (through, last) {
        // A range of days, of which no single one is meant.
        return Some((1 + len + 1, Some(Hit::Unreadable)));
    }
    match week {
        Some(len) => Some((
            1 + of + len + 1,
            on(of_week(context, 1, weekday), MORNING, CLEAR),
        )),
        None => Some((1, on(after_today(context, weekday), MORNING, CLEAR))),
    }
}

/// The day of a month: "3", "3rd", "third"; with whether it is an ordinal.
pub(super) fn ordinal(
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
fn day_number(sentence: &Sentence, at: usize, context: &Context<'_>) -> Option<(i8, bool)> {
    ordinal(
        sentence.word(at)?,
        context.language.times.ordinal_ends,
        context.language.times.ordinals,
    )
}

/// "June 3", "June 3rd, 2027", "3 June", "the 3rd of June 2027".
pub(crate) fn month_day(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let language = context.language;
    let month_at = |at: usize| sentence.word(at).and_then(|word| language.month(word));
    let (month, day, len) = if let Some(month) = month_at(at) {
        let (day, _) =
            day_number(sentence, at + 1, context).filter(|_| sentence.gap(at + 1) == Gap::Space)?;
        (month, day, 2)
    } else {
        let (day, _) = day_number(sentence, at, context)?;
        let of = sentence.any(at + 1, language.times.of).unwrap_or(0);
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
        Some(year) => return Some((len + 1, on(Date::new(year, month, day).ok(), MORNING, SURE))),
        // 2024 is a leap year, so it has every day that exists.
        None if Date::new(2024, month, day).is_err() => Hit::Unreadable,
        None => Hit::Day {
            day: Day::Yearly { month, day },
            hour: MORNING,
            weight: SURE,
        },
    };
    Some((len, Some(hit)))
}

/// "on the 15th", "the 1st of next month".
fn day_of_month(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let language = context.language;
    let times = &language.times;
    let led = sentence.any(at, times.on_the).unwrap_or(0);
    let (day, ordered) = day_number(sentence, at + led, context).filter(|(_, ordered)| *ordered)?;
    let end = at + led + 1;
    // "on the 3rd of June" is left to `month_day`.
    if month_day(sentence, at + led, context).is_some() {
        return month_day(sentence, at + led, context).map(|(len, hit)| (len + led, hit));
    }
    let is_month =
        |at: usize| sentence.word(at).and_then(|word| language.unit(word)) == Some(Unit::Month);
    if let Some(of) = sentence.any(end, times.of) {
        let next = sentence.any(end + of, times.next);
        let this = sentence.any(end + of, times.this).unwrap_or(0);
        return match next {
            Some(next) if is_month(end + of + next) => {
                let first = first_of(context.now.date(), Unit::Month, 1)?;
                Some((
                    led + 1 + of + next + 1,
                    on(
                        Date::new(first.year(), first.month(), day).ok(),
                        MORNING,
                        SURE,
                    ),
                ))
            }
            None if is_month(end + of + this) => Some((
                led + 1 + of + this + 1,
                Some(Hit::Day {
                    day: Day::Monthly(day),
                    hour: MORNING,
                    weight: SURE,
                }),
            )),
            _ => None,
        };
    }
    let alone = led > 0 && ordered && !counts(sentence, end, language);
    alone.then_some((
        led + 1,
        Some(Hit::Day {
            day: Day::Monthly(day),
            hour: MORNING,
            weight: SURE,
        }),
    ))
}

/// "in June": its first day, with little weight.
fn month(sentence: &Sentence, at: usize, context: &Context<'_>) -> Read {
    let led = sentence.any(at, context.language.times.in_month)?;
    let month = context.language.month(sentence.word(at + led)?)?;
    if month_day(sentence, at + led, context).is_some() {
        return None;
    }
    let year = sentence
        .word(at + led + 1)
        .filter(|word| word.len() == 4)
        .and_then(|word| word.parse::<i16>().ok());
    if let Some(year) = year.filter(|year| (1900..=2999).contains(year)) {
        return Some((led + 2, on(Date::new(year, month, 1).ok(), MORNING, 0)));
    }
    Some((
        led + 1,
        Some(Hit::Day {
            day: Day::Yearly { month, day: 1 },
            hour: MORNING,
            weight: 0,
        }),
    ))
}
