//! Repeated times: one principal starts the same thing with the same inputs, at about the same
//! time, on most days of a calendar pattern. Becomes an automation with a cron line.

use super::{
    ProposalDraft, RunTrace, SUPPORT_MIN, TracedRun, draft_name, newest_run_ids, saturating_u32,
};
use crate::proposal::ProposalKind;
use crate::proposal::automation::AutomationTarget;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DAY_MINUTES: i32 = 24 * 60;
/// The largest distance from the common minute, in minutes.
const NEAR_MINUTES: i32 = 30;
/// The share that counts as most, as a fraction: of the runs at this time of day, and of the days
/// of the pattern with a run.
const MOST_SHARE: (usize, usize) = (3, 4);
/// The most runs per day on average: with more, it is not a daily habit.
const RUNS_A_DAY_MAX: usize = 2;
/// Times are rounded to this many minutes, as people would say them.
const ROUND_TO_MINUTES: i32 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum CalendarPattern {
    Daily,
    Weekdays,
    Weekly(Weekday),
}

impl CalendarPattern {
    fn includes(self, date: Date) -> bool {
        match self {
            CalendarPattern::Daily => true,
            CalendarPattern::Weekdays => !is_weekend(date),
            CalendarPattern::Weekly(weekday) => date.weekday() == weekday,
        }
    }

    fn cron(self) -> String {
        match self {
            CalendarPattern::Daily => "*".to_owned(),
            CalendarPattern::Weekdays => "1-5".to_owned(),
            CalendarPattern::Weekly(weekday) => weekday.to_sunday_zero_offset().to_string(),
        }
    }

    fn adverb(self) -> &'static str {
        match self {
            CalendarPattern::Daily => "daily",
            CalendarPattern::Weekdays => "weekdays",
            CalendarPattern::Weekly(_) => "weekly",
        }
    }

    fn in_words(self) -> String {
        match self {
            CalendarPattern::Daily => "every day".to_owned(),
            CalendarPattern::Weekdays => "from Monday to Friday".to_owned(),
            CalendarPattern::Weekly(weekday) => format!("every {weekday:?}"),
        }
    }
}

fn is_weekend(date: Date) -> bool {
    matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Drafts automations; none if the time zone is unknown.
pub(super) fn drafts(runs: &[TracedRun<'_>], zone: &str) -> Vec<ProposalDraft> {
    let Ok(time_zone) = TimeZone::get(zone) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<(&str, &AutomationTarget, &str), Vec<&RunTrace>> = BTreeMap::new();
    for run in runs {
        groups
            .entry((&run.trace.principal, &run.target, &run.inputs))
            .or_default()
            .push(run.trace);
    }
    let often = groups
        .into_iter()
        .filter(|(_, runs)| saturating_u32(runs.len()) >= SUPPORT_MIN);
    often
        .filter_map(|((_, target, _), runs)| draft(target, &runs, zone, &time_zone))
        .collect()
}

/// The local day and minute of the day at which a run started.
fn local_start(run: &RunTrace, time_zone: &TimeZone) -> Option<(Date, i32)> {
    let local = jiff::Timestamp::from_millisecond(run.started_at.0)
        .ok()?
        .to_zoned(time_zone.clone());
    Some((
        local.date(),
        i32::from(local.hour()) * 60 + i32::from(local.minute()),
    ))
}

fn draft(
    target: &AutomationTarget,
    runs: &[&RunTrace],
    zone: &str,
    time_zone: &TimeZone,
) -> Option<ProposalDraft> {
    let local_starts: Vec<(Date, i32, &RunTrace)> = runs
        .iter()
        .filter_map(|run| local_start(run, time_zone).map(|(date, minute)| (date, minute, *run)))
        .collect();
    let minute = common_minute(local_starts.iter().map(|(_, minute, _)| *minute).collect())?;
    let near: Vec<(Date, &RunTrace)> = local_starts
        .iter()
        .filter_map(|(date, at, run)| Some((day_of(*date, *at, minute)?, *run)))
        .collect();
    let days: BTreeSet<Date> = near.iter().map(|(date, _)| *date).collect();
    if !is_most(near.len(), runs.len())
        || near.len() > RUNS_A_DAY_MAX * days.len()
        || saturating_u32(days.len()) < SUPPORT_MIN
    {
        return None;
    }
    let pattern = pattern(&days)?;
    let hour = minute / 60;
    let past = minute % 60;
    let (kind, id) = draft_name::kind_and_id(target);
    let adverb = pattern.adverb();
    let when = pattern.in_words();
    let inputs = &near.first()?.1.inputs;
    let mut artifact = Map::new();
    artifact.insert(
        "schedule".to_owned(),
        json!({"cron": format!("{past} {hour} * * {}", pattern.cron()), "zone": zone}),
    );
    artifact.insert(format!("{kind}Id"), json!(id));
    artifact.insert("inputs".to_owned(), Value::Object(inputs.clone()));
    let name = draft_name::name_with_hash(
        &format!("{id} {adverb} {hour:02}{past:02}"),
        &super::canonical(&artifact),
    );
    artifact.insert("automationId".to_owned(), json!(name));
    Some(ProposalDraft {
        kind: ProposalKind::Automation,
        title: format!("Start {kind} {id} {when} at {hour:02}:{past:02}"),
        rationale: format!(
            "The same principal started {kind} {id} with the same inputs {} times on {} days, each time within {NEAR_MINUTES} minutes of \
             {hour:02}:{past:02} ({zone}).",
            near.len(),
            days.len()
        ),
        artifact,
        source_runs: newest_run_ids(near.iter().map(|(_, run)| run.run.as_str())),
        support: saturating_u32(near.len()),
    })
}

/// The minute of the day that most of the given minutes are near; the day wraps around at midnight.
fn common_minute(mut minutes: Vec<i32>) -> Option<i32> {
    minutes.sort_unstable();
    let around: Vec<i32> = minutes
        .iter()
        .copied()
        .chain(minutes.iter().map(|minute| minute + DAY_MINUTES))
        .collect();
    let mut best = 0..0;
    let mut to = 0;
    for from in 0..minutes.len() {
        while to < around.len()
            && to < from + minutes.len()
            && around[to] - around[from] <= 2 * NEAR_MINUTES
        {
            to += 1;
        }
        if to - from > best.len() {
            best = from..to;
        }
    }
    let window = &around[best];
    let first = *window.first()?;
    let last = *window.last()?;
    let reach = (last - NEAR_MINUTES)..=(first + NEAR_MINUTES);
    let middle = window[(window.len() - 1) / 2].clamp(*reach.start(), *reach.end());
    let round = (middle + ROUND_TO_MINUTES / 2) / ROUND_TO_MINUTES * ROUND_TO_MINUTES;
    Some(
        if reach.contains(&round) {
            round
        } else {
            middle
        }
        .rem_euclid(DAY_MINUTES),
    )
}

/// The day that a run belongs to if it is near the minute: a run shortly before midnight may belong
/// to the next day.
fn day_of(date: Date, at: i32, minute: i32) -> Option<Date> {
    let off = (at - minute + DAY_MINUTES / 2).rem_euclid(DAY_MINUTES) - DAY_MINUTES / 2;
    let nominal = at - off;
    let date = if nominal < 0 {
        date.yesterday().ok()?
    } else if nominal >= DAY_MINUTES {
        date.tomorrow().ok()?
    } else {
        date
    };
    (off.abs() <= NEAR_MINUTES).then_some(date)
}

/// The narrowest calendar pattern that contains all days and of which most days are present.
fn pattern(days: &BTreeSet<Date>) -> Option<CalendarPattern> {
    let first = *days.first()?;
    let last = *days.last()?;
    let narrowest = [
        CalendarPattern::Weekly(first.weekday()),
        CalendarPattern::Weekdays,
        CalendarPattern::Daily,
    ];
    let pattern = narrowest
        .into_iter()
        .find(|pattern| days.iter().all(|date| pattern.includes(*date)))?;
    // A few days spread over many weeks are not a pattern, so counting stops here.
    let far = days.len() * 7 * 2;
    let all = first
        .series(jiff::Span::new().days(1))
        .take(far)
        .take_while(|date| *date <= last);
    let within = first
        .until(last)
        .is_ok_and(|span| usize::try_from(span.get_days()).is_ok_and(|days| days < far));
    (within
        && is_most(
            days.len(),
            all.filter(|date| pattern.includes(*date)).count(),
        ))
    .then_some(pattern)
}

fn is_most(part: usize, whole: usize) -> bool {
    part * MOST_SHARE.1 >= whole * MOST_SHARE.0
}
