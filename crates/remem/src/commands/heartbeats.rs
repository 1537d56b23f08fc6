//! `remem heartbeat`: lists, sets and removes heartbeats, the regular checks of a memory.

use super::api;
use crate::cli::{GlobalArgs, HeartbeatCommand};
use crate::output::{self, UsageError, preview};
use remem_wire::heartbeat::{HeartbeatDoc, HeartbeatList, HeartbeatPut};

pub async fn run(global: &GlobalArgs, command: &HeartbeatCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        HeartbeatCommand::List => show(global, api.heartbeats().await?),
        HeartbeatCommand::Set(set) => {
            let seconds = set.every.ms().and_then(|ms| u32::try_from(ms / 1_000).ok());
            let every_seconds = seconds.ok_or_else(|| {
                UsageError("--every is too long; heartbeats take hours or days".to_owned())
            })?;
            let memory_ref = set.memory_ref.clone();
            let key = set.statement.join(" ");
            let tag = set.tag.clone();
            let put = HeartbeatPut {
                memory_ref,
                key,
                tag,
                every_seconds,
                enabled: Some(!set.off),
            };
            let heartbeat = api.put_heartbeat(&set.id, put).await?;
            if global.json {
                return output::json(&heartbeat);
            }
            show(
                global,
                HeartbeatList {
                    heartbeats: vec![heartbeat],
                },
            )
        }
        HeartbeatCommand::Remove { id } => {
            api.remove_heartbeat(id).await?;
            if !global.json {
                println!("removed");
            }
            Ok(())
        }
    }
}

fn show(global: &GlobalArgs, list: HeartbeatList) -> anyhow::Result<()> {
    if global.json {
        return output::json(&list);
    }
    let dash = || "-".to_owned();
    let row = |heartbeat: HeartbeatDoc| {
        let looks = if heartbeat.enabled {
            format!("every {} s", heartbeat.every_seconds)
        } else {
            "off".to_owned()
        };
        let holds = heartbeat.holds.map_or_else(dash, |holds| {
            if holds { "true" } else { "false" }.to_owned()
        });
        let last = heartbeat.last_at.map_or_else(dash, |at| {
            format!("{at} {}", heartbeat.last_status.unwrap_or_default())
        });
        vec![
            preview(&heartbeat.id, 40),
            preview(&heartbeat.memory_ref, 40),
            preview(&heartbeat.key, 50),
            preview(&heartbeat.tag, 30),
            looks,
            holds,
            last,
        ]
    };
    let heading = [
        "HEARTBEAT",
        "MEMORY",
        "CONDITION",
        "TAG",
        "CHECKS",
        "NOW",
        "LAST CHECK",
    ];
    output::table(
        &heading,
        list.heartbeats.into_iter().map(row).collect(),
        "no heartbeats",
    );
    Ok(())
}
