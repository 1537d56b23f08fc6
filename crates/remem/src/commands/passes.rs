//! `remem pass` and `remem vacuum`.

use super::door;
use crate::cli::{Global, Pass};
use crate::output;
use indicatif::ProgressBar;
use remem_server::Door;
use remem_wire::admin::{PassAnswer, PassRun};
use std::sync::Arc;
use std::time::Duration;

pub async fn run(global: &Global, command: &Pass) -> anyhow::Result<()> {
    let door = door(global).await?;
    match command {
        Pass::List => {
            let list = door.passes().await?;
            if global.json {
                return output::json(&list);
            }
            let rows = list.passes.into_iter().map(|p| {
                let last = p.last_run_at.map_or_else(|| "-".to_owned(), |t| t.to_string());
                let changed = p.last_report.map_or_else(|| "-".to_owned(), |r| r.changed.to_string());
                vec![p.name, format!("{} ms", p.period_ms), last, changed, p.description]
            });
            output::table(&["PASS", "PERIOD", "LAST RUN", "CHANGED", "WHAT"], rows.collect(), "no passes");
            Ok(())
        }
        Pass::Run { name, dry_run } => repeat(global, &door, name, PassRun { dry_run: *dry_run, compact: false }).await,
    }
}

pub async fn vacuum(global: &Global) -> anyhow::Result<()> {
    let door = door(global).await?;
    repeat(global, &door, "purge", PassRun { dry_run: false, compact: true }).await
}

/// One activation is bounded; a person who asks for a pass wants all of it.
async fn repeat(global: &Global, door: &Arc<dyn Door>, name: &str, run: PassRun) -> anyhow::Result<()> {
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let mut total = PassAnswer { examined: 0, changed: 0, more: false };
    loop {
        progress.set_message(format!("{name}: {} changed", total.changed));
        let step = door.run_pass(name, run.clone()).await?;
        total = PassAnswer { examined: total.examined + step.examined, changed: total.changed + step.changed, more: step.more };
        if !step.more || run.dry_run {
            break;
        }
    }
    progress.finish_and_clear();
    if global.json {
        return output::json(&total);
    }
    let verb = if run.dry_run { "would be changed" } else { "changed" };
    println!("{name}: {} examined, {} {verb}{}", total.examined, total.changed, if total.more { " (and more)" } else { "" });
    Ok(())
}
