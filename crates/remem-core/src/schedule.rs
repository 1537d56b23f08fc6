//! Schedules: instants that repeat at an interval or by a cron line, in a time zone. Pure: the
//! zones are compiled in, and the current instant is an argument.
//!
//! A local time that a zone skips in spring is due at the first instant after the gap; one that
//! occurs twice in autumn is due the first time only.

mod cron;

use crate::ids::Timestamp;
use crate::rejection::Rejection;
use cron::Cron;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Unit, Zoned};

/// The shortest interval between two ticks, in milliseconds.
const EVERY_MS_MIN: i64 = 60_000;
/// The longest interval between two ticks, in years.
const EVERY_YEARS_MAX: i64 = 10;
/// A text that is longer than this is neither a cron line nor a duration.
const TEXT_MAX: usize = 256;

/// A repeated time: an interval or a cron line, in a time zone.
#[derive(Clone, Debug)]
pub struct Timing {
    rule: TimingRule,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum TimingRule {
    Every(Box<Span>),
    Cron(Box<Cron>),
}

impl Timing {
    /// Reads either an ISO 8601 duration or a cron line, and the name of a time zone.
    pub fn parse(every: Option<&str>, cron: Option<&str>, zone: &str) -> Result<Timing, Rejection> {
        let zone = self::parse_zone(zone)?;
        let rule = match (every, cron) {
            (Some(every), None) => TimingRule::Every(Box::new(parse_interval(every)?)),
            (None, Some(line)) => TimingRule::Cron(Box::new(Cron::parse(line)?)),
            _ => {
                return Err(Rejection::Invalid {
                    field: "every",
                    rule: "or cron is required, not both",
                });
            }
        };
        Ok(Timing { rule, zone })
    }

    /// The first tick after `now`. Ticks of an interval are counted from `anchor`, so that they
    /// keep their time of day and a late tick does not move the later ones.
    #[must_use]
    pub fn next(&self, anchor: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            TimingRule::Cron(cron) => cron.next(&self.zone, now),
            TimingRule::Every(span) => self.next_every(span, anchor, now),
        }
    }

    /// The last tick after `after` and not after `now`. If several were missed, only this one is
    /// made up for.
    #[must_use]
    pub fn latest(&self, anchor: Timestamp, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        latest_tick(|from| self.next(anchor, from), after, now)
    }

    fn next_every(&self, span: &Span, anchor: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let start = jiff::Timestamp::from_millisecond(anchor.0)
            .ok()?
            .to_zoned(self.zone.clone());
        // The number of ticks that have certainly passed: a day has at most 25 hours, a month 31
        // days. The rest is found by counting.
        let passed = (now.0 - anchor.0).max(0) / longest_ms(span).max(1);
        for n in passed..=i64::MAX {
            let tick = start
                .checked_add(span.checked_mul(n).ok()?)
                .ok()?
                .timestamp()
                .as_millisecond();
            if tick > now.0 {
                return Some(Timestamp(tick));
            }
        }
        None
    }
}

/// The time zone with this name.
pub fn parse_zone(name: &str) -> Result<TimeZone, Rejection> {
    let zone = if name.len() <= TEXT_MAX {
        TimeZone::get(name).ok()
    } else {
        None
    };
    zone.ok_or(Rejection::Invalid {
        field: "zone",
        rule: "must be the name of a time zone, such as Europe/Berlin",
    })
}

/// The last tick after `after` and not after `now`, where `next` gives the first tick after an
/// instant.
pub(crate) fn latest_tick(
    next: impl Fn(Timestamp) -> Option<Timestamp>,
    after: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let due = |from: Timestamp| next(from).filter(|tick| *tick <= now);
    let mut latest = due(after)?;
    // There is a tick after `from` and none after `to`. Bisection takes some forty steps at the
    // most, where going from tick to tick could take millions.
    let mut from = latest;
    let mut to = now;
    while to.0 - from.0 > 1 {
        let middle = Timestamp(from.0 + (to.0 - from.0) / 2);
        match due(middle) {
            Some(tick) => (latest, from) = (tick, tick),
            None => to = middle,
        }
    }
    Some(due(from).unwrap_or(latest))
}

fn parse_interval(text: &str) -> Result<Span, Rejection> {
    let invalid = Rejection::Invalid {
        field: "every",
        rule: "must be an ISO 8601 duration from PT1M to P10Y, such as P1D",
    };
    let parsed = if text.len() <= TEXT_MAX {
        text.parse::<Span>().ok()
    } else {
        None
    };
    let span = parsed
        .filter(|_| text.starts_with(['P', 'p']))
        .ok_or(invalid.clone())?;
    let day = SpanRelativeTo::days_are_24_hours();
    // Years and months have no fixed length; even the shortest month is long enough.
    let whole = span.get_years() == 0 && span.get_months() == 0;
    let shortest = if whole {
        span.total((Unit::Millisecond, day)).unwrap_or(0.0)
    } else {
        f64::INFINITY
    };
    let reference = Zoned::new(jiff::Timestamp::UNIX_EPOCH, TimeZone::UTC);
    let years = reference.checked_add(span).ok().map(|end| end.year());
    if !span.is_positive()
        || shortest < EVERY_MS_MIN as f64
        || years.is_none_or(|year| i64::from(year) > 1970 + EVERY_YEARS_MAX)
    {
        return Err(invalid);
    }
    Ok(span)
}

fn longest_ms(span: &Span) -> i64 {
    let days = i64::from(span.get_years()) * 366
        + i64::from(span.get_months()) * 31
        + i64::from(span.get_weeks()) * 7;
    let hours = (days + i64::from(span.get_days())) * 25 + i64::from(span.get_hours());
    let seconds = (hours * 60 + span.get_minutes()) * 60 + span.get_seconds();
    seconds * 1_000
        + span.get_milliseconds()
        + span.get_microseconds() / 1_000
        + span.get_nanoseconds() / 1_000_000
        + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn ticks(timing: &Timing, anchor: &str, from: &str, count: usize) -> Vec<String> {
        let mut now = at(from);
        let mut next = || {
            now = timing.next(at(anchor), now).unwrap();
            now.rfc3339().replace(":00.000Z", "Z")
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn intervals_keep_their_local_time_of_day() {
        let every = |text, zone| Timing::parse(Some(text), None, zone).unwrap();
        let daily = every("P1D", "Europe/Berlin");
        // 03:00 in Berlin, before and after the change of 29 March 2026.
        assert_eq!(
            ticks(&daily, "2026-03-27T02:00Z", "2026-03-27T02:00Z", 3),
            [
                "2026-03-28T02:00Z",
                "2026-03-29T01:00Z",
                "2026-03-30T01:00Z"
            ]
        );
        let monthly = every("P1M", "UTC");
        assert_eq!(
            ticks(&monthly, "2026-01-31T00:00Z", "2026-02-01T00:00Z", 3),
            [
                "2026-02-28T00:00Z",
                "2026-03-31T00:00Z",
                "2026-04-30T00:00Z"
            ]
        );
        // However many ticks were missed, the next one is in the future.
        assert_eq!(
            ticks(
                &every("PT1M", "UTC"),
                "2020-01-01T00:00Z",
                "2026-05-05T12:34:56Z",
                1
            ),
            ["2026-05-05T12:35Z"]
        );
        assert_eq!(
            ticks(&daily, "1996-01-01T02:00Z", "2026-07-01T02:00Z", 1),
            ["2026-07-02T01:00Z"]
        );
        assert_eq!(
            ticks(&daily, "2026-01-01T02:00Z", "2020-01-01T00:00Z", 1),
            ["2026-01-01T02:00Z"],
            "none before the first"
        );
    }

    #[test]
    fn invalid_timings_are_rejected_without_echoing_them() {
        let refused = |every: Option<&str>, cron: Option<&str>, zone: &str| {
            Timing::parse(every, cron, zone).unwrap_err()
        };
        for every in [
            "",
            "canary",
            "PT59S",
            "PT59.999S",
            "-PT1H",
            "P0D",
            "P11Y",
            "1 day",
            "PT",
            "P1D\u{0}",
            &"P1D".repeat(100),
        ] {
            let error = refused(Some(every), None, "UTC");
            assert_eq!(error.field(), Some("every"), "{every}");
            assert!(!error.to_string().contains("canary"));
        }
        for zone in [
            "",
            "Mars/Olympus",
            "../etc/passwd",
            "+25:99",
            &"x".repeat(1_000),
        ] {
            assert_eq!(
                refused(Some("P1D"), None, zone).field(),
                Some("zone"),
                "{zone}"
            );
        }
        assert_eq!(refused(None, None, "UTC").field(), Some("every"));
        assert_eq!(
            refused(Some("P1D"), Some("* * * * *"), "UTC").field(),
            Some("every")
        );
        for good in ["PT1M", "PT90S", "P1D", "P1W", "P1M", "P10Y", "P1DT12H"] {
            assert!(
                Timing::parse(Some(good), None, "America/New_York").is_ok(),
                "{good}"
            );
        }
    }

    #[test]
    fn cron_ticks_follow_the_time_zone_across_dst() {
        // In Berlin 02:00–03:00 does not exist on 29 March 2026, and 02:00–03:00 exists twice on 25
        // October 2026.
        let rows: [(&str, &str, &str, &[&str]); 13] = [
            (
                "0 3 * * *",
                "UTC",
                "2026-01-01T03:00Z",
                &["2026-01-02T03:00Z", "2026-01-03T03:00Z"],
            ),
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-03-28T00:00Z",
                &[
                    "2026-03-28T01:30Z",
                    "2026-03-29T01:00Z",
                    "2026-03-30T00:30Z",
                ],
            ),
            (
                "*/20 2 * * *",
                "Europe/Berlin",
                "2026-03-28T12:00Z",
                &["2026-03-29T01:00Z", "2026-03-30T00:00Z"],
            ),
            (
                "*/30 * * * *",
                "Europe/Berlin",
                "2026-03-29T00:20Z",
                &[
                    "2026-03-29T00:30Z",
                    "2026-03-29T01:00Z",
                    "2026-03-29T01:30Z",
                ],
            ),
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-10-24T12:00Z",
                &["2026-10-25T00:30Z", "2026-10-26T01:30Z"],
            ),
            (
                "*/30 * * * *",
                "Europe/Berlin",
                "2026-10-24T23:45Z",
                &[
                    "2026-10-25T00:00Z",
                    "2026-10-25T00:30Z",
                    "2026-10-25T02:00Z",
                ],
            ),
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-08T00:00Z",
                &["2026-03-08T07:00Z", "2026-03-09T06:30Z"],
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-11-01T00:00Z",
                &["2026-11-01T05:30Z", "2026-11-02T06:30Z"],
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2026-10-03T00:00Z",
                &["2026-10-03T15:30Z", "2026-10-04T15:15Z"],
            ),
            // Samoa skipped this whole day.
            (
                "0 12 30 12 *",
                "Pacific/Apia",
                "2011-12-01T00:00Z",
                &["2011-12-30T10:00Z", "2012-12-29T22:00Z"],
            ),
            (
                "0 0 29 2 *",
                "UTC",
                "2096-03-01T00:00Z",
                &["2104-02-29T00:00Z"],
            ),
            (
                "0 9 1 * mon",
                "UTC",
                "2026-05-31T00:00Z",
                &["2026-06-01T09:00Z", "2026-06-08T09:00Z"],
            ),
            (
                "0 9 13 * 5",
                "UTC",
                "2026-02-07T00:00Z",
                &["2026-02-13T09:00Z", "2026-02-20T09:00Z"],
            ),
        ];
        for (line, zone, from, expected) in rows {
            let timing = Timing::parse(None, Some(line), zone).unwrap();
            assert_eq!(
                ticks(&timing, from, from, expected.len()),
                expected,
                "{line} in {zone} from {from}"
            );
        }
    }
}
