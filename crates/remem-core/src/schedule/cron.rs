//! Cron lines of five fields: minute, hour, day of the month, month, day of the week. Lists,
//! ranges, steps and English names; if both days are restricted, a day that fits either one counts,
//! as in every cron.

use crate::ids::Timestamp;
use crate::rejection::Rejection;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// A parsed cron line. Bit n of a field represents the value n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    either_day: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The most days that are searched: a day of a month that has to be a certain day of the week may
/// be 40 years away.
const DAYS_MAX: u32 = 366 * 41;

impl Cron {
    /// Parses a line. Refuses one that is malformed, and one that no day ever matches.
    pub fn parse(line: &str) -> Result<Cron, Rejection> {
        let invalid = |rule| Rejection::Invalid {
            field: "cron",
            rule,
        };
        let malformed = || {
            invalid("must be five fields: minute, hour, day of the month, month, day of the week")
        };
        let fields: Vec<&str> = if line.len() <= super::TEXT_MAX {
            line.split_whitespace().collect()
        } else {
            Vec::new()
        };
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(malformed());
        };
        let weekdays = parse_field(weekday, 0, 7, &WEEKDAYS, 0).ok_or_else(malformed)?;
        let cron = Cron {
            minutes: parse_field(minute, 0, 59, &[], 0).ok_or_else(malformed)?,
            hours: parse_field(hour, 0, 23, &[], 0).ok_or_else(malformed)?,
            days: parse_field(day, 1, 31, &[], 0).ok_or_else(malformed)?,
            months: parse_field(month, 1, 12, &MONTHS, 1).ok_or_else(malformed)?,
            // Both 0 and 7 are Sunday.
            weekdays: (weekdays & 0x7F) | (weekdays >> 7),
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        let some_day = Date::constant(2000, 1, 1);
        if !days_from(some_day).any(|date| cron.has_day(date)) {
            return Err(invalid(
                "never comes up: no month that it names has such a day",
            ));
        }
        Ok(cron)
    }

    /// The first tick after `now`. Ticks in the order of local time are also in order as instants,
    /// so the first later one is the result.
    pub fn next(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let here = jiff::Timestamp::from_millisecond(now.0)
            .ok()?
            .to_zoned(zone.clone())
            .date();
        // A local time that a gap skips belongs to the day before the gap.
        let first = here.yesterday().ok()?;
        days_from(first)
            .filter(|date| self.has_day(*date))
            .find_map(|date| self.first_of_day(date, zone, now))
    }

    fn first_of_day(&self, date: Date, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let times = values(self.hours)
            .flat_map(|hour| values(self.minutes).map(move |minute| date.at(hour, minute, 0, 0)));
        times
            .filter_map(|time| instant(zone, time))
            .find(|tick| *tick > now)
    }

    fn has_day(&self, date: Date) -> bool {
        let has =
            |bits: u64, value: i8| u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0);
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month())
            && if self.either_day {
                day || weekday
            } else {
                day && weekday
            }
    }
}

fn days_from(first: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |date| date.tomorrow().ok()).take(DAYS_MAX as usize)
}

fn values(bits: u64) -> impl Iterator<Item = i8> {
    (0..64).filter(move |value| bits & (1 << value) != 0)
}

/// The instant of a local time in a zone: the first one if it occurs twice, or the first instant
/// after the gap that skips it.
fn instant(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let found = match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(time).ok()?
        }
        AmbiguousOffset::Gap { after, .. } => {
            // By the later offset it is an instant before the gap, so the next transition is the
            // end of the gap.
            let before = after.to_timestamp(time).ok()?;
            zone.following(before).next()?.timestamp()
        }
    };
    Some(Timestamp(found.as_millisecond()))
}

/// The values of a field as bits; `None` if it is malformed.
fn parse_field(text: &str, min: u32, max: u32, names: &[&str], names_from: u32) -> Option<u64> {
    text.split(',').try_fold(0, |bits, part| {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(parse_number(step)?)),
        };
        let value = |text: &str| {
            let named = names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(text));
            let named = named
                .and_then(|place| u32::try_from(place).ok())
                .map(|place| place + names_from);
            named
                .or_else(|| parse_number(text))
                .filter(|value| (min..=max).contains(value))
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((from, to)) => (value(from)?, value(to)?),
            // A step without a range continues to the maximum.
            None => (
                value(range)?,
                if step.is_some() { max } else { value(range)? },
            ),
        };
        let step = step.unwrap_or(1);
        if from > to || step == 0 {
            return None;
        }
        Some(
            (from..=to)
                .step_by(usize::try_from(step).ok()?)
                .fold(bits, |bits, value| bits | 1 << value),
        )
    })
}

fn parse_number(text: &str) -> Option<u32> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_fields_parse_lists_ranges_steps_and_names() {
        let rows: [(&str, &[i8]); 8] = [
            ("*/15", &[0, 15, 30, 45]),
            ("5", &[5]),
            ("1-4", &[1, 2, 3, 4]),
            ("50/5", &[50, 55]),
            ("10-20/5", &[10, 15, 20]),
            ("1,2,40-41", &[1, 2, 40, 41]),
            ("59", &[59]),
            ("7,7", &[7]),
        ];
        for (text, expected) in rows {
            assert_eq!(
                values(parse_field(text, 0, 59, &[], 0).unwrap()).collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
        assert_eq!(Cron::parse("0 0 * * 7"), Cron::parse("0 0 * * SUN"));
        assert_eq!(
            Cron::parse("0 0 * jan-mar mon-fri").map(|c| (c.months, c.weekdays)),
            Ok((0b1110, 0b11_1110))
        );
    }

    #[test]
    fn malformed_cron_lines_are_rejected() {
        for bad in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "-1 * * * *",
            "1- * * * *",
            "1,,2 * * * *",
            "* * * foo *",
            "@daily",
            "+1 * * * *",
            "001 * * * *",
            "*/ * * * *",
            "0 0 31 2 *",
            "0 0 30 feb *",
        ] {
            assert_eq!(Cron::parse(bad).unwrap_err().field(), Some("cron"), "{bad}");
        }
    }
}
