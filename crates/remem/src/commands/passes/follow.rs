//! Starts a job and watches it: on a server by polling its progress, on a store that this process
//! opened by also running it.

use crate::cli::GlobalArgs;
use crate::commands::remote_api;
use crate::{config, host, output};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use remem_engine::registry::{self, PassMode};
use remem_server::{LocalApi, MemoryApi};
use remem_wire::pass::{JobDoc, PassRan, PassRun};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The memory API for a command, and the engine behind it if that is in this process: then no other
/// process may be running its jobs.
pub struct OpenedApi {
    pub api: Arc<dyn MemoryApi>,
    local: Option<LocalApi>,
}

impl OpenedApi {
    pub async fn open(global: &GlobalArgs) -> anyhow::Result<OpenedApi> {
        let config = config::load(global, None)?;
        if !global.local {
            return Ok(OpenedApi {
                api: remote_api(global, &config).await?,
                local: None,
            });
        }
        let local = host::local_api(&config, global.local_tenant()).await?;
        Ok(OpenedApi {
            api: Arc::new(local.clone()),
            local: Some(local),
        })
    }
}

/// Starts a job and, if `wait` is true, waits for its end.
pub async fn start_job(
    global: &GlobalArgs,
    opened: &OpenedApi,
    name: &str,
    run: PassRun,
    wait: bool,
) -> anyhow::Result<()> {
    let PassRan::Started(job) = opened.api.run_pass(name, run, None).await? else {
        bail!("{name} became no job")
    };
    if !wait {
        if global.json {
            return output::json(&job);
        }
        println!("{}: {}", job.id, job.state);
        return Ok(());
    }
    let job = follow_job(opened, *job).await?;
    if global.json {
        output::json(&job)?;
    } else {
        println!(
            "{name}: {} examined, {} changed, {}",
            job.examined, job.changed, job.state
        );
    }
    check_done(job)
}

/// Shows the progress of a job until it has ended, and runs it if the engine is in this process.
pub async fn follow_job(opened: &OpenedApi, job: JobDoc) -> anyhow::Result<JobDoc> {
    let ended = AtomicBool::new(false);
    let pass = job.pass.clone();
    let (job, ()) = tokio::join!(
        watch_job(opened, job, &ended),
        run_jobs(opened, &pass, &ended)
    );
    job
}

/// Fails unless the job is done.
pub fn check_done(job: JobDoc) -> anyhow::Result<()> {
    match job.error {
        Some(error) if job.state == "failed" => {
            let details = if error.details.is_empty() {
                String::new()
            } else {
                format!(" {}", serde_json::Value::Object(error.details))
            };
            bail!("the job {} failed: {}{details}", job.id, error.code)
        }
        _ if job.state != "done" => bail!("the job {} was {}", job.id, job.state),
        _ => Ok(()),
    }
}

/// Runs the queued jobs of a pass until the watched one has ended, on an engine in this process. An
/// activation is never cancelled in the middle, because its lease would stay taken.
async fn run_jobs(opened: &OpenedApi, name: &str, ended: &AtomicBool) {
    let (Some(local), Some(pass)) = (&opened.local, registry::find(name)) else {
        return;
    };
    while !ended.load(Ordering::SeqCst) {
        if let Err(error) = local
            .engine
            .run_pass(pass, local.caller.tenant(), PassMode::Apply)
            .await
        {
            tracing::debug!(pass = name, %error, "not now");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Shows the progress of a job until it has ended. Ctrl-C cancels the job, a second one stops
/// watching.
async fn watch_job(
    opened: &OpenedApi,
    mut job: JobDoc,
    ended: &AtomicBool,
) -> anyhow::Result<JobDoc> {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {pos}/{len}") {
        bar.set_style(style);
    }
    let mut cancelled = false;
    let result = loop {
        bar.set_length(job.total);
        bar.set_position(job.done);
        bar.set_message(if job.phase.is_empty() {
            job.state.clone()
        } else {
            job.phase.clone()
        });
        if job.ended_at.is_some() {
            break Ok(job);
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => {
                if cancelled {
                    break Err(anyhow::anyhow!("not waiting for {} any more", job.id));
                }
                cancelled = true;
                bar.suspend(|| eprintln!("cancelling {}; press Ctrl-C again to leave it alone", job.id));
                if let Err(error) = opened.api.cancel_job(&job.id).await {
                    bar.suspend(|| eprintln!("{error}"));
                }
            }
        }
        match opened.api.job(&job.id).await {
            Ok(now) => job = now,
            Err(error) => break Err(error.into()),
        }
    };
    ended.store(true, Ordering::SeqCst);
    bar.finish_and_clear();
    result
}
