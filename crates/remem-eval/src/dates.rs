//! Parses dates as the datasets write them. May not guess: a date in another form is refused.

use remem_core::Timestamp;
use remem_wire::time::Instant;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Parses "1:56 pm on 8 May, 2023", as UTC: the dataset names no zone.
pub fn parse_locomo_date(text: &str) -> Option<Timestamp> {
    let (clock, date) = text.trim().split_once(" on ")?;
    let (clock, half) = clock.split_once(' ')?;
    let (hour, minute) = clock.split_once(':')?;
    let hour: u32 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    let hour = match half {
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    let (day, rest) = date.split_once(' ')?;
    let (month, year) = rest.split_once(", ")?;
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    instant(year, &month.to_string(), day, &hour.to_string(), minute)
}

/// Parses "2023/05/20 (Sat) 02:21", as UTC.
pub fn parse_longmemeval_date(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.trim().split_once(" (")?;
    let (_, clock) = rest.split_once(") ")?;
    let (year, date) = date.split_once('/')?;
    let (month, day) = date.split_once('/')?;
    let (hour, minute) = clock.split_once(':')?;
    instant(year, month, day, hour, minute)
}

fn instant(year: &str, month: &str, day: &str, hour: &str, minute: &str) -> Option<Timestamp> {
    Instant::parse(&format!(
        "{year:0>4}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:00Z"
    ))
    .map(|at| at.0)
}

/// Formats the day of an instant, as "8 May 2023".
pub fn format_day(at: Timestamp) -> String {
    let text = at.rfc3339();
    let mut parts = text.split(['-', 'T']);
    let year = parts.next().unwrap_or_default();
    let month = parts.next().unwrap_or_default();
    let day = parts.next().unwrap_or_default();
    let name = month
        .parse::<usize>()
        .ok()
        .and_then(|month| MONTHS.get(month.wrapping_sub(1)))
        .copied()
        .unwrap_or_default();
    format!("{} {name} {year}", day.trim_start_matches('0'))
}
