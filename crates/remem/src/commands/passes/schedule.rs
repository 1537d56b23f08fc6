//! `remem pass schedule`: shows schedules, sets one or removes one.

use super::parse_options;
use crate::cli::{Duration, GlobalArgs, PassScheduleArgs};
use crate::output;
use remem_server::MemoryApi;
use remem_wire::pass::{ScheduleDoc, ScheduleList, SchedulePut, ScheduleQuery};
use std::sync::Arc;

pub async fn run(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    command: &PassScheduleArgs,
) -> anyhow::Result<()> {
    let Some(name) = &command.name else {
        return show(global, api.schedules().await?);
    };
    let query = ScheduleQuery {
        memory_ref: command.scope.clone(),
    };
    if command.off {
        api.remove_schedule(name, query).await?;
        if !global.json {
            println!("{name}: schedule removed");
        }
        return Ok(());
    }
    let schedule = if command.every.is_none() && command.cron.is_none() {
        api.schedule(name, query).await?
    } else {
        let every = command.every.map(Duration::iso);
        let cron = command.cron.clone();
        let zone = command.zone.clone();
        let put = SchedulePut {
            every,
            cron,
            zone,
            options: parse_options(&command.options)?,
            enabled: None,
        };
        api.put_schedule(name, query, put).await?
    };
    if global.json {
        return output::json(&schedule);
    }
    show(
        global,
        ScheduleList {
            schedules: vec![schedule],
        },
    )
}

fn show(global: &GlobalArgs, list: ScheduleList) -> anyhow::Result<()> {
    if global.json {
        return output::json(&list);
    }
    let dash = || "-".to_owned();
    let row = |schedule: ScheduleDoc| {
        let memory = schedule
            .memory_ref
            .as_deref()
            .map_or_else(|| "(all)".to_owned(), |memory| output::preview(memory, 40));
        let when = schedule.every.or(schedule.cron).unwrap_or_default();
        let next = schedule.next_due.map_or_else(dash, |at| at.to_string());
        let last = schedule.last_due.map_or_else(dash, |at| at.to_string());
        vec![
            schedule.pass,
            memory,
            when,
            schedule.zone,
            next,
            last,
            schedule.last_job_id.unwrap_or_else(dash),
        ]
    };
    let heading = [
        "PASS", "MEMORY", "WHEN", "ZONE", "NEXT DUE", "LAST DUE", "LAST JOB",
    ];
    output::table(
        &heading,
        list.schedules.into_iter().map(row).collect(),
        "no schedules",
    );
    Ok(())
}
