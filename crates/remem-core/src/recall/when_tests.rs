//! A table of queries with the times they name, and one of queries that name none.

use super::*;
use proptest::prelude::*;

/// The reference instant, on a Wednesday.
const NOW: &str = "2026-06-03T10:00Z";

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// "2026-06-03", "2026-06-03T12:00", or a name, in UTC.
fn instant_of(text: &str) -> Timestamp {
    match text {
        "first" => BEGINNING_OF_TIME,
        "last" => Timestamp::LAST,
        "now" => at(NOW).plus_ms(1),
        _ if text.contains('T') => at(&format!("{text}Z")),
        _ => at(&format!("{text}T00:00Z")),
    }
}

#[rustfmt::skip]
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("What did I do today?", "today", "2026-06-03", "2026-06-04"),
    ("what happened YESTERDAY", "YESTERDAY", "2026-06-02", "2026-06-03"),
    ("yesterday's meeting", "yesterday's", "2026-06-02", "2026-06-03"),
    ("notes from the day before yesterday", "the day before yesterday", "2026-06-01", "2026-06-02"),
    ("before yesterday", "before yesterday", "first", "2026-06-02"),
    ("what is due tomorrow", "tomorrow", "2026-06-04", "2026-06-05"),
    ("the plan for the day after tomorrow", "the day after tomorrow", "2026-06-05", "2026-06-06"),
    ("what did Ana say this morning", "this morning", "2026-06-03", "2026-06-03T12:00"),
    ("this afternoon", "this afternoon", "2026-06-03T12:00", "2026-06-03T18:00"),
    ("who comes tonight?", "tonight", "2026-06-03T18:00", "2026-06-04T06:00"),
    ("what did we eat last night", "last night", "2026-06-02T18:00", "2026-06-03T06:00"),
    ("yesterday evening", "yesterday evening", "2026-06-02T17:00", "2026-06-03"),
    ("Who called this week?", "this week", "2026-06-01", "2026-06-08"),
    ("last week's decisions", "last week's", "2026-05-25", "2026-06-01"),
    ("what is planned next week", "next week", "2026-06-08", "2026-06-15"),
    ("this month", "this month", "2026-06-01", "2026-07-01"),
    ("How much did I spend last month?", "last month", "2026-05-01", "2026-06-01"),
    ("next month", "next month", "2026-07-01", "2026-08-01"),
    ("goals for this year", "this year", "2026-01-01", "2027-01-01"),
    ("where did we go last year", "last year", "2025-01-01", "2026-01-01"),
    ("next year", "next year", "2027-01-01", "2028-01-01"),
    ("last quarter", "last quarter", "2026-01-01", "2026-04-01"),
    ("last weekend", "last weekend", "2026-05-30", "2026-06-01"),
    ("What did Bob promise last Monday?", "last Monday", "2026-06-01", "2026-06-02"),
    ("last wednesday", "last wednesday", "2026-05-27", "2026-05-28"),
    ("next Friday", "next Friday", "2026-06-12", "2026-06-13"),
    ("this Friday", "this Friday", "2026-06-05", "2026-06-06"),
    ("what did we decide on Monday", "on Monday", "2026-06-01", "2026-06-02"),
    ("on Friday last week", "on Friday last week", "2026-05-29", "2026-05-30"),
    ("on Monday morning", "on Monday morning", "2026-06-01", "2026-06-01T12:00"),
    ("3 days ago", "3 days ago", "2026-05-31", "2026-06-01"),
    ("two weeks ago", "two weeks ago", "2026-05-18", "2026-05-25"),
    ("a month ago", "a month ago", "2026-05-01", "2026-06-01"),
    ("Where did I live ten years ago?", "ten years ago", "2016-01-01", "2017-01-01"),
    ("a few days ago", "a few days ago", "2026-05-30", "2026-06-02"),
    ("2 hours ago", "2 hours ago", "2026-06-03T07:00", "2026-06-03T09:00"),
    ("in the last 3 weeks", "in the last 3 weeks", "2026-05-13", "now"),
    ("the past two days", "past two days", "2026-06-01", "now"),
    ("the last few months", "last few months", "2026-03-03", "now"),
    ("over the last month", "last month", "2026-05-03", "now"),
    ("What happened in May?", "in May", "2026-05-01", "2026-06-01"),
    ("in may", "in may", "2026-05-01", "2026-06-01"),
    ("in march 2024", "in march 2024", "2024-03-01", "2024-04-01"),
    ("in August", "in August", "2025-08-01", "2025-09-01"),
    ("in June of 2024", "in June of 2024", "2024-06-01", "2024-07-01"),
    ("invoices of September 2025", "September 2025", "2025-09-01", "2025-10-01"),
    ("since March", "since March", "2026-03-01", "now"),
    ("since last week", "since last week", "2026-05-25", "now"),
    ("before April 2025", "before April 2025", "first", "2025-04-01"),
    ("until February", "until February", "first", "2026-03-01"),
    ("after January 2026", "after January 2026", "2026-02-01", "last"),
    ("last June", "last June", "2025-06-01", "2025-07-01"),
    ("next May", "next May", "2027-05-01", "2027-06-01"),
    ("Where were we in 2024?", "in 2024", "2024-01-01", "2025-01-01"),
    ("In 2024 Anna moved", "In 2024", "2024-01-01", "2025-01-01"),
    ("since 2020", "since 2020", "2020-01-01", "now"),
    ("in 2025-11", "in 2025-11", "2025-11-01", "2025-12-01"),
    ("on 3 June 2025", "on 3 June 2025", "2025-06-03", "2025-06-04"),
    ("on the 3rd of June 2025", "on the 3rd of June 2025", "2025-06-03", "2025-06-04"),
    ("the call of June 3, 2025", "June 3, 2025", "2025-06-03", "2025-06-04"),
    ("on May 8", "on May 8", "2026-05-08", "2026-05-09"),
    ("on may 8th", "on may 8th", "2026-05-08", "2026-05-09"),
    ("the March 5 meeting", "March 5", "2026-03-05", "2026-03-06"),
    ("on 24 December", "on 24 December", "2025-12-24", "2025-12-25"),
    ("on 29 February", "on 29 February", "2024-02-29", "2024-03-01"),
    ("what was said on 2025-11-07?", "on 2025-11-07", "2025-11-07", "2025-11-08"),
    ("since 2026/05/30", "since 2026/05/30", "2026-05-30", "now"),
    ("log at 2026-06-01T08:30:00Z", "2026-06-01T08:30:00Z", "2026-06-01T08:30", "2026-06-01T08:31"),
    ("between March and May 2025", "between March and May 2025", "2025-03-01", "2025-06-01"),
    ("between November and February", "between November and February", "2025-11-01", "2026-03-01"),
    ("between 2020 and 2022", "between 2020 and 2022", "2020-01-01", "2023-01-01"),
    ("between yesterday and last week", "between yesterday and last week", "2026-05-25", "2026-06-03"),
    ("from Monday to Friday last week", "from Monday to Friday last week", "2026-05-25", "2026-05-30"),
    ("between 2026-01-05 and 2026-01-09", "between 2026-01-05 and 2026-01-09", "2026-01-05", "2026-01-10"),
    ("last spring", "last spring", "2026-03-01", "2026-06-01"),
    ("last summer", "last summer", "2025-06-01", "2025-09-01"),
    ("last fall", "last fall", "2025-09-01", "2025-12-01"),
    ("last autumn", "last autumn", "2025-09-01", "2025-12-01"),
    ("since last winter", "since last winter", "2025-12-01", "now"),
    ("this summer", "this summer", "2026-06-01", "2026-09-01"),
    ("in the summer of 2024", "in the summer of 2024", "2024-06-01", "2024-09-01"),
    ("winter 2023", "winter 2023", "2023-12-01", "2024-03-01"),
    ("two days before 3 June 2025", "two days before 3 June 2025", "2025-06-01", "2025-06-02"),
    ("the day after June 3, 2025", "the day after June 3, 2025", "2025-06-04", "2025-06-05"),
    ("Großartig! Was war yesterday?", "yesterday", "2026-06-02", "2026-06-03"),
    ("May I ask what happened in May?", "in May", "2026-05-01", "2026-06-01"),
];

const TRAPS: &[&str] = &[
    "May I see the contract?",
    "what may happen",
    "it may be wrong",
    "this may be the reason",
    "in what way may Ana help",
    "The second may fail",
    "the 2 may differ",
    "They march 5 miles",
    "March 5 miles a day",
    "where did they march",
    "In March of the Penguins",
    "wait a second",
    "the second chapter",
    "in a second",
    "3 seconds ago",
    "in the sun",
    "last sun rays",
    "who sat on the chair",
    "on Sun servers",
    "June and April are sisters",
    "what does August like",
    "room 2024",
    "the number 42",
    "after 2000 steps",
    "in 2000 words",
    "1984 by Orwell",
    "version 2025",
    "a long time ago",
    "a while ago",
    "the last chapter",
    "last minute changes",
    "the last fall he had",
    "the last spring of the mattress",
    "the last week of school",
    "good morning",
    "every Monday",
    "on Mondays",
    "before lunch",
    "since she left",
    "until now",
    "between us and them",
    "from home to work",
    "the song \"Yesterday\" and \"last week\"",
    "03/04/2026",
    "call 555-2024",
    "5 days",
    "one day",
    "the week before last",
    "in the fall",
    "Spring Boot",
    "next to the station",
    "[REDACTED:yesterday]",
    "",
];

fn said(query: &str, zone: &str, now: &str) -> Option<(Timestamp, Timestamp)> {
    read_query_time(query, at(now), &TimeZone::get(zone).unwrap())
        .map(|when| (when.from, when.until))
}

#[test]
fn time_expressions_are_read_from_queries() {
    let wrong = |row: &(&str, &str, &str, &str)| {
        let (query, said, from, until) = *row;
        let found = read_query_time(query, at(NOW), &TimeZone::UTC);
        let actual = found
            .as_ref()
            .map(|when| (&query[when.query_bytes.clone()], when.from, when.until));
        let right = actual == Some((said, instant_of(from), instant_of(until)));
        (!right).then(|| {
            format!(
                "{query:?}: {:?}",
                actual.map(|(said, from, until)| (said, from.rfc3339(), until.rfc3339()))
            )
        })
    };
    let wrong: Vec<String> = ROWS.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn queries_without_a_time_expression_yield_no_range() {
    let wrong: Vec<String> = TRAPS
        .iter()
        .filter_map(|query| {
            read_query_time(query, at(NOW), &TimeZone::UTC)
                .map(|when| format!("{query:?}: {:?}", &query[when.query_bytes]))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn day_ranges_follow_the_time_zone_across_dst() {
    let utc = |from: &str, until: &str| Some((at(from), at(until)));
    // Clocks go forward on 29 March 2026 in Berlin, and back on 25 October: days of 23 and of 25
    // hours.
    assert_eq!(
        said("yesterday", "Europe/Berlin", "2026-03-30T10:00Z"),
        utc("2026-03-28T23:00Z", "2026-03-29T22:00Z")
    );
    assert_eq!(
        said("yesterday", "Europe/Berlin", "2026-10-26T10:00Z"),
        utc("2026-10-24T22:00Z", "2026-10-25T23:00Z")
    );
    assert_eq!(
        said("today", "Asia/Tokyo", "2026-06-02T20:00Z"),
        utc("2026-06-02T15:00Z", "2026-06-03T15:00Z"),
        "there it is the third"
    );
    // The clocks of Berlin show half past two for the second time.
    assert_eq!(
        said("1 hour ago", "Europe/Berlin", "2026-10-25T01:30Z"),
        utc("2026-10-24T23:30Z", "2026-10-25T01:30Z")
    );
    assert_eq!(
        said("at 2026-10-25T01:30Z", "Europe/Berlin", "2026-11-01T00:00Z"),
        utc("2026-10-25T01:30Z", "2026-10-25T01:31Z")
    );
    // Midnight does not exist in Cairo on 24 April 2026: the day begins with the first instant
    // there is.
    assert_eq!(
        said("on 24 April 2026", "Africa/Cairo", "2026-06-03T10:00Z"),
        utc("2026-04-23T22:00Z", "2026-04-24T21:00Z")
    );
}

#[test]
fn relative_ranges_cross_year_boundaries() {
    let utc = |from: &str, until: &str| Some((instant_of(from), instant_of(until)));
    assert_eq!(
        said("last month", "UTC", "2026-01-15T00:00Z"),
        utc("2025-12-01", "2026-01-01")
    );
    assert_eq!(
        said("last winter", "UTC", "2026-01-15T00:00Z"),
        utc("2024-12-01", "2025-03-01")
    );
    assert_eq!(
        said("this winter", "UTC", "2026-01-15T00:00Z"),
        utc("2025-12-01", "2026-03-01")
    );
    assert_eq!(
        said("next spring", "UTC", "2026-12-31T23:00Z"),
        utc("2027-03-01", "2027-06-01")
    );
    assert_eq!(
        said("last week", "UTC", "2026-01-01T00:00Z"),
        utc("2025-12-22", "2025-12-29")
    );
    assert_eq!(
        said("in December", "UTC", "2026-01-01T00:00Z"),
        utc("2025-12-01", "2026-01-01")
    );
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn a_time_range_is_non_empty_and_refers_to_query_text(
        words in prop::collection::vec(prop::sample::select(vec![
            "in", "since", "between", "and", "last", "the", "9999", "2024", "may", "May", "June", "31", "3", "years", "ago", "of", "week",
            "before", "day", "yesterday", "ü", "\"", ",", ".", "2026-02-30", "0", "few", "night", "Sunday", "until", "a couple of", "winter", "from", "to",
        ]), 0..8),
        ms in prop::sample::select(vec![i64::MIN, -1, 0, 1_780_000_000_000, Timestamp::LAST.0, i64::MAX]),
    ) {
        let query = words.join(" ");
        if let Some(when) = read_query_time(&query, Timestamp(ms), &TimeZone::UTC) {
            prop_assert!(when.from < when.until);
            prop_assert!(query.get(when.query_bytes.clone()).is_some_and(|said| !said.is_empty()));
        }
    }
}
