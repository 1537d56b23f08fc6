//! `remem forget` and `remem erasure`: erases a subject, and lists, shows and verifies the reports.

use super::api;
use super::passes::follow::{OpenedApi, check_done, follow_job};
use crate::cli::{ErasureCommand, ForgetArgs, GlobalArgs};
use crate::hints;
use crate::output::{self, UsageError, preview};
use anyhow::{Context, bail};
use remem_engine::forget;
use remem_wire::forget::{ErasuresQuery, ForgetAnswer, ForgetAnswered, ForgetRequest};
use serde_json::{Map, Value};
use std::fs::OpenOptions;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

type ReportMap = Map<String, Value>;

pub async fn run(global: &GlobalArgs, command: &ForgetArgs) -> anyhow::Result<()> {
    let asks = !command.yes && !command.dry_run;
    if asks && (command.subject == "-" || !std::io::stdin().is_terminal()) {
        return Err(UsageError(
            "No terminal to confirm on; pass --yes, or --dry-run to see what would be erased"
                .to_owned(),
        )
        .into());
    }
    let subject = if command.subject == "-" {
        read_line()?
    } else {
        command.subject.clone()
    };
    let opened = OpenedApi::open(global).await?;
    if asks && !ask_to_confirm(&opened, &subject).await? {
        bail!("not confirmed; nothing was erased");
    }
    // The file is created before anything is erased: the answer to the erasure is the only one that
    // brings the report unasked.
    let mut file = command
        .report
        .as_deref()
        .filter(|_| !command.dry_run)
        .map(create_file)
        .transpose()?;
    let answer = forget_to_end(&opened, subject, command.dry_run).await;
    let answer = answer
        .inspect_err(|_| remove_file(command.report.as_deref().filter(|_| !command.dry_run)))?;
    if let (Some(file), true) = (&mut file, answer.changed) {
        write_report(file, &answer.report)
            .context("the report cannot be written; `remem erasure show` prints it again")?;
    } else {
        remove_file(command.report.as_deref().filter(|_| file.is_some()));
    }
    if global.json {
        return output::json(&answer);
    }
    show(&answer, if command.dry_run { "would be" } else { "were" });
    if !command.dry_run && answer.changed {
        println!(
            "report {}; `remem vacuum` removes the bytes from the files now",
            text(&answer.report, "id")
        );
    }
    Ok(())
}

/// Forgets a subject, and waits for the job if it becomes one.
async fn forget_to_end(
    opened: &OpenedApi,
    subject: String,
    dry_run: bool,
) -> anyhow::Result<ForgetAnswer> {
    let request = ForgetRequest { subject, dry_run };
    let job = match opened.api.forget(request.clone()).await? {
        ForgetAnswered::Done(answer) => return Ok(answer),
        ForgetAnswered::Started(job) => follow_job(opened, *job).await?,
    };
    let report_id = job.detail.get("reportId").and_then(Value::as_str);
    let report_id = report_id.map(str::to_owned);
    check_done(job)?;
    if let Some(id) = report_id {
        let report = opened.api.erasure(&id).await?;
        return Ok(ForgetAnswer {
            changed: true,
            more: false,
            report,
        });
    }
    // Nothing was left to erase: the host says so at once.
    match opened.api.forget(request).await? {
        ForgetAnswered::Done(answer) => Ok(answer),
        ForgetAnswered::Started(job) => bail!("{} goes on with it; see `remem pass jobs`", job.id),
    }
}

/// Shows what would be erased, and asks whether to erase it.
async fn ask_to_confirm(opened: &OpenedApi, subject: &str) -> anyhow::Result<bool> {
    let planned = forget_to_end(opened, subject.to_owned(), true).await?;
    show(&planned, "would be");
    if !planned.changed {
        return Ok(true);
    }
    print!("Erase this for good? [y/N] ");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(
        line.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

fn read_line() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input is not UTF-8 text")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn create_file(path: &Path) -> anyhow::Result<std::fs::File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.with_context(|| format!("cannot write a new file {}", path.display()))
}

/// Removes the file of a report that was not written.
fn remove_file(path: Option<&Path>) {
    if let Some(path) = path {
        // This process created the file and it is empty, so one that cannot be removed does no
        // harm.
        let _ = std::fs::remove_file(path);
    }
}

fn write_report(file: &mut std::fs::File, report: &ReportMap) -> anyhow::Result<()> {
    writeln!(file, "{}", serde_json::to_string_pretty(report)?)?;
    file.sync_all()?;
    Ok(())
}

fn text(report: &ReportMap, name: &str) -> String {
    report
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn show(answer: &ForgetAnswer, verb: &str) {
    if !answer.changed {
        println!("No entries with this subject");
        return;
    }
    let rows = |list: &str, what: &str| -> Vec<Vec<String>> {
        let field =
            |item: &Value, name: &str| preview(item[name].as_str().unwrap_or_default(), 100);
        let items = answer
            .report
            .get(list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let row = |item: &Value| match item.as_str() {
            Some(digest) => vec![what.to_owned(), "-".to_owned(), preview(digest, 100)],
            None => vec![what.to_owned(), field(item, "memoryRef"), field(item, "id")],
        };
        items.map(row).collect()
    };
    let erased = rows("erased", "erased");
    let revived = rows("revived", "revived");
    let archives = rows("archives", "archive erased");
    let pages = answer.report.get("pages").and_then(Value::as_array);
    // What is on pages is not listed; what is in memories of single users is not named at all.
    let total = |list: &str, listed: &[Vec<String>]| match pages {
        Some(_) => counted(answer, list),
        None => listed.len() as u64,
    };
    println!(
        "{}{} and {} {verb} erased, {} {verb} revived",
        if answer.more { "at least " } else { "" },
        output::count(total("erased", &erased), "entry", "entries"),
        output::count(total("archives", &archives), "archive", "archives"),
        output::count(total("revived", &revived), "entry", "entries")
    );
    if let Some(pages) = pages {
        let pages = output::count(pages.len() as u64, "page", "pages");
        println!("they are named on {pages} of the report: `remem erasure show ID --page 1`");
    }
    let commitments = counted(answer, "commitments");
    if commitments > 0 {
        let commitments = output::count(commitments, "commitment", "commitments");
        println!("{commitments} {verb} cancelled with them");
    }
    output::table(
        &["WHAT", "MEMORY", "ID"],
        [erased, archives, revived].concat(),
        "",
    );
}

/// One of the counts of a report.
fn counted(answer: &ForgetAnswer, name: &str) -> u64 {
    let counts = answer.report.get("counts");
    counts.and_then(|counts| counts[name].as_u64()).unwrap_or(0)
}

pub async fn erasure(global: &GlobalArgs, command: &ErasureCommand) -> anyhow::Result<()> {
    match command {
        ErasureCommand::List => list(global).await,
        ErasureCommand::Show { id, page } => {
            let api = api(global).await?;
            let report = match page {
                Some(number) => api.erasure_page(id, *number).await?,
                None => api.erasure(id).await?,
            };
            if global.json {
                return output::json(&report);
            }
            println!("{}", serde_json::to_string_pretty(&report)?);
            Ok(())
        }
        ErasureCommand::Verify { file, public_key } => {
            verify(global, file, public_key.as_deref()).await
        }
    }
}

async fn list(global: &GlobalArgs) -> anyhow::Result<()> {
    let api = api(global).await?;
    let mut query = ErasuresQuery {
        limit: Some(0),
        after: None,
    };
    let mut rows = Vec::new();
    let key = loop {
        let page = api.erasures(query.clone()).await?;
        for erasure in page.erasures {
            if global.json {
                output::json(&erasure)?;
            } else {
                let commitments = erasure.counts.commitments.unwrap_or(0);
                let counts = [
                    erasure.counts.erased,
                    erasure.counts.revived,
                    erasure.counts.archives,
                    commitments,
                ]
                .map(|count| count.to_string());
                let head = vec![erasure.id, erasure.at, erasure.subject];
                rows.push([head, counts.to_vec()].concat());
            }
        }
        query.after = page.next_after;
        if query.after.is_none() {
            break page.public_key;
        }
    };
    if !global.json {
        output::table(
            &[
                "REPORT",
                "AT",
                "SUBJECT",
                "ERASED",
                "REVIVED",
                "ARCHIVES",
                "COMMITMENTS",
            ],
            rows,
            "No erasure reports",
        );
        println!("public key {key}");
    }
    Ok(())
}

/// The source of the public key that a report is verified with.
enum Signer {
    /// The key that the command line names.
    Given(String),
    /// The key of the host that the command opens.
    Host(String),
    /// The key in the report itself, which proves only that it was not changed since it was signed.
    Itself(String),
}

async fn verify(global: &GlobalArgs, file: &Path, public_key: Option<&str>) -> anyhow::Result<()> {
    let report = read_report(file)?;
    let signer = match public_key {
        Some(key) => Signer::Given(key.to_owned()),
        None if global.local || global.url.is_some() => {
            let query = ErasuresQuery {
                limit: Some(1),
                after: None,
            };
            Signer::Host(api(global).await?.erasures(query).await?.public_key)
        }
        None => Signer::Itself(
            forget::embedded_public_key(&report)
                .context("the report is not signed")?
                .to_owned(),
        ),
    };
    let (key, whose) = match &signer {
        Signer::Given(key) => (key, "the given key"),
        Signer::Host(key) => (key, "this host's key"),
        Signer::Itself(key) => (key, "the key in the report itself"),
    };
    if !forget::verify_report(&report, key) {
        bail!("invalid signature: the report is not what was signed with {whose}");
    }
    if global.json {
        return output::json(
            &serde_json::json!({"valid": true, "id": text(&report, "id"), "publicKey": key}),
        );
    }
    println!(
        "{}: signed with {whose}, {key}",
        preview(&text(&report, "id"), 60)
    );
    if matches!(signer, Signer::Itself(_)) {
        println!(
            "compare that key with the one in `remem erasure list` on the host, or pass it with --public-key"
        );
    }
    Ok(())
}

fn read_report(file: &Path) -> anyhow::Result<ReportMap> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("standard input is not UTF-8 text")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
    };
    serde_json::from_str(&text)
        .map_err(|error| anyhow::anyhow!("not a report: {}", hints::json(&error)))
}
