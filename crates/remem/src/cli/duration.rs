//! Durations as people type them: `90s`, `12h`, `7d`, `1h30m`, or ISO 8601 (`P7D`, `PT12H`). All
//! options that take a duration take both.

use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, Unit};

/// The error for a value that is no duration.
const EXPECTED: &str = "expected a duration such as 90s, 15m, 12h, 7d or 2w, or ISO 8601 (P7D)";

/// A duration longer than zero, as somebody typed it.
#[derive(Clone, Copy, Debug)]
pub struct Duration(Span);

/// Parses the value of an option that takes a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let span: Span = text.trim().parse().map_err(|_| EXPECTED.to_owned())?;
    if span.is_negative() || span.is_zero() {
        return Err("expected a duration longer than zero".to_owned());
    }
    Ok(Duration(span))
}

impl Duration {
    /// The duration in ISO 8601, as the API takes it.
    pub fn iso(self) -> String {
        self.0.to_string()
    }

    /// Its length in milliseconds, with days of 24 hours; `None` for months and years, which have no
    /// fixed length.
    pub fn ms(self) -> Option<i64> {
        if self.0.get_months() != 0 || self.0.get_years() != 0 {
            return None;
        }
        let day = SpanRelativeTo::days_are_24_hours();
        let ms = self.0.total((Unit::Millisecond, day)).ok()?;
        // Spans reach to the year 9999, which f64 counts in milliseconds without loss.
        Some(ms as i64)
    }

    /// Returns `now` plus this duration, by the calendar of UTC.
    pub fn after(self, now: remem_core::Timestamp) -> Option<remem_core::Timestamp> {
        let now = Timestamp::from_millisecond(now.0).ok()?;
        let then = now.to_zoned(TimeZone::UTC).checked_add(self.0).ok()?;
        Some(remem_core::Timestamp(then.timestamp().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_iso_durations_are_equivalent() {
        for (short, iso, ms) in [
            ("500ms", "PT0.5S", 500),
            ("90s", "PT90S", 90_000),
            ("15m", "PT15M", 900_000),
            ("12h", "PT12H", 43_200_000),
            ("7d", "P7D", 604_800_000),
            ("2w", "P2W", 1_209_600_000),
            ("1h30m", "PT1H30M", 5_400_000),
        ] {
            for text in [short, iso] {
                let duration = duration(text).unwrap();
                assert_eq!(
                    (duration.iso().as_str(), duration.ms()),
                    (iso, Some(ms)),
                    "{text}"
                );
            }
        }
        assert_eq!(duration("1y").unwrap().ms(), None);
        assert_eq!(duration("1mo").unwrap().iso(), "P1M");
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in [
            "",
            "banana",
            "7",
            "-7d",
            "0s",
            "PT0S",
            "P",
            "12 parsecs",
            "7d ago",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_added_in_calendar_units() {
        let january = remem_core::Timestamp(1_769_817_600_000); // 2026-01-31T00:00:00Z
        let then = |text: &str| duration(text).unwrap().after(january).unwrap().rfc3339();
        assert_eq!(then("1mo"), "2026-02-28T00:00:00.000Z");
        assert_eq!(then("36h"), "2026-02-01T12:00:00.000Z");
        assert!(duration("P9000Y").unwrap().after(january).is_none());
    }
}
