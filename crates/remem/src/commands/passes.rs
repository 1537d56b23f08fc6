//! `remem pass` and `remem vacuum`.

pub(super) mod follow;
mod schedule;

use super::api;
use crate::cli::{GlobalArgs, PassCommand, PassRunArgs};
use crate::output::{self, UsageError};
use anyhow::bail;
use follow::OpenedApi;
use indicatif::ProgressBar;
use remem_server::MemoryApi;
use remem_wire::pass::{JobDoc, JobsQuery, PassAnswer, PassInfo, PassRan, PassRun};
use remem_wire::recall::EmbeddingStatus;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

pub async fn run(global: &GlobalArgs, command: &PassCommand) -> anyhow::Result<()> {
    let opened = OpenedApi::open(global).await?;
    let api = &opened.api;
    match command {
        PassCommand::List => list(global, api).await,
        PassCommand::Status { pass } => status(global, api, pass.as_deref()).await,
        PassCommand::Run(run) => run_one(global, &opened, run).await,
        PassCommand::Jobs { pass, state, limit } => {
            let query = JobsQuery {
                pass: pass.clone(),
                state: state.clone(),
                after: None,
                limit: Some(*limit),
            };
            let list = api.jobs(query).await?;
            if global.json {
                return output::json(&list);
            }
            let heading = [
                "JOB",
                "PASS",
                "MEMORY",
                "STATE",
                "EXAMINED",
                "CHANGED",
                "REQUESTED",
                "ERROR",
            ];
            output::table(&heading, list.jobs.iter().map(job_row).collect(), "no jobs");
            Ok(())
        }
        PassCommand::Cancel { job } => {
            let job = api.cancel_job(job).await?;
            if global.json {
                return output::json(&job);
            }
            println!(
                "{}: {}",
                job.id,
                if job.cancelling && job.state == "running" {
                    "stops soon"
                } else {
                    &job.state
                }
            );
            Ok(())
        }
        PassCommand::Schedule(command) => schedule::run(global, api, command).await,
    }
}

async fn list(global: &GlobalArgs, api: &Arc<dyn MemoryApi>) -> anyhow::Result<()> {
    let list = api.passes().await?;
    if global.json {
        return output::json(&list);
    }
    let row = |pass: PassInfo| {
        let options: Vec<String> = pass.options.into_iter().map(|option| option.name).collect();
        let options = if options.is_empty() {
            "-".to_owned()
        } else {
            options.join(", ")
        };
        vec![
            pass.name,
            pass.over,
            format!("{} ms", pass.period_ms),
            options,
            pass.description,
        ]
    };
    output::table_of_details(
        &["PASS", "OVER", "PERIOD", "OPTIONS", "WHAT"],
        list.passes.into_iter().map(row).collect(),
        "no passes",
    );
    Ok(())
}

async fn status(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    only: Option<&str>,
) -> anyhow::Result<()> {
    let mut list = api.passes().await?;
    list.passes
        .retain(|pass| only.is_none_or(|only| pass.name == only));
    let vectors = if only == Some("embed") {
        Some(api.embeddings().await?)
    } else {
        None
    };
    if global.json {
        return vectors.map_or_else(|| output::json(&list), |vectors| output::json(&vectors));
    }
    let dash = || "-".to_owned();
    let row = |pass: PassInfo| {
        let last = pass.last_run_at.map_or_else(dash, |at| at.to_string());
        let outcome = match (&pass.last_job, &pass.last_report) {
            (Some(job), _) => job.state.clone(),
            (None, Some(_)) => "done".to_owned(),
            (None, None) => if pass.last_run_at.is_some() {
                "failed"
            } else {
                "-"
            }
            .to_owned(),
        };
        let (examined, changed) = pass.last_report.map_or_else(
            || (dash(), dash()),
            |r| (r.examined.to_string(), r.changed.to_string()),
        );
        let took = pass
            .last_job
            .and_then(|job| job.duration_ms)
            .map_or_else(dash, |ms| format!("{ms} ms"));
        let running = pass.running.map_or_else(dash, |job| {
            format!("{} {} of {}", job.phase, job.done, job.total)
        });
        let next = pass.next_due.map_or_else(dash, |at| at.to_string());
        vec![
            pass.name,
            last,
            outcome,
            examined,
            changed,
            took,
            running,
            pass.queued.to_string(),
            next,
        ]
    };
    let heading = [
        "PASS", "LAST RUN", "OUTCOME", "EXAMINED", "CHANGED", "TOOK", "RUNNING", "QUEUED",
        "NEXT DUE",
    ];
    output::table(
        &heading,
        list.passes.into_iter().map(row).collect(),
        "no passes",
    );
    if let Some(vectors) = vectors {
        show_vectors(&vectors);
    }
    Ok(())
}

/// Prints the models and counts of embeddings.
fn show_vectors(status: &EmbeddingStatus) {
    let Some(current) = &status.current else {
        println!("\nNo embedding model; entries are found by keyword only");
        return;
    };
    println!(
        "\nmodel    {} ({} dimensions)",
        output::preview(&current.name, 80),
        current.dimensions
    );
    println!(
        "serving  {}",
        output::preview(status.serving.as_deref().unwrap_or("-"), 80)
    );
    println!("texts    {}", status.texts);
    for count in &status.vectors {
        println!(
            "vectors  {} of {}",
            count.entries,
            output::preview(&count.model, 80)
        );
    }
    if let Some(one) = &status.comparison {
        let verdict = if one.passed {
            "similar enough"
        } else {
            "not similar enough: the previous model stays in use"
        };
        println!(
            "compared with the previous model: overlap {:.2}, agreement {:.2}, {} questions; {verdict}",
            one.overlap, one.agreement, one.questions
        );
    }
}

fn job_row(job: &JobDoc) -> Vec<String> {
    let memory = job
        .memory_ref
        .as_deref()
        .map_or_else(|| "(all)".to_owned(), |memory| output::preview(memory, 40));
    let error = job
        .error
        .as_ref()
        .map_or_else(|| "-".to_owned(), |error| error.code.clone());
    let examined = job.examined.to_string();
    let changed = job.changed.to_string();
    vec![
        job.id.clone(),
        job.pass.clone(),
        memory,
        job.state.clone(),
        examined,
        changed,
        job.requested_at.to_string(),
        error,
    ]
}

async fn run_one(global: &GlobalArgs, opened: &OpenedApi, run: &PassRunArgs) -> anyhow::Result<()> {
    let known = opened
        .api
        .passes()
        .await?
        .passes
        .into_iter()
        .find(|pass| pass.name == run.name);
    let over_memory = known.is_some_and(|pass| pass.over == "memory");
    if over_memory && run.scope.is_none() && !run.all {
        return Err(UsageError(format!(
            "the pass {} runs over memories; name one with --scope, or pass --all",
            run.name
        ))
        .into());
    }
    let wanted = PassRun {
        dry_run: run.dry_run,
        compact: false,
        memory_ref: run.scope.clone(),
        options: parse_options(&run.options)?,
    };
    if over_memory && !run.dry_run {
        return follow::start_job(global, opened, &run.name, wanted, !run.no_wait).await;
    }
    run_to_end(global, &opened.api, &run.name, wanted).await
}

/// Parses options of the form `name=value`. A value that reads as a number or a boolean is one.
fn parse_options(given: &[String]) -> anyhow::Result<Map<String, Value>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| UsageError(format!("--option '{text}' is not NAME=VALUE")))?;
        let parsed = serde_json::from_str(value)
            .ok()
            .filter(|value: &Value| value.is_number() || value.is_boolean());
        Ok((
            name.to_owned(),
            parsed.unwrap_or_else(|| Value::from(value)),
        ))
    };
    given.iter().map(pair).collect()
}

pub async fn vacuum(global: &GlobalArgs) -> anyhow::Result<()> {
    let api = api(global).await?;
    run_to_end(
        global,
        &api,
        "purge",
        PassRun {
            compact: true,
            ..PassRun::default()
        },
    )
    .await
}

/// Runs a pass until it has no more work: each activation is bounded, but a person who runs a pass
/// by hand expects all of it done.
async fn run_to_end(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    name: &str,
    run: PassRun,
) -> anyhow::Result<()> {
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let mut total = PassAnswer::default();
    loop {
        progress.set_message(format!("{name}: {} changed", total.changed));
        let PassRan::Done(step) = api.run_pass(name, run.clone(), None).await? else {
            bail!("{name} became a job")
        };
        let examined = total.examined + step.examined;
        let changed = total.changed + step.changed;
        total = PassAnswer {
            examined,
            changed,
            ..step
        };
        if !total.more || run.dry_run {
            break;
        }
    }
    progress.finish_and_clear();
    if global.json {
        return output::json(&total);
    }
    let verb = if run.dry_run {
        "would be changed"
    } else {
        "changed"
    };
    println!(
        "{name}: {} examined, {} {verb}{}",
        total.examined,
        total.changed,
        if total.more { " (and more)" } else { "" }
    );
    Ok(())
}
