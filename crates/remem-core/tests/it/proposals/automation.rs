//! Automations: written and read back, and the last due instant compared with a plain count.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::proposal::{Automation, AutomationTarget, AutomationTrigger};
use remem_core::{Policy, Timestamp};
use serde_json::{Map, Value, json};

fn automation(schedule: Value) -> Automation {
    let artifact = json!({"automationId": "a", "schedule": schedule, "workflowId": "w", "inputs": {"secret": "canary"}});
    Automation::from_map(artifact.as_object().unwrap(), &Policy::default()).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

#[test]
fn automations_round_trip_through_their_map() {
    let rows = [
        json!({"automationId": "a", "schedule": {"every": "PT90M"}, "agentId": "local.a.b", "enabled": false, "title": "T"}),
        json!({"automationId": "a", "schedule": {"cron": "0 9 * * 1-5", "zone": "Europe/Berlin"}, "workflowId": "w", "inputs": {"a": [1]}}),
        json!({"automationId": "a", "schedule": {"at": "2026-05-01T09:00:00+02:00"}, "workflowId": "w"}),
    ];
    for row in rows {
        let read = Automation::from_map(row.as_object().unwrap(), &Policy::default()).unwrap();
        let again = Automation::from_map(&read.to_map(), &Policy::default()).unwrap();
        assert_eq!(again, read);
        assert_eq!(again.to_map(), read.to_map());
    }
    let once = automation(json!({"at": "2026-05-01T09:00:00+02:00", "zone": "Europe/Berlin"}));
    assert_eq!(
        (&once.trigger, &once.target),
        (
            &AutomationTrigger::At(at("2026-05-01T07:00:00Z")),
            &AutomationTarget::Workflow("w".to_owned())
        )
    );
    assert!(once.enabled && once.title.is_none());
    assert!(!format!("{once:?}").contains("canary"));
}

#[test]
fn a_one_time_automation_is_due_once() {
    let once = automation(json!({"at": "2026-05-01T09:00:00Z"}));
    let due = at("2026-05-01T09:00:00Z");
    let before = due.plus_ms(-1);
    let after = due.plus_ms(1);
    assert_eq!(
        (once.next_due(before, before), once.next_due(before, due)),
        (Some(due), None)
    );
    for (from, now, expected) in [
        (before, before, None),
        (before, due, Some(due)),
        (before, after, Some(due)),
        (due, after, None),
    ] {
        assert_eq!(once.latest_due(before, from, now), expected);
    }
}

#[test]
fn a_disabled_automation_is_never_due() {
    let mut off = automation(json!({"every": "PT1M"}));
    off.enabled = false;
    let from = at("2026-01-01T00:00:00Z");
    let now = at("2026-02-01T00:00:00Z");
    assert_eq!(
        (off.next_due(from, from), off.latest_due(from, from, now)),
        (None, None)
    );
}

#[test]
fn millions_of_missed_ticks_collapse_into_the_latest() {
    let from = at("1990-01-01T00:00:00Z");
    let rows = [
        (
            json!({"every": "PT1M"}),
            "2026-05-05T12:34:56.789Z",
            "2026-05-05T12:34:00Z",
        ),
        (
            json!({"cron": "* * * * *"}),
            "2026-05-05T12:34:56.789Z",
            "2026-05-05T12:34:00Z",
        ),
        (
            json!({"every": "P1D", "zone": "Europe/Berlin"}),
            "2026-07-01T00:30:00Z",
            "2026-06-30T23:00:00Z",
        ),
        (
            json!({"cron": "0 0 29 2 *"}),
            "2026-05-05T00:00:00Z",
            "2024-02-29T00:00:00Z",
        ),
        (
            json!({"cron": "30 2 * * *", "zone": "Europe/Berlin"}),
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:00:00Z",
        ),
    ];
    for (schedule, now, expected) in rows {
        assert_eq!(
            automation(schedule.clone()).latest_due(from, from, at(now)),
            Some(at(expected)),
            "{schedule}"
        );
    }
}

#[test]
fn extreme_timestamps_do_not_overflow() {
    let ends = [
        Timestamp(i64::MIN),
        Timestamp(-1),
        Timestamp(0),
        Timestamp::LAST,
        Timestamp(i64::MAX),
    ];
    for schedule in [
        json!({"every": "P10Y"}),
        json!({"cron": "0 0 1 1 *"}),
        json!({"at": "2026-05-01T09:00:00Z"}),
    ] {
        let automation = automation(schedule);
        for (from, now) in ends
            .iter()
            .flat_map(|from| ends.iter().map(move |now| (*from, *now)))
        {
            let latest = automation.latest_due(Timestamp(0), from, now);
            assert!(
                latest.is_none_or(|tick| tick > from && tick <= now),
                "{from:?} {now:?}"
            );
            let _ = automation.next_due(from, now);
        }
    }
}

/// Schedules, each with the approximate time between two ticks, in minutes.
fn schedules() -> Vec<(Map<String, Value>, i64)> {
    let rows = [
        (json!({"every": "PT1M"}), 1),
        (json!({"every": "PT7M30S"}), 8),
        (json!({"every": "P1D", "zone": "America/New_York"}), 1_440),
        (json!({"every": "P1M", "zone": "Europe/Berlin"}), 43_200),
        (
            json!({"every": "P1DT1H", "zone": "Australia/Lord_Howe"}),
            1_500,
        ),
        (json!({"cron": "*/15 * * * *", "zone": "Europe/Berlin"}), 15),
        (
            json!({"cron": "30 2 * * *", "zone": "Europe/Berlin"}),
            1_440,
        ),
        (
            json!({"cron": "0 9 * * 1-5", "zone": "America/New_York"}),
            1_440,
        ),
        (json!({"cron": "5 4 1,15 * mon", "zone": "UTC"}), 4_000),
        (
            json!({"cron": "0 12 30 12 *", "zone": "Pacific/Apia"}),
            525_600,
        ),
        (json!({"at": "2026-05-01T09:00:00Z"}), 1_440),
    ];
    rows.into_iter()
        .map(|(schedule, minutes)| (schedule.as_object().unwrap().clone(), minutes))
        .collect()
}

proptest! {
    #![proptest_config(config(64, 200))]

    #[test]
    fn latest_due_equals_the_last_tick_in_the_range(
        (schedule, minutes) in prop::sample::select(schedules()),
        anchor in -20_000_000..20_000_000i64,
        start in 0..40_000_000i64,
        ticks in 0..120_000i64,
        exact in any::<bool>(),
    ) {
        let automation = automation(Value::Object(schedule));
        let after = at("2026-03-01T00:00:00Z").plus_ms(start * 300);
        let anchor = after.plus_ms(anchor * 300);
        let mut now = after.plus_ms(minutes * ticks * 60);
        if exact {
            // Mistakes are most likely at the bounds.
            now = automation.next_due(anchor, now).unwrap_or(now);
        }
        let all = std::iter::successors(automation.next_due(anchor, after), |tick| automation.next_due(anchor, *tick));
        let last = all.take_while(|tick| *tick <= now).last();
        prop_assert_eq!(automation.latest_due(anchor, after, now), last);
        if let Some(last) = last {
            prop_assert_eq!(automation.latest_due(anchor, last, now), None);
            prop_assert_eq!(automation.latest_due(anchor, last.plus_ms(-1), now), Some(last));
        }
    }
}
