//! clock: reads times of day: "at 5pm", "17:30", "half past nine", "noon", "tonight", "in the
//! morning". It does not decide on which day.

use super::language::{Language, TimeWords};
use super::sentence::{Gap, Sentence};
use super::when::{ReadResult, TimeHit, ZoneReference, is_noun, longest_name};

/// A time of day as far as its own words determine it.
struct ClockTime {
    /// The number of words that state it.
    len: usize,
    hour: i8,
    minute: i8,
    /// Whether twelve hours later is ruled out.
    is_certain: bool,
}

/// Reads a time of day at a word. `adjacent` says that a day comes right before it.
pub(super) fn read_time_of_day(
    sentence: &Sentence,
    at: usize,
    language: &Language,
    adjacent: bool,
) -> ReadResult {
    let times = &language.times;
    let marked = sentence.longest_phrase_at(at, times.at).unwrap_or(0);
    let start = at + marked;
    let name = || {
        longest_name(sentence, start, times.named_hours).map(|(len, hour)| ClockTime {
            len,
            hour,
            minute: 0,
            is_certain: true,
        })
    };
    let spoken = name()
        .or_else(|| fractional_hour(sentence, start, times))
        .or_else(|| digit_time(sentence, start, marked > 0, adjacent, language))
        .or_else(|| spelled_hour(sentence, start, language).filter(|_| marked > 0))?;
    let (zone_len, zone) = read_zone(sentence, start + spoken.len, language);
    let ClockTime {
        len,
        hour,
        minute,
        is_certain: sure,
    } = spoken;
    Some((
        marked + len + zone_len,
        Some(TimeHit::Clock {
            hour,
            minute,
            sure,
            zone,
        }),
    ))
}

/// "half past nine", "quarter to 5".
fn fractional_hour(sentence: &Sentence, at: usize, times: &TimeWords) -> Option<ClockTime> {
    let (len, minutes) = longest_name(sentence, at, times.fractions)?;
    let word = sentence.word(at + len)?;
    let hour = hour_and_minute(word)
        .map(|(hour, _)| hour)
        .or_else(|| hour_by_name(word, times))?;
    let all = (i16::from(hour) * 60 + i16::from(minutes)).rem_euclid(24 * 60);
    let part = |value: i16| i8::try_from(value).ok();
    Some(ClockTime {
        len: len + 1,
        hour: part(all / 60)?,
        minute: part(all % 60)?,
        is_certain: hour > 12,
    })
}

/// "at nine": an hour in words, if nothing follows that it could count.
fn spelled_hour(sentence: &Sentence, at: usize, language: &Language) -> Option<ClockTime> {
    let hour = hour_by_name(sentence.word(at)?, &language.times)?;
    let o_clock = sentence
        .word(at + 1)
        .is_some_and(|word| language.times.o_clock.contains(&word));
    (o_clock || !is_noun(sentence, at + 1, language)).then_some(ClockTime {
        len: 1 + usize::from(o_clock),
        hour,
        minute: 0,
        is_certain: false,
    })
}

/// The hour that a word for a number names.
fn hour_by_name(word: &str, times: &TimeWords) -> Option<i8> {
    let (_, value) = times.numbers.iter().find(|(name, _)| *name == word)?;
    // "One" is left out, because it is a pronoun and an article as well.
    i8::try_from(*value)
        .ok()
        .filter(|hour| (2..=12).contains(hour))
}

/// "5pm", "5:30 pm", "17:30", and after a word such as "at" also "9".
fn digit_time(
    sentence: &Sentence,
    at: usize,
    marked: bool,
    adjacent: bool,
    language: &Language,
) -> Option<ClockTime> {
    let times = &language.times;
    let word = sentence.word(at)?;
    let half = |names: &[&'static str]| {
        names
            .iter()
            .find_map(|name| word.strip_suffix(*name))
            .filter(|rest| !rest.is_empty())
    };
    let (digits, glued) = match (half(times.am), half(times.pm)) {
        (Some(rest), _) => (rest, Some(false)),
        (_, Some(rest)) => (rest, Some(true)),
        _ => (word, None),
    };
    let (hour, minute) = hour_and_minute(digits)?;
    let apart = (sentence.gap(at + 1) == Gap::Space)
        .then(|| sentence.word(at + 1))
        .flatten();
    let pm = glued.or_else(|| {
        let suffix = apart?;
        let pm = times.pm.contains(&suffix);
        (pm || times.am.contains(&suffix)).then_some(pm)
    });
    let o_clock = apart.is_some_and(|word| times.o_clock.contains(&word));
    let len = 1 + usize::from(pm.is_some() && glued.is_none()) + usize::from(o_clock);
    let beside = adjacent
        || apart.is_some_and(|word| language.is_calendar(word))
        || sentence
            .longest_phrase_before(at, times.prepositions)
            .is_some();
    let precise = digits.contains(':') && (marked || beside);
    // A bare number is an hour only if nothing follows that it could count.
    let zoned = read_zone(sentence, at + len, language).0 > 0;
    let dated = apart.is_some_and(|word| language.month(word).is_some());
    let bare =
        marked && minute.is_none() && !dated && (zoned || !is_noun(sentence, at + 1, language));
    if pm.is_none() && !precise && !o_clock && !bare {
        return None;
    }
    let hour = match pm {
        Some(_) if hour > 12 && minute.is_none() => return None,
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    let sure = pm.is_some()
        || hour > 12
        || digits.starts_with('0')
        || digits.contains(':') && digits.len() == 5;
    Some(ClockTime {
        len,
        hour,
        minute: minute.unwrap_or(0),
        is_certain: sure,
    })
}

/// The time zone named at a word, and the number of its words; no words for the speaker's own zone.
fn read_zone(sentence: &Sentence, at: usize, language: &Language) -> (usize, ZoneReference) {
    let word = sentence
        .word(at)
        .filter(|_| sentence.gap(at) != Gap::Break)
        .unwrap_or_default();
    if language.times.utc.contains(&word) {
        (1, ZoneReference::Utc)
    } else if language.times.zones.contains(&word) {
        (1, ZoneReference::Unknown)
    } else {
        (0, ZoneReference::Own)
    }
}

/// The hour and, if written, the minute of "17", "5:30" or "5.30".
fn hour_and_minute(digits: &str) -> Option<(i8, Option<i8>)> {
    let (hour, rest) = digits
        .split_once([':', '.'])
        .map_or((digits, None), |(hour, rest)| (hour, Some(rest)));
    let plain = |text: &str| {
        (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let part = |text: &str, max: i8| text.parse::<i8>().ok().filter(|n| *n <= max && plain(text));
    let minute = match rest {
        Some(rest) if rest.len() == 2 => Some(part(rest, 59)?),
        Some(_) => return None,
        None => None,
    };
    Some((part(hour, 23)?, minute))
}

/// Reads a part of the day: "tonight", "EOD"; "in the morning"; "morning" after a day.
pub(super) fn read_part_of_day(
    sentence: &Sentence,
    at: usize,
    language: &Language,
    adjacent: bool,
) -> ReadResult {
    let times = &language.times;
    if let Some((len, hour)) = longest_name(sentence, at, times.today_at) {
        return Some((len, Some(TimeHit::PartOfDay { hour, today: true })));
    }
    let marked = sentence.longest_phrase_at(at, times.in_the).unwrap_or(0);
    let (len, hour) = longest_name(sentence, at + marked, times.parts_of_day)?;
    (marked > 0 || adjacent).then_some((
        marked + len,
        Some(TimeHit::PartOfDay { hour, today: false }),
    ))
}
