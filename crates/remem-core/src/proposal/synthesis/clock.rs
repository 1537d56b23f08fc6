//! Routines of the clock: one principal starts the same thing with the same inputs, at about the
//! same time, on most days of a grid. Becomes an automation with a cron line.

use super::{RunTrace, SUPPORT_MIN, Seen, Synthesised, count, label, sources};
use crate::proposal::Kind;
use crate::proposal::automation::Target;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DAY: i32 = 24 * 60;
/// How far from the common minute, in minutes.
const NEAR: i32 = 30;
/// A share that counts as most, as a fraction: of the runs at this time of day, and of the days of
/// the grid with a run.
const MOST: (usize, usize) = (3, 4);
/// Runs on one day: more than this is not something that is done once a day.
const RUNS_A_DAY_MAX: usize = 2;
/// A minute that people would say.
const ROUND: i32 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grid {
    Daily,
    Weekdays,
    Weekly(Weekday),
}

impl Grid {
    fn has(self, date: Date) -> bool {
        match self {
            Grid::Daily => true,
            Grid::Weekdays => !is_weekend(date),
            Grid::Weekly(weekday) => date.weekday() == weekday,
        }
    }

    fn cron(self) -> String {
        match self {
            Grid::Daily => "*".to_owned(),
            Grid::Weekdays => "1-5".to_owned(),
            Grid::Weekly(weekday) => weekday.to_sunday_zero_offset().to_string(),
        }
    }

    fn adverb(self) -> &'static str {
        match self {
            Grid::Daily => "daily",
            Grid::Weekdays => "weekdays",
            Grid::Weekly(_) => "weekly",
        }
    }

    fn words(self) -> String {
        match self {
            Grid::Daily => "every day".to_owned(),
            Grid::Weekdays => "from Monday to Friday".to_owned(),
            Grid::Weekly(weekday) => format!("every {weekday:?}"),
        }
    }
}

fn is_weekend(date: Date) -> bool {
    matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Automations, if the zone is one.
pub(super) fn drafts(runs: &[Seen<'_>], zone: &str) -> Vec<Synthesised> {
    let Ok(clocks) = TimeZone::get(zone) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<(&str, &Target, &str), Vec<&RunTrace>> = BTreeMap::new();
    for run in runs {
        groups
            .entry((&run.trace.principal, &run.target, &run.inputs))
            .or_default()
            .push(run.trace);
    }
    let often = groups
        .into_iter()
        .filter(|(_, runs)| count(runs.len()) >= SUPPORT_MIN);
    often
        .filter_map(|((_, target, _), runs)| draft(target, &runs, zone, &clocks))
        .collect()
}

/// The day and the minute of the day that the clocks showed.
fn shown(run: &RunTrace, clocks: &TimeZone) -> Option<(Date, i32)> {
    let local = jiff::Timestamp::from_millisecond(run.started_at.0)
        .ok()?
        .to_zoned(clocks.clone());
    Some((
        local.date(),
        i32::from(local.hour()) * 60 + i32::from(local.minute()),
    ))
}

fn draft(
    target: &Target,
    runs: &[&RunTrace],
    zone: &str,
    clocks: &TimeZone,
) -> Option<Synthesised> {
    let shown: Vec<(Date, i32, &RunTrace)> = runs
        .iter()
        .filter_map(|run| shown(run, clocks).map(|(date, minute)| (date, minute, *run)))
        .collect();
    let minute = common_minute(shown.iter().map(|(_, minute, _)| *minute).collect())?;
    let near: Vec<(Date, &RunTrace)> = shown
        .iter()
        .filter_map(|(date, at, run)| Some((day_of(*date, *at, minute)?, *run)))
        .collect();
    let days: BTreeSet<Date> = near.iter().map(|(date, _)| *date).collect();
    if !most(near.len(), runs.len())
        || near.len() > RUNS_A_DAY_MAX * days.len()
        || count(days.len()) < SUPPORT_MIN
    {
        return None;
    }
    let grid = grid(&days)?;
    let hour = minute / 60;
    let past = minute % 60;
    let (kind, id) = label::of_target(target);
    let adverb = grid.adverb();
    let when = grid.words();
    let inputs = &near.first()?.1.inputs;
    let mut artifact = Map::new();
    artifact.insert(
        "schedule".to_owned(),
        json!({"cron": format!("{past} {hour} * * {}", grid.cron()), "zone": zone}),
    );
    artifact.insert(format!("{kind}Id"), json!(id));
    artifact.insert("inputs".to_owned(), Value::Object(inputs.clone()));
    let name = label::named(
        &format!("{id} {adverb} {hour:02}{past:02}"),
        &super::canonical(&artifact),
    );
    artifact.insert("automationId".to_owned(), json!(name));
    Some(Synthesised {
        kind: Kind::Automation,
        title: format!("Start {kind} {id} {when} at {hour:02}:{past:02}"),
        rationale: format!(
            "The same principal started {kind} {id} with the same inputs {} times on {} days, each time within {NEAR} minutes of \
             {hour:02}:{past:02} ({zone}).",
            near.len(),
            days.len()
        ),
        artifact,
        source_runs: sources(near.iter().map(|(_, run)| run.run.as_str())),
        support: count(near.len()),
    })
}

/// The minute of the day that most are near, midnight being no border.
fn common_minute(mut minutes: Vec<i32>) -> Option<i32> {
    minutes.sort_unstable();
    let around: Vec<i32> = minutes
        .iter()
        .copied()
        .chain(minutes.iter().map(|minute| minute + DAY))
        .collect();
    let mut best = 0..0;
    let mut to = 0;
    for from in 0..minutes.len() {
        while to < around.len()
            && to < from + minutes.len()
            && around[to] - around[from] <= 2 * NEAR
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
    let reach = (last - NEAR)..=(first + NEAR);
    let middle = window[(window.len() - 1) / 2].clamp(*reach.start(), *reach.end());
    let round = (middle + ROUND / 2) / ROUND * ROUND;
    Some(
        if reach.contains(&round) {
            round
        } else {
            middle
        }
        .rem_euclid(DAY),
    )
}

/// The day that a run belongs to if it is near the minute: shortly before midnight may be the next
/// day's.
fn day_of(date: Date, at: i32, minute: i32) -> Option<Date> {
    let off = (at - minute + DAY / 2).rem_euclid(DAY) - DAY / 2;
    let nominal = at - off;
    let date = if nominal < 0 {
        date.yesterday().ok()?
    } else if nominal >= DAY {
        date.tomorrow().ok()?
    } else {
        date
    };
    (off.abs() <= NEAR).then_some(date)
}

/// The narrowest grid that holds all days and of which most days are there.
fn grid(days: &BTreeSet<Date>) -> Option<Grid> {
    let first = *days.first()?;
    let last = *days.last()?;
    let narrowest = [Grid::Weekly(first.weekday()), Grid::Weekdays, Grid::Daily];
    let grid = narrowest
        .into_iter()
        .find(|grid| days.iter().all(|date| grid.has(*date)))?;
    // Many weeks with few days are no grid: there is no need to count further.
    let far = days.len() * 7 * 2;
    let all = first
        .series(jiff::Span::new().days(1))
        .take(far)
        .take_while(|date| *date <= last);
    let within = first
        .until(last)
        .is_ok_and(|span| usize::try_from(span.get_days()).is_ok_and(|days| days < far));
    (within && most(days.len(), all.filter(|date| grid.has(*date)).count())).then_some(grid)
}

fn most(part: usize, whole: usize) -> bool {
    part * MOST.1 >= whole * MOST.0
}
