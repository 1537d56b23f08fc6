//! Dates as the datasets write them, and texts that are not dates.

use remem_core::Timestamp;
use remem_eval::dates::{format_day, parse_locomo_date, parse_longmemeval_date};

#[test]
fn dates_of_both_datasets_parse_and_malformed_ones_do_not() {
    let read = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
    assert_eq!(
        read(parse_locomo_date("1:56 pm on 8 May, 2023")).as_deref(),
        Some("2023-05-08T13:56:00.000Z")
    );
    assert_eq!(
        read(parse_locomo_date("12:05 am on 29 February, 2024")).as_deref(),
        Some("2024-02-29T00:05:00.000Z")
    );
    assert_eq!(
        read(parse_locomo_date("12:30 pm on 1 January, 2022")).as_deref(),
        Some("2022-01-01T12:30:00.000Z")
    );
    assert_eq!(
        read(parse_longmemeval_date("2023/05/20 (Sat) 02:21")).as_deref(),
        Some("2023-05-20T02:21:00.000Z")
    );
    for bad in [
        "",
        "8 May, 2023",
        "13:10 pm on 8 May, 2023",
        "1:56 on 8 May, 2023",
        "1:56 pm on 31 June, 2023",
        "1:56 pm on 8 Mai, 2023",
    ] {
        assert_eq!(parse_locomo_date(bad), None, "{bad}");
    }
    for bad in [
        "",
        "2023/05/20 02:21",
        "2023/13/20 (Sat) 02:21",
        "2023-05-20 (Sat) 02:21",
        "2023/05/20 (Sat) 24:21",
    ] {
        assert_eq!(parse_longmemeval_date(bad), None, "{bad}");
    }
}

#[test]
fn a_day_is_formatted_as_day_month_and_year() {
    assert_eq!(
        format_day(parse_locomo_date("11:59 pm on 8 May, 2023").unwrap()),
        "8 May 2023"
    );
    assert_eq!(
        format_day(parse_locomo_date("12:00 am on 20 December, 2022").unwrap()),
        "20 December 2022"
    );
}
