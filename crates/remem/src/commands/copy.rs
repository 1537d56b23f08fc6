//! `remem copy`: copies a whole host from one store to another. It shows the progress, then what
//! was copied and compared.
//!
//! The URLs of stores may hold passwords: no text of this file echoes one.

use crate::cli::{CopyArgs, GlobalArgs, RememCli};
use crate::output::{self, UsageError};
use crate::{config, host};
use anyhow::{Context, bail};
use clap::CommandFactory;
use clap::parser::ValueSource;
use indicatif::{ProgressBar, ProgressStyle};
use remem_core::TenantId;
use remem_engine::ports::{Clock, SystemClock};
use remem_store_sql::copy::{
    self, CopyLocation, CopyOptions, CopyPhase, CopyProgress, TenantReport,
};
use remem_store_sql::postgres::{self, PostgresTarget};
use serde_json::json;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// The longest time that a database transaction may take: a page with its index is written in one,
/// and the check of the target reads all of a tenant in another.
const DEADLINE: Duration = Duration::from_secs(300);
/// Number of database connections: one reads the snapshot, one writes, one looks up keys; the rest
/// is reserve.
const CONNECTIONS: usize = 6;

pub async fn run(global: &GlobalArgs, copy: &CopyArgs) -> anyhow::Result<()> {
    let config = config::load(global, None)?;
    let secret = config
        .storage
        .host_key_file
        .as_deref()
        .map(host::read_secret_file)
        .transpose()?;
    let from = parse_store("--from", &copy.from, secret)?;
    let to = parse_store("--to", &copy.to, secret)?;
    let options = CopyOptions {
        tenant: only_tenant()?,
        dry_run: copy.dry_run,
    };
    let bar = progress_bar(global);
    let reports = copy::copy(from, to, &options, &mut |progress| {
        show_progress(&bar, progress)
    })
    .await;
    bar.finish_and_clear();
    let reports = reports?;
    print_reports(global, copy, &reports)?;
    let moved: Vec<&str> = reports
        .iter()
        .filter(|r| r.source_changed)
        .map(|r| r.tenant.as_str())
        .collect();
    if !moved.is_empty() {
        bail!(
            "the source was written to during the copy (tenant {}); stop its writers and repeat the command",
            moved.join(", ")
        );
    }
    Ok(())
}

/// Returns the tenant of the command line. A tenant from the environment is for everyday commands
/// and does not restrict a copy.
fn only_tenant() -> anyhow::Result<Option<TenantId>> {
    let Ok(matches) = RememCli::command().try_get_matches_from(std::env::args_os()) else {
        return Ok(None);
    };
    let Some(matches) = matches.subcommand_matches("copy") else {
        return Ok(None);
    };
    if matches.value_source("tenant") != Some(ValueSource::CommandLine) {
        return Ok(None);
    }
    let name: Option<&String> = matches.get_one("tenant");
    name.map(|name| TenantId::parse(name).context("--tenant is not a valid name"))
        .transpose()
}

fn parse_store(option: &str, text: &str, secret: Option<[u8; 32]>) -> anyhow::Result<CopyLocation> {
    if let Some(folder) = text.strip_prefix("sqlite:") {
        let folder = folder.strip_prefix("//").unwrap_or(folder);
        if folder.is_empty() {
            return Err(wrong_usage(option));
        }
        return Ok(CopyLocation::Folder(PathBuf::from(folder)));
    }
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err(wrong_usage(option));
    }
    let target = PostgresTarget::parse(text).with_context(|| option.to_owned())?;
    let options = postgres::PostgresOptions {
        target,
        worker: None,
        connections: CONNECTIONS,
        wait: DEADLINE,
        waiters_max: postgres::WAITERS_MAX,
        deadline: DEADLINE,
        exact_max: postgres::EXACT_MAX,
        local_ms: || SystemClock.now().0,
    };
    Ok(CopyLocation::Database {
        options: Box::new(options),
        secret,
    })
}

/// A wrong usage that does not echo the value.
fn wrong_usage(option: &str) -> anyhow::Error {
    let text = format!("{option} must be sqlite:DIR or postgres://USER:PASSWORD@HOST/NAME");
    UsageError(text).into()
}

fn progress_bar(global: &GlobalArgs) -> ProgressBar {
    if global.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix} {bar:30} {msg} eta {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

fn show_progress(bar: &ProgressBar, progress: &CopyProgress) -> ControlFlow<()> {
    let (entries, of_entries) = progress.entries;
    let (events, of_events) = progress.events;
    let step = if progress.phase == CopyPhase::Copying {
        "copying"
    } else {
        "checking"
    };
    bar.set_prefix(format!("{step} {}", progress.tenant));
    bar.set_length(of_entries + of_events);
    bar.set_position(entries + events);
    bar.set_message(format!(
        "{entries}/{of_entries} entries {events}/{of_events} events"
    ));
    ControlFlow::Continue(())
}

fn print_reports(
    global: &GlobalArgs,
    copy: &CopyArgs,
    reports: &[TenantReport],
) -> anyhow::Result<()> {
    if global.json {
        let tenants: Vec<_> = reports.iter().map(report_json).collect();
        return output::json(&json!({"dryRun": copy.dry_run, "tenants": tenants}));
    }
    let rows = reports.iter().map(|r| {
        let hash = if r.hash.is_empty() {
            "-".to_owned()
        } else {
            r.hash.clone()
        };
        let verified = if r.verified { "yes" } else { "-" };
        vec![
            r.tenant.to_string(),
            r.entries.to_string(),
            r.events.to_string(),
            hash,
            verified.to_owned(),
        ]
    });
    output::table(
        &["TENANT", "ENTRIES", "EVENTS", "HASH", "VERIFIED"],
        rows.collect(),
        "no tenants",
    );
    Ok(())
}

fn report_json(r: &TenantReport) -> serde_json::Value {
    let hash = (!r.hash.is_empty()).then_some(&r.hash);
    json!({"tenant": r.tenant.as_str(), "entries": r.entries, "events": r.events, "hash": hash, "verified": r.verified, "moved": r.source_changed})
}
