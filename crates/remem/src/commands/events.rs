//! `remem events tail`: prints past events, and new ones as they happen.

use super::api;
use crate::cli::{EventsCommand, GlobalArgs};
use crate::output;
use remem_wire::event::EventsQuery;
use remem_wire::{EventDoc, Failure};
use std::time::Duration;

pub async fn run(global: &GlobalArgs, command: &EventsCommand) -> anyhow::Result<()> {
    let EventsCommand::Tail {
        after,
        lines,
        no_follow,
    } = command;
    let api = api(global).await?;
    let newest = api
        .events(EventsQuery {
            after: Some("latest".to_owned()),
            limit: Some(1),
        })
        .await?
        .next_after;
    let mut after = after.unwrap_or_else(|| newest.saturating_sub(*lines));
    let mut wait = Duration::from_millis(100);
    loop {
        let page = match api
            .events(EventsQuery {
                after: Some(after.to_string()),
                limit: None,
            })
            .await
        {
            Ok(page) => page,
            // A server may be restarting. The client holds the position, so it misses no event.
            Err(Failure { status: 503, .. }) if !no_follow => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
            Err(failure) => return Err(failure.into()),
        };
        for event in &page.events {
            show(global, event)?;
        }
        after = page.next_after;
        if page.events.is_empty() {
            if *no_follow {
                return Ok(());
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(1));
        } else {
            wait = Duration::from_millis(100);
        }
    }
}

fn show(global: &GlobalArgs, event: &EventDoc) -> anyhow::Result<()> {
    if global.json {
        return output::json(event);
    }
    println!(
        "{:>8}  {}  {:<16}  {}",
        event.sequence, event.timestamp, event.r#type, event.payload
    );
    Ok(())
}
